"""Replaying the log: the views must be what the events say, always."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.directory import evolve as fold_place
from tallystick.core.fold import evolve
from tallystick.core.limits import Limits
from tallystick.core.project import project, project_place
from tallystick.core.rows import ROW_TYPES, NoticeReadRow, Row
from tallystick.core.state import Work
from tallystick.store.interface import Maintenance, Store

_PAGE = 1000


async def replayed(store: Store, limits: Limits) -> AsyncIterator[tuple[Row, ...]]:
    """The rows of every event, from the beginning."""
    works: dict[str, Work] = {}
    directory = Directory()
    after = 0
    while page := await store.tail(after, _PAGE):
        for recorded in page:
            if isinstance(recorded.event, ev.TaskEvent):
                before = works.get(recorded.stream) or await _before(store, recorded)
                work = works[recorded.stream] = evolve(before, recorded)
                yield project(before, recorded, work, limits)
                if work.task.settled:
                    del works[recorded.stream]
            else:
                old, directory = directory, fold_place(directory, recorded)
                yield project_place(old, recorded, directory)
        after = page[-1].position


async def _before(store: Store, recorded: ev.Recorded) -> Work | None:
    """The work of a task that was settled, and so let go of, before something more happened to it."""
    work: Work | None = None
    if recorded.version > 1:
        for earlier in await store.load(recorded.stream):
            work = evolve(work, earlier) if earlier.version < recorded.version else work
    return work


async def replay(store: Store, maintenance: Maintenance, limits: Limits) -> list[dict[str, Any]]:
    """Where the stored views differ from a replay: table, key, stored, replayed. Empty when they agree."""
    expected: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {kind.TABLE: {} for kind in ROW_TYPES}
    async for rows in replayed(store, limits):
        for row in rows:
            _apply(expected[row.TABLE], row)
    found: list[dict[str, Any]] = []
    for table, stored in (await maintenance.dump()).items():
        found += _compare(table, stored, expected.get(table, {}))
    return found


def _apply(table: dict[tuple[Any, ...], dict[str, Any]], row: Row) -> None:
    values = msgspec.structs.asdict(row)
    key = tuple(values[name] for name in row.KEY)
    if isinstance(row, NoticeReadRow):
        if key in table:
            table[key]["unread"] = row.unread
        return
    table[key] = values


def _compare(
    table: str, stored: list[dict[str, Any]], expected: dict[tuple[Any, ...], dict[str, Any]]
) -> list[dict[str, Any]]:
    keys = next(kind.KEY for kind in ROW_TYPES if table == kind.TABLE)
    left = dict(expected)
    found = []
    for row in stored:
        key = tuple(row[name] for name in keys)
        replayed_row = left.pop(key, None)
        if replayed_row != row:
            found.append({"table": table, "key": list(key), "stored": row, "replayed": replayed_row})
    found += [{"table": table, "key": list(key), "stored": None, "replayed": row} for key, row in left.items()]
    return found
