"""Load on a host through its socket: submits and whole cycles, from many clients of one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from bench.client import BODY, Client, Line, run

PAIRS = 32
NAMES = tuple(f"{side}{number}" for number in range(PAIRS) for side in "ab")
"""The agents that have to have joined."""

Work = Callable[[int], Awaitable[None]]


def submits(path: str, clients: int, count: int) -> tuple[float, list[float]]:
    """Durable SubmitTask with a body of 1 KiB: per second, and the seconds of each."""

    async def main() -> tuple[float, list[float]]:
        lines = [await Client.open(path) for _ in range(clients)]

        async def one(number: int) -> None:
            name = number % PAIRS
            await lines[number].call("ask", f"a{name}", address=f"@b{name}", title="Work", body=BODY)

        try:
            await asyncio.gather(*map(one, range(clients)))  # the first of each connection is not counted
            return await shared(clients, count, one)
        finally:
            for line in lines:
                line.close()

    return run(main())


def cycles(path: str, pairs: int, count: int) -> tuple[float, list[float]]:
    """ask → take → submit → the sender sees the result: per second, and the seconds of each."""

    async def main() -> tuple[float, list[float]]:
        lines = [(await Client.open(path), await Client.open(path)) for _ in range(pairs)]

        async def one(number: int) -> None:
            sender, worker = lines[number]
            await cycle(sender, worker, f"a{number}", f"b{number}")

        try:
            await asyncio.gather(*map(one, range(pairs)))  # as with all that is compared
            return await shared(pairs, count, one)
        finally:
            for pair in lines:
                for line in pair:
                    line.close()

    return run(main())


async def cycle(sender: Client, worker: Client, a: str, b: str) -> None:
    """One whole cycle. The worker learns of the task by its id, as from a push."""
    task = (await sender.call("ask", a, address=f"@{b}", title="Work", body=BODY))["task_id"]
    seen = sender.call("outcome", a, task=task, version=2, seconds=40.0)
    taken = await worker.call("take", b, task=task)
    await worker.call("submit", b, task=task, text=BODY, fence=taken["fence"])
    _check(await seen)


def _check(told: dict[str, object]) -> None:
    if (told["state"], told["result"]) != ("completed", BODY):
        raise RuntimeError("the cycle did not complete")


def single_submits(path: str, count: int) -> list[float]:
    """The same from one client that waits: the seconds of each."""
    with Line(path) as line:
        return _timed(count, lambda: line.call("ask", "a0", address="@b0", title="Work", body=BODY))


def single_cycles(path: str, count: int) -> list[float]:
    """Whole cycles of one pair, each on a connection of its own: the seconds of each."""
    with Line(path) as sender, Line(path) as worker:

        def cycle_of_one() -> None:
            task = sender.call("ask", "a0", address="@b0", title="Work", body=BODY)["task_id"]
            sender.send("outcome", "a0", task=task, version=2, seconds=40.0)
            taken = worker.call("take", "b0", task=task)
            worker.call("submit", "b0", task=task, text=BODY, fence=taken["fence"])
            _check(sender.result())

        return _timed(count, cycle_of_one)


def _timed(count: int, work: Callable[[], object]) -> list[float]:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return took


async def shared(workers: int, count: int, work: Work) -> tuple[float, list[float]]:
    """`count` pieces of work shared by concurrent workers: per second, and the seconds of each."""
    left, took = count, []

    async def run_one(number: int) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            start = time.perf_counter()
            await work(number)
            took.append(time.perf_counter() - start)

    begun = time.perf_counter()
    await asyncio.gather(*map(run_one, range(workers)))
    return count / (time.perf_counter() - begun), took
