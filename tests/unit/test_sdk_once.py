"""The rule of once in a spoke: begun on the disk and acknowledged before it runs, told until it is acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tallystick import Capability, ReachMessage, Spoke
from tests.support.reach import ScriptedHub


class Bench:
    """A spoke whose handler counts what it did."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.hub = ScriptedHub()
        self.ran: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.capability = Capability("Echo", concurrency=4)
        self.spoke = self.make()

    def make(self) -> Spoke:
        return Spoke("echo-1", [self.capability], {"Echo": self.handle}, store=self.store, link=self.hub.dial)

    async def handle(self, message: ReachMessage) -> Any:
        self.ran.append(message.payload)
        await self.gate.wait()
        return {"echo": message.payload}

    async def die(self) -> None:
        """The process is killed: nothing is told to anybody."""
        running = self.spoke._running
        assert running is not None
        for task in list(running.works._tasks.values()):
            task.cancel()
        running.works.finished_handlers = None
        await running.end()
        self.spoke._running = None


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    found = Bench(tmp_path / "echo.db")
    await found.spoke.start()
    yield found
    await found.spoke.stop()


async def test_a_handler_runs_after_its_begin_was_acknowledged_and_its_result_is_told(bench: Bench) -> None:
    sent = await bench.hub.deliver("Echo", {"n": 1})
    begin = await bench.hub.got("BEGIN")
    result = await bench.hub.got("RESULT")
    assert begin["body"] == {"delivery": sent["body"]["delivery"], "fence": 1}
    assert begin["header"]["msg_id"] == result["header"]["msg_id"] == sent["header"]["msg_id"]
    assert result["body"]["payload"] == {"echo": {"n": 1}}
    assert bench.ran == [{"n": 1}]


async def test_a_handler_does_not_run_while_its_begin_is_not_acknowledged(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda _: []
    await bench.hub.deliver("Echo", 1)
    begin = await bench.hub.got("BEGIN")
    assert bench.ran == []
    await bench.hub.send(bench.hub.ack(begin))
    await bench.hub.got("RESULT")
    assert bench.ran == [1]


async def test_a_handler_whose_begin_is_refused_never_runs(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda found: [bench.hub.fail(found, "conflict")]
    sent = await bench.hub.deliver("Echo", 1)
    await bench.hub.got("BEGIN")
    del bench.hub.answers["BEGIN"]
    await bench.hub.deliver("Echo", 2)
    await bench.hub.got("RESULT")
    assert bench.ran == [2]
    assert sent["body"]["delivery"] not in str(bench.hub.heard[-1])
