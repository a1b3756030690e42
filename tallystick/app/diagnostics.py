"""What went on in the host, for whoever looks for a fault: rotating JSON lines, apart from the record.

Never raises: a host that cannot write diagnostics still works. Details of unforeseen errors go here and nowhere else;
a caller gets the reference number.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

_TEXT = 16 * 1024
_encode = msgspec.json.Encoder(enc_hook=repr).encode


class Diagnostics:
    """The file `host.jsonl` of a home and its older ones `host.jsonl.1`, `.2`, …"""

    def __init__(
        self, path: Path, *, files: int = 5, size: int = 10 * 1024 * 1024, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._files = files
        self._size = size
        self._now = now
        self._file: int | None = None
        self._written = 0
        self._is_whole = True

    def record(self, kind: str, **fields: Any) -> None:
        """Append one record. One line whatever the fields hold: JSON escapes what would end it."""
        with suppress(Exception):
            line = _encode({"at": self._now(), "kind": kind, **{k: _plain(v) for k, v in fields.items()}}) + b"\n"
            self._append(line)

    def failure(self, where: str, error: BaseException) -> str:
        """Append an unforeseen error with its trace; the reference number to tell the caller."""
        reference = os.urandom(4).hex()
        trace = "".join(traceback.format_exception(error))
        self.record("failure", reference=reference, where=where, error=repr(error), trace=trace)
        return reference

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """The newest records, oldest of them first; a torn line is left out."""
        lines: list[bytes] = []
        for number in range(self._files):
            with suppress(OSError):
                lines = self._numbered(number).read_bytes().splitlines() + lines
            if len(lines) >= limit:
                break
        found = []
        for line in lines[-limit:]:
            with suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
        return found

    def close(self) -> None:
        """Close the file; a later record opens it again."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)

    def _append(self, line: bytes) -> None:
        if self._file is not None and self._written + len(line) > self._size:
            self._rotate()
        if self._file is None:
            self._open()
        if self._file is None:
            return
        if not self._is_whole:  # the last record was torn, by a kill or a full disk: only that one is lost
            line = b"\n" + line
        self._is_whole = False
        done = os.write(self._file, line)
        self._written += done
        self._is_whole = done == len(line)

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self.path, flags, 0o600)
        os.fchmod(self._file, 0o600)
        self._written = os.fstat(self._file).st_size
        self._is_whole = self._written == 0 or os.pread(self._file, 1, self._written - 1) == b"\n"

    def _rotate(self) -> None:
        self.close()
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number)
            with suppress(FileNotFoundError):
                self._numbered(number - 1).replace(older)
        if self._files == 1:
            self.path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def _plain(value: Any) -> Any:
    """Texts without lone surrogates and of bounded length; everything else as it is."""
    if isinstance(value, str):
        return value[:_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")
    return value
