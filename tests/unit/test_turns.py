"""Turns of driven sessions: a prompt is written down ahead, one at a time, and its end says nothing about the task."""

from __future__ import annotations

import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode
from tallystick.core.identity import HOST, Prefix
from tallystick.core.model import Budget, CheckOutcome, Spent
from tallystick.core.state import Unchanged
from tallystick.core.task import DutyKind, next_duty, wanted
from tests.build import ANN, ASKER, CHECK, DRIVEN, HOME, SESSIONS, World, agent, run
from tests.build import new_id as make

MINE = SESSIONS[DRIVEN]


def test_each_fact_of_a_driven_session_has_its_own_witness(world: World) -> None:
    task_id = world.prompted()
    assert world.facts(task_id)[2:] == [("claimed", MINE), ("admitted", "policy")]
    world.act(cmd.RecordDelivery, task_id, HOST, witness=MINE, proof="inferred: the first update of its turn")
    assert world.facts(task_id)[4:] == [("recorded", MINE)]
    world.act(cmd.ClaimTask, task_id, DRIVEN)
    assert world.facts(task_id)[5:] == [("working", MINE)]
    world.act(cmd.HandInResult, task_id, DRIVEN)
    assert world.facts(task_id)[6:] == [("submitted", MINE)]


def test_only_the_session_that_it_was_handed_to_takes_a_driven_agents_task(world: World) -> None:
    other = make(Prefix.SESSION, 77)
    world.do(cmd.OpenSession(session_id=other, agent=DRIVEN, workspace=HOME, door="acp"), HOST)
    task_id = world.ask(to=DRIVEN)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, DRIVEN)
    world.act(cmd.LeaseDelivery, task_id, HOST, session=MINE)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, agent(DRIVEN, other))
    world.act(cmd.ClaimTask, task_id, DRIVEN)


def test_one_turn_at_a_time_and_a_lost_one_is_named(world: World) -> None:
    task_id = world.prompted()
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_2")
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_2", lost="trn_1")  # handed over once
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", lost="trn_1", purpose="resumed")
    assert isinstance(world.act(cmd.EndTurn, task_id, HOST, turn_id="trn_1"), Unchanged)
    world.act(cmd.EndTurn, task_id, HOST, turn_id="trn_2")
    assert world.task(task_id).running == ""


def test_the_end_of_a_turn_moves_nothing(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.EndTurn, task_id, HOST)
    assert world.place(task_id) == "working"
    assert world.work[task_id].in_flight
    assert wanted(world.work[task_id]) == "resumed"


def test_a_session_is_reminded_once(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.EndTurn, task_id, HOST)
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="reminder")
    world.act(cmd.EndTurn, task_id, HOST, turn_id="trn_2")
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_3", purpose="reminder")


def test_what_waits_for_an_answer_is_not_in_flight_and_a_cancel_ends_it_at_once(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.AskQuestion, task_id, DRIVEN)
    assert world.work[task_id].in_flight
    world.act(cmd.EndTurn, task_id, HOST)
    assert not world.work[task_id].in_flight
    world.act(cmd.CancelTask, task_id, ASKER)
    assert world.place(task_id) == "canceled/by_requester"


def test_an_answer_is_handed_over_by_the_next_turn_of_the_same_session(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.AskQuestion, task_id, DRIVEN)
    world.act(cmd.EndTurn, task_id, HOST)
    world.act(cmd.AnswerQuestion, task_id, ASKER)
    assert wanted(world.work[task_id]) == "answer"
    answer = world.delivery(task_id)
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="answer", delivery_id=answer.delivery_id)
    assert world.facts(task_id)[2:] == [("claimed", MINE), ("admitted", "policy")]
    assert world.work[task_id].in_flight
    world.act(cmd.HandInResult, task_id, DRIVEN)
    world.act(cmd.EndTurn, task_id, HOST, turn_id="trn_2")
    assert world.place(task_id) == "completed/unreviewed"


def test_a_refuted_check_goes_back_to_the_session(world: World) -> None:
    task_id = world.driven(done_when=CHECK)
    world.act(cmd.HandInResult, task_id, DRIVEN)
    world.act(cmd.EndTurn, task_id, HOST)
    assert wanted(world.work[task_id]) == ""
    world.act(cmd.ReportCheck, task_id, HOST, run=run(CheckOutcome.FAILED))
    assert wanted(world.work[task_id]) == "refuted"
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="refuted")
    assert world.task(task_id).refuted is False


def test_notes_of_turns_make_nothing_old_that_somebody_has_looked_at(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.HandInResult, task_id, DRIVEN, review_wanted=True)
    seen = world.task(task_id).version
    world.act(cmd.NoteTurn, task_id, HOST)
    world.act(cmd.EndTurn, task_id, HOST)
    world.act(cmd.ApproveResult, task_id, ASKER, base=seen)
    assert world.place(task_id) == "completed/approved"


def test_what_turns_used_adds_up_and_ends_at_the_budget(world: World) -> None:
    task_id = world.driven(budget=Budget(tokens=100))
    world.act(cmd.NoteTurn, task_id, HOST, spent=Spent(tokens=40, unknown=("cost",)))
    world.act(cmd.EndTurn, task_id, HOST, spent=Spent(tokens=60, unknown=("cost",)))
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="reminder")
    world.act(cmd.EndTurn, task_id, HOST, turn_id="trn_2", spent=Spent(tokens=50, unknown=("cost",)))
    assert world.task(task_id).spent == Spent(tokens=110, unknown=("cost",))
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_3", purpose="resumed")


def test_a_lost_turn_counts_what_it_had_told(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.NoteTurn, task_id, HOST, spent=Spent(tokens=40))
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="resumed", lost="trn_1")
    assert world.task(task_id).spent.tokens == 40


def test_what_was_prompted_and_has_no_outcome_is_doubted_and_never_sent_again_by_itself(world: World) -> None:
    task_id = world.prompted()
    world.act(cmd.RecordDelivery, task_id, HOST, witness=MINE)
    world.act(cmd.EndTurn, task_id, HOST, stop="lost")
    world.act(cmd.DoubtDelivery, task_id, HOST)
    world.refuses(ErrorCode.CONFLICT, cmd.ReturnDelivery, task_id, HOST)
    world.act(cmd.ClaimTask, task_id, DRIVEN)
    world.act(cmd.DoubtDelivery, task_id, HOST)
    assert wanted(world.work[task_id]) == ""
    duty = next_duty(world.work[task_id], world.limits)
    assert duty is not None
    assert duty.kind is DutyKind.DOUBT


def test_a_prompt_that_its_history_does_not_have_is_handed_over_again(world: World) -> None:
    task_id = world.prompted()
    world.act(cmd.EndTurn, task_id, HOST, stop="lost")
    world.act(cmd.DoubtDelivery, task_id, HOST)
    world.act(cmd.ReturnDelivery, task_id, HOST)
    assert world.facts(task_id) == [("accepted", "host"), ("persisted", "host")]
    assert not world.delivery(task_id).unverified


def test_an_interrupted_turn_that_its_history_has_is_gone_on_with_at_most_twice(world: World) -> None:
    task_id = world.driven()
    for number in (2, 3):
        world.act(cmd.EndTurn, task_id, HOST, turn_id=world.task(task_id).running, stop="lost")
        world.act(cmd.DoubtDelivery, task_id, HOST)
        world.act(cmd.StartTurn, task_id, HOST, turn_id=f"trn_{number}", purpose="resumed")
        assert not world.delivery(task_id).unverified
    world.act(cmd.EndTurn, task_id, HOST, turn_id="trn_3", stop="lost")
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_4", purpose="resumed")


def test_nothing_is_prompted_after_a_cancel_or_while_a_person_holds_it_back(world: World) -> None:
    task_id = world.driven()
    world.act(cmd.EndTurn, task_id, HOST)
    world.act(cmd.SetTaskMode, task_id, ASKER, mode="paused")
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="resumed")
    world.act(cmd.SetTaskMode, task_id, ASKER, mode="running")
    world.act(cmd.CancelTask, task_id, ASKER)
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="resumed")
    assert wanted(world.work[task_id]) == ""


def test_a_permission_before_the_take_keeps_the_lease_of_what_is_in_flight(world: World) -> None:
    task_id = world.prompted()
    world.act(cmd.RequestPermission, task_id, HOST)
    world.act(cmd.DecidePermission, task_id, "per_" + world.task(task_id).subject[4:])
    assert world.place(task_id) == "submitted/new"
    assert world.task(task_id).lease_until > world.now


def test_only_sessions_that_the_host_drives_are_prompted(world: World) -> None:
    task_id = world.taken()
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, purpose="resumed")


@pytest.mark.parametrize("mode", ["paused", "stopped"])
def test_no_prompt_goes_to_a_session_that_a_person_holds_back(world: World, mode: str) -> None:
    task_id = world.driven()
    world.act(cmd.EndTurn, task_id, HOST)
    world.do(cmd.SetSessionMode(session_id=MINE, mode=mode), ANN)
    world.refuses(ErrorCode.CONFLICT, cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="reminder")
    world.do(cmd.SetSessionMode(session_id=MINE, mode="running"), ANN)
    world.act(cmd.StartTurn, task_id, HOST, turn_id="trn_2", purpose="reminder")


@pytest.mark.parametrize(("mode", "promised"), [("stopped", "offline"), ("paused", "mailbox"), ("running", "live")])
def test_of_a_session_that_is_held_back_nothing_is_promised_now(world: World, mode: str, promised: str) -> None:
    world.do(cmd.SetSessionMode(session_id=MINE, mode=mode), ANN)
    assert world.task(world.ask(to=DRIVEN, session=MINE)).promise == promised
