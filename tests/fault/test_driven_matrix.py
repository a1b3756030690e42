"""The host, the adapter or the client below it killed at each fact of a driven delivery, and in a turn that only looks:
nothing is lost, nothing is done twice, the record says what was, and nothing is left running."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tallystick.wire import WireError
from tests.support.driven import ADAPTER, AGENT, DONE, TAKE, Stage, do
from tests.support.hosts import eventually

SECONDS = 60
WOKEN = "Look at it with your `inbox` tool"


@pytest.fixture
def stage():
    limits = {"session_lease_seconds": 3.0, "retry_seconds": [0.1, 0.2, 0.5, 1.0, 2.0]}
    with Stage(**limits, wake_batch_seconds=0.05, wake_retry_seconds=[0.1, 0.2, 0.5]) as stage:
        assert stage.start()
        # Without a sandbox, so that what is below an adapter outlives it, and its end is for the host to see to.
        stage.driven(more="sandbox = false\ncanary = false\n", program=ADAPTER)
        stage.effect = {"run": f"echo once >> {stage.folder / 'effects.txt'}"}
        looks_first = {"run": f"test -s {stage.folder / 'effects.txt'} || echo once >> {stage.folder / 'effects.txt'}"}
        stage.again = [TAKE, looks_first, {"call": "submit", "args": {"text": "I went on."}}]
        stage.plan(again=stage.again)
        yield stage


def kill(stage, who):
    """End it with -9; a host is followed by the next one."""
    if who == "host":
        stage.kill()
        eventually(lambda: not left(stage), "no orphan")
        assert stage.start()
        return
    for number in stage.processes({"adapter": ADAPTER, "client": AGENT}[who]):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def left(stage):
    return stage.processes(AGENT) + stage.processes(ADAPTER)


def effects(stage):
    file = stage.folder / "effects.txt"
    return file.read_text().split() if file.exists() else []


def handed_over(stage, task):
    return [p for p in stage.log("prompt") if "A task for you" in p["text"] and task in p["text"]]


def is_prompted(stage, task):
    return bool(handed_over(stage, task))


def is_at(fact):
    return lambda stage, task: fact in stage.facts(task)


class Moment(NamedTuple):
    """When somebody is killed."""

    steps: tuple = (TAKE, "effect", DONE)
    reached: Callable = is_prompted
    plan: Mapping = MappingProxyType({})
    prompts: int = 1
    """So many prompts hand the task over in all."""
    resumed: bool = True


NEVER = {"wait": "never"}
MOMENTS = {
    # Leased, its client is being started, nothing was sent.
    "claimed": Moment(
        reached=lambda stage, task: is_at("claimed")(stage, task) and stage.log("initialize"),
        plan={"starts": "started"},
        resumed=False,
    ),
    # Let in by policy and sent; its client has read it, and kept nothing: the next one has to hand it over again.
    "admitted": Moment(plan={"unread": "read"}, prompts=2, resumed=False),
    # In the client's own history, and nothing was heard of the turn.
    "prompted": Moment((NEVER,)),
    "recorded": Moment(({"say": "I begin."}, NEVER), is_at("recorded")),
    "working": Moment((TAKE, "effect", NEVER), lambda stage, task: effects(stage) and is_at("working")(stage, task)),
    "submitted": Moment((TAKE, "effect", DONE, NEVER), is_at("submitted"), resumed=False),
}
WHO = ("host", "adapter", "client")


def ends_once(stage, task, prompts=1):
    """The task is done, once; nothing is left running; the record is whole."""
    shown = stage.until(task, "completed", seconds=SECONDS)
    assert len(handed_over(stage, task)) == prompts
    assert [line["what"] for line in shown["history"]].count("handed in") == 1
    assert effects(stage) == ["once"]
    stage.stop()
    eventually(lambda: not left(stage), "no orphan")
    stage.audit()
    return shown


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("name", MOMENTS)
def test_whoever_is_killed_at_whatever_fact_a_task_is_done_once(stage, name, who) -> None:
    moment = MOMENTS[name]
    stage.plan(again=stage.again, **moment.plan)
    task = stage.ask(*(stage.effect if step == "effect" else step for step in moment.steps))
    eventually(lambda: moment.reached(stage, task), name, SECONDS)
    kill(stage, who)
    stage.plan(again=stage.again)
    shown = ends_once(stage, task, moment.prompts)
    assert ("prompted: resumed" in [line["what"] for line in shown["history"]]) == moment.resumed
    if moment.resumed:
        assert shown["result"] == "I went on."


@pytest.mark.parametrize("who", WHO)
def test_killed_while_a_task_is_only_persisted_its_session_is_gone_on_with(stage, who) -> None:
    first = stage.until(stage.ask(TAKE, DONE), "completed")["attempts"][0]["session"]
    stage.tally("pause", "@reviewer")
    task = stage.ask(TAKE, stage.effect, DONE)
    assert "claimed" not in stage.facts(task)
    kill(stage, who)
    stage.tally("resume", "@reviewer")
    shown = ends_once(stage, task)
    assert shown["attempts"][-1]["session"] == first, "the conversation was loaded again"


@pytest.mark.parametrize("who", WHO)
def test_killed_while_a_task_is_being_accepted_and_sent_again_it_is_one_task(stage, who) -> None:
    stage.until(stage.ask(TAKE, DONE), "completed")
    words = {"address": "@reviewer", "title": "t", "body": do(TAKE, stage.effect, DONE), "key": "once"}
    seconds = []

    def send():
        with suppress(WireError, OSError), closing(stage.connect()) as client:
            seconds.append(client.call("ask", args=words, cwd=str(stage.place), env={"PATH": os.environ["PATH"]}))

    sending = threading.Thread(target=send)
    sending.start()
    kill(stage, who)
    sending.join(SECONDS)
    task = stage.call("ask", **words)["task_id"]
    assert {receipt["task_id"] for receipt in seconds} <= {task}
    ends_once(stage, task)


@pytest.mark.parametrize("who", WHO)
def test_killed_in_a_turn_that_only_looks_the_review_is_given_once(stage, who) -> None:
    stage.call("join", name="worker")
    task = stage.call("ask", address="@worker", title="a change", body="Please.", review_by="@reviewer")["task_id"]
    stage.call("take", "worker", task=task)
    stage.plan(woken=[{"call": "inbox"}, NEVER])
    stage.call("submit", "worker", task=task, text="Done.", review=True)
    eventually(lambda: [p for p in stage.log("prompt") if WOKEN in p["text"]], "the prompt", SECONDS)
    eventually(lambda: stage.log("called"), "its look", SECONDS)
    review = {"call": "review", "args": {"task": task, "verdict": "approve", "text": "It holds."}}
    stage.plan(woken=[stage.effect, {"call": "read", "args": {"task": task}}, review])
    kill(stage, who)
    shown = stage.until(task, "completed", seconds=SECONDS)
    assert shown["reason"] == "approved"
    assert effects(stage) == ["once"]
    wakes = [line["what"] for line in stage.call("trace", task=task)["events"] if "wake" in line["what"]]
    assert [w for w in wakes if w in ("wake failed", "wake unverified")], wakes
    stage.stop()
    eventually(lambda: not left(stage), "no orphan")
    stage.audit()


# --- a machine that slept ----------------------------------------------------------------------------------------


HOUR = 3600.0


@pytest.fixture
def sleeper():
    with Stage(session_lease_seconds=3.0, turn_note_seconds=0.05) as stage:
        stage.wishes = {"clock": True}
        assert stage.start()
        stage.driven(more="sandbox = false\ncanary = false\n", program=ADAPTER)
        stage.effect = {"run": f"echo once >> {stage.folder / 'effects.txt'}"}
        stage.plan()
        yield stage


def sleep(stage, **shifts):
    """Everything stops at once, the clocks go on without it, everything goes on."""
    everything = [stage.host.pid, *left(stage)]
    for number in everything:
        os.kill(number, signal.SIGSTOP)
    eventually(lambda: all(is_stopped(number) for number in everything), "all stand still")
    for what, seconds in shifts.items():
        new = stage.place / f"{what}.new"
        new.write_text(str(seconds))
        new.replace(stage.place / what)
    for number in reversed(everything):
        os.kill(number, signal.SIGCONT)


def is_stopped(number):
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "T"


SHIFTS = {
    "the machine slept": {"asleep": HOUR},
    "the wall clock was set forward": {"clock": HOUR},
    "the wall clock was set back": {"clock": -HOUR},
    "it slept and its clock was set back": {"asleep": HOUR, "clock": -2 * HOUR},
}


@pytest.mark.parametrize("shifts", SHIFTS.values(), ids=SHIFTS)
def test_a_turn_in_hand_goes_on_after_a_sleep_and_nothing_is_done_twice(sleeper, shifts) -> None:
    stage = sleeper
    task = stage.ask(TAKE, stage.effect, {"wait": "awake"}, DONE)
    eventually(lambda: effects(stage) and is_at("working")(stage, task), "it works", SECONDS)
    sleep(stage, **shifts)
    following = stage.ask(TAKE, DONE)  # the host has looked at what is due by the time that it is taken
    stage.opens("awake")
    shown = stage.until(task, "completed", seconds=SECONDS)
    stage.until(following, "completed", seconds=SECONDS)
    whats = [line["what"] for line in shown["history"]]
    assert len(handed_over(stage, task)) == 1
    assert whats.count("handed in") == 1
    assert not [w for w in whats if w in ("lost sight of it", "lease lapsed", "prompted: resumed")], whats
    assert effects(stage) == ["once"]
    stage.stop()
    stage.audit()


def test_a_permission_that_waited_through_a_sleep_is_denied_once_and_nobody_allows_it_later(sleeper) -> None:
    stage = sleeper
    task = stage.ask(TAKE, {"ask": "touch slept.txt"}, DONE)
    asked = stage.permission(task)
    sleep(stage, asleep=HOUR)
    shown = stage.until(task, "completed", seconds=SECONDS)
    assert [p["decision"] for p in shown["permissions"]] == ["reject_once"]
    assert stage.log("answered")[-1]["outcome"]["optionId"] == "no"
    code, _, err = stage.tally("permission", "allow", asked["permission_id"])
    assert code != 0
    assert "names no open permission" in err
    assert not list((stage.path / "worktrees").glob("*/slept.txt"))
