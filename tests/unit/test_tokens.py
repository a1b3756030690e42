"""Tokens of spokes: who makes them and takes them away, and what the record has of them."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.app.tokens import KeptToken, faults
from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST, Actor
from tallystick.core.places import stream_of
from tallystick.core.tokens import MOST_DOMAINS
from tests.build import ANN, BOB, ELSEWHERE, HOME, WORKER, World, check_refusal


def make(name: str = "far", token_id: str = "tok_1", workspace: str = HOME, **given: Any) -> cmd.MakeSpokeToken:
    return cmd.MakeSpokeToken(workspace_id=workspace, token_id=token_id, name=name, **given)


def remove(name: str = "far", workspace: str = HOME) -> cmd.RemoveSpokeToken:
    return cmd.RemoveSpokeToken(workspace_id=workspace, name=name)


def refuses(world: World, code: ErrorCode, command: Any, by: str | Actor = ANN) -> None:
    before, position = world.directory, len(world.log)
    with pytest.raises(Refused) as caught:
        world.do(command, by)
    check_refusal(caught.value, code)
    assert world.directory is before
    assert len(world.log) == position


def test_the_record_has_for_whom_and_for_what_a_token_is(world: World) -> None:
    made = world.do(make(domains=("data", "ops", "data")), BOB)
    assert made == ev.SpokeTokenMade(token_id="tok_1", name="far", domains=("data", "ops"))
    assert (world.log[-1].stream, world.log[-1].actor.id) == (HOME, BOB)
    known = world.directory.tokens["far"]
    assert (known.token_id, known.workspace, known.made_at) == ("tok_1", HOME, world.now)
    assert known.domains == ("data", "ops")


def test_a_newer_token_takes_the_place_of_the_older_one_also_from_another_workspace(world: World) -> None:
    assert not world.do(make(), ANN).replaced
    assert world.do(make(token_id="tok_2", workspace=ELSEWHERE), ANN).replaced
    assert [(t.token_id, t.workspace) for t in world.directory.tokens.values()] == [("tok_2", ELSEWHERE)]
    refuses(world, ErrorCode.NOT_FOUND, remove(workspace=HOME))


def test_one_that_is_taken_away_is_known_no_more_and_may_be_made_again(world: World) -> None:
    world.do(make(), ANN)
    world.do(make("near", "tok_2"), ANN)
    world.do(remove(), ANN)
    assert set(world.directory.tokens) == {"near"}
    refuses(world, ErrorCode.NOT_FOUND, remove())
    assert not world.do(make(token_id="tok_3"), ANN).replaced


def test_only_a_person_makes_one_and_the_host_may_take_one_back(world: World) -> None:
    for by in (WORKER, HOST):
        refuses(world, ErrorCode.DENIED, make(), by)
    world.do(make(), ANN)
    refuses(world, ErrorCode.DENIED, remove(), WORKER)
    world.do(remove(), HOST)
    assert world.directory.tokens == {}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (make("human"), ErrorCode.INVALID),
        (make("../x"), ErrorCode.INVALID),
        (make(domains=("a b",)), ErrorCode.INVALID),
        (make(domains=tuple(f"d{number}" for number in range(MOST_DOMAINS + 1))), ErrorCode.INVALID),
        (make(workspace="wsp_none"), ErrorCode.NOT_FOUND),
        (remove("none"), ErrorCode.NOT_FOUND),
    ],
)
def test_what_can_be_no_token_is_refused(world: World, command: Any, code: ErrorCode) -> None:
    refuses(world, code, command)


def test_both_write_the_stream_of_the_workspace() -> None:
    assert {stream_of(make()), stream_of(remove())} == {HOME}


def test_what_is_kept_and_the_record_are_compared_by_name_and_by_which_token_it_is(world: World) -> None:
    for name in ("same", "older", "gone", "spoiled"):
        world.do(make(name, f"tok_{name}"), ANN)
    kept = [
        KeptToken(name="same", token_id="tok_same"),
        KeptToken(name="older", token_id="tok_before"),
        KeptToken(name="foreign", token_id="tok_foreign"),
        KeptToken(name="spoiled", fault="It cannot be trusted."),
    ]
    found = faults(kept, world.directory.tokens)
    assert list(found) == ["foreign", "gone", "older", "spoiled"]
    assert "does not know it" in found["foreign"]
    assert "its file is gone" in found["gone"]
    assert "older token" in found["older"]
    assert found["spoiled"] == "It cannot be trusted."
