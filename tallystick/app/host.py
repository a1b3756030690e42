"""The running host: starts its services in order, waits, stops them in reverse. One per home."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.home import HomeGuard

__all__ = ["HomeGuard", "Host", "Service"]


class Service(Protocol):
    """A part of the host with a life of its own."""

    async def start(self) -> None:
        """Begin. Raises `Refused` where it cannot; then everything that was started is stopped again."""
        ...

    async def stop(self) -> None:
        """End in order. Called once, only after `start` returned."""
        ...


class Host:
    """One host in one home, whose lock is already held."""

    def __init__(self, home: Path, services: Sequence[Service], *, diagnostics: Diagnostics) -> None:
        self.home = home
        self.services = list(services)
        """Started in this order, stopped in reverse; may be extended until `run`."""
        self.diagnostics = diagnostics
        self.pid = os.getpid()
        self.address = ""
        """Where it listens besides its socket; empty if it does not."""
        self._stop: asyncio.Event | None = None
        self._reason = ""

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Start, call `ready`, serve until asked to stop, stop. Raises what a service refused at its start."""
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unforeseen)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop, signal.Signals(number).name)
        running: list[Service] = []
        try:
            for service in self.services:
                await service.start()
                running.append(service)
            self.diagnostics.record("host started", pid=self.pid)
            ready()
            await self._stop.wait()
        finally:
            self.diagnostics.record("host stopping", reason=self._reason)
            await self._end(running)

    def _unforeseen(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What was done behind everybody's back and failed, with nobody to tell: a task or a callback."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self.diagnostics.failure(str(context.get("message", "")), error)
        else:
            self.diagnostics.record("event loop", detail=str(context.get("message", "")))

    async def _end(self, running: list[Service]) -> None:
        for service in reversed(running):
            try:
                await service.stop()
            except Exception as error:  # noqa: BLE001 - the others must still be stopped
                self.diagnostics.failure(f"stop of {type(service).__name__}", error)
        self.diagnostics.record("host stopped", pid=self.pid)
        self.diagnostics.close()

    def request_stop(self, reason: str) -> None:
        """Begin the ordered stop; returns at once. Asking twice changes nothing."""
        self._reason = self._reason or reason
        if self._stop:
            self._stop.set()
