"""What the write path has in memory: the directory, recent tasks, and what is appended but not yet committed.

Everything here can be dropped and loaded again from the store; after a failed batch it is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncIterator

from tallystick.core.directory import Directory
from tallystick.core.directory import evolve as evolve_directory
from tallystick.core.events import Recorded
from tallystick.core.fold import evolve
from tallystick.core.state import Work
from tallystick.store.interface import Store

_KEPT = 4096
_PAGE = 1000
_PLACES = ("agt_", "per_", "wsp_", "ses_", "host")
_PAGE = 1000


class Heads:
    """The newest state of every stream that a decision may rest on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.directory = Directory()
        self.committed_directory = Directory()
        self._works: OrderedDict[str, Work] = OrderedDict()
        self.pending: dict[str, Work] = {}
        """Tasks with uncommitted events: queries of the store do not see these yet."""
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
        found = await self.remembered(task_id)
        if found is not None:
            return found
        work: Work | None = None
        for recorded in await self._store.load(task_id):
            work = evolve(work, recorded)
        if work is not None:
            self._keep(task_id, work)
        return work

    async def remembered(self, task_id: str) -> Work | None:
        """The same without a look into the log."""
        if task_id in self._works:
            self._works.move_to_end(task_id)
        return self.pending.get(task_id) or self._works.get(task_id)

    def put(self, work: Work, before: Work | None) -> None:
        """A task has a new event, not yet committed."""
        self.pending[work.task.task_id] = work
        self._count(before, -1)
        self._count(work, +1)

    def committed(self, task_id: str, version: int) -> None:
        """That event is durable."""
        work = self.pending.get(task_id)
        if work is None:
            return
        if work.task.version == version:
            del self.pending[task_id]
        self._keep(task_id, work)

    def drop(self) -> None:
        """Forget everything uncommitted."""
        self.directory = self.committed_directory
        for task_id in self.pending:
            self._works.pop(task_id, None)
        self.pending.clear()
        self._queued.clear()
        self._queued_by.clear()

    def forget(self, task_id: str) -> None:
        """Its stream was rewritten (bodies erased): load it anew."""
        self._works.pop(task_id, None)

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

    def _uncommitted(self, recipient: str, sender: str | None) -> int:
        """How many of the pending tasks' open deliveries the store cannot have counted yet."""
        count = 0
        for work in self.pending.values():
            for d in work.deliveries:
                if d.open and d.recipient == recipient and sender in (None, d.sender) and work.task.version == 1:
                    count += 1
        return count

    def _count(self, work: Work | None, step: int) -> None:
        if work is None:
            return
        for d in work.deliveries:
            if not d.open:
                continue
            if d.recipient in self._queued:
                self._queued[d.recipient] += step
            if (d.recipient, d.sender) in self._queued_by:
                self._queued_by[d.recipient, d.sender] += step

    def fold_place(self, recorded: Recorded) -> None:
        """A party or place has a new event, not yet committed."""
        self.directory = evolve_directory(self.directory, recorded)
