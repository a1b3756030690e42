"""Many rows in few steps of SQLite.

A step lets go of the interpreter, and while the event loop is busy it is won back only after a while: a statement for
each row would cost the writer a wait for each row. The statements are kept by their number of rows, in powers of two;
what is left over of one is NULL, and it passes over that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import apsw

_MOST: Final = 32


def run(connection: apsw.Connection, statement: Callable[[int], str], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Write rows or ask for them, in order; `statement` tells how it is written for so many. Returns what it found."""
    found: list[Any] = []
    for at in range(0, len(rows), _MOST):
        some = rows[at : at + _MOST]
        size = 1 << (len(some) - 1).bit_length()
        spare = (None,) * len(some[0]) * (size - len(some))
        found += connection.execute(statement(size), (*chain.from_iterable(some), *spare)).fetchall()
    return found


def insert(into: str, width: int, count: int) -> str:
    """The statement that inserts so many rows of so many columns; none of them has NULL in the first."""
    new = f"WITH new AS (VALUES {marks(width, count)})"
    return f"{new} INSERT INTO {into} SELECT * FROM new WHERE column1 IS NOT NULL"  # noqa: S608 - names of our own


def marks(width: int, count: int) -> str:
    """What stands behind VALUES for rows of so many columns."""
    one = f"({', '.join('?' * width)})"
    return ", ".join([one] * count)
