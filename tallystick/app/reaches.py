"""What becomes of messages, told to those who wait for them: from memory, right after each commit, found by task id.

A reader follows the events of its one task as they come; nothing is looked up, nothing is polled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from tallystick.app.desk.reach import ENDS, Reached
from tallystick.app.heads import Heads
from tallystick.app.remedies import remedy_of, remedy_of_doubt
from tallystick.core import events as ev
from tallystick.core.fold import evolve
from tallystick.core.identity import CAPABILITY_PREFIX, short
from tallystick.core.link import link_of
from tallystick.core.model import Reason, TaskState, place
from tallystick.core.state import Task, Work
from tallystick.store.interface import Store


class Reaches:
    """All readers of a host, by task."""

    def __init__(self, store: Store, heads: Heads) -> None:
        self._store = store
        self._heads = heads
        self._readers: dict[str, list[_Reader]] = {}

    def committed(self, recorded: ev.Recorded) -> None:
        """An event of a task is durable."""
        for reader in self._readers.get(recorded.stream, ()):
            try:
                reader.told(recorded)
            except Exception as error:  # noqa: BLE001 - who waits for it gets it; the others are told what happened
                reader.fails(error)

    def is_followed(self, task_id: str) -> bool:
        """Whether somebody waits for its outcome."""
        return task_id in self._readers

    async def follow(self, task_id: str) -> AsyncIterator[Reached]:
        """Where the message is, then all that happens to it, ending with its result or failure."""
        reader = _Reader(Story(self._heads))
        self._readers.setdefault(task_id, []).append(reader)
        try:
            reader.begin(self._heads.histories.of(task_id) or await self._store.load(task_id))
            told = await reader.next()
            yield told
            while told.what not in ENDS:
                told = await reader.next()
                yield told
        finally:
            left = self._readers[task_id]
            left.remove(reader)
            if not left:
                del self._readers[task_id]


class _Reader:
    """What one reader has still to be told of its task, in order."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._early: list[ev.Recorded] | None = []
        """What came while the log was read; None once it is."""
        self._came: deque[Reached] = deque()
        self._come: asyncio.Future[None] | None = None
        self._is_last_progress = False
        self._failure: Exception | None = None

    def begin(self, history: Sequence[ev.Recorded]) -> None:
        """Its events up to now were read; what was read is not told again."""
        for recorded in history:
            self._story.goes_on(recorded)
        self._came.append(self._story.so_far())
        early, self._early = self._early, None
        for recorded in early or ():
            if recorded.version > self._story.version:
                self.told(recorded)

    def told(self, recorded: ev.Recorded) -> None:
        """One more event. Of progress that nobody fetches only the newest is kept."""
        if self._early is not None:
            self._early.append(recorded)
            return
        told = self._story.goes_on(recorded)
        if told is None:
            return
        is_progress = isinstance(recorded.event, ev.TaskProgressed)
        if is_progress and self._is_last_progress and self._came:
            self._came.pop()
        self._is_last_progress = is_progress
        self._came.append(told)
        if self._come is not None and not self._come.done():
            self._come.set_result(None)

    def fails(self, error: Exception) -> None:
        """What happened could not be made out: after what was told before, whoever waits is told that."""
        self._failure = error
        if self._come is not None and not self._come.done():
            self._come.set_exception(error)

    async def next(self) -> Reached:
        """What is told next; waits for it. Raises what kept it from being told."""
        if not self._came and self._failure is not None:
            raise self._failure
        if not self._came:
            self._come = asyncio.get_running_loop().create_future()
            await self._come
        return self._came.popleft()


class Story:
    """One message as its sender sees it: folded from the events of its task, in order."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._work: Work | None = None
        self._payload = ""
        self._code = ""
        self._verdict = ""

    @property
    def version(self) -> int:
        """Of the task, as far as it was told."""
        return self._work.task.version if self._work else 0

    def goes_on(self, recorded: ev.Recorded) -> Reached | None:
        """One more event: what it means to the sender, or None where it means nothing to it."""
        event = recorded.event
        after = self._work = self._after(recorded)
        words = event.text.body if event.text else ""
        if isinstance(event, ev.ResultHandedIn) or (isinstance(event, ev.DoubtSettled) and event.outcome == "done"):
            self._payload = words
        elif isinstance(event, _VERDICTS):
            self._verdict, self._code = words or getattr(event, "detail", ""), getattr(event, "code", "")
        elif isinstance(event, ev.TaskRestarted) and event.detail:
            said = (self._verdict, f"Nothing made it good: {event.detail}")
            self._verdict = " ".join(_sentence(text) for text in said if text)
        if isinstance(event, _REFUTES):
            self._code = CODES["failed/refuted"]
        if not after.task.open:
            return self._ended(after)
        if isinstance(event, ev.TaskProgressed):
            return self._told("progress", after, text=words, fraction=event.fraction)
        if isinstance(event, _BEGUN):
            return self._told("begun", after)
        if isinstance(event, ev.DeliveryUnverified):  # its spoke may be back within its lease: the waiting goes on
            return self._told("progress", after, text=f"lost sight of it: {event.detail or 'its holder is gone'}")
        if isinstance(event, _DOUBTED):
            return self._told("unverified", after, code="unverified", **_doubted(after.task, event.detail))
        return None

    def _after(self, recorded: ev.Recorded) -> Work:
        """The task after that event: as the host has it, where it has nothing newer."""
        known = self._heads.committed_work(recorded.stream)
        return known if known is not None and known.task.version == recorded.version else evolve(self._work, recorded)

    def so_far(self) -> Reached:
        """Where it stands for somebody who comes late. There must be a first event."""
        if self._work is None:
            raise ValueError("a message without events")
        if not self._work.task.open:
            return self._ended(self._work, duplicate=True)
        task = self._work.task
        if task.reason is Reason.UNVERIFIED:
            return self._told("unverified", self._work, code="unverified", **_doubted(task, task.doubt))
        return self._told("waits", self._work)

    def _ended(self, work: Work, *, duplicate: bool = False) -> Reached:
        task = work.task
        if task.state is TaskState.COMPLETED:
            return self._told("result", work, payload=self._payload, duplicate=duplicate)
        code = self._code if self._code and task.state is TaskState.FAILED else _code(task)
        said = f": {self._verdict}" if self._verdict else ""
        message = _sentence(f"Task {short(task.task_id)} is {task.place.replace('_', ' ')}{said}")
        remedy = remedy_of(task, code)
        return self._told("failed", work, code=code, message=message, remedy=remedy, duplicate=duplicate)

    def _told(self, what: str, work: Work, **given: Any) -> Reached:
        task = work.task
        link, spoke = link_of(work).value, self._holder(task)
        return Reached(task_id=task.task_id, what=what, link=link, version=task.version, spoke=spoke, **given)

    def _holder(self, task: Task) -> str:
        holder = task.holder or task.last_holder or task.assignee
        if not holder or holder.startswith(CAPABILITY_PREFIX):
            return ""
        return self._heads.committed_directory.alias_of(holder).removeprefix("@")


_BEGUN: Final = (ev.DeliveryBegun, ev.TaskClaimed)
_DOUBTED: Final = (ev.TaskDoubted, ev.TaskExpired)
_VERDICTS: Final = (
    ev.TaskFailed,
    ev.TaskDeclined,
    ev.ResultRefused,
    ev.TaskCanceled,
    ev.DoubtSettled,
    ev.TaskTurnedAway,
    ev.TaskExpired,
)
"""Events whose words say why there is no result."""

_REFUTES: Final = (ev.ResultRefused, ev.CheckReported)
"""Events that say no to a result, where they end a task without one: with or without rounds of compensation before."""

CODES: Final = {
    "failed/error": "unavailable",
    "failed/expired": "timeout",
    "failed/no_route": "no_route",
    "failed/offline": "offline",
    "failed/exhausted": "unavailable",
    "failed/refuted": "invalid",
    "failed/budget": "denied",
}


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _code(task: Task) -> str:
    by_state = {TaskState.CANCELED: "canceled", TaskState.REJECTED: "denied"}
    return by_state.get(task.state) or CODES[place(task.state, task.reason)]


def _doubted(task: Task, detail: str) -> dict[str, str]:
    return {
        "message": f"It was begun, and what became of it is not known: {detail or 'its holder is gone'}",
        "remedy": remedy_of_doubt(task),
    }
