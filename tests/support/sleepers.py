"""Sleeping clients for tests: `with asleep(town) as client`."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.hosts import SECONDS

PROGRAM = Path(__file__).with_name("sleeper.py")


class Client:
    """One client process: orders go in, what happened comes out."""

    def __init__(self, town, name="claude", session="", transcript=""):
        self.session = session or str(uuid.uuid4())
        self.transcript = Path(transcript or town.place / ".claude" / "projects" / "here" / f"{self.session}.jsonl")
        # The kernel calls a process by the file that it runs: a copy of the shell, under the client's name.
        shell = town.place / "bin" / name
        shell.parent.mkdir(exist_ok=True)
        if not shell.exists():
            shutil.copy(Path("/bin/sh").resolve(), shell)
        words = [sys.executable, str(PROGRAM), str(town.path), name, self.session, str(self.transcript)]
        # (with something after it, the shell stays: else it would be replaced by the program)
        script = " ".join(f"'{word}'" for word in words) + "\ntrue"
        self.process = town.spawn(str(shell), "-c", script, stdin=-1, cwd=town.place)
        self.said: queue.Queue[dict] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = self.wait("ready")["ready"]

    def _read(self):
        for line in self.process.stdout:
            self.said.put(json.loads(line))

    def tell(self, order):
        self.process.stdin.write(f"{order}\n".encode())
        self.process.stdin.flush()

    def wait(self, key):
        """The next thing that happened with that key; others before it are passed over."""
        while True:
            found = self.said.get(timeout=SECONDS)
            if key in found:
                return found

    def kill(self):
        """The client dies, and what it started with it."""
        self.process.kill()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait(SECONDS)

    def tally(self, *words):
        self.tell("tally " + json.dumps([*words, "--json"]))
        done = self.wait("code")
        assert done["code"] == 0, done
        return json.loads(done["out"])


@contextmanager
def asleep(town, **given):
    client = Client(town, **given)
    try:
        yield client
    finally:
        client.kill()
