"""The rules. Pure: no input or output, no clock, no chance, no logging; the standard library and msgspec only."""
