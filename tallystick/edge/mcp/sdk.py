"""The official SDK's low-level server with our table behind every method. Imported by `http`, when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError

from tallystick import __version__
from tallystick.core.errors import Refused
from tallystick.edge.mcp import errors, resources, texts
from tallystick.edge.mcp.errors import ProtocolError
from tallystick.edge.mcp.http import VISIT, Extra, Receive, Scope, Send, Visit
from tallystick.edge.mcp.protocol import CAPABILITIES, SERVER, SUBSCRIPTION_KEY, Protocol, Visitor
from tallystick.edge.mcp.serving import WATCHED, honored

Context = ServerRequestContext[Any, Any]

_PARAMS: dict[str, type[types.RequestParams]] = {
    "server/discover": types.RequestParams,
    "tools/list": types.PaginatedRequestParams,
    "tools/call": types.CallToolRequestParams,
    "resources/list": types.PaginatedRequestParams,
    "resources/templates/list": types.PaginatedRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "prompts/list": types.PaginatedRequestParams,
    "prompts/get": types.GetPromptRequestParams,
}
"""What the SDK wants to know of each method that the table answers."""


class OurServer(Server[Any]):
    """Says of itself what we say over the other transport too; `more` is for fixtures of tests."""

    more: dict[str, Any] = {}  # noqa: RUF012 - replaced as a whole, never changed

    def get_capabilities(self, *_: Any, **__: Any) -> types.ServerCapabilities:
        """The same in every era."""
        return types.ServerCapabilities.model_validate({**CAPABILITIES, **self.more})


class SdkServer:
    """Serves HTTP requests through the SDK."""

    def __init__(self, mcp: Protocol, *, body_bytes: int, extra: Extra | None) -> None:
        self._mcp = mcp
        self._watches: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        server = OurServer(SERVER["name"], title=SERVER["title"], version=__version__, instructions=texts.INSTRUCTIONS)
        for method, params in _PARAMS.items():
            server.add_request_handler(method, params, self._answering(method))
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen)
        if extra is not None:
            extra(server)
        self._manager = StreamableHTTPSessionManager(
            app=server,
            # Host and Origin were checked at the door, against the names that this host really has.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=body_bytes,
        )

    async def start(self) -> None:
        """Ready for sessions. One task enters and leaves the SDK's scope, as it wants."""
        started = asyncio.Event()
        self._running = asyncio.ensure_future(self._run(started))
        waits = asyncio.ensure_future(started.wait())
        await asyncio.wait({self._running, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()

    async def _run(self, started: asyncio.Event) -> None:
        async with self._manager.run():
            started.set()
            await self._stopping.wait()

    async def stop(self) -> None:
        """End all sessions."""
        self._stopping.set()
        for watch in list(self._watches):
            watch.cancel()
        if self._running is not None:
            await self._running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. A session belongs to whoever began it: the SDK refuses it to anybody else."""
        visitor: Visitor = scope[VISIT].visitor
        owner = f"{visitor.facts.uid}:{visitor.as_name}:{visitor.workspace}"
        user = AuthenticatedUser(AccessToken(token="-", client_id=owner, scopes=[]))  # noqa: S106 - none is needed
        await self._manager.handle_request({**scope, "user": user}, receive, send)

    # --- methods ------------------------------------------------------------------------------------------------

    def _answering(self, method: str) -> Callable[[Context, Any], Awaitable[dict[str, Any]]]:
        async def answer(ctx: Context, _params: Any) -> dict[str, Any]:
            visit = _visit(ctx)
            try:
                reply = await self._mcp.reply(method, dict(ctx.params or {}), visit.visitor)
            except ProtocolError as error:
                raise _mcp_error(error) from None
            if reply.seen is not None:
                visit.seen.append(reply.seen)
            return reply.result

        return answer

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        visitor, uri = _visit(ctx).visitor, str(params.uri)
        try:
            guest = await self._mcp.guest(visitor)
            await resources.found(self._mcp.desk, guest, uri)
            position = int((await self._mcp.desk.log_head(guest))["position"])
        except Refused as refused:
            raise _mcp_error(errors.resource_error(refused, uri, modern=False)) from None

        async def told() -> None:
            async for changed in resources.changes(self._mcp.desk, guest, frozenset({uri}), position):
                await ctx.session.send_resource_updated(changed)

        # The SDK has no public place for what belongs to a session, nor a way to learn of its end.
        connection = ctx.session._connection  # noqa: SLF001
        watched = connection.state.setdefault("tallystick", {})
        if uri not in watched and len(watched) >= WATCHED:
            raise MCPError(errors.INVALID_PARAMS, f"At most {WATCHED} resources can be watched at once.", None)
        if uri not in watched:
            watched[uri] = self._watch(told())
            connection.exit_stack.callback(watched[uri].cancel)
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        watched = ctx.session._connection.state.get("tallystick", {})  # noqa: SLF001 - see _subscribe
        watch = watched.pop(str(params.uri), None)
        if watch is not None:
            watch.cancel()
        return types.EmptyResult()

    def _watch(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return task

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """The acknowledgement, then changes until the client leaves."""
        try:
            guest = await self._mcp.guest(_visit(ctx).visitor)
            uris = honored(params.model_dump(by_alias=True, exclude_none=True))
            for uri in uris:
                await resources.found(self._mcp.desk, guest, uri)
            position = int((await self._mcp.desk.log_head(guest))["position"])
        except ProtocolError as error:
            raise _mcp_error(error) from None
        except Refused as refused:
            raise _mcp_error(errors.protocol_error(refused)) from None
        meta: dict[str, Any] = {SUBSCRIPTION_KEY: ctx.request_id}
        kept = types.SubscriptionFilter(resource_subscriptions=sorted(uris) or None)
        acknowledged = types.SubscriptionsAcknowledgedNotification(
            params=types.SubscriptionsAcknowledgedNotificationParams(notifications=kept, _meta=meta)
        )
        await ctx.session.send_notification(acknowledged, related_request_id=ctx.request_id)
        async for uri in resources.changes(self._mcp.desk, guest, uris, position):
            changed = types.ResourceUpdatedNotification(
                params=types.ResourceUpdatedNotificationParams(uri=uri, _meta=meta)
            )
            await ctx.session.send_notification(changed, related_request_id=ctx.request_id)
        return types.SubscriptionsListenResult(_meta=meta)


def _visit(ctx: Context) -> Visit:
    if ctx.request is None:
        raise RuntimeError("a request over HTTP has a request")
    found: Visit = ctx.request.scope[VISIT]
    return found


def _mcp_error(error: ProtocolError) -> MCPError:
    return MCPError(error.number, error.message, error.data)
