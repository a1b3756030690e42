"""The experiment that could prove the whole idea wrong: receivers that are always busy, a host that is killed, sessions
that are resumed, every message sent twice. No task reaches another's session, and nothing has an effect twice.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.driven import TAKE, Stage
from tests.support.hosts import eventually

AGENTS = ("reviewer", "second")
AGAIN = [TAKE, {"call": "submit", "args": {"text": "I went on."}}]
SECONDS = 90


def effect(stage, name):
    """A step with an effect that can be counted."""
    return {"run": f"echo {name} >> {stage.folder / 'effects.txt'}"}


def effects(stage):
    file = stage.folder / "effects.txt"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def twice(stage, to, name, *steps):
    """The same message sent twice: one task."""
    first, again = (stage.ask(TAKE, effect(stage, name), *steps, to=to, key=name) for _ in range(2))
    assert first == again
    return first


def handed_over(stage, task):
    """The prompts by which a session was given a task."""
    return [p for p in stage.log("prompt") if "A task for you" in p["text"] and task in p["text"]]


def sessions(stage):
    """By agent: its sessions."""
    return {a["name"][1:]: set(a["sessions"]) for a in stage.call("agents")["agents"]}


@pytest.fixture
def stage():
    with Stage(session_lease_seconds=3.0, wake_batch_seconds=0.05) as stage:
        assert stage.start()
        for name in AGENTS:
            stage.driven(name)
        stage.plan(again=AGAIN)
        yield stage


def test_always_busy_killed_resumed_and_sent_twice_nothing_is_lost_mixed_up_or_done_twice(stage: Stage) -> None:
    # Both are in the middle of something, with its effect done, and hand nothing in.
    busy = {name: twice(stage, name, f"busy-{name}", {"wait": "never"}) for name in AGENTS}
    eventually(lambda: sum(effects(stage).values()) == len(AGENTS), "both are busy", SECONDS)
    # More comes for both; nothing of it is put into the turns that run.
    done = {"call": "submit", "args": {"text": "Done."}}
    queued = {twice(stage, name, f"{name}-{n}", done): name for n in range(3) for name in AGENTS}
    assert not [p for task in queued for p in handed_over(stage, task)]

    stage.kill()
    assert stage.start()
    assert twice(stage, "reviewer", "reviewer-0", done) in queued, "sent a third time, to another host: the same task"

    whose = {**queued, **{task: name for name, task in busy.items()}}
    shown = {task: stage.until(task, "completed", seconds=SECONDS) for task in whose}
    known = sessions(stage)
    for task, name in whose.items():
        assert {a["session"] for a in shown[task]["attempts"]} <= known[name], "only sessions of whom it was for"
        assert len(handed_over(stage, task)) == 1, "handed over once"
        assert [line["what"] for line in shown[task]["history"]].count("handed in") == 1
    assert len({p["session"] for p in stage.log("prompt") if "A task for you" in p["text"]}) == len(AGENTS)
    assert set(effects(stage).values()) == {1}, effects(stage)
    assert len(effects(stage)) == len(whose)
    assert not [p for p in stage.log("prompt") if p["busy"]], "no prompt came into a turn that ran"
    for task in busy.values():
        assert shown[task]["result"] == "I went on."
    stage.stop()
    stage.audit()


def test_where_only_a_mailbox_is_there_no_more_is_said(stage: Stage) -> None:
    stage.call("join", name="paper")
    receipt = stage.call("ask", address="@paper", title="Look", body="Please.")
    assert receipt["promise"] == "mailbox"
    assert set(stage.facts(receipt["task_id"])) == {"accepted", "persisted"}
