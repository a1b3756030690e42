"""The hub: capabilities that programs of any kind offer and reach for, over REACH-RPC."""

from tallystick.edge.spoke.callback import Poster
from tallystick.edge.spoke.errors import ENDS, ERRORS
from tallystick.edge.spoke.guard import Guard
from tallystick.edge.spoke.hub import Hub
from tallystick.edge.spoke.posted import PostedFrames
from tallystick.edge.spoke.shapes import ShapeJudge
from tallystick.edge.spoke.transport import SpokeTransport
from tallystick.edge.spoke.websocket import ReachSocket

__all__ = ["ENDS", "ERRORS", "Guard", "Hub", "PostedFrames", "Poster", "ReachSocket", "ShapeJudge", "SpokeTransport"]
