"""Packs: the archived events of a few traces, compressed together.

Their rows repeat the same ids and field names. One trace alone would shrink less, and two of them leave a fifth of a
page empty (measured). Position and hash stay outside.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import apsw
import msgspec

from tallystick.store.sqlite.bodies import plain, restore
from tallystick.store.sqlite.names import SQL

EventRow = tuple[Any, ...]
"""A row of `events`, columns in the order of the table."""

POSITION, STREAM, VERSION, KIND, TYPE, TRACE, DATA, DIGEST, HASH, BODY = 0, 1, 2, 3, 5, 10, 13, 14, 15, 16
"""Places of the columns that are looked at by place."""

_LEVEL: Final = 6
_KEPT: Final = 16
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode


class DamagedPackError(Exception):
    """A pack cannot be read."""


def pack(rows: list[EventRow]) -> bytes:
    """The bytes of a pack. Hashes are left out: they do not shrink, and stand in `archived`."""
    return zlib.compress(_encode([(*row[:HASH], _plain(row[BODY])) for row in rows]), _LEVEL)


def _plain(form: bytes | None) -> bytes | None:
    # Deflated alone it would not shrink again; in plain it shrinks with the rest of its trace.
    return plain(restore(form)) if form else form


def unpack(data: bytes) -> list[EventRow]:
    """The rows again, with an empty hash."""
    try:
        return [(*row[:HASH], b"", row[HASH]) for row in _decode(zlib.decompress(data))]
    except (zlib.error, msgspec.DecodeError, IndexError) as error:
        raise DamagedPackError(str(error)) from error


class PackReader:
    """Packs as one connection reads them; the last few are kept open."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute: Callable[..., Any] = connection.execute
        self._open: OrderedDict[int, tuple[bytes, dict[int, EventRow]]] = OrderedDict()

    def rows(self, number: int) -> dict[int, EventRow]:
        """The rows of a pack by position. Raises DamagedPackError."""
        found = self._execute(SQL["pack"], (number,)).fetchall()
        if not found:
            raise DamagedPackError(f"pack {number} is missing")
        data: bytes = found[0][0]
        kept = self._open.get(number)
        if kept is None or kept[0] != data:
            kept = self._open[number] = (data, {row[POSITION]: row for row in unpack(data)})
        self._open.move_to_end(number)
        if len(self._open) > _KEPT:
            self._open.popitem(last=False)
        return kept[1]

    def forget(self) -> None:
        """Keep none open: bodies were erased."""
        self._open.clear()
