"""Whether there is work beyond the last commit, at the cost of a few listings: no file is read, nothing is made.

A tracked file counts as changed when its size or times differ from what the index says. That is no proof (a file that
was only touched differs, too): good enough for a hint, and no clean filter of the repository runs for it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tallystick.app.ports import WorkState
from tallystick.edge.git.names import readable
from tallystick.edge.git.source import Source

MOST = 20
"""So many changed paths are named at most."""

_ENTRY = re.compile(rb"([^\0]+)\0  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n[^\0]*?  size: (\d+)\tflags: [0-9a-f]+\n")


async def look(source: Source, ignored: Path | None) -> WorkState:
    """The commit that is checked out, and some of the paths that differ from it."""
    commit = await source.resolve("HEAD")
    changed = await source.staged(commit)
    changed += _touched(source.place.root, await source.listing())
    changed += await source.untracked(ignored)
    paths = sorted({readable(path.rstrip(b"/")) for path in changed})
    return WorkState(commit=commit, changed=tuple(paths[:MOST]))


def _touched(root: Path, listing: bytes) -> list[bytes]:
    found: list[bytes] = []
    top = os.fsencode(root)
    for path, seconds, nanoseconds, size in _ENTRY.findall(listing):
        try:
            status = os.lstat(top + b"/" + path)
            is_same = status.st_size == int(size) and status.st_mtime_ns == int(seconds) * 10**9 + int(nanoseconds)
        except OSError:
            is_same = False
        if not is_same and len(found) < MOST:
            found.append(path)
    return found
