"""Reading files of a work tree that somebody else writes: no link followed, no device opened, each byte read once."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A part of the path that is a link or a file: the listed path is not there.
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK})


class Beneath:
    """Opens paths below one directory, part by part, so that no swapped link leads out of it.

    Keeps the last directory open: listings come sorted. Raises OSError like the calls it stands for.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, _DIRECTORY)
        self._last: tuple[bytes, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._forget()
        os.close(self._root)

    def look(self, path: bytes) -> os.stat_result | None:
        """The state of the entry itself; None if there is none (or a part of its path is not a directory)."""
        folder, _, name = path.rpartition(b"/")
        try:
            return os.stat(name, dir_fd=self._directory(folder), follow_symlinks=False)
        except OSError as failed:
            if failed.errno in _ABSENT:
                return None
            raise

    def link(self, path: bytes) -> bytes:
        """What a symbolic link says, not what it leads to."""
        folder, _, name = path.rpartition(b"/")
        return os.readlink(name, dir_fd=self._directory(folder))

    @contextlib.contextmanager
    def open(self, path: bytes) -> Iterator[IO[bytes]]:
        """A regular file, open for reading. OSError for anything else."""
        folder, _, name = path.rpartition(b"/")
        descriptor = os.open(name, _FILE, dir_fd=self._directory(folder))
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("not a regular file")
            yield file

    def read(self, path: bytes, limit: int) -> bytes | None:
        """The bytes of a regular file, read once; None when there are more than `limit`."""
        with self.open(path) as file:
            kept = bytearray()
            while chunk := file.read(1 << 20):
                kept += chunk
                if len(kept) > limit:
                    return None
        return bytes(kept)

    def _directory(self, folder: bytes) -> int:
        if not folder:
            return self._root
        if self._last is None or self._last[0] != folder:
            self._forget()
            self._last = (folder, _descend(self._root, folder))
        return self._last[1]

    def _forget(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None


def _descend(root: int, folder: bytes) -> int:
    here = os.dup(root)
    try:
        for part in folder.split(b"/"):
            deeper = os.open(part, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = deeper
    except OSError:
        os.close(here)
        raise
    return here
