"""Durable SubmitTask over the socket: against the disk itself, against processes that write to SQLite directly, and
against a JSON board that is rewritten under a lock."""

from __future__ import annotations

import multiprocessing as mp
import sqlite3
import time
from typing import Any

from bench import board
from bench.client import BODY, Line
from bench.disk import raw
from bench.load import NAMES, single_submits, submits
from bench.machine import Machine
from bench.table import Row, at

PROCESSES = 8


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    folder = machine.new("disk")
    rounds = 3 if quick else 5
    found: dict[str, list[float]] = {name: [] for name in _ROWS}
    with machine.host() as host:
        host.agents(*NAMES)
        for number in range(rounds):
            rate, took = raw(folder, 300)
            one = single_submits(host.socket, 300)
            found["submit-1"].append(at(one, 0.5) / at(took, 0.5))
            again, _ = raw(folder, 300)
            many, each = submits(host.socket, 32, 1500 if quick else 3000)
            found["submit-32"].append(many / ((rate + again) / 2))
            found["submit-32-tail"].append(at(each, 0.99) / at(each, 0.5))
            direct = _processes(_direct, str(folder / f"direct-{number}.db"), 60 if quick else 150)
            hosted = _processes(_hosted, host.socket, 60 if quick else 150)
            found["processes-8"].append(hosted[0] / direct[0])
            found["processes-8-tail"].append(at(hosted[1], 0.999) / at(direct[1], 0.999))
            for tasks, name in ((1000, "board-1000"), (10_000, "board-10000")):
                found[name].append(many / board.rate(folder / f"board-{tasks}.json", tasks, 20 if tasks == 1000 else 4))
    told = _ROWS.items()
    return [Row(name, what, target, least, found[name], note=note) for name, (what, target, least, note) in told]


_RAW = "raw = append 1 KiB and fdatasync, one after the other, same folder"
_DIRECT = "direct = one INSERT of 1 KiB per BEGIN IMMEDIATE, unique key, WAL, synchronous FULL, busy_timeout 60 s"
_BOARD = "board = read, change, write, fsync, rename, fsync the folder, under flock; the host with 32 clients"
_ROWS: dict[str, tuple[str, float, bool, str]] = {
    "submit-1": ("SubmitTask, 1 client: p50 over the p50 of raw", 6.0, False, _RAW),
    "submit-32": ("SubmitTask, 32 clients: rate over the rate of raw", 1.0, True, _RAW),
    "submit-32-tail": ("SubmitTask, 32 clients: p99 over p50", 5.0, False, "checkpoints included"),
    "processes-8": ("8 processes through the host: rate over 8 that write directly", 3.0, True, _DIRECT),
    "processes-8-tail": ("8 processes through the host: p99.9 over the p99.9 of direct", 1 / 20, False, _DIRECT),
    "board-1000": ("SubmitTask against a JSON board of 1,000 tasks: rate over rate", 100.0, True, _BOARD),
    "board-10000": ("SubmitTask against a JSON board of 10,000 tasks: rate over rate", 1000.0, True, _BOARD),
}


def _processes(work: Any, where: str, count: int) -> tuple[float, list[float]]:
    """Writes per second of 8 processes that begin together, and the seconds of each write."""
    context = mp.get_context("spawn")
    gate, queue = context.Barrier(PROCESSES + 1), context.Queue()
    workers = [context.Process(target=work, args=(where, n, count, gate, queue), daemon=True) for n in range(PROCESSES)]
    for worker in workers:
        worker.start()
    try:
        gate.wait(120)
        begun = time.perf_counter()
        took = [second for _ in workers for second in queue.get(timeout=300)]
        rate = PROCESSES * count / (time.perf_counter() - begun)
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()
    return rate, took


def _direct(path: str, number: int, count: int, gate: Any, queue: Any) -> None:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS tasks (id INTEGER PRIMARY KEY, key TEXT UNIQUE, body TEXT)")

    def write(at: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO tasks (key, body) VALUES (?, ?)", (f"{number}-{at}", BODY))
        connection.execute("COMMIT")

    _timed(write, count, gate, queue)


def _hosted(path: str, number: int, count: int, gate: Any, queue: Any) -> None:
    fields = {"as_name": f"a{number}", "address": f"@b{number}", "title": "Work", "body": BODY}
    with Line(path) as line:
        _timed(lambda _: line.call("ask", **fields), count, gate, queue)


def _timed(write: Any, count: int, gate: Any, queue: Any) -> None:
    took = []
    write(-1)  # the first of each process is not counted
    gate.wait(120)
    for at_ in range(count):
        start = time.perf_counter()
        write(at_)
        took.append(time.perf_counter() - start)
    queue.put(took)
