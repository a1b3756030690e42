"""Bytes on disk for the bytes said: bodies of 1 KiB, five events a task, before and after archiving. No noise here."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec

from bench.bulk import Pieces, template
from bench.machine import Machine
from bench.table import Row
from tallystick.core.events import Text
from tallystick.store.interface import Entry
from tallystick.store.sqlite import SqliteStore

TASKS = 4_000


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    home = machine.new("home")
    task = template(machine, home)
    before, after = asyncio.run(_fill(home, task, TASKS // 4 if quick else TASKS))
    note = "words are random letters of a small alphabet, so that they deflate about as text does"
    what = "bytes on disk over bytes of bodies, 5 events a task,"
    return [
        Row("disk-before", f"{what} before archiving", 2.4, False, [before], note=note),
        Row("disk-after", f"{what} after archiving", 1.6, False, [after], note=note),
    ]


async def _fill(home: Path, task: str, tasks: int) -> tuple[float, float]:
    store = SqliteStore.open(home / "tally.db")
    pieces = Pieces(await store.load(task))
    said, traces = 0, []
    dice = random.Random(7)
    start = _bytes(home)
    for number in range(tasks):
        entries = [_with_words(entry, dice) for entry in pieces.copy(number * 2 + 1)]
        said += sum(len(e.record.event.text.body) for e in entries if e.record.event.text)
        traces.append(entries[0].record.trace)
        await store.append(entries)
    await store.close()  # at rest: the journal, which is bounded, is not counted
    before = (_bytes(home) - start) / said
    store = SqliteStore.open(home / "tally.db")
    for at in range(0, len(traces), 1000):
        await store.archive(traces[at : at + 1000])
    await store.close()
    return before, (_bytes(home) - start) / said


def _with_words(entry: Entry, dice: random.Random) -> Entry:
    """The same event with a body of 1 KiB of its own."""
    event = entry.record.event
    words = " ".join("".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(190))[:1024]
    text = msgspec.structs.replace(event.text or Text(), body=words)
    record = msgspec.structs.replace(entry.record, event=msgspec.structs.replace(event, text=text))
    return msgspec.structs.replace(entry, record=record)


def _bytes(home: Path) -> int:
    return sum(file.stat().st_size for file in home.glob("tally.db*") if file.is_file() and file.suffix != ".db-shm")
