"""Request and reply through spokes: the round trip of one caller, and 32 callers at once, against other systems that
keep every step on disk, in the same rounds."""

from __future__ import annotations

import contextlib

from bench.load import PAIRS
from bench.machine import Machine
from bench.naive import naive_hub
from bench.others import Cycles
from bench.spoke import sails, spoke
from bench.systems import SYSTEMS, System
from bench.table import Row, Skip

COMPARED = {
    "naive-hub": System(naive_hub, 5.0, {"fastapi": "fastapi", "httpx": "httpx"}),
    "celery": SYSTEMS["celery"],
    "procrastinate": SYSTEMS["procrastinate"],
    "nats": SYSTEMS["nats"]._replace(target=1.5),
}
"""In the order of the table; the targets are those of 32 callers."""

ALONE = 1.0
"""The target of the round trip of one caller: not slower than any of them."""

NOTE = "sail → BEGIN → RESULT: four durable events of the host, two of the spoke; host, spoke and caller apart"


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    rounds, alone, together = (3, 40, 320) if quick else (7, 100, 960)
    singles: dict[str, list[float]] = {}
    many: dict[str, list[float]] = {}
    with contextlib.ExitStack() as running:
        host = running.enter_context(machine.host())
        running.enter_context(spoke(machine, host))
        others = _started(running, machine)
        for _ in range(rounds):
            one, _ = sails(host, 1, alone)
            all_at_once, _ = sails(host, PAIRS, together)
            for name, theirs in others.items():
                singles.setdefault(name, []).append(one / theirs(1, alone))
                many.setdefault(name, []).append(all_at_once / theirs(PAIRS, together // 3))
    rows = []
    for name, system in COMPARED.items():
        if name in many:
            note = f"{NOTE}. {name}: {system.note}"
            trip, rate = f"sail, 1 caller: rate over the rate of {name}", f"sails, 32 callers: rate over that of {name}"
            rows.append(Row(f"reach-1-{name}", trip, ALONE, True, singles[name], note=note))
            rows.append(Row(f"reach-32-{name}", rate, system.target, True, many[name], note=note))
    return rows


def _started(running: contextlib.ExitStack, machine: Machine) -> dict[str, Cycles]:
    """The systems that are here."""
    found = {}
    for name, system in COMPARED.items():
        try:
            if lacks := system.lacks():
                raise Skip(lacks)
            found[name] = running.enter_context(system.context(machine))
        except Skip as missing:
            print(f"SKIPPED reach-32-{name}: {missing}", flush=True)
    return found
