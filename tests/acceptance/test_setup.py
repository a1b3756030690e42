"""What `--setup` of a check makes is made once at a time, whoever needs it and whatever becomes of the host."""

from __future__ import annotations

import os

import pytest

from tests.support.hosts import eventually
from tests.support.places import Place, git

PREPARE = """
echo began >> "$TALLY_SETUP/runs"
test -e prepare.sh && until [ -e "$GATE/open" ]; do sleep 0.02; done
test -e prepare.sh && echo ended >> "$TALLY_SETUP/runs"
"""
"""Says in the folder that it fills when it begins, and when it ends if its work tree is there; waits at the gate."""


@pytest.fixture
def place():
    with Place() as made:
        made.start()
        yield made


@pytest.fixture
def repo(place):
    """A repository with a check whose setup waits at a gate, and two agents who work there."""
    repo, gate = place.repository(), place.place / "gate"
    gate.mkdir()
    (repo / "prepare.sh").write_text(PREPARE.replace("$GATE", str(gate)))
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "check")
    for who in ("anna", "zed"):
        place.call("join", cwd=str(repo), name=who)
    words = ("--kind", "command", "--setup", "sh prepare.sh", "--bind", str(gate), "--seconds", "60")
    code, _, said = place.tally("check", "add", "c", *words, "--", "true", cwd=repo, env={"PATH": os.environ["PATH"]})
    assert code == 0, said
    return repo


def hand_in(place, repo, who):
    """A result under that check; its task."""
    task = place.call("ask", cwd=str(repo), address=f"@{who}", title="x", done_when="c")["task_id"]
    place.call("take", who=who, cwd=str(repo), task=task)
    commit = place.commit(repo, f"of {who}\n")
    place.call("submit", who=who, cwd=str(repo), task=task, commit=commit)
    return task


def ready(place):
    """The tasks whose checks have their work tree."""
    found = (place.path / "worktrees").glob("check-*/prepare.sh")
    return {file.parent.name.split("-")[1] for file in found}


def runs(place):
    """What setups have said in the folder that they fill."""
    return [line for file in (place.path / "setups").glob("*/runs") for line in file.read_text().split()]


def test_two_checks_with_one_setup_never_fill_its_folder_at_once(place, repo):
    tasks = [hand_in(place, repo, who) for who in ("anna", "zed")]
    eventually(lambda: runs(place), "the first setup")
    eventually(lambda: ready(place) == set(tasks), "both at their setup")
    (place.place / "gate" / "open").touch()
    assert [place.until(task, "completed")["checks"][-1]["outcome"] for task in tasks] == ["passed", "passed"]
    assert runs(place) == ["began", "ended"]


@pytest.mark.parametrize("ends", ["in order", "killed"])
def test_a_setup_that_an_earlier_host_started_is_taken_up_by_whoever_needs_its_folder(place, repo, ends):
    tasks = [hand_in(place, repo, who) for who in ("anna", "zed")]
    eventually(lambda: runs(place), "the first setup")
    place.kill() if ends == "killed" else place.stop()
    place.start()
    eventually(lambda: ready(place) == set(tasks), "both at their setup")
    (place.place / "gate" / "open").touch()
    assert [place.until(task, "completed")["checks"][-1]["outcome"] for task in tasks] == ["passed", "passed"]
    assert runs(place) == ["began", "ended"]


def test_a_setup_goes_on_after_a_restart_though_the_task_that_it_was_begun_for_is_gone(place, repo):
    first = hand_in(place, repo, "anna")
    eventually(lambda: runs(place), "the first setup")
    place.call("cancel", task=first)
    place.kill()
    place.start()
    second = hand_in(place, repo, "zed")
    eventually(lambda: second in ready(place), "the second at its setup")
    (place.place / "gate" / "open").touch()
    assert place.until(second, "completed")["checks"][-1]["outcome"] == "passed"
    assert runs(place) == ["began", "ended"]
