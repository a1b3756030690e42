"""The views: statements that write rows, made once from the row types, and the named queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from itertools import compress, islice
from operator import attrgetter, ne
from re import findall
from typing import Any, Final

import apsw
import msgspec

from tallystick.core.rows import ROW_TYPES, Row
from tallystick.store import layout
from tallystick.store.interface import Cell
from tallystick.store.schema import named_statements
from tallystick.store.sqlite import bulk

QUERIES: Final = named_statements("queries.sql")
"""The named queries."""

PARAMETERS: Final = {name: frozenset(findall(r":(\w+)", sql)) for name, sql in QUERIES.items()}
"""The values each of them takes."""


@cache
def write_statement(row_type: type[Row], count: int = 1) -> str:
    """The statement that writes so many rows of a type: an upsert, or an update for a type with only some columns."""
    if layout.is_partial(row_type):
        return _update(row_type)
    names = layout.columns(row_type)
    others = [name for name in names if name not in row_type.KEY]
    changes = ", ".join(f"{name} = {_new_value(row_type.TABLE, name)}" for name in others)
    into = f"{row_type.TABLE} ({', '.join(names)})"
    return f"{bulk.insert(into, len(names), count)} ON CONFLICT ({', '.join(row_type.KEY)}) DO UPDATE SET {changes}"


@cache
def change_statement(row_type: type[Row], changed: tuple[bool, ...], count: int = 1) -> str:
    """The statement that writes the changed columns of so many rows: first their new values, then the key (a row whose
    key is NULL fits none)."""
    given = list(compress(layout.columns(row_type), changed))
    changes = ", ".join(f"{name} = new.{name}" for name in given)
    where = " AND ".join(f"{row_type.TABLE}.{name} = new.{name}" for name in row_type.KEY)
    return (
        f"WITH new ({', '.join((*given, *row_type.KEY))}) AS "  # noqa: S608 - names of our own types
        f"(VALUES {bulk.marks(len(given) + len(row_type.KEY), count)}) "
        f"UPDATE {row_type.TABLE} SET {changes} FROM new WHERE {where}"
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
"""A table and what stands in its key."""

_KEYS: Final = {row_type.TABLE: attrgetter(*row_type.KEY) for row_type in ROW_TYPES}
_KEPT: Final = 4_000
_Written = dict[tuple[type[Row], tuple[bool, ...]], list[tuple[Any, ...]]]
"""What is to be written: by the type of the rows and which columns changed; empty for rows that are new."""


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
        written: _Written = {}
        known = self._known
        for key, row in whole.items():
            _plan(known.get(key), row, written)
        for (row_type, changed), values in written.items():
            make = partial(change_statement, row_type, changed) if changed else partial(write_statement, row_type)
            bulk.run(self._connection, make, values)
        for row in rest:  # one by one: of these each step counts
            self._connection.execute(write_statement(type(row)), msgspec.structs.astuple(row))
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
            table = row.TABLE
            key = (table, _KEYS[table](row))
            if type(row) is layout.TABLES[table] and table not in layout.FIXED:
                whole[key] = row
                if loose:
                    loose.pop(key, None)
                continue
            before = whole.get(key) or self._known.get(key)
            if before is None or table in layout.FIXED:
                loose.setdefault(key, []).append(row)  # each step counts: the second name-giver has to fail
            else:
                whole[key] = msgspec.structs.replace(before, **layout.as_dict(row))
        return whole, [row for group in loose.values() for row in group]

    def _remember(self, rows: dict[RowKey, Row]) -> None:
        known = self._known
        for key in rows.keys() & known.keys():
            del known[key]  # what was written last comes last
        known.update(rows)
        if len(known) > 2 * _KEPT:  # half at once: one by one, a dict walks over all that it has deleted before
            for key in list(islice(known, len(known) - _KEPT)):
                del known[key]


def _plan(before: Row | None, row: Row, written: _Written) -> None:
    new = msgspec.structs.astuple(row)
    if before is None:
        written.setdefault((type(row), ()), []).append(new)
        return
    old = msgspec.structs.astuple(before)
    if old != new:
        changed = tuple(map(ne, new, old))
        values = (*compress(new, changed), *[getattr(row, name) for name in row.KEY])
        written.setdefault((type(row), changed), []).append(values)


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
