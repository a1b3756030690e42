"""Many dispatches at once, with handlers that fail by chance and links that break: order is kept, and all adds up."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter

import pytest

from tallystick import Capability, ReachClient, ReachRefused, ReachResult, Spoke
from tests.support.places import Place
from tests.support.strait import Strait

DISPATCHES = 1000
AT_ONCE = 16
CUTS = 12


@pytest.fixture
def place(monkeypatch):
    with Place() as made:
        assert made.start()
        with Strait(str(made.place / "strait"), made.socket) as made.strait:
            for name in ("TALLY_SESSION", "TALLY_AGENT"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("TALLY_HOME", str(made.path))
            monkeypatch.setenv("TALLY_SOCKET", made.strait.path)
            yield made


class Chance:
    """What is asked and which of it fails, the same in every run."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        numbers = itertools.count()
        self.asked = [[next(numbers) for _ in range(self.random.randint(1, 4))] for _ in range(DISPATCHES)]
        self.total = next(numbers)
        self.fails = {number for number in range(self.total) if self.random.random() < 0.2}
        self.cuts = {self.random.randrange(self.total * 8) for _ in range(CUTS)}


async def test_a_thousand_dispatches_with_random_failures_keep_their_order_and_add_up(place):
    chance, ran = Chance(5), Counter()
    place.strait.cuts = chance.cuts

    async def square(message):
        number = message.payload["number"]
        ran[number] += 1
        if number in chance.fails:
            raise ValueError(f"{number} fails")
        return number * number

    spoke = Spoke(
        "squares", [Capability("Square", concurrency=AT_ONCE)], {"Square": square}, store=place.place / "s.db"
    )
    await spoke.start()
    client, left = ReachClient(), iter(chance.asked)

    async def some():
        for numbers in left:
            parts = [{"target_capability": "Square", "payload": {"number": number}} for number in numbers]
            answers = await client.dispatch(parts, timeout_ms=120_000)
            assert [told(answer) for answer in answers] == [expected(number, chance.fails) for number in numbers]
            found.extend(answers)

    found = []
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    await spoke.stop()
    assert len(found) == chance.total
    succeeded = [answer.payload for answer in found if isinstance(answer, ReachResult)]
    assert sum(succeeded) == sum(number**2 for number in range(chance.total) if number not in chance.fails)
    assert ran == Counter(range(chance.total)), "each ran once"


def told(answer):
    return answer.payload if isinstance(answer, ReachResult) else type(answer)


def expected(number, fails):
    return ReachRefused if number in fails else number * number
