"""A large log, made quickly: one task of a real host is copied under new ids, its events and rows through the store's
own append. Kept under the temporary folder for half a day, because the host would begin to settle what is a day old."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.client import BODY
from bench.load import NAMES
from bench.machine import Machine
from tallystick import __version__
from tallystick.core import events as ev
from tallystick.core.fold import evolve
from tallystick.core.identity import Prefix, make_id
from tallystick.core.project import project
from tallystick.core.rows import Row
from tallystick.core.state import Work
from tallystick.store.interface import Entry
from tallystick.store.sqlite import SqliteStore

TALLY = [sys.executable, str(Path(sys.executable).with_name("tally"))]
"""The command."""

KEPT_SECONDS = 12 * 3600
BATCH = 5000
OPEN_SHARE = 100
"""One task in so many stays open."""

Told = tuple[bytes, list[tuple[type[Row], bytes]]]
"""A record and its rows, as text."""

_record = msgspec.json.Decoder(ev.Recorded).decode
_encode = msgspec.json.encode


def home_with(machine: Machine, events: int) -> Path:
    """A home whose log holds about that many events; a copy, so that the kept one stays as it is."""
    kept = Path(tempfile.gettempdir()) / f"tallystick-bench-{os.getuid()}-{__version__}-{events}"
    if not (kept / "done").exists() or time.time() - (kept / "done").stat().st_mtime > KEPT_SECONDS:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(mode=0o700)
        asyncio.run(_append(kept, template(machine, kept), events))
        (kept / "done").touch()
    home = machine.new("home")
    shutil.copytree(kept, home, dirs_exist_ok=True)
    (home / "done").unlink()
    return home


def template(machine: Machine, home: Path) -> str:
    """One real task of five events: asked, taken, told twice how it goes, handed in."""
    with machine.host(home) as host:
        host.agents(*NAMES)
        line = host.connect()

        def call(who: str, op: str, **args: object) -> dict[str, object]:
            found: dict[str, object] = line.call(op, **{"as": who}, args=args)
            return found

        task = str(call("a0", "ask", address="@b0", title="Work", body=BODY)["task_id"])
        fence = call("b0", "take", task=task)["fence"]
        for _ in range(2):
            call("b0", "progress", task=task, text="half of it", fence=fence)
        call("b0", "submit", task=task, text=BODY, fence=fence)
        line.close()
    return task


async def _append(home: Path, task: str, events: int) -> None:
    store = SqliteStore.open(home / "tally.db")
    pieces = Pieces(await store.load(task))
    batch: list[Entry] = []
    for number in range(1, events // len(pieces.told)):
        batch += pieces.copy(number, open_share=OPEN_SHARE)
        if len(batch) >= BATCH:
            await store.append(batch)
            batch = []
    if batch:
        await store.append(batch)
    await store.close()


class Pieces:
    """The events and rows of one task as text, to be written again under other ids."""

    def __init__(self, history: list[ev.Recorded]) -> None:
        first = history[0]
        said = [getattr(r.event, "message_id", "") for r in history]
        given = [getattr(r.event, "delivery_id", "") for r in history]
        self.ids = sorted({i for i in (first.stream, first.trace, *said, *given) if i})
        self.told = list(_as_text(history))

    def copy(self, number: int, open_share: int = 0) -> list[Entry]:
        """The task again, as another one; one in `open_share` is only asked."""
        changes = [(old.encode(), _renamed(old, at, number).encode()) for at, old in enumerate(self.ids)]
        changes += [(old[::-1].lower(), new[::-1].lower()) for old, new in changes]
        count = 1 if open_share and number % open_share == 0 else len(self.told)
        return [_entry(told, changes) for told in self.told[:count]]


def _as_text(history: list[ev.Recorded]) -> Iterator[Told]:
    work: Work | None = None
    for recorded in history:
        after = evolve(work, recorded)
        rows = [(type(row), _encode(row)) for row in project(work, recorded, after)]
        work = after
        yield _encode(msgspec.structs.replace(recorded, position=0, hash="")), rows


def _entry(told: Told, changes: list[tuple[bytes, bytes]]) -> Entry:
    record, rows = told
    made = tuple(msgspec.json.decode(_changed(text, changes), type=kind) for kind, text in rows)
    return Entry(record=_record(_changed(record, changes)), rows=made)


def _changed(text: bytes, changes: list[tuple[bytes, bytes]]) -> bytes:
    for old, new in changes:
        text = text.replace(old, new)
    return text


def _renamed(old: str, at: int, number: int) -> str:
    prefix = next(p for p in Prefix if old.startswith(f"{p.value}_"))
    return make_id(prefix, int(time.time() * 1000), number.to_bytes(8, "big") + at.to_bytes(2, "big"))
