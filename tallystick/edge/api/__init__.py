"""The host API for programs of this machine: JSON lines over Unix sockets."""

from tallystick.edge.api.errors import ERRORS
from tallystick.edge.api.running import Gone
from tallystick.edge.api.server import ApiServer, control_path

__all__ = ["ERRORS", "ApiServer", "Gone", "control_path"]
