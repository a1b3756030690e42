"""What the disk can do at most: append 1 KiB, fdatasync, one after the other. The unit of most ratios."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.client import BODY


def raw(folder: Path, count: int) -> tuple[float, list[float]]:
    """Appends per second, and the seconds of each."""
    line, took = BODY.encode(), []
    file = os.open(folder / "raw", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    begun = time.perf_counter()
    for _ in range(count):
        start = time.perf_counter()
        os.write(file, line)
        os.fdatasync(file)
        took.append(time.perf_counter() - start)
    rate = count / (time.perf_counter() - begun)
    os.close(file)
    return rate, took
