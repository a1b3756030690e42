"""Exact: syncs per acknowledged command, counted by strace over the whole host, checkpoints and body files included."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.load import NAMES, submits
from bench.machine import Machine
from bench.table import Row, Skip

COUNTS = {1: 300, 32: 3000, 256: 6000}
TARGETS = {1: 1.1, 32: 1 / 12, 256: 1 / 60}


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows."""
    if not shutil.which("strace"):
        raise Skip("install strace to count the syncs of the whole host (tests/contract counts those of the store)")
    trace = machine.new("strace") / "calls"
    prefix = ("strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace))
    rows = []
    with machine.host(prefix=prefix) as host:
        host.agents(*NAMES)
        for callers, count in COUNTS.items():
            asked = count // 3 if quick else count
            before = _calls(trace)
            submits(host.socket, callers, asked)
            share = (_calls(trace) - before) / (asked + callers)  # each caller's first one is asked besides
            what = f"fsync + fdatasync per acknowledged ask, {callers} concurrent callers"
            rows.append(Row(f"sync-{callers}", what, TARGETS[callers], False, [share], unit="/ask"))
    return rows


def _calls(trace: Path) -> int:
    return sum(1 for line in trace.read_bytes().splitlines() if b"sync(" in line)
