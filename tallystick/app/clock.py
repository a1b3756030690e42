"""Time as the host uses it: deadlines on a high-water clock, leases on boot time."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from tallystick.app.ports import Clock
from tallystick.core.identity import LETTERS, Prefix, letters_of, spelled

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PAGE = 4096


class SystemClock:
    """The clocks of this machine."""

    # Called a dozen times for a request, so the system's own calls are used as they stand.
    now = staticmethod(time.time)
    """UTC seconds since 1970 by the wall clock."""

    boot = staticmethod(partial(time.clock_gettime, _BOOT))
    """Seconds since boot, sleep included where the system can tell."""

    def boot_id(self) -> str:
        """Names this boot of the machine; empty where the system does not tell."""
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            return ""


class HighWater:
    """UTC that never steps back: the wall clock, or boot time counted on from the highest value seen."""

    def __init__(self, clock: Clock, last_event_at: float) -> None:
        self.clock = clock
        self._read_boot, self._read_wall = clock.boot, clock.now
        self._highest = last_event_at
        self._boot = clock.boot()

    def now(self) -> float:
        """UTC seconds, to the millisecond."""
        return self.milliseconds() / 1000

    def milliseconds(self) -> int:
        """The same in whole milliseconds."""
        boot, wall, highest = self._read_boot(), self._read_wall(), self._highest
        passed = boot - self._boot
        if passed > 0:
            highest += passed
        if wall > highest:
            highest = wall
        self._boot, self._highest = boot, highest
        return int(highest * 1000 + 0.5)

    def not_before(self, at: float) -> None:
        """Time goes on from there if it was behind."""
        self._highest = max(self._highest, at)

    def behind(self) -> float:
        """By how many seconds the wall clock is behind."""
        return self.now() - self.clock.now()


class Chance:
    """The system's chance, fetched a page at a time: one call of the kernel is enough for hundreds of ids. For one
    thread, and not to be used on both sides of a fork."""

    def __init__(self) -> None:
        self._page = b""
        self._used = 0

    def __call__(self, count: int) -> bytes:
        """That many random bytes, at most a page; none is given out twice."""
        begun = self._used
        end = self._used = begun + count
        if end > len(self._page):
            self._page, begun, end = os.urandom(_PAGE), 0, count
            self._used = end
        return self._page[begun:end]


class RandomIds:
    """New ids from the high-water clock and the system's chance."""

    def __init__(self, clock: HighWater) -> None:
        self._clock = clock
        self._letters = ""
        self._used = 0

    def __call__(self, prefix: Prefix) -> str:
        """A new id that sorts by its time."""
        begun = self._used
        end = self._used = begun + LETTERS
        if end > len(self._letters):
            self._letters, begun, end = letters_of(os.urandom(_PAGE)), 0, LETTERS
            self._used = end
        return spelled(prefix, self._clock.milliseconds(), self._letters[begun:end])
