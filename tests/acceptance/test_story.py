"""The founding story with two real clients in their terminals: one sentence is typed, and from then on nobody touches a
keyboard. ask → woken → read → take → question → answer → submit → changes → submit → approve."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.support.clients.seat import Seat
from tests.support.hosts import RUN_TALLY, eventually
from tests.support.model import Model, Rule

SETTINGS = """
person_verbs = "uid"
[limits]
wake_batch_seconds = 0.05
wake_proof_seconds = 20
sessions_seconds = 0.2
"""
ASKED = r"new for @|It is about: tsk_"
PLACES = {
    "submitted/new": "→ read, then take",
    "submitted/rework": "→ read what is wanted",
    "working/answered": "→ read the answer",
    "input_required/question": "→ answer",
    "input_required/review": "→ read, then review",
}
SECONDS = 120
HANDED = {"review": True, "files": ["parser.py"]}


def waiting(text):
    """(task, place) of the first turn in what `inbox` answered, as JSON or as words."""
    found = re.search(r"tsk_\w+", text)
    for place, words in PLACES.items():
        state, reason = place.split("/")
        said = re.search(rf'"state":\s*"{state}",\s*"reason":\s*"{reason}"', text.replace("\\", ""))
        if found and (said or words in text):
            return found[0], place
    return (found[0] if found else ""), ""


def worker(acts):
    """A model that looks into its inbox when it is told to, and does what stands there."""

    def steps(seen, number):
        if number == 0:
            return {"mcp": "tallystick.inbox", "args": {}}
        results = [item.text for item in seen.items if item.kind == "result"][-number:]
        task, place = waiting(results[0]) if results else ("", "")
        todo = acts(place, results)
        if number - 1 < len(todo):
            tool, arguments = todo[number - 1]
            return {"mcp": f"tallystick.{tool}", "args": {"task": task, **arguments}}
        return {"text": f"Done with {place or 'nothing'}."}

    return steps


def author(place, results):
    """Answers what it is asked, wants one change, and approves the second result."""
    if place == "input_required/question":
        return [("answer", {"text": "The one in parser.py."})]
    if place == "input_required/review":
        again = len(results) > 1 and "Checked again" in results[1]
        verdict = {"verdict": "approve"} if again else {"verdict": "changes", "text": "Look at the error path too."}
        return [("read", {}), ("review", verdict)]
    return []


def reviewer(place, results):
    """Asks back before it works, and hands in for a review."""
    acts = {
        "submitted/new": [("read", {}), ("take", {}), ("question", {"text": "Which function do you mean?"})],
        "working/answered": [("read", {}), ("submit", {"text": "It is sound.", **HANDED})],
        "submitted/rework": [("take", {}), ("submit", {"text": "Checked again: the error path too.", **HANDED})],
    }
    return acts.get(place, [])


class Stage:
    """Two clients of one machine that share a host and a repository."""

    def __init__(self, stack):
        self.models = {name: stack.enter_context(Model()) for name in ("claude", "codex")}
        self.seats = {}
        first = self.seats["claude"] = stack.enter_context(Seat("claude", self.models["claude"]))
        self.seats["codex"] = stack.enter_context(Seat("codex", self.models["codex"], cwd=first.cwd))
        self.home = first.base / "tally"
        self.home.mkdir()
        (self.home / "config.toml").write_text(SETTINGS)
        for seat in self.seats.values():
            seat.env["TALLY_HOME"] = str(self.home)
        (first.cwd / "parser.py").write_text("def parse():\n    return 1\n")
        git = "git init -q . && git add . && git -c user.name=a -c user.email=a@b.c commit -q -m first"
        subprocess.run(git, shell=True, cwd=first.cwd, check=True, env=first.env)
        stack.callback(self.tally, "down")

    def tally(self, *words, seat="claude"):
        done = subprocess.run(
            [sys.executable, "-c", RUN_TALLY, *words],
            cwd=self.seats["claude"].cwd,
            env=self.seats[seat].env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def says(self, *words):
        return json.loads(self.tally(*words, "--json"))

    def told(self):
        return "\n".join(f"--- {name}\n{model.told()}" for name, model in self.models.items())

    def is_live(self, name):
        return self.says("agents", name)["promise"] == "live"


@pytest.fixture
def stage():
    with ExitStack() as stack:
        yield Stage(stack)


def test_two_clients_do_a_whole_review_and_nobody_touches_a_keyboard(stage):
    stage.tally("install", "claude", "--yes", "--allow", "--as", "author")
    stage.tally("install", "codex", "--yes", "--allow", "--as", "reviewer", seat="codex")
    ask = {"to": "@reviewer", "subject": "Look at this change", "inputs": ["HEAD"], "expect": "finding"}
    stage.models["claude"].rules += [
        Rule("look at this change please", [{"mcp": "tallystick.ask", "args": ask}, {"text": "I asked."}]),
        Rule(ASKED, worker(author)),
    ]
    stage.models["codex"].rules += [Rule("good morning", [{"text": "Morning."}]), Rule(ASKED, worker(reviewer))]
    with stage.seats["claude"].open() as one, stage.seats["codex"].open() as two:
        two.say("good morning")
        two.wait("Morning.")
        eventually(lambda: stage.is_live("reviewer") and stage.is_live("author"), "both can be woken", SECONDS)
        one.say("@reviewer look at this change please")  # the last that is typed

        def task():
            found = stage.says("board", "--all")["tasks"]
            return found and found[0]["state"] == "completed" and found[0]

        try:
            done = eventually(task, "the approval", SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{stage.told()}\n{one.screen()}\n{two.screen()}") from None
    shown = stage.says("show", done["task_id"])
    assert (shown["state"], shown["reason"]) == ("completed", "approved")
    assert shown["result"].startswith("Checked again")
    moves = [line["what"] for line in shown["history"] if line["what"] != "has the body"]
    assert moves == [
        "asked @reviewer",
        "took it",
        "asked back",
        "answered",
        "handed in",
        "wants changes",
        "took it",
        "handed in",
        "approved",
    ]
    facts = {fact["fact"]: fact for fact in shown["facts"]}
    assert {"accepted", "persisted", "claimed", "admitted", "recorded", "working", "submitted"} <= set(facts)
    assert ".jsonl at byte" in facts["recorded"]["evidence"]
    assert len(stage.says("board", "--all")["tasks"]) == 1
