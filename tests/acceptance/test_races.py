"""Many processes at one host: one wins a task and the others learn who; nothing is lost; what happened has an order."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.history import Op, linearisable
from tests.support.places import Place, git

RACERS = 8
ROUNDS = 100
WRITERS = 50
RACER = Path(__file__).parents[1] / "support" / "racer.py"


class Racers:
    """Client processes that wait for their words."""

    def __init__(self, place, count):
        self.all = [place.spawn(sys.executable, "-I", "-S", str(RACER), stdin=-1) for _ in range(count)]
        for racer in self.all:
            line = racer.stdout.readline()
            assert line == b"ready\n", (line, racer.stderr.read())

    def run(self, calls):
        """Everybody's calls at once; everybody's answers."""
        words = [json.dumps(part).encode() + b"\n" for part in calls]
        for racer, part in zip(self.all, words, strict=True):
            racer.stdin.write(part)
        for racer in self.all:
            racer.stdin.flush()
        return [json.loads(racer.stdout.readline()) for racer in self.all]


def joined(place, count):
    """One agent in several workspaces: it has a session in each."""
    names = [f"place{i}" for i in range(count)]
    for name in names:
        (place.place / name).mkdir()
        git(place.place / name, "init", "-q")
        place.call("join", name="worker", cwd=str(place.place / name))
    return names


def asked(place, name, key):
    return place.call("ask", address="@worker", title=key, key=key, cwd=str(place.place / name))["task_id"]


def test_of_eight_processes_exactly_one_takes_a_task_and_the_others_learn_who():
    with Place() as place:
        assert place.start()
        names = joined(place, RACERS)
        racers = Racers(place, RACERS)
        for number in range(ROUNDS):
            task = asked(place, names[number % RACERS], f"task {number}")
            takes = [[{"op": "take", "as": "worker", "workspace": name, "args": {"task": task}}] for name in names]
            answers = [answer for (answer,) in racers.run(takes)]
            won = [answer["result"] for answer in answers if "result" in answer]
            lost = [answer for answer in answers if "result" not in answer]
            assert [taken["fence"] for taken in won] == [1]
            assert {answer["code"] for answer in lost} == {"conflict"}
            assert all("@worker has taken it (fence 1)" in answer["message"] for answer in lost)
        place.stop()
        events, _ = place.audit()
    claimed = Counter(event.stream for event in events if type(event.event).__name__ == "TaskClaimed")
    assert list(claimed.values()) == [1] * ROUNDS


def test_fifty_processes_that_write_at_once_lose_nothing():
    with Place() as place:
        assert place.start()
        place.call("join", name="worker")
        racers = Racers(place, WRITERS)
        each = 20
        calls = [
            [{"op": "ask", "args": {"address": "@worker", "title": "t", "key": f"{w}/{i}"}} for i in range(each)]
            for w in range(WRITERS)
        ]
        answers = [answer for part in racers.run(calls) for answer in part]
        assert [answer for answer in answers if "result" not in answer] == []
        place.stop()
        _, works = place.audit()
    assert {answer["result"]["task_id"] for answer in answers} == set(works)
    assert {work.task.key for work in works.values()} == {f"{w}/{i}" for w in range(WRITERS) for i in range(each)}


# --- history ---


def history_of(task, names, answers, plans, events):
    """What the clients saw of a task, with the lapses that the log tells of."""
    found = []
    for name, told, plan in zip(names, answers, plans, strict=True):
        for answer, kind in zip(told, plan, strict=True):
            won = "result" in answer
            fence = answer["result"]["fence"] if won else 0
            assert won or answer["code"] == "conflict", answer
            found.append(Op(kind, name, won, fence, answer["begun"], answer["ended"]))
    lapses = sum(event.stream == task and type(event.event).__name__ == "LeaseLapsed" for event in events)
    return found + [Op("lapse", "", True)] * lapses


@pytest.mark.parametrize("lease", [1800.0, 0.02], ids=["long leases", "leases that lapse"])
def test_takes_and_releases_of_many_sessions_have_an_order(lease):
    dice = random.Random(7)
    with Place(pull_lease_seconds=lease) as place:
        assert place.start()
        names = joined(place, 4)
        racers = Racers(place, len(names))
        seen = []
        for number in range(15):
            task = asked(place, names[0], f"task {number}")
            plans = [[dice.choice(("take", "take", "release")) for _ in range(10)] for _ in names]
            calls = [
                [{"op": kind, "as": "worker", "workspace": name,
                  "args": {"task": task, **({"text": f"{name} {i}"} if kind == "release" else {})}}
                 for i, kind in enumerate(plan)]
                for name, plan in zip(names, plans, strict=True)
            ]
            seen.append((task, racers.run(calls), plans))
        place.stop()
        events, _ = place.audit()
    histories = [history_of(task, names, answers, plans, events) for task, answers, plans in seen]
    assert sum(op.won for history in histories for op in history) > 15
    assert [linearisable(history) for history in histories] == [True] * len(histories)
    assert [linearisable(twice_taken(history)) for history in histories] == [False] * len(histories)


def twice_taken(history):
    """The same history with a violation put in: somebody who lost a take is told that it won, with that fence."""
    winner = next(op for op in history if op.kind == "take" and op.won)
    return [*history, winner._replace(session="thief", begun=winner.begun, ended=winner.ended)]


@pytest.mark.parametrize(
    ("history", "possible"),
    [
        ([Op("take", "a", True, 1, 0, 9), Op("take", "b", False, 0, 0, 9)], True),
        ([Op("take", "a", True, 1, 0, 9), Op("take", "b", True, 2, 0, 9)], False),
        ([Op("take", "a", True, 1, 0, 9), Op("take", "b", True, 2, 0, 9), Op("lapse", "", True)], True),
        ([Op("take", "a", True, 1, 0, 1), Op("release", "a", True, 0, 2, 3), Op("take", "b", True, 2, 4, 5)], True),
        ([Op("take", "b", True, 2, 0, 1), Op("take", "a", True, 1, 2, 3), Op("release", "a", True, 0, 4, 5)], False),
        ([Op("take", "b", False, 0, 0, 1), Op("take", "a", True, 1, 2, 3)], False),
        ([Op("take", "a", True, 1, 0, 1), Op("release", "b", True, 0, 2, 3)], False),
        ([Op("take", "a", True, 1, 0, 1), Op("release", "b", False, 0, 2, 3)], True),
        ([Op("take", "a", True, 1, 0, 1), Op("take", "b", True, 1, 2, 3), Op("lapse", "", True)], False),
    ],
)
def test_the_checker_of_histories_tells_the_possible_from_the_impossible(history, possible):
    assert linearisable(history) is possible
