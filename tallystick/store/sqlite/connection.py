"""Connections to the file, and the translation of what SQLite says when it refuses.

`synchronous` and the rest are settings of a connection, so there is one way to make one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import msgspec

from tallystick.core.errors import unsupported
from tallystick.store.blobs import DamagedBlobError
from tallystick.store.interface import StoreUnavailableError
from tallystick.store.sqlite.packs import DamagedPackError

OLDEST: Final = (3, 51, 3)
"""Before this release SQLite can corrupt a WAL file while one connection writes and another one checkpoints."""

BUSY_MS: Final = 5000
PAGE_BYTES: Final = 4096
CACHE_KIB: Final = 8_000
"""Pages that a connection keeps: a write touches a score of them, spread over the file."""
JOURNAL_BYTES: Final = 64 * 1024 * 1024
"""How much of the journal stays when it begins anew. The checkpoint thread truncates it in a silence."""

REASONS: Final[dict[type[apsw.Error], str]] = {
    apsw.FullError: "full",
    apsw.BusyError: "locked",
    apsw.LockedError: "locked",
    apsw.ReadOnlyError: "readonly",
    apsw.PermissionsError: "readonly",
    apsw.ConnectionClosedError: "closed",
}
"""Reasons by class of refusal; everything else is `io`."""

_SYNC_ERRORS: Final = frozenset(
    {apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC, apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_CLOSE}
)

_SETTINGS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    "PRAGMA wal_autocheckpoint = 0",  # the checkpoint thread does it: inside the writer it costs 5 times the p99
    f"PRAGMA journal_size_limit = {JOURNAL_BYTES}",  # to write over what is there costs the kernel half of appending
)


def refuse_old_sqlite(version: str) -> None:
    """Raise where the loaded SQLite is older than `OLDEST`."""
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise unsupported(
            f"SQLite {version} is loaded; before {needed} it can corrupt this log.",
            f"Install an apsw that brings SQLite {needed} or newer.",
        )


def create_private(path: Path) -> None:
    """The file, readable by its owner alone from the first moment; `-wal` and `-shm` take its mode over."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        # Never open and close a database file beside SQLite: closing drops the locks of the whole process.
        path.chmod(0o600)


def connect(path: Path, vfs: str | None) -> apsw.Connection:
    """A connection with all settings made. Raises StoreUnavailableError."""
    with translated():
        connection = apsw.Connection(str(path), vfs=vfs, statementcachesize=256)
        try:
            _settle(connection)
        except BaseException:
            connection.close(True)
            raise
        return connection


def _settle(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    if _is_empty(connection):
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    for setting in _SETTINGS:
        connection.execute(setting)
    if sys.platform == "darwin":
        connection.execute("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")


def _is_empty(connection: apsw.Connection) -> bool:
    return not connection.execute("PRAGMA page_count").fetchall()[0][0]


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Whatever SQLite or the disk refuses inside, or cannot be read, leaves as StoreUnavailableError."""
    try:
        yield
    except apsw.Error as error:
        raise unavailable(error) from error
    except OSError as error:
        raise disk_refused(error) from error
    except _UNREADABLE as error:
        raise StoreUnavailableError("io", f"The log is damaged: {error}") from error


_UNREADABLE: Final = (DamagedBlobError, DamagedPackError, msgspec.DecodeError, zlib.error, UnicodeDecodeError)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def disk_refused(error: OSError) -> StoreUnavailableError:
    """The same for an error of the operating system, by its number."""
    return StoreUnavailableError("full" if error.errno in _FULL else "io", str(error))


def unavailable(error: apsw.Error) -> StoreUnavailableError:
    """The refusal as this project says it, by the class of the error."""
    return StoreUnavailableError(REASONS.get(type(error), "io"), str(error))


def is_sync_error(error: apsw.Error) -> bool:
    """Whether the disk failed to make something durable: what it holds now is unknown until it is opened again."""
    return getattr(error, "extendedresult", 0) in _SYNC_ERRORS


@contextlib.contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
    """Everything read inside is read from one state of the log."""
    with translated():
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")
