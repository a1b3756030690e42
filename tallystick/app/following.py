"""Whom a commit concerns, as tables: by the kind of its event, and by the kind of each row that it changed.

Most of those who follow commits care for few of them. They are not asked at each whether it is one of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tallystick.core import events as ev
from tallystick.core.rows import Row

OnCommit = Callable[[ev.Recorded, tuple[Row, ...]], None]
"""Told of a commit as a whole."""
OnEvent = tuple[Iterable[type[Any]], Callable[[ev.Recorded], None]]
"""Kinds of events, and who is told of each of them."""
OnRow = tuple[type[Row], Callable[[Any], None]]
"""A kind of rows, and who is told of each of them."""

TASK_EVENTS: Final = tuple(kind for kind in ev.event_types().values() if issubclass(kind, ev.TaskEvent))
OTHER_EVENTS: Final = tuple(kind for kind in ev.event_types().values() if not issubclass(kind, ev.TaskEvent))
"""Of parties, places, sessions and the host itself."""
LEASE_EVENTS: Final = tuple(kind for kind in TASK_EVENTS if "lease_until" in kind.__struct_fields__)
"""Those that may give a lease."""
MODE_EVENTS: Final = (ev.HostModeChanged, ev.WorkspaceModeChanged, ev.AgentModeChanged, ev.SessionModeChanged)
TOKEN_EVENTS: Final = (ev.SpokeTokenMade, ev.SpokeTokenRemoved)


class Following:
    """Tells of each commit whoever it concerns: first of its event, then of its rows, then of both together.

    One that fails costs nobody else what it is told, which for some (a client that waits) is told only once. `stumbled`
    gets where it was, and why."""

    def __init__(
        self,
        events: Iterable[OnEvent],
        rows: Iterable[OnRow],
        commits: Iterable[OnCommit] = (),
        *,
        stumbled: Callable[[str, Exception], object],
    ) -> None:
        self._stumbled = stumbled
        self._events: dict[type[Any], list[Callable[[ev.Recorded], None]]] = {}
        self._rows: dict[type[Row], list[Callable[[Any], None]]] = {}
        self._commits = list(commits)
        for kinds, told in events:
            for kind in kinds:
                self._events.setdefault(kind, []).append(told)
        for row_type, told_row in rows:
            self._rows.setdefault(row_type, []).append(told_row)

    def committed(self, recorded: ev.Recorded, rows: tuple[Row, ...]) -> None:
        """An event was committed, with the rows that follow from it."""
        for tell in self._events.get(type(recorded.event), ()):
            try:
                tell(recorded)
            except Exception as error:  # noqa: BLE001 - it is committed, and the others have to know
                self._stumbled("follow", error)
        for row in rows:
            for tell_row in self._rows.get(type(row), ()):
                try:
                    tell_row(row)
                except Exception as error:  # noqa: BLE001 - likewise
                    self._stumbled("follow", error)
        for tell_all in self._commits:
            try:
                tell_all(recorded, rows)
            except Exception as error:  # noqa: BLE001 - likewise
                self._stumbled("follow", error)
