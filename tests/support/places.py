"""What tests of whole hosts share: homes with settings, clients, a repository, and an audit of what is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tallystick import wire
from tallystick.app.rebuild import replay
from tallystick.core.fold import evolve
from tallystick.core.limits import Limits
from tallystick.core.task.table import FINAL, OPEN
from tallystick.store.sqlite import SqliteStore
from tests.support.hosts import SECONDS, Home, eventually

SETTINGS = 'person_verbs = "uid"\n'


class Place(Home):
    """A home whose hosts die and come back. `limits` go into its settings."""

    def __init__(self, **limits):
        super().__init__()
        self.path.mkdir(mode=0o700)
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in limits.items())
        (self.path / "config.toml").write_text(SETTINGS + ("[limits]\n" + lines if lines else ""))
        self.host = None
        self.client = None
        self.wishes = {}
        self.prefix = ()
        """What stands in front of the host's command."""

    def __exit__(self, *exc):
        self.leave()
        end_jobs(self.path)
        super().__exit__(*exc)

    def start(self, **wishes):
        """A host, and wait until it serves; False where it died before."""
        self.leave()
        argv = [*self.prefix, sys.executable, str(Path(__file__).with_name("mortal.py"))]
        argv.append(json.dumps({**self.wishes, **wishes}))
        log = (self.place / "host.log").open("ab")
        self.host = self.spawn(*argv, stderr=log)
        log.close()
        line = self.host.stdout.readline()
        if b"serves" in line:
            return True
        self.host.wait(SECONDS)
        assert self.host.returncode == -signal.SIGKILL, self.said()
        return False

    def said(self):
        """What the hosts left behind about themselves, for a failed test."""
        files = (self.place / "host.log", self.path / "log" / "host.jsonl")
        return "\n".join(file.read_text()[-3000:] for file in files if file.exists())

    def leave(self):
        if self.client is not None:
            self.client.close()
            self.client = None

    def kill(self):
        """End the host with -9."""
        self.host.kill()
        self.host.wait(SECONDS)
        self.leave()

    def stop(self):
        """End the host in order."""
        self.leave()
        if self.host is not None and self.host.poll() is None:
            self.host.terminate()
            try:
                self.host.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.host.send_signal(signal.SIGUSR1)
                eventually(lambda: "Current thread" in self.said(), "what it does")
                raise AssertionError(f"the host does not stop: {self.said()}") from None

    def is_dead(self):
        return self.host is None or self.host.poll() is not None

    def call(self, op, who="", cwd="", door="tally", env=None, **args):
        """One verb over one kept connection, as an agent or the person."""
        if self.client is None:
            self.client = wire.connect(path=self.socket, seconds=SECONDS, client=door, start=False)
        fields = {"args": args, "cwd": cwd or str(self.place), "env": env or {"PATH": os.environ["PATH"]}}
        try:
            return self.client.call(op, **fields, **({"as": who} if who else {}))
        except wire.WireError:
            self.leave()
            raise

    def show(self, task):
        return self.call("show", task=task)

    def until(self, task, *labels, seconds=SECONDS):
        """Wait until a task is at one of these places, `state` or `state/reason`."""

        def there():
            shown = self.show(task)
            return shown if shown["state"] in labels or place_of(shown) in labels else None

        return eventually(there, f"{task} at {labels}", seconds)

    def repository(self, name="repo"):
        """A repository with two commits; the later is returned too."""
        path = self.place / name
        path.mkdir()
        git(path, "init", "-q", "-b", "main")
        (path / "a.txt").write_text("one\n")
        git(path, "add", "-A")
        git(path, "commit", "-qm", "first")
        return path

    def commit(self, path, text):
        (path / "a.txt").write_text(text)
        git(path, "commit", "-qam", text.strip())
        return git(path, "rev-parse", "HEAD").strip()

    def audit(self):
        """Of a home without a host: (events, works). The chain holds, rows are as the events say, states are known."""
        return asyncio.run(audit(self.path))


async def audit(home):
    store = SqliteStore.open(home / "tally.db")
    try:
        assert await store.scan() == []
        assert await replay(store, store, Limits()) == []
        events = await store.tail(0, 10**6)
        works = {}
        for event in events:
            if event.stream.startswith("tsk_"):
                works[event.stream] = evolve(works.get(event.stream), event)
        assert all(work.task.place in OPEN | FINAL for work in works.values())
        return events, works
    finally:
        await store.close()


def place_of(shown):
    return f"{shown['state']}/{shown['reason']}" if shown["reason"] else shown["state"]


def git(path, *words):
    names = {
        f"GIT_{who}_{what}": "t" if what == "NAME" else "t@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return subprocess.run(["git", *words], cwd=path, env=environment, check=True, capture_output=True, text=True).stdout


def contents(folder, pattern="**/*"):
    """What each file below a folder holds. A host at work puts files away at any moment: those are left out."""
    found = {}
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found


def keepers(home):
    """The notes of the keepers of a home's jobs."""
    return [json.loads(note) for note in contents(home / "jobs", "*/keeper.json").values()]


def end_jobs(home):
    """Nothing that a test started outlives it."""
    with suppress(OSError, ValueError):
        for note in keepers(home):
            for pid in (note["main"], note["pid"]):
                if pid > 1:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
