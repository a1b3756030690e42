"""`SqliteStore`: puts the writer, the checkpoint thread and the reader together into a store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from tallystick.core.events import Recorded
from tallystick.store.blobs import BlobStore
from tallystick.store.codec import SALT_BYTES, Codec, canonical
from tallystick.store.interface import Cell, Entry, StoreUnavailableError
from tallystick.store.schema import apply_steps, shipped_steps
from tallystick.store.sqlite.connection import connect, create_private, refuse_old_sqlite, snapshot, translated
from tallystick.store.sqlite.log import LogReader
from tallystick.store.sqlite.views import ViewReader
from tallystick.store.sqlite.writer import Call, Failpoint, Prepared, Writer


class SqliteStore:
    """The log and its views in one SQLite file. Use it from one event loop; made by `open`."""

    def __init__(
        self, path: Path, vfs: str | None, failpoint: Failpoint, salt: Callable[[int], bytes], codec: Codec
    ) -> None:
        self._codec = codec
        self._salt = salt
        bodies = BlobStore(path.with_name(f"{path.name}-bodies"))
        writing = connect(path, vfs)
        with translated():
            apply_steps(writing, shipped_steps())
            self._writer = Writer(writing, LogReader(writing, codec, bodies), bodies, failpoint, self._committed)
        self._reading = connect(path, vfs)
        self._reading.execute("PRAGMA query_only = ON")
        self._log = LogReader(self._reading, codec, bodies)
        self._views = ViewReader(self._reading)
        with snapshot(self._reading):
            self._head = self._log.head()[0]
        self._pending: list[Call] = []
        self._waiting: list[tuple[int, asyncio.Future[int]]] = []
        self._closed = False
        self._writer.start()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        vfs: str | None = None,
        failpoint: Failpoint = lambda name: None,
        salt: Callable[[int], bytes] = os.urandom,
        codec: Codec | None = None,
    ) -> SqliteStore:
        """Open or create the log at `path`. Bodies above 64 KiB are files in the folder `<name>-bodies` beside it.

        Raises Refused (unsupported) for an SQLite that is too old or a schema that is too new, and
        StoreUnavailableError where the disk does not allow it.
        """
        refuse_old_sqlite(apsw.sqlite_lib_version() if hasattr(apsw, "sqlite_lib_version") else apsw.sqlitelibversion())
        create_private(path)
        return cls(path, vfs, failpoint, salt, codec or Codec())

    # --- Store ---

    async def append(self, batch: Sequence[Entry]) -> list[Recorded]:
        """See `Store.append`."""
        self._refuse_closed()
        prepared = [self._prepare(entry) for entry in batch]
        call = Call(asyncio.get_running_loop().create_future(), prepared)
        result: list[Recorded] = await self._submit(call)
        return result

    def _prepare(self, entry: Entry) -> Prepared:
        sealed, body = self._codec.seal(entry.record, self._salt(SALT_BYTES))
        return Prepared(entry, sealed, canonical(sealed), body)

    def _submit(self, call: Call) -> asyncio.Future[Any]:
        # Everything that is appended in this turn of the loop goes to the writer together, and so into one sync.
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pending.append(call)
        return call.future

    def _flush(self) -> None:
        calls, self._pending = self._pending, []
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
        self._waiting.append((after, future))
        return await future

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
        self._flush()
        await asyncio.to_thread(self._writer.stop)
        with translated():
            self._reading.close()
            self._writer.connection.close()
        self._wake(StoreUnavailableError("closed", "The store is closed."))

    def _committed(self, position: int) -> None:
        if position > self._head:
            self._head = position
            self._wake(None)

    def _wake(self, refusal: StoreUnavailableError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for after, future in waiting:
            if future.done():
                continue
            if refusal is not None:
                future.set_exception(refusal)
            elif self._head > after:
                future.set_result(self._head)
            else:
                self._waiting.append((after, future))

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailableError("closed", "The store is closed.")
