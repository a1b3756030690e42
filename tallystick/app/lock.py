"""The one lock of a home. The only file that knows `fcntl`: another system needs another version of it alone."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tallystick import __version__
from tallystick.core.errors import conflict, unavailable

_STEP = 0.02


class Holder(msgspec.Struct, frozen=True):
    """The host that holds a home."""

    pid: int
    version: str


class HomeLock:
    """An exclusive lock that the kernel drops with the process, however it ends."""

    def __init__(self, home: Path) -> None:
        self.path = home / "host.lock"
        self._file: int | None = None

    def take(self) -> None:
        """Take it, or refuse with `conflict` naming who holds it."""
        if not self._try():
            raise self._conflict()

    def take_within(self, seconds: float, unless: Callable[[], bool]) -> bool:
        """Wait for it. False as soon as `unless()`: another host serves; `conflict` when the time is over."""
        until = time.monotonic() + seconds
        while not self._try():
            if unless():
                return False
            if time.monotonic() > until:
                raise self._conflict()
            time.sleep(_STEP)
        return True

    def wait_free(self, seconds: float) -> None:
        """Wait until nobody holds it; `unavailable` when the time is over."""
        until = time.monotonic() + seconds
        while (holder := self.holder()) is not None:
            if time.monotonic() > until:
                raise unavailable(
                    f"The host with process id {holder.pid} has not stopped within {seconds:g} s.",
                    "It may still be finishing work; look with `tally status` and try again.",
                )
            time.sleep(_STEP)

    def holder(self) -> Holder | None:
        """Who holds it now; None where nobody does."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(file)
        else:
            return None
        finally:
            os.close(file)

    def release(self) -> None:
        """Give it back. The file stays: removing it would let two hosts lock two files of one name."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _try(self) -> bool:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        os.fchmod(file, 0o600)
        os.ftruncate(file, 0)
        os.pwrite(file, msgspec.json.encode(Holder(os.getpid(), __version__)) + b"\n", 0)
        self._file = file
        return True

    def _conflict(self) -> Exception:
        holder = self.holder() or Holder(0, "of unknown version")
        return conflict(
            f"Another host ({holder.version}, process id {holder.pid}) already serves {self.path.parent}.",
            "Use that one (`tally status`), or replace it with `tally up --replace`.",
        )


def _read(file: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(file, 4096, 0), type=Holder)
    except msgspec.MsgspecError:  # being written this very moment
        return Holder(0, "starting")
