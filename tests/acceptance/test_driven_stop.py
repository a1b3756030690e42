"""One session of a driven agent is stopped, paused or drained: nothing of it is left, nothing goes to it, and what it
was in the middle of says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.core.identity import short
from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually

HOLD = {"wait": "go-on"}


@pytest.fixture(scope="module")
def shared():
    with Stage(wake_batch_seconds=0.05, wake_retry_seconds=[0.1, 0.2, 30.0]) as stage:
        stage.wishes = {"clock": True}
        assert stage.start()
        stage.driven("reviewer", "canary = false\n", concurrency=4)
        stage.call("join", name="worker")
        yield stage


@pytest.fixture
def stage(shared):
    """One host for all; each test has its own plan, and leaves no session stopped."""
    shared.plan()
    (shared.folder / "go-on").unlink(missing_ok=True)
    return shared


def running(stage, session):
    """Processes that stand in the work tree of a session, or were started for its agent's only one."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"/worktrees/{session}" in str((folder / "cwd").readlink()):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def begun(stage, *steps, **form):
    """A task in the middle of its turn, and its session."""
    task = stage.ask(TAKE, *steps, **form)
    return task, stage.until(task, "working")["session"]


def ended(stage, task):
    """Its turn is over, so that its session is idle."""
    eventually(lambda: any("turn ended" in line["what"] for line in stage.show(task)["history"]), "the end of its turn")


def an_hour_passes(stage):
    """By all clocks; and the host has looked at what is due since: something that came later is done."""
    file = stage.place / "asleep"
    before = float(file.read_text()) if file.exists() else 0.0
    new = stage.place / "asleep.new"
    new.write_text(str(before + 3600.0))
    new.replace(file)
    stage.call("join", name="aside")
    later = stage.call("ask", address="@aside", title="t", deadline="100ms")["task_id"]
    stage.until(later, "failed/expired")


def said(stage, verb, named):
    code, out, err = stage.tally(verb, named)
    assert code == 0, err
    return out


def of_agent(stage, session):
    """What `tally agents` tells of a session."""
    agent = next(a for a in stage.call("agents")["agents"] if a["name"] == "@reviewer")
    return next(s for s in agent["driven"] if s["session_id"] == session)


def settled(stage, task):
    code, _, err = stage.tally("verify", task, "--settle", "cancel", "I looked: it was not done.")
    assert code == 0, err


@pytest.mark.parametrize("named", [short, str], ids=["short", "full"])
def test_a_session_that_is_stopped_in_the_middle_is_gone_with_all_that_it_started_and_its_task_says_so(
    stage: Stage, named
) -> None:
    task, session = begun(stage, {"run": "exec sleep 300", "detached": True}, HOLD, session="fresh")
    eventually(lambda: any("sleep 300" in line for line in running(stage, session)), "its command")
    assert f"tally resume {short(session)}" in said(stage, "stop", named(session))
    shown = stage.until(task, "input_required/unverified")
    assert not running(stage, session)
    assert "A person stopped it while it ran." in str(shown)
    assert f"tally verify {short(task)} --settle" in stage.tally("inbox")[1]
    assert of_agent(stage, session)["mode"] == "stopped"
    assert f"{short(session)}  stopped" in stage.tally("agents", "@reviewer")[1]
    settled(stage, task)
    said(stage, "resume", session)


def test_a_session_that_is_stopped_is_not_used_again_before_somebody_says_resume(stage: Stage) -> None:
    task, session = begun(stage, HOLD, DONE, session="fresh")
    said(stage, "stop", session)
    stage.until(task, "input_required/unverified")
    stage.opens("go-on")
    code, _, err = stage.tally("verify", task, "--settle", "redo", "I looked: nothing was done.")
    assert code == 0, err
    redone = stage.until(task, "completed")
    assert redone["attempts"][-1]["session"] != session, "what is done again is done elsewhere"
    wanted = stage.ask(TAKE, DONE, to=f"reviewer/{session}")
    assert stage.show(wanted)["promise"] == "offline"
    elsewhere = stage.until(stage.ask(TAKE, DONE), "completed")
    assert elsewhere["attempts"][0]["session"] != session
    assert stage.show(wanted)["state"] == "submitted"
    assert "mode" not in of_agent(stage, elsewhere["attempts"][0]["session"])
    said(stage, "resume", session)
    shown = stage.until(wanted, "completed")
    assert shown["attempts"][0]["session"] == session
    assert "mode" not in of_agent(stage, session)


@pytest.mark.parametrize("which", ["session", "agent"])
def test_the_client_of_an_idle_session_that_is_stopped_is_ended_and_its_conversation_stays(stage: Stage, which) -> None:
    task = stage.ask(TAKE, {"say": "The plum is ripe."}, DONE, session="fresh")
    session = stage.until(task, "completed")["attempts"][0]["session"]
    ended(stage, task)
    assert running(stage, session)
    named = session if which == "session" else "@reviewer"
    said(stage, "stop", named)
    eventually(lambda: not running(stage, session), "its end")
    said(stage, "resume", named)
    stage.until(stage.ask(TAKE, DONE, to=f"reviewer/{session}"), "completed")
    assert stage.log("load")[-1]["lines"] >= 2, "what was said before is in it"


def test_a_session_that_is_stopped_while_it_looks_at_what_is_new_is_gone_and_another_one_looks(stage: Stage) -> None:
    task = stage.call("ask", address="@worker", title="a change", body="Please.", review_by="@reviewer")["task_id"]
    stage.call("take", "worker", task=task)
    stage.plan(woken=[{"say": "I look."}, HOLD])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    prompted = eventually(lambda: [p for p in stage.log("prompt") if short(task) in p["text"]], "the prompt")[-1]
    begun = next(line for line in stage.log("new")[::-1] if line["session"] == prompted["session"])
    session = Path(begun["cwd"]).name
    assert running(stage, session)
    review = {"task": task, "verdict": "approve", "text": "It holds."}
    stage.plan(woken=[{"call": "read", "args": {"task": task}}, {"call": "review", "args": review}])
    said(stage, "stop", session)
    eventually(lambda: not running(stage, session), "its end")
    stage.until(task, "completed")
    looked = [p for p in stage.log("prompt") if short(task) in p["text"]]
    assert {p["session"] for p in looked} - {prompted["session"]}
    said(stage, "resume", session)


def test_an_answer_to_what_a_stopped_session_asked_waits_until_somebody_says_resume(stage: Stage) -> None:
    stage.plan(again=[DONE])
    task = stage.ask(TAKE, {"call": "question", "args": {"text": "Which one?"}}, session="fresh")
    session = stage.until(task, "input_required/question")["attempts"][0]["session"]
    ended(stage, task)
    said(stage, "stop", session)
    stage.call("answer", task=task, text="The second.")
    stage.until(stage.ask(TAKE, DONE), "completed")
    an_hour_passes(stage)
    assert stage.show(task)["state"] == "working"
    said(stage, "resume", session)
    stage.until(task, "completed")


@pytest.mark.parametrize("which", ["session", "agent"])
def test_a_turn_that_ends_without_a_result_while_it_is_held_back_is_gone_on_with_and_does_not_fail(
    stage: Stage, which
) -> None:
    stage.plan(again=[DONE])
    task, session = begun(stage, HOLD, {"say": "I am at the half."}, session="fresh")
    held = session if which == "session" else "@reviewer"
    said(stage, "pause", held)
    stage.opens("go-on")
    ended(stage, task)
    an_hour_passes(stage)
    assert stage.show(task)["state"] == "working"
    said(stage, "resume", held)
    shown = stage.until(task, "completed")
    assert "failed" not in [line["what"] for line in shown["history"]]


def test_what_is_held_back_in_one_turn_after_another_is_at_last_for_a_person_to_look_at(stage: Stage) -> None:
    stage.plan(again=[HOLD])
    task, session = begun(stage, HOLD, session="fresh")
    for turn in range(1, 4):
        eventually(lambda: len([p for p in stage.log("prompt") if task in p["text"]]) == turn, "its prompt")  # noqa: B023
        said(stage, "pause", session)
        stage.opens("go-on")
        eventually(lambda: turns_ended(stage, task) == turn, "the end of its turn")  # noqa: B023
        (stage.folder / "go-on").unlink()
        said(stage, "resume", session)
    eventually(lambda: "lost sight of it" in [line["what"] for line in stage.show(task)["history"]], "doubt")
    an_hour_passes(stage)
    stage.until(task, "input_required/unverified")
    settled(stage, task)


def turns_ended(stage, task):
    return len([line for line in stage.show(task)["history"] if "turn ended" in line["what"]])
