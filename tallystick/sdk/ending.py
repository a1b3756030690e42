"""What tells a program to end: SIGTERM, or SIGINT (Ctrl-C)."""

from __future__ import annotations

import asyncio
import signal
from typing import Final, Self

from tallystick.sdk.errors import ReachRefused

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """While it is entered, these signals do not end the program but are told here, each once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Semaphore(0)
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    async def told(self) -> None:
        """Wait for the next one."""
        await self._told.acquire()

    def __enter__(self) -> Self:
        try:
            for number in _SIGNALS:
                self._loop.add_signal_handler(number, self._told.release)
        except (RuntimeError, ValueError):
            raise ReachRefused(
                "unsupported",
                "Signals can be heard in the main thread alone.",
                "Run the spoke there, or call `start`, and `drain` and `stop` at the end.",
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            self._loop.remove_signal_handler(number)
            if before is not None:  # it was not set by Python, and cannot be set again by it
                signal.signal(number, before)
