"""`tally demo reach`: three spokes in three processes make a report together, visibly, in a temporary place.

A client like any other, as `tally try` is: it types the commands a person would type and reaches for capabilities as a
program would, shows what happens, and compares it with what the product promises. It ends with an error where a promise
was not kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tallystick import ReachClient, ReachError, ReachResult
from tallystick.demo import SECONDS, Broken, Screen, Stage, fail, program

SPOKES = ("log-collector", "log-summarizer", "daily-reporter")

LOGS = {
    "api.log": b"10:01 INFO started\n10:02 ERROR no answer from the store\n10:03 INFO again\n",
    "jobs.log": b"10:01 INFO 3 jobs\n10:09 INFO done\n",
    "mail.log": b"10:01 INFO 12 letters\n10:05 ERROR \xff\xfe torn off\n",
}
"""The last one is no text: who reads it as UTF-8 fails."""

DAY = "2024-12-15"
KEY = f"daily-report-{DAY}"

REPORT = {
    "day": DAY,
    "summaries": [
        {"file": "api.log", "lines": 3, "errors": 1},
        {"file": "jobs.log", "lines": 2, "errors": 0},
        {"file": "mail.log", "lines": 2, "errors": 1},
    ],
    "missing": 0,
}
"""What has to come out, in the order in which it was asked for."""


def main() -> int:
    """Play it; 0 where everything was as promised."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stage = Stage(Screen(), "tally-demo-", "logs")
    try:
        play(stage)
    except Broken as error:
        return fail(f"Not as promised: {error}", "This is a fault of Tallystick: report it with the lines above.")
    except ReachError as error:
        return fail(f"Not as promised: {error.message} ({error.code})", error.remedy)
    except KeyboardInterrupt:
        return 130
    finally:
        stage.close()
    return 0


# --- what is played -----------------------------------------------------------------------------------------------


def play(stage: Stage) -> None:
    """The whole of it, in the order in which a newcomer would meet it."""
    screen, began = stage.screen, time.monotonic()
    screen.note("Three programs offer capabilities; a fourth asks for a report and knows none of them.")
    screen.note("Home and log files are temporary; nothing of yours is touched.")
    for name, text in LOGS.items():
        (stage.repository / name).write_bytes(text)
    screen.heading("1. Three spokes, each a process of its own")
    with spokes(stage) as running:
        stage.tally("routes")
        found = report(stage, running)
        again(stage, found)
        record(stage, found)
    screen.line()
    screen.note(f"All as promised, in {time.monotonic() - began:.0f} seconds. Your own next: docs/how-to/spokes.md")


def report(stage: Stage, running: dict[str, Crew]) -> ReachResult:
    """The report: asked for once, made by all three, with a failure in it that is put right."""
    screen = stage.screen
    screen.heading("2. The report of a day: collect → summarise three at once → put together")
    screen.note(f'sail("DailyReport", …, dedup_key="{KEY}")')
    found = sail(stage)
    screen.line("  " + json.dumps(found.payload))
    said = [line for crew in running.values() for line in crew.said]
    stage.promise("the report holds all three, in the order in which they were asked for", found.payload == REPORT)
    stage.promise("three summaries ran at the same time", "three run at the same time" in said)
    stage.promise("one of them failed once", sum("raises UnicodeDecodeError" in line for line in said) == 1)
    stage.promise("what it was compensated by ran once", said.count("mended mail.log") == 1)
    stage.promise("only that one ran again", [said.count(f"begins {name}") for name in LOGS] == [1, 1, 2])
    return found


def again(stage: Stage, found: ReachResult) -> None:
    """The same key: the first result, and nothing runs."""
    stage.screen.heading("3. The same again, by the same key: the first result, and nobody runs")
    second = sail(stage)
    stage.screen.note(f"duplicate: {second.duplicate}")
    stage.promise("the same key gives the first result", (second.duplicate, second.payload) == (True, found.payload))
    stage.promise("and the same task", second.task_id == found.task_id)


def record(stage: Stage, found: ReachResult) -> None:
    """One trace over all processes, and the routes."""
    stage.screen.heading("4. One trace over four processes")
    told = stage.tally("trace", found.trace_id).out
    for capability in ("DailyReport", "LogCollect", "LogSummarize", "LogRepair"):
        stage.promise(f"{capability} is in the trace", capability in told)
    stage.tally("routes", "--stats")
    stage.tally("log", "verify")


def sail(stage: Stage) -> ReachResult:
    """Ask for the report, as a program does."""

    async def ask() -> ReachResult:
        payload = {"folder": str(stage.repository), "day": DAY}
        found = await ReachClient().sail("DailyReport", payload, timeout_ms=int(SECONDS * 1000), dedup_key=KEY)
        stage.promise("one waits for one result", isinstance(found, ReachResult))
        return found

    return asyncio.run(ask())


# --- how it is played ---------------------------------------------------------------------------------------------


class Crew:
    """One spoke in a process of its own; what it prints is shown with its name in front."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.said: list[str] = []
        self._stage, self._name = stage, name
        self._ready = threading.Event()
        self.process = subprocess.Popen(
            program("from tallystick.demo_spokes import main", name),
            cwd=stage.repository,
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def await_ready(self) -> None:
        """Until it offers what it can."""
        ready = self._ready.wait(SECONDS) and self.process.poll() is None
        self._stage.promise(f"{self._name} is ready within {SECONDS:.0f} seconds", ready)

    def _read(self) -> None:
        screen = self._stage.screen
        for line in self.process.stdout or ():
            text = line.decode("utf-8", "replace").rstrip()
            self.said.append(text)
            screen.line(f"  {screen.paint(self._name.ljust(15), '36')} {text}")
            self._ready.set()
        self._ready.set()

    def end(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(SECONDS)
        self._thread.join(SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def spokes(stage: Stage) -> Iterator[dict[str, Crew]]:
    """All spokes, for the length of a block; this process is a client of the same host meanwhile."""
    stage.tally("whoami", quiet=True)  # starts the host, so that the spokes do not race to
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(stage.environment)
    crews = {name: Crew(stage, name) for name in SPOKES}
    try:
        for crew in crews.values():
            crew.await_ready()
        yield crews
    finally:
        for crew in crews.values():
            crew.end()
        os.environ.clear()
        os.environ.update(before)
