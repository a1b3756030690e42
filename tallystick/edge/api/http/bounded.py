"""uvicorn's protocols with bounds: how long a request may take to arrive, how big its head, how long an answer may lie
unread. Everything past a bound is refused or cut off, so that no client holds memory or a connection for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tallystick.edge.api.http.bounds import HttpBounds
from tallystick.edge.api.http.refusals import raw


class _Timer:
    """One deadline that can be set and lifted."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, seconds: float, what: Any) -> None:
        """Call `what` unless lifted before."""
        self.lift()
        self._handle = asyncio.get_running_loop().call_later(seconds, what)

    def lift(self) -> None:
        """Nothing is due any more."""
        if self._handle:
            self._handle.cancel()
        self._handle = None


class BoundedHttp(HttpToolsProtocol):
    """HTTP/1.1. Made by `http`."""

    bounds: HttpBounds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        super().connection_made(transport)
        self._arrival, self._reading = _Timer(), _Timer()
        self._head_bytes, self._is_head, self._is_begun = 0, True, False
        if len(self.connections) > self.bounds.connections:
            transport.abort()
            return
        self._arrival.arm(self.bounds.request_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """It went away."""
        self._arrival.lift()
        self._reading.lift()
        super().connection_lost(exc)

    def _late(self) -> None:
        if self.pipeline:  # it waits for an earlier answer of ours, not for its client
            self._arrival.arm(self.bounds.request_seconds, self._late)
        else:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        self._is_begun = False
        super().data_received(data)
        # What began in this very piece is counted from the next one on: the piece may hold an earlier body.
        self._head_bytes = self._head_bytes + len(data) if self._is_head and not self._is_begun else 0
        if self._head_bytes > self.bounds.head_bytes and not self.transport.is_closing():
            self._refuse(431)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the words are ours
        """What came is no HTTP."""
        self._refuse(400)

    def _refuse(self, status: int) -> None:
        self._arrival.lift()
        self.transport.write(raw(status))
        self.transport.close()
        self._reading.arm(self.bounds.write_seconds, self.transport.abort)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._is_head = self._is_begun = True
        self._arrival.arm(self.bounds.request_seconds, self._late)

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._is_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is here."""
        super().on_message_complete()
        self._arrival.lift()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more came."""
        super().timeout_keep_alive_handler()
        self._reading.arm(self.bounds.write_seconds, self.transport.abort)

    def handle_websocket_upgrade(self) -> None:
        """From here on it is a WebSocket."""
        self._arrival.lift()
        self._reading.lift()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._reading.arm(self.bounds.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._reading.lift()


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """WebSocket. Made by `websocket`."""

    bounds: HttpBounds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        super().connection_made(transport)
        self._reading = _Timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """It went away."""
        self._reading.lift()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._reading.arm(self.bounds.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._reading.lift()


def http(bounds: HttpBounds) -> type[BoundedHttp]:
    """HTTP/1.1 with these bounds, as uvicorn wants it: a class."""
    return type("BoundedHttp", (BoundedHttp,), {"bounds": bounds})


def websocket(bounds: HttpBounds) -> type[BoundedWebSocket]:
    """WebSocket with these bounds."""
    return type("BoundedWebSocket", (BoundedWebSocket,), {"bounds": bounds})
