"""What a million events change: the same questions to a host with a large log and to one with a small log, in turn."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.bulk import TALLY, home_with
from bench.client import BODY
from bench.load import submits
from bench.machine import Host, Machine, environment
from bench.table import Row, at

SMALL = 1_000
OPS = {"inbox": 1.5, "tail": 1.5, "history": 1.5, "ask": 1.3}


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    events = 100_000 if quick else 1_000_000
    large, small = home_with(machine, events), home_with(machine, SMALL)
    rows: list[Row] = []
    starts = []
    for _ in range(3):
        begun = time.perf_counter()
        with machine.host(large):
            starts.append(time.perf_counter() - begun)
    rows.append(Row("start", f"host start with {events:,} events, to the first answer", 1.0, False, starts, "s"))
    with machine.host(large) as big, machine.host(small) as little:
        idle = big.memory()
        rows += _ratios(big, little, 5 if quick else 9)
        submits(big.socket, 32, 5000 if quick else 20_000)
        rows.append(Row("memory-idle", f"idle memory with {events:,} events", 80.0, False, [idle], "MB"))
        grown = big.memory() - idle
        rows.append(Row("memory-growth", "growth after all of the above and further asks", 60.0, False, [grown], "MB"))
        rows += _whole_log(big, events)
    return rows


def _ratios(big: Host, little: Host, rounds: int) -> list[Row]:
    calls = {host: _calls(host) for host in (big, little)}
    found: dict[str, list[float]] = {name: [] for name in OPS}
    for _ in range(rounds):
        for name in OPS:
            mine = [_p50(calls[host][name]) for host in (big, little)]
            found[name].append(mine[0] / mine[1])
    what = "p50 with the large log over p50 with 1,000 events; the answers hold as many rows"
    told = {name: f"{name}: large log over small log" for name in OPS}
    return [Row(f"size-{name}", told[name], OPS[name], False, found[name], note=what) for name in OPS]


def _calls(host: Host) -> dict[str, Callable[[], Any]]:
    line = host.connect()
    task = line.call("ask", **{"as": "a9"}, args={"address": "@b9", "title": "Work", "body": BODY})["task_id"]

    def call(op: str, who: str, **args: Any) -> Callable[[], Any]:
        return lambda: line.call(op, **{"as": who, "args": args})

    return {
        "inbox": call("inbox", "b9"),
        "tail": call("activity", "a9", limit=20),
        "history": call("show", "a9", task=task),
        "ask": call("ask", "a8", address="@b8", title="Work", body=BODY),
    }


def _p50(call: Callable[[], Any], count: int = 30) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return at(took, 0.5)


def _whole_log(host: Host, events: int) -> list[Row]:
    """`log verify` and `replay --check`, in millions of events per second."""
    rows = []
    for name, words, target in (("verify", ["log", "verify"], 0.1), ("replay", ["log", "replay", "--check"], 0.04)):
        begun = time.perf_counter()
        done = subprocess.run([*TALLY, *words], env=_env(host.home), capture_output=True, check=False, cwd="/")
        took = time.perf_counter() - begun
        if done.returncode:
            raise RuntimeError(f"log {name}: {(done.stderr or done.stdout).decode()[-300:]}")
        rows.append(Row(name, f"log {' '.join(words[1:])}", target, True, [events / took / 1e6], "M events/s"))
    return rows


def _env(home: Path) -> dict[str, str]:
    return {**environment(home), "PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHON": sys.executable}
