"""Content-addressed files: named by their sha256, verified on every read, erased down to a tombstone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from hashlib import sha256
from itertools import count
from pathlib import Path
from re import fullmatch
from typing import Final

_TEMPORARY: Final = ".part"
_TOMBSTONE: Final = ".erased"


class DamagedBlobError(Exception):
    """The bytes on disk are not those of that digest."""


class BlobStore:
    """Blobs in a directory of their own, in folders by the first two digits of their digest.

    All methods block on the disk; OSError leaves as it is, with its errno.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for torn in directory.glob(f"*{_TEMPORARY}"):  # nobody was told of these
            torn.unlink(missing_ok=True)

    def put(self, content: bytes | Iterable[bytes]) -> str:
        """Keep the content durably and return its digest. Chunks are written as they come.

        Content that was erased before stays erased.
        """
        chunks = (content,) if isinstance(content, bytes) else content
        temporary = self._directory / f"{os.getpid()}-{next(self._numbers)}{_TEMPORARY}"
        try:
            digest = _write(temporary, chunks)
            self._place(temporary, digest)
        finally:
            temporary.unlink(missing_ok=True)
        return digest

    def get(self, digest: str) -> bytes | None:
        """The content, None if it is not there or was erased. Raises DamagedBlobError where it is not what it was."""
        try:
            content = self._path(digest).read_bytes()
        except FileNotFoundError:
            return None
        if sha256(content).hexdigest() != digest:
            raise DamagedBlobError(f"The blob {digest} does not have that digest.")
        return content

    def is_erased(self, digest: str) -> bool:
        """Whether this content was here and was erased."""
        return self._path(digest).with_suffix(_TOMBSTONE).exists()

    def erase(self, digest: str) -> bool:
        """Remove the content and leave a tombstone; whether there was content."""
        path = self._path(digest)
        if not path.exists():
            return False
        tombstone = os.open(path.with_suffix(_TOMBSTONE), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        os.close(tombstone)
        path.unlink(missing_ok=True)
        _sync_directory(path.parent)
        return True

    def discard(self, digest: str) -> None:
        """Remove content that nothing refers to, without a trace."""
        self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        if fullmatch(r"[0-9a-f]{64}", digest) is None:
            raise ValueError("A digest is 64 hexadecimal digits.")
        return self._directory / digest[:2] / digest

    def _place(self, temporary: Path, digest: str) -> None:
        path = self._path(digest)
        if self.is_erased(digest):
            return
        if not path.parent.exists():
            with contextlib.suppress(FileExistsError):
                path.parent.mkdir(mode=0o700)
            _sync_directory(self._directory)
        temporary.replace(path)
        _sync_directory(path.parent)


def _write(path: Path, chunks: Iterable[bytes]) -> str:
    digest = sha256()
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
