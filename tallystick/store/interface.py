"""What a store must do: six methods, one error. Maintenance stands apart.

The rules of the record (`docs/reference/log.md`): positions are dense and become visible in order; an append is one
transaction over events, bodies and rows; it is acknowledged only when it would survive a power cut; appending checks
the expected version of every stream that was read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from tallystick.core.events import Recorded
from tallystick.core.rows import Row

Cell = str | int | float | None
"""A value of a view's column."""

EVERY: Final = 2**62
"""The limit of a query that has to give all of its rows."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One event to be appended, with the rows that follow from it and the versions it was decided on."""

    record: Recorded
    """`position` 0 and `hash` empty: the store gives both. `version` is the expected version of its stream + 1."""
    rows: tuple[Row, ...] = ()
    reads: tuple[tuple[str, int], ...] = ()
    """Other streams that the decision rested on: (stream, version it had)."""


class ConflictError(Exception):
    """Somebody else appended to a stream that was read, or a unique key is taken: load again, decide again."""


class StoreUnavailableError(Exception):
    """The disk refused (full, failing, locked too long) or the store is read-only: nothing of the batch was kept.

    `reason` is one of `full`, `io`, `locked`, `readonly`, `closed`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Store(Protocol):
    """The log and its views."""

    async def append(self, batch: Sequence[Entry]) -> list[Recorded]:
        """All entries in one durable transaction, in order, or none. Returns them with position and hash.

        Entries of one batch may belong to one stream (versions then rise by one).
        Raises ConflictError or StoreUnavailableError; after either nothing of the batch is visible.
        """
        ...

    async def load(self, stream: str, after_version: int = 0) -> list[Recorded]:
        """The events of one stream in order, archived ones included; erased bodies come as `ERASED`."""
        ...

    async def tail(
        self, after: int, limit: int = 1000, *, trace: str = "", stream_prefix: str = "", types: Sequence[str] = ()
    ) -> list[Recorded]:
        """Events with position > `after`, in order, at most `limit`; filters narrow by trace, by the prefix of the
        stream's id (`agt_`), by event names."""
        ...

    async def wait(self, after: int) -> int:
        """Returns the newest position as soon as it is greater than `after`."""
        ...

    async def query(self, name: str, **values: Cell) -> list[Mapping[str, Cell]]:
        """The rows of a named query (`store/sql/queries.sql`). Unknown names and missing values are errors of the
        programmer (KeyError)."""
        ...

    async def close(self) -> None:
        """Flush, checkpoint, close. Idempotent."""
        ...


class Damage(msgspec.Struct, frozen=True):
    """Where the log does not hold together."""

    position: int
    detail: str


class Maintenance(Protocol):
    """What is done to a store outside the normal flow. Each step leaves it whole, also when it is interrupted."""

    async def scan(self, after: int = 0, limit: int | None = None) -> list[Damage]:
        """Verify the hash chain (and the bodies' digests) from `after`; an empty list means it holds."""
        ...

    async def head(self) -> tuple[int, str]:
        """Position and hash of the newest event; (0, "") for an empty log."""
        ...

    async def erase(self, stream: str) -> int:
        """Null the bodies and salts of a stream's events (files too) and truncate them out of the journal; the chain
        stays valid. Returns how many were erased. The rows of that stream must be rebuilt by the caller."""
        ...

    async def archive(self, traces: Sequence[str]) -> int:
        """Move the events of settled traces to the archive: copy, commit, then delete; position and hash stay."""
        ...

    async def rebuild(self, rows: AsyncIterator[tuple[Row, ...]]) -> None:
        """Replace all views by the rows of a replay, in one transaction."""
        ...

    async def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Every view table, rows sorted by key: what `replay --check` compares."""
        ...

    def readonly(self, reason: str) -> None:
        """From now on refuse appends with that reason."""
        ...
