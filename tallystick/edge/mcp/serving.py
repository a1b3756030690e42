"""The operation `mcp`: what `tally mcp` forwards, one call for each message of its client.

A call brings `message` (one JSON-RPC request) and gets its answer as a line: its result, or output before it where the
client's having it counts, which it then acknowledges. Or it brings `watch`: addresses of resources whose
changes are told as they come, and the sign of life of a session for as long as the client is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from tallystick.app.calls import Call
from tallystick.core.errors import Refused, invalid
from tallystick.edge.mcp import channel, errors, resources
from tallystick.edge.mcp.errors import ProtocolError
from tallystick.edge.mcp.protocol import SUBSCRIPTION_KEY, Protocol, Visitor, check_envelope, encode, is_modern
from tallystick.edge.mcp.tools import TOOLS

BEAT_SECONDS: Final = 15.0
"""Between two signs of life of a session whose client is connected."""
WATCHED: Final = 256
"""Resources that one client can watch."""
_LISTEN: Final = "subscriptions/listen"


Parse = Callable[[bytes, str], dict[str, Any]]


class Serving:
    """Answers the operation `mcp`."""

    def __init__(self, protocol: Protocol, parse: Parse) -> None:
        """`parse` makes an object of strict JSON, or refuses it: what counts as JSON is decided where lines come in."""
        self._protocol = protocol
        self._parse = parse

    async def __call__(self, call: Call) -> str | None:
        """One message, or one watch; the answer, if it was not output before."""
        given = call.arguments
        visitor = Visitor(
            facts=call.facts,
            as_name=_text(given, "as"),
            workspace=_text(given, "workspace"),
            key=_text(given, "key"),
            again=given.get("again") is True,
            begun_at=_seconds(given, "begun_at"),
            channel=given.get("channel") is True,
        )
        if "watch" in given:
            await self._watched(call, visitor)
            return None
        message = self._parse(_text(given, "message").encode(), "message")
        if not isinstance(message.get("method"), str) or "id" not in message:
            raise invalid("`message` is no JSON-RPC request.", "Forward a client's requests as they are.")
        if message["method"] == _LISTEN:
            return await self._listen(call, visitor, message)
        return await self._answer(call, visitor, message)

    # --- one request --------------------------------------------------------------------------------------------

    async def _answer(self, call: Call, visitor: Visitor, message: dict[str, Any]) -> str | None:
        method, params = message["method"], message.get("params")
        try:
            work = self._protocol.reply(method, params, visitor)
            reply = await (_until_interrupted(call, work) if _is_reading(method, params) else work)
        except ProtocolError as error:
            return encode(refused(message["id"], error))
        if reply is None:
            return None  # canceled: nobody waits for an answer
        line = encode({"jsonrpc": "2.0", "id": message["id"], "result": reply.result})
        if reply.seen is None:
            return line
        await call.out(f"{line}\n")
        if await call.flushed():
            await self._seen(reply.seen)
        return None

    async def _seen(self, seen: Callable[[], Awaitable[None]]) -> None:
        try:
            await seen()
        except Refused as refusal:  # it was shown all the same
            self._protocol.diagnostics.record("late acknowledgement", detail=str(refusal))

    # --- changes ------------------------------------------------------------------------------------------------

    async def _watched(self, call: Call, visitor: Visitor) -> None:
        try:
            uris = _uris(call.arguments["watch"])
        except ProtocolError as error:
            raise invalid(error.message, "Send a list of addresses, or an empty one.") from None
        await _until_interrupted(call, self._watch(call, visitor, uris))

    async def _watch(self, call: Call, visitor: Visitor, uris: frozenset[str]) -> None:
        beside = [asyncio.ensure_future(self._beat(visitor))]
        beside += [asyncio.ensure_future(self._channel(call, visitor))] if visitor.channel else []
        try:
            async for uri in self._changes(visitor, uris):
                await _tell(call, updated(uri))
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _channel(self, call: Call, visitor: Visitor) -> None:
        """Tell in the middle of its work a client that wants it so."""
        desk = self._protocol.desk
        while True:
            try:
                guest = await self._protocol.guest(visitor)
                position = int((await desk.log_head(guest))["position"])
                async for notice in channel.notices(desk, guest, position):
                    await _tell(call, notice)
            except ConnectionError:
                return  # the client is gone
            except Exception as error:  # noqa: BLE001 - begun anew: what was missed is in the inbox
                self._protocol.diagnostics.failure("mcp channel", error)
            await asyncio.sleep(BEAT_SECONDS)

    async def _beat(self, visitor: Visitor) -> None:
        """The session was heard, again and again; who is nobody yet may become somebody meanwhile."""
        while True:
            try:
                with suppress(Refused):
                    await self._protocol.guest(visitor)
            except Exception as error:  # noqa: BLE001 - the next sign of life is not lost with this one
                self._protocol.diagnostics.failure("mcp sign of life", error)
            await asyncio.sleep(BEAT_SECONDS)

    async def _changes(self, visitor: Visitor, uris: frozenset[str]) -> AsyncIterator[str]:
        """Each change; after a lost connection first all of them, because something may have been missed."""
        if not uris:
            await asyncio.Event().wait()
        guest = await self._protocol.guest(visitor)
        position = int((await self._protocol.desk.log_head(guest))["position"])
        if visitor.again:
            for uri in sorted(uris):
                yield uri
        async for uri in resources.changes(self._protocol.desk, guest, uris, position):
            yield uri

    async def _listen(self, call: Call, visitor: Visitor, message: dict[str, Any]) -> str | None:
        """`subscriptions/listen`: the acknowledgement, then changes until it is canceled."""
        meta = {SUBSCRIPTION_KEY: message["id"]}
        try:
            _check_listens(message.get("params"))
            uris = honored(message["params"])
            guest = await self._protocol.guest(visitor)
            for uri in uris:
                await resources.found(self._protocol.desk, guest, uri)
        except ProtocolError as error:
            return encode(refused(message["id"], error))
        except Refused as refusal:
            return encode(refused(message["id"], errors.protocol_error(refusal)))
        if not visitor.again:
            await _tell(call, acknowledged(uris, meta))
        await _until_interrupted(call, self._stream(call, visitor, uris, meta))
        return None

    async def _stream(self, call: Call, visitor: Visitor, uris: frozenset[str], meta: dict[str, Any]) -> None:
        async for uri in self._changes(visitor, uris):
            await _tell(call, updated(uri, meta))


def _is_reading(method: str, params: Any) -> bool:
    """Whether an answer that nobody waits for any more may be left undone."""
    if method != "tools/call":
        return True
    tool = TOOLS.get(str(params.get("name"))) if isinstance(params, Mapping) else None
    return tool is not None and tool.reads


def _check_listens(params: Any) -> None:
    if not is_modern(_LISTEN, params):
        raise ProtocolError(errors.METHOD_NOT_FOUND, "Method not found", _LISTEN)
    check_envelope(params)


async def _until_interrupted(call: Call, work: Any) -> Any:
    """The result of some work; None where the client cancels it or leaves first."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(call.interrupted())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _tell(call: Call, message: dict[str, Any]) -> None:
    await call.out(encode(message) + "\n")


# --- messages ---------------------------------------------------------------------------------------------------


def refused(request: Any, error: ProtocolError) -> dict[str, Any]:
    """The answer to a request that the protocol refuses."""
    said: dict[str, Any] = {"code": error.number, "message": error.message}
    return {"jsonrpc": "2.0", "id": request, "error": said if error.data is None else {**said, "data": error.data}}


def updated(uri: str, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    """A resource may have changed."""
    params: dict[str, Any] = {"uri": uri} if meta is None else {"uri": uri, "_meta": meta}
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}


def acknowledged(uris: frozenset[str], meta: dict[str, Any]) -> dict[str, Any]:
    """What a subscription will tell."""
    told = {"resourceSubscriptions": sorted(uris)} if uris else {}
    params = {"notifications": told, "_meta": meta}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def honored(params: Mapping[str, Any]) -> frozenset[str]:
    """The addresses of a subscription. The lists of tools, prompts and resources never tell of changes."""
    wanted = params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise ProtocolError(errors.INVALID_PARAMS, "subscriptions/listen needs `notifications`.")
    return _uris(wanted.get("resourceSubscriptions") or [])


def _uris(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(uri, str) for uri in value):
        raise ProtocolError(errors.INVALID_PARAMS, "Resources to watch are a list of addresses.")
    if len(value) > WATCHED:
        raise ProtocolError(errors.INVALID_PARAMS, f"At most {WATCHED} resources can be watched at once.")
    return frozenset(value)


def _seconds(arguments: dict[str, Any], field: str) -> float:
    value = arguments.get(field, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid(f"{field!r} must be a number.", "Send UTC seconds.")
    return float(value)


def _text(arguments: dict[str, Any], field: str) -> str:
    value = arguments.get(field, "")
    if not isinstance(value, str):
        raise invalid(f"{field!r} must be text.", "Send a string.")
    return value
