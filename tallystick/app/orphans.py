"""What earlier hosts left running or lying that no task waits for any more: ended, forgotten, removed at start."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.heads import Heads
from tallystick.app.jobs import Runner, RunningJob
from tallystick.app.ports import Git
from tallystick.app.verify import SETUPS, check_job
from tallystick.core.errors import Refused
from tallystick.core.identity import Prefix, is_id
from tallystick.core.model import Reason


class Orphans:
    """A service: starts before whatever starts jobs. What is still awaited is left to those who take it back."""

    def __init__(self, home: Path, heads: Heads, runner: Runner, git: Git, diagnostics: Diagnostics) -> None:
        self._trees = home / "worktrees"
        self._heads = heads
        self._runner = runner
        self._git = git
        self._diagnostics = diagnostics
        self._ending: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Forget what has ended; end what still runs, behind the start."""
        awaited: set[str] = set()
        for job in self._runner.found():
            if await self._is_awaited(job):
                awaited.add(job.job_id)
            elif job.finished:
                await self._end(job.job_id)
            else:
                awaited.add(job.job_id)
                self._ending.append(asyncio.create_task(self._end(job.job_id)))
        sessions = self._heads.committed_directory.sessions
        kept = awaited | {name for name, session in sessions.items() if not session.ended}
        for name in await asyncio.to_thread(_names, self._trees):
            if name not in kept:
                await self._remove(name)

    async def stop(self) -> None:
        """Leave the rest to the next start."""
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _is_awaited(self, job: RunningJob) -> bool:
        if is_id(job.label, Prefix.WAKE):
            found = (agent.waking.wake(job.label) for agent in self._heads.committed_directory.agents.values())
            return any(wake is not None and wake.open for wake in found)
        if not is_id(job.label, Prefix.TASK):
            return False
        work = await self._heads.work(job.label)
        if work is None:
            return False
        if job.job_id.startswith("run-"):
            delivery = work.delivery(job.job_id.removeprefix("run-"))
            return delivery is not None and delivery.in_flight
        if job.job_id.startswith(SETUPS) and not job.finished:
            return True  # what it makes is kept, whoever it was begun for: other checks wait for it or will need it
        waits = work.task.open and Reason.CHECKING in (work.task.reason, work.task.resume_reason)
        return waits and (job.job_id == check_job(work.task) or job.job_id.startswith(SETUPS))

    async def _end(self, job_id: str) -> None:
        try:
            if await self._runner.end(job_id):
                self._runner.forget(job_id)
                await self._remove(job_id)
            self._diagnostics.record("orphan ended", job=job_id)
        except Refused as refusal:
            self._diagnostics.record("orphan left", job=job_id, detail=str(refusal))

    async def _remove(self, name: str) -> None:
        try:
            await self._git.remove(self._trees / name)
        except Refused as refusal:
            self._diagnostics.record("work tree left", tree=name, detail=str(refusal))


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
