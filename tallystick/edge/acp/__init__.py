"""Coding agents that the host drives over the Agent Client Protocol. The SDK is imported with the first session."""

from tallystick.edge.acp.around import Around
from tallystick.edge.acp.registry import DRIVEN, Driven, Registry, driven
from tallystick.edge.acp.transport import AcpTransport
from tallystick.edge.acp.wake import DriveWaker

__all__ = ["DRIVEN", "AcpTransport", "Around", "DriveWaker", "Driven", "Registry", "driven"]
