"""What a run starts and what it leaves: a temporary folder, hosts, other servers. All of it is stopped at the end."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from bench import slow_sync
from bench.table import Skip
from tallystick import wire

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 60.0
STOP_SECONDS = 15.0


class Machine:
    """One run's folder and processes. `with Machine() as machine`; Ctrl-C ends here as well."""

    def __init__(self, *, is_bare: bool = False) -> None:
        self._is_bare = is_bare
        self.folder = Path(tempfile.mkdtemp(prefix="tb-"))
        self.folder.chmod(0o711)  # PostgreSQL, which refuses to run as root, has to reach its own folder below
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            self.stop(child)
        shutil.rmtree(self.folder, ignore_errors=True)

    def new(self, name: str) -> Path:
        """A fresh folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    def start(
        self, *argv: str, env: dict[str, str] | None = None, cwd: str = "/", **user: Any
    ) -> subprocess.Popen[bytes]:
        """A child in a process group of its own, silent."""
        child = subprocess.Popen(
            argv,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **user,
        )
        self._children.append(child)
        return child

    def stop(self, child: subprocess.Popen[bytes]) -> None:
        """End a child and its group: politely, then not."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(STOP_SECONDS)

    @contextlib.contextmanager
    def running(self, *argv: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A child for the length of a block."""
        child = self.start(*argv, **options)
        try:
            yield child
        finally:
            self.stop(child)

    @contextlib.contextmanager
    def host(self, home: Path | None = None, prefix: tuple[str, ...] = ()) -> Iterator[Host]:
        """A host of this tree that serves a home, or the bare one in its place; `prefix` stands in front of its command
        (strace)."""
        home = home or self.new("home")
        with self.running(*prefix, *self._command(home), env={**environment(home), "PYTHONPATH": str(ROOT)}) as child:
            host = Host(home, child)
            host.await_first_answer()
            yield host

    def _command(self, home: Path) -> tuple[str, ...]:
        if not self._is_bare:
            return wire.command("up")
        socket = wire.socket_path(str(home))
        Path(socket).parent.mkdir(parents=True, exist_ok=True)
        return (sys.executable, "-m", "bench.bare_host", socket, str(home / "bare.db"))

    @contextlib.contextmanager
    def redis(self) -> Iterator[int]:
        """Redis that syncs before every answer, on a free loopback port."""
        port, folder = free_port(), self.new("redis")
        options = f"--port {port} --bind 127.0.0.1 --appendonly yes --appendfsync always --dir {folder}"
        with self.running("redis-server", *options.split(), "--save", "", "--protected-mode", "yes"):
            until(lambda: accepts(port), "redis-server")
            yield port

    @contextlib.contextmanager
    def nats(self, config: str) -> Iterator[int]:
        """NATS with what the text says, on a free loopback port."""
        port, folder = free_port(), self.new("nats")
        path = folder / "nats.conf"
        path.write_text(config.format(port=port, folder=folder / "store"), encoding="utf-8")
        with self.running(*slow_sync.tracer(folder), program("nats-server"), "--config", str(path)) as child:
            _until_up(child, lambda: accepts(port), "nats-server: `sync_interval: always` needs 2.10 or newer")
            yield port

    @contextlib.contextmanager
    def postgres(self) -> Iterator[str]:
        """PostgreSQL with a fresh cluster that syncs as it comes, on a free loopback port: how to connect."""
        port, folder, password, user = free_port(), self.new("postgres"), secrets.token_hex(16), _unprivileged()
        secret, data = folder / "password", str(folder / "data")
        secret.write_text(password, encoding="utf-8")
        if user:
            for path in (secret, folder):
                os.chown(path, user["user"], user["group"])
        made = (program("initdb"), "-D", data, "-U", "bench", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8")
        found = subprocess.run(made, capture_output=True, text=True, check=False, cwd="/", **user)
        if found.returncode:
            raise Skip(f"initdb failed: {' '.join(found.stderr.split())[-300:]}")
        options = ("-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
        with self.running(program("postgres"), "-D", data, *options, **user) as child:
            ready = (program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port))
            _until_up(child, lambda: subprocess.run(ready, check=False).returncode == 0, "postgres")
            yield f"host=127.0.0.1 port={port} user=bench dbname=postgres password={password}"


class Host:
    """A running host of the product."""

    def __init__(self, home: Path, child: subprocess.Popen[bytes]) -> None:
        self.home = home
        self.child = child
        self.socket = wire.socket_path(str(home))

    def await_first_answer(self) -> None:
        """Until it answers a request."""

        def answers() -> bool:
            if self.child.poll() is not None:
                raise RuntimeError("the host ended while it started")
            try:
                connection = self.connect()
            except wire.WireError:
                return False
            connection.call("status")
            connection.close()
            return True

        until(answers, "the host")

    def connect(self) -> wire.Connection:
        """A connection as the product's own clients make it."""
        return wire.connect(start=False, path=self.socket, seconds=START_SECONDS)

    def agents(self, *names: str, directory: str = "") -> None:
        """Join agents."""
        connection = self.connect()
        for name in names:
            connection.call("join", cwd=directory, args={"name": name})
        connection.close()

    @property
    def pid(self) -> int:
        """The host's own process, also where a tracer started it."""
        connection = self.connect()
        found = int(connection.welcome["pid"])
        connection.close()
        return found

    def memory(self) -> float:
        """Resident memory in MB."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1000
        return 0.0


def environment(home: Path) -> dict[str, str]:
    """What a command needs to find this home."""
    return {"TALLY_HOME": str(home), "TALLY_SOCKET": "", "TALLY_SESSION": "", "TALLY_AGENT": ""}


def program(name: str) -> str:
    """Where a program is: on PATH, beside this Python, or where Debian keeps PostgreSQL's; empty where it is not."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4), reverse=True)
    places = (os.environ.get("PATH", os.defpath), str(Path(sys.prefix) / "bin"), *map(str, debian))
    return shutil.which(name, path=os.pathsep.join(places)) or ""


def _unprivileged() -> dict[str, Any]:
    """For root: start a child as nobody."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def accepts(port: int) -> bool:
    """Whether something listens there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _until_up(child: subprocess.Popen[bytes], condition: Any, what: str) -> None:
    """Wait until a server answers; one that ends instead cannot be compared with here."""
    until(lambda: child.poll() is not None or condition(), what)
    if child.poll() is not None:
        raise Skip(f"it ended while it started ({what})")


def until(condition: Any, what: str, seconds: float = START_SECONDS) -> None:
    """Wait for a condition, within a bound."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {seconds:g} s")
        time.sleep(0.01)
