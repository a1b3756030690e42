"""A spoke or client over WebSocket: `/reach/v1`, one frame per text message. Its token was looked at by the door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from tallystick.app.calls import CallerFacts, Unread
from tallystick.core.errors import Refused, invalid
from tallystick.edge.spoke.hub import Hub

Parse = Callable[[bytes, str], dict[str, Any]]

_LEAVES: Final = 1000
_RESTART: Final = 1012
_encode = msgspec.json.Encoder().encode


class SocketLine:
    """Implements `Line` over an accepted WebSocket (ASGI)."""

    def __init__(self, facts: CallerFacts, parse: Parse, receive: Any, send: Any) -> None:
        self.facts = facts
        self._parse = parse
        self._receive = receive
        self._send = send
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._gone = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def listen(self, take: Callable[[Any], None]) -> None:
        """See `Line`."""
        self._reading = asyncio.get_running_loop().create_task(self._read(take))

    async def _read(self, take: Callable[[Any], None]) -> None:
        try:
            while True:
                await self._may_read.wait()
                message = await self._receive()
                if message["type"] != "websocket.receive":
                    break
                self._hear(message, take)
        finally:
            self._gone.set()

    def _hear(self, message: dict[str, Any], take: Callable[[Any], None]) -> None:
        text = (message.get("text") or "").encode("utf-8", "surrogatepass")
        try:
            if message.get("text") is None:
                raise invalid("The message is binary.", "Send a frame as a text message.")
            frame: Any = self._parse(text, "frame")
        except Refused as refused:
            frame = Unread(refused, text)
        take(frame)

    def hold(self, is_held: bool) -> None:
        """See `Line`."""
        (self._may_read.clear if is_held else self._may_read.set)()

    async def frame(self, frame: Any) -> None:
        """See `Line`. One after the other, so that a program which does not read holds back who sends to it."""
        text = _encode(frame).decode()
        async with self._turn:
            if self._gone.is_set():
                raise ConnectionError("The program left.")
            try:
                await self._send({"type": "websocket.send", "text": text})
            except Exception as error:  # noqa: BLE001 - servers raise of their own where the other end left
                self._gone.set()
                raise ConnectionError(str(error)) from None

    async def interrupted(self) -> None:
        """See `Line`."""
        await self._gone.wait()

    async def close(self, code: int) -> None:
        """End it from this side."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        if not self._gone.is_set():
            self._gone.set()
            await self._send({"type": "websocket.close", "code": code})


class ReachSocket:
    """What is mounted at `/reach/v1`. See `app.calls.Mounted`."""

    def __init__(self, hub: Hub, parse: Parse) -> None:
        self._hub = hub
        self._parse = parse

    async def __call__(
        self, facts: CallerFacts, as_name: str, workspace: str, scope: Any, receive: Any, send: Any  # noqa: ARG002
    ) -> None:
        """One WebSocket, from its handshake to its end."""
        await receive()
        await send({"type": "websocket.accept"})
        line = SocketLine(facts, self._parse, receive, send)
        try:
            await self._hub.serve(line, as_name, workspace)
        finally:
            with suppress(ConnectionError, RuntimeError):
                await line.close(_RESTART if self._hub.is_stopping else _LEAVES)
