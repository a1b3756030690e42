"""Permissions of driven sessions, and stops: each answered once, by a person or by time, and nothing runs on that was
stopped."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.core.limits import Limits
from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually

MINUTE = 60.0


@pytest.fixture
def stage():
    with Stage(retry_seconds=[0.1, 0.2, 0.5]) as stage:
        stage.wishes = {"clock": True}
        assert stage.start()
        stage.driven(more="sandbox = false\ncanary = false\n")
        stage.plan()
        yield stage


def passes(stage, seconds):
    """So much time has passed."""
    new = stage.place / "clock.new"
    new.write_text(str(seconds))
    new.replace(stage.place / "clock")


def agents(stage):
    """Processes of the scripted agent that run."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            if str(stage.folder).encode() in words:
                found.append(int(folder.name))
    return found


def decide(stage, what, asked):
    return stage.tally("permission", what, asked["permission_id"])


def answered(stage, name):
    return [a["outcome"].get("optionId") for a in stage.log("answered") if name in a["command"]]


def looked(stage):
    """The host has looked at what is due: another task, which came later, is done."""
    stage.call("join", name="aside")
    task = stage.call("ask", address="@aside", title="t", deadline="100ms")["task_id"]
    stage.until(task, "failed/expired")


def test_nobody_answers_for_a_quarter_of_an_hour_and_it_is_denied(stage: Stage) -> None:
    assert Limits().permission_seconds == 15 * MINUTE
    task = stage.ask(TAKE, {"ask": "touch late.txt"}, DONE)
    asked = stage.permission(task)
    passes(stage, 14 * MINUTE)
    looked(stage)
    assert stage.show(task)["state"] == "auth_required"
    passes(stage, 15 * MINUTE + 1)
    looked(stage)
    shown = stage.until(task, "completed")
    assert shown["permissions"][0]["decision"] == "reject_once"
    assert answered(stage, "late.txt") == ["no"]
    assert decide(stage, "allow", asked)[0] != 0
    assert not list((stage.path / "worktrees").glob("*/late.txt"))


def test_how_long_is_waited_is_a_setting() -> None:
    with Stage(permission_seconds=0.3) as stage:
        assert stage.start()
        stage.driven(more="sandbox = false\ncanary = false\n")
        task = stage.ask(TAKE, {"ask": "touch late.txt"}, DONE)
        assert stage.until(task, "completed")["permissions"][0]["decision"] == "reject_once"
        assert answered(stage, "late.txt") == ["no"]


def test_a_permission_is_answered_once(stage: Stage) -> None:
    task = stage.ask(TAKE, {"ask": "echo x >> twice.txt"}, {"wait": "go-on"}, DONE)
    asked = stage.permission(task)
    assert decide(stage, "allow", asked)[0] == 0
    for again in ("allow", "deny"):
        code, _, err = decide(stage, again, asked)
        assert code != 0
        assert "no open permission" in err
    stage.opens("go-on")
    shown = stage.until(task, "completed")
    assert [p["decision"] for p in shown["permissions"]] == ["allow_once"]
    assert answered(stage, "twice.txt") == ["yes"]
    tree = stage.path / "worktrees" / shown["attempts"][0]["session"]
    assert (tree / "twice.txt").read_text() == "x\n"


def test_an_answer_after_a_cancel_or_after_the_client_died_allows_nothing(stage: Stage) -> None:
    task = stage.ask(TAKE, {"ask": "touch never.txt"}, DONE)
    asked = stage.permission(task)
    stage.call("cancel", task=task, text="")
    stage.until(task, "canceled")
    assert decide(stage, "allow", asked)[0] != 0
    stage.plan(again=[DONE])
    task = stage.ask(TAKE, {"ask": "touch never.txt"}, DONE)
    asked = stage.permission(task)
    for number in agents(stage):
        os.kill(number, signal.SIGKILL)
    shown = stage.until(task, "completed")
    assert [p["decision"] for p in shown["permissions"]] == ["reject_once"], "nobody waits for it any more"
    assert decide(stage, "allow", asked)[0] != 0
    assert "yes" not in answered(stage, "never.txt")
    assert not list((stage.path / "worktrees").glob("*/never.txt"))


MIDDLE = {
    "a turn": ([TAKE, {"say": "I begin."}, {"wait": "go-on"}, DONE], "working"),
    "a permission": ([TAKE, {"ask": "touch asked.txt"}, DONE], "auth_required/permission"),
}


@pytest.mark.parametrize("middle", MIDDLE)
def test_what_is_stopped_in_the_middle_is_gone_and_for_a_person_to_look_at(stage: Stage, middle) -> None:
    steps, place = MIDDLE[middle]
    task = stage.ask(*steps)
    stage.until(task, place)
    following = stage.ask(TAKE, DONE)
    code, _, err = stage.tally("stop", "@reviewer")
    assert code == 0, err
    shown = stage.until(task, "input_required/unverified")
    eventually(lambda: not agents(stage), "nothing of it runs")
    assert [p["decision"] for p in shown["permissions"]] == (["reject_once"] if middle == "a permission" else [])
    assert not list((stage.path / "worktrees").glob("*/asked.txt"))
    looked(stage)
    assert stage.show(following)["state"] == "submitted"
    code, _, err = stage.tally("verify", task, "--settle", "cancel", "It was not done.")
    assert code == 0, err
    assert stage.tally("resume", "@reviewer")[0] == 0
    stage.until(following, "completed")


@pytest.mark.parametrize("verb", ["pause", "drain"])
@pytest.mark.parametrize("middle", MIDDLE)
def test_what_is_paused_or_drained_goes_on_to_the_end_of_its_turn_and_nothing_new_begins(
    stage: Stage, middle, verb
) -> None:
    steps, place = MIDDLE[middle]
    task = stage.ask(*steps)
    stage.until(task, place)
    following = stage.ask(TAKE, DONE)
    assert stage.tally(verb, "@reviewer")[0] == 0
    stage.opens("go-on")
    if middle == "a permission":
        assert decide(stage, "allow", stage.permission(task))[0] == 0
    stage.until(task, "completed")
    looked(stage)
    assert stage.show(following)["state"] == "submitted"
    assert not [p for p in stage.log("prompt") if following in p["text"]]
    assert stage.tally("resume", "@reviewer")[0] == 0
    stage.until(following, "completed")


def test_what_an_agent_that_drains_has_asked_about_is_gone_on_with_once_it_is_answered(stage: Stage) -> None:
    stage.plan(again=[DONE])
    task = stage.ask(TAKE, {"call": "question", "args": {"text": "Which one?"}})
    stage.until(task, "input_required/question")
    assert stage.tally("drain", "@reviewer")[0] == 0
    following = stage.ask(TAKE, DONE)
    stage.call("answer", task=task, text="The second.")
    stage.until(task, "completed")
    looked(stage)
    assert stage.show(following)["state"] == "submitted"
    assert stage.tally("resume", "@reviewer")[0] == 0
    stage.until(following, "completed")
