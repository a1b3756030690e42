"""A disk that syncs more slowly, for everybody in the run alike.

The targets were set on a disk that took 0.3 ms for one append and `fdatasync`. On a faster one a ratio to *raw* shows
the host's CPU and nothing of the disk. So that a run can be compared with that machine, each `fsync` and `fdatasync`
of each program can be made to take at least so long, by a library that is loaded before the C library. A program that
calls the kernel by itself (NATS is one) is slowed by strace, which holds each sync up for what is missing.

`python -m bench.slow_sync FOLDER` prints the microseconds that a sync takes there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.table import Skip

VARIABLE = "BENCH_SYNC_US"
_SOURCE = Path(__file__).with_name("slow_sync.c")
_ROOT = Path(__file__).resolve().parents[1]
_STRACE = ("strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", "trace=fsync,fdatasync")
"""Only what syncs is stopped."""


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


def tracer(folder: Path) -> tuple[str, ...]:
    """What stands in front of a program that calls the kernel by itself, so that its syncs in a folder take as long as
    those of all others; nothing where they are not slowed. Raises Skip where that cannot be done."""
    if not is_on():
        return ()
    if not shutil.which("strace"):
        raise Skip("--sync-ms slows it with strace only: apt install strace")
    missing = int(os.environ[VARIABLE]) - _traced_sync(folder)
    held = ("-e", f"inject=fsync,fdatasync:delay_exit={missing}") if missing > 0 else ()
    return (*_STRACE, *held)


def _traced_sync(folder: Path) -> int:
    """The microseconds of a sync under strace, which costs something itself, on the disk as it is."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    probe = (*_STRACE, sys.executable, "-m", "bench.slow_sync", str(folder))
    return int(subprocess.run(probe, env=plain, cwd=_ROOT, check=True, capture_output=True, text=True).stdout)


def _probe(folder: Path) -> int:
    """The median of the microseconds that a sync takes."""
    took = []
    with (folder / "probe").open("ab", buffering=0) as file:
        for _ in range(200):
            file.write(b"." * 1024)
            begun = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - begun)
    return round(sorted(took)[len(took) // 2] * 1e6)


def _built(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if not compiler or sys.platform != "linux":
        raise Skip("--sync-ms needs Linux and a C compiler: apt install gcc libc6-dev")
    library = folder / "slow_sync.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True)
    return library


if __name__ == "__main__":
    print(_probe(Path(sys.argv[1])))
