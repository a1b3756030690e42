"""Whole cycles through procrastinate on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator

from bench.client import BODY, run
from bench.load import shared
from bench.machine import ROOT, Machine
from bench.others import SECONDS, Cycles

POLL = 0.2
"""Seconds. As it comes (5) a rare notification that is missed would cost procrastinate a whole round."""


@contextlib.contextmanager
def procrastinate(machine: Machine) -> Iterator[Cycles]:
    """procrastinate on PostgreSQL (fsync and synchronous_commit on): the ask is a job of a worker process of 32 at
    once, which defers the answer as a job of the sender's own worker; both are woken by LISTEN/NOTIFY."""
    from bench import workers

    with machine.postgres() as address:
        run(_prepared(address))
        env = {"BENCH_POSTGRES": address, "PYTHONPATH": str(ROOT)}
        options = ("worker", "--queues=ask", f"--concurrency={workers.JOBS}", f"--fetch-job-polling-interval={POLL}")
        app = ("-m", "procrastinate", "--app", "bench.workers.PROCRASTINATE")
        with machine.running(sys.executable, *app, *options, env=env, cwd=str(ROOT)):
            yield lambda pairs, count: run(_measured(address, pairs, count))


async def _prepared(address: str) -> None:
    from bench import workers

    app, _ = workers.procrastinate_task(address, {})
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def _measured(address: str, pairs: int, count: int) -> float:
    """The sender's side of one round."""
    from bench import workers

    waiting: dict[int, asyncio.Future[str]] = {}
    app, ask = workers.procrastinate_task(address, waiting)

    async def one(number: int) -> None:
        seen = waiting[number] = asyncio.get_running_loop().create_future()
        await ask.defer_async(number=number, body=BODY)
        await asyncio.wait_for(seen, SECONDS)

    async with app.open_async():
        options = {"concurrency": workers.JOBS, "fetch_job_polling_interval": POLL, "install_signal_handlers": False}
        worker = asyncio.create_task(app.run_worker_async(queues=["answer"], **options))
        try:
            await asyncio.gather(*map(one, range(pairs)))
            rate, _ = await shared(pairs, count, one)
        finally:
            worker.cancel()
            await asyncio.wait([worker])
    return rate
