"""Reading the log: events from the table and from the archive, merged by position."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import apsw

from tallystick.core.events import Recorded
from tallystick.store.blobs import BlobStore
from tallystick.store.codec import Codec, Sealed, covered
from tallystick.store.sqlite.bodies import read_body
from tallystick.store.sqlite.names import SQL, Names
from tallystick.store.sqlite.packs import (
    BODY,
    HASH,
    POSITION,
    STREAM,
    TRACE,
    TYPE,
    VERSION,
    DamagedPackError,
    EventRow,
    PackReader,
)

TASK_KIND: Final = "tsk"
"""Streams of tasks are nearly all of the log, so they are left out of the index by kind."""


def kind_of(stream: str) -> str:
    """The type prefix of a stream's id."""
    return stream.partition("_")[0]


_HOST_STREAM: Final = "host"


class LogReader:
    """The log as one connection sees it. All methods want to be called inside a snapshot."""

    def __init__(self, connection: apsw.Connection, codec: Codec, bodies: BlobStore) -> None:
        self._execute: Callable[..., Any] = connection.execute
        self._codec = codec
        self._bodies = bodies
        self.names = Names(connection)
        self.packs = PackReader(connection)

    def head(self) -> tuple[int, bytes]:
        """Position and hash of the newest event; (0, b"") for an empty log."""
        heads = [row for name in ("head_event", "head_archived") for row in self._execute(SQL[name])]
        return max(heads, default=(0, b""))

    def hash_at(self, position: int) -> bytes | None:
        """The hash of the event at a position."""
        for name in ("hash_event", "hash_archived"):
            for (found,) in self._execute(SQL[name], (position,)):
                return bytes(found)
        return None

    def version(self, stream: str) -> int:
        """The version of a stream, 0 if there is none."""
        number = self.names.find(stream)
        version: int = self._execute(SQL["stream_version"], {"stream": number}).fetchall()[0][0] if number else 0
        return version

    def stream(self, stream: str, after_version: int) -> list[EventRow]:
        """The rows of one stream, by version."""
        number = self.names.find(stream)
        rows = list(self._execute(SQL["stream_events"], (number, after_version)))
        for (pack,) in self._execute(SQL["stream_packs"], (number, after_version)).fetchall():
            packed = self.packs.rows(pack).values()
            rows += [self._whole(row) for row in packed if row[STREAM] == number and row[VERSION] > after_version]
        return sorted(rows, key=itemgetter(VERSION))

    def _whole(self, row: EventRow) -> EventRow:
        found = self._execute(SQL["hash_archived"], (row[POSITION],)).fetchall()
        return (*row[:HASH], found[0][0] if found else b"", row[BODY])

    def after(self, position: int) -> Iterator[EventRow]:
        """All rows after a position, in order."""
        return self._merged("tail_events", "tail_archived", (position,))

    def _merged(self, events: str, archived: str, values: tuple[Any, ...]) -> Iterator[EventRow]:
        # Packs are opened behind the merge, which looks ahead: a damaged one must not hide the events before it.
        rows, stubs = self._execute(SQL[events], values), self._execute(SQL[archived], values)
        first = stubs.fetchone()
        if first is None:
            yield from rows
            return
        for row in heapq.merge(rows, chain([first], stubs), key=itemgetter(POSITION)):
            yield row if len(row) > BODY else self._from_pack(*row)

    def _from_pack(self, position: int, pack: int, found: bytes) -> EventRow:
        row = self.packs.rows(pack).get(position)
        if row is None:
            raise DamagedPackError(f"event {position} is not in its pack")
        return (*row[:HASH], found, row[BODY])

    def tail(self, after: int, limit: int, trace: str, stream_prefix: str, types: Sequence[str]) -> Iterator[EventRow]:
        """At most `limit` rows after a position that pass the filters, in order."""
        wanted = {self.names.find(name) for name in types}
        for row in self._narrowed(after, trace, stream_prefix):
            if limit <= 0:
                return
            if wanted and row[TYPE] not in wanted:
                continue
            if stream_prefix and not self.names.texts[row[STREAM]].startswith(stream_prefix):
                continue
            limit -= 1
            yield row

    def _narrowed(self, after: int, trace: str, stream_prefix: str) -> Iterator[EventRow]:
        # A whole type prefix, or the one stream that has no id: the index of kinds leads there without a walk.
        kind = kind_of(stream_prefix) if "_" in stream_prefix or stream_prefix == _HOST_STREAM else ""
        if trace:
            return self._of_trace(self.names.find(trace), after)
        if kind and kind != TASK_KIND:
            return self._merged("tail_events_kind", "tail_archived_kind", (kind, after))
        return self.after(after)

    def _of_trace(self, trace: int, after: int) -> Iterator[EventRow]:
        events = self._execute(SQL["tail_events_trace"], (trace, after))
        packs = [pack for (pack,) in self._execute(SQL["trace_packs"], (trace,)).fetchall()]
        packed = [row for pack in packs for row in self.packs.rows(pack).values() if row[TRACE] == trace]
        archived = [self._whole(row) for row in sorted(packed, key=itemgetter(POSITION)) if row[POSITION] > after]
        return heapq.merge(events, archived, key=itemgetter(POSITION))

    def sealed(self, row: EventRow) -> Sealed:
        """A row with the texts in place of their numbers."""
        return Sealed(*self._plain(row))

    def canonical(self, row: EventRow) -> bytes:
        """What the hash of a row covers."""
        stream, version, workspace, *between, digest = self._plain(row)
        return covered((workspace, stream, version, *between, digest.hex()))

    def _plain(self, row: EventRow) -> tuple[Any, ...]:
        """The values of `Sealed`, in its order."""
        text = self.names.texts
        _, stream, version, _, workspace, kind, schema, at, actor, subject, trace, cause, key, data, digest, _, _ = row
        names = text[stream], text[workspace], text[kind], text[actor], text[subject], text[trace]
        stream, workspace, kind, actor, subject, trace = names
        return (stream, version, workspace, kind, schema, at, actor, subject, trace, cause, key, data, digest)

    def body(self, row: EventRow, digest: bytes) -> bytes | None:
        """The body of a row with its salt, from its file if it is in one; None if it has none or it was erased."""
        return read_body(row[BODY], digest, self._bodies)

    def open(self, row: EventRow) -> Recorded:
        """The record of a row."""
        sealed = self.sealed(row)
        return self._codec.open(row[POSITION], sealed, self.body(row, sealed.digest), row[HASH])
