"""The service: binds, serves with uvicorn, stops in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from tallystick.app.calls import Handler, Mounted
from tallystick.app.desk.interface import Desk
from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import Refused
from tallystick.edge.api.http import bounded, openapi
from tallystick.edge.api.http.app import application
from tallystick.edge.api.http.bounds import HttpBounds
from tallystick.edge.api.http.door import Door
from tallystick.edge.api.http.listen import BACKLOG, Listen, bind, tls
from tallystick.edge.api.http.tokens import Known, load_tokens


class HttpServer:
    """Serves operations to whoever holds a token. A `Service` of the host."""

    def __init__(
        self,
        desk: Desk,
        ops: Mapping[str, Handler],
        *,
        home: Path,
        listen: Listen,
        diagnostics: Diagnostics,
        announce: Callable[[str], None] = lambda url: None,  # noqa: ARG005
        bounds: HttpBounds | None = None,
        mounts: Mapping[str, Mounted] | None = None,
        sockets: Mapping[str, Mounted] | None = None,
        known: Known = lambda _name: None,
    ) -> None:
        """`announce` is told the address once it is bound; `mounts` are what other edges serve here, `sockets` what
        they serve over WebSocket; `known` is asked for the token of a spoke, as the record has it."""
        self.url = ""
        """Where it is served; known after the start."""
        self.bounds = bounds or HttpBounds()
        self._desk = desk
        self._ops = ops
        self._home = home
        self._listen = listen
        self._diagnostics = diagnostics
        self._announce = announce
        self._mounts = mounts or {}
        self._sockets = sockets or {}
        self._known = known
        self._door: Door | None = None
        self._server: uvicorn.Server | None = None

    async def start(self) -> None:
        """Listen. Raises `Refused` where the address, the certificate or the token file cannot be used."""
        secure = tls(self._listen)
        tokens = load_tokens(self._home, self._note, self._known)
        sock, site = bind(self._listen)
        door = self._door = Door(
            self._desk,
            self._ops,
            tokens=tokens,
            diagnostics=self._diagnostics,
            bounds=self.bounds,
            description=openapi.document(self._ops),
        )
        config = uvicorn.Config(
            application(door, site, self._mounts, self._sockets),
            interface="asgi3",
            http=bounded.http(self.bounds),
            ws=bounded.websocket(self.bounds),
            ws_max_size=self.bounds.body_bytes,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=self.bounds.idle_seconds,
            timeout_graceful_shutdown=1,
        )
        config.load()
        config.ssl = secure
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[sock])
        self.url = site.url
        self._announce(site.url)

    def _note(self, refused: Refused) -> None:
        self._diagnostics.record("token refused", detail=refused.message)

    async def stop(self) -> None:
        """In order: no new connections and requests, running ones to their end within a bound, then the rest."""
        if self._server is None or self._door is None:
            return
        for server in self._server.servers:
            server.close()
        self._door.stopping.set()
        running = {*self._server.server_state.tasks, *self._door.tasks}
        if running:
            await asyncio.wait(running, timeout=self.bounds.stop_seconds)
        await self._server.shutdown()
        for task in [*self._server.server_state.tasks, *self._door.tasks]:
            task.cancel()
