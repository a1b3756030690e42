"""Driven agents as reviewers and as requesters: what comes to them is told to a session of theirs by a prompt."""

from __future__ import annotations

import pytest

from tallystick.core.identity import short
from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually

WOKEN = "Look at it with your `inbox` tool"


@pytest.fixture(scope="module")
def shared():
    with Stage(wake_batch_seconds=0.05, wake_retry_seconds=[0.1, 0.2, 30.0]) as stage:
        assert stage.start()
        stage.driven()
        stage.call("join", name="worker")
        yield stage


@pytest.fixture
def stage(shared):
    """One host for all; each test has its own plan, and begins when all is quiet."""
    shared.plan()
    return shared


def woken(stage, task):
    """The prompts by which a session was told to look at a task."""
    return [p for p in stage.log("prompt") if WOKEN in p["text"] and short(task) in p["text"]]


def said(stage, task):
    """What the trace says of wakes about a task."""
    events = stage.call("trace", task=task)["events"]
    return [line["what"] for line in events if "wake" in line["what"]]


def result_for_review(stage, **form):
    """A pull agent's result waits for the driven reviewer."""
    form = {"title": "a change", "body": "Please.", "review_by": "@reviewer", **form}
    task = stage.call("ask", address="@worker", **form)["task_id"]
    stage.call("take", "worker", task=task)
    return task


def test_a_driven_reviewer_is_prompted_for_the_review_and_decides(stage: Stage) -> None:
    task = result_for_review(stage)
    review = {"task": task, "verdict": "approve", "text": "It holds."}
    read = {"call": "read", "args": {"task": task}}
    stage.plan(woken=[{"say": "I look."}, {"call": "inbox"}, read, {"call": "review", "args": review}])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    shown = stage.until(task, "completed")
    assert shown["reason"] == "approved"
    assert len(woken(stage, task)) == 1
    eventually(lambda: said(stage, task)[-1:] == ["wake completed"], "its end")
    assert said(stage, task) == ["about to wake @reviewer", "wake started", "wake completed"]


def test_a_question_and_a_result_come_back_to_the_session_that_asked(stage: Stage) -> None:
    ask = {"call": "ask", "args": {"to": "@worker", "subject": "a part", "body": "Please.", "parent": "none"}}
    mine = stage.ask(TAKE, ask, DONE)
    stage.until(mine, "completed")
    answer = [call for call in stage.log("called") if call["tool"] == "ask"][-1]["answer"]["result"]
    part = answer["structuredContent"]["task_id"]
    stage.plan(woken=[{"call": "inbox"}, {"call": "answer", "args": {"task": part, "text": "The second."}}])
    stage.call("take", "worker", task=part)
    stage.call("question", "worker", task=part, text="Which one?")
    stage.until(part, "working/answered")
    stage.plan(woken=[{"call": "inbox"}])
    stage.call("submit", "worker", task=part, text="It is done.")
    prompts = eventually(lambda: p if len(p := woken(stage, part)) == 2 else None, "a prompt for the result")
    asker = stage.show(mine)["attempts"][0]["session"]
    assert len({p["session"] for p in prompts}) == 1
    assert prompts[0]["session"] in {p["session"] for p in stage.log("prompt") if mine in p["text"]}
    assert asker


def test_a_task_that_comes_meanwhile_waits_for_the_end_of_the_look(stage: Stage) -> None:
    task = result_for_review(stage)
    stage.plan(woken=[{"say": "I look."}, {"wait": "looked"}])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    eventually(lambda: woken(stage, task), "the prompt")
    following = stage.ask(TAKE, DONE)
    eventually(lambda: "claimed" in stage.facts(following), "it is planned")
    assert not [p for p in stage.log("prompt") if following in p["text"]]
    stage.opens("looked")
    stage.until(following, "completed")
    assert not [p for p in stage.log("prompt") if p["busy"]]
    sessions = {p["session"] for p in stage.log("prompt") if following in p["text"]}
    assert sessions == {woken(stage, task)[0]["session"]}, "it is the same session, one prompt after another"


def test_a_review_that_comes_while_a_task_runs_waits_for_the_end_of_that_turn(stage: Stage) -> None:
    running = stage.ask(TAKE, {"wait": "finished"}, DONE)
    stage.until(running, "working")
    task = result_for_review(stage)
    stage.plan(woken=[{"call": "inbox"}])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    stage.until(task, "input_required/review")
    stage.opens("finished")
    stage.until(running, "completed")
    eventually(lambda: woken(stage, task), "the prompt")
    assert not [p for p in stage.log("prompt") if p["busy"]]


def test_in_a_look_what_the_agents_file_does_not_allow_is_denied_at_once(stage: Stage) -> None:
    task = result_for_review(stage)
    stage.plan(woken=[{"ask": "touch looked.txt"}])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    answered = eventually(lambda: [a for a in stage.log("answered") if "looked.txt" in a["command"]], "an answer")
    assert answered[-1]["outcome"]["optionId"] == "no"


def test_a_client_that_dies_in_a_look_is_prompted_again_a_few_times(stage: Stage) -> None:
    task = result_for_review(stage)
    stage.plan(woken=[{"say": "Hm."}, {"die": 9}])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    eventually(lambda: len(woken(stage, task)) == 2, "a second try")
    stage.plan(
        woken=[
            {"call": "read", "args": {"task": task}},
            {"call": "review", "args": {"verdict": "approve", "task": task}},
        ]
    )
    stage.until(task, "completed")


def test_a_driven_agent_is_not_told_of_its_own_work_twice(stage: Stage) -> None:
    task = stage.ask(TAKE, {"call": "question", "args": {"text": "Which?"}})
    stage.until(task, "input_required/question")
    stage.plan(again=[DONE])
    stage.call("answer", task=task, text="The first.")
    stage.until(task, "completed")
    assert not woken(stage, task)
