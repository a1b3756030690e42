"""How a spoke ends: told by a signal it finishes what it has; from within a handler it cannot be drained."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick import Capability, ReachMessage, ReachRefused, Spoke
from tests.support.reach import BOUND, ScriptedHub


class Bench:
    """A spoke whose handler waits until it may go on."""

    def __init__(self, store: Path) -> None:
        self.hub = ScriptedHub()
        self.may_end, self.runs = asyncio.Event(), asyncio.Event()
        self.spoke = Spoke("s-1", [Capability("Do")], {"Do": self.handle}, store=store, link=self.hub.dial)

    async def handle(self, message: ReachMessage) -> Any:
        self.runs.set()
        await self.may_end.wait()
        return message.payload

    async def running(self) -> asyncio.Task[None]:
        """`run`, with a message in its handler."""
        running = asyncio.create_task(self.spoke.run())
        await self.hub.got("ANCHOR")
        await self.hub.until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
        await self.hub.deliver("Do", 1)
        await self.runs.wait()
        return running


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """With SIGTERM as in a program of its own: what else ran in this process may have left a handler."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield Bench(tmp_path / "s.db")
    signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_spoke_that_is_told_to_end_finishes_what_it_has_and_takes_nothing_new(
    bench: Bench, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    async with asyncio.timeout(BOUND):
        running = await bench.running()
        os.kill(os.getpid(), number)
        await bench.hub.got("DRAIN")
        await bench.hub.deliver("Do", 2)
        assert (await bench.hub.got("FAIL"))["body"]["code"] == "unavailable"
        assert not running.done()
        bench.may_end.set()
        assert (await bench.hub.got("RESULT"))["body"]["payload"] == 1
        await running
    assert signal.getsignal(number) is before
    with pytest.raises(ReachRefused, match="is not started"):
        await bench.spoke.drain()


async def test_a_second_signal_ends_a_handler_that_does_not_end(bench: Bench) -> None:
    async with asyncio.timeout(BOUND):
        running = await bench.running()
        os.kill(os.getpid(), signal.SIGTERM)
        await bench.hub.got("DRAIN")
        os.kill(os.getpid(), signal.SIGINT)
        await running
    assert (await bench.hub.got("FAIL"))["body"]["code"] == "canceled"


async def test_a_spoke_that_runs_is_stopped_where_its_task_is_cancelled(bench: Bench) -> None:
    async with asyncio.timeout(BOUND):
        running = await bench.running()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert (await bench.hub.got("FAIL"))["body"]["code"] == "canceled"


async def test_outside_of_the_main_thread_run_says_what_to_do(bench: Bench) -> None:
    told: list[str] = []

    def other() -> None:
        try:
            asyncio.run(bench.spoke.run())
        except ReachRefused as error:
            told.extend((error.code, error.message))

    bench.hub.dial = Bench(bench.spoke._path).hub.dial  # type: ignore[method-assign]
    thread = threading.Thread(target=other)
    thread.start()
    await asyncio.to_thread(thread.join, BOUND)
    assert told == ["unsupported", "Signals can be heard in the main thread alone."]


async def test_a_handler_that_drains_its_own_spoke_is_refused(tmp_path: Path) -> None:
    hub = ScriptedHub()

    async def handle(_: ReachMessage) -> None:
        await asyncio.create_task(spoke.drain())

    spoke = Spoke("s-1", [Capability("Do")], {"Do": handle}, store=tmp_path / "s.db", link=hub.dial)
    async with spoke:
        await hub.deliver("Do", 1)
        failed = (await hub.got("FAIL"))["body"]
        assert failed["code"] == "conflict"
        assert failed["message"] == "A handler of spoke s-1 cannot drain it: it would wait for its own end."
        assert hub.count("DRAIN") == 0
