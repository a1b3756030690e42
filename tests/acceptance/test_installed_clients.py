"""Real coding clients after `tally install`: server and hooks are loaded; a task is seen, taken and answered."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.support.clients.pins import CLIENTS
from tests.support.clients.seat import Seat
from tests.support.hosts import RUN_TALLY, eventually
from tests.support.model import Model, Rule, script

SETTINGS = """
person_verbs = "uid"
[limits]
wake_batch_seconds = 0.05
wake_proof_seconds = 20
sessions_seconds = 0.2
"""
DRIVEN = ("claude", "codex", "gemini", "opencode", "pi")


class Bench:
    """A client in its private home, with a host of its own and a repository to work in."""

    def __init__(self, seat):
        self.seat = seat
        self.home = seat.base / "tally home 家"
        self.home.mkdir()
        (self.home / "config.toml").write_text(SETTINGS)
        (self.home / "config.toml").chmod(0o600)
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


@contextmanager
def benched(name):
    with Model() as model, Seat(name, model) as seat:
        made = Bench(seat)
        try:
            yield made
        finally:
            made.tally("down")


@pytest.fixture(params=DRIVEN)
def bench(request):
    with benched(request.param) as made:
        yield made


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


@pytest.mark.parametrize("name", ["claude", "pi"])
def test_an_idle_session_is_woken_by_what_was_installed_and_answers_with_our_tools(name):
    with benched(name) as bench:
        bench.tally("install", name, "--yes", "--allow", "--as", "pen")
        steps = [
            {"mcp": "tallystick.take", "args": {"task": "{{match.1}}"}},
            {"mcp": "tallystick.submit", "args": {"task": "{{match.1}}", "text": "Counted: 42"}},
            {"text": "I looked."},
        ]
        bench.seat.model.rules.append(Rule(r"It is about: (tsk_\w+)", steps))
        with bench.seat.terminal():
            eventually(lambda: bench.says("agents")["agents"][0]["promise"] == "live", "a hook that waits", 60)
            task = bench.says("ask", "@pen", "Count", "--expect", "answer")["task_id"]
            done = eventually(lambda: (s := bench.says("show", task))["state"] == "completed" and s, "an answer", 60)
            assert done["result"] == "Counted: 42", bench.seat.model.told()


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_hook_that_reads_nothing_does_no_harm_to_a_client_that_says_a_lot(name):
    """Ours ends before it has read what the client writes, more than a pipe holds."""
    with benched(name) as bench:
        bench.tally("install", name, "--yes", "--allow", "--as", "pen")
        bench.seat.model.rules.append(Rule("say a lot", [{"text": "long " * 60_000}]))
        done = bench.seat.headless("say a lot")
        assert "long long" in done.out
        assert done.code == 0, done.err
        assert "hook" not in done.err.lower()
        assert "pipe" not in (done.out + done.err).lower()


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_doctor_proves_with_a_canary_what_really_works(name):
    with benched(name) as bench:
        bench.tally("install", name, "--yes", "--allow", "--as", "pen")
        steps = [
            {"mcp": "tallystick.take", "args": {"task": "{{match.1}}"}},
            {"mcp": "tallystick.submit", "args": {"task": "{{match.1}}", "text": "here"}},
            {"text": "I answered."},
        ]
        model = bench.seat.model
        model.rules += [Rule("good morning", [{"text": "Morning."}]), Rule(r"It is about: (tsk_\w+)", steps)]
        closed = bench.says("doctor", "--canary", "@pen", "--seconds", "1")["findings"][-1]
        assert (closed["check"], closed["ok"]) == ("canary @pen", False)
        assert "promised mailbox" in closed["did"]
        assert "open" in closed["fix"]
        assert bench.says("board")["tasks"] == []  # nothing of it is left
        with bench.seat.open() as screen:
            if name == "codex":
                screen.say("good morning")
                screen.wait("Morning.")
            eventually(lambda: bench.says("agents", "pen")["promise"] == "live", "an entry", 60)
            found = bench.says("doctor", "--canary")["findings"][-1]
        assert found["ok"], (found, model.told())
        assert "promised live" in found["did"]
        assert "submitted" in found["saw"]


def test_a_closed_client_is_promised_no_more_than_its_mailbox_and_a_killed_one_gives_back_what_it_held(bench):
    seat, name = bench.seat, bench.seat.name
    bench.tally("install", name, "--yes", "--allow", "--as", "pen")
    receipt = bench.says("ask", "@pen", "Look at the parser", "--expect", "answer")
    task = receipt["task_id"]
    assert receipt["promise"] == "mailbox"
    take = {"mcp": "tallystick.take", "args": {"task": task}}
    child = seat.begin(script(take, {"text": "never said", "gate": "held"}))
    eventually(lambda: bench.says("show", task)["state"] == "working", "the take", 120)
    seat.end()
    child.wait()
    seat.model.open("held")
    eventually(lambda: bench.says("show", task)["state"] == "submitted", "the task is due again", 60)
    assert bench.says("show", task)["attempt"] == 2
    hand_in = {"mcp": "tallystick.submit", "args": {"task": task, "text": "It is fine."}}
    done = seat.headless(script(take, hand_in, {"text": "done"}))
    assert done.code == 0, done.err + seat.model.told()
    shown = bench.says("show", task)
    assert (shown["state"], shown["result"]) == ("completed", "It is fine."), seat.model.told()
    assert len(bench.events("ResultHandedIn")) == 1
    assert [fact["fact"] for fact in shown["facts"]][-1] == "submitted"


def test_a_busy_client_is_not_disturbed_and_told_at_the_end_of_its_turn(bench):
    seat, name = bench.seat, bench.seat.name
    bench.tally("install", name, "--yes", "--allow", "--as", "pen")
    model = seat.model
    task = {}

    def steps(seen, number):
        done = [
            {"mcp": "tallystick.take", "args": {"task": task["id"]}},
            {"mcp": "tallystick.submit", "args": {"task": task["id"], "text": "It is fine."}},
        ]
        return done[number] if number < len(done) else {"text": "I looked."}

    busy = [{"shell": "true"}, {"text": "I was busy.", "gate": "busy"}]
    model.rules += [Rule("new for @pen", steps), Rule("be busy", busy)]
    child = seat.begin("be busy")
    model.wait_for(lambda request: request.answer and request.answer.gate == "busy")
    task["id"] = bench.says("ask", "@pen", "Look at the parser", "--expect", "answer")["task_id"]
    assert bench.says("show", task["id"])["state"] == "submitted"
    model.open("busy")
    child.wait(180)
    if name == "opencode":  # `opencode run` ends with its turn, whatever waits: it is told at the next one
        assert bench.says("show", task["id"])["state"] == "submitted"
        seat.headless("good morning")
    shown = bench.says("show", task["id"])
    assert (shown["state"], shown["result"]) == ("completed", "It is fine."), model.told()
    assert len(bench.events("ResultHandedIn")) == 1


@pytest.mark.parametrize(("name", "words"), [("claude", ()), ("codex", ()), ("opencode", ("--port", "0")), ("pi", ())])
def test_what_a_person_has_half_typed_survives_a_wake_of_an_idle_session(name, words):
    with benched(name) as bench:
        bench.tally("install", name, "--yes", "--allow", "--as", "pen")
        steps = [
            {"mcp": "tallystick.take", "args": {"task": "{{match.1}}"}},
            {"mcp": "tallystick.submit", "args": {"task": "{{match.1}}", "text": "Counted: 42"}},
            {"text": "I looked."},
        ]
        model = bench.seat.model
        model.rules += [Rule("good morning", [{"text": "Morning."}]), Rule(r"It is about: (tsk_\w+)", steps)]
        with bench.seat.open(*words) as screen:
            screen.say("good morning")
            screen.wait("Morning.")
            eventually(lambda: bench.says("agents", "pen")["promise"] == "live", "an entry", 90)
            screen.type("half a thought")
            task = bench.says("ask", "@pen", "Count", "--expect", "answer")["task_id"]
            done = eventually(lambda: (s := bench.says("show", task))["state"] == "completed" and s, "an answer", 90)
            assert done["result"] == "Counted: 42", model.told()
            assert "half a thought" in screen.screen()
        facts = {fact["fact"]: fact["evidence"] for fact in done["facts"]}
        assert {"claimed", "admitted", "recorded", "working", "submitted"} <= set(facts)
