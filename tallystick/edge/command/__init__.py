"""Agents that are a command line: a test runner, a linter, any headless coding client."""

from tallystick.edge.command.transport import CommandTransport
from tallystick.edge.command.wake import CommandWaker

__all__ = ["CommandTransport", "CommandWaker"]
