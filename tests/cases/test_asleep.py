"""Reported failures of waking, and of saying how far a message came: against a client that does what they describe."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.support.hosts import eventually
from tests.support.sleepers import asleep
from tests.support.town import Town

LIMITS = {"wake_batch_seconds": 1.0, "wake_retry_seconds": [60], "sessions_seconds": 0.1}
HASTY = {**LIMITS, "wake_batch_seconds": 0.05, "wake_proof_seconds": 0.5}
"""Where a proof never comes."""


@pytest.fixture(scope="module")
def town():
    with Town(**LIMITS) as town:
        yield town


@pytest.fixture(scope="module")
def hasty():
    with Town(**HASTY) as town:
        yield town


@pytest.fixture
def pen(town):
    with alone(town) as pen:
        yield pen


@contextmanager
def alone(town):
    """An agent whose client sleeps, the only one there: its name, and its client."""
    for left in town.call("agents")["agents"]:
        if left["client"] == "claude":
            town.says("leave", left["name"])
    name = town.agent("pen", client="claude")
    with asleep(town) as client:
        client.tell("arm")
        eventually(lambda: promise(town, name) == "live", "a hook that waits")
        yield name, client


def promise(town, name):
    return next(a["promise"] for a in town.call("agents")["agents"] if a["name"] == f"@{name}")


def wakes(town, task):
    return [line["what"] for line in town.call("trace", task=task)["events"] if "wake" in line["what"]]


def facts(town, task):
    return [fact["fact"] for fact in town.show(task)["facts"]]


def test_case_03_what_a_client_queued_and_dropped_is_never_recorded_and_no_success(hasty):
    with alone(hasty) as (name, client):
        client.tell("drops")
        task = hasty.task(name)
        client.wait("woken")
        client.tell("stop")
        eventually(lambda: wakes(hasty, task)[-1] == "wake unverified", lambda: wakes(hasty, task))
        assert facts(hasty, task) == ["accepted", "persisted"]
        assert "wake started" not in wakes(hasty, task)


def test_case_04_a_message_in_the_history_without_a_turn_is_recorded_and_no_more(town, pen):
    name, client = pen
    task = town.task(name)
    client.tally("take", task)
    eventually(lambda: "at byte" in str(town.show(task)["facts"]), "the proof")
    shown = town.show(task)
    assert "submitted" not in facts(town, task)
    assert shown["state"] == "working"
    assert shown["silent_seconds"] >= 0


def test_case_12_what_a_clients_queue_destroyed_stays_below_recorded(hasty):
    with alone(hasty) as (name, client):
        client.tell("deaf")
        task = hasty.task(name)
        client.wait("woken")
        eventually(lambda: wakes(hasty, task)[-1] == "wake unverified", lambda: wakes(hasty, task))
        assert facts(hasty, task) == ["accepted", "persisted"]
        assert [item for item in hasty.call("inbox", name)["turns"] if item["task_id"] == task and item["new"]]


def test_case_22_a_session_in_a_turn_is_not_steered_and_the_newest_words_are_what_it_reads(town, pen):
    name, client = pen
    client.tell(f"prompt hello @{name}")
    client.wait("prompt")
    eventually(lambda: promise(town, name) == "next_turn", "that it is in a turn")
    task = town.task(name)
    other = town.agent("other")
    eventually(lambda: town.task(other), "something else that goes on")
    assert wakes(town, task) == []
    client.tell("stop")
    assert "decision" in client.wait("stop")["stop"]
    assert [item["task_id"] for item in client.tally("inbox")["turns"]] == [task]


def test_case_27_four_notices_in_a_moment_come_as_one(town, pen):
    name, client = pen
    tasks = [town.task(name) for _ in range(4)]
    text = client.wait("woken")["text"]
    assert all(task[-6:].lower() in text for task in tasks)
    assert client.said.empty()


def test_case_37_a_session_that_is_resumed_is_not_served_by_two_processes(town, pen):
    name, client = pen
    with asleep(town, session=client.session, transcript=client.transcript) as resumed:
        resumed.tell("arm")
        assert not resumed.wait("woken")["woken"]
        task = town.task(name)
        assert client.wait("woken")["woken"]
        eventually(lambda: "wake started" in wakes(town, task), "one turn")
        assert wakes(town, task).count("wake started") == 1
