"""Sessions and agents that sleep are told to look again: by a command, by a hook that waits; and what became of it."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.hosts import eventually
from tests.support.town import Town

SOON = {"wake_batch_seconds": 0.05, "wake_retry_seconds": [0.2, 0.2], "wake_busy_seconds": 0.2, "sessions_seconds": 0.1}
TAKES = """
import json, subprocess, sys
told = json.load(sys.stdin)
open(sys.argv[1], "a").write(json.dumps(told) + "\\n")
"""


@pytest.fixture(scope="module")
def town():
    with Town(**SOON) as town:
        yield town


def woken(town: Town, name: str, script: str = TAKES, **form):
    """An agent that a command wakes, and the file in which it notes what it was told."""
    told = town.place / f"{name}.told"
    program = town.place / f"{name}.py"
    program.write_text(script)
    town.call("join", name=name, wake=f"{sys.executable} {program} {told}", **form)
    eventually(lambda: promise(town, name) == "live", "its entry")
    return told


def promise(town: Town, name: str) -> str:
    return next(a["promise"] for a in town.call("agents")["agents"] if a["name"] == f"@{name}")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def said(town: Town, task: str) -> list[str]:
    """What the trace of a task says of wakes."""
    events = town.call("trace", task=task)["events"]
    return [line["what"] for line in events if "wake" in line["what"] or line["what"].startswith("woken")]


def test_a_task_wakes_its_agent_and_says_only_to_look_again(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    receipt = town.ask(name, body="SECRET BODY", title="Look at this")
    assert receipt["promise"] == "live"
    (wake,) = eventually(lambda: lines(told), "the wake")
    assert receipt["task_id"] in wake["items"]
    assert wake["wake_id"] in wake["text"]
    assert '"Look at this"' in wake["text"]
    assert "SECRET BODY" not in json.dumps(wake)
    eventually(lambda: said(town, receipt["task_id"])[-1:] == ["wake completed"], said(town, receipt["task_id"]))
    assert said(town, receipt["task_id"]) == ["about to wake @" + name, "wake started", "wake completed"]


def test_what_comes_in_one_moment_is_one_wake(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    tasks = {town.task(name) for _ in range(4)}
    eventually(lambda: {item for wake in lines(told) for item in wake["items"]} >= tasks, "all of them")
    assert len(lines(told)) <= 2


def test_a_command_that_fails_is_seen_in_the_trace_and_tried_again_a_few_times(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name, TAKES + "sys.exit('no such model')\n")
    task = town.task(name)
    eventually(lambda: said(town, task).count("wake failed") == 3, "three attempts")
    events = town.call("trace", task=task)["events"]
    assert any("no such model" in line["error"] for line in events if line["what"] == "wake failed")
    assert len(lines(told)) == 3
    newer = town.task(name)
    eventually(lambda: said(town, newer), "another wake for something newer")


def test_an_agent_that_is_paused_is_not_woken_until_it_is_resumed(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    town.says("pause", f"@{name}")
    assert town.ask(name)["promise"] == "mailbox"
    other = town.name("pen")
    also = woken(town, other)
    town.task(other)
    eventually(lambda: lines(also), "the other one")
    assert lines(told) == []
    town.says("resume", f"@{name}")
    eventually(lambda: lines(told), "the wake after resume")


def test_a_result_wakes_the_agent_that_waits_for_it(town: Town) -> None:
    name, worker = town.name("pen"), town.agent("worker")
    told = woken(town, name)
    task = town.task(worker, name)
    town.call("take", worker, task=task)
    town.call("question", worker, task=task, text="Which?")
    eventually(lambda: len(lines(told)) == 1, "a wake for the question")
    town.call("answer", name, task=task, text="That.")
    town.call("submit", worker, task=task, text="Done.")
    eventually(lambda: len(lines(told)) == 2, "a wake for the result")
