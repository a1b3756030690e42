"""One call that is being answered: what `app.calls.Call` promises, over one connection."""

from __future__ import annotations

import asyncio
import binascii
from collections.abc import Callable
from typing import Any, Protocol

from tallystick.app.calls import CallerFacts, Terminal
from tallystick.core.errors import Refused, invalid

TEXT = 128 * 1024
"""Characters of output per line, so that no line grows without bound."""

_EARLY = 64
"""Frames that a client may send before its call listens."""

_DOORS = {"tally": "cli", "mcp": "mcp", "hook": "hook"}


class Gone(ConnectionError):
    """The client went away while output was sent to it. A handler need not catch it."""


class Line(Protocol):
    """What a call needs of its connection."""

    uid: int
    pid: int
    listener: str
    client: str
    said: tuple[tuple[Any, ...], CallerFacts] | None
    """What the last call said of its process, and the facts made of that: most calls of a connection say the same."""

    def write(self, message: dict[str, Any]) -> None:
        """Send one line; nothing where the client is gone."""
        ...

    def write_soon(self, message: dict[str, Any]) -> None:
        """The same, in one piece with all else that is said in this turn of the loop."""
        ...

    async def drained(self) -> None:
        """Wait until the client reads again. Raises `Gone`."""
        ...

    def hold(self, is_held: bool) -> None:
        """Read no more of the client for now, or read again."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether the client is there and reads what it is sent."""
        ...

    def ancestors(self) -> tuple[tuple[str, str], ...]:
        """Names of the client's parents with their processes, looked up once."""
        ...

    def has_terminal(self, number: int) -> bool:
        """Whether that descriptor of the client is a terminal."""
        ...


class RunningCall:
    """Implements `Call`."""

    __slots__ = (
        "_chunks",
        "_early",
        "_facts",
        "_heard",
        "_limit",
        "_line",
        "_size",
        "_stop",
        "_waiting",
        "arguments",
        "id",
    )

    def __init__(self, line: Line, call_id: int, arguments: dict[str, Any], stdin_bytes: int) -> None:
        self.id = call_id
        self.arguments = arguments
        self._line = line
        self._limit = stdin_bytes
        self._facts: CallerFacts | None = None
        self._stop: asyncio.Event | None = None
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._chunks: list[bytes] = []
        self._size = 0
        self._early: list[Any] = []
        self._heard: Callable[[Any], None] | None = None

    @property
    def facts(self) -> CallerFacts:
        """Who calls; looked up when first asked for, because the parents cost a walk through the processes."""
        if self._facts is None:
            said = self.arguments.get
            says = said("env"), said("cwd"), said("tty"), said("client")
            known = self._line.said
            if known is None or known[0] != says:
                known = self._line.said = (says, self._look())
            self._facts = known[1]
        return self._facts

    def _look(self) -> CallerFacts:
        fields = self.arguments
        parents = self._line.ancestors()
        return CallerFacts(
            uid=self._line.uid,
            pid=self._line.pid,
            listener=self._line.listener,
            ancestors=tuple([name for name, _ in parents]),
            processes=tuple([process for _, process in parents]),
            client=_text(fields.get("client", ""), "client"),
            environment=_texts(fields.get("env", {})),
            directory=_text(fields.get("cwd", ""), "cwd"),
            terminal=_terminal(fields.get("tty", {}), self._line),
            door=_DOORS.get(self._line.client, "api"),
        )

    async def out(self, text: str) -> None:
        """Send to standard output."""
        await self._print("out", text)

    async def err(self, text: str) -> None:
        """Send to standard error."""
        await self._print("err", text)

    async def _print(self, stream: str, text: str) -> None:
        for start in range(0, len(text), TEXT):
            self._line.write({"id": self.id, stream: text[start : start + TEXT]})
            await self._line.drained()

    async def ask(self, prompt: str) -> str | None:
        """Ask the person one line."""
        if not self.facts.terminal.stdin:
            return None
        reply = await self._want("reply", {"ask": prompt})
        return reply if isinstance(reply, str) else None

    async def stdin(self) -> bytes:
        """The client's standard input to its end."""
        whole = await self._want("stdin", {"want": "stdin", "limit": self._limit})
        return whole if isinstance(whole, bytes) else b""

    async def flushed(self) -> bool:
        """Wait until all output so far was written and flushed."""
        return bool(await self._want("flushed", {"want": "flush"}))

    async def interrupted(self) -> None:
        """Returns when the client was interrupted or went away."""
        if self._stop is None:
            self._stop = asyncio.Event()
        await self._stop.wait()

    def listen(self, take: Callable[[Any], None]) -> None:
        """From now on frames of the client go to `take`; see `Call`."""
        early, self._early = self._early, []
        self._heard = take
        for frame in early:
            take(frame)

    def hold(self, is_held: bool) -> None:
        """Read no more of the client for now, or read again."""
        self._line.hold(is_held)

    async def frame(self, frame: Any) -> None:
        """Send a frame of this call."""
        if not self._line.is_read:
            await self._line.drained()
        self._line.write_soon({"id": self.id, "frame": frame})

    async def _want(self, kind: str, message: dict[str, Any]) -> Any:
        """Ask the client for something and wait; None when it went away or was interrupted."""
        while kind in self._waiting:  # another part of the same handler asks the same: one after the other
            await asyncio.wait([self._waiting[kind]])
        if self._stop is not None and self._stop.is_set():
            return None
        future = self._waiting[kind] = asyncio.get_running_loop().create_future()
        try:
            self._line.write({"id": self.id, **message})
            return await future
        finally:
            del self._waiting[kind]

    # --- what the client sends for this call ---

    def receive(self, message: dict[str, Any]) -> None:
        """A line of the client that belongs to this call."""
        if "frame" in message:
            self._hear(message["frame"])
        elif message.get("interrupt") is True:
            self.stop()
        elif "reply" in message:
            self._settle("reply", message["reply"])
        elif message.get("flushed") is True:
            self._settle("flushed", True)
        elif message.get("eof") is True:
            self._settle("stdin", b"".join(self._taken()))
        elif "stdin" in message:
            self._take(message["stdin"])
        else:
            raise invalid(
                f"Call {self.id} still runs, and this line is neither an answer to it nor an interrupt.",
                "Give each request an id of its own.",
            )

    def stop(self) -> None:
        """The client was interrupted or went away: whoever waits for it stops waiting."""
        if self._stop is None:
            self._stop = asyncio.Event()
        self._stop.set()
        for kind in list(self._waiting):
            self._settle(kind, None)

    def _hear(self, frame: Any) -> None:
        if self._heard is not None:
            self._heard(frame)
        elif len(self._early) < _EARLY:
            self._early.append(frame)
        else:
            raise invalid(f"Call {self.id} does not listen to frames.", "Begin with the operation `reach`.")

    def _take(self, encoded: Any) -> None:
        future = self._waiting.get("stdin")
        if future is None or future.done():
            return  # not asked for, or no longer: nothing is kept
        try:
            chunk = binascii.a2b_base64(encoded, strict_mode=True)
        except (ValueError, TypeError):
            self._refuse_stdin(invalid("A chunk of standard input is no base64.", "Use the `tally` command."))
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > self._limit:
            self._refuse_stdin(
                invalid(
                    f"Standard input is longer than {self._limit} bytes.",
                    "Send less, or refer to a file or a commit.",
                )
            )

    def _taken(self) -> list[bytes]:
        """What came so far, of which nothing is kept here any more."""
        chunks, self._chunks, self._size = self._chunks, [], 0
        return chunks

    def _refuse_stdin(self, refused: Refused) -> None:
        self._taken()
        future = self._waiting["stdin"]
        if not future.done():
            future.set_exception(refused)

    def _settle(self, kind: str, value: Any) -> None:
        future = self._waiting.get(kind)
        if future is not None and not future.done():
            future.set_result(value)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise invalid(f"The field {field} must be a text.", "Use the `tally` command or the SDK.")
    return value


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise invalid("The field env must be an object of texts.", "Use the `tally` command or the SDK.")
    return {name: _text(item, f"env.{name}") for name, item in value.items()}


def _terminal(value: Any, line: Line) -> Terminal:
    """What the client says of its terminal; that it has one, only where that is so."""
    if not isinstance(value, dict):
        raise invalid("The field tty must be an object.", "Use the `tally` command or the SDK.")
    columns = value.get("columns", 80)
    width = columns if type(columns) is int else 80
    return Terminal(
        stdin=value.get("stdin") is True and line.has_terminal(0),
        stdout=value.get("stdout") is True and line.has_terminal(1),
        stderr=value.get("stderr") is True and line.has_terminal(2),
        columns=min(max(width, 20), 1000),
    )
