"""What is kept of the record in memory beside the heads, so that the usual question needs no look into the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

from tallystick.core.events import Recorded
from tallystick.core.state import Task, Work
from tallystick.store.interface import Store

_GROUPS = 4096
_BYTES = 8 * 1024 * 1024
_EVENT_BYTES = 2048
"""What an event takes in memory beside its text, about."""


class Groups:
    """Which tasks belong together: read once per group, then kept exact, uncommitted events included.

    It rests on a query that answers without suspending, as those of memory and SQLite do: with a store that does not,
    what moves while a group is read would have to be noted."""

    def __init__(
        self, store: Store, query: str, field: str, group_of: Callable[[Task], str], pending: Mapping[str, Work]
    ) -> None:
        self._store = store
        self._query = query
        self._field = field
        self._group_of = group_of
        self._pending = pending
        self._known: dict[str, set[str]] = {}

    async def of(self, group: str) -> tuple[str, ...]:
        """The tasks of a group."""
        if group not in self._known:
            rows = await self._store.query(self._query, **{self._field: group})
            self._begin(group, {str(row["task_id"]) for row in rows})
        return tuple(sorted(self._known[group]))

    def committed(self, group: str) -> tuple[str, ...] | None:
        """The same as committed; None where that is not known without a look into the store."""
        known = self._known.get(group)
        if known is None or any(self._group_of(work.task) == group for work in self._pending.values()):
            return None
        return tuple(sorted(known))

    def _begin(self, group: str, found: set[str]) -> None:
        if len(self._known) >= _GROUPS:
            self._known.clear()
        self._known[group] = found
        for task_id, work in self._pending.items():  # the store cannot know these yet
            found.discard(task_id)
            if self._group_of(work.task) == group:
                found.add(task_id)

    def begin_empty(self, group: str) -> None:
        """A new group that nothing can belong to yet."""
        if len(self._known) >= _GROUPS:
            self._known.clear()
        self._known[group] = set()

    def moved(self, before: Work | None, after: Work) -> None:
        """A task has a new event, and may have changed its group."""
        old = self._group_of(before.task) if before is not None else ""
        new = self._group_of(after.task)
        if old and old != new and old in self._known:
            self._known[old].discard(after.task.task_id)
        if new and new in self._known:
            self._known[new].add(after.task.task_id)

    def clear(self) -> None:
        """Read again what is asked for next."""
        self._known.clear()


class Parts:
    """The open parts of each dispatch that belongs to no task, counted since the host started: enough for a limit."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], set[str]] = {}

    def count(self, requester: str, group: str) -> int:
        """How many parts of a dispatch are open, uncommitted ones included."""
        return len(self._open.get((requester, group), ()))

    def moved(self, task: Task) -> None:
        """A task has a new event."""
        if not task.group or task.parent:
            return
        key = (task.requester, task.group)
        if task.open:
            self._open.setdefault(key, set()).add(task.task_id)
        elif key in self._open:
            self._open[key].discard(task.task_id)
            if not self._open[key]:
                del self._open[key]

    def clear(self) -> None:
        """Count anew."""
        self._open.clear()


class Histories:
    """The events of tasks that were written to lately, as committed: whoever is told of an event looks at its task."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, list[Recorded]] = OrderedDict()
        self._bytes = 0

    def of(self, task_id: str) -> list[Recorded] | None:
        """All events of a task in order; None where they are not kept."""
        return self._events.get(task_id)

    def committed(self, recorded: Recorded) -> None:
        """One more event. A history is kept from its first event or not at all."""
        stream, events = recorded.stream, self._events
        before = events.get(stream, [])
        if len(before) != recorded.version - 1:
            self.forget(stream)
            return
        events[stream] = [*before, recorded]
        if before:
            events.move_to_end(stream)
        self._bytes += _size(recorded)
        while self._bytes > _BYTES:
            self.forget(next(iter(self._events)))

    def forget(self, task_id: str) -> None:
        """Its stream was rewritten, or there is no room."""
        self._bytes -= sum(map(_size, self._events.pop(task_id, [])))

    def clear(self) -> None:
        """Keep none."""
        self._events.clear()
        self._bytes = 0


def _size(recorded: Recorded) -> int:
    text = recorded.event.text
    return _EVENT_BYTES + (len(text.title) + len(text.body) if text else 0)
