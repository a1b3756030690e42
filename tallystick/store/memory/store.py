"""`MemoryStore`: lists and dicts, one step after the other. Slow and obviously right."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from tallystick.core.events import Recorded
from tallystick.core.rows import Row
from tallystick.store import layout
from tallystick.store.codec import GENESIS, SALT_BYTES, Codec, Sealed, canonical, digest_of, link
from tallystick.store.interface import Cell, ConflictError, Damage, Entry, StoreUnavailableError
from tallystick.store.memory.queries import QUERIES, Line, Tables


class Kept(msgspec.Struct):
    """One event as this store keeps it. Position = place in the list + 1."""

    sealed: Sealed
    body: bytes | None
    hash: bytes
    archived: bool = False


class MemoryStore:
    """A store without a disk. `salt` gives the random bytes in front of each body."""

    def __init__(self, *, salt: Callable[[int], bytes] = os.urandom, codec: Codec | None = None) -> None:
        self._codec = codec or Codec()
        self._salt = salt
        self.log: list[Kept] = []
        """The events, oldest first. Tests may damage them."""
        self._versions: dict[str, int] = {}
        self._tables: Tables = {name: {} for name in layout.TABLES}
        self._news = asyncio.Condition()
        self._refusal: StoreUnavailableError | None = None

    # --- Store ---

    async def append(self, batch: Sequence[Entry]) -> list[Recorded]:
        """See `Store.append`."""
        if self._refusal is not None:
            raise self._refusal
        before = len(self.log)
        undo: list[tuple[str, tuple[Any, ...], Line | None]] = []
        try:
            appended = [self._append(entry, undo) for entry in batch]
        except Exception:
            del self.log[before:]
            self._versions = {kept.sealed.stream: kept.sealed.version for kept in self.log}
            for table, key, row in reversed(undo):
                self._restore(table, key, row)
            raise
        async with self._news:
            self._news.notify_all()
        return appended

    async def load(self, stream: str, after_version: int = 0) -> list[Recorded]:
        """See `Store.load`."""
        self._refuse_closed()
        return [self._open(at) for at, kept in enumerate(self.log) if _is_of(kept, stream, after_version)]

    async def tail(
        self, after: int, limit: int = 1000, *, trace: str = "", stream_prefix: str = "", types: Sequence[str] = ()
    ) -> list[Recorded]:
        """See `Store.tail`."""
        self._refuse_closed()
        wanted = [
            at
            for at, kept in enumerate(self.log)
            if at >= after
            and (not trace or kept.sealed.trace == trace)
            and kept.sealed.stream.startswith(stream_prefix)
            and (not types or kept.sealed.type in types)
        ]
        return [self._open(at) for at in wanted[:limit]]

    async def wait(self, after: int) -> int:
        """See `Store.wait`."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.log) > after or self._is_closed())
        self._refuse_closed()
        return len(self.log)

    async def query(self, name: str, **values: Cell) -> list[Mapping[str, Cell]]:
        """See `Store.query`."""
        self._refuse_closed()
        query = QUERIES[name]
        if set(values) != set(query.__annotations__) - {"tables", "return"}:
            raise KeyError(f"{name} takes other values than {sorted(values)}")
        return list(query({**self._tables, "settled": self._settled()}, **values))

    async def close(self) -> None:
        """See `Store.close`."""
        self._refusal = StoreUnavailableError("closed", "The store is closed.")
        async with self._news:
            self._news.notify_all()

    # --- Maintenance ---

    async def scan(self, after: int = 0, limit: int | None = None) -> list[Damage]:
        """See `Maintenance.scan`."""
        self._refuse_closed()
        end = len(self.log) if limit is None else min(len(self.log), after + limit)
        found = (self._damage(at) for at in range(after, end))
        return [damage for damage in found if damage is not None]

    async def head(self) -> tuple[int, str]:
        """See `Maintenance.head`."""
        self._refuse_closed()
        return (len(self.log), self.log[-1].hash.hex()) if self.log else (0, "")

    async def erase(self, stream: str) -> int:
        """See `Maintenance.erase`."""
        self._refuse_closed()
        bodies = [kept for kept in self.log if kept.sealed.stream == stream and kept.body is not None]
        for kept in bodies:
            kept.body = None
        return len(bodies)

    async def archive(self, traces: Sequence[str]) -> int:
        """See `Maintenance.archive`."""
        self._refuse_closed()
        moved = [kept for kept in self.log if kept.sealed.trace in traces and not kept.archived]
        for kept in moved:
            kept.archived = True
        return len(moved)

    async def rebuild(self, rows: AsyncIterator[tuple[Row, ...]]) -> None:
        """See `Maintenance.rebuild`."""
        self._refuse_closed()
        before, self._tables = self._tables, {name: {} for name in layout.TABLES}
        try:
            async for group in rows:
                for row in group:
                    self._write(row, [])
        except BaseException:
            self._tables = before
            raise

    async def dump(self) -> dict[str, list[dict[str, Any]]]:
        """See `Maintenance.dump`."""
        self._refuse_closed()
        return {name: [dict(row) for _, row in sorted(rows.items())] for name, rows in self._tables.items()}

    def readonly(self, reason: str) -> None:
        """See `Maintenance.readonly`."""
        if not self._is_closed():
            self._refusal = StoreUnavailableError("readonly", reason)

    # --- the log ---

    def _append(self, entry: Entry, undo: list[tuple[str, tuple[Any, ...], Line | None]]) -> Recorded:
        record = entry.record
        self._expect(record.stream, record.version - 1)
        for stream, version in entry.reads:
            self._expect(stream, version)
        sealed, body = self._codec.seal(record, self._salt(SALT_BYTES))
        previous = self.log[-1].hash if self.log else GENESIS
        position = len(self.log) + 1
        self.log.append(Kept(sealed, body, link(previous, position, canonical(sealed))))
        self._versions[record.stream] = record.version
        for row in entry.rows:
            self._write(row, undo)
        return msgspec.structs.replace(record, position=position, hash=self.log[-1].hash.hex())

    def _expect(self, stream: str, version: int) -> None:
        present = self._versions.get(stream, 0)
        if present != version:
            raise ConflictError(f"{stream} has version {present}, not {version}")

    def _open(self, at: int) -> Recorded:
        kept = self.log[at]
        return self._codec.open(at + 1, kept.sealed, kept.body, kept.hash)

    def _damage(self, at: int) -> Damage | None:
        kept = self.log[at]
        previous = self.log[at - 1].hash if at else GENESIS
        if kept.hash != link(previous, at + 1, canonical(kept.sealed)):
            return Damage(at + 1, "the hash does not fit the event and the one before it")
        if kept.body is not None and digest_of(kept.body) != kept.sealed.digest:
            return Damage(at + 1, "the body does not fit its digest")
        return None

    def _settled(self) -> dict[tuple[Any, ...], Line]:
        hot = {kept.sealed.trace for kept in self.log if kept.sealed.type == "TraceSettled" and not kept.archived}
        begun = dict.fromkeys(kept.sealed.trace for kept in self.log)
        return {(trace,): {"trace": trace} for trace in begun if trace in hot}

    # --- the views ---

    def _write(self, row: Row, undo: list[tuple[str, tuple[Any, ...], Line | None]]) -> None:
        table, key, values = row.TABLE, layout.key_of(row), layout.as_dict(row)
        before = self._tables[table].get(key)
        if before is None and layout.is_partial(type(row)):
            return
        self._refuse_taken(table, key, before, values)
        undo.append((table, key, before))
        self._tables[table][key] = {**(before or {}), **values}

    def _refuse_taken(self, table: str, key: tuple[Any, ...], before: Line | None, values: Line) -> None:
        for name in layout.FIXED.get(table, ()):
            if before is not None and values.get(name, before[name]) != before[name]:
                raise ConflictError(f"{name} of {key} in {table} is taken")
        unique = tuple(values.get(name) for name in layout.UNIQUE.get(table, ()))
        if not unique or None in unique:
            return
        for other, row in self._tables[table].items():
            if other != key and tuple(row[name] for name in layout.UNIQUE[table]) == unique:
                raise ConflictError(f"{unique} in {table} is taken")

    def _restore(self, table: str, key: tuple[Any, ...], row: Line | None) -> None:
        if row is None:
            del self._tables[table][key]
        else:
            self._tables[table][key] = row

    # --- open or not ---

    def _is_closed(self) -> bool:
        return self._refusal is not None and self._refusal.reason == "closed"

    def _refuse_closed(self) -> None:
        if self._refusal is not None and self._is_closed():
            raise self._refusal


def _is_of(kept: Kept, stream: str, after_version: int) -> bool:
    return kept.sealed.stream == stream and kept.sealed.version > after_version
