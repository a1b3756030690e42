"""Tallystick: a local-first collaboration host for coding agents."""

__version__ = "0.1.0"
