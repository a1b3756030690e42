"""Does what is due: timers and follow-ups of tasks, in order of their time, each as an ordinary command of the host.

What is due stands in the rows of the tasks, so a crash forgets nothing; what cannot be done yet is looked at again
after a while, kept in memory only.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from tallystick.app.clock import HighWater
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.forwarding import Forwarding
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.app.ports import NewId
from tallystick.app.presence import Presence
from tallystick.app.shapes import is_json
from tallystick.app.words import Words
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.events import Text
from tallystick.core.identity import CAPABILITY_PREFIX, HOST, Prefix
from tallystick.core.limits import Limits
from tallystick.core.model import TaskState
from tallystick.core.rows import TaskRow
from tallystick.core.state import Task, Work
from tallystick.core.task import DutyKind, due_duties
from tallystick.store.interface import Store

_SWEEP_SECONDS = 30.0
_PAGE = 1000
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_MOMENT_SECONDS = 0.1
_PASSING = (ErrorCode.UNAVAILABLE, ErrorCode.CONFLICT, ErrorCode.INTERNAL)
"""Refusals of a failure notice that may be otherwise in a moment."""
_SILENT = "Its holder began it and was not heard of for so long that its lease is over."
_UNKNOWN = "Its time is over, and whoever began it was lost sight of."


class Duties:
    """The scheduler. `ends` and `checks` are the effects that belong to others: ending a run, running a check."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        gather: Gather,
        executor: Executor,
        presence: Presence,
        clock: HighWater,
        new_id: NewId,
        limits: Limits,
        diagnostics: Diagnostics,
        reached: Reached = unmoved,
    ) -> None:
        self._store = store
        self._heads = heads
        self._gather = gather
        self._executor = executor
        self._presence = presence
        self._clock = clock
        self._new_id = new_id
        self._limits = limits
        self._words = Words(store, heads.histories.of)
        self._diagnostics = diagnostics
        self._reached = reached
        self._wake = asyncio.Event()
        self._looks_at = math.inf
        """When the next look is, in UTC seconds; infinite during one, so that what comes meanwhile leads to another."""
        self._not_before: dict[str, tuple[float, float]] = {}
        self._task: asyncio.Task[None] | None = None
        self._endings: dict[tuple[str, int, int], asyncio.Future[bool]] = {}
        self.end_run: Callable[[Work], Awaitable[bool]] = _nothing_runs
        self.is_in_hand: Callable[[Work], bool] = _nobody_has_it
        """Whether this host looks after what runs of it at this moment. After a sleep of the machine its lease may be
        over before its first sign of life is heard."""
        self.why_not_begun: Callable[[Work], str] = _nothing_to_say
        """Who was there for a message to a capability that nobody began; empty for other tasks."""
        self.let_go: Callable[[str], Awaitable[None]] = _nothing_to_let_go
        """Told of a delivery that was taken back from who had begun it: what that still says counts for nothing."""
        self.run_check: Callable[[Work], Awaitable[None]] = _no_check
        self._does: dict[DutyKind, Callable[[Work], Awaitable[None]]] = {
            DutyKind.CASCADE: self._cascade,
            DutyKind.FORWARD: Forwarding(store, heads, gather, executor, new_id, limits, reached).forward,
            DutyKind.CONFIRM_CANCEL: self._confirm_cancel,
            DutyKind.CHECK: self._check,
            DutyKind.COMPENSATE: self._compensate,
            DutyKind.FREEZE: self._freeze,
            DutyKind.LAPSE: self._lapse,
            DutyKind.DOUBT: self._doubt,
            DutyKind.EXPIRE: self._expire,
            DutyKind.PERMISSION: self._permission,
        }

    # --- running ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to look for what is due."""
        self._task = asyncio.create_task(self._run(), name="duties")

    async def stop(self) -> None:
        """Stop looking; what is due stays in the rows."""
        tasks: list[asyncio.Future[Any]] = [*self._endings.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def task_changed(self, row: TaskRow) -> None:
        """Look again if something of it is due."""
        if self._not_before:
            self._not_before.pop(row.task_id, None)
            self._not_before.pop(row.parent, None)
        if row.parent or (row.due_at is not None and self._is_too_late_for(row.due_at)):
            self._wake.set()

    def _is_too_late_for(self, due_at: float) -> bool:
        """Whether the next look comes too late, or is overdue: the machine slept, the clock was put on."""
        return due_at < self._looks_at or self._looks_at < self._clock.now()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._looks_at = math.inf
            try:
                wait = await self.once()
            except Exception as error:  # noqa: BLE001 - the scheduler must outlive any one task
                self._diagnostics.failure("duties", error)
                wait = _LONGEST_WAIT
            self._looks_at = self._clock.now() + wait
            # Not wait_for: on Python 3.11 that drops a cancel which comes together with the wake-up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def once(self) -> float:
        """Do all that is due now. Returns the seconds until something may be due again."""
        now = self._clock.now()
        await self._attempt("presence", self._note_lapsed())
        await self._attempt("settling", self._settle_old(now))
        due: list[str] = []
        async for task_id in self._due(now):
            due.append(task_id)
            not_before, _ = self._not_before.get(task_id, (0.0, 0.0))
            if not_before > self._clock.clock.boot():
                continue
            if not await self._attempt(f"duties of {task_id}", self._do(task_id, now)):
                self._later(task_id)
        return await self._until_next(now, due)

    async def _due(self, now: float) -> AsyncIterator[str]:
        """All tasks of which something is due by then, the earliest first: what cannot be done yet stays among them,
        however many they are, and must not hide those behind."""
        after, last = 0.0, ""
        while page := await self._store.query("due_tasks", now=now, after=after, last=last, limit=_PAGE):
            for row in page:
                yield str(row["task_id"])
            after, last = float(page[-1]["due_at"] or 0.0), str(page[-1]["task_id"])

    async def _until_next(self, now: float, due: list[str]) -> float:
        """Until something becomes due, or can be tried again of what is due and could not be done: one that has to wait
        must not keep the others waiting."""
        at = (await self._store.query("next_due", after=now))[0]["at"]
        waits = [_SWEEP_SECONDS]
        if at is not None:
            waits.append(float(at) - self._clock.now())
        boot = self._clock.clock.boot()
        waits += [self._not_before[task_id][0] - boot for task_id in due if task_id in self._not_before]
        return max(0.0, min(waits))

    async def _attempt(self, where: str, what: Awaitable[bool | None]) -> bool:
        """Do one thing of many. That it failed is told by the diagnostics, and keeps nothing else waiting."""
        try:
            return bool(await what)
        except Exception as error:  # noqa: BLE001 - whatever it was: all others are due as well
            self._diagnostics.failure(where, error)
            return False

    async def _do(self, task_id: str, now: float) -> bool:
        """Do what is due of a task, as far as the first that makes it another. Whether one did."""
        work = await self._heads.work(task_id)
        if work is None:
            return False
        for duty in due_duties(work, self._limits, now):
            if await self._has_moved(work, duty.kind):
                return True
        return False

    async def _has_moved(self, work: Work, kind: DutyKind) -> bool:
        """Do one duty. True when the task is another afterwards: its new row says what is due then."""
        self._reached(f"duties.before_{kind.value}")
        with contextlib.suppress(Refused):  # the task moved on in between
            await self._does[kind](work)
        after = await self._heads.work(work.task.task_id)
        return after is not None and after.task.version != work.task.version

    def _later(self, task_id: str) -> None:
        _, waited = self._not_before.get(task_id, (0.0, 0.0))
        wait = min(_LONGEST_WAIT, waited * 2 or _FIRST_WAIT)
        self._not_before[task_id] = (self._clock.clock.boot() + wait, wait)

    async def _host(self, command: cmd.Command, cause: int = 0) -> None:
        await self._executor.execute(command, HOST, cause=cause)

    # --- the duties ---------------------------------------------------------------------------------------------

    async def _cascade(self, work: Work) -> None:
        for child in work.task.cascade:
            try:
                await self._host(cmd.CancelTask(task_id=child))
            except Refused:
                continue  # it ended by itself
        await self._host(cmd.FinishCascade(task_id=work.task.task_id))

    async def _is_ended(self, work: Work) -> bool:
        """Whether nothing of it runs any more. Has it ended, and waits only a moment: others are due as well."""
        task = work.task
        run = (task.task_id, task.fence, task.revision)
        ending = self._endings.get(run)
        if ending is None:
            ending = self._endings[run] = asyncio.ensure_future(self.end_run(work))
            ending.add_done_callback(lambda _: self._look_again(task.task_id))
        await asyncio.wait({ending}, timeout=_MOMENT_SECONDS)
        if not ending.done():
            return False
        self._endings.pop(run, None)
        return ending.result()

    def _look_again(self, task_id: str) -> None:
        self._not_before.pop(task_id, None)
        self._wake.set()

    async def _confirm_cancel(self, work: Work) -> None:
        if await self._is_ended(work):
            await self._host(cmd.ConfirmCancel(task_id=work.task.task_id))

    async def _check(self, work: Work) -> None:
        await self.run_check(work)

    async def _freeze(self, work: Work) -> None:
        await self._host(cmd.FreezeTask(task_id=work.task.task_id))

    async def _lapse(self, work: Work) -> None:
        task = work.task
        if self._presence.lease_left(task) > 0 or self.is_in_hand(work):
            return
        delivery = self._new_id(Prefix.DELIVERY)
        await self._host(cmd.LapseLease(task_id=task.task_id, delivery_id=delivery, fence=task.fence))

    async def _doubt(self, work: Work) -> None:
        if self._presence.lease_left(work.task) > 0 or self.is_in_hand(work):
            return
        if await self._goes_elsewhere(work):
            return
        detail = "The host lost sight of a run that had begun, and its lease is over."
        await self._host(cmd.DoubtTask(task_id=work.task.task_id, detail=detail))

    async def _goes_elsewhere(self, work: Work) -> bool:
        """What a holder of a capability has, and is silent about, goes to another where it may be done twice: the rules
        say whether."""
        assignment = work.assignment
        if assignment is None or not work.task.capability:
            return False
        task_id, delivery_id = work.task.task_id, assignment.delivery_id
        now = self._clock.now()
        try:
            await self._host(cmd.ReturnDelivery(task_id=task_id, delivery_id=delivery_id, retry_at=now, detail=_SILENT))
        except Refused:
            return False
        await self.let_go(delivery_id)
        return True

    async def _expire(self, work: Work) -> None:
        task_id = work.task.task_id
        if work.is_in_doubt:  # nobody is there to end it, and nobody knows what it did
            await self._host(cmd.ExpireTask(task_id=task_id, detail=_UNKNOWN))
        elif await self._is_ended(work):
            await self._host(cmd.ExpireTask(task_id=task_id, ended=True, detail=self.why_not_begun(work)))

    async def _permission(self, work: Work) -> None:
        until = self._clock.now() - self._limits.permission_seconds
        for asked in work.task.permissions:
            if not asked.decision and asked.requested_at <= until:
                await self._host(
                    cmd.DecidePermission(
                        task_id=work.task.task_id, permission_id=asked.permission_id, decision="reject_once"
                    )
                )

    async def _compensate(self, work: Work) -> None:
        """Hand the failure to its compensation target; when that has ended, run the original again."""
        task = work.task
        key = f"compensate/{task.task_id}/{task.failures}"
        child = await self._gather.duplicate(task.workspace, "host", key)
        if child is None:
            try:
                await self._notice_failure(work, key)
            except Refused as refusal:
                if refusal.code not in _PASSING:
                    await self._host(
                        cmd.RestartTask(task_id=task.task_id, delivery_id="", done=False, why_none=refusal.message)
                    )
        elif not child.open:
            done = child.state is TaskState.COMPLETED
            await self._host(
                cmd.RestartTask(task_id=task.task_id, delivery_id=self._new_id(Prefix.DELIVERY), done=done)
            )

    async def _notice_failure(self, work: Work, key: str) -> None:
        task = work.task
        body = (
            f"Task {task.task_id} failed (round {task.failures}). Make good what it may have left behind; "
            "when you are done the original is tried again."
        )
        if task.on_failure.startswith(CAPABILITY_PREFIX):
            body = await self._notice_for_programs(task)
        text = Text(title=f"Failure notice: {task.title}"[: self._limits.title_characters], body=body)
        await self._host(
            cmd.SubmitTask(
                task_id=self._new_id(Prefix.TASK),
                workspace=task.workspace,
                trace=task.trace,
                delivery_id=self._new_id(Prefix.DELIVERY),
                message_id=self._new_id(Prefix.MESSAGE),
                text=text,
                assignee=task.on_failure,
                requester="host",
                key=key,
                parent=task.task_id,
                compensates=task.task_id,
                repository=task.repository,
                base_commit=task.base_commit,
                domains=task.domains or None,
            )
        )

    async def _notice_for_programs(self, task: Task) -> str:
        """A failure notice as the payload of a message to a capability: what failed, why, and what it was given."""
        why = await self._words.at(task, task.version)
        given = await self._words.first(task)
        notice = {
            "task_id": task.task_id,
            "capability": task.capability,
            "title": task.title,
            "round": task.failures,
            "message": why.body,
            "payload": msgspec.Raw(given.body.encode()) if is_json(given.body) else given.body,
        }
        return msgspec.json.encode(notice).decode()

    # --- what is not a task's ------------------------------------------------------------------------------------

    async def _note_lapsed(self) -> None:
        for session in self._presence.lapsed():
            try:
                await self._executor.execute(cmd.NotePresence(session_id=session, presence="lapsed"), HOST)
            except Refused:
                continue

    async def _settle_old(self, now: float) -> None:
        """Traces whose last part ended a day ago are settled by themselves, then archived."""
        before = now - self._limits.settle_after_seconds
        for row in await self._store.query("settleable", before=before, limit=100):
            for part in await self._store.query("in_trace", trace=row["trace"]):
                try:
                    await self._host(cmd.SettleTrace(task_id=str(part["task_id"])))
                except Refused:
                    continue


async def _nothing_runs(_work: Work) -> bool:
    return True


def _nobody_has_it(_work: Work) -> bool:
    return False


async def _nothing_to_let_go(_delivery_id: str) -> None:
    return None


def _nothing_to_say(_work: Work) -> str:
    return ""


async def _no_check(_work: Work) -> None:
    return None
