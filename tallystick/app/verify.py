"""Done is checked, not believed: runs named checks at a commit in a clean work tree, and verifies references.

A check of a task is one job with an id of its own, so that a host that comes back takes it up again instead of
starting a second one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from tallystick.app.counts import counted
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.jobs import Job, JobResult, Runner, Sandbox
from tallystick.app.ports import Blobs, Git, NewId
from tallystick.app.verdicts import drop_report, ended, is_under, last_words, not_run, outcome_of, read_report
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST, Prefix
from tallystick.core.model import (
    BlobReference,
    CheckKind,
    CheckOutcome,
    CheckRun,
    CheckSpec,
    GitReference,
    Reason,
    Reference,
)
from tallystick.core.rows import TaskRow
from tallystick.core.state import Task, Work

_AT_ONCE = 2
_PASSING = (ErrorCode.UNAVAILABLE, ErrorCode.INTERNAL)
"""Refusals of a report that may be otherwise in a moment: what was seen is kept until then."""
_JUNIT = ".tally-junit.xml"
SETUPS = "setup-"
"""What the names of the jobs begin with that run a `--setup`."""


class _Check(msgspec.Struct):
    """A check of a task that is under way."""

    of: Task
    doing: asyncio.Task[None]
    is_reporting: bool = False
    """How it ended is known, and is being recorded."""


class Verifier:
    """Runs checks. `prefixes` tells what a program needs to read, by its search path."""

    def __init__(
        self,
        home: Path,
        git: Git,
        runner: Runner,
        blobs: Blobs,
        executor: Executor,
        new_id: NewId,
        diagnostics: Diagnostics,
        prefixes: Callable[[str, str, str, str], tuple[str, ...]],
        reached: Reached = unmoved,
    ) -> None:
        self._home = home
        self._git = git
        self._runner = runner
        self._blobs = blobs
        self._executor = executor
        self._new_id = new_id
        self._diagnostics = diagnostics
        self._prefixes = prefixes
        self._reached = reached
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._filling: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        """By cache: held by the check that looks whether its setup was run, and runs it; gone with the last of them."""
        self._at_setup: dict[str, Path] = {}
        """By job: the cache that a check waits for or fills."""
        self._running: dict[str, _Check] = {}
        self._endings: set[asyncio.Task[bool]] = set()

    async def start(self) -> None:
        """Nothing of its own: what is to be checked is due in the rows."""

    async def stop(self) -> None:
        """Leave running checks to their keepers; the next host takes them up."""
        tasks = [*self._endings, *(check.doing for check in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- checks of tasks ----------------------------------------------------------------------------------------

    async def run_check(self, work: Work) -> None:
        """See that the check of the present revision runs. Returns at once; the outcome comes as a command."""
        job_id = check_job(work.task)
        if job_id in self._running or work.task.done_when is None:
            return
        if await self._needs_permission(work.task):
            return
        doing = asyncio.create_task(self._check(work.task, job_id))
        self._running[job_id] = _Check(work.task, doing)
        doing.add_done_callback(lambda _: self._running.pop(job_id, None))

    def task_changed(self, row: TaskRow) -> None:
        """A check whose task went on without it (a person corrected it) is ended."""
        if not self._running or row.reason in ("checking", "permission"):
            return
        for job_id, check in self._running.items():
            if check.of.task_id == row.task_id and not check.is_reporting:
                self._behind(self._end(check.of, job_id))

    async def end_check(self, work: Work) -> bool:
        """End a running check. True when nothing of it is left."""
        if work.task.reason is not Reason.CHECKING:
            return True
        return await self._end(work.task, check_job(work.task))

    def _behind(self, what: Coroutine[None, None, bool]) -> asyncio.Task[bool]:
        """Do it behind whoever began it, who may be gone before it is done."""
        ending = asyncio.get_running_loop().create_task(what)
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending

    async def _end(self, task: Task, job_id: str) -> bool:
        """End a check wherever it is: it begins nothing any more; what runs of it is ended, and taken away. A setup
        that another check waits for goes on for that one. True when no process of it is left."""
        check = self._running.get(job_id)
        if check is not None:
            if not check.is_reporting:
                check.doing.cancel()
            await asyncio.wait({check.doing})
        return await self._end_job(job_id) and await self._end_setup(task)

    async def _end_setup(self, task: Task) -> bool:
        cache = self._cache(task.done_when, task.repository) if task.done_when is not None else None
        if cache is None or cache in self._at_setup.values():
            return True
        async with self._turn(cache):
            return await self._end_job(setup_job(cache))

    async def _needs_permission(self, task: Task) -> bool:
        """A command that no person registered runs without a sandbox only after a person's yes to exactly this."""
        spec = task.done_when
        if spec is None or not self._unregistered(spec):
            return False
        digest = action_digest(task, spec)
        asked = [p for p in task.permissions if p.digest == digest]
        if any(p.decision == "allow_once" for p in asked):
            return False
        if not asked:
            words = f"run without a sandbox: {' '.join(spec.argv)}"
            await self._executor.execute(
                cmd.RequestPermission(
                    task_id=task.task_id,
                    permission_id=self._new_id(Prefix.PERMISSION),
                    action=words,
                    digest=digest,
                ),
                HOST,
            )
        return True

    def _unregistered(self, spec: CheckSpec) -> bool:
        """Whether it would run without a sandbox a command that no person ever saw."""
        return not spec.check_id and self._runner.level() == "none"

    async def _check(self, task: Task, job_id: str) -> None:
        try:
            self._reached("verify.before_run")
            run = await self._seen(task, job_id)
            self._running[job_id].is_reporting = True
            self._reached("verify.before_report")
            report = cmd.ReportCheck(task_id=task.task_id, revision=task.revision, run=run)
            await self._executor.execute(report, HOST)
            self._reached("verify.after_report")
        except Refused as refusal:
            self._diagnostics.record("check refused", task=task.task_id, detail=str(refusal))
            if refusal.code in _PASSING:
                return
        except Exception as error:  # noqa: BLE001 - a check that could not be run says nothing about the work
            reference = self._diagnostics.failure("check", error)
            await self._report_error(task, f"The host could not run it (reference {reference}).")
        await self._end_job(job_id)

    async def _end_job(self, job_id: str) -> bool:
        """End a job if it runs, and take away what was kept of it, its work tree too. True when no process is left."""
        if not await self._runner.end(job_id):
            return False
        with suppress(Refused):  # it never began, or nobody saw how it ended
            await self._runner.adopt(job_id)  # collected by whoever waits for it
        self._runner.forget(job_id)
        await self._clean(self._home / "worktrees" / job_id)
        return True

    async def _report_error(self, task: Task, detail: str) -> None:
        spec = task.done_when
        if spec is None:
            return
        run = CheckRun(check=spec.name, argv=spec.argv, outcome=CheckOutcome.ERROR, detail=detail)
        try:
            await self._executor.execute(cmd.ReportCheck(task_id=task.task_id, revision=task.revision, run=run), HOST)
        except Refused as refusal:
            self._diagnostics.record("check refused", task=task.task_id, detail=str(refusal))

    # --- one run ------------------------------------------------------------------------------------------------

    async def run(self, task: Task, job_id: str) -> CheckRun:
        """Run the task's check at its commit (or base) and tell what was seen; changes nothing of the task. Whoever
        waits for it no more ends it, and nothing of it is kept."""
        spec = task.done_when
        if spec is not None and self._unregistered(spec):
            refused = "This machine has no sandbox, and no person registered this command: it runs at hand-in only."
            return not_run(task, spec, task.commit or task.base_commit, refused)
        try:
            seen = await self._seen(task, job_id)
        finally:
            ending = self._behind(self._end(task, job_id))
        await asyncio.shield(ending)
        return seen

    async def _seen(self, task: Task, job_id: str) -> CheckRun:
        """One run. Its work tree stays until its outcome is recorded: a later host reads reports from it."""
        spec = task.done_when
        if spec is None:
            raise ValueError("a task without a check")
        commit = task.commit or task.base_commit
        async with self._slots:
            try:
                return await self._run_in(task, spec, commit, self._home / "worktrees" / job_id, job_id)
            except Refused as refusal:
                return not_run(task, spec, commit, str(refusal))

    async def _run_in(self, task: Task, spec: CheckSpec, commit: str, tree: Path, job_id: str) -> CheckRun:
        result = await self._adopted(job_id)
        if result is None:
            await self._git.remove(tree)
            await self._git.check_out(task.repository, commit, tree, spec.protect, task.base_commit)
            await asyncio.to_thread(drop_report, tree / _JUNIT)
            failed = await self._set_up(task, spec, job_id)
            if failed is not None:
                return not_run(task, spec, commit, failed)
            result = await self._runner.run(self._job(task, spec, spec.argv, tree, job_id))
        protected = await self._protected_changed(task, spec, commit)
        junit = await asyncio.to_thread(read_report, tree / _JUNIT)
        return self._judge(task, spec, commit, result, protected, junit)

    async def _adopted(self, job_id: str) -> JobResult | None:
        """The result of a job that was started before and not reported; None where there is none, or it never began."""
        try:
            result = await self._runner.adopt(job_id)
        except Refused as refusal:
            if refusal.code is not ErrorCode.NOT_FOUND:
                raise
            return None
        if result.not_started:
            self._runner.forget(job_id)
            return None
        return result

    def _job(
        self, task: Task, spec: CheckSpec, argv: tuple[str, ...], tree: Path, job_id: str, *, fills: bool = False
    ) -> Job:
        """`fills`: it is the setup. All others only read what that made: a check runs what is to be judged, and could
        otherwise leave something there that judges the next."""
        environment = self.environment(spec, task.task_id, tree, task.repository)
        cache = self._cache(spec, task.repository)
        caches = (str(cache),) if cache else ()
        binds = (
            *self._prefixes(argv[0], spec.search_path, spec.virtual_env, ""),
            *spec.binds,
            *self._mirror(task.repository),
            *(() if fills else caches),
        )
        return Job(
            job_id=job_id,
            argv=argv,
            directory=str(tree),
            environment=environment,
            seconds=spec.seconds,
            output_bytes=spec.output_bytes,
            sandbox=Sandbox(read_only=binds, writable=(str(tree), *(caches if fills else ())), network=spec.network),
            label=task.task_id,
        )

    def environment(self, spec: CheckSpec, task_id: str, tree: Path, repository: str = "") -> dict[str, str]:
        """What the check finds in its environment: the registered search path, ids, nothing of the host's own."""
        environment = {
            "PATH": spec.search_path or "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TALLY_TASK": task_id,
            "TALLY_JUNIT": str(tree / _JUNIT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if spec.virtual_env:
            environment["VIRTUAL_ENV"] = spec.virtual_env
        cache = self._cache(spec, repository)
        if cache:
            environment["TALLY_SETUP"] = str(cache)
        return environment

    def _mirror(self, repository: str) -> tuple[str, ...]:
        path = self._home / "mirrors" / f"{repository}.git"
        return (str(path),) if path.is_dir() else ()

    def _cache(self, spec: CheckSpec, repository: str) -> Path | None:
        """Where `--setup` keeps what it made, by what it was made from: no two repositories or checks share it."""
        if not spec.setup:
            return None
        parts = (repository, spec.check_id, *spec.setup, spec.search_path, spec.virtual_env)
        digest = sha256("".join(f"{len(p)}:{p}" for p in parts).encode()).hexdigest()
        return self._home / "setups" / digest[:32]

    async def _set_up(self, task: Task, spec: CheckSpec, job_id: str) -> str | None:
        """Run `--setup` once; its folder stays for later runs. Returns why it failed, or None.

        One check after the other: two at once would write into one folder, and the second finds what the first made."""
        cache = self._cache(spec, task.repository)
        if cache is None:
            return None
        self._at_setup[job_id] = cache
        try:
            async with self._turn(cache):
                return await self._fill(task, spec, cache)
        finally:
            del self._at_setup[job_id]

    def _turn(self, cache: Path) -> asyncio.Lock:
        return self._filling.setdefault(cache, asyncio.Lock())

    async def _fill(self, task: Task, spec: CheckSpec, cache: Path) -> str | None:
        """It runs on the base and not on the work: what is made there serves the checks of others too.

        Its job is named after the cache: whoever needs that finds the one that an earlier host started."""
        done, setup_id = cache / ".done", setup_job(cache)
        tree = self._home / "worktrees" / setup_id
        if await asyncio.to_thread(done.exists):
            return None
        result = await self._found_setup(setup_id)
        if result is None or result.exit_code != 0:  # of one that failed this check sees for itself why
            self._runner.forget(setup_id)
            await asyncio.to_thread(lambda: cache.mkdir(mode=0o700, parents=True, exist_ok=True))
            await self._git.remove(tree)
            await self._git.check_out(task.repository, task.base_commit or task.commit, tree, (), "")
            result = await self._runner.run(self._job(task, spec, spec.setup, tree, setup_id, fills=True))
        is_made = result.exit_code == 0
        if is_made:
            await asyncio.to_thread(done.touch)
        await self._clean(tree)
        self._runner.forget(setup_id)
        return None if is_made else f"Its setup failed: {ended(result)}. {last_words(result)}"

    async def _found_setup(self, setup_id: str) -> JobResult | None:
        """How a setup ended that an earlier host started; None where there is none, or nobody saw how it ended."""
        try:
            return await self._adopted(setup_id)
        except Refused as refusal:
            self._diagnostics.record("setup lost", job=setup_id, detail=str(refusal))
            return None

    async def _protected_changed(self, task: Task, spec: CheckSpec, commit: str) -> tuple[str, ...]:
        if not spec.protect or not task.base_commit or commit == task.base_commit:
            return ()
        changes = await self._git.changes(task.repository, task.base_commit, commit)
        return tuple(c.path for c in changes if any(is_under(c.path, guarded) for guarded in spec.protect))

    def _judge(
        self,
        task: Task,
        spec: CheckSpec,
        commit: str,
        result: JobResult,
        protected: tuple[str, ...],
        junit: bytes,
    ) -> CheckRun:
        counts = counted(result.stdout, result.stderr, junit) if spec.kind is CheckKind.TEST else None
        for stream in (result.stdout, result.stderr):
            if stream:
                self._blobs.put(stream)
        return CheckRun(
            check=spec.name,
            argv=spec.argv,
            outcome=outcome_of(spec, result, counts.ran if counts else 0),
            commit=commit,
            repository=task.repository,
            environment_sha256=environment_digest(self.environment(spec, task.task_id, Path("tree"), task.repository)),
            sandbox=result.level,
            exit_code=result.exit_code,
            signal=result.signal,
            started_at=result.started_at,
            ended_at=result.ended_at,
            stdout=result.stdout_info,
            stderr=result.stderr_info,
            tests=counts,
            protected_changed=protected,
            detail=result.not_started,
        )

    async def _clean(self, tree: Path) -> None:
        try:
            await self._git.remove(tree)
        except Refused as refusal:
            self._diagnostics.record("work tree left", path=str(tree), detail=str(refusal))

    # --- references ---------------------------------------------------------------------------------------------

    async def check_reference(self, reference: Reference) -> str:
        """Read it and compare the digest: `ok`, `unchecked` for what is outside, or why not."""
        try:
            if isinstance(reference, GitReference):
                await self._git.read(reference)
            elif isinstance(reference, BlobReference):
                await asyncio.to_thread(self._blobs.get, reference.sha256)
            else:
                return "unchecked"
        except Refused as refusal:
            return refusal.message
        return "ok"


def check_job(task: Task) -> str:
    """The id of the job that checks the present revision of a task."""
    return f"check-{task.task_id}-{task.revision}"


def setup_job(cache: Path) -> str:
    """The id of the job that fills a cache."""
    return f"{SETUPS}{cache.name}"


def action_digest(task: Task, spec: CheckSpec) -> str:
    """Names exactly this command for exactly this task and revision."""
    return sha256(msgspec.json.encode((task.task_id, task.revision, task.commit, spec))).hexdigest()


def environment_digest(environment: dict[str, str]) -> str:
    """sha256 over the sorted environment, the work tree's own path left out."""
    return sha256(msgspec.json.encode(sorted(environment.items()))).hexdigest()
