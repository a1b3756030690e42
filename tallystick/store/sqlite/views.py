"""The views: statements that write rows, made once from the row types, and the named queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
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


class ViewWriter:
    """Writes rows in as few calls as possible; rows of one table stay in their order."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._statements: dict[type[Row], str] = {}

    def write(self, rows: Iterable[Row]) -> None:
        """Write the rows. Raises apsw.ConstraintError where a unique key is taken."""
        tables: dict[str, list[tuple[type[Row], tuple[Any, ...]]]] = {}
        for row in rows:
            tables.setdefault(row.TABLE, []).append((type(row), msgspec.structs.astuple(row)))
        for lines in tables.values():
            for row_type, run in groupby(lines, itemgetter(0)):
                self._connection.executemany(self._statement(row_type), map(itemgetter(1), run))

    def clear(self) -> None:
        """Empty every view."""
        for table in layout.TABLES:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own types

    def _statement(self, row_type: type[Row]) -> str:
        statement = self._statements.get(row_type)
        if statement is None:
            statement = self._statements[row_type] = write_statement(row_type)
        return statement


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
