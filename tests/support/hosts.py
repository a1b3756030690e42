"""Real hosts in temporary homes for tests, and clients that speak to them. Whatever was started is stopped."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from tallystick import wire
from tallystick.app.lock import HomeLock

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30
RUN_TALLY = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tallystick._tally import main; sys.exit(main())"


def eventually(condition, what="it", seconds=SECONDS):
    """The first true value of a condition, or a failure after a generous bound. `what` is waited for: called, where
    only the end shows it."""
    until = time.monotonic() + seconds
    pause = threading.Event()
    while not (value := condition()):
        late = time.monotonic() >= until
        assert not late, f"{what() if callable(what) else what} did not come about within {seconds} s"
        pause.wait(0.01)
    return value


class Home:
    """A temporary home: `with Home() as home`."""

    def __init__(self, under="home"):
        self.place = Path(tempfile.mkdtemp(prefix="tw-")).resolve()
        self.path = self.place / under
        self.children = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        holder = HomeLock(self.path).holder()
        if holder and holder.pid > 1:
            with suppress(ProcessLookupError):
                os.kill(holder.pid, signal.SIGTERM)
        for child in self.children:
            if child.poll() is None:
                child.terminate()
        with suppress(AssertionError):
            eventually(lambda: HomeLock(self.path).holder() is None, seconds=15)
        if (left := HomeLock(self.path).holder()) and left.pid > 1:
            os.kill(left.pid, signal.SIGKILL)
        for child in self.children:
            child.kill()
            child.communicate()
        short = self._short_directory()
        shutil.rmtree(self.place, ignore_errors=True)
        if short:
            shutil.rmtree(short, ignore_errors=True)

    def _short_directory(self):
        path = wire.socket_path(str(self.path))
        return Path(path).parent if Path(path).parent.name.startswith("tallystick-") else None

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TALLY_", "PYTHON", "LC_"))}
        return {**kept, "TALLY_HOME": str(self.path), **more}

    def spawn(self, *argv, env=None, **options):
        """A child whose output is read as bytes."""
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        child = subprocess.Popen(argv, env=self.environment(**(env or {})), **settings)
        self.children.append(child)
        return child

    def run(self, *argv, env=None, given=None, **options):
        """A child run to its end: (exit code, stdout, stderr) as text."""
        if given is not None:
            options["stdin"] = subprocess.PIPE
        child = self.spawn(*argv, env=env, **options)
        out, err = child.communicate(given, timeout=SECONDS * 2)
        return child.returncode, (out or b"").decode(), (err or b"").decode()

    def tally(self, *words, **options):
        """The `tally` command."""
        return self.run(sys.executable, "-c", RUN_TALLY, *words, **options)

    def spawn_tally(self, *words, **options):
        return self.spawn(sys.executable, "-c", RUN_TALLY, *words, **options)

    def python(self, code, **options):
        """A program that uses `wire`."""
        head = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tallystick import wire\n"
        return self.run(sys.executable, "-c", head + code, **options)

    def module(self, *words, **options):
        """`python -m tallystick`."""
        return self.run(sys.executable, "-m", "tallystick", *words, cwd=ROOT, **options)

    def probe(self, env=None, **bounds):
        """A host with the test's operations; returns when it serves."""
        child = self.spawn(sys.executable, str(ROOT / "tests/support/probe.py"), json.dumps(bounds), env=env)
        line = child.stdout.readline()
        assert b"serves" in line, (line, child.stderr.read())
        return child

    def holder(self):
        return HomeLock(self.path).holder()

    @property
    def socket(self):
        return wire.socket_path(str(self.path))

    def connect(self, **options):
        """A `wire` connection from this very process."""
        return wire.connect(path=self.socket, seconds=SECONDS, **options)

    def raw(self, greet=True):
        """A plain socket with lines read from it."""
        return Raw(self.socket, greet)


class Raw:
    """A client that may misbehave."""

    def __init__(self, path, greet=True):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(path)
        self.file = self.sock.makefile("rb")
        if greet:
            self.send({"hello": {"protocol": [1, 1], "client": "test", "version": "0"}})
            assert "welcome" in self.line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def send(self, message):
        self.bytes(json.dumps(message).encode() + b"\n")

    def bytes(self, data):
        self.sock.sendall(data)

    def line(self):
        """The next line as JSON; None at the end."""
        line = self.file.readline()
        return json.loads(line) if line else None
