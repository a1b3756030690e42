"""What the write path has in memory: the directory, recent tasks, and what is appended but not yet committed.

Everything here can be dropped and loaded again from the store; after a failed batch it is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator

from tallystick.app.recent import Groups, Histories, Parts
from tallystick.core.directory import Directory
from tallystick.core.directory import evolve as evolve_directory
from tallystick.core.events import Recorded
from tallystick.core.fold import evolve
from tallystick.core.model import Reason, TaskState
from tallystick.core.state import Task, Work
from tallystick.store.interface import Store

_KEPT = 4096
_PLACES = ("agt_", "per_", "wsp_", "ses_", "host")
_PAGE = 1000


class Heads:
    """The newest state of every stream that a decision may rest on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.directory = Directory()
        self.committed_directory = Directory()
        self.places_pending = 0
        """How many events of parties and places are not committed yet."""
        self._works: OrderedDict[str, Work] = OrderedDict()
        self.pending: dict[str, Work] = {}
        """Tasks with uncommitted events: queries of the store do not see these yet."""
        self.held = Groups(store, "held", "session", _holding, self.pending)
        """Open tasks that a session holds."""
        self.children = Groups(store, "children", "parent", _parent, self.pending)
        """Open children of a task."""
        self.in_hand = Groups(store, "in_hand", "party", _handed, self.pending)
        """Open tasks for a capability that a holder was handed."""
        self.parts = Parts()
        """Open parts of a dispatch outside of any task."""
        self.histories = Histories()
        self._queued: dict[str, int] = {}
        self._queued_by: dict[tuple[str, str], int] = {}

    async def open(self) -> float:
        """Fold the directory from the log, in the order of the log. Returns the time of its last event."""
        directory = Directory()
        last_at = 0.0
        async for recorded in self._places():
            directory = evolve_directory(directory, recorded)
            last_at = max(last_at, recorded.at)
        self.directory = self.committed_directory = directory
        return last_at

    async def _places(self) -> AsyncIterator[Recorded]:
        """The events of all parties and places, merged by position: an agent's say what workspace it joined."""
        pages = {prefix: deque(await self._store.tail(0, _PAGE, stream_prefix=prefix)) for prefix in _PLACES}
        while pages := {prefix: page for prefix, page in pages.items() if page}:
            prefix = min(pages, key=lambda p: pages[p][0].position)
            recorded = pages[prefix].popleft()
            yield recorded
            if not pages[prefix]:
                pages[prefix].extend(await self._store.tail(recorded.position, _PAGE, stream_prefix=prefix))

    async def work(self, task_id: str) -> Work | None:
        """The task as of its newest event, uncommitted ones included; None if there is none."""
        found = self.remembered(task_id)
        if found is not None:
            return found
        work: Work | None = None
        for recorded in await self._store.load(task_id):
            work = evolve(work, recorded)
        newer = self.remembered(task_id)  # a store that suspends while it reads lets others write meanwhile
        if newer is not None:
            return newer
        if work is not None:
            self._keep(task_id, work)
        return work

    def remembered(self, task_id: str) -> Work | None:
        """The same without a look into the log."""
        found = self.pending.get(task_id)
        if found is None:
            found = self._works.get(task_id)
            if found is not None:
                self._works.move_to_end(task_id)
        return found

    def put(self, work: Work, before: Work | None) -> None:
        """A task has a new event, not yet committed."""
        task_id = work.task.task_id
        self.pending[task_id] = work
        if before is None:
            self.children.begin_empty(task_id)
        self.children.moved(before, work)
        self.held.moved(before, work)
        self.in_hand.moved(before, work)
        self.parts.moved(work.task)
        if (self._queued or self._queued_by) and (before is None or before.deliveries is not work.deliveries):
            self._count(before, -1)
            self._count(work, +1)

    def committed(self, recorded: Recorded) -> None:
        """That event of a task is durable."""
        self.histories.committed(recorded)
        work = self.pending.get(recorded.stream)
        if work is not None:
            if work.task.version == recorded.version:
                del self.pending[recorded.stream]
            self._keep(recorded.stream, work)

    def committed_work(self, task_id: str) -> Work | None:
        """A task as committed; None where that is not in memory."""
        return None if task_id in self.pending else self._works.get(task_id)

    def drop(self) -> None:
        """Forget everything uncommitted."""
        self.directory = self.committed_directory
        self.places_pending = 0
        for task_id in self.pending:
            self._works.pop(task_id, None)
        self.pending.clear()
        self.held.clear()
        self.in_hand.clear()
        self.children.clear()
        self.parts.clear()
        self.histories.clear()
        self._queued.clear()
        self._queued_by.clear()

    def forget(self, task_id: str) -> None:
        """Its stream was rewritten (bodies erased): load it anew."""
        self._works.pop(task_id, None)
        self.histories.forget(task_id)

    def _keep(self, task_id: str, work: Work) -> None:
        self._works[task_id] = work
        self._works.move_to_end(task_id)
        while len(self._works) > _KEPT:
            self._works.popitem(last=False)

    # --- queue lengths: read once per recipient, then kept exact --------------------------------------------------

    async def queued(self, recipient: str) -> int:
        """Open deliveries to a recipient, uncommitted ones included."""
        if recipient not in self._queued:
            rows = await self._store.query("queue", recipient=recipient)
            self._queued[recipient] = int(rows[0]["count"] or 0) + self._uncommitted(recipient, None)
        return self._queued[recipient]

    async def queued_by(self, recipient: str, sender: str) -> int:
        """Open deliveries of one sender to a recipient, uncommitted ones included."""
        key = (recipient, sender)
        if key not in self._queued_by:
            rows = await self._store.query("queue_sender", recipient=recipient, sender=sender)
            self._queued_by[key] = int(rows[0]["count"] or 0) + self._uncommitted(recipient, sender)
        return self._queued_by[key]

    async def outstanding(self, recipient: str) -> int:
        """Deliveries that are being carried out. What is in doubt runs no more, so it takes no slot."""
        rows = await self._store.query("outstanding", recipient=recipient)
        tasks = {str(row["task_id"]) for row in rows} | self.pending.keys()
        works = [await self.work(task_id) for task_id in sorted(tasks)]
        return sum(
            d.open and d.recipient == recipient and d.intent == "intended"
            for work in works
            if work is not None
            for d in work.deliveries
        )

    async def pushed_to(self, agent: str) -> tuple[str, ...]:
        """Tasks that were handed to an agent and that it is not done with, uncommitted ones included."""
        rows = [*await self._store.query("outstanding", recipient=agent), *await self._store.query("sessioned")]
        tasks = {str(row["task_id"]) for row in rows if agent in (row.get("recipient"), row.get("assignee"))}
        works = [await self.work(task_id) for task_id in sorted(tasks | self.pending.keys())]
        return tuple(work.task.task_id for work in works if work is not None and work.is_pushed_to(agent))

    def _uncommitted(self, recipient: str, sender: str | None) -> int:
        """How many of the pending tasks' open deliveries the store cannot have counted yet."""
        count = 0
        for work in self.pending.values():
            for d in work.deliveries:
                if d.open and d.recipient == recipient and sender in (None, d.sender) and work.task.version == 1:
                    count += 1
        return count

    def _count(self, work: Work | None, step: int) -> None:
        for d in work.deliveries if work is not None else ():
            if not d.open:
                continue
            if d.recipient in self._queued:
                self._queued[d.recipient] += step
            if self._queued_by and (d.recipient, d.sender) in self._queued_by:
                self._queued_by[d.recipient, d.sender] += step

    def put_places(self, directory: Directory) -> None:
        """A party or place has a new event, not yet committed."""
        self.directory = directory
        self.places_pending += 1

    def place_committed(self, recorded: Recorded) -> None:
        """That event of a party or place is durable."""
        self.committed_directory = evolve_directory(self.committed_directory, recorded)
        self.places_pending -= 1


def _holding(task: Task) -> str:
    """The session that holds an open task."""
    if not task.session:
        return ""
    return task.session if task.state is TaskState.WORKING or task.reason is Reason.QUESTION else ""


def _handed(task: Task) -> str:
    """Who was handed an open task for a capability."""
    return task.assignee if task.capability and task.session and task.open else ""


def _parent(task: Task) -> str:
    return task.parent if task.parent and task.open else ""
