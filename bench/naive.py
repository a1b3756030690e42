"""Requests through the naive hub: its worker (`python -m bench.naive URL`), and the caller's side."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from bench.client import BODY, run
from bench.load import PAIRS, shared
from bench.machine import ROOT, Machine, accepts, free_port, until
from bench.others import SECONDS, Cycles

CAPABILITY = "Answer"


@contextlib.contextmanager
def naive_hub(machine: Machine) -> Iterator[Cycles]:
    """A hub of 60 lines (FastAPI on uvicorn, SQLite with WAL and synchronous FULL, a transaction for each step), a
    worker process with 32 long polls, callers that post and then poll; httpx on connections that stay open."""
    port, path = free_port(), machine.new("naive") / "hub.db"
    env, url = {"PYTHONPATH": str(ROOT)}, f"http://127.0.0.1:{port}"
    hub = (sys.executable, "-m", "bench.naive_hub", str(path), str(port))
    worker = (sys.executable, "-m", "bench.naive", url)
    with machine.running(*hub, env=env, cwd=str(ROOT)):
        until(lambda: accepts(port), "the naive hub")
        with machine.running(*worker, env=env, cwd=str(ROOT)):
            yield lambda pairs, count: run(_measured(url, pairs, count))


async def _measured(url: str, pairs: int, count: int) -> float:
    async with contextlib.AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(_client(url)) for _ in range(pairs)]

        async def one(number: int) -> None:
            client = clients[number]
            made = (await client.post(f"/requests/{CAPABILITY}", json={"body": BODY})).raise_for_status().json()
            while (got := await client.get(f"/results/{made['id']}")).status_code == 204:
                pass
            if got.raise_for_status().json()["body"] != BODY:
                raise RuntimeError("the naive hub answered something else")

        await asyncio.gather(*map(one, range(pairs)))
        rate, _ = await shared(pairs, count, one)
        return rate


def _client(url: str) -> Any:
    """One for each caller: a pool that all share costs httpx more than the hub."""
    import httpx

    return httpx.AsyncClient(base_url=url, timeout=SECONDS, verify=False)


async def serve(url: str) -> None:
    """The worker: as many requests at once as callers."""

    async def work() -> None:
        async with _client(url) as client:
            while True:
                got = await client.get(f"/work/{CAPABILITY}")
                if got.status_code == 200:
                    asked = got.json()
                    (await client.post(f"/results/{asked['id']}", json=asked["payload"])).raise_for_status()

    await asyncio.gather(*(work() for _ in range(PAIRS)))


if __name__ == "__main__":
    run(serve(sys.argv[1]))
