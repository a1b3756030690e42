"""Processes of the host, as the shell needs them: what is to run, in which sandbox, and how it ended."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from tallystick.core.model import NO_OUTPUT, Output


class WayOut(msgspec.Struct, frozen=True):
    """The one way out of a sandbox whose network is its own: a Unix socket of the host, where an HTTP proxy answers."""

    socket: str
    doors: tuple[tuple[str, int], ...] = ()
    """(host, port) of this machine's loopback that the proxy leads to: inside, the same lead there."""


class Sandbox(msgspec.Struct, frozen=True):
    """What a child process may see and do. Paths are absolute; masks are applied before the binds."""

    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False
    way_out: WayOut | None = None
    """With no `network`: what it reaches nevertheless. It is never started without a sandbox then."""
    required: bool = False
    """Refuse to start rather than run without a sandbox."""
    nests: bool = False
    """What runs in it starts sandboxes of its own. See `Runner.nests`."""


class Job(msgspec.Struct, frozen=True):
    """One child process group to be run to its end."""

    job_id: str
    argv: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    stdin: bytes = b""
    seconds: float = 600.0
    output_bytes: int = 10 * 1024 * 1024
    grace_seconds: float = 5.0
    sandbox: Sandbox | None = None
    """None: run without one, after a person's yes."""
    label: str = ""
    """What it is for (a task id), kept with the job so that a later host can tell."""
    log: str = ""
    """Where its errors go, for one that is spoken with."""
    gated: bool = False
    """Its command begins once it is let go, and not before."""


class JobResult(msgspec.Struct, frozen=True):
    """How a job ended; with nothing but its id, one that never began. UTC seconds; output up to the job's limit."""

    job_id: str
    exit_code: int | None = None
    signal: int | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_info: Output = NO_OUTPUT
    stderr_info: Output = NO_OUTPUT
    level: str = "none"
    """`E3` with an operating-system sandbox, `none` without."""
    seconds: float = 0.0
    """The time limit that it had."""
    timed_out: bool = False
    canceled: bool = False
    not_started: str = ""
    """Why it could not be started; then everything else is empty."""


class Pipes(msgspec.Struct, frozen=True):
    """A running job that the host speaks with. What comes and goes are bytes; its errors go to the log it was given."""

    pid: int
    level: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class RunningJob(msgspec.Struct, frozen=True):
    """A job of an earlier host that was found again."""

    job_id: str
    label: str
    pid: int
    started_at: float
    finished: bool


class Runner(Protocol):
    """Runs child processes in groups of their own, with limits, in a sandbox where there is one."""

    async def run(self, job: Job) -> JobResult:
        """Run to the end. Cancelling the awaiting task does NOT end the job: use `end`."""
        ...

    async def started(self, job_id: str) -> int:
        """Wait until the command of a job runs, or its keeper may let it: that process, 0 where it came not so far."""
        ...

    def let_go(self, job_id: str) -> None:
        """The command of a gated job begins; nothing where it has."""
        ...

    async def open(self, job: Job) -> Pipes:
        """Start a job that the host speaks with, and that ends with it. Refused where it cannot be started."""
        ...

    async def adopt(self, job_id: str) -> JobResult:
        """Wait for a job that an earlier host started, and collect its result."""
        ...

    def found(self) -> list[RunningJob]:
        """The jobs of earlier hosts that still run or ended uncollected."""
        ...

    async def end(self, job_id: str) -> bool:
        """End its whole process tree (request, grace, kill). True when no process of it is left."""
        ...

    def forget(self, job_id: str) -> None:
        """Remove what was kept of a collected job."""
        ...

    def explain(self) -> str:
        """The level in words: what works here, or why there is none."""
        ...

    def nests(self) -> bool:
        """Whether a job in a sandbox can start one of its own here, found by really doing it once."""
        ...

    def level(self) -> str:
        """The sandbox level jobs get here: `E3` or `none`, found by really starting one."""
        ...
