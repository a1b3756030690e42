"""Which session of a driven agent a task goes to: one that is idle, that very one, a new one, or a fork."""

from __future__ import annotations

import json

import pytest

from tallystick.core.identity import short
from tallystick.wire import WireError
from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually


@pytest.fixture(scope="module")
def shared():
    with Stage(wake_batch_seconds=0.05) as stage:
        assert stage.start()
        stage.driven("reviewer", concurrency=2)
        stage.driven("second", "canary = false\n")
        yield stage


@pytest.fixture
def stage(shared):
    """One host for all; each test has its own plan."""
    shared.plan()
    return shared


def session_of(shown):
    return shown["attempts"][0]["session"]


def done(stage, *steps, **form):
    """The session that did a task to the end of its turn: until then it is not idle, and @reviewer may have two."""
    task = stage.ask(TAKE, *steps, DONE, **form)
    shown = stage.until(task, "completed")
    eventually(lambda: any("turn ended" in line["what"] for line in stage.show(task)["history"]), "the end of its turn")
    return session_of(shown)


def driven(stage, name):
    """What is shown of the sessions of an agent, by id."""
    agent = next(a for a in stage.call("agents")["agents"] if a["name"] == f"@{name}")
    return {s["session_id"]: s for s in agent["driven"]}


def test_one_session_for_agent_and_workspace_is_used_again_and_a_fresh_one_is_new(stage: Stage) -> None:
    first = done(stage)
    assert done(stage, session="reuse") == first
    new = done(stage, session="fresh")
    assert new != first
    assert "fork_of" not in driven(stage, "reviewer")[new]
    assert {first, new} <= driven(stage, "reviewer").keys()


def test_a_task_that_comes_right_after_the_hand_in_waits_for_the_end_of_the_turn_and_gets_the_same_session(
    stage: Stage,
) -> None:
    tasks = [stage.ask(TAKE, DONE, {"flood": 50}, to="second") for _ in range(2)]
    sessions = [session_of(stage.until(task, "completed")) for task in tasks]
    for _ in range(3):
        sessions.append(session_of(stage.until(stage.ask(TAKE, DONE, {"flood": 50}, to="second"), "completed")))
    assert len(set(sessions)) == 1
    assert not [p for p in stage.log("prompt") if p["busy"]]


def test_a_fork_goes_on_with_what_was_said_and_the_original_stays_as_it_is(stage: Stage) -> None:
    original = done(stage, {"say": "The plum is ripe."}, session="fresh")
    fork = done(stage, to=f"reviewer/{original}", session="fork")
    assert fork != original
    assert driven(stage, "reviewer")[fork]["fork_of"] == original
    forked = stage.log("fork")[-1]
    assert forked["lines"] >= 2, "what was said before is in it"
    said = [p["session"] for p in stage.log("prompt") if "A task for you" in p["text"]]
    assert said[-1] == forked["session"] != forked["of"]
    assert done(stage, to=f"reviewer/{original}") == original, "its address stays with the original"
    assert done(stage, to=f"reviewer/{fork}") == fork
    told = stage.tally("agents", "@reviewer")[1]
    assert f"{short(fork)} (fork of {short(original)})" in told


def test_a_fork_without_a_session_named_is_of_the_newest_one(stage: Stage) -> None:
    newest = done(stage, session="fresh")
    code, out, err = stage.tally("ask", "@reviewer", "go on", "--session", "fork", "--json", cwd=stage.place)
    assert code == 0, out + err
    task = json.loads(out)["task_id"]
    shown = eventually(lambda: s if (s := stage.show(task))["attempts"][0]["session"] else None, "its session")
    assert eventually(lambda: driven(stage, "reviewer").get(session_of(shown)), "it begins")["fork_of"] == newest
    stage.call("cancel", task=task, text="")
    stage.until(task, "canceled")


def test_a_fork_waits_for_the_end_of_the_turn_of_what_it_is_forked_from(stage: Stage) -> None:
    original = done(stage, session="fresh")
    busy = stage.ask(TAKE, {"say": "I go on."}, {"wait": "forked"}, DONE, to=f"reviewer/{original}")
    stage.until(busy, "working")
    forked = stage.ask(TAKE, DONE, to=f"reviewer/{original}", session="fork")
    other = stage.ask(TAKE, DONE, session="fresh")
    stage.until(other, "completed")
    assert "claimed" not in stage.facts(forked)
    stage.opens("forked")
    assert session_of(stage.until(forked, "completed")) != original


def test_what_cannot_be_forked_is_refused_with_what_to_do_instead(stage: Stage) -> None:
    refusals = []
    stage.plan(forks=False)
    done(stage, to="second", session="fresh")
    stage.call("join", name="paper")
    for to, session in (("second", "fork"), ("paper", "fork"), ("paper", "fresh"), ("second", "elsewhere")):
        with pytest.raises(WireError) as refused:
            stage.ask(DONE, to=to, session=session)
        refusals.append((refused.value.code, refused.value.message, refused.value.remedy))
    codes = [code for code, _, _ in refusals]
    assert codes == ["unsupported", "not_found", "unsupported", "invalid"]
    assert "can fork a conversation" in refusals[0][1]
    assert all(remedy for _, _, remedy in refusals)
    mine = done(stage)
    with pytest.raises(WireError) as refused:
        stage.ask(DONE, to=f"reviewer/{mine}", session="fresh")
    assert refused.value.code == "invalid"


def test_that_very_session_gets_it_and_a_busy_one_gets_it_later(stage: Stage) -> None:
    mine = done(stage, session="fresh")
    busy = stage.ask(TAKE, {"wait": "free"}, DONE, to=f"reviewer/{mine}")
    stage.until(busy, "working")
    queued = stage.ask(TAKE, DONE, to=f"reviewer/{mine}")
    elsewhere = stage.ask(TAKE, DONE)
    assert session_of(stage.until(elsewhere, "completed")) != mine, "another one is idle, and that is not it"
    assert stage.show(queued)["state"] == "submitted"
    stage.opens("free")
    shown = stage.until(queued, "completed")
    assert session_of(shown) == mine
    assert shown["attempts"][0]["retries"] == 0, "to wait costs no attempt"
    assert not [p for p in stage.log("prompt") if p["busy"]]


def test_a_session_of_another_agent_or_workspace_is_not_found(stage: Stage) -> None:
    other = done(stage, to="second")
    with pytest.raises(WireError) as refused:
        stage.ask(DONE, to=f"reviewer/{other}")
    assert refused.value.code == "not_found"
    repo = stage.repository("apart")
    stage.call("join", name="second", cwd=str(repo))
    for form in ({}, {"session": "fork"}):
        with pytest.raises(WireError) as refused:
            stage.ask(DONE, to=f"second/{other}", cwd=str(repo), **form)
        assert refused.value.code == "not_found"


def test_a_session_that_ended_gets_nothing_and_nobody_else_gets_it(stage: Stage) -> None:
    stage.driven("brief", "canary = false\n")
    mine = done(stage, to="brief")
    busy = stage.ask(TAKE, {"wait": "never"}, to=f"brief/{mine}")
    stage.until(busy, "working")
    queued = stage.ask(TAKE, DONE, to=f"brief/{mine}")
    stage.plan(loads=False)
    stage.call("cancel", task=busy, text="")
    stage.until(busy, "canceled")
    # Its client cannot go on with the conversation: that session is over, and what was for it alone with it.
    shown = stage.until(queued, "failed/offline", seconds=60)
    assert "Ask the role instead: @brief" in shown["history"][-1]["text"]
    assert "took it" not in [line["what"] for line in shown["history"]]
    with pytest.raises(WireError) as refused:
        stage.ask(DONE, to=f"brief/{mine}")
    assert refused.value.code == "offline"
    assert "@brief" in refused.value.remedy
