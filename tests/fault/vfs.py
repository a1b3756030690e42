"""A disk that fails on demand: an APSW VFS that knows what was synced, can run full, refuse a sync, or lie about it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

Write = tuple[int, bytes | None]
"""Offset and bytes; None for a truncation to that size."""


class Disk:
    """The state of all files of one VFS: what is durable, and what was written since the last sync."""

    def __init__(self, *, lies: bool = False) -> None:
        self.lies = lies
        """Whether syncs are only claimed."""
        self.durable: dict[str, bytearray] = {}
        self.loose: dict[str, list[Write]] = {}
        self.steps = 0
        """Writes and syncs so far."""
        self.syncs = 0
        self.written = 0
        self.at_step: Callable[[int], None] = lambda _: None
        """Called before each write and sync."""
        self.fail_sync = 0
        """Fail the sync of that number, counted from 1."""
        self.room: int | None = None
        """How many bytes may still be written."""
        self.lock = threading.RLock()

    def write(self, name: str, offset: int, data: bytes | None) -> None:
        """Note a write, or refuse it."""
        with self.lock:
            self._step()
            size = len(data or b"")
            if self.room is not None and size > self.room:
                raise apsw.FullError("no room left")
            if self.room is not None:
                self.room -= size
            self.written += size
            self.loose.setdefault(name, []).append((offset, data))

    def sync(self, name: str) -> None:
        """Make what was written durable, or fail, or lie."""
        with self.lock:
            self._step()
            self.syncs += 1
            if self.syncs == self.fail_sync:
                raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
            if not self.lies:
                self.durable[name] = _applied(self.durable.get(name, bytearray()), self.loose.pop(name, []))

    def delete(self, name: str) -> None:
        """The file is gone."""
        with self.lock:
            self.durable.pop(name, None)
            self.loose.pop(name, None)

    def after_power_cut(self, dice: random.Random) -> dict[str, bytes]:
        """The files as a power cut leaves them: of the unsynced writes some are whole, some half, some lost."""
        with self.lock:
            names = self.durable.keys() | self.loose.keys()
            return {name: self._left(name, dice) for name in names}

    def _left(self, name: str, dice: random.Random) -> bytes:
        kept: list[Write] = []
        for offset, data in self.loose.get(name, []):
            fate = dice.randrange(3)
            if data is not None and fate == 1:
                kept.append((offset, data[: len(data) // 2]))
            elif fate == 2:
                kept.append((offset, data))
        return bytes(_applied(self.durable.get(name, bytearray()), kept))

    def _step(self) -> None:
        self.steps += 1
        self.at_step(self.steps)


def _applied(before: bytearray, writes: list[Write]) -> bytearray:
    content = bytearray(before)
    for offset, data in writes:
        if data is None:
            del content[offset:]
            continue
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data
    return content


class FaultyVfs(apsw.VFS):
    """The usual VFS with a `Disk` listening and interfering."""

    def __init__(self, name: str, disk: Disk) -> None:
        super().__init__(name, "", exclude={"xSetSystemCall", "xGetSystemCall", "xNextSystemCall"})
        self.disk = disk

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(name, flags, self.disk)

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        self.disk.delete(Path(name).name)


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], disk: Disk) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "temporary").name

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.write(self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.write(self._name, size, None)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._disk.sync(self._name)
        super().xSync(flags)
