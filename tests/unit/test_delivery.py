"""Deliveries: seven facts, each on the word of its own witness; leases, doubt and what may be tried again."""

from __future__ import annotations

import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode
from tallystick.core.events import FACT_ORDER
from tallystick.core.facts import FACTS
from tallystick.core.identity import HOST
from tallystick.core.model import Fact
from tallystick.core.state import Unchanged
from tests import oracle
from tests.build import (
    ANN,
    ASKER,
    BOB,
    REVIEWER,
    RUNNER,
    SECOND,
    SESSIONS,
    WORKER,
    World,
    agent,
    run,
)

MINE = SESSIONS[WORKER]
ITS = SESSIONS[RUNNER]
COMMAND = agent(RUNNER, ITS, "command")
PERSISTED = [("accepted", "host"), ("persisted", "host")]


def test_the_table_has_every_fact_in_its_order_with_the_ends_the_page_names() -> None:
    assert [row.fact for row in FACTS] == list(Fact)
    assert [f.value for f in FACT_ORDER] == list(oracle.WITNESSES)
    ends = {row.fact.value: set(row.may_end) for row in FACTS}
    before = {"rejected", "expired", "canceled", "failed"}
    assert ends["accepted"] == ends["persisted"] == before
    assert ends["claimed"] == before | {"persisted", "held", "unverified"}
    assert ends["admitted"] == ends["recorded"] == before | {"unverified"}
    assert ends["working"] == {"failed", "canceled", "unverified"}
    assert ends["submitted"] == set()
    assert ends["unverified"] == {"submitted", "failed", "persisted"}


# --- pull --------------------------------------------------------------------------------------------------------


def test_a_take_says_claimed_admitted_and_working_in_one_event(world: World) -> None:
    task_id = world.taken()
    assert world.facts(task_id) == [*PERSISTED, ("claimed", MINE), ("admitted", "policy"), ("working", MINE)]
    assert [r.version for r in world.log if r.stream == task_id] == [1, 2]


def test_recorded_comes_with_the_readers_acknowledgement(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.RecordDelivery, task_id, WORKER, witness=MINE)
    assert [fact for fact, _ in world.facts(task_id)][-2:] == ["recorded", "working"]
    assert world.delivery(task_id).facts[-2].evidence == "inferred"
    assert isinstance(world.act(cmd.RecordDelivery, task_id, WORKER), Unchanged)


def test_recorded_comes_with_the_holders_next_call(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.ReportProgress, task_id, WORKER)
    assert ("recorded", MINE) in world.facts(task_id)
    assert "inferred" in next(f for f in world.delivery(task_id).facts if f.fact is Fact.RECORDED).evidence


def test_a_body_that_was_read_before_the_take_is_recorded_in_its_place(world: World) -> None:
    task_id = world.ask()
    world.act(cmd.RecordDelivery, task_id, WORKER, witness=MINE)
    world.act(cmd.ClaimTask, task_id, WORKER)
    assert [f.fact for f in world.delivery(task_id).facts] == list(FACT_ORDER[:-1])


def test_what_others_do_records_nothing(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.SetTaskMode, task_id, ASKER, mode="running")
    world.act(cmd.RecoverLease, task_id, HOST.id)
    assert ("recorded", MINE) not in world.facts(task_id)


def test_only_the_recipient_acknowledges(world: World) -> None:
    task_id = world.ask(to=BOB)
    world.refuses(ErrorCode.DENIED, cmd.RecordDelivery, task_id, WORKER)
    answered = world.in_place("working/answered")
    answer = world.delivery(answered).delivery_id
    world.act(cmd.RecordDelivery, answered, WORKER, delivery_id=answer, witness=MINE)
    assert [fact for fact, _ in world.facts(answered)] == ["accepted", "persisted", "recorded"], "answers end there"


def test_submitted_is_the_last_fact_and_names_its_references(world: World) -> None:
    task_id = world.in_review()
    assert world.facts(task_id)[-1] == ("submitted", MINE)
    assert "references checked" in world.delivery(task_id).facts[-1].evidence
    assert not world.delivery(task_id).open


def test_facts_stand_once_each(world: World) -> None:
    task_id = world.in_check()
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run("failed"))
    world.act(cmd.HandInResult, task_id, WORKER)
    facts = [fact for fact, _ in world.facts(task_id)]
    assert facts == list(oracle.WITNESSES)


def test_changes_are_a_delivery_of_their_own(world: World) -> None:
    task_id = world.in_rework()
    assert (world.delivery(task_id).kind, world.facts(task_id)) == ("change", PERSISTED)
    world.act(cmd.HandInResult, task_id, WORKER)
    assert [fact for fact, _ in world.facts(task_id)] == list(oracle.WITNESSES)


@pytest.mark.parametrize(
    ("kind", "by", "ended"),
    [
        (cmd.DeclineTask, WORKER, "rejected"),
        (cmd.FailTask, WORKER, "failed"),
        (cmd.ReleaseTask, WORKER, "canceled"),
        (cmd.ReassignTask, ASKER, "canceled"),
        (cmd.LapseLease, HOST.id, "failed"),
        (cmd.ExpireTask, HOST.id, "expired"),
    ],
)
def test_a_delivery_ends_as_its_task_moves_on(world: World, kind: type, by: str, ended: str) -> None:
    task_id = world.taken(deadline_at=world.now + 5000)
    world.now += 5000
    world.act(kind, task_id, by)
    first = world.delivery(task_id, 0)
    assert (first.ended, first.open, first.due_at) == (ended, False, 0)


def test_an_answer_is_settled_with_its_task(world: World) -> None:
    task_id = world.in_place("working/answered")
    world.act(cmd.HandInResult, task_id, WORKER)
    assert world.delivery(task_id).ended == "settled"


# --- races and fences --------------------------------------------------------------------------------------------


def test_reported_40_of_eight_who_take_it_one_wins_and_the_others_learn_who(world: World) -> None:
    task_id = world.ask()
    world.act(cmd.ClaimTask, task_id, WORKER)
    for session in [SECOND] * 7:
        refused = world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, agent(WORKER, session))
        assert "@worker has taken it" in refused.message


def test_reported_43_after_a_lapse_the_old_fence_is_stale(world: World) -> None:
    task_id = world.taken()
    old = world.task(task_id).fence
    world.now += world.limits.pull_lease_seconds
    world.act(cmd.LapseLease, task_id, HOST.id)
    world.refuses(ErrorCode.CONFLICT, cmd.HandInResult, task_id, WORKER, fence=old)
    world.act(cmd.ClaimTask, task_id, agent(WORKER, SECOND))
    world.refuses(ErrorCode.CONFLICT, cmd.HandInResult, task_id, agent(WORKER, SECOND), fence=old)
    world.refuses(ErrorCode.CONFLICT, cmd.HandInResult, task_id, WORKER)
    assert world.task(task_id).attempt == 2


def test_a_lease_lapses_only_when_it_is_over(world: World) -> None:
    task_id = world.taken()
    world.now += world.limits.pull_lease_seconds - 1
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id)
    world.now += 1
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id, lease_until=world.now + 1)
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id, fence=99)
    world.act(cmd.LapseLease, task_id, HOST.id)


def test_a_persons_take_has_no_lease(world: World) -> None:
    task_id = world.ask(to=BOB)
    world.act(cmd.ClaimTask, task_id, BOB)
    assert (world.task(task_id).lease_until, world.task(task_id).session) == (0, "")
    world.now += 10**9
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id)


def test_after_a_restart_the_same_session_comes_back_with_its_old_fence_once(world: World) -> None:
    task_id = world.taken()
    old = world.task(task_id).fence
    world.act(cmd.RecoverLease, task_id, HOST.id)
    world.act(cmd.RecoverLease, task_id, HOST.id)
    world.act(cmd.ReportProgress, task_id, WORKER, fence=old)
    world.refuses(ErrorCode.CONFLICT, cmd.ReportProgress, task_id, WORKER, fence=old + 1)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, agent(WORKER, SECOND))
    world.act(cmd.ClaimTask, task_id, WORKER)
    assert world.task(task_id).fence == old + 2
    world.refuses(ErrorCode.CONFLICT, cmd.ReportProgress, task_id, WORKER, fence=old)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER)


def test_a_holder_comes_back_to_an_answered_task_too(world: World) -> None:
    task_id = world.in_place("working/answered")
    world.act(cmd.RecoverLease, task_id, HOST.id)
    world.act(cmd.ClaimTask, task_id, WORKER)
    assert world.place(task_id) == "working/answered"


def test_a_restart_grants_one_full_lease(world: World) -> None:
    task_id = world.taken()
    world.now += 1000
    world.act(cmd.RecoverLease, task_id, HOST.id)
    assert world.task(task_id).lease_until == world.now + world.limits.pull_lease_seconds


# --- push --------------------------------------------------------------------------------------------------------


def test_a_push_is_written_ahead_as_an_intent(world: World) -> None:
    task_id = world.leased()
    assert world.facts(task_id) == [*PERSISTED, ("claimed", ITS), ("admitted", "policy")]
    assert (world.delivery(task_id).intent, world.delivery(task_id).due_at) == ("intended", 0)
    assert world.task(task_id).lease_until == world.now + 120
    world.act(cmd.BeginDelivery, task_id, HOST.id)
    assert world.facts(task_id)[-2:] == [("recorded", ITS), ("working", ITS)]
    assert world.task(task_id).holder == RUNNER
    world.act(cmd.HandInResult, task_id, COMMAND, run=run(exit_code=0))
    assert world.facts(task_id, 0)[-1] == ("submitted", ITS)
    assert world.delivery(task_id, 0).intent == "performed"
    assert world.delivery(task_id, 0).facts[-1].evidence == "exit 0"


def test_a_delivery_is_pushed_when_it_is_due_and_once(world: World) -> None:
    task_id = world.leased()
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST.id)
    world.act(cmd.ReturnDelivery, task_id, HOST.id, retry_at=world.now + 2)
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST.id)
    world.now += 2
    world.act(cmd.LeaseDelivery, task_id, HOST.id)


def test_reported_20_busy_is_queued_and_costs_no_attempt(world: World) -> None:
    task_id = world.ask(to=RUNNER)
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST.id, outstanding=1)
    assert world.delivery(task_id).retries == 0
    world.act(cmd.LeaseDelivery, task_id, HOST.id, outstanding=0)


def test_what_never_began_is_tried_again_and_at_last_is_offline(world: World) -> None:
    task_id = world.ask(to=RUNNER)
    for wait in world.limits.retry_seconds:
        world.act(cmd.LeaseDelivery, task_id, HOST.id)
        world.act(cmd.ReturnDelivery, task_id, HOST.id, retry_at=world.now + wait)
        assert world.facts(task_id) == PERSISTED
        assert world.task(task_id).lease_until == 0
        world.now += wait
    world.act(cmd.LeaseDelivery, task_id, HOST.id)
    world.act(cmd.ReturnDelivery, task_id, HOST.id)
    assert world.place(task_id) == "failed/offline"


def test_what_never_began_is_compensated_where_there_is_a_target(world: World) -> None:
    task_id = world.ask(to=RUNNER, on_failure=REVIEWER)
    for _ in range(6):
        world.act(cmd.LeaseDelivery, task_id, HOST.id)
        world.act(cmd.ReturnDelivery, task_id, HOST.id, retry_at=world.now)
    assert (world.place(task_id), world.task(task_id).failures) == ("submitted/compensating", 1)


def test_what_began_is_not_returned_and_does_not_begin_twice(world: World) -> None:
    task_id = world.pushed()
    world.refuses(ErrorCode.CONFLICT, cmd.ReturnDelivery, task_id, HOST.id)
    world.refuses(ErrorCode.CONFLICT, cmd.BeginDelivery, task_id, HOST.id)
    world.refuses(ErrorCode.CONFLICT, cmd.BeginDelivery, world.ask(to=RUNNER), HOST.id)


def test_hostile_68_what_was_pushed_never_lapses_into_a_new_attempt(world: World) -> None:
    task_id = world.pushed()
    world.now += 10**6
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id)
    world.act(cmd.DoubtDelivery, task_id, HOST.id)
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id)
    world.act(cmd.DoubtTask, task_id, HOST.id)
    assert (world.place(task_id), world.task(task_id).turn) == ("input_required/unverified", ANN)
    assert len(world.work[task_id].deliveries) == 1


def test_handing_over_a_body_is_no_dispatch_and_is_not_doubted(world: World) -> None:
    task_id = world.taken()
    world.refuses(ErrorCode.CONFLICT, cmd.DoubtTask, task_id, HOST.id)
    world.refuses(ErrorCode.CONFLICT, cmd.DoubtDelivery, task_id, HOST.id)


def test_while_the_lease_lasts_the_delivery_is_unverified_and_the_task_works_on(world: World) -> None:
    task_id = world.pushed()
    world.act(cmd.DoubtDelivery, task_id, HOST.id)
    assert world.place(task_id) == "working"
    assert (world.delivery(task_id).unverified, world.delivery(task_id).intent) == (True, "unverified")
    assert [row.fact for row in world.table("deliveries")] == ["unverified"]
    assert isinstance(world.act(cmd.DoubtDelivery, task_id, HOST.id), Unchanged)


def test_the_holder_that_comes_back_is_a_reconciler(world: World) -> None:
    task_id = world.pushed()
    world.act(cmd.RecoverLease, task_id, HOST.id)
    world.act(cmd.DoubtDelivery, task_id, HOST.id)
    world.act(cmd.ClaimTask, task_id, COMMAND)
    assert (world.delivery(task_id).unverified, world.delivery(task_id).intent) == (False, "intended")
    assert world.facts(task_id)[-1] == ("working", ITS)


@pytest.mark.parametrize(
    ("outcome", "fact", "ended", "flag", "intent", "attempts"),
    [
        ("done", "submitted", "", False, "performed", 1),
        ("failed", "working", "failed", False, "refuted", 1),
        ("redo", "working", "failed", False, "refuted", 2),
        ("cancel", "working", "canceled", True, "unverified", 1),
    ],
)
def test_a_doubt_ends_on_the_word_of_who_settled_it(
    world: World, outcome: str, fact: str, ended: str, flag: bool, intent: str, attempts: int
) -> None:
    task_id = world.doubted()
    assert world.delivery(task_id).unverified
    world.act(cmd.SettleDoubt, task_id, BOB, outcome=outcome)
    d = world.delivery(task_id, 0)
    assert (d.fact.value, d.ended, d.unverified, d.intent) == (fact, ended, flag, intent)
    assert len(world.work[task_id].deliveries) == attempts
    if outcome == "done":
        assert world.facts(task_id)[-1] == ("submitted", BOB)


def test_hostile_69_after_redo_the_old_holder_does_not_come_back(world: World) -> None:
    task_id = world.doubted()
    fence = world.task(task_id).fence
    world.act(cmd.SettleDoubt, task_id, ANN, outcome="redo")
    world.refuses(ErrorCode.DENIED, cmd.AnswerQuestion, task_id, COMMAND)
    world.refuses(ErrorCode.CONFLICT, cmd.HandInResult, task_id, COMMAND, fence=fence)
    world.act(cmd.LeaseDelivery, task_id, HOST.id)
    assert world.task(task_id).fence > fence


# --- what starts nothing -----------------------------------------------------------------------------------------


def test_hostile_22_nothing_starts_after_the_deadline(world: World) -> None:
    pulled = world.ask(deadline_at=world.now + 10)
    pushed = world.ask(to=RUNNER, deadline_at=world.now + 10)
    world.now += 10
    world.refuses(ErrorCode.EXPIRED, cmd.ClaimTask, pulled, WORKER)
    world.refuses(ErrorCode.EXPIRED, cmd.LeaseDelivery, pushed, HOST.id)
    world.act(cmd.ExpireTask, pulled, HOST.id)
    assert world.place(pulled) == "failed/expired"


def test_a_deadline_ends_at_hand_in(world: World) -> None:
    task_id = world.in_rework(deadline_at=world.now + 10)
    world.now += 100
    world.refuses(ErrorCode.CONFLICT, cmd.ExpireTask, task_id, HOST.id)
    world.act(cmd.ClaimTask, task_id, WORKER)


def test_nothing_expires_before_its_deadline_or_without_one(world: World) -> None:
    world.refuses(ErrorCode.CONFLICT, cmd.ExpireTask, world.ask(), HOST.id)
    world.refuses(ErrorCode.CONFLICT, cmd.ExpireTask, world.ask(deadline_at=world.now + 1), HOST.id)


def test_a_deadline_over_an_open_intent_is_unverified_and_not_expired(world: World) -> None:
    task_id = world.pushed(deadline_at=world.now + 10)
    world.now += 10
    world.act(cmd.ExpireTask, task_id, HOST.id)
    assert world.place(task_id) == "input_required/unverified"
    assert world.delivery(task_id).unverified


def test_what_was_lost_sight_of_does_not_expire_because_nothing_of_it_runs(world: World) -> None:
    task_id = world.pushed(deadline_at=world.now + 10)
    world.act(cmd.DoubtDelivery, task_id, HOST.id, delivery_id=world.delivery(task_id).delivery_id)
    world.now += 10
    world.act(cmd.ExpireTask, task_id, HOST.id, ended=True, detail="lost")
    assert world.place(task_id) == "input_required/unverified"
    assert world.task(task_id).doubt == "lost"


def test_nothing_is_pushed_after_cancel_was_asked(world: World) -> None:
    task_id = world.leased()
    world.act(cmd.CancelTask, task_id, ASKER)
    assert world.place(task_id) == "submitted/new"
    world.act(cmd.ReturnDelivery, task_id, HOST.id, retry_at=world.now)
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST.id)
    world.act(cmd.ConfirmCancel, task_id, HOST.id)
    assert world.place(task_id) == "canceled/by_requester"


@pytest.mark.parametrize("command", [cmd.SetAgentMode(agent_id=RUNNER, mode="paused"), cmd.SetHostMode(mode="stopped")])
def test_nothing_is_pushed_while_a_person_holds_it_back(world: World, command: cmd.Command) -> None:
    task_id = world.ask(to=RUNNER)
    world.do(command, ANN)
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST.id)


# --- cancel ------------------------------------------------------------------------------------------------------


def test_before_dispatch_a_cancel_ends_it_at_once(world: World) -> None:
    task_id = world.ask()
    world.act(cmd.CancelTask, task_id, BOB)
    assert (world.place(task_id), world.delivery(task_id).ended) == ("canceled/by_person", "canceled")


def test_while_it_is_worked_on_a_cancel_waits_for_the_end_of_the_work(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.CancelTask, task_id, ANN)
    task = world.task(task_id)
    assert (task.place, task.turn, task.cancel_requested_at) == ("working", WORKER, world.now)
    assert [n.kind for n in world.table("notices") if n.party == WORKER] == ["cancel_asked"]
    world.now += world.limits.pull_lease_seconds
    world.act(cmd.LapseLease, task_id, HOST.id)
    assert world.place(task_id) == "canceled/by_person"


def test_a_cancel_is_confirmed_only_when_it_was_asked(world: World) -> None:
    world.refuses(ErrorCode.CONFLICT, cmd.ConfirmCancel, world.taken(), HOST.id)


def test_hostile_70_a_result_that_came_before_the_cancel_stands(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    world.refuses(ErrorCode.CONFLICT, cmd.CancelTask, task_id, ASKER)


def test_a_cancel_names_the_children_that_follow(world: World) -> None:
    task_id = world.taken()
    child = world.ask(by=WORKER, to=REVIEWER, parent=task_id)
    world.act(cmd.CancelTask, task_id, ASKER)
    world.act(cmd.ReleaseTask, task_id, WORKER)
    assert world.task(task_id).cascade == (child,)
    world.act(cmd.FinishCascade, task_id, HOST.id)
    assert world.task(task_id).cascade == ()


def test_a_reassignment_is_refused_after_cancel_was_asked(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.CancelTask, task_id, ASKER)
    world.refuses(ErrorCode.CONFLICT, cmd.ReassignTask, task_id, ASKER)


def test_reassigning_tells_the_old_holder_and_cancels_its_delivery(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.ReassignTask, task_id, ASKER)
    assert (world.place(task_id), world.task(task_id).turn) == ("submitted/new", REVIEWER)
    assert world.delivery(task_id, 0).ended == "canceled"
    assert [n.kind for n in world.table("notices") if n.party == WORKER] == ["reassigned"]
    world.refuses(ErrorCode.DENIED, cmd.HandInResult, task_id, agent(WORKER, door="cli"), fence=None)


def test_what_the_clients_own_record_proves_takes_the_place_of_what_was_inferred(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.RecordDelivery, task_id, WORKER, witness=WORKER)
    proof = "session.jsonl at byte 7: user"
    world.act(cmd.RecordDelivery, task_id, HOST.id, witness=WORKER, proof=proof)
    assert [f.evidence for f in world.delivery(task_id).facts if f.fact is Fact.RECORDED] == [proof]
    again = world.act(cmd.RecordDelivery, task_id, HOST.id, witness=WORKER, proof="another")
    assert isinstance(again, Unchanged)


def test_a_proof_may_come_after_the_result(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.HandInResult, task_id, WORKER)
    world.act(cmd.RecordDelivery, task_id, HOST.id, witness=WORKER, proof="session.jsonl at byte 7: user")
    order = [f.fact for f in world.delivery(task_id).facts]
    assert order.index(Fact.RECORDED) < order.index(Fact.WORKING) < order.index(Fact.SUBMITTED)
    assert world.facts(task_id)[-1][0] == "submitted"


def test_a_recipient_proves_nothing_about_itself(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.RecordDelivery, task_id, WORKER, witness=WORKER)
    assert isinstance(world.act(cmd.RecordDelivery, task_id, WORKER, witness=WORKER, proof="mine"), Unchanged)


def test_a_task_whose_session_has_ended_lapses_at_once_and_its_agent_takes_it_again(world: World) -> None:
    task_id = world.taken()
    world.refuses(ErrorCode.CONFLICT, cmd.LapseLease, task_id, HOST.id)
    world.do(cmd.EndSession(session_id=SESSIONS[WORKER]), HOST)
    event = world.act(cmd.LapseLease, task_id, HOST.id, detail="its session has ended")
    assert (event.previous, event.detail) == (WORKER, "its session has ended")
    assert world.place(task_id) == "submitted/new"
    assert world.task(task_id).attempt == 2
    world.act(cmd.ClaimTask, task_id, agent(WORKER, SECOND), session=SECOND)
    assert world.task(task_id).session == SECOND
