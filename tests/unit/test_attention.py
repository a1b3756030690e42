"""What a person is told of by the machine itself: four things, once each, and nothing that it did itself."""

from __future__ import annotations

import pytest

from tallystick.core import commands as cmd
from tallystick.core.attention import Attention, Concern, standings
from tests.build import ANN, BOB, WORKER, World


def told(world: World) -> list[Attention]:
    """What persons are told of now."""
    found: dict[str, Attention | None] = {}
    for recorded, rows in world.written:
        for standing in standings(rows, world.directory, recorded.actor.id):
            found[standing.subject] = standing.attention
    return [attention for attention in found.values() if attention is not None]


def test_work_for_a_person_is_a_decision_until_it_is_taken(world: World) -> None:
    task = world.ask(to=ANN)
    assert [(a.concern, a.person, a.task_id) for a in told(world)] == [(Concern.DECISION, ANN, task)]
    world.act(cmd.ClaimTask, task, ANN)
    assert told(world) == []


def test_a_question_to_an_agent_is_nothing_to_a_person(world: World) -> None:
    world.asked_back()
    assert told(world) == []


def test_two_questions_after_each_other_are_two_decisions(world: World) -> None:
    task = world.asked_back(by=ANN)
    (first,) = told(world)
    assert first.concern is Concern.DECISION
    world.act(cmd.AnswerQuestion, task, ANN)
    assert told(world) == []
    world.act(cmd.AskQuestion, task, WORKER)
    assert [a.concern for a in told(world)] == [Concern.DECISION]


def test_a_review_for_a_person_is_a_decision(world: World) -> None:
    world.in_review(by=ANN)
    assert [(a.concern, a.what) for a in told(world)] == [(Concern.DECISION, "waits for your review")]


def test_what_may_or_may_not_have_been_done_is_a_risk(world: World) -> None:
    world.doubted()
    assert [(a.concern, a.person) for a in told(world)] == [(Concern.RISK, ANN)]


@pytest.mark.parametrize("requester", [ANN, BOB])
def test_a_result_is_told_to_whoever_asked_and_gone_once_it_was_seen(world: World, requester: str) -> None:
    task = world.ask(by=requester)
    world.act(cmd.DeclineTask, task, WORKER)
    assert [(a.concern, a.person) for a in told(world)] == [(Concern.RESULT, requester)]
    world.do(cmd.MarkSeen(party=requester, items=((task, world.task(task).version),)), requester)
    assert told(world) == []


def test_nobody_is_told_of_what_it_did_itself(world: World) -> None:
    task = world.ask(by=ANN)
    world.act(cmd.CancelTask, task, ANN)
    assert told(world) == []
