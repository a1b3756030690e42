"""Maintenance that writes, run by the writer's thread between commits: erase, archive, rebuild."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Any, Final

import apsw

from tallystick.core.rows import Row
from tallystick.store.blobs import BlobStore
from tallystick.store.sqlite.bodies import IN_FILE
from tallystick.store.sqlite.connection import is_sync_error
from tallystick.store.sqlite.names import SQL
from tallystick.store.sqlite.packs import (
    BODY,
    DATA,
    DIGEST,
    HASH,
    KIND,
    POSITION,
    STREAM,
    TRACE,
    VERSION,
    EventRow,
    pack,
)
from tallystick.store.sqlite.writer import Failpoint, Writer

Chunks = queue.SimpleQueue[tuple[Row, ...] | None | BaseException]
"""Rows on their way to a rebuild: chunks, then None; an exception gives it up."""

_PACK_BYTES: Final = 24 * 1024
"""A pack is closed above this size, so that reading one event never unpacks much more."""


class Upkeep:
    """The jobs themselves. Each is one transaction, so that an interruption leaves the state before or after."""

    def __init__(self, writer: Writer, bodies: BlobStore, failpoint: Failpoint) -> None:
        self._writer = writer
        self._execute: Callable[..., Any] = writer.connection.execute
        self._bodies = bodies
        self._failpoint = failpoint

    def archive(self, traces: Sequence[str]) -> int:
        """Move the events of traces into their packs. Returns how many moved."""
        moved: int = self._transaction("archive", lambda: self._archive(traces), self._give_back)
        return moved

    def _archive(self, traces: Sequence[str]) -> int:
        numbers = [number for trace in traces if (number := self._writer.log.names.find(trace))]
        moved, gathered = 0, list[EventRow]()
        for number in dict.fromkeys(numbers):
            rows = self._execute(SQL["tail_events_trace"], (number, 0)).fetchall()
            moved += len(rows)
            gathered += rows
            if sum(map(_size, gathered)) >= _PACK_BYTES:
                self._copy(gathered)
                gathered = []
        self._copy(gathered)
        self._failpoint("archive_after_copy")
        for number in numbers:
            self._execute(SQL["trace_delete"], (number,))
        return moved

    def _copy(self, rows: list[EventRow]) -> None:
        if not rows:
            return
        ((number,),) = self._execute(SQL["pack_insert"], (pack(rows),)).fetchall()
        newest: dict[int, int] = {}
        for row in rows:
            newest[row[STREAM]] = max(row[VERSION], newest.get(row[STREAM], 0))
        put = self._writer.connection.executemany
        put(SQL["pack_stream_insert"], [(stream, number, version) for stream, version in newest.items()])
        put(SQL["pack_trace_insert"], [(trace, number) for trace in {row[TRACE] for row in rows}])
        put(SQL["archived_insert"], [(row[POSITION], number, row[KIND], row[HASH]) for row in rows])

    def _give_back(self) -> None:
        # Pages of moved events go back to the file system. What moved is safe already: a refusal can wait.
        try:
            self._execute("PRAGMA incremental_vacuum").fetchall()
        except apsw.Error as error:
            if is_sync_error(error):
                raise

    def erase(self, stream: str) -> int:
        """Null the bodies of a stream and clear them out of the journal. Returns how many there were."""
        # Files first: a crash in between leaves rows whose file has a tombstone, which reads as erased.
        rows = [row for row in self._writer.log.stream(stream, 0) if row[BODY] is not None]
        for row in rows:
            if row[BODY] == IN_FILE:
                self._bodies.erase(row[DIGEST].hex())
        self._failpoint("erase_after_files")
        erased: int = self._transaction("erase", lambda: self._erase(stream, rows), self._truncate)
        self._writer.log.packs.forget()
        return erased

    def _erase(self, stream: str, rows: list[EventRow]) -> int:
        number = self._writer.log.names.find(stream)
        for row in rows:
            self._execute(SQL["body_erase"], (row[POSITION],))
        for (at,) in self._execute(SQL["stream_packs"], (number, 0)).fetchall():
            packed = self._writer.log.packs.rows(at).values()
            bare = [(*row[:BODY], None) if row[STREAM] == number else row for row in packed]
            self._execute(SQL["pack_change"], (pack(bare), at))
        return len(rows)

    def _truncate(self) -> None:
        with self._writer.checkpointing:
            ((busy, _, _),) = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise apsw.BusyError("A reader keeps the journal from being truncated; do it again.")

    def rebuild(self, chunks: Chunks, begun: Callable[[], object]) -> None:
        """Replace the views by the rows of `chunks`."""
        self._transaction("rebuild", lambda: self._rebuild(chunks, begun), self._truncate)

    def _rebuild(self, chunks: Chunks, begun: Callable[[], object]) -> None:
        self._writer.views.clear()
        begun()
        while (chunk := chunks.get()) is not None:
            if isinstance(chunk, BaseException):
                raise chunk
            self._writer.views.write(chunk)

    def _transaction(self, name: str, work: Callable[[], Any], afterwards: Callable[[], None]) -> Any:
        self._execute("BEGIN IMMEDIATE")
        done = work()
        self._failpoint(f"{name}_before_commit")
        self._execute("COMMIT")
        self._failpoint(f"{name}_after_commit")
        afterwards()
        return done


def _size(row: EventRow) -> int:
    return len(row[DATA]) + len(row[BODY] or b"")
