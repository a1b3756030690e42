"""What the host has to do next, and when; whose turn it is when a party cannot take it."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode
from tallystick.core.identity import HOST, Prefix
from tallystick.core.model import CheckOutcome, Reason, TaskState
from tallystick.core.route import presence
from tallystick.core.state import Unchanged
from tallystick.core.task import Duty, DutyKind, due_duties, next_duty
from tests.build import (
    ANN,
    ASKER,
    BOB,
    HOME,
    PLACES,
    REVIEWER,
    RUNNER,
    SHY,
    START,
    WORKER,
    World,
    run,
)


def duty(world: World, task_id: str) -> Duty | None:
    return next_duty(world.work[task_id], world.limits)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("working", DutyKind.LAPSE),
        ("working/answered", DutyKind.LAPSE),
        ("working/checking", DutyKind.CHECK),
        ("submitted/compensating", DutyKind.COMPENSATE),
        ("auth_required/permission", DutyKind.PERMISSION),
    ],
)
def test_each_place_that_must_end_by_itself_has_a_duty(world: World, place: str, kind: DutyKind) -> None:
    found = duty(world, world.in_place(place))
    assert found is not None
    assert found.kind is kind


def test_the_other_places_wait_for_somebody(world: World) -> None:
    busy = ("working", "working/answered", "working/checking", "submitted/compensating", "auth_required/permission")
    for place in PLACES:
        if place not in busy:
            fresh = World()
            assert duty(fresh, fresh.in_place(place)) is None, place


def test_a_lease_over_a_pull_lapses_and_over_a_push_is_doubted(world: World) -> None:
    pulled, pushed, leased = world.taken(), world.pushed(), world.leased()
    assert duty(world, pulled) == (START + world.limits.pull_lease_seconds, DutyKind.LAPSE)
    assert duty(world, pushed) == (START + 120, DutyKind.DOUBT)
    assert duty(world, leased) == (START + 120, DutyKind.DOUBT), "also before it was seen to begin"
    for task_id in (pushed, leased):
        world.act(cmd.DoubtTask, task_id, HOST.id)


def test_a_dispatched_change_is_doubted_too(world: World) -> None:
    task_id = world.doubted()
    world.act(cmd.SettleDoubt, task_id, ANN, outcome="redo")
    world.act(cmd.LeaseDelivery, task_id, HOST.id)
    assert duty(world, task_id) == (START + 120, DutyKind.DOUBT)
    world.act(cmd.DoubtTask, task_id, HOST.id)


def test_a_returned_push_that_is_then_worked_on_is_no_doubt(world: World) -> None:
    task_id = world.leased()
    world.act(cmd.ReturnDelivery, task_id, HOST.id)
    assert duty(world, task_id) is None


def test_a_question_pauses_the_lease_but_not_the_deadline(world: World) -> None:
    task_id = world.asked_back(deadline_at=START + 10)
    assert duty(world, task_id) == (START + 10, DutyKind.EXPIRE)


def test_a_deadline_before_the_lease_comes_first(world: World) -> None:
    assert duty(world, world.taken(deadline_at=START + 10)) == (START + 10, DutyKind.EXPIRE)
    later = START + 10**6
    assert duty(world, world.taken(deadline_at=later)) == (START + world.limits.pull_lease_seconds, DutyKind.LAPSE)


def test_a_review_never_expires(world: World) -> None:
    assert duty(world, world.in_review(deadline_at=START + 10)) is None
    checking = duty(world, world.in_check(deadline_at=START + 10))
    assert checking == (START, DutyKind.CHECK)


def test_each_open_permission_has_its_own_time_out(world: World) -> None:
    task_id = world.asks_permission()
    world.now += 60
    world.act(cmd.RequestPermission, task_id, WORKER, permission_id=world.id(Prefix.PERMISSION))
    assert duty(world, task_id) == (START + world.limits.permission_seconds, DutyKind.PERMISSION)
    world.act(cmd.DecidePermission, task_id, HOST.id, decision="reject_once")
    assert duty(world, task_id) == (START + 60 + world.limits.permission_seconds, DutyKind.PERMISSION)


def test_the_host_ends_what_it_runs_itself_when_cancel_is_asked(world: World) -> None:
    for task_id in (world.pushed(), world.in_check(), world.leased()):
        world.act(cmd.CancelTask, task_id, ASKER)
        found = due_duties(world.work[task_id], world.limits, world.now)
        assert [duty.kind for duty in found] == [DutyKind.CONFIRM_CANCEL], "it begins nothing any more"
        world.act(cmd.ConfirmCancel, task_id, HOST.id)
    pulled = world.taken()
    world.act(cmd.CancelTask, pulled, ASKER)
    assert duty(world, pulled) == (START + world.limits.pull_lease_seconds, DutyKind.LAPSE)


def test_what_cancel_was_asked_of_and_nobody_holds_is_confirmed(world: World) -> None:
    task_id = world.leased()
    world.act(cmd.CancelTask, task_id, ASKER)
    world.act(cmd.ReturnDelivery, task_id, HOST.id)
    assert duty(world, task_id) == (START, DutyKind.CONFIRM_CANCEL)


def test_children_of_a_canceled_task_are_told_first_also_after_its_end(world: World) -> None:
    task_id = world.taken()
    world.ask(by=WORKER, to=REVIEWER, parent=task_id)
    world.act(cmd.CancelTask, task_id, ASKER)
    world.act(cmd.ReleaseTask, task_id, WORKER)
    assert duty(world, task_id) == (START, DutyKind.CASCADE)
    world.act(cmd.FinishCascade, task_id, HOST.id)
    assert duty(world, task_id) is None


def replies(world: World) -> str:
    """A task whose result is to go on to another capability."""
    return world.taken(reply_to="Report")


def test_a_result_is_sent_on_once_it_is_final_and_only_once(world: World) -> None:
    task_id = replies(world)
    assert duty(world, task_id) == (START + world.limits.pull_lease_seconds, DutyKind.LAPSE)
    world.act(cmd.HandInResult, task_id, WORKER, review_wanted=True)
    assert duty(world, task_id) is None, "not before it is accepted"
    world.act(cmd.ApproveResult, task_id, ASKER)
    assert duty(world, task_id) == (START, DutyKind.FORWARD)
    world.act(cmd.ForwardResult, task_id, HOST.id, message="tsk_there")
    assert duty(world, task_id) is None
    assert isinstance(world.act(cmd.ForwardResult, task_id, HOST.id), Unchanged)
    world.act(cmd.CorrectTask, task_id, ANN, state="completed", reason="approved")
    assert duty(world, task_id) is None, "nor again after a correction"


def test_only_a_result_is_sent_on(world: World) -> None:
    failed = replies(world)
    world.act(cmd.FailTask, failed, WORKER)
    assert duty(world, failed) is None
    plain = world.taken()
    world.act(cmd.HandInResult, plain, WORKER)
    world.refuses(ErrorCode.CONFLICT, cmd.ForwardResult, plain, HOST.id)


def test_who_asked_is_told_when_a_result_cannot_be_sent_on(world: World) -> None:
    told = []
    for given in ({"message": "tsk_there"}, {"code": "no_route", "detail": "Nobody here offers 'Report'."}):
        task_id = replies(world)
        world.act(cmd.HandInResult, task_id, WORKER)
        world.act(cmd.ForwardResult, task_id, HOST.id, **given)
        assert world.place(task_id) == "completed/unreviewed"
        told += [n.kind for n in world.table("notices") if (n.task_id, n.party) == (task_id, ASKER)]
    assert told == ["result", "not_forwarded"]


def test_talk_without_a_result_is_frozen(world: World) -> None:
    task_id = world.asked_back()
    while world.task(task_id).rounds < world.limits.rounds:
        world.act(cmd.AnswerQuestion, task_id, ASKER)
        world.act(cmd.AskQuestion, task_id, WORKER)
    found = duty(world, task_id)
    assert found is not None
    assert found.kind is DutyKind.FREEZE
    world.act(cmd.FreezeTask, task_id, HOST.id)
    assert duty(world, task_id) is None


def test_the_row_of_a_task_says_when_it_is_due(world: World) -> None:
    task_id = world.taken()
    row = next(r for r in world.table("tasks") if r.task_id == task_id)
    assert row.due_at == START + world.limits.pull_lease_seconds
    world.act(cmd.HandInResult, task_id, WORKER)
    row = next(r for r in world.table("tasks") if r.task_id == task_id)
    assert (row.due_at, row.open, row.turn) == (None, 0, "")


# --- turns -------------------------------------------------------------------------------------------------------


def test_a_command_that_asked_is_not_asked_back_but_its_person(world: World) -> None:
    task_id = world.ask(by=RUNNER)
    world.act(cmd.ClaimTask, task_id, WORKER)
    world.act(cmd.AskQuestion, task_id, WORKER)
    assert world.task(task_id).turn == ANN
    review = world.taken()
    assert world.task(review).requester == ASKER


def test_the_turn_of_a_party_that_left_falls_back_to_requester_then_person(world: World) -> None:
    new, working, question = world.ask(), world.taken(), world.asked_back()
    world.do(cmd.LeaveAgent(agent_id=WORKER), ANN)
    for task_id, party in ((new, ASKER), (working, ASKER), (question, ASKER)):
        world.act(cmd.MoveTurn, task_id, HOST.id)
        assert world.task(task_id).turn == party
    world.do(cmd.LeaveAgent(agent_id=ASKER), ANN)
    for task_id in (new, working, question):
        world.act(cmd.MoveTurn, task_id, HOST.id)
        assert world.task(task_id).turn == ANN


def test_a_reviewer_that_left_is_replaced_and_never_by_the_assignee(world: World) -> None:
    task_id = world.taken(by=WORKER, reviewer=REVIEWER)
    world.act(cmd.HandInResult, task_id, WORKER)
    world.do(cmd.LeaveAgent(agent_id=REVIEWER), ANN)
    world.act(cmd.MoveTurn, task_id, HOST.id)
    assert world.task(task_id).turn == ANN


def test_the_person_of_the_requester_comes_before_the_owner_of_the_host(world: World) -> None:
    task_id = world.doubted(by=BOB)
    assert world.task(task_id).turn == BOB


def test_a_compensation_is_the_turn_of_its_target(world: World) -> None:
    for target in (REVIEWER, RUNNER, BOB):
        task_id = world.taken(on_failure=target)
        world.act(cmd.FailTask, task_id, WORKER)
        assert world.task(task_id).turn == target
    gone = world.taken(on_failure=SHY)
    world.do(cmd.LeaveAgent(agent_id=SHY), ANN)
    world.act(cmd.FailTask, gone, WORKER)
    assert world.task(gone).turn == ASKER


def test_open_children_do_not_move_the_turn(world: World) -> None:
    task_id = world.taken()
    world.ask(by=WORKER, to=REVIEWER, parent=task_id)
    assert world.task(task_id).turn == WORKER


def test_the_turn_version_moves_with_the_turn_and_with_messages_alone(world: World) -> None:
    task_id = world.taken()
    before = world.task(task_id).turn_version
    world.act(cmd.ReportProgress, task_id, WORKER)
    assert world.task(task_id).turn_version == before
    world.act(cmd.AskQuestion, task_id, WORKER)
    assert world.task(task_id).turn_version == world.task(task_id).version


@pytest.mark.parametrize(
    ("silent", "shown"), [(0, "live"), (44.9, "live"), (45, "suspect"), (119, "suspect"), (120, "lapsed")]
)
def test_presence_goes_by_silence(world: World, silent: float, shown: str) -> None:
    assert presence(silent, world.limits) == shown


# --- rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("completed/approved", None),
        ("completed/verified", "result"),
        ("completed/unreviewed", "result"),
        ("failed/error", "failed"),
        ("failed/refuted", None),
        ("failed/expired", "expired"),
        ("canceled/by_requester", None),
        ("canceled/by_person", "canceled"),
        ("rejected/by_agent", "refused"),
        ("rejected/by_policy", None),
        ("rejected/by_person", "refused"),
        ("failed/exhausted", "failed"),
    ],
)
def test_one_notice_for_each_end_to_the_requester_unless_it_ended_it_itself(
    world: World, place: str, kind: str | None
) -> None:
    task_id = world.in_place(place)
    found = [(n.kind, n.unread) for n in world.table("notices") if (n.task_id, n.party) == (task_id, ASKER)]
    assert found == ([(kind, 1)] if kind else [])


def test_a_result_that_is_corrected_is_told_again(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    world.do(cmd.MarkSeen(party=ASKER, items=((task_id, 3),)), ASKER)
    assert [n.unread for n in world.table("notices")] == [0]
    world.act(cmd.CorrectTask, task_id, ANN, state="failed", reason="error")
    assert [(n.kind, n.unread, n.version) for n in world.table("notices")] == [("failed", 1, 4)]


def test_a_notice_stands_until_it_is_read(world: World) -> None:
    task_id = world.in_place("failed/error")
    world.act(cmd.SettleTrace, task_id, ASKER)
    assert [n.unread for n in world.table("notices")] == [1]
    world.do(cmd.MarkSeen(party=ASKER, items=((task_id, 4),)), ASKER)
    assert [n.unread for n in world.table("notices")] == [0]
    assert [(s.party, s.version) for s in world.table("seen")] == [(ASKER, 4)]


def test_a_lapse_tells_the_holder_that_it_lost_it(world: World) -> None:
    task_id = world.taken()
    world.now += world.limits.pull_lease_seconds
    world.act(cmd.LapseLease, task_id, HOST.id)
    assert [(n.party, n.kind) for n in world.table("notices")] == [(WORKER, "lost")]


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        ("completed/approved", ["accepted"]),
        ("completed/verified", ["verified"]),
        ("completed/unreviewed", ["unreviewed"]),
        ("failed/error", ["failed"]),
        ("failed/refuted", ["refuted"]),
        ("rejected/by_agent", ["declined"]),
        ("canceled/by_person", []),
        ("failed/no_route", []),
    ],
)
def test_the_track_record_comes_from_records_alone(world: World, place: str, outcome: list[str]) -> None:
    world.in_place(place)
    assert [(row.agent, row.outcome) for row in world.table("outcomes")] == [(WORKER, o) for o in outcome]


def test_a_refuted_check_counts_even_when_the_next_one_passes(world: World) -> None:
    task_id = world.in_check()
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run(CheckOutcome.FAILED))
    world.act(cmd.HandInResult, task_id, WORKER)
    world.act(cmd.ReportCheck, task_id, HOST.id)
    assert [row.outcome for row in world.table("outcomes")] == ["refuted", "verified"]


def test_commits_are_linked_to_their_task(world: World) -> None:
    task_id = world.taken(expects="change", repository="rep_1", base_commit="b" * 40)
    world.act(cmd.HandInResult, task_id, WORKER, commit="d" * 40, commits=("c" * 40, "d" * 40), changed=("a",))
    assert [(c.commit_id[:1], c.task_id) for c in world.table("commits")] == [("c", task_id), ("d", task_id)]


def test_a_deliverys_row_says_how_far_it_is_and_how_it_ended(world: World) -> None:
    task_id = world.taken()
    rows: list[Any] = world.table("deliveries")
    assert [(r.task_id, r.fact, r.ended, r.open, r.due_at) for r in rows] == [(task_id, "working", "", 1, None)]
    world.act(cmd.ReleaseTask, task_id, WORKER)
    rows = world.table("deliveries")
    assert [(r.fact, r.ended, r.open) for r in rows] == [("working", "canceled", 0), ("persisted", "", 1)]
    assert world.directory.workspaces[HOME].coordinator == ""


def test_a_review_that_a_person_put_it_into_never_expires(world: World) -> None:
    task = world.ask(deadline_at=world.now + 60)
    world.act(cmd.CorrectTask, task, ANN, state=TaskState.INPUT_REQUIRED, reason=Reason.REVIEW)
    assert next_duty(world.work[task], world.limits) is None
