"""`GET /v1/events`: what happens, as server-sent events, filtered for one reader, resumable by cursor."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Guest
from tallystick.core.errors import denied, invalid, unavailable
from tallystick.edge.api.http.calls import as_name, caller
from tallystick.edge.api.http.door import Door
from tallystick.edge.api.http.tokens import Identity

_encode = msgspec.json.Encoder().encode
_BEAT = b": still here\n\n"
_QUERY = frozenset({"after", "as", "workspace"})
_START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}


async def events(door: Door, identity: Identity, request: Request) -> EventStream:
    """The stream that a request asks for. Raises `Refused`."""
    query = _query(request)
    if identity.scope is not None and "events" not in identity.scope:
        raise denied("This token does not open the events.", "Use a token that does, or ask the person.")
    if door.streams >= door.bounds.streams:
        raise unavailable(f"The host already serves {door.streams} streams of events.", "Close some and try again.")
    name = as_name(identity, query.get("as", ""))
    guest = await door.desk.guest(caller(), as_name=name, workspace=query.get("workspace", ""))
    cursor = request.headers.get("last-event-id", "") or query.get("after", "")
    position = door.cursors.open(guest.actor.id, cursor) if cursor else await _now(door, guest)
    return EventStream(door, guest, position)


def _query(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    if len(found) != len(pairs) or found.keys() - _QUERY:  # what is there is not repeated: it might be a secret
        raise invalid(
            "The query of this address is not understood.", "It may have `after`, `as` and `workspace`, each once."
        )
    return found


async def _now(door: Door, guest: Guest) -> int:
    return int((await door.desk.log_head(guest))["position"])


class EventStream:
    """The answer: an `open` event with the cursor it begins at, then each event with the cursor behind it.

    The next event is read from the log when the one before was taken: a slow reader costs one event of memory, is cut
    off by the connection's own bound, and goes on later where its cursor stands."""

    def __init__(self, door: Door, guest: Guest, position: int) -> None:
        self._door = door
        self._reader = guest.actor.id
        self._position = position
        self._feed = door.desk.feed(guest, after=position)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send until the reader leaves or the host stops."""
        ends: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._door.stopping.wait()),
            asyncio.ensure_future(_gone(receive)),
        }
        self._door.streams += 1
        try:
            await send(_START)
            await _send(send, b"event: open\n" + self._piece({}))
            await self._follow(send, ends)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._door.streams -= 1
            for end in ends:
                end.cancel()

    async def _follow(self, send: Send, ends: set[asyncio.Future[Any]]) -> None:
        coming = asyncio.ensure_future(self._next())
        try:
            while not any(end.done() for end in ends):
                await asyncio.wait(
                    {coming, *ends},
                    timeout=self._door.bounds.heartbeat_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not coming.done():
                    await _send(send, _BEAT)
                    continue
                line, coming = coming.result(), asyncio.ensure_future(self._next())
                self._position = line.position
                await _send(send, self._piece(event_of(line)))
        finally:
            coming.cancel()
            await asyncio.wait({coming})

    async def _next(self) -> forms.Line:
        return await anext(self._feed)

    def _piece(self, data: dict[str, Any]) -> bytes:
        cursor = self._door.cursors.seal(self._reader, self._position)
        return b"id: %s\ndata: %s\n\n" % (cursor.encode(), _encode(data))


def event_of(line: forms.Line) -> dict[str, Any]:
    """An event as it is sent: its place is the cursor, never the position in the log."""
    fields: dict[str, Any] = msgspec.to_builtins(line)
    del fields["position"]
    return fields


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
