"""What one client over HTTP may take of the host."""

from __future__ import annotations

import msgspec

from tallystick import wire


class HttpBounds(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of size, number and patience. Whoever exceeds one is refused or disconnected; nothing else suffers."""

    body_bytes: int = wire.LINE_BYTES
    """Of a request, and of a message over WebSocket."""
    head_bytes: int = 64 * 1024
    request_seconds: float = 30.0
    """From the first byte of a request, or the opening of the connection, to the last byte of the request."""
    write_seconds: float = 30.0
    """How long a client may leave unread what was sent."""
    idle_seconds: int = 75
    """Between two requests."""
    hello_seconds: float = 10.0
    """From the opening of a WebSocket to its hello."""
    heartbeat_seconds: float = 15.0
    """Between two signs of life on a stream of events where nothing happens."""
    connections: int = 512
    streams: int = 128
    """Streams of events open at once."""
    calls: int = 256
    """In flight on one WebSocket."""
    stop_seconds: float = 5.0
    """How long requests may still run when the host stops."""
