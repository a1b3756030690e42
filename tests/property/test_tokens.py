"""Tokens made and taken away in any order, by anybody, in any workspace: the record folded anew says the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallystick.core import commands as cmd
from tallystick.core import directory as directories
from tallystick.core.directory import Directory
from tallystick.core.errors import Refused
from tallystick.core.identity import HOST
from tests.build import ANN, ELSEWHERE, HOME, WORKER, World

steps = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(["far", "near"]),
        st.sampled_from([HOME, ELSEWHERE]),
        st.sampled_from([ANN, WORKER, HOST.id]),
    ),
    max_size=30,
)


@given(steps)
def test_what_is_known_is_what_persons_made_last_and_nobody_took_away(plan: list[tuple[bool, str, str, str]]) -> None:
    world, expected = World(), dict[str, tuple[str, str]]()
    for number, (is_made, name, place, who) in enumerate(plan):
        by = HOST if who == HOST.id else who
        may = who == ANN if is_made else who != WORKER and expected.get(name, ("", ""))[1] == place
        token_id = f"tok_{number}"
        command = (
            cmd.MakeSpokeToken(workspace_id=place, token_id=token_id, name=name)
            if is_made
            else cmd.RemoveSpokeToken(workspace_id=place, name=name)
        )
        try:
            event = world.do(command, by)
        except Refused:
            assert not may
            continue
        assert may
        if is_made:
            assert event.replaced == (name in expected)
            expected[name] = (token_id, place)
        else:
            del expected[name]
    assert {name: (t.token_id, t.workspace) for name, t in world.directory.tokens.items()} == expected
    replayed = Directory()
    for recorded in world.log:
        replayed = directories.evolve(replayed, recorded)
    assert replayed == world.directory
