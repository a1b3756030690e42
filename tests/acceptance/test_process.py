"""The real Runner with real processes. Reported cases 36, 60, 61; hostile cases 40, 60."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import tallystick
from tallystick.app.jobs import Job, JobResult, Runner, Sandbox
from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.process import ProcessRunner, keeper

SOURCE = Path(tallystick.__file__).parents[1]
PATH = "/usr/bin:/bin"
BOUND_SECONDS = 30.0


class RealClock:
    def __init__(self, boot_id: str = "this boot") -> None:
        self._boot_id = boot_id

    def now(self) -> float:
        return 1_800_000_000.0

    def boot(self) -> float:
        return 0.0

    def boot_id(self) -> str:
        return self._boot_id


@pytest.fixture
def runner(tmp_path: Path) -> ProcessRunner:
    return ProcessRunner(tmp_path / "home", RealClock())


def shell(script: str, directory: Path, job_id: str = "job", **more: object) -> Job:
    return Job(job_id, ("/bin/sh", "-c", script), str(directory), {"PATH": PATH}, **more)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does. The bound only says when to give up."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not condition():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)


async def bounded(work: Awaitable[JobResult]) -> JobResult:
    async with asyncio.timeout(BOUND_SECONDS):
        return await work


def pid_in(path: Path) -> int:
    return int(path.read_text())


def is_written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def lives(pid: int) -> bool:
    found = keeper.look_up(pid)
    return found is not None and not found.zombie


def bystander() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3):
            os.close(fd)
        with open(sys.argv[1], "w") as file:
            print(os.getpid(), file=file)
        time.sleep(1000)
    os._exit(0)
os.wait()
"""


def daemonise(directory: Path) -> str:
    """A shell line that leaves a process with its own session, no parent and no open stream; `daemon` gets its pid."""
    (directory / "daemon.py").write_text(DAEMON)
    return f"{sys.executable} -I -S daemon.py daemon"


# --- what a job gives back ------------------------------------------------------------------------------------------


async def test_it_is_a_runner(runner: ProcessRunner) -> None:
    port: Runner = runner
    assert port.found() == []


async def test_output_of_both_streams_is_kept_and_hashed(runner: ProcessRunner, tmp_path: Path) -> None:
    result = await runner.run(shell("printf one; printf two >&2", tmp_path))
    assert (result.stdout, result.stderr, result.exit_code) == (b"one", b"two", 0)
    assert result.stdout_info.sha256 == hashlib.sha256(b"one").hexdigest()
    assert (result.stderr_info.size, result.stderr_info.truncated) == (3, False)
    assert result.started_at <= result.ended_at
    assert result.level == "none"


async def test_output_beyond_the_limit_is_counted_and_hashed_but_not_kept(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    size = 3_000_000
    result = await runner.run(shell(f"head -c {size} /dev/zero", tmp_path, output_bytes=1000))
    assert result.stdout == b"\0" * 1000
    assert (result.stdout_info.size, result.stdout_info.truncated) == (size, True)
    assert result.stdout_info.sha256 == hashlib.sha256(b"\0" * size).hexdigest()
    assert result.stderr_info.truncated is False


async def test_output_of_exactly_the_limit_is_not_truncated(runner: ProcessRunner, tmp_path: Path) -> None:
    result = await runner.run(shell("printf 12345", tmp_path, output_bytes=5))
    assert (result.stdout, result.stdout_info.truncated) == (b"12345", False)


@pytest.mark.parametrize("code", [0, 1, 2, 137, 255])
async def test_the_exit_code_is_the_commands_own(runner: ProcessRunner, tmp_path: Path, code: int) -> None:
    result = await runner.run(shell(f"exit {code}", tmp_path))
    assert (result.exit_code, result.signal) == (code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_an_end_by_signal_is_no_exit_code(runner: ProcessRunner, tmp_path: Path, number: signal.Signals) -> None:
    result = await runner.run(shell(f"kill -{int(number)} $$", tmp_path))
    assert (result.exit_code, result.signal, result.timed_out, result.canceled) == (None, int(number), False, False)


async def test_stdin_is_fed_whole_and_closed(runner: ProcessRunner, tmp_path: Path) -> None:
    sent = os.urandom(500_000)
    result = await runner.run(shell("cat", tmp_path, stdin=sent))
    assert result.stdout == sent


async def test_a_command_that_does_not_read_its_stdin_ends_all_the_same(runner: ProcessRunner, tmp_path: Path) -> None:
    result = await runner.run(shell("exec 0<&-; echo done", tmp_path, stdin=b"x" * 500_000))
    assert (result.stdout, result.exit_code) == (b"done\n", 0)


async def test_the_environment_is_exactly_the_jobs(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_SECRET", "of the host")
    job = Job("job", ("/usr/bin/env", "-0"), str(tmp_path), {"A": "1", "B": "zwei\n=drei", "C": "\udcff"})
    result = await runner.run(job)
    assert sorted(result.stdout.split(b"\0")) == [b"", b"A=1", b"B=zwei\n=drei", b"C=\xff"]


async def test_no_descriptor_of_the_host_is_inherited(runner: ProcessRunner, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        result = await runner.run(shell("ls /proc/self/fd", tmp_path))
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the directory that ls itself reads


async def test_there_are_no_core_files_and_descriptors_are_bounded(runner: ProcessRunner, tmp_path: Path) -> None:
    result = await runner.run(shell("ulimit -c; ulimit -n", tmp_path))
    core, files = result.stdout.split()
    assert (core, int(files) <= 4096) == (b"0", True)


async def test_the_command_runs_in_its_directory_and_is_not_given_to_a_shell(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    job = Job("job", ("/bin/echo", "$(id)", "; ls", "*"), str(tmp_path), {})
    assert (await runner.run(job)).stdout == b"$(id) ; ls *\n"
    (tmp_path / "here").touch()
    assert (await runner.run(shell("ls", tmp_path, "two"))).stdout.split() == [b"here", b"home"]


async def test_the_command_is_looked_up_in_the_jobs_own_path(runner: ProcessRunner, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mine").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "bin" / "mine").chmod(0o755)
    result = await runner.run(Job("job", ("mine",), "/", {"PATH": str(tmp_path / "bin")}))
    assert result.stdout == b"mine\n"


# --- what cannot be started -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [("no-such-program",), ("/no/such/program",), ("./plain",), ("bad\0name",)])
async def test_what_cannot_be_started_is_told_and_no_exception(
    runner: ProcessRunner, tmp_path: Path, argv: tuple[str, ...]
) -> None:
    (tmp_path / "plain").write_text("not executable")
    result = await runner.run(Job("job", argv, str(tmp_path), {"PATH": PATH}))
    assert result.not_started
    assert (result.exit_code, result.signal, result.stdout, result.stderr_info.size) == (None, None, b"", 0)


async def test_a_missing_directory_is_named(runner: ProcessRunner, tmp_path: Path) -> None:
    result = await runner.run(shell("true", tmp_path / "gone"))
    assert "gone" in result.not_started


@pytest.mark.parametrize(
    "job",
    [
        Job("job", (), "/", {}),
        Job("job", ("true",), "relative", {}),
        Job("job", ("true",), "/", {}, seconds=0),
        Job("job", ("true",), "/", {}, output_bytes=-1),
        Job("../job", ("true",), "/", {}),
        Job("", ("true",), "/", {}),
        Job("job\n", ("true",), "/", {}),
    ],
)
async def test_a_job_that_makes_no_sense_is_refused_and_leaves_nothing(
    runner: ProcessRunner, job: Job, tmp_path: Path
) -> None:
    with pytest.raises(Refused) as refused:
        await runner.run(job)
    assert refused.value.code == ErrorCode.INVALID
    assert list((tmp_path / "home" / "jobs").iterdir()) == []


async def test_an_id_is_used_once(runner: ProcessRunner, tmp_path: Path) -> None:
    await runner.run(shell("true", tmp_path))
    with pytest.raises(Refused) as refused:
        await runner.run(shell("true", tmp_path))
    assert refused.value.code == ErrorCode.CONFLICT


# --- the end of the tree --------------------------------------------------------------------------------------------


async def test_the_time_limit_ends_the_whole_tree_a_daemonised_grandchild_too(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    script = f"{daemonise(tmp_path)}; /bin/sleep 1000 & echo $! >child; wait"
    running = asyncio.create_task(runner.run(shell(script, tmp_path, seconds=3, grace_seconds=1)))
    await until(lambda: is_written(tmp_path / "daemon") and is_written(tmp_path / "child"))
    pids = [pid_in(tmp_path / "daemon"), pid_in(tmp_path / "child")]
    result = await bounded(running)
    assert (result.timed_out, result.canceled, result.exit_code) == (True, False, None)
    assert not any(lives(pid) for pid in pids)


async def test_who_ignores_the_request_is_killed_after_the_grace(runner: ProcessRunner, tmp_path: Path) -> None:
    script = "trap '' TERM; while :; do /bin/sleep 1000; done"
    result = await bounded(runner.run(shell(script, tmp_path, seconds=0.3, grace_seconds=0.2)))
    assert (result.timed_out, result.signal) == (True, signal.SIGKILL)


async def test_who_tidies_up_on_request_gets_the_grace(runner: ProcessRunner, tmp_path: Path) -> None:
    script = "trap 'echo tidy; exit 7' TERM; echo >ready; while :; do /bin/sleep 0.05; done"
    running = asyncio.create_task(runner.run(shell(script, tmp_path, grace_seconds=20)))
    await until((tmp_path / "ready").exists)
    assert await runner.end("job")
    result = await bounded(running)
    assert (result.canceled, result.exit_code, result.stdout) == (True, 7, b"tidy\n")


async def test_what_a_command_leaves_behind_is_ended_before_its_result_is_final(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    stubborn = "(trap '' TERM; echo >ready; exec /bin/sleep 1000) & until [ -e ready ]; do :; done"
    script = f"{daemonise(tmp_path)}; {stubborn}; exit 5"
    running = asyncio.create_task(runner.run(shell(script, tmp_path, grace_seconds=0.2)))
    result = await bounded(running)
    assert (result.exit_code, result.timed_out, result.canceled) == (5, False, False)
    assert not lives(pid_in(tmp_path / "daemon"))
    assert not [found for found in keeper.processes() if found.session == kept_main(tmp_path)]


def kept_main(tmp_path: Path, job_id: str = "job") -> int:
    return int(json.loads((tmp_path / "home" / "jobs" / job_id / "keeper.json").read_text())["main"])


async def test_end_is_true_only_when_nothing_is_left(runner: ProcessRunner, tmp_path: Path) -> None:
    running = asyncio.create_task(runner.run(shell(f"{daemonise(tmp_path)}; exec /bin/sleep 1000", tmp_path)))
    await until(lambda: is_written(tmp_path / "daemon"))
    assert await runner.end("job") is True
    assert not lives(pid_in(tmp_path / "daemon"))
    assert not lives(kept_main(tmp_path))
    result = await bounded(running)
    assert (result.canceled, result.signal) == (True, signal.SIGTERM)


async def test_end_right_after_the_start_ends_it(runner: ProcessRunner, tmp_path: Path) -> None:
    running = asyncio.create_task(runner.run(shell("exec /bin/sleep 1000", tmp_path)))
    await asyncio.sleep(0)
    assert await runner.end("job") is True
    result = await bounded(running)
    assert result.canceled or result.not_started


async def test_a_gated_job_begins_once_it_is_let_go(runner: ProcessRunner, tmp_path: Path) -> None:
    running = asyncio.create_task(runner.run(shell("cat; exit 3", tmp_path, gated=True, stdin=b"brief")))
    await asyncio.sleep(0)
    assert lives(await runner.started("job"))
    assert kept_main(tmp_path) == 0
    runner.let_go("job")
    result = await bounded(running)
    assert (result.exit_code, result.stdout, result.canceled) == (3, b"brief", False)


async def test_nothing_of_a_gated_job_runs_that_is_ended_before_it_is_let_go(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    running = asyncio.create_task(runner.run(shell("touch ran", tmp_path, gated=True)))
    await asyncio.sleep(0)
    assert await runner.started("job")
    assert await runner.end("job") is True
    result = await bounded(running)
    assert result.canceled
    assert "before it began" in result.not_started
    assert not (tmp_path / "ran").exists()


async def test_a_gated_job_that_nobody_lets_go_ends_with_its_time(runner: ProcessRunner, tmp_path: Path) -> None:
    result = await bounded(runner.run(shell("touch ran", tmp_path, gated=True, seconds=0.1)))
    assert (bool(result.not_started), result.canceled, (tmp_path / "ran").exists()) == (True, False, False)


async def test_a_gated_job_waits_for_the_next_host_where_its_own_dies(runner: ProcessRunner, tmp_path: Path) -> None:
    await dead_host(tmp_path, "echo ran", until_there=tmp_path / "home" / "jobs" / "job" / "keeper.json", gated=True)
    adopted = asyncio.create_task(runner.adopt("job"))
    assert lives(await runner.started("job"))
    runner.let_go("job")
    assert (await bounded(adopted)).stdout == b"ran\n"
    runner.let_go("job")


async def test_end_of_a_stopped_tree_works_too(runner: ProcessRunner, tmp_path: Path) -> None:
    script = "echo $$ >pid; kill -STOP $$; /bin/sleep 1000"
    running = asyncio.create_task(runner.run(shell(script, tmp_path, grace_seconds=0.2)))
    await until(lambda: is_written(tmp_path / "pid"))
    assert await runner.end("job") is True
    assert (await bounded(running)).canceled


async def test_end_of_something_that_never_was_or_is_over_is_true(runner: ProcessRunner, tmp_path: Path) -> None:
    assert await runner.end("never") is True
    await runner.run(shell("exit 3", tmp_path))
    assert await runner.end("job") is True
    assert (await runner.adopt("job")).exit_code == 3


async def test_to_cancel_the_waiting_does_not_end_the_job(runner: ProcessRunner, tmp_path: Path) -> None:
    script = "echo >ready; until [ -e go ]; do /bin/sleep 0.05; done; exit 9"
    waiting = asyncio.create_task(runner.run(shell(script, tmp_path)))
    await until((tmp_path / "ready").exists)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (tmp_path / "go").touch()
    result = await bounded(runner.adopt("job"))
    assert (result.exit_code, result.canceled) == (9, False)


async def test_who_stops_waiting_does_not_disturb_who_goes_on_waiting(runner: ProcessRunner, tmp_path: Path) -> None:
    script = "echo >ready; until [ -e go ]; do /bin/sleep 0.05; done"
    first = asyncio.create_task(runner.run(shell(script, tmp_path)))
    await until((tmp_path / "ready").exists)
    second = asyncio.create_task(runner.adopt("job"))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    (tmp_path / "go").touch()
    assert (await bounded(second)).exit_code == 0


async def test_two_who_wait_get_the_same_result(runner: ProcessRunner, tmp_path: Path) -> None:
    first = asyncio.create_task(runner.run(shell("echo once", tmp_path)))
    await asyncio.sleep(0)
    second = await bounded(runner.adopt("job"))
    assert second is await first


async def test_many_jobs_at_once_do_not_mix(runner: ProcessRunner, tmp_path: Path) -> None:
    jobs = [shell(f"echo {number}", tmp_path, f"job-{number}") for number in range(12)]
    results = await asyncio.gather(*(runner.run(job) for job in jobs))
    assert [result.stdout for result in results] == [b"%d\n" % number for number in range(12)]


# --- a host that dies -----------------------------------------------------------------------------------------------

HOST = """
import asyncio, sys
from pathlib import Path
from tallystick.app.jobs import Job
from tallystick.edge.process import ProcessRunner

class Clock:
    now = boot = staticmethod(lambda: 1.0)
    boot_id = staticmethod(lambda: "this boot")

job = Job("job", ("/bin/sh", "-c", sys.argv[2]), sys.argv[3], {"PATH": "/usr/bin:/bin"}, label="tsk_1",
          seconds=float(sys.argv[4]), grace_seconds=0.2, gated=bool(sys.argv[5]))
asyncio.run(ProcessRunner(Path(sys.argv[1]), Clock()).run(job))
"""


async def dead_host(
    tmp_path: Path, script: str, seconds: float = 600.0, until_there: Path | None = None, *, gated: bool = False
) -> None:
    """A host in another process, killed with -9 once the job has made the file `ready`, or another is there."""
    words = (str(tmp_path / "home"), script, str(tmp_path), str(seconds), "gated" if gated else "")
    argv = [sys.executable, "-c", HOST, *words]
    host = subprocess.Popen(  # noqa: ASYNC220
        argv, env={"PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path])}, start_new_session=True
    )
    await until((until_there or tmp_path / "ready").exists)
    os.killpg(host.pid, signal.SIGKILL)
    host.wait()


async def test_a_host_back_after_kill_9_finds_the_job_and_collects_one_result(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    await dead_host(tmp_path, "echo begin; echo >ready; until [ -e go ]; do /bin/sleep 0.05; done; echo end; exit 4")
    [found] = runner.found()
    assert (found.job_id, found.label, found.finished) == ("job", "tsk_1", False)
    assert lives(found.pid)
    with pytest.raises(Refused) as refused:
        await runner.run(shell("true", tmp_path))
    assert refused.value.code == ErrorCode.CONFLICT, "no replacement is started"
    adopted = asyncio.create_task(runner.adopt("job"))
    (tmp_path / "go").touch()
    result = await bounded(adopted)
    assert (result.stdout, result.exit_code) == (b"begin\nend\n", 4)
    assert runner.found() == []
    runner.forget("job")
    with pytest.raises(Refused) as gone:
        await runner.adopt("job")
    assert gone.value.code == ErrorCode.NOT_FOUND


async def test_a_result_that_came_while_no_host_lived_waits_for_the_next(runner: ProcessRunner, tmp_path: Path) -> None:
    await dead_host(tmp_path, "echo >ready; until [ -e go ]; do /bin/sleep 0.05; done; echo late")
    (tmp_path / "go").touch()
    await until(lambda: runner.found()[0].finished)
    assert (await runner.adopt("job")).stdout == b"late\n"
    assert ProcessRunner(tmp_path / "home", RealClock()).found()[0].finished, "kept until it is forgotten"


async def test_limits_hold_while_no_host_lives(runner: ProcessRunner, tmp_path: Path) -> None:
    await dead_host(tmp_path, f"{daemonise(tmp_path)}; echo >ready; exec /bin/sleep 1000", seconds=3)
    await until(lambda: runner.found()[0].finished)
    assert not lives(pid_in(tmp_path / "daemon"))
    assert (await runner.adopt("job")).timed_out


async def test_a_job_of_a_dead_host_can_be_ended(runner: ProcessRunner, tmp_path: Path) -> None:
    await dead_host(tmp_path, f"{daemonise(tmp_path)}; echo >ready; exec /bin/sleep 1000")
    assert await runner.end("job") is True
    assert not lives(pid_in(tmp_path / "daemon"))
    assert (await runner.adopt("job")).canceled


async def test_a_host_that_died_before_the_command_began_leaves_a_job_that_never_started(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    (tmp_path / "home" / "jobs" / "job").mkdir()
    [found] = runner.found()
    assert (found.finished, found.pid) == (True, 0)
    assert (await runner.adopt("job")).not_started
    runner.forget("job")
    assert runner.found() == []


async def test_without_host_and_keeper_the_command_does_not_go_on(runner: ProcessRunner, tmp_path: Path) -> None:
    await dead_host(tmp_path, "echo >ready; exec /bin/sleep 1000")
    await until(lambda: kept_main(tmp_path) != 0)
    kept = json.loads((tmp_path / "home" / "jobs" / "job" / "keeper.json").read_text())
    os.kill(kept["pid"], signal.SIGKILL)
    await until(lambda: not lives(kept["main"]))


async def test_a_killed_keeper_takes_the_command_along_and_nobody_claims_a_result(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    script = "/bin/sleep 1000 & echo $! >child; wait"
    running = asyncio.create_task(runner.run(shell(script, tmp_path)))
    await until(lambda: is_written(tmp_path / "child"))
    await until(lambda: kept_main(tmp_path) != 0)
    kept = json.loads((tmp_path / "home" / "jobs" / "job" / "keeper.json").read_text())
    os.kill(kept["pid"], signal.SIGKILL)
    with pytest.raises(Refused) as refused:
        await bounded(running)
    assert refused.value.code == ErrorCode.UNAVAILABLE
    assert await runner.end("job") is True
    assert not lives(kept["main"])
    assert not lives(pid_in(tmp_path / "child"))


# --- recycled pids --------------------------------------------------------------------------------------------------


def pretend(tmp_path: Path, **fields: object) -> None:
    """A job directory whose keeper is gone and whose note has these fields."""
    folder = tmp_path / "home" / "jobs" / "job"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "job.json").write_text(
        json.dumps({"label": "", "level": "none", "boot_id": "this boot", "asked_at": 1.0, "grace_seconds": 0.1})
    )
    note = {"pid": 0, "start": "", "main": 0, "main_start": "", "started_at": 1.0}
    (folder / "keeper.json").write_text(json.dumps(note | fields))


async def test_a_recycled_pid_is_not_killed(runner: ProcessRunner, tmp_path: Path) -> None:
    other = bystander()
    try:
        pretend(tmp_path, pid=other.pid, start="1", main=other.pid, main_start="1")
        assert await runner.end("job") is True
        with pytest.raises(Refused):
            await runner.adopt("job")
        assert lives(other.pid)
    finally:
        other.kill()
        other.wait()


async def test_a_recycled_pid_of_a_keeper_gets_no_signal(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.edge.process.runner.MARGIN_SECONDS", 0.2)
    other = bystander()
    try:
        pretend(tmp_path, pid=other.pid, start="1")
        with (tmp_path / "home" / "jobs" / "job" / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert await runner.end("job") is False, "somebody keeps it, and nobody could be told to end it"
        assert lives(other.pid)
    finally:
        other.kill()
        other.wait()


async def test_a_process_of_another_boot_is_not_killed_even_if_all_numbers_agree(tmp_path: Path) -> None:
    runner = ProcessRunner(tmp_path / "home", RealClock("the next boot"))
    other = bystander()
    try:
        found = keeper.look_up(other.pid)
        assert found is not None
        pretend(tmp_path, main=other.pid, main_start=found.start)
        assert await runner.end("job") is True
        assert lives(other.pid)
    finally:
        other.kill()
        other.wait()


async def test_what_a_killed_keeper_left_in_its_session_is_found_and_ended(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    other = bystander()
    found = keeper.look_up(other.pid)
    assert found is not None
    pretend(tmp_path, main=other.pid, main_start=found.start)
    assert await runner.end("job") is True
    assert other.wait() == -signal.SIGKILL


# --- what is kept ---------------------------------------------------------------------------------------------------


async def test_nothing_kept_is_readable_by_others_and_no_environment_stays_on_disk(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    await runner.run(Job("job", ("/bin/true",), "/", {"TOKEN": "s3cret-in-environment"}, stdin=b"s3cret-in-stdin"))
    kept = [tmp_path / "home" / "jobs", *(tmp_path / "home" / "jobs").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in kept} == {0}
    assert not [path for path in kept if path.is_file() and b"s3cret" in path.read_bytes()]


async def test_forget_refuses_what_runs_and_removes_the_rest(runner: ProcessRunner, tmp_path: Path) -> None:
    running = asyncio.create_task(runner.run(shell("echo >ready; exec /bin/sleep 1000", tmp_path)))
    await until((tmp_path / "ready").exists)
    with pytest.raises(Refused) as refused:
        runner.forget("job")
    assert refused.value.code == ErrorCode.CONFLICT
    await runner.end("job")
    await bounded(running)
    runner.forget("job")
    runner.forget("job")
    assert list((tmp_path / "home" / "jobs").iterdir()) == []


async def test_a_job_that_could_not_be_written_down_leaves_its_id_free(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/no/such/python")
        with pytest.raises(Refused) as refused:
            await runner.run(shell("true", tmp_path))
    assert refused.value.code == ErrorCode.UNAVAILABLE
    assert (await runner.run(shell("exit 6", tmp_path))).exit_code == 6


async def test_what_a_job_left_is_removed_however_deep_and_locked_it_is(runner: ProcessRunner, tmp_path: Path) -> None:
    await runner.run(shell("true", tmp_path))
    inner = tmp_path / "home" / "jobs" / "job" / "tmp"
    script = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd -P d || exit; i=$((i+1)); done; chmod 0 ."
    subprocess.run(["/bin/sh", "-c", script], cwd=inner, check=True, capture_output=True)  # noqa: ASYNC221
    runner.forget("job")
    assert not inner.exists()


async def test_without_a_sandbox_on_the_machine_the_caller_decides(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.edge.process.sandbox._PROGRAMS", ("/no/bwrap",))
    assert runner.level() == "none"
    assert "Install" in runner.explain()
    must = await runner.run(shell("touch ran", tmp_path, "must", sandbox=Sandbox(required=True)))
    assert "sandbox is required" in must.not_started
    assert "Install" in must.not_started
    assert not (tmp_path / "ran").exists()
    may = await runner.run(shell("touch ran", tmp_path, "may", sandbox=Sandbox()))
    assert (may.exit_code, may.level) == (0, "none")
