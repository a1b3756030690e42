"""Which holder gets the next message: exact by weight, less for whoever is busy, never one that is away."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tallystick.core.route import STATUSES, Candidate, choose


def run(candidates: list[Candidate], times: int) -> list[str]:
    credit: dict[str, int] = {}
    return [choose(candidates, credit) for _ in range(times)]


def test_over_700_messages_weights_of_1_2_and_4_are_met_exactly() -> None:
    chosen = run([Candidate(f"w{n}", n, 1, 0, "online") for n in (1, 2, 4)], 700)
    assert Counter(chosen) == {"w1": 100, "w2": 200, "w4": 400}
    for at in range(0, 700, 7):
        assert Counter(chosen[at : at + 7]) == {"w1": 1, "w2": 2, "w4": 4}, "in every seven, not only in the end"


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 64))
def test_idle_holders_are_chosen_exactly_by_weight_and_smoothly(weights: list[int], slots: int) -> None:
    total = sum(weights)
    chosen = run([Candidate(str(n), weight, slots, 0, "online") for n, weight in enumerate(weights)], 2 * total)
    assert Counter(chosen[:total]) == Counter(chosen[total:]) == {str(n): w for n, w in enumerate(weights)}


holder = st.builds(
    Candidate,
    agent=st.text("abcdef", min_size=1, max_size=3),
    weight=st.integers(1, 1000),
    concurrency=st.integers(1, 64),
    running=st.integers(0, 80),
    status=st.sampled_from(STATUSES),
)
holders = st.lists(holder, max_size=8, unique_by=lambda c: c.agent)


@given(holders, st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(-(10**9), 10**9)))
def test_only_who_can_take_it_is_chosen_and_a_suspect_only_where_nobody_is_online(
    candidates: list[Candidate], credit: dict[str, int]
) -> None:
    chosen = choose(candidates, credit)
    online = [c for c in candidates if c.status == "online"]
    may = [c.agent for c in (online or [c for c in candidates if c.status == "suspect"]) if c.running < c.concurrency]
    assert chosen in may if may else chosen == ""


@given(st.integers(1, 20), st.integers(2, 64), st.data())
def test_a_loaded_holder_gets_less_than_an_idle_one_of_the_same_weight(
    weight: int, slots: int, data: st.DataObject
) -> None:
    busy = data.draw(st.integers(1, slots - 1))
    pair = [Candidate("busy", weight, slots, busy, "online"), Candidate("idle", weight, slots, 0, "online")]
    counted = Counter(run(pair, 500))
    assert counted["busy"] < counted["idle"]
    assert counted["busy"] + counted["idle"] == 500


def test_credit_stays_bounded() -> None:
    candidates = [Candidate(str(n), n + 1, 4, n % 4, "online") for n in range(8)]
    credit: dict[str, int] = {}
    for _ in range(2000):
        choose(candidates, credit)
    assert max(map(abs, credit.values())) <= 2 * 27720 * sum(c.weight for c in candidates)
