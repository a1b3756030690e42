"""Whole cycles through other systems, each as durable as it can be set to be: A sends 1 KiB, B receives and claims it,
B answers 1 KiB, A sees the answer. Every function gives cycles per second of `pairs` at once."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.client import BODY, run
from bench.load import PAIRS, shared
from bench.machine import ROOT, Machine

SECONDS = 120
Cycles = Callable[[int, int], float]


def _threads(pairs: int, count: int, one: Callable[[int], None]) -> float:
    """Cycles per second of `pairs` threads."""
    left = threading.Semaphore(count)

    def work(number: int) -> None:
        while left.acquire(blocking=False):
            one(number)

    with ThreadPoolExecutor(pairs) as pool:
        list(pool.map(one, range(pairs)))  # the first of each is not counted
        begun = time.perf_counter()
        for done in [pool.submit(work, number) for number in range(pairs)]:
            done.result(SECONDS)
        return count / (time.perf_counter() - begun)


@contextlib.contextmanager
def persist_queue(machine: Machine) -> Iterator[Cycles]:
    """persist-queue SQLiteAckQueue (WAL, synchronous FULL): one database, a queue per party, all in one process."""
    import persistqueue

    folder = str(machine.new("persist"))

    def queue(name: str) -> Any:
        return persistqueue.SQLiteAckQueue(folder, name=name, multithreading=True, timeout=60)

    sides = [(queue(f"b{number}"), queue(f"a{number}")) for number in range(PAIRS)]

    def one(number: int) -> None:
        asked, answered = sides[number]
        asked.put(BODY)
        item = asked.get(timeout=SECONDS)
        answered.put(BODY)
        asked.ack(item)
        answered.ack(answered.get(timeout=SECONDS))

    yield lambda pairs, count: _threads(pairs, count, one)


@contextlib.contextmanager
def huey(machine: Machine) -> Iterator[Cycles]:
    """huey on SQLite with fsync, a consumer of 32 threads that looks every 5 ms."""
    path = machine.new("huey") / "huey.db"
    env = {"BENCH_HUEY": str(path), "PYTHONPATH": str(ROOT)}
    from bench import workers

    tasks = workers.huey_tasks(str(path))
    consumer = (sys.executable, "-m", "huey.bin.huey_consumer", "bench.workers.HUEY")
    options = ("-w", "32", "-k", "thread", "-d", "0.005", "-m", "0.01", "-n")
    with machine.running(*consumer, *options, env=env, cwd=str(ROOT)):

        def one(_: int) -> None:
            tasks(BODY).get(blocking=True, timeout=SECONDS, backoff=1.0, max_delay=0.005)

        one(0)
        yield lambda pairs, count: _threads(pairs, count, one)


@contextlib.contextmanager
def celery(machine: Machine) -> Iterator[Cycles]:
    """Celery on Redis (appendfsync always), late acknowledgement, answers in Redis, a worker of 32 threads."""
    with machine.redis() as port:
        env = {"BENCH_REDIS": str(port), "PYTHONPATH": str(ROOT)}
        from bench import workers

        app, task = workers.celery_task(port)
        worker = (sys.executable, "-m", "celery", "-A", "bench.workers:CELERY", "worker", "-P", "threads", "-c", "32")
        with machine.running(*worker, "--without-gossip", "--without-mingle", "-l", "ERROR", env=env, cwd=str(ROOT)):

            def one(_: int) -> None:
                task.delay(BODY).get(timeout=SECONDS)

            one(0)
            yield lambda pairs, count: _threads(pairs, count, one)
        app.close()


@contextlib.contextmanager
def redis_streams(machine: Machine) -> Iterator[Cycles]:
    """Redis Streams with consumer groups, appendfsync always, raw: no retries, no deadlines, no history per task."""
    import redis.asyncio

    with machine.redis() as port:

        def measured(pairs: int, count: int) -> float:
            async def main() -> float:
                sides = [(redis.asyncio.Redis(port=port), redis.asyncio.Redis(port=port)) for _ in range(pairs)]
                tag = time.time_ns()
                for number, (a, b) in enumerate(sides):
                    await b.xgroup_create(f"ask{tag}-{number}", "g", id="0", mkstream=True)
                    await a.ping()

                async def one(number: int) -> None:
                    a, b = sides[number]
                    asked, answered = f"ask{tag}-{number}", f"answer{tag}-{number}"
                    await a.xadd(asked, {"body": BODY})
                    got = await b.xreadgroup("g", "b", {asked: ">"}, count=1, block=10_000)
                    last = await b.xadd(answered, {"body": BODY})
                    await b.xack(asked, "g", got[0][1][0][0])
                    await a.xrange(answered, min=last, max=last)

                await asyncio.gather(*map(one, range(pairs)))
                rate, _ = await shared(pairs, count, one)
                for pair in sides:
                    for side in pair:
                        await side.aclose()
                return rate

            return run(main())

        yield measured
