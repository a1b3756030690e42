"""The store in one SQLite file: WAL, FULL, one writer thread with group commit, a checkpoint thread."""

from tallystick.store.sqlite.store import FAILPOINTS, SqliteStore

__all__ = ["FAILPOINTS", "SqliteStore"]
