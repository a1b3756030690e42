"""The spoke's own store: what its handlers began and what came of it, on the disk before anybody is told.

One SQLite file per spoke, one connection in one thread, rollback journal, `synchronous=FULL`. What several handlers
write at the same time is one transaction: each waits for its commit, none for its own.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from tallystick.sdk.errors import ReachError, ReachRefused
from tallystick.sdk.failure import text_of
from tallystick.sdk.tables import SCHEMA, SCHEMA_VERSION, Tables

_APPLICATION = 0x54414C59
"""Marks the file as ours (SQLite's application_id): the letters TALY."""

_BATCH = 256
"""How many writes one transaction holds at most."""

_IDLE_SECONDS = 0.5
"""How long what nobody waits for waits for company."""

_OF_ONE = (sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError)
"""What SQLite says of a value that it cannot take, not of the file."""

Step: TypeAlias = Callable[[Tables], Any]
"""One thing to do to the tables, in the thread of the store."""


class SpokeStore:
    """The store of one spoke in one process. `id` is made with the file: with it the host knows the spoke again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = ""
        self._pid = os.getpid()
        self._asked: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        """Make the file if there is none, and lock it. Raises `ReachRefused`: `conflict` where another process has it
        open, `unsupported` for that of a newer version, `internal` for a damaged one."""
        opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        answer = _Later(opened)
        self._thread = threading.Thread(target=self._run, args=(answer,), name=f"store {self.path.name}", daemon=True)
        self._thread.start()
        self.id = await opened

    async def do(self, step: Step) -> Any:
        """Do it, with whatever else is asked meanwhile, in one transaction; returns after the commit is on the disk."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ask(step, _Later(done))
        return await done

    def do_now(self, step: Step) -> None:
        """The same for a loop that is ending: blocks until it is on the disk, at most ten seconds."""
        done = _Now()
        self._ask(step, done)
        done.event.wait(10)

    def soon(self, step: Step) -> None:
        """Do it with the next commit, or when nothing else was asked for a moment; nobody waits."""
        self._ask(step, _Nobody())

    def close(self) -> None:
        """Write what was asked, then let go of the file. May be called twice, and from any thread but the store's."""
        thread, self._thread = self._thread, None
        if thread is not None and os.getpid() == self._pid:
            self._asked.put(None)
            thread.join(10)

    def _ask(self, step: Step, answer: _Answer) -> None:
        if os.getpid() != self._pid:
            raise ReachRefused(
                "conflict",
                "This spoke was started in another process, of which this one is a fork.",
                "Make and start the spoke after the fork.",
            )
        if self._thread is None:
            raise ReachRefused("unavailable", "The spoke's store is closed.", "Call `await spoke.start()` first.")
        self._asked.put((step, answer))

    # --- the thread ---

    def _run(self, opened: _Later) -> None:
        try:
            connection, found = _opened(self.path)
        except ReachError as error:
            opened.fail(error)
            return
        opened.give(found)
        try:
            while self._round(connection):
                pass
        finally:
            connection.close()
            _OPEN.discard(_mark(self.path))

    def _round(self, connection: sqlite3.Connection) -> bool:
        """One transaction of what is asked. False: that was all."""
        batch, is_last = self._gathered()
        if batch:
            self._commit(connection, batch)
        return not is_last

    def _gathered(self) -> tuple[list[_Wish], bool]:
        """What is asked, and whether the store closes after it. What nobody waits for does not make a commit of its own
        unless nothing else comes."""
        batch: list[_Wish] = []
        is_urgent = False
        while len(batch) < _BATCH:
            try:
                if is_urgent:
                    wish = self._asked.get_nowait()
                else:
                    wish = self._asked.get(timeout=_IDLE_SECONDS if batch else None)
            except queue.Empty:
                break
            if wish is None:
                return batch, True
            batch.append(wish)
            is_urgent = is_urgent or not isinstance(wish[1], _Nobody)
        return batch, False

    def _commit(self, connection: sqlite3.Connection, batch: list[_Wish]) -> None:
        """Do all of it, or none where the disk fails. A step that cannot be done is left out, the others are done: the
        thread serves the whole spoke."""
        tables = Tables(connection)
        given: list[Any] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for step, _ in batch:
                given.append(step(tables))  # how many were done tells which one failed
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._left_out(connection, batch, len(given), error)
            return
        for (_, answer), value in zip(batch, given, strict=True):
            answer.give(value)

    def _left_out(self, connection: sqlite3.Connection, batch: list[_Wish], at: int, error: Exception) -> None:
        if isinstance(error, sqlite3.Error) and not isinstance(error, _OF_ONE):
            refused = _unusable(self.path, error)
            for _, answer in batch:
                answer.fail(refused)
            return
        batch[at][1].fail(_unwritable(error))
        others = batch[:at] + batch[at + 1 :]
        if others:
            self._commit(connection, others)


class _Answer:
    """Where an outcome goes."""

    def give(self, value: Any) -> None:
        """It is done."""

    def fail(self, error: ReachError) -> None:
        """It is not."""


class _Nobody(_Answer):
    """Nobody waits."""


class _Now(_Answer):
    """A thread waits."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def give(self, value: Any) -> None:  # noqa: ARG002
        """See `_Answer`."""
        self.event.set()

    def fail(self, error: ReachError) -> None:  # noqa: ARG002
        """See `_Answer`."""
        self.event.set()


class _Later(_Answer):
    """A future of a loop waits."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future
        self._loop = future.get_loop()

    def give(self, value: Any) -> None:
        """See `_Answer`."""
        self._tell(lambda: self._future.set_result(value))

    def fail(self, error: ReachError) -> None:
        """See `_Answer`."""
        self._tell(lambda: self._future.set_exception(error))

    def _tell(self, end: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(lambda: None if self._future.done() else end())


_Wish: TypeAlias = tuple[Step, _Answer]


# --- the file -----------------------------------------------------------------------------------------------------


_OPEN: set[tuple[int, str]] = set()
"""The stores that are open in this process. Looked at before a file is touched: to close any descriptor of a file ends
all locks that the process has on it."""

_OPENING = threading.Lock()


def _opened(path: Path) -> tuple[sqlite3.Connection, str]:
    """The connection and the store's id."""
    mark = _mark(path)
    with _OPENING:
        if mark in _OPEN:
            raise _taken(path)
        opened = _connected(path)
        _OPEN.add(mark)
        return opened


def _mark(path: Path) -> tuple[int, str]:
    return os.getpid(), os.path.realpath(path)


def _connected(path: Path) -> tuple[sqlite3.Connection, str]:
    try:
        _make(path)
        connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    except OSError as error:
        raise ReachRefused(
            "unavailable", f"The store {path} cannot be opened: {error.strerror or error}.", "Name another: `store=`."
        ) from None
    except sqlite3.Error as error:
        raise _unusable(path, error) from None
    try:
        return connection, _prepared(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise _unusable(path, error) from None
        raise


def _make(path: Path) -> None:
    """The file and its directory, for this user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _prepared(connection: sqlite3.Connection, path: Path) -> str:
    for line in ("locking_mode=EXCLUSIVE", "journal_mode=PERSIST", "synchronous=FULL"):
        connection.execute(f"PRAGMA {line}").fetchall()
    connection.execute("BEGIN EXCLUSIVE")  # and the lock stays until the connection is closed
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        _create(connection, path)
    elif version != SCHEMA_VERSION:
        raise ReachRefused(
            "unsupported",
            f"The store {path} has the form {version}; this version of Tallystick knows {SCHEMA_VERSION}.",
            "Run the spoke with the version of Tallystick that wrote it, or name another store: `store=`.",
        )
    found = connection.execute("SELECT id FROM spoke").fetchone()
    state = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found is None or state != ("ok",):
        raise sqlite3.DatabaseError("its contents do not hold together" if found else "it has no id")
    connection.execute("COMMIT")
    return str(found[0])


def _create(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise ReachRefused(
            "invalid", f"The file {path} is a database of something else.", "Name another for the spoke: `store=`."
        )
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO spoke (id) VALUES (?)", (os.urandom(16).hex(),))
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _unusable(path: Path, error: sqlite3.Error) -> ReachRefused:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _taken(path)
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return ReachRefused(
            "unavailable", f"The store {path} cannot be written: {error}.", "See to the disk; nothing was lost."
        )
    return ReachRefused(
        "internal",
        f"The store {path} is damaged: {error}.",
        "Move it aside and start again: the host then asks a person about what this spoke had begun (`tally failed`).",
    )


def _unwritable(error: Exception) -> ReachRefused:
    return ReachRefused(
        "invalid", f"It cannot be written to the store: {text_of(error)}", "Give plain values and text that is UTF-8."
    )


def _taken(path: Path) -> ReachRefused:
    return ReachRefused(
        "conflict",
        f"This spoke runs already: its store {path} is open already, in another process or in this one.",
        "The live one wins: end it first, or give this one a spoke_id of its own.",
    )
