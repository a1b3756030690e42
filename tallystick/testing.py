"""The public test kit: a clock, ids, a transport and a store that tests command, and checkers for your own.

    clock, new_id = ManualClock(), SeqIds()
    await check_store(MyStore.open)
    await check_transport(lambda: MyTransport(...), envelope)
    await check_waker(MyWaker(...), there, absent)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tallystick.app.ports import Admission, Began, Envelope, Receipt, Summons, Transport, Waker
from tallystick.core.directory import Agent, SessionState
from tallystick.core.events import Recorded
from tallystick.core.identity import Prefix, make_id
from tallystick.core.wake import BY_OUTCOME, INTENDED, OPEN
from tallystick.store.contract import check_store
from tallystick.store.interface import Cell, Entry, Store, StoreUnavailableError

__all__ = [
    "CrashingStore",
    "FakeTransport",
    "FakeWaker",
    "ManualClock",
    "SeqIds",
    "check_store",
    "check_transport",
    "check_waker",
]

_PATIENCE_SECONDS = 60.0


class ManualClock:
    """A clock that stands still until it is told otherwise. Implements `Clock`; all in seconds."""

    def __init__(self, now: float = 1_800_000_000.0, boot: float = 1_000.0, boot_id: str = "boot-1") -> None:
        self._now, self._boot, self._boot_id = now, boot, boot_id

    def now(self) -> float:
        """UTC by the wall clock."""
        return self._now

    def boot(self) -> float:
        """Since boot; never steps back."""
        return self._boot

    def boot_id(self) -> str:
        """Names this boot."""
        return self._boot_id

    def advance(self, seconds: float) -> None:
        """Time passes, also that in which the machine sleeps. Raises `ValueError` for less than nothing."""
        if seconds < 0:
            raise ValueError("time does not pass backwards; step_wall() sets the wall clock back")
        self._now += seconds
        self._boot += seconds

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock, forwards or back: no time passes."""
        self._now += seconds

    def reboot(self, boot_id: str, seconds: float = 60.0) -> None:
        """The machine starts anew `seconds` later: every lease of before is over."""
        self._now += seconds
        self._boot, self._boot_id = 0.0, boot_id


class SeqIds:
    """Ids that are the same in each run and sort in the order in which they were made. The time of each is a
    millisecond after the one before, or that of `now`, in UTC seconds, where that is later. Implements `NewId`."""

    def __init__(self, milliseconds: int = 1_800_000_000_000, now: Callable[[], float] | None = None) -> None:
        self._milliseconds = milliseconds
        self._now = now
        self._count = 0

    def __call__(self, prefix: Prefix) -> str:
        """The next id of that type."""
        self._count += 1
        self._milliseconds += 1
        if self._now is not None:
            self._milliseconds = max(self._milliseconds, int(self._now() * 1000))
        return make_id(prefix, self._milliseconds, self._count.to_bytes(10, "big"))


class FakeTransport:
    """A recipient that does as told. Implements `Transport`.

    `receipts` by task id (else `receipt`) is what a push ends with; with `holds` it runs until `release` or `end`."""

    def __init__(self, receipt: Receipt | None = None, *, holds: bool = False) -> None:
        self.receipt = receipt or Receipt(outcome="submitted", text="done")
        self.receipts: dict[str, Receipt] = {}
        self.holds = holds
        self.sent: list[Envelope] = []
        """Everything that was handed over, in order."""
        self.ended: list[str] = []
        self.settled_ids: list[str] = []
        self.left: list[str] = []
        """What `found` tells: deliveries of an earlier host."""
        self._gates: dict[str, asyncio.Event] = {}
        self._stopped: set[str] = set()

    async def send(self, envelope: Envelope, began: Began) -> Receipt:
        """Note it, begin, wait if told to, end as told."""
        self.sent.append(envelope)
        receipt = self.receipts.get(envelope.task_id, self.receipt)
        if receipt.outcome == "returned":
            return receipt
        gate = self._gates[envelope.delivery_id] = asyncio.Event()
        try:
            await began("fake", "handed over")
            if self.holds:
                await gate.wait()
        finally:
            del self._gates[envelope.delivery_id]
        return Receipt(outcome="ended") if envelope.delivery_id in self._stopped else receipt

    def release(self, delivery_id: str) -> None:
        """Let a held push go on to its end."""
        self._gates[delivery_id].set()

    async def end(self, delivery_id: str) -> bool:
        """End it."""
        self.ended.append(delivery_id)
        if delivery_id in self._gates:
            self._stopped.add(delivery_id)
            self._gates[delivery_id].set()
        return True

    async def settled(self, delivery_id: str) -> None:
        """Its outcome is recorded."""
        self.settled_ids.append(delivery_id)

    def found(self) -> list[str]:
        """Deliveries of an earlier host."""
        return list(self.left)


class FakeWaker:
    """An entry that does as told. Implements `Waker`.

    `script` is what becomes of each wake, in order; what is not told any more ends as `unverified`."""

    def __init__(self, *script: Admission, is_reachable: bool = True) -> None:
        self.script = script or (
            Admission(outcome="queued", detail="taken"),
            Admission(outcome="started", turn="turn-1", detail="it began"),
            Admission(outcome="completed", turn="turn-1", detail="it is over"),
        )
        self.is_reachable = is_reachable
        self.woken: list[Summons] = []
        """Everybody who was woken, in order."""
        self.ended: list[str] = []
        self._left: dict[str, list[Admission]] = {}

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:  # noqa: ARG002 - all the same
        """As told."""
        return self.is_reachable

    async def wake(self, summons: Summons) -> Admission:
        """Note it, and answer with the first of the script."""
        if not self.is_reachable:
            return Admission(outcome="refused", detail="Nobody is there.")
        self.woken.append(summons)
        first, *rest = self.script
        self._left[summons.wake.wake_id] = rest
        return first

    async def outcome(self, summons: Summons) -> Admission:
        """The next of the script."""
        left = self._left.get(summons.wake.wake_id)
        return left.pop(0) if left else Admission(outcome="unverified", detail="Nobody knows.")

    async def end(self, summons: Summons) -> bool:
        """Note it; nothing of it goes on."""
        self.ended.append(summons.wake.wake_id)
        return self._left.pop(summons.wake.wake_id, None) is not None


class CrashingStore:
    """A store in front of another one whose `append` fails on demand. Implements `Store`.

    `crash_at` counts appends from 1: that one and all later ones raise `StoreUnavailableError` — before anything is
    written, or with `after=True` once it was: the caller cannot tell, as after a real crash. `heal` ends it."""

    def __init__(self, inner: Store, crash_at: int, *, after: bool = False, reason: str = "io") -> None:
        self.inner = inner
        self.appends = 0
        self._crash_at = crash_at
        self._after = after
        self._reason = reason

    def heal(self) -> None:
        """From now on it works."""
        self._crash_at = 0

    async def append(self, batch: Sequence[Entry]) -> list[Recorded]:
        """See `Store.append`."""
        self.appends += 1
        if not self._crash_at or self.appends < self._crash_at:
            return await self.inner.append(batch)
        if self._after and self.appends == self._crash_at:
            await self.inner.append(batch)
        raise StoreUnavailableError(self._reason, "The store was told to crash.")

    async def load(self, stream: str, after_version: int = 0) -> list[Recorded]:
        """See `Store.load`."""
        return await self.inner.load(stream, after_version)

    async def tail(
        self, after: int, limit: int = 1000, *, trace: str = "", stream_prefix: str = "", types: Sequence[str] = ()
    ) -> list[Recorded]:
        """See `Store.tail`."""
        return await self.inner.tail(after, limit, trace=trace, stream_prefix=stream_prefix, types=types)

    async def wait(self, after: int) -> int:
        """See `Store.wait`."""
        return await self.inner.wait(after)

    async def query(self, name: str, **values: Cell) -> list[Mapping[str, Cell]]:
        """See `Store.query`."""
        return await self.inner.query(name, **values)

    async def close(self) -> None:
        """See `Store.close`."""
        await self.inner.close()


async def check_transport(make: Callable[[], Transport], quick: Envelope, endless: Envelope) -> None:
    """Assert what every transport promises. `quick` is for a recipient that succeeds at once, `endless` for one that
    works until it is ended (told by the caller); both with ids that were never used. Raises `AssertionError`."""
    await _succeeds(make(), quick)
    await _is_ended(make(), endless)


async def _succeeds(transport: Transport, envelope: Envelope) -> None:
    begun: list[tuple[str, str]] = []

    async def began(witness: str, evidence: str) -> bool:
        begun.append((witness, evidence))
        return True

    async with asyncio.timeout(_PATIENCE_SECONDS):
        receipt = await transport.send(envelope, began)
    assert receipt.outcome == "submitted", f"a recipient that succeeds is told as submitted, not {receipt}"  # noqa: S101
    assert len(begun) == 1, f"began is called once when the recipient has it, not {len(begun)} times"  # noqa: S101
    assert all(begun[0]), "witness and evidence are told"  # noqa: S101
    assert await transport.end(envelope.delivery_id), "what has ended can be ended again"  # noqa: S101
    await transport.settled(envelope.delivery_id)
    await transport.settled(envelope.delivery_id)
    assert envelope.delivery_id not in transport.found(), "what is settled is not found again"  # noqa: S101


async def _is_ended(transport: Transport, envelope: Envelope) -> None:
    has_begun = asyncio.Event()

    async def began(_witness: str, _evidence: str) -> bool:
        has_begun.set()
        return True

    assert await transport.end("dlv_unknown"), "of what was never sent nothing runs"  # noqa: S101
    sending = asyncio.create_task(_sent(transport, envelope, began))
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await has_begun.wait()
        assert not sending.done(), "send stays until the end"  # noqa: S101
        assert await transport.end(envelope.delivery_id), "it can be ended"  # noqa: S101
        receipt = await sending
    assert receipt.outcome == "ended", f"what we ended is told as ended, not {receipt}"  # noqa: S101
    await transport.settled(envelope.delivery_id)


async def _sent(transport: Transport, envelope: Envelope, began: Any) -> Receipt:
    return await transport.send(envelope, began)


async def check_waker(waker: Waker, there: Summons, absent: Summons, lost: Summons) -> None:
    """Assert what every entry promises. `there`: a session that sleeps, can be woken and comes to the end of its turn;
    `absent`: one that is not there; `lost`: a wake that an earlier host intended, and of which nothing was ever seen.
    Raises `AssertionError`."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        assert not await waker.reachable(absent.agent, absent.session), "who is not there is not reachable"  # noqa: S101
        refused = await waker.wake(absent)
        assert refused.outcome in ("refused", "busy", "plan_mode"), f"nobody there is no {refused.outcome}"  # noqa: S101
        assert (await waker.outcome(lost)).outcome == "unverified", "what nobody saw is not known"  # noqa: S101
        assert await waker.reachable(there.agent, there.session), "who is there is reachable"  # noqa: S101
        await _is_woken(waker, there)


async def _is_woken(waker: Waker, summons: Summons) -> None:
    """Each answer may follow the one before, and the last is that exactly its turn has completed."""
    assert summons.wake.outcome == INTENDED, "give a wake of which nothing was said yet"  # noqa: S101
    admission = await waker.wake(summons)
    while True:
        wake = summons.wake
        row = BY_OUTCOME.get(admission.outcome)
        assert row is not None, f"{admission.outcome!r} is nothing that can become of a wake"  # noqa: S101
        assert wake.outcome in row.after, f"{admission.outcome} does not follow {wake.outcome}"  # noqa: S101
        assert admission.turn in ("", wake.turn) or not wake.turn, "a wake has one turn"  # noqa: S101
        after = msgspec.structs.replace(wake, outcome=admission.outcome, turn=admission.turn or wake.turn)
        summons = msgspec.structs.replace(summons, wake=after)
        if admission.outcome not in OPEN:
            break
        admission = await waker.outcome(summons)
    assert summons.wake.outcome == "completed", f"it ends as completed, not {admission}"  # noqa: S101
    assert summons.wake.turn, "its turn has a name"  # noqa: S101
