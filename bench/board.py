"""The board that many tools keep: one JSON file, rewritten under a lock. As durable as the log it is compared with."""

from __future__ import annotations

import fcntl
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.client import BODY


def add(path: Path, title: str, keep: int) -> None:
    """Add a task; the oldest one goes so that the board keeps its size."""
    with open(f"{path}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tasks = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        save(path, [*tasks, _task(time.time_ns(), title)][-keep:])


def _task(number: int, title: str) -> dict[str, Any]:
    """What such a board says of a task: less than the host keeps of it."""
    at = datetime.now(UTC).isoformat()
    return {
        "id": f"t{number}",
        "title": title,
        "description": BODY,
        "status": "open",
        "from": "a0",
        "owner": "b0",
        "blocked_by": [],
        "result": None,
        "created_at": at,
        "updated_at": at,
        "history": [{"at": at, "by": "a0", "what": "created"}],
    }


def save(path: Path, tasks: list[dict[str, Any]]) -> None:
    """Whole or not at all, also through a power cut."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(tasks, file, indent=2)  # people and agents read it
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def rate(path: Path, tasks: int, count: int) -> float:
    """Tasks added per second to a board of that size."""
    save(path, [_task(n, "Work") for n in range(tasks)])
    begun = time.perf_counter()
    for _ in range(count):
        add(path, "Work", tasks)
    return count / (time.perf_counter() - begun)
