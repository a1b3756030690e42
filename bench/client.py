"""A fast client of the host's socket, so that what is measured is the host: asyncio, msgspec, requests by id."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import uvloop

from tallystick import __version__

BODY = ("The quick brown fox jumps over the lazy dog; 1 KiB of words is what one agent says to another. " * 11)[:1024]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Refusal(Exception):
    """The host refused."""


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._left = b""
        self._last = 0

    @classmethod
    async def open(cls, path: str) -> Client:
        """Connect and shake hands."""
        _, client = await asyncio.get_running_loop().create_unix_connection(cls, path)
        await client.shake()
        return client

    async def shake(self) -> None:
        """The handshake."""
        welcome = self._waiting[0] = asyncio.get_running_loop().create_future()
        self._send({"hello": {"protocol": [1, 1], "client": "bench", "version": __version__}})
        await welcome

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(exc or ConnectionResetError("the host went away"))

    def data_received(self, data: bytes) -> None:
        *lines, self._left = (self._left + data).split(b"\n")
        for line in lines:
            answer = _decode(line)
            future = self._waiting.pop(answer.get("id", 0))
            if "error" in answer:
                future.set_exception(Refusal(answer["error"]["message"]))
            elif not future.done():
                future.set_result(answer.get("result"))

    def call(self, op: str, as_name: str = "", **args: Any) -> asyncio.Future[Any]:
        """Send a request; the future of its result."""
        self._last += 1
        future = self._waiting[self._last] = asyncio.get_running_loop().create_future()
        self._send({"id": self._last, "op": op, "as": as_name, "args": args})
        return future

    def _send(self, message: dict[str, Any]) -> None:
        if self._transport is not None:
            self._transport.write(_encode(message) + b"\n")

    def close(self) -> None:
        """Leave."""
        if self._transport is not None:
            self._transport.close()


run = uvloop.run
