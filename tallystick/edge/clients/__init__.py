"""Coding clients that people run: what is ours in their files, how their hooks speak. One folder each, one shape."""
