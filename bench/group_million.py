"""A million messages to a capability through the hub in this process, its clock simulated: memory, and the rate of the
last hundred thousand against that of the first. Only where it is asked for by name: it takes an hour."""

from __future__ import annotations

import asyncio
import time

from bench.machine import Machine
from bench.table import Row
from tests.support.traffic import Traffic, memory

PART = 100_000
GROWTH_MB = 60.0
SLOWER = 1.3


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    total = 200_000 if quick else 1_000_000
    sizes, took = asyncio.run(_carried(machine, total))
    what = f"growth of memory from {PART:,} messages to {total:,}"
    growth = Row("million-memory", what, GROWTH_MB, False, [sizes], "MB")
    slower = took[-1] / took[0]
    rate = Row("million-rate", f"time of the last {PART:,} messages over that of the first", SLOWER, False, [slower])
    return [growth, rate]


async def _carried(machine: Machine, total: int) -> tuple[float, list[float]]:
    """By how many MB memory grew after the first part, and the processor's seconds of each part."""
    took: list[float] = []
    async with Traffic(machine.new("million")) as traffic:
        warm = 0.0
        for _ in range(total // PART):
            begun = time.process_time()
            await traffic.messages(PART)
            took.append(time.process_time() - begun)
            warm = warm or memory()
        return memory() - warm, took
