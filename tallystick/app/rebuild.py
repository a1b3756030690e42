"""Replaying the log: the views must be what the events say, always."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.directory import evolve as fold_place
from tallystick.core.errors import unavailable
from tallystick.core.fold import evolve
from tallystick.core.limits import Limits
from tallystick.core.project import happened, project_place, standing
from tallystick.core.rows import ROW_TYPES, NoticeReadRow, Row
from tallystick.core.state import Work
from tallystick.store.interface import Maintenance, Store
from tallystick.store.layout import as_dict, key_of

_PAGE = 1000
_TRIES = 20
"""How often new events are caught up with before the log is called too busy to be compared."""

Tables = dict[str, dict[tuple[Any, ...], Row]]
"""Rows by table and key."""


class Replay:
    """The rows of all events from the beginning. How a task stands is projected once, after its last event."""

    def __init__(self, limits: Limits) -> None:
        self.tables: Tables = {kind.TABLE: {} for kind in ROW_TYPES}
        self._limits = limits
        self._works: dict[str, Work] = {}
        self._directory = Directory()

    def knows(self, recorded: ev.Recorded) -> bool:
        """Whether what this event builds on is in memory; a task that was settled is let go of."""
        is_task = isinstance(recorded.event, ev.TaskEvent)
        return not is_task or recorded.version == 1 or recorded.stream in self._works

    def restore(self, work: Work | None) -> None:
        """Take a task up again."""
        if work is not None:
            self._works[work.task.task_id] = work

    def follow(self, recorded: ev.Recorded) -> None:
        """One more event."""
        if isinstance(recorded.event, ev.TaskEvent):
            self._follow_task(recorded)
            return
        before, self._directory = self._directory, fold_place(self._directory, recorded)
        self._write(project_place(before, recorded, self._directory))

    def _follow_task(self, recorded: ev.Recorded) -> None:
        before = self._works.get(recorded.stream)
        work = self._works[recorded.stream] = evolve(before, recorded)
        self._write(happened(before, recorded, work))
        if work.task.settled:
            self._stand(recorded.stream)

    def _stand(self, task_id: str) -> None:
        self._write(standing(self._works.pop(task_id), self._limits))

    def end(self) -> None:
        """That was the last event."""
        for task_id in list(self._works):
            self._stand(task_id)

    def _write(self, rows: tuple[Row, ...] | list[Row]) -> None:
        for row in rows:
            table, key = self.tables[row.TABLE], key_of(row)
            if not isinstance(row, NoticeReadRow):
                table[key] = row
            elif key in table:
                table[key] = msgspec.structs.replace(table[key], unread=row.unread)


async def replay(store: Store, maintenance: Maintenance, limits: Limits) -> list[dict[str, Any]]:
    """Where the stored views differ from a replay: table, key, stored, replayed. Empty when they agree."""
    replayed = Replay(limits)
    position = 0
    for _ in range(_TRIES):
        position = await _follow_from(store, replayed, position)
        stored = await maintenance.dump()
        if (await maintenance.head())[0] == position:  # nothing came while the views were read
            break
    else:
        raise unavailable("The log grows faster than it can be compared.", "Try again when less is going on.")
    found: list[dict[str, Any]] = []
    for table, rows in stored.items():
        found += _compare(table, rows, replayed.tables.get(table, {}))
    return found


async def _follow_from(store: Store, replayed: Replay, position: int) -> int:
    """Replay what came after a position; the newest position."""
    while page := await store.tail(position, _PAGE):
        for recorded in page:
            if not replayed.knows(recorded):
                replayed.restore(await _before(store, recorded))
            replayed.follow(recorded)
        position = page[-1].position
        await asyncio.sleep(0)  # others get their turn between pages
    replayed.end()
    return position


async def _before(store: Store, recorded: ev.Recorded) -> Work | None:
    """The work of a task that was let go of before something more happened to it."""
    work: Work | None = None
    for earlier in await store.load(recorded.stream):
        work = evolve(work, earlier) if earlier.version < recorded.version else work
    return work


def _compare(table: str, stored: list[dict[str, Any]], expected: dict[tuple[Any, ...], Row]) -> list[dict[str, Any]]:
    keys = next(kind.KEY for kind in ROW_TYPES if table == kind.TABLE)
    left = dict(expected)
    found = []
    for row in stored:
        key = tuple([row[name] for name in keys])
        replayed = left.pop(key, None)
        replayed_row = as_dict(replayed) if replayed is not None else None
        if replayed_row != row:
            found.append({"table": table, "key": list(key), "stored": row, "replayed": replayed_row})
    for key, known in left.items():
        found.append({"table": table, "key": list(key), "stored": None, "replayed": as_dict(known)})
    return found
