"""Wakes an agent by a command that a person gave for it (`tally join NAME --wake CMD`): best effort, seen to its end.

The command is run by the host with the person's search path, without a sandbox (it is a client of theirs, with keys and
network of its own), in a process group of its own and within the limits of a command.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from tallystick.app.jobs import Job, JobResult, Runner
from tallystick.app.ports import Admission, Summons
from tallystick.core.directory import Agent, SessionState
from tallystick.core.limits import Limits
from tallystick.edge.command.transport import over_time

_LINE = 300


class CommandWaker:
    """Implements `app.ports.Waker`."""

    def __init__(self, home: Path, runner: Runner, limits: Limits) -> None:
        self._home = home
        self._runner = runner
        self._limits = limits
        self._running: dict[str, asyncio.Task[JobResult]] = {}

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:
        """It can be run at any time, if it is there."""
        if session is not None or not agent.argv:
            return False
        return await asyncio.to_thread(_is_there, agent.argv[0], agent.search_path)

    async def wake(self, summons: Summons) -> Admission:
        """Start it; the process is the turn."""
        job_id = job_of(summons.wake.wake_id)
        running = asyncio.create_task(self._runner.run(self._job(summons, job_id)), name=job_id)
        self._running[summons.wake.wake_id] = running
        await asyncio.sleep(0)  # let it take the job's id before anybody asks for it
        pid = await self._runner.started(job_id)
        if pid:
            return Admission(outcome="started", turn=job_id, detail=f"process {pid}")
        return self._collect(summons, await running)

    async def outcome(self, summons: Summons) -> Admission:
        """Wait for its end; what an earlier host started is taken back."""
        wake_id = summons.wake.wake_id
        running = self._running.get(wake_id)
        if running is None:
            if job_of(wake_id) not in [job.job_id for job in self._runner.found()]:
                return Admission(outcome="unverified", detail="Nobody saw whether the command ran, or how it ended.")
            running = self._running[wake_id] = asyncio.create_task(self._runner.adopt(job_of(wake_id)))
        return self._collect(summons, await asyncio.shield(running))

    async def end(self, summons: Summons) -> bool:
        """End its whole process tree."""
        return await self._runner.end(job_of(summons.wake.wake_id))

    def _collect(self, summons: Summons, result: JobResult) -> Admission:
        self._running.pop(summons.wake.wake_id, None)
        self._runner.forget(result.job_id)
        return admission_of(result)

    def _job(self, summons: Summons, job_id: str) -> Job:
        agent = summons.agent
        return Job(
            job_id=job_id,
            argv=agent.argv,
            directory=summons.directory or str(Path.home()),
            environment=self._environment(summons),
            stdin=msgspec.json.encode(
                {
                    "wake_id": summons.wake.wake_id,
                    "agent": agent.alias,
                    "text": summons.text,
                    "items": summons.items,
                }
            )
            + b"\n",
            seconds=agent.seconds or self._limits.command_seconds,
            output_bytes=self._limits.command_output_bytes,
            label=summons.wake.wake_id,
        )

    def _environment(self, summons: Summons) -> dict[str, str]:
        agent = summons.agent
        environment = {
            "PATH": agent.search_path or "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(Path.home()),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TALLY_HOME": str(self._home),
            "TALLY_AGENT": agent.alias,
            "TALLY_WAKE": summons.wake.wake_id,
        }
        if agent.virtual_env:
            environment["VIRTUAL_ENV"] = agent.virtual_env
        return environment


def job_of(wake_id: str) -> str:
    """The id of the job of a wake."""
    return f"wake-{wake_id}"


def admission_of(result: JobResult) -> Admission:
    """What the end of the command says of the wake."""
    if result.not_started:
        return Admission(outcome="refused", detail=result.not_started[:_LINE])
    if result.canceled:
        return Admission(outcome="interrupted", turn=result.job_id, detail="It was ended by the host.")
    if result.timed_out:
        return Admission(outcome="failed", turn=result.job_id, detail=over_time(result))
    if result.exit_code == 0:
        return Admission(outcome="completed", turn=result.job_id, detail="exit 0")
    how = f"exit {result.exit_code}" if result.exit_code is not None else f"signal {result.signal}"
    lines = result.stderr[-4096:].decode("utf-8", "replace").strip().splitlines()
    said = f": {lines[-1][:_LINE]}" if lines else ""
    return Admission(outcome="failed", turn=result.job_id, detail=f"{how}{said}")


def _is_there(program: str, search_path: str) -> bool:
    folders = [Path(program).parent] if "/" in program else [Path(p) for p in search_path.split(":") if p]
    return any((folder / Path(program).name).is_file() for folder in folders)
