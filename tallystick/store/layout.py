"""What a store may know about the views: their columns, and which of them may never clash or change.

May live here: facts derived from the row types, shared by the stores. No SQL.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tallystick.core.rows import ROW_TYPES, Row

UNIQUE: Final[dict[str, tuple[str, ...]]] = {"tasks": ("workspace", "requester", "key")}
"""Columns that together stand at most once in a table, rows with a NULL among them left out."""

FIXED: Final[dict[str, tuple[str, ...]]] = {"aliases": ("party",)}
"""Columns that keep their first value: writing another one is a conflict (a name is never given to another)."""

TABLES: Final[dict[str, type[Row]]] = {row.TABLE: row for row in ROW_TYPES}
"""The row type that describes a whole table."""


def columns(row_type: type[Row]) -> tuple[str, ...]:
    """The columns a row type writes, in the order of its fields."""
    return row_type.__struct_fields__


def is_partial(row_type: type[Row]) -> bool:
    """Whether the type only changes some columns of a row that is there, and inserts nothing where none is."""
    return TABLES[row_type.TABLE] is not row_type


def key_of(row: Row) -> tuple[Any, ...]:
    """The values of a row's key."""
    return tuple([getattr(row, name) for name in row.KEY])


def as_dict(row: Row) -> dict[str, Any]:
    """A row as a mapping from column to value."""
    return msgspec.structs.asdict(row)
