"""The only write path: load, decide, project, append; the answer comes after COMMIT.

One sequential task takes commands in order over the heads, uncommitted batch-mates included. While a batch is being
committed the next one gathers. A failed batch refuses all its commands and everything decided on top of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tallystick.app.clock import HighWater
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.feed import Feed
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.core import commands as cmd
from tallystick.core import places
from tallystick.core.decide import decide, make
from tallystick.core.directory import evolve as fold
from tallystick.core.errors import ErrorCode, Refused, conflict, unavailable
from tallystick.core.events import Recorded
from tallystick.core.identity import Actor
from tallystick.core.limits import Limits
from tallystick.core.project import project, project_place
from tallystick.core.rows import Row
from tallystick.core.state import Unchanged, Work
from tallystick.store.interface import ConflictError, Entry, Store, StoreUnavailableError

_BATCH = 256
_QUIET_TURNS = 2
"""Turns of the event loop without a further command after which nothing more is on its way: one to begin a request that
was read, one to take its command."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a command: the event as recorded, or None if nothing had to be."""

    recorded: Recorded | None
    work: Work | None
    duplicate: bool = False


class _Waiting(msgspec.Struct, frozen=True):
    command: cmd.Command
    actor: Actor
    workspace: str
    trace: str
    cause: int
    future: asyncio.Future[Outcome]
    tries: int


class _Decided(msgspec.Struct, frozen=True):
    waiting: _Waiting
    entry: Entry
    work: Work | None


class Executor:
    """Executes commands. `start` it on the loop; `execute` from anywhere on that loop."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        gather: Gather,
        clock: HighWater,
        feed: Feed,
        limits: Limits,
        before_commit: Callable[[list[Entry]], None] = lambda _batch: None,
        reached: Reached = unmoved,
    ) -> None:
        self._store = store
        self._heads = heads
        self._gather = gather
        self._clock = clock
        self._feed = feed
        self._limits = limits
        self._before_commit = before_commit
        self._reached = reached
        self._queue: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._batch: list[_Decided] = []
        self._went = 1
        """How many commands the last batch had."""
        self._flight: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.refused: Callable[[_Waiting, Refused], None] = lambda _w, _r: None
        self.follow: Callable[[Recorded, tuple[Row, ...]], None] = lambda _r, _rows: None
        self.stumbled: Callable[[str, Exception], object] = lambda _where, _error: None

    async def start(self) -> None:
        """Begin to take commands."""
        self._task = asyncio.create_task(self._run(), name="executor")

    async def stop(self) -> None:
        """Finish what was accepted, then take no more."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    async def execute(
        self, command: cmd.Command, actor: Actor, *, workspace: str = "", trace: str = "", cause: int = 0
    ) -> Outcome:
        """Decide and record one command. Returns after it is durable; raises `Refused` with nothing recorded."""
        if self._stopping:
            raise unavailable("The host is stopping.", "Try again; the next command starts it anew.")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(command, actor, workspace, trace, cause, future, 0))
        self._wake.set()
        # A caller that goes away cancels its future, no more: what was accepted is carried out all the same.
        return await future

    async def _run(self) -> None:
        while True:
            await self._decide_queued()
            if self._batch and self._flight is None:
                await self._gather_mates()
            if self._batch and self._flight is None:
                self._launch()
            if self._stopping and not self._queue and not self._batch and self._flight is None:
                return
            self._wake.clear()
            await self._wake.wait()

    async def _decide_queued(self) -> None:
        while self._queue and len(self._batch) < _BATCH:
            await self._take(self._queue.popleft())

    async def _gather_mates(self) -> None:
        """Wait for what is already on its way through the loop, up to as many as went together the last time: a sync
        for one of them costs as much as a sync for all."""
        quiet = 0
        while len(self._batch) < self._went and quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = 0 if self._queue else quiet + 1
            await self._decide_queued()

    def _launch(self) -> None:
        """Send the batch on its way; at most one is under way, so a failure is seen before the next is sent."""
        batch, self._batch = self._batch, []
        self._went = len(batch)
        self._flight = asyncio.create_task(self._commit(batch), name="commit")

    async def _take(self, waiting: _Waiting) -> None:
        try:
            command = waiting.command
            if isinstance(command, cmd.TaskCommand):
                decided = await self._decide_task(waiting, command)
            else:
                decided = await self._decide_place(waiting, command)
        except Refused as refusal:
            self.refused(waiting, refusal)
            _answer(waiting.future, refusal)
        except StoreUnavailableError as error:
            _answer(waiting.future, _translated(error))
        except Exception as error:  # noqa: BLE001 - one broken command must not stop the write path
            _answer(waiting.future, error)
        else:
            if decided is not None:
                self._batch.append(decided)

    async def _decide_place(
        self, waiting: _Waiting, command: cmd.PlaceCommands | cmd.WakingCommands
    ) -> _Decided | None:
        ctx = await self._gather.context(command, waiting.actor, None)
        event = decide(None, command, ctx)
        if isinstance(event, Unchanged):
            if self._heads.places_pending:
                await self._decide_after_flight(waiting)
            else:
                _answer(waiting.future, Outcome(None, None))
            return None
        record = self._record(waiting, places.stream_of(command), event)
        before = self._heads.directory
        after = fold(before, record)
        rows = project_place(before, record, after)
        self._heads.put_places(after)
        return _Decided(waiting, Entry(record=record, rows=rows), None)

    async def _decide_task(self, waiting: _Waiting, command: Any) -> _Decided | None:
        submitted = type(command) is cmd.SubmitTask
        before = self._heads.remembered(command.task_id)
        # A new id is not looked up in the log: the store refuses to begin a stream twice, and then it is.
        if before is None and (waiting.tries or not submitted):
            before = await self._heads.work(command.task_id)
        if submitted and before is not None:
            raise conflict("There is a task with that id already.", "Send a new id with a new request.")
        ctx = await self._gather.context(command, waiting.actor, before)
        made = make(before, command, ctx, waiting.cause)
        if isinstance(made, Unchanged):
            await self._answer_unchanged(waiting, made)
            return None
        rows = project(before, made.recorded, made.work, self._limits)
        self._heads.put(made.work, before)
        return _Decided(waiting, Entry(record=made.recorded, rows=rows), made.work)

    async def _answer_unchanged(self, waiting: _Waiting, same: Unchanged) -> None:
        """Nothing is recorded; what is answered must be durable all the same."""
        if same.task_id in self._heads.pending:
            await self._decide_after_flight(waiting)
            return
        work = await self._heads.work(same.task_id)
        _answer(waiting.future, Outcome(None, work, same.duplicate))
        if same.duplicate:
            known = Refused(ErrorCode.CONFLICT, "duplicate", "")
            self.refused(waiting, known)

    async def _decide_after_flight(self, waiting: _Waiting) -> None:
        """It says again what is not on the disk yet, and may fail to get there: it is decided anew when that is known,
        and after whatever has to be decided again as well."""
        self._queue.appendleft(waiting)
        if self._flight is None:
            self._launch()
        if self._flight is not None:
            await asyncio.wait({self._flight})

    def _record(self, waiting: _Waiting, stream: str, event: Any) -> Recorded:
        """The event of a party or place; that of a task is made by its rules."""
        return Recorded(
            position=0,
            stream=stream,
            version=self._heads.directory.version_of(stream) + 1,
            workspace=waiting.workspace,
            at=self._clock.now(),
            actor=waiting.actor,
            subject=self._heads.directory.owner_of(waiting.actor.id),
            trace=waiting.trace,
            cause=waiting.cause,
            event=event,
        )

    async def _commit(self, batch: list[_Decided]) -> None:
        recorded = await self._appended(batch)
        self._flight = None
        if len(self._batch) >= self._went:
            self._launch()  # the disk goes on while those who wait are told
        self._wake.set()
        if recorded:
            self._committed(batch, recorded)

    async def _appended(self, batch: list[_Decided]) -> list[Recorded]:
        """The events as recorded; none where the batch failed, and those who wait were told or wait on."""
        entries = [decided.entry for decided in batch]
        try:
            self._before_commit(entries)
            self._reached("executor.before_append")
            recorded = await self._store.append(entries)
            self._reached("executor.after_append")
        except ConflictError:
            self._again(batch)
        except StoreUnavailableError as error:
            self._fail(batch, _translated(error))
        except Exception as error:  # noqa: BLE001 - nothing of the batch may be believed
            self._fail(batch, error)
        else:
            return recorded
        return []

    def _committed(self, batch: list[_Decided], recorded: list[Recorded]) -> None:
        heads = self._heads
        for decided, record in zip(batch, recorded, strict=True):
            if decided.work is not None:
                heads.committed(record)
            else:
                heads.place_committed(record)
        self._feed.committed(recorded[-1].position, {r.stream: r.version for r in recorded})
        for decided, record in zip(batch, recorded, strict=True):
            _answer(decided.waiting.future, Outcome(record, decided.work))
        for decided, record in zip(batch, recorded, strict=True):
            try:
                self.follow(record, decided.entry.rows)
            except Exception as error:  # noqa: BLE001 - it is committed, whatever becomes of who is told
                self.stumbled("follow", error)

    def _fail(self, batch: list[_Decided], error: Exception) -> None:
        """Refuse the batch and what was decided on top of it; the heads are loaded anew."""
        mates, self._batch = self._batch, []
        self._heads.drop()
        for decided in (*batch, *mates):
            _answer(decided.waiting.future, error)

    def _again(self, batch: list[_Decided]) -> None:
        """Somebody else wrote to a stream meanwhile: decide again on what is there now, once each."""
        mates, self._batch = self._batch, []
        self._heads.drop()
        for decided in reversed((*batch, *mates)):
            waiting = decided.waiting
            if waiting.tries >= 3:
                refusal = conflict("Others keep changing what this is about.", "Look at it again, then try again.")
                _answer(waiting.future, refusal)
            else:
                self._queue.appendleft(replace(waiting, tries=waiting.tries + 1))


def _answer(future: asyncio.Future[Outcome], what: Outcome | Exception) -> None:
    if future.done():
        return
    if isinstance(what, Outcome):
        future.set_result(what)
    else:
        future.set_exception(what)
        future.exception()  # a caller that went away leaves nobody to collect it


def _translated(error: StoreUnavailableError) -> Refused:
    remedies = {
        "full": "Free some disk space, then try again.",
        "io": "Look at the disk; the host must be restarted before it writes again.",
        "locked": "Another program holds the database; try again.",
        "readonly": "The log is damaged: see `tally log verify` and `tally doctor`.",
        "closed": "Try again; the next command starts the host anew.",
    }
    return unavailable(f"Nothing was recorded: {error}.", remedies.get(error.reason, "Try again."))
