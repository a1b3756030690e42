"""What was begun and has no known outcome: who may have it done again. See docs/decisions/0004."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode
from tallystick.core.identity import HOST
from tests.build import ANN, ASKER, BOB, HOME, REVIEWER, RUNNER, SESSIONS, WORKER, World, agent


def _doubted_while_working(world: World) -> str:
    task_id = world.pushed()
    world.act(cmd.DoubtDelivery, task_id, HOST)
    return task_id


def _doubted_before_it_began(world: World) -> str:
    task_id = world.leased()
    world.act(cmd.DoubtDelivery, task_id, HOST)
    return task_id


def _asked_and_lost(world: World) -> str:
    """It asked something, and then nobody saw any more what it did."""
    task_id = world.pushed()
    world.act(cmd.AskQuestion, task_id, agent(RUNNER, door="command"))
    world.act(cmd.DoubtDelivery, task_id, HOST)
    return task_id


def _waits_for_a_permission(world: World) -> str:
    task_id = world.pushed()
    world.act(cmd.RequestPermission, task_id, HOST)
    world.act(cmd.DoubtDelivery, task_id, HOST)
    return task_id


def _doubted_check(world: World) -> str:
    task_id = world.in_check()
    world.act(cmd.DoubtTask, task_id, HOST)
    return task_id


IN_DOUBT = [
    World.doubted,
    _doubted_while_working,
    _doubted_before_it_began,
    _asked_and_lost,
    _waits_for_a_permission,
    _doubted_check,
]


@pytest.mark.parametrize("bring", IN_DOUBT, ids=lambda bring: bring.__name__)
@pytest.mark.parametrize("to", [REVIEWER, RUNNER, "cap:Count", ""], ids=["pulls", "same", "other", "nobody"])
def test_what_is_in_doubt_is_done_again_on_a_persons_word_alone(world: World, bring: Any, to: str) -> None:
    task_id = bring(world)
    world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=WORKER), ANN)
    for somebody in (ASKER, WORKER, HOST.id):  # who asked, who coordinates, and the host by itself
        refused = world.refuses(ErrorCode.CONFLICT, cmd.ReassignTask, task_id, somebody, assignee=to)
        assert "is not known" in refused.message
    waits = world.place(task_id) == "input_required/unverified"
    assert ("--settle" if waits else "reassign") in refused.remedy

    world.act(cmd.ReassignTask, task_id, BOB, assignee=to)
    assert (world.task(task_id).assignee, world.task(task_id).doubt) == (to, "")
    assert world.delivery(task_id).due_at == world.now
    if bring is not _doubted_check:
        lost = world.delivery(task_id, 0)
        assert (lost.ended, lost.unverified) == ("canceled", True), "what became of that one is still not known"


def test_an_agents_answer_does_not_begin_anew_what_was_lost_sight_of(world: World) -> None:
    task_id = _asked_and_lost(world)
    world.do(cmd.EndSession(session_id=SESSIONS[RUNNER]), HOST)
    refused = world.refuses(ErrorCode.CONFLICT, cmd.AnswerQuestion, task_id, ASKER)
    assert "tally answer" in refused.remedy
    world.act(cmd.AnswerQuestion, task_id, ANN)
    assert world.place(task_id) == "submitted/rework"


def test_an_agents_answer_reaches_the_session_that_asked_also_while_it_is_in_doubt(world: World) -> None:
    task_id = _asked_and_lost(world)
    world.act(cmd.AnswerQuestion, task_id, ASKER)
    assert world.place(task_id) == "working/answered"
    assert [d.kind for d in world.work[task_id].deliveries] == ["assignment", "answer"], "nothing was begun anew"


@pytest.mark.parametrize("outcome", ["done", "redo", "cancel"])
def test_the_host_settles_a_doubt_only_as_failed(world: World, outcome: str) -> None:
    task_id = world.doubted()
    world.refuses(ErrorCode.CONFLICT, cmd.SettleDoubt, task_id, HOST, outcome=outcome)
    world.act(cmd.SettleDoubt, task_id, HOST, outcome="failed")
    assert world.place(task_id) == "failed/error"
