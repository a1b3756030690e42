"""Wakes in any order of intents, reports, endings and time: one is open, no cursor passes what was not completed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.core import commands as cmd
from tallystick.core import directory as directories
from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.errors import Refused
from tallystick.core.identity import HOST, Prefix
from tallystick.core.state import Unchanged
from tests.build import HOME, SECOND, SESSIONS, WORKER, World

OUTCOMES = "queued started completed interrupted failed busy plan_mode refused unverified".split()
FINAL = {"completed", "interrupted", "failed", "busy", "plan_mode", "refused", "unverified"}
PLACES = ((HOME, SESSIONS[WORKER]), (HOME, SECOND), (SECOND, SECOND), (HOME, ""))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("intend"), st.integers(0, 3), st.integers(1, 9)),
        st.tuples(st.sampled_from(OUTCOMES), st.integers(0, 9), st.integers(0, 2)),
        st.tuples(st.just("time"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("end"), st.integers(0, 20), st.just(0)),
    ),
    max_size=60,
)


class Oracle:
    """What must hold, reckoned from the accepted commands alone."""

    def __init__(self) -> None:
        self.wakes: dict[str, dict[str, Any]] = {}
        self.completed: dict[str, int] = {}

    def intended(self, wake_id: str, target: str, session: str, until: int) -> None:
        is_open = [w for w in self.wakes.values() if w["open"]]
        busy = [w for w in is_open if w["target"] == target or w["session"] == session != ""]
        assert not busy, "one open wake for each session and target"
        assert until > self.completed.get(target, 0), "nothing is woken for that was delivered"
        self.wakes[wake_id] = {"target": target, "session": session, "until": until, "open": True, "turn": ""}

    def reported(self, wake_id: str, outcome: str, turn: str) -> None:
        wake = self.wakes[wake_id]
        if outcome == "completed":
            assert turn or wake["turn"], "which turn it was is known"
            assert turn in ("", wake["turn"]) or not wake["turn"], "its own turn, and no other"
            self.completed[wake["target"]] = max(wake["until"], self.completed.get(wake["target"], 0))
        wake["turn"] = turn or wake["turn"]
        wake["open"] = outcome not in FINAL


def attempt(world: World, command: Any) -> bool:
    try:
        return not isinstance(world.do(command, HOST), Unchanged)
    except Refused:
        return False


def ends(world: World, oracle: Oracle, session: str) -> None:
    if attempt(world, cmd.EndSession(session_id=session)):
        oracle.completed.pop(session, None)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_one_wake_is_open_and_only_its_completed_turn_moves_the_cursor(plan: list[tuple[str, int, int]]) -> None:
    world, oracle, made = World(), Oracle(), []
    for word, one, two in plan:
        if word == "intend":
            target, session = PLACES[one]
            wake_id = world.id(Prefix.WAKE)
            intent = cmd.IntendWake(
                agent_id=WORKER, wake_id=wake_id, target=target, session=session, entry="claude", until=two
            )
            if attempt(world, intent):
                oracle.intended(wake_id, target, session, two)
                made.append(wake_id)
        elif word == "time":
            world.now += (0.5, 5, 60, 700, 10_000)[one]
        elif word == "end":
            if one == 0:
                ends(world, oracle, SECOND)
        elif made:
            wake_id, turn = made[one % len(made)], ("", "t1", "t2")[two]
            if attempt(world, cmd.ReportWake(agent_id=WORKER, wake_id=wake_id, outcome=word, turn=turn)):
                oracle.reported(wake_id, word, turn)
        waking = world.directory.agents[WORKER].waking
        assert dict(waking.cursors) == oracle.completed
        assert sum(w.open and w.session == SECOND for w in waking.wakes.values()) <= 1
    assert folded(world.log) == world.directory


def folded(log: list[ev.Recorded]) -> Directory:
    directory = Directory()
    for recorded in log:
        directory = directories.evolve(directory, recorded)
    return directory
