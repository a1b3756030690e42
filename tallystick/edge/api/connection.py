"""One client connection: lines in, calls started, answers out. The hot path of the host: callbacks, no streams."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from tallystick import wire
from tallystick.app.calls import CallerFacts, Handler
from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import Refused, denied, invalid, unavailable
from tallystick.edge.api import peer
from tallystick.edge.api.errors import render, unforeseen
from tallystick.edge.api.lines import agree, call_id_of, no_operation, welcome
from tallystick.edge.api.running import Gone, RunningCall
from tallystick.edge.api.strict import parse

_encode = msgspec.json.Encoder().encode

BUSY = unavailable("The host is stopping and takes no new requests.", "Try again in a moment.")
"""What whoever asks meanwhile is told."""


class Bounds(msgspec.Struct, frozen=True):
    """What one client may take of the host."""

    hello_seconds: float = 10.0
    """A connection that has not shaken hands by then is closed."""
    line_bytes: int = wire.LINE_BYTES
    stdin_bytes: int = 1024 * 1024
    calls: int = 256
    """Calls in flight on one connection."""
    connections: int = 1000
    stop_seconds: float = 5.0
    """How long calls may still run when the host stops."""


class Door(Protocol):
    """What all connections share: the server."""

    ops: Mapping[str, Handler]
    bounds: Bounds
    diagnostics: Diagnostics
    connections: set[Connection]
    tasks: set[asyncio.Task[None]]
    """All running calls, those of clients that went away included."""
    is_stopping: bool


class Connection(asyncio.Protocol):
    """Implements `running.Line`."""

    def __init__(self, door: Door, listener: str) -> None:
        self.door = door
        self._bounds = door.bounds
        self.listener = listener
        self.uid = self.pid = -1
        self.client = ""
        self.calls: dict[int, RunningCall] = {}
        self.said: tuple[tuple[Any, ...], CallerFacts] | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._is_discarding = False
        self._is_held = False
        self._is_greeted = False
        self._can_write: asyncio.Future[None] | None = None
        self._late: asyncio.TimerHandle | None = None
        self._together: list[bytes] = []
        """What is sent at the end of this turn of the loop, in one piece."""
        self._ancestors: tuple[tuple[str, str], ...] | None = None

    # --- the transport's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connected: the kernel says who."""
        self._transport = cast("asyncio.Transport", transport)
        self.uid, self.pid = wire.peer(transport.get_extra_info("socket"))
        refused = self._refusal()
        if refused:
            self.write({"refused": render(refused)})
            self._transport.close()
            return
        self.door.connections.add(self)
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(self.door.bounds.hello_seconds, self._transport.close)

    def _refusal(self) -> Refused | None:
        if self.uid not in (os.getuid(), -1):
            return denied("This host serves another user.", "Set TALLY_HOME to a home of your own.")
        if self.door.is_stopping:
            return BUSY
        if len(self.door.connections) >= self.door.bounds.connections - self._kept_free():
            return unavailable(
                f"The host already serves {self.door.bounds.connections} connections.", "Close some and try again."
            )
        return None

    def _kept_free(self) -> int:
        """Of the last connections a process that holds one already gets none: no program alone locks all others out."""
        few = min(16, self.door.bounds.connections // 20)
        nearly_full = len(self.door.connections) >= self.door.bounds.connections - few
        return few if nearly_full and any(c.pid == self.pid for c in self.door.connections) else 0

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The client went away; its calls are told, not killed: what was asked may still be recorded."""
        self._transport = None
        self.door.connections.discard(self)
        self._release()
        if self._late:
            self._late.cancel()
        for call in list(self.calls.values()):
            call.stop()

    def pause_writing(self) -> None:
        """The client does not read: stop taking its requests, and let calls wait with their output."""
        if self._can_write is None:
            self._can_write = asyncio.get_running_loop().create_future()
        if self._transport:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._release()
        self._read_on()

    def hold(self, is_held: bool) -> None:
        """A call has enough to do: read no more, or read again."""
        self._is_held = is_held
        if is_held and self._transport:
            self._transport.pause_reading()
        else:
            self._read_on()

    def _read_on(self) -> None:
        if self._is_held or self._can_write is not None or not self._transport or self._transport.is_closing():
            return
        self._transport.resume_reading()

    @property
    def is_read(self) -> bool:
        """Whether the client is there and reads what it is sent."""
        return self._can_write is None and self._transport is not None and not self._transport.is_closing()

    def _release(self) -> None:
        waiting, self._can_write = self._can_write, None
        if waiting and not waiting.done():
            waiting.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Bytes of the client: whole lines are handled, the rest is kept up to the limit."""
        start, end = 0, data.find(b"\n")
        whole = 0 <= end == len(data) - 1 and not self._buffer and not self._is_discarding
        if whole and self._is_greeted and end < self._bounds.line_bytes:  # nearly always
            self._handle(data[:end])
            return
        while (end := data.find(b"\n", start)) >= 0:
            self._end_line(data[start:end])
            start = end + 1
        if start < len(data) and not self._is_discarding:
            self._buffer += data[start:]
            if len(self._buffer) >= self.door.bounds.line_bytes:
                self._buffer.clear()
                self._is_discarding = True
                self._refuse_line(None, self._too_long())

    def _end_line(self, line: bytes) -> None:
        if self._is_discarding:
            self._is_discarding = False
            return
        if self._buffer:
            line = bytes(self._buffer) + line
            self._buffer.clear()
        if len(line) >= self.door.bounds.line_bytes:
            self._refuse_line(None, self._too_long())
        elif self._transport and not self._transport.is_closing():
            self._handle(line)

    def _too_long(self) -> Refused:
        return invalid(
            f"A line is longer than {self.door.bounds.line_bytes} bytes.", "Send less at once, or refer to a file."
        )

    # --- lines ---

    def _handle(self, line: bytes) -> None:
        call_id: int | None = None
        try:
            message = parse(line)
            if not self._is_greeted:
                self._greet(message)
                return
            call_id = call_id_of(message)
            running = self.calls.get(call_id)
            if running is None and "op" in message:
                self._start(call_id, message)
            elif running is not None:
                call_id = None if "op" in message else call_id
                running.receive(message)
        except Refused as refused:
            self._refuse_line(None if call_id in self.calls else call_id, refused)

    def _refuse_line(self, call_id: int | None, refused: Refused) -> None:
        if self._is_greeted:
            self.write({"id": call_id, "error": render(refused)})
        elif self._transport:
            self.write({"refused": render(refused)})
            self._transport.close()

    def _greet(self, message: dict[str, Any]) -> None:
        version, self.client = agree(message)
        self._is_greeted = True
        if self._late:
            self._late.cancel()
        self.write(welcome(version))

    def _start(self, call_id: int, message: dict[str, Any]) -> None:
        op = message.pop("op")
        del message["id"]
        handler = self.door.ops.get(op) if isinstance(op, str) else None
        if handler is None:
            raise no_operation(op)
        if self.door.is_stopping:
            raise BUSY
        if len(self.calls) >= self._bounds.calls:
            raise unavailable(
                f"This connection already has {len(self.calls)} calls in flight.",
                "Wait for answers before asking more.",
            )
        call = self.calls[call_id] = RunningCall(self, call_id, message, self._bounds.stdin_bytes)
        tasks = self.door.tasks
        task = asyncio.get_running_loop().create_task(self._run(call, op, handler))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self, call: RunningCall, op: str, handler: Handler) -> None:
        try:
            answer = _encode({"id": call.id, "result": await handler(call)}) + b"\n"
        except Refused as refused:
            answer = _error(call.id, refused)
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong inside is ours to record
            answer = _error(call.id, unforeseen(self.door.diagnostics, f"op {op}", error))
        finally:
            self.calls.pop(call.id, None)
        self._send(answer)

    # --- what calls need ---

    def write(self, message: dict[str, Any]) -> None:
        """Send one line; nothing where the client is gone."""
        self._send(_encode(message) + b"\n")

    def write_soon(self, message: dict[str, Any]) -> None:
        """The same, together with all else that is said to this client in this turn of the loop: what is committed
        together is told together, with one call of the kernel and one waking of the client."""
        if not self._together:
            asyncio.get_running_loop().call_soon(self._send, b"")
        self._together += (_encode(message), b"\n")

    def _send(self, line: bytes) -> None:
        """A line, after what waits for the end of the turn."""
        if self._together:
            line = b"".join((*self._together, line))
            self._together.clear()
        if line and self._transport:
            self._transport.write(line)

    async def drained(self) -> None:
        """Wait until the client reads again. Raises `Gone`."""
        await asyncio.sleep(
            0
        )  # a client that reads fast never fills the buffer: others must get their turn all the same
        while self._transport and self._can_write:
            await asyncio.shield(self._can_write)
        if not self._transport or self._transport.is_closing():
            raise Gone

    def ancestors(self) -> tuple[tuple[str, str], ...]:
        """Names of the client's parents with their processes, looked up once."""
        if self._ancestors is None:
            self._ancestors = peer.ancestors(self.pid)
        return self._ancestors

    def has_terminal(self, number: int) -> bool:
        """Whether that descriptor of the client is a terminal, as the kernel knows it."""
        return peer.has_terminal(self.pid, number)

    def leave(self) -> None:
        """The host stops or this listener ends: whoever still waits is told, the connection ends."""
        for call_id in list(self.calls):
            self.write({"id": call_id, "error": render(BUSY)})
        if self._transport:
            if self._is_greeted:
                self.write({"id": None, "error": render(BUSY)})
            self._send(b"")
            self._transport.close()


def _error(call_id: int, refused: Refused) -> bytes:
    return _encode({"id": call_id, "error": render(refused)}) + b"\n"
