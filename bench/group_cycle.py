"""Whole cycles, one pair and 32 pairs, against the disk and against other systems in the same rounds."""

from __future__ import annotations

import contextlib

from bench.disk import raw
from bench.load import NAMES, PAIRS, cycles, single_cycles
from bench.machine import Machine
from bench.systems import SYSTEMS
from bench.table import Row, Skip, at

NOT_COMPARED = {
    "mcp-agent-mail": "mcp-agent-mail: not compared in this issue; see shared measurements in docs/performance.md",
}


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    for name, why in NOT_COMPARED.items():
        print(f"SKIPPED cycle-32-{name}: {why}", flush=True)
    rounds = 3 if quick else 7
    folder = machine.new("disk")
    single: list[float] = []
    against: dict[str, list[float]] = {}
    with contextlib.ExitStack() as running:
        host = running.enter_context(machine.host())
        host.agents(*NAMES)
        others = {}
        for name, system in SYSTEMS.items():
            try:
                if lacks := system.lacks():
                    raise Skip(lacks)
                others[name] = running.enter_context(system.context(machine))
            except Skip as missing:
                print(f"SKIPPED cycle-32-{name}: {missing}", flush=True)
                continue
            against[name] = []
        for _ in range(rounds):
            _, took = raw(folder, 300)
            one = single_cycles(host.socket, 100)
            single.append(at(one, 0.5) / at(took, 0.5))
            ours, _ = cycles(host.socket, PAIRS, 480 if quick else 960)
            for name, theirs in others.items():
                against[name].append(ours / theirs(PAIRS, 160 if quick else 320))
    note = "ask, take, submit, and the sender's wait returns with the result; three durable events"
    rows = [Row("cycle-1", "cycle, 1 pair: p50 over the p50 of raw append + fdatasync", 14.0, False, single, note=note)]
    for name, ratios in against.items():
        system, what = SYSTEMS[name], f"cycles, 32 pairs: rate over the rate of {name}"
        rows.append(Row(f"cycle-32-{name}", what, system.target, True, ratios, note=system.note))
    return rows
