"""What all requests over HTTP share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tallystick.app.calls import Handler
from tallystick.app.desk.interface import Desk
from tallystick.app.diagnostics import Diagnostics
from tallystick.edge.api.http.bounds import HttpBounds
from tallystick.edge.api.http.cursor import Cursors
from tallystick.edge.api.http.tokens import Tokens


class Door:
    """The host as this edge sees it."""

    def __init__(
        self,
        desk: Desk,
        ops: Mapping[str, Handler],
        *,
        tokens: Tokens,
        diagnostics: Diagnostics,
        bounds: HttpBounds,
        description: bytes,
    ) -> None:
        self.desk = desk
        self.ops = ops
        self.tokens = tokens
        self.cursors = Cursors(tokens.cursor_key)
        self.diagnostics = diagnostics
        self.bounds = bounds
        self.description = description
        """The OpenAPI document."""
        self.stopping = asyncio.Event()
        self.streams = 0
        """Streams of events that are open."""
        self.tasks: set[asyncio.Task[None]] = set()
        """Calls that run for WebSockets, those of clients that went away included."""
