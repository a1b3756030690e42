"""The Runner: starts a keeper for each job, waits for it, finds it again after a restart, ends its whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.jobs import Job, JobResult, Pipes, RunningJob
from tallystick.app.ports import Clock
from tallystick.core.errors import Refused, conflict, invalid, unavailable
from tallystick.edge.process import keeper, way
from tallystick.edge.process.folder import About, Folder, Kept, is_job_id, missing
from tallystick.edge.process.lines import Lines
from tallystick.edge.process.sandbox import Trial, command_line, nests, try_out
from tallystick.edge.process.seccomp import filter_for

POLL_SECONDS: Final = 0.1
"""How often to look where the kernel does not tell."""
MARGIN_SECONDS: Final = 10.0
"""How long after the grace a keeper may take to end a tree before `end` answers False."""


class ProcessRunner:
    """Implements `app.jobs.Runner` with keepers under `home/jobs`. One per home directory.

    `masks` are further directories to hide from sandboxed jobs, such as the one that holds the host's sockets. The
    directory is created 0700; Refused(unavailable) where it cannot be.
    """

    def __init__(self, home: Path, clock: Clock, masks: tuple[str, ...] = (), reached: Reached = unmoved) -> None:
        self._home = home.absolute()
        self._jobs = self._home / "jobs"
        self._clock = clock
        self._masks = masks
        self._reached = reached
        self._trial: Trial | None = None
        self._nests: bool | None = None
        self._running: dict[str, asyncio.Task[JobResult]] = {}
        self._launched: dict[str, asyncio.Event] = {}
        self._own: set[str] = set()
        self._watches: dict[str, asyncio.Task[None]] = {}
        try:
            self._jobs.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise unavailable(
                f"{self._jobs} cannot be created: {error.strerror}.", "Look at its permissions."
            ) from error

    # --- running ----------------------------------------------------------------------------------------------------

    async def run(self, job: Job) -> JobResult:
        """Run to the end. Cancelling the awaiting task does not end the job: use `end`.

        What cannot be started is told in `not_started`. Refused: invalid (no command, a relative directory, a
        limit that is not positive), conflict (the id was used), unavailable (the disk; or its keeper was killed)."""
        _check(job)
        folder = Folder(self._jobs, job.job_id)
        if job.job_id in self._running:
            raise conflict(f"Job {job.job_id} is running.", "Adopt it instead of running it again.")
        self._launched[job.job_id] = asyncio.Event()
        return await self._shared(job.job_id, self._start(folder, job))

    async def started(self, job_id: str) -> int:
        """Wait until the command of a job runs, or its keeper may let it: the process id of the command, before it
        runs that of the keeper, 0 where it ended without having come so far."""
        folder = Folder(self._jobs, job_id)
        launched = self._launched.get(job_id)
        if launched:
            await launched.wait()
        while True:
            kept, about = folder.kept(), folder.about()
            if kept and kept.main:
                return kept.main
            if not folder.is_kept():
                return 0
            if kept and about and about.gated:
                return kept.pid
            await asyncio.sleep(POLL_SECONDS / 5)

    def let_go(self, job_id: str) -> None:
        """The command of a gated job begins; nothing where it has."""
        kept = Folder(self._jobs, job_id).kept()
        if kept and not kept.main:
            _send(kept.pid, kept.start, signal.SIGUSR1)

    async def adopt(self, job_id: str) -> JobResult:
        """Wait for a job that an earlier host started, and collect its result; it can be read again until `forget`.

        Refused: not_found (no such job, or forgotten), unavailable (its keeper was killed: nobody saw how it ended)."""
        folder = Folder(self._jobs, job_id)
        if job_id not in self._running and not folder.path.is_dir():
            raise missing(job_id)
        return await self._shared(job_id, self._collect(folder))

    async def _shared(self, job_id: str, work: Coroutine[None, None, JobResult]) -> JobResult:
        """One task per job, that outlives whoever waits for it."""
        task = self._running.get(job_id)
        if task is None:
            self._own.add(job_id)
            task = self._running[job_id] = asyncio.create_task(work)
            task.add_done_callback(lambda done: self._settled(job_id, done))
        else:
            work.close()
        return await asyncio.shield(task)

    def _settled(self, job_id: str, task: asyncio.Task[JobResult]) -> None:
        self._running.pop(job_id, None)
        if not task.cancelled():
            task.exception()  # whoever waits gets it; that nobody does any more is no fault

    async def _start(self, folder: Folder, job: Job) -> JobResult:
        try:
            process = await asyncio.to_thread(self._launch, folder, job)
        finally:
            self._launched.pop(job.job_id).set()
        if isinstance(process, JobResult):
            return process
        try:
            return await self._collect(folder)
        finally:
            if not folder.is_kept():
                process.wait()

    async def open(self, job: Job) -> Pipes:
        """Start a job that the host speaks with. Refused: as `run`, and unavailable where it was not started."""
        _check(job)
        folder = Folder(self._jobs, job.job_id)
        lines = Lines()
        self._launched[job.job_id] = asyncio.Event()
        self._own.add(job.job_id)
        try:
            process = await asyncio.to_thread(self._launch, folder, job, lines)
        finally:
            self._launched.pop(job.job_id).set()
            lines.give_up()
        if isinstance(process, JobResult):
            lines.close()
            raise unavailable(process.not_started, "Start it again once that is put right.")
        watch = self._watches[job.job_id] = asyncio.create_task(self._watch(folder, process, lines))
        watch.add_done_callback(lambda _: self._watches.pop(job.job_id, None))
        pid = await self.started(job.job_id)
        if not pid:
            result = await asyncio.to_thread(folder.result)
            lines.close()
            raise unavailable(
                (result.not_started if result else "") or f"{job.argv[0]!r} was not started.",
                "Start it again once that is put right.",
            )
        about = folder.about()
        reader, writer = await lines.streams()
        return Pipes(pid, about.level if about else "none", reader, writer)

    async def _watch(self, folder: Folder, process: subprocess.Popen[bytes], lines: Lines) -> None:
        """Collect the keeper of a job that is spoken with."""
        await self._until_gone(folder)
        lines.close()
        process.wait()

    def _launch(self, folder: Folder, job: Job, lines: Lines | None = None) -> subprocess.Popen[bytes] | JobResult:
        level = self.level() if job.sandbox else "none"
        trial = self._trial or Trial()
        if job.sandbox and (job.sandbox.required or job.sandbox.way_out) and level == "none":
            reason = f"A sandbox is required and there is none. {trial.reason} {trial.remedy}"
            return JobResult(job.job_id, not_started=reason)
        words, program_filter = [], b""
        job = way.led_out(job)
        folder.make()
        if job.sandbox and level != "none":
            words = command_line(trial, job.sandbox, job.directory, self._home, folder.path, self._masks)
            if trial.filtered:
                program_filter = filter_for(
                    platform.machine(),
                    network=job.sandbox.network,
                    loopback=job.sandbox.way_out is not None,
                    metadata=bool(job.sandbox.writable),
                )
        boot, now = self._clock.boot_id(), self._clock.now()
        about = About(job.label, level, boot, now, job.grace_seconds, job.seconds, job.gated)
        try:
            folder.fill(job, about, words, program_filter, lines.numbers if lines else None)
            self._reached("process.before_launch")
            process = folder.launch(tuple(lines.numbers.values()) if lines else ())
            self._reached("process.after_launch")
        except Refused:
            folder.remove()  # nothing was started, so the id is free again
            raise
        return process

    async def _collect(self, folder: Folder) -> JobResult:
        await self._until_gone(folder)
        result = await asyncio.to_thread(folder.result)
        if result is not None:
            return result
        kept = folder.kept()
        if kept is None:
            reason = "The host or the keeper was stopped before the command was started."
            return JobResult(folder.job_id, not_started=reason)
        if self._same_boot(folder):
            await asyncio.to_thread(_sweep, kept)
        raise unavailable(
            f"Job {folder.job_id} was started, and its keeper was killed: nobody saw how it ended.",
            "See what it did before you start it again under another id.",
        )

    async def _until_gone(self, folder: Folder, seconds: float | None = None) -> bool:
        """Wait for the end of the keeper; False if `seconds` pass first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while folder.is_kept():
                    await self._next_change(folder.kept())
        return not folder.is_kept()

    async def _next_change(self, kept: Kept | None) -> None:
        descriptor = _open(kept.pid, kept.start) if kept else None
        if descriptor is None:
            await asyncio.sleep(POLL_SECONDS)
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    # --- after a restart, and the end -------------------------------------------------------------------------------

    def found(self) -> list[RunningJob]:
        """The jobs of earlier hosts that still run or ended uncollected, oldest first."""
        names = {entry.name for entry in self._jobs.iterdir() if is_job_id(entry.name)} - self._own
        return sorted((self._describe(Folder(self._jobs, name)) for name in names), key=lambda job: job.started_at)

    def _describe(self, folder: Folder) -> RunningJob:
        about, kept = folder.about(), folder.kept()
        return RunningJob(
            job_id=folder.job_id,
            label=about.label if about else "",
            pid=kept.main or kept.pid if kept else 0,
            started_at=kept.started_at if kept else about.asked_at if about else 0.0,
            finished=not folder.is_kept(),
        )

    async def end(self, job_id: str) -> bool:
        """End its whole process tree: request, grace, kill. True when no process of it is left, or there never was."""
        folder = Folder(self._jobs, job_id)
        launched = self._launched.get(job_id)
        if launched:
            await launched.wait()
        about = folder.about()
        patience = (about.grace_seconds if about else 0.0) + MARGIN_SECONDS
        if not await self._ask(folder, patience) or not await self._until_gone(folder, patience):
            return False
        kept = folder.kept()
        if folder.result() is None and kept and self._same_boot(folder):
            return await asyncio.to_thread(_sweep, kept)
        return True

    async def _ask(self, folder: Folder, seconds: float) -> bool:
        """Tell the keeper to end it. It may still be on its way to saying who it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while folder.is_kept():
                    kept = folder.kept()
                    if kept:
                        return _send(kept.pid, kept.start, signal.SIGTERM, signal.SIGCONT)
                    await asyncio.sleep(POLL_SECONDS)
        return not folder.is_kept()

    def forget(self, job_id: str) -> None:
        """Remove what was kept of a collected job, if there is any. Refused(conflict) while it runs."""
        folder = Folder(self._jobs, job_id)
        if job_id in self._running or folder.is_kept():
            raise conflict(f"Job {job_id} is still running.", "Wait for its result, or end it first.")
        if folder.path.exists():
            folder.remove()
        self._own.discard(job_id)

    # --- what this machine has --------------------------------------------------------------------------------------

    def level(self) -> str:
        """`E3` or `none`, found by really starting a sandbox once."""
        return "none" if self._tried().reason else "E3"

    def nests(self) -> bool:
        """Whether a job in a sandbox can start one of its own here, found by really doing it once."""
        if self._nests is None:
            self._nests = nests(self._tried())
        return self._nests

    def explain(self) -> str:
        """The level in words: which parts of the sandbox work here, or why none and what to do about it."""
        trial = self._tried()
        if trial.reason:
            return f"{trial.reason} {trial.remedy}"
        calls = "system calls filtered" if trial.filtered else f"no filter of system calls for {platform.machine()}"
        return f"bubblewrap, {calls}"

    def _tried(self) -> Trial:
        if self._trial is None:
            self._trial = try_out()
        return self._trial

    def _same_boot(self, folder: Folder) -> bool:
        about = folder.about()
        return about is not None and about.boot_id == self._clock.boot_id()


def _check(job: Job) -> None:
    if not job.argv or not job.argv[0]:
        raise invalid(f"Job {job.job_id} has no command.", "Give at least the name of a program.")
    if not Path(job.directory).is_absolute():
        raise invalid(
            f"The directory of job {job.job_id} is not absolute: {job.directory!r}.", "Give an absolute path."
        )
    if not (job.seconds > 0 and job.grace_seconds >= 0 and job.output_bytes >= 0):
        raise invalid(f"A limit of job {job.job_id} is not positive.", "Give seconds above 0 and bytes of at least 0.")


def _open(pid: int, start: str) -> int | None:
    """A descriptor for exactly this process: opened first, compared afterwards, so that no other slips in."""
    if not start or not sys.platform.startswith("linux"):
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None
    now = keeper.look_up(pid)
    if now is not None and now.start == start:
        return descriptor
    os.close(descriptor)
    return None


def _send(pid: int, start: str, *numbers: signal.Signals) -> bool:
    """Send signals to exactly this process. True if it is no more, or got them."""
    descriptor = _open(pid, start)
    try:
        for number in numbers:
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, number)
            elif _is(pid, start):
                os.kill(pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def _is(pid: int, start: str) -> bool:
    now = keeper.look_up(pid)
    return bool(start) and now is not None and now.start == start and not now.zombie


def _sweep(kept: Kept) -> bool:
    """Kill what is left of the session of a job without a keeper. True when nothing is.

    As long as the session exists its number is given to no new process: whoever has that pid with another start time
    proves that the session is over."""
    for _ in range(int(MARGIN_SECONDS / POLL_SECONDS)):
        leader = keeper.look_up(kept.main) if kept.main else None
        if not kept.main or (leader is not None and leader.start != kept.main_start):
            return True
        members = [process for process in keeper.processes() if process.session == kept.main]
        if not members:
            return True
        for process in members:
            _send(process.pid, process.start, signal.SIGKILL)
        threading.Event().wait(POLL_SECONDS)
    return False
