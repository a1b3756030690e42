"""A disk that syncs more slowly, for everybody in the run alike.

The targets were set on a disk that took 0.3 ms for one append and `fdatasync`. On a faster one a ratio to *raw* shows
the host's CPU and nothing of the disk. So that a run can be compared with that machine, each `fsync` and `fdatasync`
of each program can be made to take at least so long, by a library that is loaded before the C library. A program that
does not call the C library (NATS is one) is not slowed; its row says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.table import Skip

VARIABLE = "BENCH_SYNC_US"
_SOURCE = Path(__file__).with_name("slow_sync.c")


def restart(milliseconds: float) -> None:
    """Run this very command again with slower syncs; returns where that has been done."""
    if VARIABLE in os.environ:
        return
    folder = Path(tempfile.mkdtemp(prefix="tb-sync-"))
    folder.chmod(0o755)  # PostgreSQL runs as somebody else
    library = _built(folder)
    slowed = {**os.environ, "LD_PRELOAD": str(library), VARIABLE: str(round(milliseconds * 1000))}
    try:
        done = subprocess.run([sys.executable, "-m", "bench", *sys.argv[1:]], env=slowed, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(done.returncode)


def is_on() -> bool:
    """Whether syncs are slowed in this run."""
    return VARIABLE in os.environ


def _built(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if not compiler or sys.platform != "linux":
        raise Skip("--sync-ms needs Linux and a C compiler: apt install gcc libc6-dev")
    library = folder / "slow_sync.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
    return library
