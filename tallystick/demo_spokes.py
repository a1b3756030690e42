"""The three spokes of `tally demo reach`, each a process of its own.

They are programs as a builder of agents would write them: the SDK, and nothing else of Tallystick. Handlers that touch
files are plain functions, which the SDK runs in threads. What they do is printed, one line at a time.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tallystick import Capability, ReachClient, ReachMessage, Spoke

TOGETHER_SECONDS = 20.0
"""How long the first three summaries wait for each other, to show that they run at the same time."""

REPORT_MS = 60_000
"""The time of a whole report, and of each of its parts."""

Handler = Callable[[ReachMessage], Any]
Offers = list[tuple[Capability, Handler]]


def say(text: str) -> None:
    """One line, at once."""
    os.write(1, f"{text}\n".encode("utf-8", "backslashreplace"))


# --- log-collector ------------------------------------------------------------------------------------------------


def collector() -> Offers:
    """Finds log files, and mends one that cannot be read."""
    return [(Capability("LogCollect"), collect), (Capability("LogRepair"), repair)]


def collect(message: ReachMessage) -> dict[str, list[str]]:
    """The log files of a folder, by name."""
    found = sorted(str(path) for path in Path(message.payload["folder"]).glob("*.log"))
    say(f"found {len(found)} log files")
    return {"files": found}


def repair(message: ReachMessage) -> dict[str, str]:
    """What can be read of a file stays, what cannot is marked. Its message is the notice of a failure."""
    path = Path(message.payload["payload"]["file"])
    path.write_bytes(path.read_bytes().decode("utf-8", "replace").encode())
    say(f"mended {path.name}")
    return {"mended": path.name}


# --- log-summarizer -----------------------------------------------------------------------------------------------


class Summaries:
    """Summaries of single files. The first three wait until all of them have begun."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._together = threading.Barrier(3)

    def offers(self) -> Offers:
        """One capability, three at a time."""
        return [(Capability("LogSummarize", concurrency=3), self.summarize)]

    def summarize(self, message: ReachMessage) -> dict[str, Any]:
        """How many lines, and how many of them are errors. A file that is no text is an exception, as it comes."""
        path = Path(message.payload["file"])
        say(f"begins {path.name}")
        self._until_three_run()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            say(f"{path.name} is no text: raises {type(error).__name__}")
            raise
        say(f"has read {path.name}")
        return {"file": path.name, "lines": len(lines), "errors": sum("ERROR" in line for line in lines)}

    def _until_three_run(self) -> None:
        if next(self._numbers) < 3 and self._together.wait(TOGETHER_SECONDS) == 0:
            say("three run at the same time")


def summarizer() -> Offers:
    """Summarises log files."""
    return Summaries().offers()


# --- daily-reporter -----------------------------------------------------------------------------------------------


def reporter() -> Offers:
    """Writes the report of a day."""
    return [(Capability("DailyReport"), report)]


async def report(message: ReachMessage) -> dict[str, Any]:
    """Collect, summarise each file, put together. What is asked for here belongs to the same trace by itself."""
    client = ReachClient()
    found = await client.sail("LogCollect", {"folder": message.payload["folder"]}, timeout_ms=REPORT_MS)
    files = found.payload["files"]
    say(f"asks for {len(files)} summaries at once")
    part = {"target_capability": "LogSummarize", "on_failure": "cap:LogRepair"}
    parts = await client.dispatch([{**part, "payload": {"file": file}} for file in files], timeout_ms=REPORT_MS)
    summaries = [part.payload for part in parts if not isinstance(part, Exception)]
    say(f"puts {len(summaries)} of {len(files)} together")
    return {"day": message.payload["day"], "summaries": summaries, "missing": len(files) - len(summaries)}


# --- the process --------------------------------------------------------------------------------------------------

SPOKES: dict[str, Callable[[], Offers]] = {
    "log-collector": collector,
    "log-summarizer": summarizer,
    "daily-reporter": reporter,
}
"""By the id of the spoke."""


async def serve(name: str) -> None:
    """Offer what that spoke can, until the process is ended."""
    offers = SPOKES[name]()
    spoke = Spoke(name, [one for one, _ in offers], {one.name: handler for one, handler in offers})
    await spoke.start()
    say("offers " + " and ".join(one.name for one, _ in offers))
    await asyncio.Event().wait()


def main() -> None:
    """The entry point of the process: the id of the spoke is its one argument."""
    logging.disable(logging.ERROR)  # the failure that is meant to be would fill the screen with its stack trace
    asyncio.run(serve(sys.argv[1]))
