"""Many rows in few steps of SQLite.

A step lets go of the interpreter, and while the event loop is busy it is won back only after a while: a statement for
each row would cost the writer a wait for each row. The statements are kept by their number of rows, in powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

import apsw

_SIZES: Final = (32, 16, 8, 4, 2, 1)


def run(connection: apsw.Connection, statement: Callable[[int], str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Write rows, in order; `statement` tells how it is written for so many of them."""
    at, count = 0, len(rows)
    for size in _SIZES:
        while count - at >= size:
            connection.execute(statement(size), tuple(chain.from_iterable(rows[at : at + size])))
            at += size


def marks(width: int, count: int) -> str:
    """What stands behind VALUES for rows of so many columns."""
    one = f"({', '.join('?' * width)})"
    return ", ".join([one] * count)
