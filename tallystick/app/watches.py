"""Looks at what is watched for agents, and notes when it is another than it was. The rest is a wake like any other.

A file counts by its content, a reference by its commit; times only tell whether it is worth reading again. What changed
while no host ran is noticed at the next start.
"""

from __future__ import annotations

import asyncio
import glob
import os
import stat
from hashlib import sha256
from pathlib import Path

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.due import Due
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.matching import matches
from tallystick.app.ports import Git
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused
from tallystick.core.identity import HOST
from tallystick.core.limits import Limits
from tallystick.core.wake import Watch

_BYTES = 16 * 1024 * 1024
_ALL_BYTES = 256 * 1024 * 1024
"""What is read of all files of one pattern; those after that count by their size and time."""

Stamp = tuple[tuple[str, int, int, int, int], ...]


class Watches:
    """A service."""

    def __init__(
        self, heads: Heads, executor: Executor, due: Due, git: Git, limits: Limits, diagnostics: Diagnostics
    ) -> None:
        self._heads = heads
        self._executor = executor
        self._due = due
        self._git = git
        self._limits = limits
        self._diagnostics = diagnostics
        self._read: dict[str, tuple[Stamp, str]] = {}
        """By pattern: what the files looked like when they were read, and what was read."""
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        self._loop = asyncio.create_task(self._run(), name="watches")

    async def stop(self) -> None:
        """Look no more."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            for agent in list(self._heads.committed_directory.agents.values()):
                for watch in agent.waking.watches.values():
                    try:
                        await self._once(agent, watch)
                    except Exception as error:  # noqa: BLE001 - one source that cannot be read keeps no other waiting
                        self._diagnostics.failure("watch", error)
            await asyncio.sleep(self._limits.watch_seconds)

    async def _once(self, agent: Agent, watch: Watch) -> None:
        if watch.kind == "inbox" or agent.deleted or await self._due.is_untold(agent, watch):
            return
        digest = await self.look(watch)
        if digest == watch.digest:
            return
        note = cmd.NoteWatched(agent_id=agent.agent_id, watch_id=watch.watch_id, digest=digest)
        try:
            await self._executor.execute(note, HOST, workspace=watch.workspace)
        except Refused as refusal:
            self._diagnostics.record("watch not noted", watch=watch.watch_id, detail=str(refusal))

    async def look(self, watch: Watch) -> str:
        """What the source is now: a digest, or a commit; empty where there is nothing."""
        if watch.kind == "ref":
            return await self._git.tip(Path(watch.path), watch.ref)
        return await asyncio.to_thread(self._files, watch.path) if watch.kind == "file" else ""

    def _files(self, pattern: str) -> str:
        found = matches(pattern) if glob.has_magic(pattern) else [pattern]
        now: Stamp = tuple([(path, *stamp) for path in found if (stamp := _stamp(path)) is not None])
        known = self._read.get(pattern)
        if known is not None and known[0] == now:
            return known[1]
        parts, left = list[str](), _ALL_BYTES
        for path, _, size, written, _ in now:
            parts.append(f"{path}\0{_content(path) if left > 0 else f'{size} at {written}'}")
            left -= min(size, _BYTES)
        digest = sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest() if parts else ""
        self._read[pattern] = (now, digest)
        return digest


def _stamp(path: str) -> tuple[int, int, int, int] | None:
    """What tells cheaply that a file was written; None for what is no plain file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of a path that may hold any bytes
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(path: str) -> str:
    """The digest of the first part of a file, with its size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "unreadable"
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return "no file"
        return f"{os.fstat(file.fileno()).st_size} {sha256(file.read(_BYTES)).hexdigest()}"
