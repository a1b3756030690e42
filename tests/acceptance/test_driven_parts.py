"""A session that asked another agent for a part of its task and ended its turn: it waits, and is told when the part
has ended."""

from __future__ import annotations

import pytest

from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually

ASK = {"call": "ask", "args": {"to": "@worker", "subject": "a part", "body": "Please."}}


@pytest.fixture
def stage():
    with Stage(session_lease_seconds=3.0, wake_batch_seconds=0.05) as stage:
        assert stage.start()
        stage.driven(more="sandbox = false\ncanary = false\n")
        stage.call("join", name="worker")
        yield stage


def asked(stage, *more):
    """A task whose session asked for a part and ended its turn: both."""
    task = stage.ask(TAKE, ASK, *more, {"say": "I wait for it."})
    eventually(lambda: "turn ended: end_turn" in whats(stage, task), "the end of its turn")
    return task, stage.show(task)["waiting_on"][0]


def whats(stage, task):
    return [line["what"] for line in stage.show(task)["history"]]


def prompts(stage, task):
    return [p for p in stage.log("prompt") if task in p["text"]]


def finish(stage, part):
    stage.call("take", "worker", task=part)
    stage.call("submit", "worker", task=part, text="The part is done.")


def test_it_is_not_reminded_and_is_prompted_when_the_part_has_ended(stage: Stage) -> None:
    stage.plan(again=[{"call": "read", "args": {"task": "@last"}}, DONE])
    task, part = asked(stage)
    shown = stage.show(task)
    assert (shown["state"], shown["waiting_on"]) == ("working", [part])
    assert len(prompts(stage, task)) == 1
    finish(stage, part)
    shown = stage.until(task, "completed")
    assert [w for w in whats(stage, task) if w.startswith("prompted")] == ["prompted: work", "prompted: parts"]
    told = [p for p in stage.log("prompt") if "Look at it with your `inbox` tool" in p["text"]]
    assert not told, "the same is not told twice"


def test_a_question_about_the_part_is_told_while_it_waits(stage: Stage) -> None:
    task, part = asked(stage)
    answer = {"call": "answer", "args": {"task": part, "text": "The second."}}
    stage.plan(woken=[answer], again=[DONE])
    stage.call("take", "worker", task=part)
    stage.call("question", "worker", task=part, text="Which one?")
    stage.until(part, "working/answered")
    assert stage.show(task)["state"] == "working"
    stage.call("submit", "worker", task=part, text="The part is done.")
    stage.until(task, "completed")
    assert len({p["session"] for p in stage.log("prompt")}) == 1


def test_two_parts_are_told_as_they_end(stage: Stage) -> None:
    second = {"call": "ask", "args": {"to": "@worker", "subject": "another part", "body": "Please."}}
    stage.plan(again=[{"say": "One is there."}])
    task, part = asked(stage, second)
    other = next(p for p in stage.show(task)["waiting_on"] if p != part)
    finish(stage, part)
    eventually(lambda: whats(stage, task).count("turn ended: end_turn") == 2, "the first one is told")
    assert stage.show(task)["waiting_on"] == [other]
    stage.plan(again=[DONE])
    finish(stage, other)
    stage.until(task, "completed")
    assert whats(stage, task).count("prompted: parts") == 2


def test_who_has_no_part_left_and_hands_in_nothing_is_reminded_as_ever(stage: Stage) -> None:
    stage.plan(again=[{"say": "Hm."}])
    task, part = asked(stage)
    finish(stage, part)
    stage.until(task, "input_required/question")
    assert "prompted: reminder" in whats(stage, task)


def test_a_host_that_is_killed_meanwhile_waits_on(stage: Stage) -> None:
    stage.plan(again=[DONE])
    task, part = asked(stage)
    stage.kill()
    assert stage.start()
    eventually(lambda: stage.log("load"), "its conversation is loaded again")
    assert stage.show(task)["waiting_on"] == [part]
    finish(stage, part)
    stage.until(task, "completed")
    assert [w for w in whats(stage, task) if w.startswith("prompted")] == ["prompted: work", "prompted: parts"]
    stage.stop()
    stage.audit()


def test_a_cancel_ends_the_wait_and_the_part(stage: Stage) -> None:
    task, part = asked(stage)
    stage.call("cancel", task=task, text="")
    stage.until(task, "canceled")
    stage.until(part, "canceled")
    stage.plan()
    stage.until(stage.ask(TAKE, DONE), "completed")
