"""The listening sockets of the host: one that all programs of this user share, one per session."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tallystick import wire
from tallystick.app.calls import Handler
from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import conflict
from tallystick.edge.api.connection import Bounds, Connection

BACKLOG = 512
"""Connections that may wait to be accepted."""


class ApiServer:
    """Serves operations. A `Service` of the host: started last, stopped first."""

    def __init__(
        self, ops: Mapping[str, Handler], *, path: Path, diagnostics: Diagnostics, bounds: Bounds | None = None
    ) -> None:
        self.ops = ops
        self.bounds = bounds or Bounds()
        self.diagnostics = diagnostics
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_stopping = False
        self._path = path
        self._servers: dict[str, tuple[asyncio.Server, Path]] = {}

    async def start(self) -> None:
        """Listen at the control socket."""
        await self._listen("", self._path)

    async def listen_session(self, session_id: str, path: Path) -> None:
        """Listen at a session's own socket: whoever connects there IS that session."""
        await self._listen(session_id, path)

    async def close_session(self, session_id: str) -> None:
        """Stop listening for a session and end its connections."""
        self._close_listener(session_id)
        for connection in [c for c in self.connections if c.listener == session_id]:
            connection.leave()

    async def stop(self) -> None:
        """In order: no new connections and requests, running calls to their end within a bound, then tell the rest."""
        self.is_stopping = True
        for name in list(self._servers):
            self._close_listener(name)
        if self.tasks:
            await asyncio.wait(list(self.tasks), timeout=self.bounds.stop_seconds)
        for connection in list(self.connections):
            connection.leave()
        left = list(self.tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self.bounds.stop_seconds)

    async def _listen(self, name: str, path: Path) -> None:
        if name in self._servers:
            raise conflict(f"There is already a socket for {name or 'the host'}.", "Close it first.")
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: Connection(self, name), sock=_bind(path))
        self._servers[name] = server, path

    def _close_listener(self, name: str) -> None:
        server, path = self._servers.pop(name, (None, None))
        if server and path:
            server.close()
            with suppress(OSError):
                path.unlink()


def control_path(home: Path) -> Path:
    """Where the control socket of a home is bound. One that must lie elsewhere is written down for all clients."""
    own = home / "run" / "host.sock"
    note = home / "run" / "socket"
    if len(os.fsencode(own)) <= wire.SOCKET_BYTES:
        note.unlink(missing_ok=True)
        return own
    short = wire.short_socket_path(str(home))
    note.write_bytes(os.fsencode(short) + b"\n")
    return Path(short)


def _bind(path: Path) -> socket.socket:
    """A listening socket nobody else could connect to at any moment. The lock of the home is held, so whatever lies
    there is left over."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    wire.check_private(str(path.parent))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        # Not by the umask: that is the whole process's, and its threads make directories meanwhile. Nobody can connect
        # before `listen`.
        path.chmod(0o600)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
