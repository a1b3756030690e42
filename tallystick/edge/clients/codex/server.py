"""The app-server of Codex, over its control socket: WebSocket on a Unix socket, one JSON-RPC object a text frame,
without `"jsonrpc"`. Measured with 0.171.0; the queue is marked experimental there.

Nothing that the server asks is ever answered: its questions are for the person, and the first answer of anybody counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import stat
from pathlib import Path
from typing import Any

from tallystick import __version__
from tallystick.core.errors import Refused, unavailable

SECONDS = 5.0
"""How long an answer may take."""
_FRAME_BYTES = 64 * 1024 * 1024
_PATH_BYTES = 107


class Missing(Exception):
    """The server does not know that method: it is of another version."""


def socket_of(codex_home: Path) -> str:
    """The control socket below a CODEX_HOME; empty where there is none that is ours."""
    path = codex_home / "app-server-control" / "app-server-control.sock"
    try:
        status = path.stat()
    except OSError:
        return ""
    own = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()
    return str(path) if own and len(os.fsencode(path)) <= _PATH_BYTES else ""


class AppServer:
    """One connection. Made by `connect`; closed by `close`."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read(), name="codex")

    @classmethod
    async def connect(cls, path: str) -> AppServer:
        """Connect and shake hands. Raises `Refused`."""
        from websockets.asyncio.client import unix_connect
        from websockets.exceptions import WebSocketException

        try:
            async with asyncio.timeout(SECONDS):
                socket = await unix_connect(path, uri="ws://localhost/", max_size=_FRAME_BYTES, compression=None)
        except (OSError, TimeoutError, WebSocketException) as error:
            raise _unreachable(error) from None
        server = cls(socket)
        try:
            client = {"name": "tallystick", "title": "Tallystick", "version": __version__}
            await server.call("initialize", clientInfo=client, capabilities={"experimentalApi": True})
            await server._send({"method": "initialized"})
        except BaseException:
            await server.close()
            raise
        return server

    @property
    def is_open(self) -> bool:
        """Whether it can still be asked."""
        return not self._reader.done()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One request and its result. Raises `Refused`, or `Missing` for a method that it does not have."""
        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(SECONDS):
                await self._send({"id": number, "method": method, "params": params})
                answer = await future
        except TimeoutError as error:
            raise _unreachable(error) from None
        finally:
            self._waiting.pop(number, None)
        failure = answer.get("error")
        if isinstance(failure, dict):
            if failure.get("code") == -32601 or "unknown variant" in str(failure.get("message")):
                raise Missing(method)
            raise unavailable(f"Codex refused {method}: {str(failure.get('message'))[:200]}", "Look at it in Codex.")
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    async def close(self) -> None:
        """End the connection."""
        self._reader.cancel()
        with contextlib.suppress(Exception):
            await self._socket.close()

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._socket.send(json.dumps(message))
        except Exception as error:  # noqa: BLE001 - the library's own kinds of closed connections
            raise _unreachable(error) from None

    async def _read(self) -> None:
        try:
            async for frame in self._socket:
                message = _object(frame)
                future = self._waiting.get(message.get("id", -1)) if "method" not in message else None
                if future is not None and not future.done():
                    future.set_result(message)
        except Exception:  # noqa: BLE001, S110 - whatever closed it, those who wait are told below
            pass
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(_unreachable(ConnectionError("it closed the connection")))


def _object(frame: str | bytes) -> dict[str, Any]:
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _unreachable(error: Exception) -> Refused:
    detail = str(error) or type(error).__name__
    return unavailable(f"The app-server of Codex cannot be reached: {detail[:200]}", "Open Codex.")
