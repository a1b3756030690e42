"""The tools that agents load: the Model Context Protocol, served inside the host. `tally mcp` only forwards."""

from tallystick.edge.mcp.errors import ERRORS
from tallystick.edge.mcp.http import Extra, McpHttp
from tallystick.edge.mcp.protocol import Protocol
from tallystick.edge.mcp.serving import Serving
from tallystick.edge.mcp.tools import LISTED, TOOLS

__all__ = ["ERRORS", "LISTED", "TOOLS", "Extra", "McpHttp", "Protocol", "Serving"]
