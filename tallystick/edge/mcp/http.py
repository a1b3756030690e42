"""The same tools over streamable HTTP, through the official SDK: which is imported when somebody comes, not before.

The door in front (token, Host and Origin) is that of the host API, which hands on who it is.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

import msgspec

from tallystick.app.calls import CallerFacts
from tallystick.core.errors import Refused, unsupported
from tallystick.edge.mcp.protocol import Protocol as Mcp
from tallystick.edge.mcp.protocol import Visitor

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Extra = Callable[[Any], None]
"""Given the SDK's server before it serves: for tests, which mount the fixtures of the conformance suite beside ours."""

Parse = Callable[[bytes, str], Any]
"""Makes an object of strict JSON, or refuses it."""

VISIT = "tallystick.visit"
"""Where a request's `Visit` is, in its scope."""


class Visit:
    """One HTTP request: who sends it, and what counts as seen once its answer was handed over."""

    def __init__(self, visitor: Visitor, mcp: Mcp) -> None:
        self.visitor = visitor
        self.seen: list[Callable[[], Awaitable[None]]] = []
        self._mcp = mcp
        self._is_gone = False

    def receiving(self, receive: Receive) -> Receive:
        """Notes that the client left: what is written after that reaches nobody."""

        async def received() -> MutableMapping[str, Any]:
            message = await receive()
            self._is_gone = self._is_gone or message["type"] == "http.disconnect"
            return message

        return received

    def sending(self, send: Send) -> Send:
        """Tells of what was seen right behind the bytes that showed it, before the client can ask anything else."""

        async def sent(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if message["type"] == "http.response.body" and message.get("body") and not self._is_gone:
                await self._tell()

        return sent

    async def _tell(self) -> None:
        waiting, self.seen = self.seen, []
        for seen in waiting:
            try:
                await seen()
            except Refused as refusal:  # it was shown all the same
                self._mcp.diagnostics.record("late acknowledgement", detail=str(refusal))


class Serves(Protocol):
    """What `sdk` makes: the SDK's server over ours."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class McpHttp:
    """Serves `/mcp`. A `Service` of the host that starts nothing before it is asked."""

    def __init__(self, mcp: Mcp, parse: Parse, *, body_bytes: int, extra: Extra | None = None) -> None:
        self._mcp = mcp
        self._parse = parse
        self._body_bytes = body_bytes
        self._extra = extra
        self._serves: Serves | None = None
        self._making = asyncio.Lock()

    async def start(self) -> None:
        """Nothing yet: the SDK takes seconds to import, and most hosts never need it."""

    async def stop(self) -> None:
        """End all sessions."""
        if self._serves is not None:
            await self._serves.stop()

    async def __call__(
        self, facts: CallerFacts, as_name: str, workspace: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """One request. Raises `Refused` where the SDK is not installed."""
        async with self._making:
            if self._serves is None:
                self._serves = await self._make()
        if scope["method"] == "POST":
            receive = await self._strict(receive)
        facts = msgspec.structs.replace(facts, door="mcp")
        visit = Visit(Visitor(facts=facts, as_name=as_name, workspace=workspace), self._mcp)
        await self._serves({**scope, VISIT: visit}, visit.receiving(receive), visit.sending(send))

    async def _strict(self, receive: Receive) -> Receive:
        """The same request once more, unless the SDK would take for an object what is none here: of a key that stands
        twice it keeps the last. What it refuses itself, and what is too long, is left to it."""
        messages: deque[MutableMapping[str, Any]] = deque()
        body, more = bytearray(), True
        while more and len(body) <= self._body_bytes:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
        if not more and _is_object(body):
            self._parse(bytes(body), "body")

        async def again() -> MutableMapping[str, Any]:
            return messages.popleft() if messages else await receive()

        return again

    async def _make(self) -> Serves:
        try:
            module = await asyncio.to_thread(importlib.import_module, "tallystick.edge.mcp.sdk")
        except ModuleNotFoundError as error:
            raise unsupported(
                f"MCP over HTTP needs the Python package `mcp`, and {error.name} is not installed.",
                "Install it beside the host: pip install 'tallystick[mcp]'; or use `tally mcp`, which needs nothing.",
            ) from None
        made: Serves = module.SdkServer(self._mcp, body_bytes=self._body_bytes, extra=self._extra)
        await made.start()
        return made


def _is_object(body: bytearray) -> bool:
    """Whether a parser that is not strict makes an object of it."""
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False
