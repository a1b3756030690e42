"""Fast clients of the host's socket, so that what is measured is the host: msgspec, requests by id; asyncio for many at
once, a plain blocking socket where there is one, whose own event loop would be a tenth of what is measured."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Self, cast

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


class Line:
    """One connection that waits for each answer it wants. `with Line(path) as line`."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._left = b""
        self._last = 0
        self._write({"hello": {"protocol": [1, 1], "client": "bench", "version": __version__}})
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, op: str, as_name: str = "", **args: Any) -> None:
        """Send a request; its result is to be fetched by `result` before another one is sent."""
        self._last += 1
        self._write({"id": self._last, "op": op, "as": as_name, "args": args})

    def result(self) -> Any:
        """Wait for the answer to the last request."""
        answer = self._read()
        if "error" in answer:
            raise Refusal(answer["error"]["message"])
        return answer["result"]

    def call(self, op: str, as_name: str = "", **args: Any) -> Any:
        """Send a request and wait for its result."""
        self.send(op, as_name, **args)
        return self.result()

    def _write(self, message: dict[str, Any]) -> None:
        self._socket.sendall(_encode(message) + b"\n")

    def _read(self) -> Any:
        while b"\n" not in self._left:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the host went away")
            self._left += data
        line, _, self._left = self._left.partition(b"\n")
        return _decode(line)


run = uvloop.run
