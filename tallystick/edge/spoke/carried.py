"""One delivery on its way to a spoke: from SAIL to what became of it.

One task carries it; what the spoke says of it comes to that task in order. The host records BEGIN before it answers it,
and the handler runs only after that answer: without a recorded BEGIN nothing has run and nothing ever will, because a
late BEGIN is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final

import msgspec

from tallystick.app.ports import Began, Envelope, Receipt
from tallystick.core.errors import Refused, conflict
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.errors import refusal

RETREAT_SECONDS: Final = 5.0
"""How long a spoke may take to say that a handler was stopped."""
UNHEARD: Final = 64
"""Frames about one delivery that wait to be looked at; what a spoke says beyond that is not kept."""


NOTE_SECONDS: Final = 1.0
"""Between two records of how far one delivery is: of what is told faster the newest counts."""
NOTE_CHARACTERS: Final = 4096
"""Of the words of one; the rest is not kept."""


class Turn(Enum):
    """What happens to a delivery without a frame of its spoke."""

    LOST = "the connection of its spoke is gone"
    ENDED = "the host ends it"
    SILENT = "nothing came in time"


_PASSING: Final = frozenset({"unavailable", "internal", "canceled"})
"""Codes of what may be otherwise in a moment, or elsewhere."""

Said = f.Shape | Turn
Noted = Callable[[Envelope, f.Progress], Awaitable[None]]
"""Records how far it is."""
Send = Callable[[f.Frame], Awaitable[None]]
"""Sends to the spoke as it is connected now. Raises `ConnectionError` where it is not."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for one delivery besides its words."""

    sail: f.Frame
    ack_seconds: float
    sail_seconds: float | None = None
    """How long the sending itself may take; None: until its spoke is lost."""
    begin_seconds: float
    check_payload: Callable[[], Awaitable[str]]
    """What is wrong with the shape of its payload; empty for nothing."""
    check_result: Callable[[bytes], Awaitable[str]]
    """What is wrong with the shape of a result; empty for nothing."""


class Carried:
    """Carries one delivery. `hear` what comes in; `carry` stays until the outcome is known."""

    def __init__(
        self,
        envelope: Envelope,
        terms: Terms,
        send: Send,
        began: Began,
        noted: Noted,
    ) -> None:
        self.envelope = envelope
        self.has_begun = envelope.adopted
        self.outcome = ""
        """The kind of frame that told how it ended; empty for none."""
        self.fences = {envelope.fence}
        """What the spoke may name: the fence it was handed over with, and the one it came back with."""
        self.stopped = asyncio.Event()
        """Set once its outcome is known."""
        self.recorded = asyncio.Event()
        """Set once that is recorded, too."""
        self.was_lost = False
        """The connection that it was handed over on is gone."""
        self.is_lost = False
        """It has begun, and nobody is there who knows how it goes."""
        self.is_unknown = False
        """Its spoke says that it does not know itself what it did."""
        self._terms = terms
        self._send = send
        self._began = began
        self._noted = noted
        self._said: deque[Said] = deque()
        self._come: asyncio.Future[None] | None = None
        self._sending: asyncio.Timeout | None = None
        """SAIL is on its way, and may take long where the spoke reads slowly."""
        self._progress: f.Progress | None = None
        self._noting: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()
        """How it ended is known; what was told of it before is still to be recorded."""

    @property
    def msg_id(self) -> str:
        """The message that it is an attempt of."""
        return self._terms.sail.header.msg_id

    # --- what comes in ------------------------------------------------------------------------------------------

    def hear(self, said: Said) -> None:
        """The spoke said something of it, or its connection is gone, or the host ends it."""
        if isinstance(said, f.Progress):
            self._note(said)
            return
        if len(self._said) >= UNHEARD and not isinstance(said, Turn):
            return  # it is sent again until it is answered
        self.was_lost = self.was_lost or said is Turn.LOST
        self._said.append(said)
        if self._sending is not None and isinstance(said, Turn) and not self._sending.expired():
            self._sending.reschedule(asyncio.get_running_loop().time())
        if self._come is not None and not self._come.done():
            self._come.set_result(None)

    async def _next(self, seconds: float | None = None) -> Said:
        """What is said next; `SILENT` where nothing is said for so long."""
        if self._said:
            return self._said.popleft()
        loop = asyncio.get_running_loop()
        come = self._come = loop.create_future()
        late = None if seconds is None else loop.call_later(seconds, self.hear, Turn.SILENT)
        try:
            await come
        finally:
            if late is not None:
                late.cancel()
        return self._said.popleft()

    def _note(self, progress: f.Progress) -> None:
        """Of progress that comes faster than it is recorded only the newest is kept."""
        if not self.has_begun or progress.fence not in self.fences or self._is_over.is_set():
            return
        self._progress = msgspec.structs.replace(progress, text=progress.text[:NOTE_CHARACTERS])
        if self._noting is None:
            self._noting = asyncio.get_running_loop().create_task(self._note_all())

    async def _note_all(self) -> None:
        while self._progress is not None:
            progress, self._progress = self._progress, None
            await self._noted(self.envelope, progress)
            with suppress(TimeoutError):
                async with asyncio.timeout(NOTE_SECONDS):
                    await self._is_over.wait()
        self._noting = None

    # --- from SAIL to the outcome -------------------------------------------------------------------------------

    async def carry(self) -> Receipt:
        """Hand it over and stay until something became of it."""
        try:
            receipt = None if self.envelope.adopted else await self._start()
            if receipt is None:
                receipt = await self._finish()
            self._is_over.set()
            if self._noting is not None:
                await asyncio.wait({self._noting})  # what was said before the end is recorded before it
            return receipt
        finally:
            self._is_over.set()
            self.stopped.set()

    async def _start(self) -> Receipt | None:
        """Until it has begun; or how it did not, and never will."""
        bad = await self._terms.check_payload()
        if bad:
            return _failed("invalid", f"The payload has the wrong shape: {bad}.")
        try:
            await self._hand_over()
            seconds = self._terms.ack_seconds
            while True:
                said = await self._next(seconds)
                if isinstance(said, f.Begin):
                    return await self._begin(said)
                if isinstance(said, f.Failure):
                    return self._refused(said)
                if isinstance(said, Turn):
                    return await self._not_begun(said)
                seconds = self._terms.begin_seconds  # it is in the queue of the spoke
        except ConnectionError:
            return _returned(f"It was not handed over: {Turn.LOST.value}.")

    async def _hand_over(self) -> None:
        """Send SAIL; until its time is over, its spoke is lost or the host ends it at most: that is heard next."""
        try:
            async with asyncio.timeout(self._terms.sail_seconds) as self._sending:
                await self._send(self._terms.sail)
        except TimeoutError:
            self.hear(Turn.SILENT)  # after what ended it, where that was said
        finally:
            self._sending = None

    def _refused(self, said: f.Failure) -> Receipt:
        """The spoke said no before it began: for now, for good, or because it does not know itself what it did."""
        detail = said.message or f"The spoke did not take it: {said.code}."
        if said.of == "SAIL" or said.code in _PASSING:
            return _returned(detail)
        self.outcome = "FAIL"
        if said.code == "unverified":
            return Receipt(outcome="unverified", code="unverified", detail=detail)
        return _failed(said.code, detail)

    async def _not_begun(self, turn: Turn) -> Receipt:
        if turn is not Turn.LOST:
            await self._retreat(turn)
        return Receipt(outcome="ended") if turn is Turn.ENDED else _returned(f"It was not begun: {turn.value}.")

    async def _begin(self, begin: f.Begin) -> Receipt | None:
        """Record it, then let the handler run; nothing runs where it cannot be recorded."""
        if begin.fence != self.envelope.fence:
            await self._answer_begin(conflict("That BEGIN is of an earlier attempt.", "Nothing is to be done."))
            return _returned("The spoke began an earlier attempt.")
        if not await self._began(self.envelope.session, "BEGIN, stored by the spoke"):
            await self._answer_begin(conflict("The message is in other hands, or over.", "Nothing is to be done."))
            return Receipt(outcome="ended", detail="It was over before it began.")
        self.has_begun = True
        await self._answer_begin(None)
        return None

    async def _answer_begin(self, refused: Refused | None) -> None:
        delivery = self.envelope.delivery_id
        body: f.Shape = f.Ack(of="BEGIN", delivery=delivery)
        if refused is not None:
            body = refusal(refused, "BEGIN", delivery)
        try:
            await self._send(f.frame("FAIL" if refused else "ACK", self.msg_id, body))
        except ConnectionError:
            return  # the loss itself is told too, and the spoke asks again when it is back

    async def _finish(self) -> Receipt:
        """From the recorded BEGIN to the outcome."""
        is_ending = False
        while True:
            said = await self._next(RETREAT_SECONDS if is_ending else None)
            if isinstance(said, f.OUTCOMES) and said.fence in self.fences:
                return await self._over(said, is_ending=is_ending)
            if isinstance(said, f.Begin) and said.fence in self.fences:
                await self._answer_begin(None)
            elif said is Turn.LOST:
                self.is_lost = True
                return Receipt(outcome="unverified", detail="Its spoke was lost while it worked.")
            elif said is Turn.ENDED:
                is_ending = True
                await self._retreat(Turn.ENDED)

    async def _over(self, said: f.Result | f.Failure, *, is_ending: bool) -> Receipt:
        if isinstance(said, f.Failure):
            self.outcome = "FAIL"
            if is_ending and said.code == "canceled":
                return Receipt(outcome="ended", detail="The spoke stopped it.")
            if said.code == "unverified":  # its process died while the handler ran, and it does not know itself
                self.is_unknown = True
                return Receipt(outcome="unverified", code="unverified", detail=said.message)
            return _failed(_ended_as(said.code), said.message or f"The handler failed: {said.code}.")
        self.outcome = "RESULT"
        payload = msgspec.json.encode(said.payload)
        wrong = await self._terms.check_result(payload)
        if wrong:
            return _failed("invalid", f"The result has the wrong shape: {wrong}.")
        return Receipt(outcome="submitted", text=payload.decode())

    async def _retreat(self, turn: Turn) -> None:
        body = f.Retreat(delivery=self.envelope.delivery_id, why=turn.value)
        try:
            await self._send(f.frame("RETREAT", self.msg_id, body))
        except ConnectionError:
            return  # its loss is told too


_OF_ROUTES: Final = frozenset({"no_route", "offline", "timeout"})
"""Codes by which the host says how a message fared on its way. Of a handler that ran they would tell who waits what
is not so: that nobody offers it, say, where it was a message of the handler's own that nobody took."""


def _ended_as(code: str) -> str:
    """The code of a handler that ended without a result."""
    return "failed" if code in _OF_ROUTES else code


def _failed(code: str, detail: str) -> Receipt:
    return Receipt(outcome="failed", code=code, detail=detail)


def _returned(detail: str) -> Receipt:
    return Receipt(outcome="returned", detail=detail)
