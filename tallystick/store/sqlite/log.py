"""Reading the log: events from the table and from the archive, merged by position."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import apsw

from tallystick.core.events import Recorded
from tallystick.store.blobs import BlobStore
from tallystick.store.codec import Codec, Sealed
from tallystick.store.sqlite.bodies import read_body
from tallystick.store.sqlite.names import SQL, Names
from tallystick.store.sqlite.packs import BODY, HASH, POSITION, VERSION, DamagedPackError, EventRow, PackReader

TASK_KIND: Final = "tsk"
"""Streams of tasks are nearly all of the log, so they are left out of the index by kind."""


def kind_of(stream: str) -> str:
    """The type prefix of a stream's id."""
    return stream.partition("_")[0]


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
        if rows and rows[0][VERSION] == after_version + 1 and kind_of(stream) == TASK_KIND:
            return rows  # a task has one trace, and all there is of a trace is archived together: nothing is missing
        for (trace,) in self._execute(SQL["stream_packs"], (number, after_version)).fetchall():
            packed = self.packs.rows(trace).values()
            rows += [self._whole(row) for row in packed if row[1] == number and row[VERSION] > after_version]
        return sorted(rows, key=itemgetter(VERSION))

    def _whole(self, row: EventRow) -> EventRow:
        found = self._execute(SQL["hash_archived"], (row[POSITION],)).fetchall()
        return (*row[:HASH], found[0][0] if found else b"", row[BODY])

    def after(self, position: int) -> Iterator[EventRow]:
        """All rows after a position, in order."""
        events = self._execute(SQL["tail_events"], (position,))
        return heapq.merge(events, self._archived("tail_archived", (position,)), key=itemgetter(POSITION))

    def tail(self, after: int, limit: int, trace: str, stream_prefix: str, types: Sequence[str]) -> Iterator[EventRow]:
        """At most `limit` rows after a position that pass the filters, in order."""
        wanted = {self.names.find(name) for name in types}
        for row in self._narrowed(after, trace, stream_prefix):
            if limit <= 0:
                return
            if wanted and row[5] not in wanted:
                continue
            if stream_prefix and not self.names.text(row[1]).startswith(stream_prefix):
                continue
            limit -= 1
            yield row

    def _narrowed(self, after: int, trace: str, stream_prefix: str) -> Iterator[EventRow]:
        kind = kind_of(stream_prefix) if "_" in stream_prefix else ""
        if trace:
            return self._of_trace(self.names.find(trace), after)
        if kind and kind != TASK_KIND:
            events = self._execute(SQL["tail_events_kind"], (kind, after))
            archived = self._archived("tail_archived_kind", (kind, after))
            return heapq.merge(events, archived, key=itemgetter(POSITION))
        return self.after(after)

    def _of_trace(self, trace: int, after: int) -> Iterator[EventRow]:
        events = self._execute(SQL["tail_events_trace"], (trace, after))
        packed = [self._whole(row) for at, row in sorted(self.packs.rows(trace).items()) if at > after]
        return heapq.merge(events, packed, key=itemgetter(POSITION))

    def _archived(self, statement: str, values: tuple[Any, ...]) -> Iterator[EventRow]:
        for position, trace, found in self._execute(SQL[statement], values):
            row = self.packs.rows(trace).get(position)
            if row is None:
                raise DamagedPackError(f"event {position} is not in its pack")
            yield (*row[:HASH], found, row[BODY])

    def sealed(self, row: EventRow) -> Sealed:
        """A row with the texts in place of their numbers."""
        text = self.names.text
        _, stream, version, _, workspace, kind, schema, at, actor, subject, trace, cause, key, data, digest = row[:HASH]
        return Sealed(
            text(stream),
            version,
            text(workspace),
            text(kind),
            schema,
            at,
            text(actor),
            text(subject),
            text(trace),
            cause,
            key,
            data,
            digest,
        )

    def body(self, row: EventRow, digest: bytes) -> bytes | None:
        """The body of a row with its salt, from its file if it is in one; None if it has none or it was erased."""
        return read_body(row[BODY], digest, self._bodies)

    def open(self, row: EventRow) -> Recorded:
        """The record of a row."""
        sealed = self.sealed(row)
        return self._codec.open(row[POSITION], sealed, self.body(row, sealed.digest), row[HASH])
