"""`SqliteStore`: puts the writer, the checkpoint thread and the reader together into a store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from tallystick.core.events import Recorded
from tallystick.core.rows import Row
from tallystick.store.blobs import BlobStore
from tallystick.store.codec import SALT_BYTES, Codec, canonical
from tallystick.store.interface import Cell, Damage, Entry, StoreUnavailableError
from tallystick.store.schema import apply_steps, shipped_steps
from tallystick.store.sqlite.audit import Audit, integrity
from tallystick.store.sqlite.bodies import IN_FILE, IN_FILE_BYTES, squeeze
from tallystick.store.sqlite.checkpoint import Checkpointer
from tallystick.store.sqlite.connection import (
    connect,
    create_private,
    refuse_old_sqlite,
    snapshot,
    translated,
    unavailable,
)
from tallystick.store.sqlite.log import LogReader
from tallystick.store.sqlite.upkeep import Chunks, Upkeep
from tallystick.store.sqlite.views import ViewReader
from tallystick.store.sqlite.writer import Call, Failpoint, Prepared, Writer

FAILPOINTS: Final = (
    "before_begin",
    "after_begin",
    "after_body_file",
    "after_write",
    "before_commit",
    "after_commit",
    "before_checkpoint",
    "after_checkpoint",
    "archive_after_copy",
    "archive_before_commit",
    "archive_after_commit",
    "erase_after_files",
    "erase_before_commit",
    "erase_after_commit",
    "rebuild_before_commit",
    "rebuild_after_commit",
)
"""The places where `failpoint` is called."""


class Connections(NamedTuple):
    """The three connections of a store: each is used by one thread at a time."""

    writing: apsw.Connection
    reading: apsw.Connection
    checkpointing: apsw.Connection


class Options(NamedTuple):
    """What is injected into a store."""

    failpoint: Failpoint
    salt: Callable[[int], bytes]
    codec: Codec


def _opened(opened: contextlib.ExitStack, path: Path, vfs: str | None) -> apsw.Connection:
    connection = connect(path, vfs)
    opened.callback(connection.close, True)
    return connection


class SqliteStore:
    """The log and its views in one SQLite file. Use it from one event loop; made by `open`."""

    def __init__(self, path: Path, vfs: str | None, connections: Connections, options: Options) -> None:
        self._path, self._vfs, self._options = path, vfs, options
        bodies = BlobStore(path.with_name(f"{path.name}-bodies"))
        self._reading = connections.reading
        self._log = LogReader(self._reading, options.codec, bodies)
        self._views = ViewReader(self._reading)
        writing = LogReader(connections.writing, options.codec, bodies)
        self._writer = Writer(connections.writing, writing, bodies, options.failpoint, self._committed)
        self._upkeep = Upkeep(self._writer, bodies, options.failpoint)
        self._checkpointer = Checkpointer(
            connections.checkpointing, self._writer, options.failpoint, self._checkpoint_failed
        )
        connections.writing.set_wal_hook(self._journal_grew)
        with snapshot(self._reading):
            self._head = self._log.head()[0]
        self._waiting: dict[asyncio.Future[int], int] = {}
        self._gathered: dict[asyncio.AbstractEventLoop, list[Call]] = {}
        """What each event loop asked for in its present turn."""
        self._closed = False
        self._writer.start()
        self._checkpointer.start()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        vfs: str | None = None,
        failpoint: Failpoint = lambda _: None,
        salt: Callable[[int], bytes] = os.urandom,
        codec: Codec | None = None,
    ) -> SqliteStore:
        """Open or create the log at `path`. Bodies above 64 KiB are files in the folder `<name>-bodies` beside it.

        `failpoint` is called at the places in `FAILPOINTS`, `salt` gives the random bytes in front of each body.
        Raises Refused (unsupported) for an SQLite that is too old or a schema that is too new, and
        StoreUnavailableError where the disk does not allow it.
        """
        refuse_old_sqlite(apsw.sqlitelibversion())
        with contextlib.ExitStack() as opened, translated():
            create_private(path)
            writing = _opened(opened, path, vfs)
            apply_steps(writing, shipped_steps())
            connections = Connections(writing, _opened(opened, path, vfs), _opened(opened, path, vfs))
            connections.reading.execute("PRAGMA query_only = ON")
            store = cls(path, vfs, connections, Options(failpoint, salt, codec or Codec()))
            opened.pop_all()
        return store

    def engine(self) -> str:
        """The database and its version."""
        return f"SQLite {apsw.sqlitelibversion()}"

    # --- Store ---

    async def append(self, batch: Sequence[Entry]) -> list[Recorded]:
        """See `Store.append`."""
        self._refuse_closed()
        prepared = [self._prepare(entry) for entry in batch]
        result: list[Recorded] = await self._submit(Call(asyncio.get_running_loop().create_future(), prepared))
        return result

    def _prepare(self, entry: Entry) -> Prepared:
        salt = b"" if entry.record.event.text is None else self._options.salt(SALT_BYTES)
        sealed, body = self._options.codec.seal(entry.record, salt)
        covered = canonical(sealed)
        if body is not None and len(body) > IN_FILE_BYTES:
            return Prepared(entry, sealed, covered, IN_FILE, body)
        return Prepared(entry, sealed, covered, None if body is None else squeeze(body), None)

    def _submit(self, call: Call) -> asyncio.Future[Any]:
        """What is asked for in one turn of the event loop goes to the writer together, and shares a sync, however fast
        the disk is."""
        loop = call.future.get_loop()
        gathered = self._gathered.setdefault(loop, [])
        gathered.append(call)
        if len(gathered) == 1:
            loop.call_soon(self._hand_over, loop)
        return call.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        calls = self._gathered.pop(loop, None)
        if calls:
            self._writer.submit(calls)

    async def load(self, stream: str, after_version: int = 0) -> list[Recorded]:
        """See `Store.load`."""
        self._refuse_closed()
        with snapshot(self._reading):
            return [self._log.open(row) for row in self._log.stream(stream, after_version)]

    async def tail(
        self, after: int, limit: int = 1000, *, trace: str = "", stream_prefix: str = "", types: Sequence[str] = ()
    ) -> list[Recorded]:
        """See `Store.tail`."""
        self._refuse_closed()
        with snapshot(self._reading):
            return [self._log.open(row) for row in self._log.tail(after, limit, trace, stream_prefix, types)]

    async def wait(self, after: int) -> int:
        """See `Store.wait`."""
        self._refuse_closed()
        if self._head > after:
            return self._head
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[future] = after
        try:
            return await future
        finally:
            self._waiting.pop(future, None)

    async def query(self, name: str, **values: Cell) -> list[Mapping[str, Cell]]:
        """See `Store.query`."""
        self._refuse_closed()
        with translated():
            return self._views.query(name, values)

    async def close(self) -> None:
        """See `Store.close`."""
        if self._closed:
            return
        self._closed = True
        for loop in list(self._gathered):
            self._hand_over(loop)
        with translated():
            await asyncio.to_thread(self._writer.stop)
            await asyncio.to_thread(self._checkpointer.stop)
            self._reading.close()
            if self._writer.is_broken():  # no last checkpoint: that would ask a disk again that has failed
                self._writer.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._writer.connection.close()
        self._wake(StoreUnavailableError("closed", "The store is closed."))

    # --- Maintenance ---

    async def scan(self, after: int = 0, limit: int | None = None) -> list[Damage]:
        """See `Maintenance.scan`. A scan of everything has SQLite check its file as well."""
        self._refuse_closed()
        audit = Audit(self._log, after, limit)
        if after == 0 and limit is None:
            audit.damages += await asyncio.to_thread(self._check_file)
        while True:
            with snapshot(self._reading):
                more = audit.step()
            if not more:
                return audit.damages
            await asyncio.sleep(0)
            self._refuse_closed()

    def _check_file(self) -> list[Damage]:
        connection = connect(self._path, self._vfs)
        try:
            return list(integrity(connection))
        finally:
            connection.close()

    async def head(self) -> tuple[int, str]:
        """See `Maintenance.head`."""
        self._refuse_closed()
        with snapshot(self._reading):
            position, found = self._log.head()
        return position, found.hex()

    async def erase(self, stream: str) -> int:
        """See `Maintenance.erase`."""
        erased: int = await self._job(lambda: self._upkeep.erase(stream))
        self._log.packs.forget()
        return erased

    async def archive(self, traces: Sequence[str]) -> int:
        """See `Maintenance.archive`. Copying and deleting are one transaction of one file."""
        moved: int = await self._job(lambda: self._upkeep.archive(traces))
        return moved

    async def rebuild(self, rows: AsyncIterator[tuple[Row, ...]]) -> None:
        """See `Maintenance.rebuild`. Appends wait meanwhile, so `rows` must not append."""
        loop = asyncio.get_running_loop()
        begun = loop.create_future()
        chunks: Chunks = queue.SimpleQueue()
        job = self._job(lambda: self._upkeep.rebuild(chunks, lambda: loop.call_soon_threadsafe(begun.set_result, None)))
        await asyncio.wait((begun, job), return_when=asyncio.FIRST_COMPLETED)
        try:
            async for group in rows:
                chunks.put(group)
            chunks.put(None)
        except BaseException as error:
            chunks.put(error)
            await asyncio.wait((job,))
            raise
        await job

    async def dump(self) -> dict[str, list[dict[str, Any]]]:
        """See `Maintenance.dump`."""
        self._refuse_closed()
        with snapshot(self._reading):
            return self._views.dump()

    def readonly(self, reason: str) -> None:
        """See `Maintenance.readonly`."""
        self._writer.refuse(StoreUnavailableError("readonly", reason))

    def _job(self, job: Callable[[], Any]) -> asyncio.Future[Any]:
        self._refuse_closed()
        return self._submit(Call(asyncio.get_running_loop().create_future(), job=job))

    # --- between the threads ---

    def _journal_grew(self, connection: apsw.Connection, database: str, pages: int) -> int:
        del connection, database
        self._checkpointer.committed(pages)
        return apsw.SQLITE_OK

    def _checkpoint_failed(self, error: apsw.Error) -> None:
        self._writer.refuse(unavailable(error))

    def _committed(self, position: int) -> None:
        if position > self._head:
            self._head = position
            self._wake(None)

    def _wake(self, refusal: StoreUnavailableError | None) -> None:
        for future, after in self._waiting.items():
            if future.done():
                continue
            if refusal is not None:
                future.set_exception(refusal)
            elif self._head > after:
                future.set_result(self._head)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailableError("closed", "The store is closed.")
