"""Many objects in one process: `cat-file --batch`, fed only with full object ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from tallystick.edge.git.spawn import MEBIBYTE, Done

Run = Callable[..., Awaitable[Done]]
"""`Mirror.run`, or one that sees other objects."""

_BATCH_BYTES: Final = 256 * MEBIBYTE


class Object(msgspec.Struct, frozen=True):
    """An object of git: its kind (`commit`, `tree`, `blob`, `tag`), size in bytes and, where it was read, its bytes."""

    kind: str
    size: int
    data: bytes = b""


async def look(run: Run, names: Iterable[str]) -> dict[str, Object]:
    """Kind and size of those objects that are there."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    done = await run("cat-file", "--batch-check", stdin=_asked(wanted))
    found = {}
    for line in done.text.splitlines():
        name, kind, *size = line.split()
        if size:
            found[name] = Object(kind, int(size[0]))
    return found


async def read(run: Run, names: Iterable[str]) -> dict[str, Object]:
    """Those objects that are there, with their bytes. Ask only for what is known to be small."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    done = await run("cat-file", "--batch", stdin=_asked(wanted), limit=_BATCH_BYTES)
    return _parse(done.out)


def _asked(names: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode("ascii")


def _parse(out: bytes) -> dict[str, Object]:
    found = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        name, kind, *size = out[at:end].decode("ascii").split()
        at = end + 1
        if size:
            length = int(size[0])
            found[name] = Object(kind, length, out[at : at + length])
            at += length + 1
    return found
