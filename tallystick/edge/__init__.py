"""The doors. One folder each; inside: parse, an ERRORS table, render. Edges never import each other."""
