"""Asking for work: who may be asked, within which limits, and once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.errors import ErrorCode
from tallystick.core.identity import HOST, Prefix
from tallystick.core.limits import Limits
from tallystick.core.model import Brief, Expects
from tallystick.core.state import Unchanged
from tests.build import (
    ANN,
    ASKER,
    BOB,
    CHECK,
    CLOSED,
    ELSEWHERE,
    HOME,
    PAID,
    REVIEWER,
    RUNNER,
    SECOND,
    SESSIONS,
    SHY,
    STRANGER,
    WORKER,
    World,
    new_id,
)


def test_an_ask_is_the_assignees_turn_and_has_one_delivery(world: World) -> None:
    task = world.task(world.ask(base_commit="c1"))
    assert (task.place, task.turn, task.requester, task.subject) == ("submitted/new", WORKER, ASKER, ANN)
    assert (task.depth, task.fence, task.base_commit) == (0, 0, "c1")
    assert world.facts(task.task_id) == [("accepted", "host"), ("persisted", "host")]


def test_an_ask_for_nobody_is_for_the_coordinator(world: World) -> None:
    assert world.task(world.ask(to="")).turn == ANN, "a person, while there is none"
    world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=REVIEWER), ANN)
    assert world.task(world.ask(to="")).turn == REVIEWER


def test_only_the_host_names_another_requester(world: World) -> None:
    assert world.task(world.ask(by=ASKER, requester=BOB)).requester == ASKER
    assert world.task(world.ask(by=HOST.id, requester=BOB)).requester == BOB


# --- whom --------------------------------------------------------------------------------------------------------


def test_a_person_can_be_asked(world: World) -> None:
    assert world.task(world.ask(to=BOB)).turn == BOB


@pytest.mark.parametrize("to", [STRANGER, "agt_unknown", "per_unknown"])
def test_reported_50_an_unknown_assignee_or_one_elsewhere_is_refused_at_once(world: World, to: str) -> None:
    first = world.refuses_ask(ErrorCode.NOT_FOUND, to="agt_absent")
    refused = world.refuses_ask(ErrorCode.NOT_FOUND, to=to)
    assert (refused.message, refused.remedy) == (first.message, first.remedy)


def test_an_agent_that_left_is_not_found(world: World) -> None:
    world.do(cmd.LeaveAgent(agent_id=WORKER), ANN)
    world.refuses_ask(ErrorCode.NOT_FOUND)


def test_a_capability_that_nobody_offers_has_no_route(world: World) -> None:
    world.refuses_ask(ErrorCode.NO_ROUTE, to="cap:Nothing")


def test_an_agent_asks_only_where_it_is_a_member_and_while_it_is_here(world: World) -> None:
    world.refuses_ask(ErrorCode.NOT_FOUND, by=STRANGER)
    world.do(cmd.LeaveAgent(agent_id=ASKER), ANN)
    world.refuses_ask(ErrorCode.DENIED, by=ASKER)


def test_an_absent_workspace_is_not_found(world: World) -> None:
    world.refuses_ask(ErrorCode.NOT_FOUND, by=ANN, workspace="wsp_none")


def test_one_session_means_that_very_session_or_nothing(world: World) -> None:
    world.refuses_ask(ErrorCode.NOT_FOUND, session=SESSIONS[REVIEWER])
    world.refuses_ask(ErrorCode.NOT_FOUND, session="ses_unknown")
    task_id = world.ask(session=SECOND)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER)
    world.refuses(ErrorCode.DENIED, cmd.ClaimTask, task_id, WORKER, session=SECOND)
    world.do(cmd.EndSession(session_id=SECOND), HOST)
    world.refuses_ask(ErrorCode.NOT_FOUND, session=SECOND)


def test_a_session_of_another_workspace_is_not_found(world: World) -> None:
    world.do(cmd.JoinAgent(agent_id=WORKER, alias="worker", workspace=ELSEWHERE), ANN)
    there = world.id(Prefix.SESSION)
    world.do(cmd.OpenSession(session_id=there, agent=WORKER, workspace=ELSEWHERE, door="acp"), HOST)
    world.refuses_ask(ErrorCode.NOT_FOUND, session=there)


def driven(world: World, *, forks: bool) -> str:
    """Make the worker one whose sessions the host starts; one that has begun."""
    world.do(cmd.JoinAgent(agent_id=WORKER, alias="worker", workspace=HOME, connection="drive", client="codex"), ANN)
    session = world.id(Prefix.SESSION)
    world.do(cmd.OpenSession(session_id=session, agent=WORKER, workspace=HOME, door="acp"), HOST)
    world.do(cmd.DescribeSession(session_id=session, client="codex", forks=forks), HOST)
    return session


def test_a_new_session_is_for_agents_whose_sessions_the_host_starts(world: World) -> None:
    world.refuses_ask(ErrorCode.UNSUPPORTED, fresh=True)
    world.refuses_ask(ErrorCode.UNSUPPORTED, fork_of=SECOND)
    world.refuses_ask(ErrorCode.UNSUPPORTED, to=BOB, fresh=True)
    session = driven(world, forks=True)
    assert world.task(world.ask(fresh=True)).fresh
    assert world.task(world.ask(fork_of=session)).fork_of == session
    world.refuses_ask(ErrorCode.INVALID, fresh=True, session=session)
    world.refuses_ask(ErrorCode.INVALID, fresh=True, fork_of=session)


def test_a_fork_is_of_a_session_that_is_there_and_of_a_client_that_can(world: World) -> None:
    session = driven(world, forks=False)
    refused = world.refuses_ask(ErrorCode.UNSUPPORTED, fork_of=session)
    assert "fresh" in refused.remedy
    world.refuses_ask(ErrorCode.NOT_FOUND, fork_of="ses_unknown")
    world.do(cmd.EndSession(session_id=session), HOST)
    world.refuses_ask(ErrorCode.NOT_FOUND, fork_of=session)


def test_a_task_that_is_reassigned_takes_no_session_of_the_one_before_with_it(world: World) -> None:
    task_id = world.ask(fork_of=driven(world, forks=True))
    world.act(cmd.ReassignTask, task_id, ANN, assignee=REVIEWER)
    task = world.task(task_id)
    assert (task.fork_of, task.fresh, task.session_wanted) == ("", False, "")


def test_the_host_hands_a_task_on_to_each_agent_at_most_once_and_never_to_who_waits_for_it(world: World) -> None:
    task_id = world.ask()
    world.act(cmd.ReassignTask, task_id, HOST, assignee=REVIEWER)
    assert world.task(task_id).handed_on == (WORKER,)
    world.refuses(ErrorCode.CONFLICT, cmd.ReassignTask, task_id, HOST, assignee=WORKER)
    world.refuses(ErrorCode.CONFLICT, cmd.ReassignTask, task_id, HOST, assignee=BOB)
    world.act(cmd.ReassignTask, task_id, ANN, assignee=WORKER)
    assert world.task(task_id).handed_on == (WORKER,), "a person may do it, and that is no handover of the host"


def test_without_consent_nothing_goes_to_a_model_provider(world: World) -> None:
    refused = world.refuses_ask(ErrorCode.DENIED, to=PAID)
    assert "acme" in refused.message
    task_id = world.ask()
    world.refuses(ErrorCode.DENIED, cmd.ReassignTask, task_id, ASKER, assignee=PAID)
    world.do(cmd.AllowProvider(workspace_id=HOME, provider="acme"), ANN)
    assert world.task(world.ask(to=PAID)).provider == "acme"
    world.act(cmd.ReassignTask, task_id, ASKER, assignee=PAID)


def test_consent_holds_for_one_workspace(world: World) -> None:
    world.do(cmd.JoinAgent(agent_id=PAID, alias="paid", workspace=ELSEWHERE), ANN)
    world.ask(by=ANN, to=PAID, workspace=ELSEWHERE)
    world.refuses_ask(ErrorCode.DENIED, to=PAID)


def test_a_policy_of_hold_waits_for_a_person_and_of_refuse_ends_it(world: World) -> None:
    held = world.task(world.ask(to=SHY))
    assert (held.place, held.turn, held.rule) == ("auth_required/inbound", ANN, "inbound:hold")
    assert world.delivery(held.task_id).due_at == 0, "nothing is handed over before a person decided"
    ended = world.task(world.ask(to=CLOSED))
    assert (ended.place, ended.turn, ended.rule) == ("rejected/by_policy", "", "inbound:refuse")
    assert world.delivery(ended.task_id).ended == "rejected"


def test_an_agents_own_person_and_it_itself_are_let_in(world: World) -> None:
    assert world.place(world.ask(by=ANN, to=SHY)) == "submitted/new"
    assert world.place(world.ask(by=SHY, to=SHY)) == "submitted/new"


def test_a_policy_holds_for_reassigning_too(world: World) -> None:
    task_id = world.ask()
    world.refuses(ErrorCode.DENIED, cmd.ReassignTask, task_id, ASKER, assignee=CLOSED)
    world.act(cmd.ReassignTask, task_id, ASKER, assignee=SHY)
    assert world.place(task_id) == "auth_required/inbound"
    assert world.delivery(task_id).recipient == SHY
    assert world.delivery(task_id).due_at == 0
    world.act(cmd.AdmitTask, task_id, ANN)
    world.act(cmd.ClaimTask, task_id, SHY)
    assert world.delivery(task_id, 0).ended == "canceled"
    assert world.facts(task_id)[-1] == ("working", SESSIONS[SHY])


def test_an_assignee_is_never_the_reviewer(world: World) -> None:
    world.refuses_ask(ErrorCode.INVALID, reviewer=WORKER)
    task_id = world.ask(reviewer=REVIEWER)
    world.refuses(ErrorCode.INVALID, cmd.ReassignTask, task_id, ASKER, assignee=REVIEWER)


def test_a_command_or_one_who_left_cannot_be_the_reviewer(world: World) -> None:
    world.refuses_ask(ErrorCode.INVALID, reviewer=RUNNER)
    world.do(cmd.LeaveAgent(agent_id=REVIEWER), ANN)
    world.refuses_ask(ErrorCode.INVALID, reviewer=REVIEWER)


@pytest.mark.parametrize("mode", ["stopped", "draining"])
def test_what_a_person_stopped_takes_no_new_work(world: World, mode: str) -> None:
    world.do(cmd.SetWorkspaceMode(workspace_id=HOME, mode=mode), ANN)
    world.refuses_ask(ErrorCode.UNAVAILABLE)
    world.do(cmd.SetWorkspaceMode(workspace_id=HOME, mode="running"), ANN)
    world.do(cmd.SetHostMode(mode=mode), ANN)
    world.refuses_ask(ErrorCode.UNAVAILABLE)


@pytest.mark.parametrize(
    "command",
    [
        cmd.SetHostMode(mode="paused"),
        cmd.SetWorkspaceMode(workspace_id=HOME, mode="paused"),
        cmd.SetAgentMode(agent_id=WORKER, mode="stopped"),
        cmd.SetSessionMode(session_id=SESSIONS[WORKER], mode="paused"),
    ],
)
def test_what_a_person_holds_back_is_not_taken(world: World, command: Any) -> None:
    task_id = world.ask()
    world.do(command, ANN)
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER)


def test_a_paused_task_is_not_taken(world: World) -> None:
    task_id = world.ask()
    world.act(cmd.SetTaskMode, task_id, ANN, mode="paused")
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, WORKER)
    world.act(cmd.SetTaskMode, task_id, ANN, mode="running")
    world.act(cmd.ClaimTask, task_id, WORKER)
    world.refuses(ErrorCode.INVALID, cmd.SetTaskMode, task_id, ANN, mode="stopped")


def test_what_runs_for_a_command_is_not_taken_by_hand(world: World) -> None:
    world.refuses(ErrorCode.DENIED, cmd.ClaimTask, world.ask(to=RUNNER), RUNNER)


# --- how much ----------------------------------------------------------------------------------------------------


def test_the_title_is_there_and_not_too_long(world: World) -> None:
    world.refuses_ask(ErrorCode.INVALID, text=ev.Text(title=" \n"))
    world.ask(text=ev.Text(title="x" * 200))
    refused = world.refuses_ask(ErrorCode.INVALID, text=ev.Text(title="x" * 201))
    assert "200" in refused.message


def test_the_brief_in_all_has_a_limit_that_is_told(world: World) -> None:
    half = "x" * 4000
    world.ask(text=ev.Text(title="t", brief=Brief(intent=half, context=half)))
    brief = Brief(intent=half, context=half, known_facts=("y" * 300,))
    refused = world.refuses_ask(ErrorCode.INVALID, text=ev.Text(title="t", brief=brief))
    assert "8192" in refused.message


def test_a_body_has_a_limit_in_bytes_that_is_told(world: World) -> None:
    limit = world.limits.message_bytes
    world.ask(text=ev.Text(title="t", body="x" * limit))
    refused = world.refuses_ask(ErrorCode.INVALID, text=ev.Text(title="t", body="é" * (limit // 2 + 1)))
    assert str(limit) in refused.message
    task_id = world.taken()
    world.refuses(ErrorCode.INVALID, cmd.AskQuestion, task_id, WORKER, text=ev.Text(body="x" * (limit + 1)))


@pytest.mark.parametrize("kind", [cmd.AskQuestion, cmd.DeclineTask, cmd.FailTask])
def test_words_that_are_needed_may_not_be_blank(world: World, kind: type) -> None:
    world.refuses(ErrorCode.INVALID, kind, world.taken(), WORKER, text=ev.Text(body=" \n\t"))


def test_a_deadline_that_has_passed_is_refused(world: World) -> None:
    world.refuses_ask(ErrorCode.EXPIRED, deadline_at=world.now)
    world.ask(deadline_at=world.now + 1)


@pytest.mark.parametrize("days", [-8, 8])
def test_hostile_8_a_message_id_outside_the_retention_of_keys_is_refused_by_age(world: World, days: int) -> None:
    old = new_id(Prefix.MESSAGE, 1, world.now + days * 86400)
    world.refuses_ask(ErrorCode.EXPIRED, message_id=old)
    world.ask(message_id=new_id(Prefix.MESSAGE, 1, world.now + days // 2 * 86400))


@pytest.mark.parametrize("message_id", ["", "msg_1", "tsk_" + "0" * 26])
def test_a_message_id_is_a_ulid(world: World, message_id: str) -> None:
    world.refuses_ask(ErrorCode.INVALID, message_id=message_id)


def test_a_change_or_a_check_needs_a_repository(world: World) -> None:
    world.refuses_ask(ErrorCode.INVALID, expects=Expects.CHANGE, repository="")
    world.refuses_ask(ErrorCode.INVALID, done_when=CHECK, repository="")


def test_reported_18_a_full_mailbox_is_told_with_its_length(world: World) -> None:
    world.ask(queued=world.limits.mailbox_queue - 1)
    refused = world.refuses_ask(ErrorCode.UNAVAILABLE, queued=world.limits.mailbox_queue)
    assert str(world.limits.mailbox_queue) in refused.message


def test_hostile_71_one_sender_fills_only_its_own_queue_to_a_recipient_that_is_pushed_to(world: World) -> None:
    full = world.limits.push_queue
    world.ask(to=RUNNER, queued_by_sender=full - 1)
    refused = world.refuses_ask(ErrorCode.UNAVAILABLE, to=RUNNER, queued_by_sender=full)
    assert str(full) in refused.message
    world.ask(to=WORKER, queued_by_sender=full)


# --- parents -----------------------------------------------------------------------------------------------------


def chain(world: World, depth: int) -> str:
    """Tasks that each belong to the one before, between ever other people."""
    parent = world.ask(by=BOB, to=new_agent(world, 0))
    for n in range(1, depth + 1):
        parent = world.ask(by=HOST.id, requester=BOB, to=new_agent(world, n), parent=parent)
    return parent


def new_agent(world: World, number: int) -> str:
    party = new_id(Prefix.AGENT, 100 + number)
    world.do(cmd.JoinAgent(agent_id=party, alias=f"extra-{chr(97 + number)}", workspace=HOME), ANN)
    return party


def test_tasks_delegate_only_so_deep(world: World) -> None:
    deepest = chain(world, world.limits.depth)
    assert world.task(deepest).depth == world.limits.depth
    refused = world.refuses_ask(ErrorCode.DENIED, parent=deepest)
    assert "question" in refused.remedy


def test_a_task_has_only_so_many_open_children(world: World) -> None:
    parent = world.taken()
    children = [world.ask(by=WORKER, to=REVIEWER, parent=parent) for _ in range(world.limits.open_children)]
    refused = world.refuses_ask(ErrorCode.DENIED, by=WORKER, to=REVIEWER, parent=parent)
    assert str(world.limits.open_children) in refused.message
    world.act(cmd.CancelTask, children[0], WORKER)
    world.ask(by=WORKER, to=REVIEWER, parent=parent)


@pytest.mark.parametrize("back_to", [ASKER, WORKER])
def test_a_piece_of_work_is_not_handed_back_up(world: World, back_to: str) -> None:
    parent = world.taken()
    refused = world.refuses_ask(ErrorCode.CONFLICT, by=WORKER, to=back_to, parent=parent)
    assert "question" in refused.remedy
    child = world.ask(by=WORKER, to=REVIEWER, parent=parent)
    world.refuses_ask(ErrorCode.CONFLICT, by=REVIEWER, to=back_to, parent=child)


def test_a_reassignment_makes_no_cycle(world: World) -> None:
    parent = world.taken()
    child = world.ask(by=WORKER, to=REVIEWER, parent=parent)
    ancestors = (world.task(parent),)
    refused = world.refuses(ErrorCode.CONFLICT, cmd.ReassignTask, child, WORKER, assignee=ASKER, ancestors=ancestors)
    assert "question" in refused.remedy


def test_the_parent_is_the_one_task_that_the_session_holds(world: World) -> None:
    held = world.taken()
    assert world.task(world.ask(by=WORKER, to=REVIEWER, parent=None)).parent == held
    world.taken()
    refused = world.refuses_ask(ErrorCode.INVALID, by=WORKER, to=REVIEWER, parent=None)
    assert held[-6:].lower() in refused.message
    assert world.task(world.ask(by=WORKER, to=REVIEWER, parent="")).parent == ""


def test_a_closed_task_is_no_parent(world: World) -> None:
    world.refuses_ask(ErrorCode.CONFLICT, parent=world.in_place("completed/unreviewed"))


# --- once --------------------------------------------------------------------------------------------------------


def test_the_same_request_with_the_same_key_is_the_first_one(world: World) -> None:
    first = world.ask(key="invoice-7", digest="d1")
    again = world.do(world.submit(key="invoice-7", digest="d1"), ASKER)
    assert again == Unchanged(first, duplicate=True)
    world.act(cmd.ClaimTask, first, WORKER)
    world.act(cmd.HandInResult, first, WORKER)
    assert world.do(world.submit(key="invoice-7", digest="d1"), ASKER) == Unchanged(first, duplicate=True)


def test_hostile_9_the_same_key_with_another_body_is_a_conflict(world: World) -> None:
    world.ask(key="invoice-7", digest="d1")
    world.refuses_ask(ErrorCode.CONFLICT, key="invoice-7", digest="d2")


def test_another_senders_key_is_another_key(world: World) -> None:
    first = world.ask(key="invoice-7", digest="d1")
    assert world.ask(by=BOB, key="invoice-7", digest="d2") != first


def test_a_result_that_is_sent_on_lies_one_deeper_so_a_ring_of_them_ends(world: World) -> None:
    source = world.in_place("completed/unreviewed")
    depths = []
    for _ in range(world.limits.depth):
        source = world.ask(by=HOST.id, requester=ASKER, forwards=source)
        depths.append((world.task(source).depth, world.task(source).requester, world.task(source).parent))
    assert depths == [(n, ASKER, "") for n in range(1, world.limits.depth + 1)]
    refused = world.refuses_ask(ErrorCode.DENIED, by=HOST.id, requester=ASKER, forwards=source)
    assert source[-6:].lower() in refused.message


def test_limits_are_a_setting() -> None:
    world = World(replace(Limits(), depth=0))
    world.refuses_ask(ErrorCode.DENIED, parent=world.ask())


# --- what is promised --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "live", "promised"),
    [(RUNNER, (), "live"), (WORKER, (), "mailbox"), (WORKER, (WORKER,), "mailbox"), (BOB, (), "mailbox")],
)
def test_the_promise_is_what_the_connection_can_keep(world: World, to: str, live: Any, promised: str) -> None:
    assert world.task(world.ask(to=to, live=frozenset(live))).promise == promised


@pytest.mark.parametrize(("mode", "promised"), [("paused", "mailbox"), ("stopped", "offline"), ("running", "live")])
def test_a_stopped_recipient_is_promised_less(world: World, mode: str, promised: str) -> None:
    world.do(cmd.SetAgentMode(agent_id=RUNNER, mode=mode), ANN)
    assert world.task(world.ask(to=RUNNER)).promise == promised


def test_a_client_that_is_there_sees_it_in_its_next_turn(world: World) -> None:
    world.do(cmd.JoinAgent(agent_id=WORKER, alias="worker", workspace=HOME, connection="client", client="pi"), ANN)
    assert world.task(world.ask(live=frozenset({WORKER}))).promise == "next_turn"
    assert world.task(world.ask()).promise == "mailbox"
