"""Verifying the log: the chain of hashes and the digests of bodies, in slices between which others get a turn."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Final

import apsw

from tallystick.store.blobs import DamagedBlobError
from tallystick.store.codec import GENESIS, digest_of, link
from tallystick.store.interface import Damage
from tallystick.store.sqlite.log import LogReader
from tallystick.store.sqlite.packs import DIGEST, HASH, POSITION, DamagedPackError, EventRow

SLICE: Final = 500
"""Events that are verified in one go."""


class Audit:
    """One walk along the chain, from after a position."""

    def __init__(self, log: LogReader, after: int, limit: int | None) -> None:
        self._log = log
        self._position = after
        self._left = limit
        self._previous: bytes | None = None
        self.damages: list[Damage] = []
        """What was found so far."""

    def step(self) -> bool:
        """Verify one slice, inside a snapshot; whether there may be more."""
        size = SLICE if self._left is None else min(SLICE, self._left)
        if self._previous is None:
            self._previous = self._anchor()
        begun = self._position
        try:
            for row in islice(self._log.after(self._position), size):
                self._verify(row)
        except (apsw.Error, DamagedPackError, KeyError, UnicodeDecodeError) as error:
            return self._skip(error)
        if self._left is not None:
            self._left -= size
        return self._position - begun >= size and self._left != 0

    def _anchor(self) -> bytes:
        found = self._log.hash_at(self._position) if self._position else GENESIS
        if found is None:
            self._found(self._position, "this event is missing")
        return found or GENESIS

    def _skip(self, error: Exception) -> bool:
        # Behind an event that cannot be read the walk goes on, where the stubs of the archive still tell the hash.
        broken = self._position + 1
        self._found(broken, f"it cannot be read: {error}")
        if isinstance(error, apsw.Error):
            return False
        self._position, self._previous = broken, self._log.hash_at(broken) or GENESIS
        if self._left is not None:
            self._left -= 1
        return self._left != 0

    def _verify(self, row: EventRow) -> None:
        position = row[POSITION]
        if position != self._position + 1:
            self._found(self._position + 1, f"the events up to {position} are missing")
        assert self._previous is not None  # noqa: S101 - for the type checker
        if link(self._previous, position, self._log.canonical(row)) != row[HASH]:
            self._found(position, "the hash does not fit the event and the one before it")
        self._verify_body(row, row[DIGEST])
        self._position, self._previous = position, row[HASH]

    def _verify_body(self, row: EventRow, digest: bytes) -> None:
        try:
            body = self._log.body(row, digest)
        except (DamagedBlobError, OSError, zlib.error) as error:
            self._found(row[POSITION], f"the body cannot be read: {error}")
            return
        if body is not None and digest_of(body) != digest:
            self._found(row[POSITION], "the body does not fit its digest")

    def _found(self, position: int, detail: str) -> None:
        self.damages.append(Damage(position, detail))


def integrity(connection: apsw.Connection) -> Iterator[Damage]:
    """What SQLite itself finds wrong with the file (it reads all of it)."""
    try:
        for (line,) in connection.execute("PRAGMA quick_check(20)"):
            if line != "ok":
                yield Damage(0, f"the file: {line}")
    except apsw.Error as error:
        yield Damage(0, f"the file: {error}")
