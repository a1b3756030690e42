"""The line of Codex' app-server: JSON objects in text frames of a WebSocket over a Unix socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import websockets

SECONDS = 60


class Line:
    """A connection: `call` a method, wait for a `note`."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._number = 0
        self.notes: list[dict[str, Any]] = []
        """What came unasked and was not waited for yet."""

    async def _next(self) -> dict[str, Any]:
        return json.loads(await asyncio.wait_for(self._socket.recv(), SECONDS))

    async def call(self, method: str, **params: Any) -> Any:
        """The result; an AssertionError with the error."""
        self._number += 1
        await self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            came = await self._next()
            if came.get("id") != self._number or "method" in came:
                self.notes.append(came)
            elif "error" in came:
                raise AssertionError(f"{method}: {came['error']}")
            else:
                return came["result"]

    async def note(self, method: str) -> Any:
        """The parameters of the next note of that kind."""
        while True:
            for came in self.notes:
                if came.get("method") == method:
                    self.notes.remove(came)
                    return came["params"]
            self.notes.append(await self._next())


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Line]:
    """A line to the app-server that listens there, greeted."""
    async with websockets.unix_connect(path=str(path), uri="ws://localhost/", max_size=None) as socket:
        line = Line(socket)
        client = {"name": "tallystick-tests", "title": "Tests", "version": "1"}
        await line.call("initialize", clientInfo=client, capabilities={"experimentalApi": True})
        await socket.send(json.dumps({"method": "initialized"}))
        yield line
