"""Done is checked, not believed: handing in, checks, reviews, failing, compensation."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.errors import ErrorCode
from tallystick.core.identity import HOST, Prefix
from tallystick.core.model import BlobReference, CheckOutcome, Expects, Reason
from tallystick.core.task import DutyKind, due_duties
from tests.build import (
    ANN,
    ASKER,
    BOB,
    CHECK,
    HOME,
    REVIEWER,
    RUNNER,
    SESSIONS,
    WORKER,
    World,
    agent,
    run,
    words,
)

REFERENCE = BlobReference("a" * 64, 3)
NOTHING = ev.Text()


def refuses(world: World, task_id: str, **given: Any) -> str:
    return world.refuses(ErrorCode.CONFLICT, cmd.HandInResult, task_id, WORKER, **given).message


# --- evidence ----------------------------------------------------------------------------------------------------


def test_a_change_needs_a_commit_that_changes_something_since_its_base(world: World) -> None:
    task_id = world.taken(expects=Expects.CHANGE)
    assert "no commit" in refuses(world, task_id)
    assert "changes nothing" in refuses(world, task_id, commit="c" * 40)
    world.act(cmd.HandInResult, task_id, WORKER, commit="c" * 40, changed=("a.py",), text=NOTHING)
    assert world.place(task_id) == "completed/unreviewed"


def test_a_finding_needs_a_reference_and_not_a_change(world: World) -> None:
    task_id = world.taken(expects=Expects.FINDING)
    assert "nothing was referred to" in refuses(world, task_id)
    world.act(cmd.HandInResult, task_id, WORKER, references=(REFERENCE,))


def test_an_answer_needs_words_or_a_reference(world: World) -> None:
    assert "no text" in refuses(world, world.taken(), text=ev.Text(body=" \n"))
    world.act(cmd.HandInResult, world.taken(), WORKER, text=NOTHING, references=(REFERENCE,))
    world.act(cmd.HandInResult, world.taken(), WORKER, text=words())


@pytest.mark.parametrize("expects", list(Expects))
def test_a_named_file_that_is_blank_is_refused_by_name(world: World, expects: Expects) -> None:
    task_id = world.taken(expects=expects)
    message = refuses(world, task_id, blank=("report.md",), commit="c" * 40, changed=("report.md",))
    assert "report.md" in message


def test_nothing_is_handed_in_over_open_children_and_they_are_named(world: World) -> None:
    task_id = world.taken()
    child = world.ask(by=WORKER, to=REVIEWER, parent=task_id)
    assert child[-6:].lower() in refuses(world, task_id)
    world.act(cmd.CancelTask, child, WORKER)
    world.act(cmd.HandInResult, task_id, WORKER)


def test_each_hand_in_is_a_new_revision(world: World) -> None:
    task_id = world.in_rework()
    assert world.task(task_id).revision == 1
    world.act(cmd.HandInResult, task_id, WORKER)
    assert world.task(task_id).revision == 2


def test_the_last_holder_hands_in_from_rework_with_a_new_fence(world: World) -> None:
    task_id = world.in_rework()
    fence = world.task(task_id).fence
    world.act(cmd.HandInResult, task_id, WORKER)
    assert world.task(task_id).fence == fence + 1
    assert world.place(task_id) == "input_required/review", "once asked for, a review stays asked for"


# --- checks ------------------------------------------------------------------------------------------------------


def test_a_check_that_passed_completes_it_as_verified(world: World) -> None:
    task_id = world.in_check()
    world.act(cmd.ReportCheck, task_id, HOST.id)
    assert world.place(task_id) == "completed/verified"


@pytest.mark.parametrize("wish", ["asker", "worker"])
def test_a_review_may_be_wanted_beside_a_check(world: World, wish: str) -> None:
    given = {"reviewer": BOB} if wish == "asker" else {}
    task_id = world.taken(done_when=CHECK, **given)
    world.act(cmd.HandInResult, task_id, WORKER, review_wanted=wish == "worker")
    world.act(cmd.ReportCheck, task_id, HOST.id)
    assert world.place(task_id) == "input_required/review"


def test_changed_protected_paths_force_a_review(world: World) -> None:
    task_id = world.in_check()
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run(protected_changed=("tests/test_a.py",)))
    assert world.place(task_id) == "input_required/review"


def test_a_check_that_the_host_could_not_run_says_nothing_about_the_work(world: World) -> None:
    task_id = world.in_check()
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run(CheckOutcome.ERROR))
    assert world.place(task_id) == "input_required/review"


def test_a_passed_check_completes_nothing_over_open_children(world: World) -> None:
    task_id = world.in_check()
    world.ask(by=WORKER, to=REVIEWER, parent=task_id)
    world.act(cmd.ReportCheck, task_id, HOST.id)
    assert world.place(task_id) == "input_required/review"
    world.refuses(ErrorCode.CONFLICT, cmd.ApproveResult, task_id, ASKER)


@pytest.mark.parametrize("outcome", [CheckOutcome.FAILED, CheckOutcome.NO_TESTS, CheckOutcome.TIMED_OUT])
def test_a_refuted_check_goes_to_the_holder_first_with_a_lease_and_a_notice(
    world: World, outcome: CheckOutcome
) -> None:
    task_id = world.in_check(on_failure=REVIEWER)
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run(outcome))
    task = world.task(task_id)
    assert (task.place, task.turn, task.failures) == ("working", WORKER, 0)
    assert task.lease_until == world.now + world.limits.pull_lease_seconds
    assert [n.kind for n in world.table("notices") if n.party == WORKER] == ["refuted"]
    world.act(cmd.HandInResult, task_id, WORKER)
    world.act(cmd.ReportCheck, task_id, HOST.id)
    assert world.place(task_id) == "completed/verified"


@pytest.mark.parametrize(("target", "place"), [("", "failed/refuted"), (REVIEWER, "submitted/compensating")])
def test_where_the_holder_cannot_rework_a_refuted_check_fails_it_or_compensates(
    world: World, target: str, place: str
) -> None:
    task_id = world.pushed(done_when=CHECK, on_failure=target)
    world.act(cmd.HandInResult, task_id, agent(RUNNER, SESSIONS[RUNNER], "command"), run=run(exit_code=0))
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run(CheckOutcome.FAILED))
    assert world.place(task_id) == place


def test_where_the_holders_session_ended_a_refuted_check_fails_it(world: World) -> None:
    task_id = world.in_check()
    world.do(cmd.EndSession(session_id=SESSIONS[WORKER]), HOST)
    world.act(cmd.ReportCheck, task_id, HOST.id, run=run(CheckOutcome.FAILED))
    assert world.place(task_id) == "failed/refuted"


def test_a_check_is_of_one_revision(world: World) -> None:
    world.refuses(ErrorCode.CONFLICT, cmd.ReportCheck, world.in_check(), HOST.id, revision=7)


# --- command agents ----------------------------------------------------------------------------------------------

COMMAND = agent(RUNNER, SESSIONS[RUNNER], "command")


@pytest.mark.parametrize(
    ("expects", "code", "place"),
    [
        (Expects.ANSWER, 0, "completed/unreviewed"),
        (Expects.ANSWER, 3, "completed/unreviewed"),
        (Expects.ANSWER, None, "failed/error"),
        (Expects.CHANGE, 0, "completed/unreviewed"),
        (Expects.CHANGE, 3, "failed/error"),
        (Expects.CHANGE, None, "failed/error"),
    ],
)
def test_any_own_exit_of_a_command_is_a_result_and_a_kill_is_none(
    world: World, expects: Expects, code: int | None, place: str
) -> None:
    task_id = world.pushed(expects=expects)
    end = run(exit_code=code, signal=None if code is not None else 9)
    world.act(cmd.HandInResult, task_id, COMMAND, run=end, commit="c" * 40, changed=("a",))
    assert world.place(task_id) == place


def test_a_command_that_timed_out_has_failed(world: World) -> None:
    task_id = world.pushed()
    world.act(cmd.HandInResult, task_id, COMMAND, run=run(CheckOutcome.TIMED_OUT, exit_code=0))
    assert world.place(task_id) == "failed/error"


# --- reviews -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [cmd.ApproveResult, cmd.RequestChanges, cmd.RefuseResult])
def test_a_verdict_is_bound_to_the_revision_that_was_shown(world: World, kind: type) -> None:
    task_id = world.in_review()
    for off in (-1, 1):
        refused = world.refuses(ErrorCode.CONFLICT, kind, task_id, ASKER, revision=1 + off)
        assert "Stale" in refused.message
    world.act(kind, task_id, ASKER, revision=1)


@pytest.mark.parametrize("kind", [cmd.ApproveResult, cmd.RequestChanges, cmd.RefuseResult])
def test_the_assignee_never_reviews_also_when_it_asked_itself(world: World, kind: type) -> None:
    task_id = world.ask(by=WORKER, to=WORKER)
    world.act(cmd.ClaimTask, task_id, WORKER)
    world.act(cmd.HandInResult, task_id, WORKER, review_wanted=True)
    assert world.task(task_id).turn == ANN
    world.refuses(ErrorCode.DENIED, kind, task_id, WORKER)
    world.act(kind, task_id, ANN)


def test_a_person_alone_on_a_host_does_not_approve_their_own_work(world: World) -> None:
    task_id = world.ask(by=ANN, to=ANN)
    world.act(cmd.ClaimTask, task_id, ANN)
    world.act(cmd.HandInResult, task_id, ANN, review_wanted=True)
    world.refuses(ErrorCode.DENIED, cmd.ApproveResult, task_id, ANN)
    world.act(cmd.CorrectTask, task_id, ANN, state="completed", reason="unreviewed")


def test_the_named_reviewer_reviews_and_nobody_else(world: World) -> None:
    task_id = world.taken(reviewer=REVIEWER)
    world.act(cmd.HandInResult, task_id, WORKER)
    assert world.task(task_id).turn == REVIEWER
    world.refuses(ErrorCode.DENIED, cmd.ApproveResult, task_id, ASKER)
    world.act(cmd.ApproveResult, task_id, REVIEWER)


@pytest.mark.parametrize("kind", [cmd.RequestChanges, cmd.RefuseResult])
def test_a_verdict_against_it_says_why(world: World, kind: type) -> None:
    world.refuses(ErrorCode.INVALID, kind, world.in_review(), ASKER, text=NOTHING)


def test_nothing_is_approved_over_open_children(world: World) -> None:
    task_id = world.in_review()
    world.refuses(ErrorCode.CONFLICT, cmd.ApproveResult, task_id, ASKER, open_children=("tsk_child",))


# --- failing and compensation ------------------------------------------------------------------------------------


def test_a_failure_without_a_target_ends_at_once(world: World) -> None:
    assert world.place(world.in_place("failed/error")) == "failed/error"


@pytest.mark.parametrize("why", ["budget", "no_route", "offline"])
def test_only_the_host_fails_for_reasons_of_the_host(world: World, why: str) -> None:
    task_id = world.taken()
    world.refuses(ErrorCode.DENIED, cmd.FailTask, task_id, WORKER, why=why)
    world.act(cmd.FailTask, task_id, HOST.id, why=why)
    assert world.place(task_id) == f"failed/{why}"


def test_the_host_fails_nothing_for_reasons_that_others_give(world: World) -> None:
    world.refuses(ErrorCode.DENIED, cmd.FailTask, world.taken(), HOST.id, why="refuted")


def fail_again(world: World, task_id: str) -> None:
    world.act(cmd.RestartTask, task_id, HOST.id)
    assert world.place(task_id) == "submitted/new"
    world.act(cmd.ClaimTask, task_id, WORKER)
    world.act(cmd.FailTask, task_id, WORKER)


def test_a_failure_is_compensated_twice_and_then_exhausted(world: World) -> None:
    task_id = world.compensating()
    assert (world.task(task_id).turn, world.task(task_id).failures) == (REVIEWER, 1)
    fail_again(world, task_id)
    assert (world.place(task_id), world.task(task_id).failures) == ("submitted/compensating", 2)
    fail_again(world, task_id)
    assert world.place(task_id) == "failed/exhausted"


def test_a_compensation_that_fails_uses_up_a_round(world: World) -> None:
    task_id = world.compensating()
    world.act(cmd.RestartTask, task_id, HOST.id, done=False)
    assert (world.place(task_id), world.task(task_id).failures) == ("submitted/compensating", 2)
    world.act(cmd.RestartTask, task_id, HOST.id, done=False)
    assert world.place(task_id) == "failed/exhausted"


def test_a_review_that_refuses_for_good_is_compensated_too(world: World) -> None:
    task_id = world.in_review(on_failure=REVIEWER)
    world.act(cmd.RefuseResult, task_id, ASKER)
    assert world.place(task_id) == "submitted/compensating"


def test_nothing_of_it_is_handed_over_while_it_is_compensated(world: World) -> None:
    task_id = world.compensating()
    assert not any(d.open for d in world.work[task_id].deliveries)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER)


def test_a_doubt_settled_as_failed_uses_up_a_round_too(world: World) -> None:
    task_id = world.doubted(on_failure=REVIEWER)
    for failures in (1, 2):
        world.act(cmd.SettleDoubt, task_id, ANN, outcome="failed")
        assert (world.place(task_id), world.task(task_id).failures) == ("submitted/compensating", failures)
        assert not any(d.open for d in world.work[task_id].deliveries)
        world.act(cmd.RestartTask, task_id, HOST.id)
        for kind in (cmd.LeaseDelivery, cmd.BeginDelivery, cmd.DoubtDelivery, cmd.DoubtTask):
            world.act(kind, task_id, HOST.id)
    world.act(cmd.SettleDoubt, task_id, ANN, outcome="failed")
    assert world.place(task_id) == "failed/exhausted"


# --- questions, rounds, permissions ------------------------------------------------------------------------------


def test_a_question_pauses_the_lease_and_an_answer_gives_a_full_one(world: World) -> None:
    task_id = world.asked_back()
    assert (world.task(task_id).turn, world.task(task_id).lease_until) == (ASKER, 0)
    world.now += 99
    world.act(cmd.AnswerQuestion, task_id, ASKER)
    assert world.task(task_id).lease_until == world.now + world.limits.pull_lease_seconds
    assert world.delivery(task_id).kind == "answer"


def test_an_answer_to_a_session_that_ended_makes_it_due_again(world: World) -> None:
    task_id = world.asked_back()
    world.do(cmd.EndSession(session_id=SESSIONS[WORKER]), HOST)
    world.act(cmd.AnswerQuestion, task_id, ASKER)
    task = world.task(task_id)
    assert (task.place, task.holder, task.turn) == ("submitted/rework", "", WORKER)
    assert world.delivery(task_id).kind == "change"


def test_only_a_person_goes_on_with_what_is_frozen(world: World) -> None:
    task_id = world.frozen()
    world.refuses(ErrorCode.DENIED, cmd.AnswerQuestion, task_id, ASKER)
    world.act(cmd.AnswerQuestion, task_id, ANN)
    assert (world.place(task_id), world.task(task_id).rounds) == ("working/answered", 0)


@pytest.mark.parametrize("assignee", [REVIEWER, WORKER, ""])
def test_no_agent_reassigns_what_is_frozen_and_neither_does_the_host(world: World, assignee: str) -> None:
    task_id = world.frozen()
    world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=WORKER), ANN)
    for somebody in (ASKER, WORKER, HOST.id):
        refused = world.refuses(ErrorCode.DENIED, cmd.ReassignTask, task_id, somebody, assignee=assignee)
        assert "frozen until a person says" in refused.message


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (cmd.AnswerQuestion, {}),
        (cmd.ReassignTask, {"assignee": REVIEWER}),
        (cmd.ReassignTask, {"assignee": ""}),
        (cmd.CorrectTask, {"state": "submitted", "reason": "new"}),
    ],
)
def test_what_a_person_thaws_does_not_freeze_again_at_once(world: World, kind: type, given: dict[str, str]) -> None:
    task_id = world.frozen()
    world.act(kind, task_id, BOB, **given)
    assert world.task(task_id).rounds == 0
    assert DutyKind.FREEZE not in {duty.kind for duty in due_duties(world.work[task_id], world.limits, world.now)}


def test_the_count_goes_on_where_an_agent_reassigns(world: World) -> None:
    task_id = world.asked_back()
    world.act(cmd.ReassignTask, task_id, ASKER)
    assert world.task(task_id).rounds == 2


def test_reported_77_agents_that_only_talk_are_stopped(world: World) -> None:
    task_id = world.asked_back()
    while world.task(task_id).rounds < world.limits.rounds:
        world.act(cmd.AnswerQuestion, task_id, ASKER)
        if world.task(task_id).rounds < world.limits.rounds:
            world.act(cmd.AskQuestion, task_id, WORKER)
    kind, by = (cmd.AnswerQuestion, ASKER) if world.place(task_id).endswith("question") else (cmd.AskQuestion, WORKER)
    world.refuses(ErrorCode.CONFLICT, kind, task_id, by)


def test_a_persons_word_and_a_result_begin_the_count_anew(world: World) -> None:
    task_id = world.asked_back()
    assert world.task(task_id).rounds == 2
    world.act(cmd.AnswerQuestion, task_id, ANN)
    assert world.task(task_id).rounds == 0
    assert world.task(world.in_review()).rounds == 0


def test_nothing_is_frozen_within_its_rounds(world: World) -> None:
    world.refuses(ErrorCode.CONFLICT, cmd.FreezeTask, world.asked_back(), HOST.id)


def permission(world: World) -> str:
    return world.id(Prefix.PERMISSION)


def test_hostile_23_a_permission_is_decided_once_for_the_exact_action(world: World) -> None:
    task_id = world.asks_permission()
    asked = world.task(task_id).permissions[0]
    world.refuses(ErrorCode.CONFLICT, cmd.DecidePermission, task_id, ANN, digest="e" * 64)
    other = permission(world)
    world.act(cmd.RequestPermission, task_id, WORKER, permission_id=other)
    world.act(cmd.DecidePermission, task_id, ANN, digest=asked.digest)
    assert world.place(task_id) == "auth_required/permission", "another one still waits"
    world.refuses(ErrorCode.CONFLICT, cmd.DecidePermission, task_id, ANN)
    world.act(cmd.DecidePermission, task_id, ANN, permission_id=other, decision="reject_once")
    assert [p.decision for p in world.task(task_id).permissions] == ["allow_once", "reject_once"]
    assert (world.place(task_id), world.task(task_id).turn) == ("working", WORKER)
    assert world.task(task_id).lease_until == world.now + world.limits.pull_lease_seconds


def test_hostile_24_the_host_never_allows_and_nothing_is_allowed_for_ever(world: World) -> None:
    task_id = world.asks_permission()
    world.refuses(ErrorCode.DENIED, cmd.DecidePermission, task_id, HOST.id, decision="allow_once")
    world.refuses(ErrorCode.INVALID, cmd.DecidePermission, task_id, ANN, decision="allow_always")
    world.refuses(ErrorCode.DENIED, cmd.DecidePermission, task_id, WORKER)
    world.act(cmd.DecidePermission, task_id, HOST.id, decision="reject_once")


def test_a_no_to_what_a_check_needs_leads_to_a_review(world: World) -> None:
    for decision, place in (("reject_once", "input_required/review"), ("allow_once", "working/checking")):
        task_id = world.in_check()
        world.act(cmd.RequestPermission, task_id, HOST.id)
        world.act(cmd.DecidePermission, task_id, ANN, decision=decision)
        assert world.place(task_id) == place


@pytest.mark.parametrize(
    ("kind", "by"), [(cmd.CancelTask, ASKER), (cmd.ReassignTask, ASKER), (cmd.CorrectTask, ANN)], ids=lambda v: str(v)
)
def test_hostile_20_a_permission_is_withdrawn_when_its_task_moves_on(world: World, kind: type, by: str) -> None:
    task_id = world.asks_permission()
    world.act(kind, task_id, by)
    if kind is cmd.CancelTask:
        world.act(cmd.ConfirmCancel, task_id, HOST.id)
    assert [p.decision for p in world.task(task_id).permissions] == ["canceled"]
    assert [row.open for row in world.table("permissions")] == [0]
    world.refuses(ErrorCode.CONFLICT, cmd.DecidePermission, task_id, ANN)


# --- correcting --------------------------------------------------------------------------------------------------


def test_what_was_canceled_and_is_corrected_is_not_still_canceled(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.CancelTask, task_id, ASKER)
    world.act(cmd.ReleaseTask, task_id, WORKER)
    again = world.id(Prefix.DELIVERY)
    world.act(cmd.CorrectTask, task_id, ANN, state="submitted", reason="new", delivery_id=again)
    assert world.delivery(task_id).delivery_id == again
    world.act(cmd.ClaimTask, task_id, WORKER)
    assert world.facts(task_id)[-1] == ("working", SESSIONS[WORKER])
    assert world.delivery(task_id, 0).ended == "canceled"
    world.act(cmd.HandInResult, task_id, WORKER)


def test_reported_47_a_task_corrected_to_working_has_a_lease(world: World) -> None:
    task_id = world.asked_back()
    world.act(cmd.CorrectTask, task_id, ANN, state="working", reason="")
    assert world.task(task_id).lease_until == world.now + world.limits.pull_lease_seconds


def test_correcting_says_why(world: World) -> None:
    world.refuses(ErrorCode.INVALID, cmd.CorrectTask, world.ask(), ANN, text=NOTHING)


def test_settling_a_doubt_knows_four_outcomes(world: World) -> None:
    world.refuses(ErrorCode.INVALID, cmd.SettleDoubt, world.doubted(), ANN, outcome="perhaps")
    ends = {"done": "completed/approved", "failed": "failed/error", "redo": "submitted/rework"}
    for outcome, place in {**ends, "cancel": "canceled/by_person"}.items():
        task_id = world.doubted()
        world.act(cmd.SettleDoubt, task_id, ANN, outcome=outcome)
        assert world.place(task_id) == place
    assert Reason.APPROVED in Reason


def test_what_is_in_doubt_is_not_done_again_once_its_time_is_over(world: World) -> None:
    task_id = world.doubted(deadline_at=world.now + 100)
    world.now += 100
    refused = world.refuses(ErrorCode.CONFLICT, cmd.SettleDoubt, task_id, ANN, outcome="redo")
    assert "send it again with more time" in refused.remedy
    world.act(cmd.SettleDoubt, task_id, ANN, outcome="failed")
    assert world.place(task_id) == "failed/error"


def test_a_doubt_is_not_settled_as_done_over_open_children(world: World) -> None:
    task_id = world.doubted()
    world.refuses(ErrorCode.CONFLICT, cmd.SettleDoubt, task_id, ANN, outcome="done", open_children=("tsk_child",))


def test_progress_is_a_fraction(world: World) -> None:
    task_id = world.taken()
    for wrong in (-0.1, 1.1, float("nan")):
        world.refuses(ErrorCode.INVALID, cmd.ReportProgress, task_id, WORKER, fraction=wrong)
    world.act(cmd.ReportProgress, task_id, WORKER, fraction=1.0)
