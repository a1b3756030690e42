"""The views: statements that write rows, made once from the row types, and the named queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from re import findall
from typing import Any, Final

import apsw
import msgspec

from tallystick.core.rows import ROW_TYPES, Row
from tallystick.store import layout
from tallystick.store.interface import Cell
from tallystick.store.schema import named_statements

QUERIES: Final = named_statements("queries.sql")
"""The named queries."""

PARAMETERS: Final = {name: frozenset(findall(r":(\w+)", sql)) for name, sql in QUERIES.items()}
"""The values each of them takes."""


@cache
def write_statement(row_type: type[Row]) -> str:
    """The statement that writes rows of a type: an upsert, or an update for a type with only some columns."""
    if layout.is_partial(row_type):
        return _update(row_type)
    names = layout.columns(row_type)
    others = [name for name in names if name not in row_type.KEY]
    changes = ", ".join(f"{name} = {_new_value(row_type.TABLE, name)}" for name in others)
    numbered = ", ".join(f"?{at}" for at in range(1, len(names) + 1))
    return (
        f"INSERT INTO {row_type.TABLE} ({', '.join(names)}) VALUES ({numbered}) "  # noqa: S608 - names of our own types
        f"ON CONFLICT ({', '.join(row_type.KEY)}) DO UPDATE SET {changes}"
    )


def _update(row_type: type[Row]) -> str:
    place = {name: at for at, name in enumerate(layout.columns(row_type), 1)}
    changes = ", ".join(f"{name} = ?{at}" for name, at in place.items() if name not in row_type.KEY)
    where = " AND ".join(f"{name} = ?{place[name]}" for name in row_type.KEY)
    return f"UPDATE {row_type.TABLE} SET {changes} WHERE {where}"  # noqa: S608 - names of our own types


def _new_value(table: str, name: str) -> str:
    if name in layout.FIXED.get(table, ()):
        # Another value becomes NULL, which the column refuses: a constraint like any other.
        return f"iif({table}.{name} = excluded.{name}, excluded.{name}, NULL)"
    return f"excluded.{name}"


RowKey = tuple[str, Any]
"""A table and the values of a key."""

_KEPT: Final = 4_000


class ViewWriter:
    """Writes rows in few calls, and of a row that was written lately only the columns that changed.

    An upsert touches every index of the table even where nothing changes; an update of the changed columns halves the
    pages of a commit. What was written is remembered for that, bounded, until `forget`.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._known: dict[RowKey, Row] = {}

    def write(self, rows: Iterable[Row]) -> None:
        """Write the rows, in effect one after the other. Raises apsw.ConstraintError where a unique key is taken."""
        whole, rest = self._merge(rows)
        statements: dict[str, list[tuple[Any, ...]]] = {}
        for key, row in whole.items():
            self._plan(self._known.get(key), row, statements)
        for row in rest:
            statements.setdefault(write_statement(type(row)), []).append(msgspec.structs.astuple(row))
        for statement, values in statements.items():
            self._connection.executemany(statement, values)
        self._remember(whole)

    def forget(self) -> None:
        """What was written may not stand any more: a transaction was rolled back, or somebody else wrote."""
        self._known.clear()

    def clear(self) -> None:
        """Empty every view."""
        self.forget()
        for table in layout.TABLES:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own types

    def _merge(self, rows: Iterable[Row]) -> tuple[dict[RowKey, Row], list[Row]]:
        """The last state of each row, and the rows that have to be written as they are."""
        whole: dict[RowKey, Row] = {}
        loose: dict[RowKey, list[Row]] = {}
        for row in rows:
            key = (row.TABLE, layout.key_of(row))
            before = whole.get(key) or self._known.get(key)
            if row.TABLE in layout.FIXED:
                loose.setdefault(key, []).append(row)  # each step counts: the second name-giver has to fail
            elif not layout.is_partial(type(row)):
                whole[key] = row
                loose.pop(key, None)
            elif before is not None:
                whole[key] = msgspec.structs.replace(before, **layout.as_dict(row))
            else:
                loose.setdefault(key, []).append(row)
        return whole, [row for group in loose.values() for row in group]

    def _plan(self, before: Row | None, row: Row, statements: dict[str, list[tuple[Any, ...]]]) -> None:
        new = msgspec.structs.astuple(row)
        if before is None:
            statements.setdefault(write_statement(type(row)), []).append(new)
            return
        old = msgspec.structs.astuple(before)
        if old == new:
            return
        changed = tuple(at for at, value in enumerate(new) if value != old[at])
        values = (*(new[at] for at in changed), *layout.key_of(row))
        statements.setdefault(_change_statement(type(row), changed), []).append(values)

    def _remember(self, rows: dict[RowKey, Row]) -> None:
        for key, row in rows.items():
            self._known.pop(key, None)
            self._known[key] = row
        if len(self._known) > 2 * _KEPT:  # half at once: one by one, a dict walks over all that it has deleted before
            for key in list(islice(self._known, len(self._known) - _KEPT)):
                del self._known[key]


@cache
def _change_statement(row_type: type[Row], changed: tuple[int, ...]) -> str:
    names = layout.columns(row_type)
    changes = ", ".join(f"{names[at]} = ?" for at in changed)
    where = " AND ".join(f"{name} = ?" for name in row_type.KEY)
    return f"UPDATE {row_type.TABLE} SET {changes} WHERE {where}"  # noqa: S608 - names of our own types


class ViewReader:
    """Answers the named queries."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._columns: dict[str, tuple[str, ...]] = {}

    def query(self, name: str, values: Mapping[str, Cell]) -> list[Mapping[str, Cell]]:
        """The rows of a query. KeyError for an unknown name and for values that do not fit."""
        statement = QUERIES[name]
        if PARAMETERS[name] != values.keys():
            raise KeyError(f"{name} takes {sorted(PARAMETERS[name])}, not {sorted(values)}")
        cursor = self._connection.execute(statement, values)
        columns = self._columns.get(name)
        if columns is None:
            try:
                columns = self._columns[name] = tuple(column[0] for column in cursor.get_description())
            except apsw.ExecutionCompleteError:
                return []  # no rows, so there is nothing to name either
        return [dict(zip(columns, row, strict=True)) for row in cursor]

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Every table, by key."""
        return {row_type.TABLE: self._table(row_type) for row_type in ROW_TYPES}

    def _table(self, row_type: type[Row]) -> list[dict[str, Any]]:
        names = layout.columns(row_type)
        rows = self._connection.execute(
            f"SELECT {', '.join(names)} FROM {row_type.TABLE} ORDER BY {', '.join(row_type.KEY)}"  # noqa: S608
        )
        return [dict(zip(names, row, strict=True)) for row in rows]
