"""Real coding clients after `tally install`: server and hooks are loaded; a task is seen, taken and answered."""

import json
import subprocess
import sys

import pytest

from tests.support.clients.pins import CLIENTS
from tests.support.clients.seat import Seat
from tests.support.hosts import RUN_TALLY, eventually
from tests.support.model import Model, script

DRIVEN = ("claude", "codex", "gemini", "opencode", "pi")


class Bench:
    """A client in its private home, with a host of its own and a repository to work in."""

    def __init__(self, seat):
        self.seat = seat
        self.home = seat.base / "tally home 家"
        self.home.mkdir()
        (self.home / "config.toml").write_text('person_verbs = "uid"\n')
        seat.env["TALLY_HOME"] = str(self.home)
        git = "git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first"
        subprocess.run(git, shell=True, cwd=seat.cwd, check=True, env=seat.env)

    def tally(self, *words):
        done = subprocess.run(
            [sys.executable, "-c", RUN_TALLY, *words],
            cwd=self.seat.cwd,
            env=self.seat.env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def says(self, *words):
        return json.loads(self.tally(*words, "--json"))

    def events(self, kind):
        return [e for e in map(json.loads, self.tally("log", "export").splitlines()) if e["event"]["type"] == kind]

    def configured(self):
        """The client's files that name us, apart from what it wrote of its own accord (history, logs, copies)."""
        own = ("sessions", "projects", "backups", "log", "logs", ".cache", "tmp", "chats", "history", "state")
        found = []
        for path in self.seat.home.rglob("*"):
            inside = path.relative_to(self.seat.home).parts
            if path.is_file() and not any(word.startswith(own) for word in inside[:-1]) and path.suffix != ".log":
                try:
                    found += [str(path)] if "tallystick" in path.read_text(encoding="utf-8") else []
                except UnicodeDecodeError:
                    continue
        return found


@pytest.fixture(params=DRIVEN)
def bench(request):
    with Model() as model, Seat(request.param, model) as seat:
        made = Bench(seat)
        try:
            yield made
        finally:
            made.tally("down")


def test_a_client_sees_takes_and_answers_what_it_was_asked(bench):
    seat, name = bench.seat, bench.seat.name
    bench.tally("join", "reviewer")
    bench.tally("install", name, "--yes", "--allow", "--as", "pen")
    assert bench.configured()
    task = bench.says("ask", "@pen", "Look at the parser", "--expect", "answer")["task_id"]
    steps = (
        {"mcp": "tallystick.inbox", "args": {}},
        {"mcp": "tallystick.take", "args": {"task": task}},
        {"mcp": "tallystick.submit", "args": {"task": task, "text": "It is fine."}},
        {"text": "done"},
    )
    done = seat.headless(script(*steps, after=" and @reviewer shall look at this change"))
    assert done.code == 0, done.err + seat.model.told()
    told = "".join(json.dumps(request.body) for request in seat.model.turns)
    assert "@reviewer is an agent of workspace" in told, seat.model.told()
    assert "1 new for @pen" in told
    shown = bench.says("show", task)
    assert (shown["state"], shown["result"]) == ("completed", "It is fine."), seat.model.told()
    sessions = {e["stream"] for e in bench.events("SessionOpened") if e["event"].get("door") == "client"}
    assert len(sessions) == 1
    linked = [e for e in bench.events("SessionLinked") if e["stream"] in sessions]
    assert linked[0]["event"]["history"]


def test_after_removal_no_trace_is_left_and_the_client_works_without_us(bench):
    seat, name = bench.seat, bench.seat.name
    bench.tally("install", name, "--yes", "--allow")
    first = seat.headless(script({"text": "one"}))
    assert first.code == 0, first.err + seat.model.told()
    assert eventually(bench.configured)
    bench.tally("install", name, "--remove", "--yes")
    assert bench.configured() == []
    done = seat.headless(script({"text": "two"}))
    assert done.code == 0, done.err + seat.model.told()
    last = json.dumps(seat.model.turns[-1].body).replace(str(seat.folder), "where the tests keep the client")
    assert "tallystick" not in last
    assert set(DRIVEN) <= set(CLIENTS)
