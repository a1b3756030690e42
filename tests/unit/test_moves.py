"""Every row of the table: each place it starts from, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST
from tallystick.core.model import Fact, Reason, TaskState
from tallystick.core.model import place as place_of
from tallystick.core.state import Unchanged, Work
from tallystick.core.task import REASONS, TRANSITIONS, Role, Transition, board_label
from tests import oracle
from tests.build import (
    ANN,
    ASKER,
    BOB,
    CLOSED,
    DRIVEN,
    HOME,
    PLACES,
    RUNNER,
    SECOND,
    SESSIONS,
    SHY,
    SPOKE,
    STRANGER,
    WORKER,
    World,
    agent,
    run,
)

ROWS = [row for row in TRANSITIONS if row.command is not cmd.SubmitTask]
CASES = [(row, place) for row in ROWS for place in sorted(row.sources)]
# Whose turn it is can always be worked out again: where nothing moves, nothing is recorded.
FIRM = [row for row in ROWS if row.command is not cmd.MoveTurn]
# What is canceled already is no wrong place to cancel from: that is a repeat, below.
REPEATS = [(cmd.CancelTask, place) for place in PLACES if place.startswith("canceled/")]
WRONG = [
    (row, place) for row in FIRM for place in PLACES if place not in row.sources and (row.command, place) not in REPEATS
]


def name(value: Any) -> str:
    return value.command.__name__ if isinstance(value, Transition) else str(value).replace("/", "-")


# What a command needs beside the place, where the usual way there does not bring it.
PATCHES: dict[type, dict[str, Any]] = {
    cmd.ExpireTask: {"deadline_at": 1.0, "handed_in_at": 0.0},
    cmd.FreezeTask: {"rounds": 6},
    cmd.ConfirmCancel: {"cancel_requested_at": 1.0},
    cmd.FinishCascade: {"cascade": ("tsk_child",)},
    cmd.ForwardResult: {"reply_to": "Report"},
    cmd.LapseLease: {"lease_until": 1.0},
    cmd.StartTurn: {"session": SESSIONS[DRIVEN]},
    cmd.NoteTurn: {"running": "trn_1"},
    cmd.EndTurn: {"running": "trn_1"},
}
INTENT = {"intent": "intended", "intent_id": "int_1", "due_at": 0.0}
DELIVERIES: dict[type, dict[str, Any]] = {
    cmd.DoubtTask: INTENT,
    cmd.DoubtDelivery: INTENT,
    cmd.BeginDelivery: INTENT,
    cmd.ReturnDelivery: INTENT,
    cmd.StartTurn: INTENT,
}


def bring(world: World, row: Transition, place: str) -> str:
    task_id = world.in_place(place)
    work = world.work[task_id]
    task = replace(work.task, **PATCHES.get(row.command, {}))
    found = work.assignment
    assert found is not None
    patched = replace(found, **DELIVERIES.get(row.command, {}))
    if row.command in DELIVERIES and task.open:
        patched = replace(patched, ended="", unverified=False, facts=patched.facts[:4])
    if row.command is cmd.LeaseDelivery:
        task = replace(task, assignee=RUNNER)
        patched = replace(patched, recipient=RUNNER)
    if row.command is cmd.ReturnDelivery and place == "working":
        task = replace(task, assignee=SPOKE, capability="Count")
    if row.command is cmd.StartTurn:
        task = replace(task, assignee=DRIVEN)
        patched = replace(patched, recipient=DRIVEN)
    world.work[task_id] = Work(task, tuple(patched if d is found else d for d in work.deliveries))
    return task_id


def somebody(world: World, task_id: str, row: Transition, place: str) -> Any:
    """One who may make this move there."""
    task = world.task(task_id)
    role = row.by[0]
    if row.command is cmd.RecordDelivery and not task.assignee:
        return HOST.id
    if row.command in (cmd.FailTask, cmd.RequestPermission) and not task.holder:
        return HOST.id
    if oracle.matches(place, oracle.PERSONS_ALONE.get(row.command.__name__, "")):
        return ANN
    if row.command is cmd.HandInResult and place == "input_required/unverified":
        assignment = world.work[task_id].assignment
        assert assignment is not None
        return agent(task.last_holder, assignment.session, "spoke")
    if role is Role.HOLDER:
        return task.holder or task.last_holder or task.assignee or WORKER
    return {
        Role.ASSIGNEE: task.assignee or WORKER,
        Role.REVIEWER: ASKER,
        Role.REQUESTER: task.requester,
        Role.PERSON: ANN,
        Role.HOST: HOST.id,
    }[role]


def given(row: Transition) -> dict[str, Any]:
    # Who settles or corrects says what; the way out of a permission is the way in.
    return {cmd.CorrectTask: {"state": "completed", "reason": "approved"}}.get(row.command, {})


@pytest.mark.parametrize(("row", "place"), CASES, ids=name)
def test_a_move_leads_from_each_of_its_places_to_one_the_table_names(world: World, row: Transition, place: str) -> None:
    task_id = bring(world, row, place)
    if row.command is cmd.ClaimTask and place.startswith("working"):
        # Only after the host was restarted: the same session comes back for its new fence.
        world.act(cmd.RecoverLease, task_id, HOST.id)
    if row.command is cmd.ReleaseTask and not world.task(task_id).holder:
        world.refuses(ErrorCode.CONFLICT, cmd.ReleaseTask, task_id, WORKER, note="another reason")
        return
    event = world.act(row.command, task_id, somebody(world, task_id, row, place), **given(row))
    after = world.place(task_id)
    if isinstance(event, Unchanged):
        # That something was read may be known already, and whose turn it is may be as it was.
        assert row.command in (cmd.RecordDelivery, cmd.MoveTurn, cmd.RecoverLease)
        return
    assert after in row.targets or (after == place and "=" in row.targets)
    assert oracle.may_lead(row.command.__name__, place, after) or row.command is cmd.ClaimTask
    assert event.turn == world.task(task_id).turn
    assert bool(world.task(task_id).turn) == world.task(task_id).open
    assert world.task(task_id).version == len([r for r in world.log if r.stream == task_id])


@pytest.mark.parametrize(("row", "place"), WRONG, ids=name)
def test_a_move_is_refused_from_every_other_place(world: World, row: Transition, place: str) -> None:
    task_id = bring(world, row, place)
    by = somebody(world, task_id, row, place)
    code = ErrorCode.CONFLICT if Role.HOST in row.by or world.task(task_id).assignee else ErrorCode.DENIED
    world.refuses(code if {Role.ASSIGNEE, Role.HOLDER} & set(row.by) else ErrorCode.CONFLICT, row.command, task_id, by)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_what_belongs_elsewhere_is_told_in_the_same_words_as_what_is_absent(world: World, row: Transition) -> None:
    task_id = bring(world, row, min(row.sources))
    there = world.refuses(ErrorCode.NOT_FOUND, row.command, task_id, STRANGER)
    work = world.work.pop(task_id)
    command = world_command(world, row, work)
    with pytest.raises(type(there)) as absent:
        world.do(command, STRANGER)
    assert (absent.value.message, absent.value.remedy) == (there.message, there.remedy)


def world_command(world: World, row: Transition, work: Work) -> Any:
    world.work[work.task.task_id] = work
    command = world.command(row.command, work.task.task_id, STRANGER)
    del world.work[work.task.task_id]
    return command


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_bystander_of_the_workspace_may_do_nothing(world: World, row: Transition) -> None:
    task_id = bring(world, row, min(row.sources))
    code = ErrorCode.CONFLICT if Role.HOLDER in row.by and world.task(task_id).holder else ErrorCode.DENIED
    if not world.task(task_id).open:
        code = ErrorCode.CONFLICT
    world.refuses(code, row.command, task_id, CLOSED)


@pytest.mark.parametrize("row", [r for r in ROWS if Role.PERSON not in r.by], ids=name)
def test_a_person_who_is_no_party_to_it_has_no_more_rights_than_the_table_says(world: World, row: Transition) -> None:
    task_id = bring(world, row, min(row.sources))
    world.refuses(_refused(world, task_id, row), row.command, task_id, BOB)


@pytest.mark.parametrize("row", [r for r in ROWS if Role.HOST not in r.by], ids=name)
def test_the_host_has_no_more_rights_than_the_table_says(world: World, row: Transition) -> None:
    task_id = bring(world, row, min(row.sources))
    world.refuses(_refused(world, task_id, row), row.command, task_id, HOST.id)


def _refused(world: World, task_id: str, row: Transition) -> ErrorCode:
    task = world.task(task_id)
    held = Role.HOLDER in row.by and task.holder
    return ErrorCode.CONFLICT if held or not task.open else ErrorCode.DENIED


@pytest.mark.parametrize("row", FIRM, ids=name)
def test_a_base_that_is_older_than_the_task_is_stale(world: World, row: Transition) -> None:
    place = max(p for p in row.sources if p != "submitted/new") if len(row.sources) > 1 else min(row.sources)
    task_id = bring(world, row, place)
    by = somebody(world, task_id, row, place)
    version = world.task(task_id).version
    refused = world.refuses(ErrorCode.CONFLICT, row.command, task_id, by, base=version - 1)
    assert "has changed" in refused.message


@pytest.mark.parametrize("row", [r for r in ROWS if r.fenced], ids=name)
@pytest.mark.parametrize("off", [-1, 1])
def test_another_fence_than_the_present_one_is_refused(world: World, row: Transition, off: int) -> None:
    task_id = bring(world, row, "working")
    fence = world.task(task_id).fence
    refused = world.refuses(ErrorCode.CONFLICT, row.command, task_id, WORKER, fence=fence + off)
    assert refused.message.startswith("Stale")
    world.act(row.command, task_id, WORKER, fence=fence)


@pytest.mark.parametrize("row", [r for r in ROWS if r.fenced], ids=name)
def test_only_the_cli_need_not_type_its_fence(world: World, row: Transition) -> None:
    task_id = bring(world, row, "working")
    world.refuses(ErrorCode.INVALID, row.command, task_id, WORKER, fence=None)
    world.act(row.command, task_id, agent(WORKER, door="cli"), fence=None)


@pytest.mark.parametrize("row", [r for r in ROWS if Role.HOLDER in r.by], ids=name)
def test_after_cancel_was_asked_the_holder_can_only_give_it_back(world: World, row: Transition) -> None:
    task_id = bring(world, row, "working" if "working" in row.sources else min(row.sources))
    world.act(cmd.CancelTask, task_id, ASKER)
    assert world.task(task_id).turn == WORKER, "the turn stays where it was"
    if row.command is cmd.ReleaseTask:
        world.act(cmd.ReleaseTask, task_id, WORKER)
        assert world.place(task_id) == "canceled/by_requester"
        return
    if row.command is cmd.RecordDelivery:
        pytest.skip("that the body was read is told, not written")
    refused = world.refuses(ErrorCode.CONFLICT, row.command, task_id, WORKER)
    assert "Cancel was asked" in refused.message


@pytest.mark.parametrize("row", [r for r in ROWS if Role.HOLDER in r.by], ids=name)
def test_another_session_of_the_same_agent_is_not_the_holder(world: World, row: Transition) -> None:
    if Role.ASSIGNEE in row.by:
        pytest.skip("that move is the agent's, not the session's")
    task_id = bring(world, row, "working")
    refused = world.refuses(ErrorCode.CONFLICT, row.command, task_id, agent(WORKER, SECOND))
    assert "another session" in refused.message


# --- the table itself --------------------------------------------------------------------------------------------


def test_the_table_says_what_the_page_on_the_model_says() -> None:
    assert {row.command.__name__ for row in TRANSITIONS} == set(oracle.MOVES)
    for row in TRANSITIONS:
        who, sources, targets = oracle.MOVES[row.command.__name__]
        assert {r.value for r in row.by} - {"last_holder"} == set(who.split()) - {"last_holder"}, row.move
        extra = {p for p in row.sources if not oracle.matches(p, sources)}
        # A replay is recognised, or refused with better words, where it can no longer move anything.
        allowed = {
            cmd.ClaimTask: {"working", "working/answered"},
            cmd.ReleaseTask: {"submitted/new", "submitted/rework", "canceled/by_requester", "canceled/by_person"},
        }
        assert extra == allowed.get(row.command, set()), row.move
        beyond = {p for p in row.targets if p != "=" and not oracle.matches(p, targets)}
        assert beyond <= {"input_required/unverified"}, row.move


def test_every_command_to_a_task_has_exactly_one_row() -> None:
    assert len({row.command for row in TRANSITIONS}) == len(TRANSITIONS)
    assert {row.command for row in TRANSITIONS} == set(cmd.TaskCommands.__args__)


def test_every_place_has_a_label_and_every_open_place_a_party() -> None:
    assert set(PLACES) == {place_of(state, reason) for state, reasons in REASONS.items() for reason in reasons}
    for state, reasons in REASONS.items():
        for reason in reasons:
            assert board_label(state, reason)
    assert set(oracle.TURN) == {place for place in PLACES if oracle.is_open(place)}


def test_every_row_names_a_witness() -> None:
    assert all(row.witness for row in TRANSITIONS)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_is_somebodys_turn_or_over(world: World, place: str) -> None:
    task = world.task(world.in_place(place))
    expected = {
        "assignee": {WORKER, RUNNER, SHY},
        "coordinator": {ANN},
        "compensator": {task.on_failure},
        "requester": {ASKER},
        "reviewer": {ASKER},
        "person": {ANN},
        "": {""},
    }[oracle.TURN.get(place, "")]
    assert task.turn in expected


# --- repeats -----------------------------------------------------------------------------------------------------


def test_cancel_again_changes_nothing(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.CancelTask, task_id, ASKER)
    assert isinstance(world.act(cmd.CancelTask, task_id, ASKER), Unchanged)
    assert isinstance(world.act(cmd.CancelTask, task_id, ANN), Unchanged)
    world.act(cmd.ReleaseTask, task_id, WORKER)
    assert world.place(task_id) == "canceled/by_requester"
    assert isinstance(world.act(cmd.CancelTask, task_id, ASKER), Unchanged)
    world.refuses(ErrorCode.CONFLICT, cmd.CancelTask, task_id, CLOSED)


@pytest.mark.parametrize(
    "kind", [cmd.CancelTask, cmd.SettleTrace, cmd.FinishCascade, cmd.ForwardResult, cmd.ReleaseTask, cmd.ClaimTask]
)
def test_a_repeat_is_recognised_only_for_one_who_may_do_it(world: World, kind: type) -> None:
    task_id = world.taken()
    world.act(cmd.CancelTask, task_id, ASKER)
    if kind is cmd.SettleTrace:
        world.act(cmd.ReleaseTask, task_id, WORKER)
        world.act(cmd.SettleTrace, task_id, ASKER)
    world.refuses(ErrorCode.NOT_FOUND, kind, task_id, STRANGER)
    if kind is not cmd.ClaimTask:
        code = ErrorCode.CONFLICT if kind in (cmd.ReleaseTask, cmd.SettleTrace) else ErrorCode.DENIED
        world.refuses(code, kind, task_id, CLOSED)


def test_giving_back_again_with_the_same_reason_is_no_event_and_with_another_is_refused(world: World) -> None:
    task_id = world.taken()
    world.act(cmd.ReleaseTask, task_id, WORKER, note="n1")
    assert isinstance(world.act(cmd.ReleaseTask, task_id, WORKER, note="n1"), Unchanged)
    world.refuses(ErrorCode.CONFLICT, cmd.ReleaseTask, task_id, WORKER, note="n2")


def test_taking_again_is_idempotent_only_by_key(world: World) -> None:
    task_id = world.ask()
    world.act(cmd.ClaimTask, task_id, WORKER, key="k")
    assert isinstance(world.act(cmd.ClaimTask, task_id, WORKER, key="k"), Unchanged)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER, key="other")
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, agent(WORKER, SECOND), key="k")


@pytest.mark.parametrize("place", PLACES)
def test_a_turn_that_does_not_move_is_no_event(world: World, place: str) -> None:
    assert isinstance(world.act(cmd.MoveTurn, world.in_place(place), HOST.id), Unchanged)


def test_settling_again_changes_nothing(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    world.act(cmd.SettleTrace, task_id, ASKER)
    assert isinstance(world.act(cmd.SettleTrace, task_id, ANN), Unchanged)


def test_a_trace_with_open_parts_is_not_settled_and_they_are_named(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    other = world.ask()
    refused = world.refuses(ErrorCode.CONFLICT, cmd.SettleTrace, task_id, ASKER, open_parts=(other,))
    assert other[-6:].lower() in refused.message


# --- the words of refusals ---------------------------------------------------------------------------------------


def test_a_closed_task_points_to_new_work(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    refused = world.refuses(ErrorCode.CONFLICT, cmd.CancelTask, task_id, ASKER)
    assert "completed" in refused.message
    assert "new work" in refused.remedy


def test_a_task_that_somebody_else_holds_names_the_holder(world: World) -> None:
    task_id = world.taken()
    refused = world.refuses(ErrorCode.CONFLICT, cmd.AskQuestion, task_id, CLOSED)
    assert "@worker" in refused.message


def test_an_absent_task_is_not_found(world: World) -> None:
    command = world.command(cmd.CancelTask, world.ask(), ASKER)
    world.work.clear()
    with pytest.raises(Exception, match="no task") as caught:
        world.do(command, ASKER)
    assert caught.value.code is ErrorCode.NOT_FOUND  # type: ignore[attr-defined]


def test_the_facts_of_a_task_taken_and_handed_in_at_once_stand_in_their_order(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    order = [f.fact for f in world.delivery(task_id).facts]
    assert order == [f for f in Fact if f is not Fact.UNVERIFIED]


def test_correcting_to_a_reason_of_another_state_is_refused(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    world.refuses(ErrorCode.INVALID, cmd.CorrectTask, task_id, ANN, state="failed", reason="approved")


def test_correcting_to_working_needs_a_holder(world: World) -> None:
    task_id = world.in_place("completed/unreviewed")
    world.refuses(ErrorCode.CONFLICT, cmd.CorrectTask, task_id, ANN, state="working", reason="")


def test_places_name_only_states_and_reasons_that_exist() -> None:
    for row in TRANSITIONS:
        for place in (row.sources | row.targets) - {"="}:
            state, _, reason = place.partition("/")
            assert Reason(reason) in REASONS[TaskState(state)]


def test_a_check_may_be_run_again_only_for_the_revision_that_is_there(world: World) -> None:
    task_id = world.in_check()
    world.refuses(ErrorCode.CONFLICT, cmd.ReportCheck, task_id, HOST.id, revision=0, run=run())


@pytest.mark.parametrize("target", ["agent", "workspace", "host"])
def test_after_a_stop_nothing_is_taken_from_a_holder_but_that_it_gives_the_task_back(world: World, target: str) -> None:
    task_id = world.in_place("working")
    stops = {
        "agent": cmd.SetAgentMode(agent_id=WORKER, mode="stopped"),
        "workspace": cmd.SetWorkspaceMode(workspace_id=HOME, mode="stopped"),
        "host": cmd.SetHostMode(mode="stopped"),
    }
    world.do(stops[target], ANN)
    refused = world.refuses(ErrorCode.CONFLICT, cmd.ReportProgress, task_id, WORKER)
    assert "stopped" in refused.message
    world.refuses_ask(ErrorCode.UNAVAILABLE if target != "agent" else ErrorCode.DENIED, WORKER, to=ASKER)
    world.act(cmd.ReleaseTask, task_id, WORKER)
    assert world.place(task_id) == "submitted/new"


def test_a_check_that_a_person_denies_leaves_the_result_to_a_reviewer_and_nobody_holds_it(world: World) -> None:
    task = world.in_check()
    world.act(cmd.RequestPermission, task, WORKER, permission_id="prm_1", action="run it", digest="d" * 64)
    world.act(cmd.DecidePermission, task, ANN, permission_id="prm_1", decision="reject_once")
    assert world.place(task) == "input_required/review"
    assert world.task(task).holder == ""


def test_correcting_what_runs_ends_that_attempt_and_begins_another(world: World) -> None:
    task = world.pushed()
    first = world.delivery(task).delivery_id
    world.act(cmd.CorrectTask, task, ANN, state=TaskState.SUBMITTED, reason=Reason.NEW)
    assert [d.ended for d in world.work[task].deliveries] == ["canceled", ""]
    begun = cmd.BeginDelivery(task_id=task, delivery_id=first, witness="host")
    with pytest.raises(Refused):
        world.do(begun, HOST)


def test_correcting_what_runs_into_a_review_ends_the_run(world: World) -> None:
    task = world.pushed()
    world.act(cmd.CorrectTask, task, ANN, state=TaskState.INPUT_REQUIRED, reason=Reason.REVIEW)
    assert not world.work[task].in_flight
    assert world.delivery(task).ended == "canceled"


def test_what_the_host_runs_has_a_lease_again_once_a_permission_was_decided(world: World) -> None:
    task = world.leased()
    world.act(cmd.RequestPermission, task, HOST, permission_id="prm_1", action="run it", digest="d" * 64)
    world.act(cmd.DecidePermission, task, ANN, permission_id="prm_1", decision="reject_once")
    assert world.place(task) == "submitted/new"
    assert world.task(task).lease_until > world.now


def test_a_correction_forgets_where_the_task_was_before_a_permission(world: World) -> None:
    task = world.taken()
    world.act(cmd.RequestPermission, task, WORKER, permission_id="prm_1", action="run it", digest="d" * 64)
    world.act(cmd.CorrectTask, task, ANN, state=TaskState.AUTH_REQUIRED, reason=Reason.PERMISSION)
    world.act(cmd.DecidePermission, task, ANN, permission_id="prm_1", decision="allow_once")
    assert world.place(task) == "auth_required/permission", "nobody holds it, so nothing of it works"
