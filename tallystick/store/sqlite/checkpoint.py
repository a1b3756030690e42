"""The thread that moves the journal into the file, on a connection of its own.

Inside the writer a checkpoint costs five times the p99 of a commit; here it costs nothing, but a writer that never
pauses lets the journal grow: above a bound the rest of a checkpoint is done while the writer waits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

import apsw

from tallystick.store.sqlite.connection import is_sync_error
from tallystick.store.sqlite.writer import Failpoint, Writer

PASSIVE_PAGES: Final = 2_000
"""Journal pages (4 KiB) from which a checkpoint is worth its two syncs."""

BOUND_PAGES: Final = 8_000
"""Journal pages from which the writer has to wait for the end of a checkpoint; at twice as many, for all of it."""

IDLE_SECONDS: Final = 2.0
"""Silence after which a large journal is truncated."""


class Checkpointer:
    """Owns the checkpointing connection."""

    def __init__(
        self,
        connection: apsw.Connection,
        writer: Writer,
        failpoint: Failpoint,
        failed: Callable[[apsw.Error], None],
    ) -> None:
        self._connection = connection
        self._busy = writer.busy
        self._gate = writer.gate
        self._checkpointing = writer.checkpointing
        self._failpoint = failpoint
        self._failed = failed
        self._pages = 0
        self._longest = 0
        """How long the journal's file is: it does not shrink when the journal begins anew."""
        self._moved = 0
        self._due = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tallystick-checkpoint", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def committed(self, pages: int) -> None:
        """The writer tells how long the journal is after a commit."""
        if pages < self._pages:
            self._moved = 0  # the journal began anew
        self._pages = pages
        self._longest = max(pages, self._longest)
        if pages - self._moved < PASSIVE_PAGES:
            return
        if pages >= 2 * BOUND_PAGES and self._thread.is_alive():
            self._gate.clear()  # before `_due`: who serves that opens the gate again
        self._due.set()

    def stop(self) -> None:
        """End the thread and close the connection. Blocks."""
        self._stopping = True
        self._gate.set()
        self._due.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._stopping:
            due = self._due.wait(IDLE_SECONDS if self._longest >= PASSIVE_PAGES else None)
            self._due.clear()
            if self._stopping:
                return
            try:
                self._checkpoint(due)
            except apsw.Error as error:
                if is_sync_error(error):  # anything else is tried again when the journal has grown
                    self._failed(error)
                    return
            finally:
                self._gate.set()

    def _checkpoint(self, due: bool) -> None:
        self._failpoint("before_checkpoint")
        if not due:
            self._truncate()
        else:
            self._moved = self._pages
            self._pass(apsw.SQLITE_CHECKPOINT_PASSIVE)
            if self._pages >= BOUND_PAGES:
                self._gate.clear()
                with self._busy:  # the next commit begins the journal anew only if all of it was moved
                    self._pass(apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._failpoint("after_checkpoint")

    def _truncate(self) -> None:
        with self._busy:
            self._pass(apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._pages = self._longest = 0

    def _pass(self, mode: int) -> None:
        with self._checkpointing, contextlib.suppress(apsw.BusyError):  # a reader needs the journal: next time
            self._connection.wal_checkpoint(mode=mode)
