"""A child process that works on a log and kills itself at a failpoint. Every acknowledgement is printed at once.

Arguments: the path, the failpoint, which hit of it is deadly.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tallystick.core.rows import Row
from tallystick.store.contract.samples import entry, said, task_row
from tallystick.store.sqlite import SqliteStore, checkpoint


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def replay(store: SqliteStore) -> AsyncIterator[tuple[Row, ...]]:
    for recorded in await store.tail(0, 10**6):
        if recorded.stream.startswith("tsk_"):
            yield (task_row(recorded.stream, version=recorded.version),)


async def work(path: Path, failpoint: str, deadly: int) -> None:
    hits = 0

    def reached(name: str) -> None:
        nonlocal hits
        hits += name == failpoint
        if name == failpoint and hits == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.PASSIVE_PAGES = 1
    store = SqliteStore.open(path, failpoint=reached)
    begun, _ = await store.head()

    async def task(number: int) -> None:
        stream, trace = f"tsk_{begun}_{number}", f"trc_{begun}_{number}"
        for version in range(1, 4):
            words = said(f"{stream}", "large " * 20_000 if version == 2 and number == 0 else "small")
            row = task_row(stream, version=version)
            (recorded,) = await store.append([entry(stream, version, row, trace=trace, event=words)])
            tell(f"{recorded.position} {recorded.hash}")

    for _ in range(2):
        await asyncio.gather(*(task(number) for number in range(4)))
        await store.archive([f"trc_{begun}_{number}" for number in range(2)])
        tell("archived")
        await store.erase(f"tsk_{begun}_0")
        await store.erase(f"tsk_{begun}_3")
        tell("erased")
        await store.rebuild(replay(store))
        tell("rebuilt")
        begun, _ = await store.head()
    await store.close()
    tell("closed")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
