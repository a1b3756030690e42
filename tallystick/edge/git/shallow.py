"""Shallow histories: which commits are known without their parents. The mirror stays honest about them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tallystick.edge.git import batch

_LARGEST: Final = 4 * 1024 * 1024
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


def read(git_dir: Path) -> frozenset[str]:
    """The commits at the horizon of a git directory; none for a whole history."""
    path = git_dir / "shallow"
    if not path.is_file():
        return frozenset()
    with path.open("rb") as file:
        words = file.read(_LARGEST).decode("ascii", "replace").split()
    return frozenset(word for word in words if len(word) in (40, 64) and set(word) <= _HEXADECIMAL)


def write(path: Path, commits: frozenset[str]) -> str:
    """Write a horizon (atomically); what to say for it in `Call.shallow`."""
    if not commits:
        path.unlink(missing_ok=True)
        return ""
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{commit}\n" for commit in sorted(commits)))
    os.replace(fresh, path)  # noqa: PTH105 - says that it replaces
    return str(path)


async def still_cut(run: batch.Run, commits: frozenset[str]) -> frozenset[str]:
    """Those of the commits that are there while a parent of theirs is not."""
    # The objects themselves: `rev-list` would answer with the horizon applied.
    found = await batch.read(run, commits)
    parents = {commit: _parents(known.data) for commit, known in found.items() if known.kind == "commit"}
    present = await batch.look(run, (parent for several in parents.values() for parent in several))
    return frozenset(commit for commit, several in parents.items() if not present.keys() >= several)


def _parents(commit: bytes) -> frozenset[str]:
    head = commit.partition(b"\n\n")[0].decode("ascii", "replace")
    return frozenset(line.removeprefix("parent ") for line in head.splitlines() if line.startswith("parent "))
