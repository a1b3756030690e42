"""A check that nobody waits for any more is ended, with its setup, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.support.hosts import SECONDS, eventually
from tests.support.places import Place, git, keepers

CHECK = """
touch began
until [ -e "$GATE/$(cat a.txt)" ]; do sleep 0.02; done
"""
"""Says in its work tree that it has begun, and waits until a file is there that is called as the commit says."""


@pytest.fixture
def place():
    with Place() as made:
        made.start()
        made.repo, made.gate = made.repository(), made.place / "gate"
        made.gate.mkdir()
        (made.repo / "check.sh").write_text(CHECK.replace("$GATE", str(made.gate)))
        git(made.repo, "add", "-A")
        git(made.repo, "commit", "-qm", "check")
        made.call("join", cwd=str(made.repo), name="anna")
        register(made, "waits")
        yield made


def register(place, name, *words):
    words = ("--kind", "command", *words, "--bind", str(place.gate), "--seconds", "60", "--", "sh", "check.sh")
    code, _, said = place.tally("check", "add", name, *words, cwd=place.repo, env={"PATH": os.environ["PATH"]})
    assert code == 0, said


def hand_in(place, text, check="waits"):
    """A result under a check; its task."""
    repo = str(place.repo)
    task = place.call("ask", cwd=repo, address="@anna", title=text, done_when=check)["task_id"]
    place.call("take", who="anna", cwd=repo, task=task)
    place.call("submit", who="anna", cwd=repo, task=task, commit=place.commit(place.repo, text))
    return task


def has_begun(place, task):
    return [*(place.path / "worktrees").glob(f"check-{task}-*/began")]


def interrupted(place, task):
    """`tally verify` of a task, until its check runs and whoever wanted that is gone."""
    wanted = place.spawn_tally("verify", task, cwd=place.repo)
    eventually(lambda: processes(place), "the run")
    wanted.send_signal(signal.SIGINT)
    wanted.wait(SECONDS)


def processes(place):
    return [n["main"] for n in keepers(place.path) if n["main"] and os.path.exists(f"/proc/{n['main']}")]


def left(place):
    """What is kept of jobs and work trees."""
    return [entry.name for name in ("jobs", "worktrees") for entry in (place.path / name).iterdir()]


@pytest.mark.parametrize("how", ["canceled", "corrected"])
def test_a_check_that_is_ended_while_it_runs_leaves_nothing(place, how):
    task = hand_in(place, "work")
    eventually(lambda: has_begun(place, task), "the check")
    if how == "canceled":
        place.call("cancel", task=task)
        place.until(task, "canceled")
        assert not processes(place)
    else:
        place.tally("correct", task, "failed/error", "Not needed.")
        place.until(task, "failed/error")
    eventually(lambda: not left(place), "that nothing of it is kept")


def test_a_check_that_is_canceled_in_its_setup_is_never_begun_and_the_setup_is_over_by_then(place):
    register(place, "prepared", "--setup", "sleep 1000")
    task = hand_in(place, "work", "prepared")
    eventually(lambda: processes(place), "the setup")
    place.call("cancel", task=task)
    place.until(task, "canceled")
    assert not processes(place)
    eventually(lambda: not left(place), "that nothing of it is kept")


def test_a_check_that_is_canceled_while_it_waits_for_a_slot_is_never_begun(place):
    running = [hand_in(place, text) for text in ("one", "two")]
    eventually(lambda: all(has_begun(place, task) for task in running), "two checks")
    waiting, behind = hand_in(place, "never"), hand_in(place, "four")
    place.call("cancel", task=waiting)
    place.until(waiting, "canceled")
    for text in ("one", "two", "four"):
        (place.gate / text).touch()
    for task in (*running, behind):
        place.until(task, "completed")
    eventually(lambda: not left(place), "that nothing of it was begun")


def test_a_check_that_is_canceled_with_its_host_is_ended_by_the_next(place):
    task = hand_in(place, "work")
    eventually(lambda: has_begun(place, task), "the check")
    place.kill()
    assert processes(place)
    place.start()
    place.call("cancel", task=task)
    place.until(task, "canceled")
    assert not processes(place)
    eventually(lambda: not left(place), "that nothing of it is kept")


def test_a_check_that_is_run_again_ends_with_whoever_wanted_to_see_it(place):
    task = hand_in(place, "work")
    (place.gate / "work").touch()
    place.until(task, "completed")
    code, said, _ = place.tally("verify", task, "--json", cwd=place.repo)
    assert (code, json.loads(said)["checks"][-1]["outcome"]) == (0, "passed")
    eventually(lambda: not left(place), "that nothing is kept of what was seen to its end")
    (place.gate / "work").unlink()
    interrupted(place, task)
    eventually(lambda: not processes(place) and not left(place), "that nothing of it is left")
