"""Host, adapter or client killed at each fact of a driven delivery: the record stays true, nothing is done twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.driven import DONE, TAKE, Stage, do
from tests.support.hosts import eventually
from tests.support.places import keepers

EFFECT = {"run": "echo once >> effects.txt"}
AGAIN = [TAKE, {"call": "submit", "args": {"text": "I went on."}}]


@pytest.fixture
def stage():
    with Stage(session_lease_seconds=3.0) as stage:
        yield stage


def kill_client(stage):
    """The client's process, with -9; what it left is its keeper's to end."""
    for note in keepers(stage.path):
        if note["main"] > 1:
            os.kill(note["main"], signal.SIGKILL)


def orphans(stage):
    """Processes that still run in work trees of the home, or were started for its agents."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().decode() if folder.name.isdigit() else ""
        except OSError:
            continue
        if "acp_agent.py" in words and str(stage.folder) in words:
            found.append(folder.name)
    return found


FACTS = {
    # what the session does before it is cut off; how far the fact is that was seen then
    "claimed": ([{"wait": "never"}], "claimed"),
    "recorded": ([{"say": "I begin."}, {"wait": "never"}], "recorded"),
    "working": ([TAKE, EFFECT, {"wait": "never"}], "working"),
    "submitted": ([TAKE, EFFECT, DONE, {"wait": "never"}], "submitted"),
}


@pytest.mark.parametrize("who", ["host", "client"])
@pytest.mark.parametrize("fact", FACTS)
def test_whoever_is_killed_at_whatever_fact_the_task_ends_once_and_nothing_is_left(stage, who, fact) -> None:
    assert stage.start()
    stage.driven()
    stage.plan(again=AGAIN)
    steps, seen = FACTS[fact]
    task = stage.ask(*steps)
    eventually(lambda: seen in stage.facts(task) and [p for p in stage.log("prompt") if task in p["text"]])
    if fact == "working":
        eventually(lambda: stage.log("ran"))
    prompts = len([p for p in stage.log("prompt") if "A task for you" in p["text"] and task in p["text"]])
    assert prompts == 1
    if who == "host":
        stage.kill()
        eventually(lambda: not orphans(stage), "no orphan")
        assert stage.start()
    else:
        kill_client(stage)
    shown = stage.until(task, "completed", seconds=60)
    handed_over = [p for p in stage.log("prompt") if "A task for you" in p["text"] and task in p["text"]]
    assert len(handed_over) == 1, "replayed history is no new work, and nothing is handed over twice"
    assert [line["what"] for line in shown["history"]].count("handed in") == 1
    if fact != "submitted":
        assert shown["result"] == "I went on."
        assert "prompted: resumed" in [line["what"] for line in shown["history"]]
    stage.stop()
    eventually(lambda: not orphans(stage), "no orphan")
    stage.audit()


def test_a_prompt_that_never_arrived_is_handed_over_again(stage) -> None:
    assert stage.start()
    stage.driven(more="canary = false\n")
    stage.plan(dies_before=True)
    task = stage.ask(TAKE, DONE)
    stage.until_log("prompt")
    eventually(lambda: "did not begin" in [line["what"] for line in stage.show(task)["history"]])
    stage.plan()
    shown = stage.until(task, "completed", seconds=60)
    assert shown["attempts"][-1]["retries"] >= 1


def test_what_no_history_tells_waits_for_a_person(stage) -> None:
    assert stage.start()
    stage.driven()
    stage.plan(forgets=True)
    task = stage.ask({"say": "I begin."}, TAKE, EFFECT, {"die": 9})
    shown = stage.until(task, "input_required/unverified", seconds=60)
    assert shown["unverified"]
    stage.plan()
    code, _, err = stage.tally("verify", task, "--settle", "redo", "I looked: nothing was done.")
    assert code == 0, err
    eventually(
        lambda: len([p for p in stage.log("prompt") if "A task for you" in p["text"] and task in p["text"]]) == 2
    )


def test_a_turn_that_fails_again_and_again_is_a_question_that_quotes_its_client(stage) -> None:
    assert stage.start()
    stage.driven()
    broken = {"error": [-32603, "the inner process is gone", None]}
    stage.plan(again=[broken])
    task = stage.ask(TAKE, EFFECT, broken)
    shown = stage.until(task, "input_required/question", seconds=60)
    assert "the inner process is gone" in shown["question"]
    whats = [line["what"] for line in shown["history"]]
    assert whats.count("prompted: work") == 1
    assert whats.count("prompted: resumed") == 2
    assert len(stage.log("load")) == 2, "each time another process of it went on"
    stage.plan(again=AGAIN)
    stage.call("answer", task=task, text="Try it again.")
    stage.until(task, "completed", seconds=60)


def test_a_client_that_dies_again_and_again_is_for_a_person_to_look_at(stage) -> None:
    assert stage.start()
    stage.driven()
    stage.plan(again=[{"die": 9}])
    task = stage.ask(TAKE, EFFECT, {"die": 9})
    shown = stage.until(task, "input_required/unverified", seconds=60)
    assert [line["what"] for line in shown["history"]].count("prompted: resumed") == 2
    stage.plan()
    code, _, err = stage.tally("verify", task, "--settle", "done", "I looked: it is there.")
    assert code == 0, err
    stage.until(task, "completed")


def test_a_client_that_cannot_load_is_never_shown_as_gone_on_with(stage) -> None:
    assert stage.start()
    stage.driven()
    stage.plan(loads=False)
    task = stage.ask({"say": "I begin."}, TAKE, {"die": 9})
    stage.until(task, "input_required/unverified", seconds=60)


@pytest.mark.parametrize(
    "place", ["deliver.before_lease", "deliver.after_lease", "deliver.before_report", "process.before_launch"]
)
def test_a_host_killed_at_each_step_of_a_dispatch_hands_over_once(stage, place) -> None:
    stage.start(kill={place: 1})
    try:
        stage.driven()
        task = stage.ask(TAKE, DONE)
    except Exception:
        task = ""
    eventually(stage.is_dead, "its end") if not task else stage.host.wait(60)
    assert stage.start()
    if not task:
        stage.driven()
        task = stage.ask(TAKE, DONE)
    stage.until(task, "completed", seconds=60)
    assert len([p for p in stage.log("prompt") if "A task for you" in p["text"] and task in p["text"]]) == 1


def test_a_sent_message_with_the_same_key_is_one_task_in_one_session(stage) -> None:
    assert stage.start()
    stage.driven()
    ids = {stage.call("ask", address="@reviewer", title="t", body=do(TAKE, DONE), key="k")["task_id"] for _ in range(3)}
    assert len(ids) == 1
    stage.until(ids.pop(), "completed")
    assert len([p for p in stage.log("prompt") if "A task for you" in p["text"]]) == 1


def test_a_conversation_that_its_client_forgot_is_followed_by_a_new_session(stage) -> None:
    assert stage.start()
    stage.driven()
    first = stage.until(stage.ask(TAKE, DONE), "completed")["attempts"][0]["session"]
    stage.stop()
    for kept in stage.folder.glob("*-*.jsonl"):
        kept.unlink()
    assert stage.start()
    shown = stage.until(stage.ask(TAKE, DONE), "completed", seconds=60)
    assert shown["attempts"][0]["session"] != first
