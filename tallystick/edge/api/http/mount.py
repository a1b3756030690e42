"""What another edge serves behind this door: the token is looked at here, the requests are its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick.app.calls import CallerFacts, Mounted
from tallystick.core.errors import denied, invalid
from tallystick.edge.api.http.calls import as_name, caller
from tallystick.edge.api.http.door import Door
from tallystick.edge.api.http.tokens import Identity

_LAST_SECONDS = 1.0
"""How long a request may still run when the host stops; a stream never ends by itself."""


def mounted(name: str, app: Mounted) -> Callable[[Door, Identity, Request], Awaitable[ASGIApp]]:
    """The endpoint of something that is mounted; a scoped token opens it by its name."""

    async def endpoint(door: Door, identity: Identity, request: Request) -> ASGIApp:
        if identity.scope is not None and name not in identity.scope:
            raise denied(f"This token does not open {name!r}.", "Use a token that does, or ask the person.")
        query = request.query_params.multi_items()
        given = dict(query)
        if len(given) != len(query) or given.keys() - {"as", "workspace"}:
            raise invalid(
                "The query of this address is not understood.", "It may have `as` and `workspace`, each once."
            )
        name_as = as_name(identity, given.get("as", ""))
        facts = caller(identity.domains, identity.workspace, identity.token)
        return _Behind(door, app, facts, name_as, given.get("workspace", ""))

    return endpoint


class _Behind:
    """One request, until it is answered or the host stops."""

    def __init__(self, door: Door, app: Mounted, facts: CallerFacts, name: str, workspace: str) -> None:
        self._door = door
        self._app = app
        self._facts = facts
        self._name = name
        self._workspace = workspace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # White space around a value is not part of it (RFC 9110 5.5); the parser leaves what stands behind.
        bare = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        task = asyncio.ensure_future(self._app(self._facts, self._name, self._workspace, bare, receive, send))
        stops = asyncio.ensure_future(self._door.stopping.wait())
        try:
            await asyncio.wait({task, stops}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=_LAST_SECONDS)
            if task.done():
                task.result()
        finally:
            stops.cancel()
            task.cancel()
            await asyncio.wait({task, stops})
