"""Requests through spokes: the spoke (`python -m bench.spoke HOME`), and the caller's side."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from bench.client import BODY, run
from bench.load import PAIRS, shared
from bench.machine import ROOT, Host, Machine, environment, until

CAPABILITY = "Answer"
READY = "ready"

Timed = tuple[float, list[float]]
"""Requests per second, and the seconds of each."""


@contextlib.contextmanager
def spoke(machine: Machine, host: Host) -> Iterator[None]:
    """A spoke in a process of its own that answers with what it was given, for the length of a block."""
    argv = (sys.executable, "-m", "bench.spoke", str(host.home))
    with machine.running(*argv, env={**environment(host.home), "PYTHONPATH": str(ROOT)}, cwd=str(ROOT)):
        until((host.home / READY).exists, "the spoke")
        yield


def sails(host: Host, callers: int, count: int) -> Timed:
    """Sails with a payload of 1 KiB by that many callers at once, each with a client of its own."""
    return run(_sails(host.home, callers, count))


async def _sails(home: Path, callers: int, count: int) -> Timed:
    with _home(home):
        async with _clients(callers) as clients:

            async def one(number: int) -> None:
                result = await clients[number].sail(CAPABILITY, {"body": BODY}, timeout_ms=60_000)
                if result.payload != {"body": BODY}:
                    raise RuntimeError("the spoke answered something else")

            await asyncio.gather(*map(one, range(callers)))
            return await shared(callers, count, one)


@contextlib.asynccontextmanager
async def _clients(count: int) -> AsyncIterator[list[Any]]:
    from tallystick import ReachClient

    async with contextlib.AsyncExitStack() as opened:
        yield [await opened.enter_async_context(ReachClient()) for _ in range(count)]


@contextlib.contextmanager
def _home(home: Path) -> Iterator[None]:
    """This process as one that finds that home."""
    before = dict(os.environ)
    os.environ.update(environment(home))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def serve(home: Path) -> None:
    """The spoke: as many requests at once as callers."""
    from tallystick import Capability, Spoke

    async def answer(message: Any) -> Any:
        return message.payload

    capability = Capability(CAPABILITY, concurrency=PAIRS)
    made = Spoke("bench", [capability], {CAPABILITY: answer}, store=home / "spoke.db")
    await made.start()
    (home / READY).write_text(str(time.time()), encoding="utf-8")
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(serve(Path(sys.argv[1])))
