"""What a sandboxed job can reach, probe by probe, each with the control run without a sandbox. Hostile case 58."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tallystick.app.jobs import Job, JobResult, Sandbox, WayOut
from tallystick.edge.process import ProcessRunner, keeper, prefixes
from tallystick.edge.process.sandbox import Trial, command_line, landing
from tallystick.edge.process.seccomp import filter_for

PATH = "/usr/bin:/bin"
PYTHON = prefixes(sys.executable, "", "")
BOUND_SECONDS = 30.0


class RealClock:
    def now(self) -> float:
        return 1_800_000_000.0

    def boot(self) -> float:
        return 0.0

    def boot_id(self) -> str:
        return "this boot"


class World:
    """A repository, a home with a secret, a runtime directory, and a runner that must hide them."""

    def __init__(self, root: Path) -> None:
        self.repository, self.person, self.runtime = root / "repository", root / "person", root / "runtime"
        self.home = root / "tally"
        for directory in (self.repository / ".git" / "hooks", self.person, self.runtime):
            directory.mkdir(parents=True)
        (self.repository / "file").write_text("content")
        (self.repository / "file").chmod(0o644)
        (self.person / "secret").write_text("secret")
        self.runner = ProcessRunner(self.home, RealClock(), masks=(str(self.runtime),))

    async def run(self, argv: tuple[str, ...], sandbox: Sandbox | None, **more: object) -> JobResult:
        job_id = f"job-{len(os.listdir(self.home / 'jobs'))}"
        job = Job(job_id, argv, str(self.repository), {"PATH": PATH}, sandbox=sandbox, **more)  # type: ignore[arg-type]
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.runner.run(job)

    async def probe(self, code: str, sandbox: Sandbox | None) -> str:
        """Run Python code; "yes" if it went through, otherwise the name of the error."""
        result = await self.run((sys.executable, "-I", "-S", "-c", PROBE, code), sandbox)
        assert result.not_started == ""
        assert result.level == ("E3" if sandbox else "none")
        assert result.exit_code == 0, result.stderr
        return result.stdout.decode()

    def reading(self, **more: object) -> Sandbox:
        return Sandbox(read_only=(str(self.repository), *PYTHON), required=True, **more)  # type: ignore[arg-type]

    def writing(self, **more: object) -> Sandbox:
        return Sandbox(read_only=PYTHON, writable=(str(self.repository),), required=True, **more)  # type: ignore[arg-type]


PROBE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*numbers):
    if libc.syscall(*numbers) < 0:
        raise OSError(ctypes.get_errno(), "syscall")
try:
    exec(sys.argv[1])
except Exception as error:
    print(type(error).__name__, end="")
else:
    print("yes", end="")
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    monkeypatch.setenv("HOME", str(world.person))
    if world.runner.level() == "none":
        pytest.skip(f"THE SANDBOX IS NOT TESTED HERE: {world.runner.explain()}")
    return world


# --- the repository and the home


REFUSED_IN_REPOSITORY = {
    "write": "open('new', 'w')",
    "change": "open('file', 'a')",
    "unlink": "os.unlink('file')",
    "hook": "open('.git/hooks/post-checkout', 'w')",
    "chmod": "os.chmod('file', 0o777)",
    "utime": "os.utime('file', (1, 1))",
    "chown": "os.chown('file', os.getuid(), os.getgid())",
}


async def test_the_repository_can_be_read(world: World) -> None:
    code = "assert open('file').read() == 'content'"
    assert await world.probe(code, None) == "yes"
    assert await world.probe(code, world.reading()) == "yes"


@pytest.mark.parametrize("name", REFUSED_IN_REPOSITORY)
async def test_a_repository_that_is_only_read_cannot_be_changed(world: World, name: str) -> None:
    code = REFUSED_IN_REPOSITORY[name]
    assert await world.probe(code, world.reading()) in ("OSError", "PermissionError")
    assert (world.repository / "file").read_text() == "content"
    assert await world.probe(code, None) == "yes"


async def test_a_secret_in_the_home_is_not_there(world: World) -> None:
    code = f"open({str(world.person / 'secret')!r})"
    assert await world.probe(code, world.reading()) == "FileNotFoundError"
    assert await world.probe(code, None) == "yes"


@pytest.mark.parametrize("place", ["/home", "/root", "/tmp", "/var/tmp", "/run"])
async def test_homes_and_places_of_other_programs_are_masked(world: World, place: str) -> None:
    seen = await world.run(("/bin/ls", "-A", place), Sandbox(required=True, read_only=(str(world.repository),)))
    top = Path(str(world.repository)).parts[1]
    assert set(seen.stdout.decode().split()) <= {"job"} | (
        {Path(str(world.repository)).parts[2]} if place == f"/{top}" else set()
    )


async def test_the_hosts_own_directory_is_hidden_even_in_a_bind_that_holds_it(world: World, tmp_path: Path) -> None:
    code = f"assert os.listdir({str(world.home)!r}) and os.listdir({str(world.runtime)!r})"
    (world.runtime / "something").touch()
    everything = Sandbox(read_only=(str(tmp_path), *PYTHON), required=True)
    assert await world.probe(code, everything) == "AssertionError"
    assert await world.probe(code, None) == "yes"


# --- ways out


async def test_tcp_to_the_hosts_loopback(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert await world.probe(code, world.reading()) == "PermissionError"
        assert await world.probe(code, None) == "yes"
        assert await world.probe(code, world.reading(network=True)) == "yes", "a person said yes to the network"


async def test_udp_to_the_hosts_loopback(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        port = receiver.getsockname()[1]
        code = f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'out', ('127.0.0.1', {port}))"
        assert await world.probe(code, world.reading()) == "PermissionError"
        with pytest.raises(BlockingIOError):
            receiver.recv(10)
        assert await world.probe(code, None) == "yes"
        assert receiver.recv(10) == b"out"


@pytest.mark.parametrize("family", ["INET", "INET6", "NETLINK", "PACKET", "VSOCK"])
async def test_sockets_that_leave_the_machine_are_not_to_be_had(world: World, family: str) -> None:
    assert (
        await world.probe(f"socket.socket(socket.AF_{family}, socket.SOCK_RAW)", world.reading()) == "PermissionError"
    )


@pytest.fixture
def listening(world: World) -> Iterator[dict[str, str]]:
    """Three Unix sockets of the host: in its runtime directory, in its home, and abstract."""
    names = {
        "runtime": os.path.relpath(world.runtime / "s", world.repository),
        "home": os.path.relpath(world.home / "s", world.repository),
        "abstract": f"\0tally-{os.getpid()}-{id(world)}",
    }
    before = os.getcwd()
    os.chdir(world.repository)  # the paths are relative, since a socket's path is at most 108 bytes long
    servers = [socket.socket(socket.AF_UNIX) for _ in names]
    for server, name in zip(servers, names.values(), strict=True):
        server.bind(name)
        server.listen()
    os.chdir(before)
    yield names
    for server in servers:
        server.close()


@pytest.mark.parametrize("where", ["runtime", "home", "abstract"])
async def test_a_unix_socket_of_the_host(world: World, listening: dict[str, str], where: str) -> None:
    code = f"socket.socket(socket.AF_UNIX).connect({listening[where]!r})"
    assert await world.probe(code, world.reading()) in ("FileNotFoundError", "ConnectionRefusedError")
    assert await world.probe(code, None) == "yes"


async def test_a_socket_that_is_bound_in_works(world: World) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        path = Path("/tmp") / f"tally-{os.getpid()}.sock"
        server.bind(str(path))
        server.listen()
        try:
            code = f"socket.socket(socket.AF_UNIX).connect({str(path)!r})"
            assert await world.probe(code, world.writing()) == "FileNotFoundError"
            given = Sandbox(read_only=(str(world.repository), *PYTHON), writable=(str(path),), required=True)
            assert await world.probe(code, given) == "yes"
        finally:
            path.unlink()


async def test_a_process_of_the_host_can_be_neither_signalled_nor_read(world: World) -> None:
    for code in (f"os.kill({os.getpid()}, 0)", f"open('/proc/{os.getpid()}/environ').read()"):
        assert await world.probe(code, world.reading()) in ("ProcessLookupError", "FileNotFoundError")
        assert await world.probe(code, None) == "yes"


FORBIDDEN_CALLS = {
    "umount a mask": "call(166, b'/root', 2)",
    "mount over": "call(165, b'none', b'/usr', b'tmpfs', 0, 0)",
    "ptrace": "call(101, 0, 0, 0, 0)",
    "io_uring_setup": "call(425, 1, ctypes.create_string_buffer(256))",
    "process_vm_readv": "call(310, os.getpid(), 0, 0, 0, 0, 0)",
    "keyctl": "call(250, 0, -3, 0, 0, 0)",
    "x32 getpid": "call(0x40000000 + 39)",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="THE NUMBERS OF THESE SYSTEM CALLS ARE THOSE OF x86_64")
@pytest.mark.parametrize("name", FORBIDDEN_CALLS)
async def test_calls_that_lead_round_the_sandbox_are_refused(world: World, name: str) -> None:
    assert await world.probe(FORBIDDEN_CALLS[name], world.reading()) == "PermissionError"


async def test_nothing_of_the_host_is_inherited(world: World) -> None:
    with (world.person / "secret").open() as file:
        os.set_inheritable(file.fileno(), True)
        seen = await world.run(("/bin/ls", "/proc/self/fd"), world.reading())
    assert seen.stdout.split() == [b"0", b"1", b"2", b"3"]
    seen = await world.run(("/usr/bin/env",), world.reading())
    assert {line.split(b"=")[0] for line in seen.stdout.splitlines()} == {b"PATH", b"HOME", b"TMPDIR", b"PWD"}


# --- jobs that may write


async def test_a_worktree_can_be_written_and_its_modes_changed(world: World) -> None:
    code = "open('new', 'w').write('x'); os.chmod('new', 0o700); os.utime('new', (1, 1)); os.unlink('file')"
    assert await world.probe(code, world.writing()) == "yes"
    assert (world.repository / "new").stat().st_mode & 0o777 == 0o700


async def test_modes_are_changed_only_by_jobs_that_may_write(world: World) -> None:
    code = "os.chmod(os.environ['TMPDIR'], 0o700)"
    assert await world.probe(code, world.reading()) == "PermissionError"
    assert await world.probe(code, world.writing()) == "yes"


async def test_what_is_read_only_inside_a_worktree_stays_so(world: World) -> None:
    hooks = str(world.repository / ".git" / "hooks")
    sandbox = Sandbox(read_only=(hooks, *PYTHON), writable=(str(world.repository),), required=True)
    assert await world.probe("open('.git/config', 'w')", sandbox) == "yes"
    assert await world.probe("open('.git/hooks/post-checkout', 'w')", sandbox) == "OSError"


async def test_every_job_has_a_home_and_a_temporary_directory_of_its_own(world: World) -> None:
    script = "cd && echo x >here && echo y >$TMPDIR/there && cat $HOME/here $TMPDIR/there"
    seen = await world.run(("/bin/sh", "-c", script), world.reading())
    assert (seen.stdout, seen.exit_code) == (b"x\ny\n", 0)
    again = await world.run(("/bin/sh", "-c", "ls $HOME $TMPDIR"), world.reading())
    assert b"here" not in again.stdout


# --- start and end


@pytest.mark.parametrize("argv", [("no-such-program",), ("./file",)])
async def test_what_cannot_be_started_inside_is_told(world: World, argv: tuple[str, ...]) -> None:
    result = await world.run(argv, world.reading())
    assert "bwrap" in result.not_started
    assert (result.exit_code, result.stderr) == (None, b"")


async def test_a_directory_that_is_hidden_or_a_bind_that_is_missing_is_told(world: World, tmp_path: Path) -> None:
    assert "chdir" in (await world.run(("/bin/true",), Sandbox(required=True))).not_started
    missing = Sandbox(writable=(str(tmp_path / "missing"),), required=True)
    assert "missing" in (await world.run(("/bin/true",), missing)).not_started


@pytest.mark.parametrize(
    ("script", "code", "number"), [("exit 3", 3, None), ("kill -9 $$", None, 9), ("exit 128", 128, None)]
)
async def test_the_end_of_the_command_is_told_as_without_a_sandbox(
    world: World, script: str, code: int | None, number: int | None
) -> None:
    result = await world.run(("/bin/sh", "-c", script), world.reading())
    assert (result.exit_code, result.signal) == (code, number)


async def test_however_busy_the_machine_is_no_job_that_ran_is_told_as_not_started(world: World) -> None:
    jobs = [Job(f"many-{n}", ("/bin/sh", "-c", "exit 3"), "/", {}, sandbox=Sandbox(required=True)) for n in range(40)]
    async with asyncio.timeout(2 * BOUND_SECONDS):
        results = await asyncio.gather(*(world.runner.run(job) for job in jobs))
    assert {(result.exit_code, result.not_started) for result in results} == {(3, "")}


def inhabitants(world: World) -> list[int]:
    """Processes of any sandbox of this world: each of them was given the job's own home."""
    mark = os.fsencode(str(world.home / "jobs"))
    found = []
    for process in keeper.processes():
        try:
            if mark in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                found.append(process.pid)
        except OSError:
            continue
    return found


async def test_the_time_limit_ends_all_of_the_sandbox(world: World) -> None:
    script = "(setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &); trap '' TERM; sleep 1000; sleep 1000"
    result = await world.run(("/bin/sh", "-c", script), world.reading(), seconds=0.5, grace_seconds=0.2)
    assert (result.timed_out, result.signal) == (True, signal.SIGKILL)
    assert inhabitants(world) == []


async def test_the_request_to_end_reaches_the_command_in_the_sandbox(world: World) -> None:
    script = "trap 'echo tidy; exit 7' TERM; echo >ready; while :; do sleep 0.05; done"
    running = asyncio.create_task(world.run(("/bin/sh", "-c", script), world.writing(), grace_seconds=20))
    async with asyncio.timeout(BOUND_SECONDS):
        while not (world.repository / "ready").exists():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.01)
    assert await world.runner.end("job-0") is True
    assert inhabitants(world) == []
    result = await running
    assert (result.canceled, result.exit_code, result.stdout) == (True, 7, b"tidy\n")


# --- the parts, without starting anything


def judged(program: bytes, audit: int, number: int, argument: int = 0) -> int:
    """What the filter answers, by running its instructions."""
    data = {0: number, 4: audit, 16: argument}
    accumulator, position = 0, 0
    while True:
        code, true, false, value = struct.unpack_from("=HBBI", program, position * 8)
        position += 1
        if code == 0x20:
            accumulator = data[value]
        elif code == 0x15:
            position += true if accumulator == value else false
        elif code == 0x35:
            position += true if accumulator >= value else false
        else:
            assert code == 0x06
            return int(value)


ALLOW, KILL, EPERM, EACCES = 0x7FFF0000, 0x80000000, 0x00050001, 0x0005000D


@pytest.mark.parametrize(
    ("machine", "audit", "sock", "chmod", "ptrace"),
    [("x86_64", 0xC000003E, 41, 90, 101), ("aarch64", 0xC00000B7, 198, 53, 117)],
)
def test_the_filter_answers_as_the_table_says(machine: str, audit: int, sock: int, chmod: int, ptrace: int) -> None:
    strict = filter_for(machine, network=False, metadata=False)
    loose = filter_for(machine, network=True, metadata=True)
    assert judged(strict, 0x40000003, 1) == KILL
    assert [judged(strict, audit, sock, family) for family in (1, 2, 10, 16, 17, 40, 44)] == [ALLOW, *[EACCES] * 6]
    assert [judged(program, audit, chmod) for program in (strict, loose)] == [EPERM, ALLOW]
    assert [judged(program, audit, ptrace) for program in (strict, loose)] == [EPERM, EPERM]
    assert [judged(program, audit, 425) for program in (strict, loose)] == [EPERM, EPERM]
    assert judged(loose, audit, sock, 2) == ALLOW
    inside = filter_for(machine, network=False, loopback=True, metadata=True)
    assert [judged(inside, audit, sock, family) for family in (1, 2, 10, 16)] == [ALLOW] * 4
    assert [judged(inside, audit, sock, family) for family in (17, 40, 44)] == [EACCES] * 3
    assert judged(strict, audit, 0) == ALLOW


def test_where_the_machine_is_unknown_there_is_no_filter() -> None:
    assert filter_for("riscv64", network=False, metadata=False) == b""


def test_the_home_is_masked_wherever_it_is_and_never_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = Path("/usr/share")
    for home, masked in ((str(elsewhere), True), ("/", False)):
        monkeypatch.setenv("HOME", home)
        words = command_line(Trial(program="bwrap"), Sandbox(), "/", tmp_path, tmp_path / "job", ())
        masks = [words[at + 1] for at, word in enumerate(words) if word == "--tmpfs"]
        assert (str(elsewhere) in masks, "/" in masks) == (masked, False)


def test_masks_come_before_binds_and_outer_binds_before_inner_ones(tmp_path: Path) -> None:
    sandbox = Sandbox(read_only=("/tmp/a/b/c", "/tmp/z"), writable=("/tmp/a/b", "/tmp/z"))
    words = command_line(Trial(program="bwrap"), sandbox, "/", tmp_path, tmp_path / "job", ())
    last_mask = max(at for at, word in enumerate(words) if word == "--tmpfs")
    binds = [
        words[at] + words[at + 1] for at in range(last_mask, len(words)) if words[at] in ("--bind", "--ro-bind-try")
    ]
    assert binds[:4] == ["--ro-bind-try/tmp/z", "--bind/tmp/z", "--bind/tmp/a/b", "--ro-bind-try/tmp/a/b/c"]


def test_a_bind_lands_where_a_link_outside_the_masks_leads(tmp_path: Path) -> None:
    (tmp_path / "hidden" / "tool").mkdir(parents=True)
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to("../hidden")
    (tmp_path / "hidden" / "alias").symlink_to("tool")
    masks = [str(tmp_path / "hidden")]
    assert landing(str(tmp_path / "open/link/tool"), masks) == str(tmp_path / "hidden/tool")
    assert landing(str(tmp_path / "hidden/alias"), masks) == str(tmp_path / "hidden/alias")


async def test_a_sandbox_starts_inside_of_one_that_is_made_for_that(world: World) -> None:
    if not world.runner.nests():
        pytest.skip("THIS MACHINE LETS NO SANDBOX START INSIDE OF ANOTHER")
    inner = ("bwrap", "--ro-bind", "/", "/", "--unshare-user", "--unshare-net", "--", "/bin/cat", "file")
    result = await world.run(inner, world.writing(nests=True, network=True))
    assert (result.exit_code, result.stdout) == (0, b"content"), result.stderr
    owned = "open('file', 'a'); assert os.stat('file').st_uid == os.getuid()"
    assert await world.probe(owned, world.writing(nests=True)) == "yes"


async def test_a_limited_job_is_never_run_without_a_sandbox(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.edge.process.sandbox._PROGRAMS", ("/no/bwrap",))
    runner = ProcessRunner(world.home, RealClock())
    job = Job("limited", ("/bin/sh", "-c", "touch ran"), str(world.repository), {"PATH": PATH})
    limited = msgspec.structs.replace(job, sandbox=Sandbox(way_out=WayOut("/no/socket")))
    assert "Install" in (await runner.run(limited)).not_started
    assert not (world.repository / "ran").exists()
    assert not runner.nests()


async def test_a_limited_job_that_cannot_listen_or_start_says_so(world: World) -> None:
    for doors, argv, said in (
        ((("127.0.0.1", 80),), ("/bin/true",), b"cannot listen on its own loopback"),
        ((("192.0.2.1", 8080),), ("/bin/true",), b"cannot listen on its own loopback"),
        ((), ("/no/such/program",), b"Cannot start '/no/such/program'"),
    ):
        way = world.runtime / "x.net"
        way.touch()
        result = await world.run(argv, world.reading(way_out=WayOut(str(way), doors)))
        assert result.exit_code == 1, result
        assert said in result.stderr


async def test_a_limited_job_ends_as_its_command_does_and_keeps_its_streams(world: World) -> None:
    way = world.runtime / "x.net"
    way.touch()
    limited = world.reading(way_out=WayOut(str(way)))
    result = await world.run(("/bin/sh", "-c", "cat; echo said >&2; exit 7"), limited, stdin=b"given")
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"given", b"said\n")
    children = await world.run((sys.executable, "-I", "-S", "-c", "import os; os.wait()"), limited)
    assert b"ChildProcessError" in children.stderr  # what carries is no child of the command
