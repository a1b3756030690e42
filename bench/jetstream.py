"""Whole cycles through NATS JetStream, which syncs before it acknowledges."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from bench.client import BODY, run
from bench.load import shared
from bench.machine import Machine
from bench.others import SECONDS, Cycles

CONFIG = """\
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


@contextlib.contextmanager
def jetstream(machine: Machine) -> Iterator[Cycles]:
    """NATS JetStream on files, sync_interval always, raw: a stream, a durable pull consumer and a connection per party,
    the worker's acknowledgement confirmed by the server; no retries, no deadlines, no history per task."""
    with machine.nats(CONFIG) as port:
        rounds = itertools.count()
        yield lambda pairs, count: run(_measured(f"nats://127.0.0.1:{port}", next(rounds), pairs, count))


async def _measured(url: str, tag: int, pairs: int, count: int) -> float:
    import nats

    async with contextlib.AsyncExitStack() as opened:

        async def party(hears: str) -> tuple[Any, Any]:
            line = await nats.connect(url)
            opened.push_async_callback(line.close)
            stream = line.jetstream(timeout=SECONDS)
            await stream.add_stream(name=hears, subjects=[hears], storage="file")
            opened.push_async_callback(stream.delete_stream, hears)
            return stream, await stream.pull_subscribe(hears, durable=hears)

        sides = [(await party(f"answer{tag}-{number}"), await party(f"ask{tag}-{number}")) for number in range(pairs)]

        async def one(number: int) -> None:
            (a, answers), (b, asks) = sides[number]
            await a.publish(f"ask{tag}-{number}", BODY.encode())
            asked = await _next(asks)
            await b.publish(f"answer{tag}-{number}", BODY.encode())
            await asked.ack_sync(SECONDS)
            await (await _next(answers)).ack()

        await asyncio.gather(*map(one, range(pairs)))
        rate, _ = await shared(pairs, count, one)
        return rate


async def _next(consumer: Any) -> Any:
    return (await consumer.fetch(1, timeout=SECONDS))[0]
