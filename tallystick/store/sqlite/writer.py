"""The one thread that writes: calls that queue while a commit is under way become one transaction, one sync.

Answers go back to the event loop after COMMIT, one wake-up for the whole group. A conflict fails its own call; a disk
that refuses fails all calls of the group, and nothing of it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import apsw
import msgspec

from tallystick.core.events import Recorded
from tallystick.store.blobs import BlobStore
from tallystick.store.codec import GENESIS, Sealed, link
from tallystick.store.interface import ConflictError, Entry, StoreUnavailableError
from tallystick.store.sqlite import bulk
from tallystick.store.sqlite.connection import disk_refused, is_sync_error, unavailable
from tallystick.store.sqlite.log import LogReader, kind_of
from tallystick.store.sqlite.packs import BODY, EventRow
from tallystick.store.sqlite.views import ViewWriter

Failpoint = Callable[[str], None]
"""Called with a name at places where a crash must do no harm."""

_GROUP: Final = 512
_GATE_SECONDS: Final = 5.0  # a bound: should the checkpoint thread have ended, commits still go on
_VERSIONS_KEPT: Final = 50_000
_COLUMNS: Final = BODY + 1


class Prepared(msgspec.Struct, gc=False):
    """An entry, encoded on the event loop while the writer waits for the disk."""

    entry: Entry
    sealed: Sealed
    covered: bytes
    form: bytes | None
    """The form of the body for its row."""
    file: bytes | None
    """A body that is to become a file."""


class Call(msgspec.Struct):
    """One `append`, or one piece of maintenance to be done alone (`job`)."""

    future: asyncio.Future[Any]
    prepared: Sequence[Prepared] = ()
    job: Callable[[], Any] | None = None
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the writing connection. Everything but `submit`, `refuse` and `stop` runs in its thread."""

    def __init__(
        self,
        connection: apsw.Connection,
        log: LogReader,
        bodies: BlobStore,
        failpoint: Failpoint,
        committed: Callable[[int], None],
    ) -> None:
        self.connection = connection
        self.log = log
        self.views = ViewWriter(connection)
        self.busy = threading.Lock()
        """Held while a transaction is open; the checkpoint thread takes it when the journal has grown too long."""
        self.gate = threading.Event()
        """Closed by the checkpoint thread when it wants `busy`: a lock alone would let this thread win every time."""
        self.gate.set()
        self.checkpointing = threading.Lock()
        """Held by whoever checkpoints: SQLite refuses a second one at once instead of letting it wait."""
        self._bodies = bodies
        self._failpoint = failpoint
        self._committed = committed
        self._queue: queue.SimpleQueue[list[Call] | None] = queue.SimpleQueue()
        self._versions: dict[str, int] = {}
        self._refusal: StoreUnavailableError | None = None
        self._data_version = 0
        self._position, self._hash = 0, GENESIS
        self._reload()
        self._thread = threading.Thread(target=self._run, name="tallystick-writer", daemon=True)

    # --- called from the event loop ---

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, calls: list[Call]) -> None:
        """Queue calls; their futures are answered on their event loop."""
        self._queue.put(calls)

    def refuse(self, refusal: StoreUnavailableError) -> None:
        """Refuse appends from now on; after a failed sync maintenance as well."""
        self._refusal = self._refusal or refusal

    def is_broken(self) -> bool:
        """Whether a sync has failed, so that only reopening the log tells what it holds."""
        return self._refusal is not None and self._refusal.reason == "io"

    def stop(self) -> None:
        """Finish what is queued and end the thread. Blocks."""
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    # --- the thread ---

    def _run(self) -> None:
        while (calls := self._queue.get()) is not None:
            calls, stopping = self._gather(calls)
            self._serve(calls)
            if stopping:
                return

    def _gather(self, calls: list[Call]) -> tuple[list[Call], bool]:
        with contextlib.suppress(queue.Empty):
            while len(calls) < _GROUP:
                more = self._queue.get_nowait()
                if more is None:
                    return calls, True
                calls = calls + more
        return calls, False

    def _serve(self, calls: list[Call]) -> None:
        appends: list[Call] = []
        for call in calls:
            if call.job is None:
                appends.append(call)
                continue
            self._append(appends)
            appends = []
            self._work(call, call.job)
        self._append(appends)

    def _append(self, calls: list[Call]) -> None:
        if not calls:
            return
        self.gate.wait(_GATE_SECONDS)
        if self._refusal is not None:
            _fail(calls, self._refusal)
        else:
            self._guarded(calls, lambda: self._commit(calls))
        self._answer(calls)

    def _work(self, call: Call, job: Callable[[], Any]) -> None:
        if self._refusal is not None and self.is_broken():
            _fail([call], self._refusal)
        else:
            self._guarded([call], lambda: self._do(call, job))
        self._answer([call])

    def _do(self, call: Call, job: Callable[[], Any]) -> None:
        call.result = job()

    def _guarded(self, calls: list[Call], work: Callable[[], None]) -> None:
        """Whatever goes wrong belongs to the callers; this thread goes on, with nothing half done."""
        try:
            with self.busy:
                work()
        except apsw.Error as error:
            _fail(calls, self._give_up(error))
        except OSError as error:
            self._roll_back()
            _fail(calls, disk_refused(error))
        except BaseException as error:  # noqa: BLE001
            self._roll_back()
            for call in calls:
                call.error = error

    def _answer(self, calls: list[Call]) -> None:
        for loop in {call.future.get_loop() for call in calls}:
            # A loop that was closed meanwhile has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._resolve, [c for c in calls if c.future.get_loop() is loop])

    def _resolve(self, calls: list[Call]) -> None:
        self._committed(self._position)
        for call in calls:
            if call.future.done():
                continue  # the caller was canceled while it waited
            if call.error is not None:
                call.future.set_exception(call.error)
            else:
                call.future.set_result(call.result)

    # --- a transaction ---

    def _commit(self, calls: list[Call]) -> None:
        try:
            self._transaction(calls, self._together)
        except Exception as error:
            if _is_refusal(error):
                raise
            # One of the calls cannot be written: do them one by one to find out which.
            self._roll_back()
            for call in calls:
                call.error = None
            self._transaction(calls, self._one_by_one)

    def _transaction(self, calls: list[Call], write: Callable[[list[Call]], None]) -> None:
        self._failpoint("before_begin")
        self.connection.execute("BEGIN IMMEDIATE")
        self._reload_if_changed()
        self._failpoint("after_begin")
        write(calls)
        self._failpoint("before_commit")
        self.connection.execute("COMMIT")
        self._failpoint("after_commit")

    def _together(self, calls: list[Call]) -> None:
        begun = [p.sealed.stream for call in calls for p in call.prepared if p.sealed.version == 1]
        self.log.names.learn(_texts(calls), begun)
        accepted = [call for call in calls if self._accept(call)]
        self._write(accepted)
        self._failpoint("after_write")

    def _one_by_one(self, calls: list[Call]) -> None:
        for call in calls:
            if not self._accept(call):
                continue
            self.connection.execute("SAVEPOINT one")
            try:
                self._write([call])
            except Exception as error:
                if _is_refusal(error):
                    raise
                self.connection.execute("ROLLBACK TO one")
                self._reload()
                call.error = ConflictError(str(error)) if isinstance(error, apsw.ConstraintError) else error
            self.connection.execute("RELEASE one")

    def _accept(self, call: Call) -> bool:
        """Check every version the call rests on; nothing is written before all of them hold."""
        ahead: dict[str, int] = {}
        for prepared in call.prepared:
            record = prepared.entry.record
            for stream, version in ((record.stream, record.version - 1), *prepared.entry.reads):
                present = ahead.get(stream)
                if present is None:
                    present = self._version(stream)
                if present != version:
                    call.error = ConflictError(f"{stream} has version {present}, not {version}")
                    return False
            ahead[record.stream] = record.version
        self._versions.update(ahead)
        return True

    def _version(self, stream: str) -> int:
        version = self._versions.get(stream)
        if version is None:
            if len(self._versions) >= _VERSIONS_KEPT:
                self._versions.clear()
            version = self._versions[stream] = self.log.version(stream)
        return version

    def _write(self, calls: list[Call]) -> None:
        events: list[EventRow] = []
        for call in calls:
            call.result = [self._record(prepared, events) for prepared in call.prepared]
        self.log.names.write()
        bulk.run(self.connection, event_insert, events)
        self.views.write(row for call in calls for prepared in call.prepared for row in prepared.entry.rows)

    def _record(self, prepared: Prepared, events: list[EventRow]) -> Recorded:
        position = self._position + 1
        self._hash = link(self._hash, position, prepared.covered)
        self._position = position
        events.append(self._row(position, prepared))
        return msgspec.structs.replace(prepared.entry.record, position=position, hash=self._hash.hex())

    def _row(self, position: int, prepared: Prepared) -> EventRow:
        sealed, number = prepared.sealed, self.log.names.numbers
        return (
            position,
            number[sealed.stream],
            sealed.version,
            kind_of(sealed.stream),
            number[sealed.workspace],
            number[sealed.type],
            sealed.schema,
            sealed.at,
            number[sealed.actor],
            number[sealed.subject],
            number[sealed.trace],
            sealed.cause,
            sealed.key,
            sealed.data,
            sealed.digest,
            self._hash,
            self._placed(prepared),
        )

    def _placed(self, prepared: Prepared) -> bytes | None:
        """What stands in the row; a large body goes into a file here, before the transaction is committed."""
        if prepared.file is not None:
            self._bodies.put(prepared.file)
            self._failpoint("after_body_file")
        return prepared.form

    # --- when it went wrong ---

    def _give_up(self, error: apsw.Error) -> StoreUnavailableError:
        self._roll_back()
        refusal = unavailable(error)
        if is_sync_error(error):
            # What the disk holds is unknown now, and asking it again would not tell (fsync reports a loss once).
            self._refusal = StoreUnavailableError("io", "The disk failed to keep a write; the log must be reopened.")
        return refusal

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                self.connection.execute("ROLLBACK")
        with contextlib.suppress(apsw.Error):
            self._reload()

    def _reload_if_changed(self) -> None:
        # Another program wrote to the file (only one host should): what is remembered here is not true any more.
        if self._seen_version() != self._data_version:
            self._reload()

    def _seen_version(self) -> int:
        """Another number whenever somebody else wrote. Not `Connection.pragma`, which parses it anew at each call."""
        version: int = next(self.connection.execute("PRAGMA data_version"))[0]
        return version

    def _reload(self) -> None:
        self.log.names.forget()
        self.views.forget()
        self._versions.clear()
        self._data_version = self._seen_version()
        position, found = self.log.head()
        self._position, self._hash = position, found or GENESIS


@cache
def event_insert(count: int) -> str:
    """The statement that appends so many events."""
    return bulk.insert("events", _COLUMNS, count)


def _texts(calls: list[Call]) -> Iterator[str]:
    """What stands as a number in the rows of events."""
    for call in calls:
        for prepared in call.prepared:
            sealed = prepared.sealed
            yield from (sealed.stream, sealed.workspace, sealed.type, sealed.actor, sealed.subject, sealed.trace)


def _is_refusal(error: Exception) -> bool:
    """Whether the disk refused, which concerns all, and not one call what it wants to write."""
    return isinstance(error, (apsw.Error, OSError)) and not isinstance(error, apsw.ConstraintError)


def _fail(calls: list[Call], refusal: StoreUnavailableError) -> None:
    for call in calls:
        call.error = StoreUnavailableError(refusal.reason, str(refusal))
