"""Replaying the log: the views must be what the events say, always."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.directory import evolve as fold_place
from tallystick.core.fold import evolve
from tallystick.core.limits import Limits
from tallystick.core.project import happened, project_place, standing
from tallystick.core.rows import ROW_TYPES, NoticeReadRow, Row
from tallystick.core.state import Work
from tallystick.store.interface import Maintenance, Store
from tallystick.store.layout import as_dict, key_of

_PAGE = 1000

Tables = dict[str, dict[tuple[Any, ...], Row]]
"""Rows by table and key."""


class Replay:
    """The rows of all events from the beginning. How a task stands is projected once, after its last event."""

    def __init__(self, limits: Limits) -> None:
        self.tables: Tables = {kind.TABLE: {} for kind in ROW_TYPES}
        self._limits = limits
        self._works: dict[str, Work] = {}
        self._directory = Directory()

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
    after = 0
    while page := await store.tail(after, _PAGE):
        for recorded in page:
            replayed.follow(recorded)
        after = page[-1].position
        await asyncio.sleep(0)  # others get their turn between pages
    replayed.end()
    found: list[dict[str, Any]] = []
    for table, stored in (await maintenance.dump()).items():
        found += _compare(table, stored, replayed.tables.get(table, {}))
    return found


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
