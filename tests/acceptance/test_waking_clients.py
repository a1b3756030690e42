"""Real clients, asleep in their real terminals, are woken: nobody touches a keyboard, and the record says how far."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from contextlib import suppress

import pytest

from tests.support.clients.seat import Seat
from tests.support.hosts import ROOT, RUN_TALLY, eventually
from tests.support.model import Model, Rule
from tests.support.town import Town

SOON = {"wake_batch_seconds": 0.05, "wake_retry_seconds": [0.5, 0.5], "wake_proof_seconds": 60, "sessions_seconds": 0.2}
HOOK = ROOT / "tallystick" / "_hook.py"


@pytest.fixture
def town():
    with Town(**SOON) as town:
        yield town


@pytest.fixture
def model():
    with Model() as server:
        yield server


def tally(town: Town, *words: str) -> str:
    """A command line for the client's shell tool."""
    argv = [sys.executable, "-c", RUN_TALLY, *words]
    return f"TALLY_HOME={shlex.quote(str(town.path))} {shlex.join(argv)}"


def hook(town: Town, client: str, event: str) -> str:
    argv = [sys.executable, "-I", "-S", str(HOOK), client, event]
    return f"TALLY_HOME={shlex.quote(str(town.path))} {shlex.join(argv)}"


def promise(town: Town, name: str) -> str:
    return next(a["promise"] for a in town.call("agents")["agents"] if a["name"] == f"@{name}")


def said(town: Town, task: str) -> list[str]:
    events = town.call("trace", task=task)["events"]
    return [line["what"] for line in events if "wake" in line["what"]]


def looks(town: Town) -> Rule:
    """What a model does that was told to look: it takes the task and hands in an answer."""
    return Rule(
        r"It is about: (tsk_\w+)",
        [
            {"shell": tally(town, "take", "{{match.1}}", "--json")},
            {"shell": tally(town, "submit", "{{match.1}}", "--text", "Counted: 42", "--json")},
            {"text": "I looked."},
        ],
    )


def claude_seat(town: Town, model: Model) -> Seat:
    waits = hook(town, "claude", "wait")
    return Seat("claude", model, hooks={"SessionStart": waits, "Stop": waits}, rewake=("SessionStart", "Stop"))


def facts(town: Town, task: str) -> dict[str, str]:
    return {fact["fact"]: fact["evidence"] for fact in town.show(task)["facts"]}


def test_an_idle_claude_is_woken_takes_and_hands_in(town: Town, model: Model) -> None:
    name = town.agent("pen", client="claude")
    model.rules.append(looks(town))
    with claude_seat(town, model) as seat, seat.open() as screen:
        eventually(lambda: promise(town, name) == "live", "a hook that waits")
        screen.type("half a thought")
        receipt = town.ask(name, title="Count the files")
        assert receipt["promise"] == "live"
        task = receipt["task_id"]
        town.until(task, "completed/unreviewed", seconds=60)
        eventually(lambda: "wake completed" in said(town, task), lambda: said(town, task), 60)
        assert said(town, task) == [f"about to wake @{name}", "wake queued", "wake started", "wake completed"]
        assert "half a thought" in screen.screen()
        eventually(lambda: ".jsonl at byte" in facts(town, task)["recorded"], lambda: facts(town, task), 60)
        eventually(lambda: promise(town, name) == "live", "armed again by the end of the turn")
        again = town.task(name, title="Once more")
        town.until(again, "completed/unreviewed", seconds=60)


def codex_seat(town: Town, model: Model) -> Seat:
    return Seat("codex", model, hooks={event: hook(town, "codex", word) for event, word in CODEX.items()})


CODEX = {"SessionStart": "session", "UserPromptSubmit": "prompt", "Stop": "stop"}


def test_an_idle_codex_is_woken_takes_and_hands_in(town: Town, model: Model) -> None:
    name = town.agent("pen", client="codex")
    model.rules += [Rule("hello there", [{"text": "Hello."}]), looks(town)]
    with codex_seat(town, model) as seat, seat.open() as screen:
        screen.say("hello there")
        screen.wait("Hello.")
        eventually(lambda: promise(town, name) == "live", lambda: (town.call("agents")["agents"], screen.screen()), 60)
        screen.type("half a thought")
        task = town.task(name, title="Count the files")
        town.until(task, "completed/unreviewed", seconds=60)
        eventually(lambda: "wake completed" in said(town, task), lambda: said(town, task), 60)
        assert said(town, task)[:2] == [f"about to wake @{name}", "wake queued"]
        assert "half a thought" in screen.screen()
        eventually(lambda: ".jsonl at byte" in facts(town, task)["recorded"], lambda: facts(town, task), 60)


def test_a_busy_claude_is_told_inside_of_its_turn_or_after_it_and_never_twice(town: Town, model: Model) -> None:
    name = town.agent("pen", client="claude")
    busy = [{"shell": "true"}, {"shell": "true", "gate": "busy"}, {"text": "I was busy."}]
    model.rules += [Rule("be busy", busy), looks(town)]
    with claude_seat(town, model) as seat, seat.open() as screen:
        eventually(lambda: promise(town, name) == "live", "a hook that waits")
        screen.say("be busy")
        model.wait_for(lambda request: request.answer and request.answer.gate == "busy")
        task = town.task(name, title="Count the files")
        eventually(lambda: "wake queued" in said(town, task), lambda: said(town, task))
        model.open("busy")
        town.until(task, "completed/unreviewed", seconds=60)
        eventually(lambda: said(town, task)[-1] == "wake completed", lambda: said(town, task), 60)
        assert said(town, task).count("wake started") == 1


def test_a_claude_that_is_killed_while_it_works_for_us_gives_back_and_the_next_one_is_woken(town, model) -> None:
    name = town.agent("pen", client="claude")
    take = {"shell": tally(town, "take", "{{match.1}}", "--json")}
    model.rules.append(Rule(r"It is about: (tsk_\w+)", [take, {"text": "never", "gate": "never"}]))
    with claude_seat(town, model) as seat, seat.terminal():
        eventually(lambda: promise(town, name) == "live", "a hook that waits")
        task = town.task(name, title="Count the files")
        town.until(task, "working", seconds=60)
        kill(seat)
        shown = town.until(task, "submitted/new", seconds=60)
        assert shown["attempt"] == 2
        eventually(lambda: said(town, task)[-1] == "wake unverified", lambda: said(town, task))
    assert promise(town, name) == "mailbox"
    model.rules[:] = [looks(town)]
    with claude_seat(town, model) as seat, seat.terminal():
        town.until(task, "completed/unreviewed", seconds=90)


def kill(seat: Seat) -> None:
    """All of it, at once."""
    while found := seat.processes():
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_codex_whose_turn_runs_is_left_alone_until_it_ends(town: Town, model: Model) -> None:
    name = town.agent("pen", client="codex")
    busy = [{"shell": "true"}, {"text": "I was busy.", "gate": "busy"}]
    model.rules += [Rule("hello there", [{"text": "Hello."}]), Rule("be busy", busy), looks(town)]
    with codex_seat(town, model) as seat, seat.open() as screen:
        screen.say("hello there")
        screen.wait("Hello.")
        eventually(lambda: promise(town, name) == "live", "its thread", 60)
        screen.say("be busy")
        model.wait_for(lambda request: request.answer and request.answer.gate == "busy")
        eventually(lambda: promise(town, name) == "next_turn", "that it is in a turn", 60)
        receipt = town.ask(name, title="Count the files")
        assert receipt["promise"] == "next_turn"
        assert said(town, receipt["task_id"]) == []
        model.open("busy")
        town.until(receipt["task_id"], "completed/unreviewed", seconds=90)


def test_a_codex_that_is_closed_is_not_promised(town: Town, model: Model) -> None:
    name = town.agent("pen", client="codex")
    model.rules += [Rule("hello there", [{"text": "Hello."}]), looks(town)]
    with codex_seat(town, model) as seat, seat.open() as screen:
        screen.say("hello there")
        screen.wait("Hello.")
        eventually(lambda: promise(town, name) == "live", "its thread", 60)
        kill(seat)
        eventually(lambda: promise(town, name) == "mailbox", "that it is gone")
        task = town.task(name)
        assert said(town, task) == []
