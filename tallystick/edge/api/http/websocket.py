"""`WS /v1/socket`: the lines of the Unix socket, one per text message. The token comes with the handshake or, because a
page cannot set headers there, in the hello."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from tallystick.core.errors import Refused, invalid, unavailable
from tallystick.edge.api.connection import BUSY
from tallystick.edge.api.errors import render
from tallystick.edge.api.http.calls import TokenCall, call_for, run
from tallystick.edge.api.http.door import Door
from tallystick.edge.api.http.gate import identity_of
from tallystick.edge.api.http.tokens import Identity, unknown
from tallystick.edge.api.lines import agree, call_id_of, no_operation, welcome
from tallystick.edge.api.strict import parse

_encode = msgspec.json.Encoder().encode
_REFUSED, _RESTART = 1008, 1012


class SocketRoute:
    """The endpoint: an ASGI application."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One WebSocket. A token that comes with the handshake is looked at before it is accepted."""
        socket = WebSocket(scope, receive, send)
        identity = identity_of(socket.headers, self._door.tokens) if "authorization" in socket.headers else None
        if self._door.stopping.is_set():
            raise BUSY
        await socket.accept()
        with suppress(WebSocketDisconnect):
            await Session(self._door, socket).serve(identity)


class Session:
    """One client and its calls."""

    def __init__(self, door: Door, socket: WebSocket) -> None:
        self._door = door
        self._socket = socket
        self._calls: dict[int, TokenCall] = {}

    async def serve(self, identity: Identity | None) -> None:
        """From the hello to the end."""
        try:
            identity = await asyncio.wait_for(self._greet(identity), self._door.bounds.hello_seconds)
        except TimeoutError:
            await self._socket.close(_REFUSED)
            return
        except Refused as refused:
            await self._write({"refused": render(refused)})
            await self._socket.close(_REFUSED)
            return
        try:
            await self._listen(identity)
        finally:
            for call in list(self._calls.values()):
                call.stop()

    async def _greet(self, identity: Identity | None) -> Identity:
        message = await self._receive()
        token = message.get("token")
        version, _ = agree(message)
        if identity is None:
            if not isinstance(token, str):
                raise unknown()
            identity = self._door.tokens.identify(token)
        await self._write(welcome(version))
        return identity

    async def _listen(self, identity: Identity) -> None:
        stopping = asyncio.ensure_future(self._door.stopping.wait())
        coming = asyncio.ensure_future(self._receive())
        try:
            while True:
                await asyncio.wait({stopping, coming}, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    return await self._leave()
                await self._handle(identity, coming)
                coming = asyncio.ensure_future(self._receive())
        finally:
            stopping.cancel()
            coming.cancel()
            await asyncio.wait({coming})
            _ = coming.cancelled() or coming.exception()

    async def _leave(self) -> None:
        """The host stops: calls that still run have their time, then the client is told."""
        await asyncio.wait({asyncio.ensure_future(self._idle())}, timeout=self._door.bounds.stop_seconds)
        for number in [*self._calls, None]:
            await self._write({"id": number, "error": render(BUSY)})
        await self._socket.close(_RESTART)

    async def _idle(self) -> None:
        while self._door.tasks:
            await asyncio.wait(set(self._door.tasks))

    async def _receive(self) -> dict[str, Any]:
        """The next message. Raises `Refused` for one that is none of ours, `WebSocketDisconnect` at the end."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        text = message.get("text")
        if text is None:
            raise invalid("The message is binary.", "Send JSON as a text message.")
        return parse(text.encode("utf-8", "surrogatepass"), "message")

    async def _handle(self, identity: Identity, coming: asyncio.Future[dict[str, Any]]) -> None:
        number: int | None = None
        try:
            message = coming.result()
            number = call_id_of(message)
            running = self._calls.get(number)
            if running is None:
                await self._start(identity, number, message)
            elif message.get("interrupt") is True:
                running.stop()
            else:
                number = None
                raise invalid("A call with this id still runs.", "Give each request an id of its own.")
        except Refused as refused:
            await self._write({"id": number, "error": render(refused)})

    async def _start(self, identity: Identity, number: int, message: dict[str, Any]) -> None:
        if message.get("interrupt") is True:
            return  # it was answered meanwhile
        op = message.pop("op", None)
        del message["id"]
        handler = self._door.ops.get(op) if isinstance(op, str) else None
        if handler is None or not isinstance(op, str):
            raise no_operation(op)
        if len(self._calls) >= self._door.bounds.calls:
            raise unavailable(
                f"This connection already has {len(self._calls)} calls in flight.", "Wait for answers first."
            )
        call = self._calls[number] = call_for(identity, op, message)
        task = asyncio.get_running_loop().create_task(self._answer(number, call, op))
        self._door.tasks.add(task)
        task.add_done_callback(self._door.tasks.discard)

    async def _answer(self, number: int, call: TokenCall, op: str) -> None:
        try:
            answer = {"id": number, "result": await run(self._door.diagnostics, op, self._door.ops[op], call)}
        except Refused as refused:
            answer = {"id": number, "error": render(refused)}
        finally:
            del self._calls[number]
        with suppress(WebSocketDisconnect, RuntimeError):  # the client went away; what it asked for is done
            await self._write(answer)

    async def _write(self, message: dict[str, Any]) -> None:
        await self._socket.send_text(_encode(message).decode())
