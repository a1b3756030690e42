"""The paths of the host API over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick.app.calls import Mounted
from tallystick.core.errors import not_found
from tallystick.edge.api.connection import BUSY
from tallystick.edge.api.http.calls import call_for, run
from tallystick.edge.api.http.door import Door
from tallystick.edge.api.http.events import events
from tallystick.edge.api.http.gate import Gate, identity_of
from tallystick.edge.api.http.listen import Site
from tallystick.edge.api.http.mount import mounted
from tallystick.edge.api.http.refusals import ProtocolRefused, answer, wrong_method
from tallystick.edge.api.http.tokens import Identity
from tallystick.edge.api.http.websocket import SocketRoute
from tallystick.edge.api.strict import parse

Endpoint = Callable[[Door, Identity, Request], Awaitable[ASGIApp]]


def application(door: Door, site: Site, mounts: Mapping[str, Mounted], sockets: Mapping[str, Mounted]) -> Gate:
    """Everything that is served, behind the gate; `mounts` by their name, which is also their path, and `sockets`
    alike for WebSockets."""
    routes = [
        Route("/v1/openapi.json", Known(door, _describe, "GET", "HEAD")),
        Route("/v1/events", Known(door, events, "GET")),
        WebSocketRoute("/v1/socket", SocketRoute(door)),
        Route("/v1/socket", Known(door, _upgrade, "GET")),
        *(Route(f"/v1/{op}", Known(door, _verb(op), "POST")) for op in door.ops),
        *(Route(f"/{name}", Known(door, mounted(name, app))) for name, app in mounts.items()),
        *(WebSocketRoute(f"/{name}", Known(door, mounted(name, app))) for name, app in sockets.items()),
        *(Route(f"/{name}", Known(door, _upgrade, "GET")) for name in sockets),
    ]
    router = Router(routes, redirect_slashes=False, default=Known(door, _nowhere))
    return Gate(router, site, door.diagnostics, door.bounds.head_bytes)


class Known:
    """An endpoint for callers with a token, and for some methods (none given: any)."""

    def __init__(self, door: Door, endpoint: Endpoint, *methods: str) -> None:
        self._door = door
        self._endpoint = endpoint
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        identity = identity_of(Headers(scope=scope), self._door.tokens)
        if self._methods and scope.get("method") not in self._methods:
            raise wrong_method(self._methods)
        if self._door.stopping.is_set():
            raise BUSY
        request = Request(scope, receive) if scope["type"] == "http" else Request({**scope, "type": "http"})
        response = await self._endpoint(self._door, identity, request)
        await response(scope, receive, send)


def _verb(op: str) -> Endpoint:
    async def endpoint(door: Door, identity: Identity, request: Request) -> Response:
        fields = parse(await read(request, door.bounds.body_bytes), "body")
        return answer(await run(door.diagnostics, op, door.ops[op], call_for(identity, op, fields)))

    return endpoint


async def _describe(door: Door, identity: Identity, request: Request) -> Response:  # noqa: ARG001
    return Response(door.description, media_type="application/json")


async def _upgrade(door: Door, identity: Identity, request: Request) -> Response:  # noqa: ARG001
    raise ProtocolRefused(426)


async def _nowhere(door: Door, identity: Identity, request: Request) -> Response:  # noqa: ARG001
    raise not_found("There is nothing at this path.", "All paths stand in /v1/openapi.json.")


async def read(request: Request, limit: int) -> bytes:
    """The body, declared as JSON and of a declared length; nothing beyond the limit is taken. Raises `Refused`."""
    check_kind(request.headers)
    declared = request.headers.getlist("content-length")
    if len(declared) != 1 or "transfer-encoding" in request.headers:
        raise ProtocolRefused(411)
    length = declared[0]
    if not length.isascii() or not length.isdecimal():
        raise ProtocolRefused(400)
    if len(length) > 18 or int(length) > limit:
        raise ProtocolRefused(413, limit=limit)
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > limit:
                raise ProtocolRefused(413, limit=limit)
    except ClientDisconnect:
        raise ProtocolRefused(400) from None
    return bytes(body)


def check_kind(headers: Headers) -> None:
    """JSON, not packed."""
    kinds = headers.getlist("content-type")
    name, _, more = kinds[0].lower().partition(";") if len(kinds) == 1 else ("", "", "")
    is_utf8 = more.strip().replace('"', "") in ("", "charset=utf-8")
    if name.strip() != "application/json" or not is_utf8 or "content-encoding" in headers:
        raise ProtocolRefused(415)
