"""Persons, agents, names, sessions, workspaces: who may say what of them, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST, RESERVED_ALIASES, Actor, Prefix, short
from tallystick.core.model import CheckSpec
from tallystick.core.places import stream_of
from tallystick.core.route import holders
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
    SPOKE,
    WORKER,
    World,
    check_refusal,
)


def refuses(world: World, code: ErrorCode, command: Any, by: str | Actor = ANN) -> Refused:
    before, position = world.directory, len(world.log)
    with pytest.raises(Refused) as caught:
        world.do(command, by)
    check_refusal(caught.value, code)
    assert world.directory is before
    assert len(world.log) == position
    return caught.value


def join(party: str, alias: str, workspace: str = HOME, **given: Any) -> cmd.JoinAgent:
    return cmd.JoinAgent(agent_id=party, alias=alias, workspace=workspace, **given)


def fresh(world: World) -> str:
    return world.id(Prefix.AGENT)


# --- joining anew ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["leased", "pushed"])
def test_who_has_pushed_work_in_hand_is_not_joined_by_another_connection(world: World, stage: str) -> None:
    task_id = getattr(world, stage)()
    refusal = refuses(world, ErrorCode.CONFLICT, join(RUNNER, "runner", connection="wake"))
    assert short(task_id) in refusal.message
    assert "tally drain @runner" in refusal.remedy
    world.do(join(RUNNER, "runner", connection="command", strengths="the same connection"), ANN)
    world.do(join(RUNNER, "runner", strengths="none given"), ANN)


def test_what_is_done_returned_or_for_a_person_to_look_at_keeps_nobody_at_a_connection(world: World) -> None:
    world.act(cmd.HandInResult, world.pushed(), RUNNER)
    world.act(cmd.ReturnDelivery, world.leased(), HOST)
    world.doubted()
    world.ask(to=RUNNER)
    world.do(join(RUNNER, "runner", connection="wake"), ANN)
    assert world.directory.agent(RUNNER).connection == "wake"


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", [*sorted(RESERVED_ALIASES), "Reviewer", "revіewer", "ﬁx", "x\n", "a b", ""])
def test_hostile_43_44_a_name_that_is_reserved_or_malformed_is_refused_everywhere(world: World, alias: str) -> None:
    refuses(world, ErrorCode.INVALID, join(fresh(world), alias))
    refuses(world, ErrorCode.INVALID, cmd.JoinPerson(person_id="per_new", alias=alias))
    refuses(world, ErrorCode.INVALID, cmd.RenameAgent(agent_id=WORKER, alias=alias))


@pytest.mark.parametrize("alias", ["worker", "w0rker", "vvorker"])
def test_a_name_that_is_taken_or_looks_like_a_taken_one_is_refused(world: World, alias: str) -> None:
    if alias == "vvorker":
        world.do(join(fresh(world), alias), ANN)
        return
    refused = refuses(world, ErrorCode.CONFLICT, join(fresh(world), alias))
    assert "@worker" in refused.message


@pytest.mark.parametrize(("known", "like"), [("bill", "bi11"), ("modern", "modem"), ("foo", "f00")])
def test_hostile_43_look_alikes_are_refused_in_both_orders(world: World, known: str, like: str) -> None:
    for first, second in ((known, like), (like, known)):
        world = World()
        world.do(join(fresh(world), first), ANN)
        refuses(world, ErrorCode.CONFLICT, join(fresh(world), second))


def test_persons_and_agents_share_their_names(world: World) -> None:
    refuses(world, ErrorCode.CONFLICT, join(fresh(world), "bob"))
    refuses(world, ErrorCode.CONFLICT, cmd.JoinPerson(person_id="per_new", alias="worker"))


def test_hostile_44_a_rename_keeps_the_id_and_its_old_name_is_never_given_out_again(world: World) -> None:
    task_id = world.ask()
    world.do(cmd.RenameAgent(agent_id=WORKER, alias="doer"), ANN)
    assert world.directory.named("doer") == WORKER
    assert world.directory.named("worker") is None
    refuses(world, ErrorCode.CONFLICT, join(fresh(world), "worker"))
    world.act(cmd.ClaimTask, task_id, WORKER)
    assert world.task(task_id).turn == WORKER
    assert world.directory.alias_of(WORKER) == "@doer"


def test_one_may_take_ones_own_old_name_back(world: World) -> None:
    world.do(cmd.RenameAgent(agent_id=WORKER, alias="doer"), ANN)
    world.do(cmd.RenameAgent(agent_id=WORKER, alias="worker"), ANN)
    assert world.directory.named("worker") == WORKER
    assert world.directory.named("doer") is None
    refuses(world, ErrorCode.CONFLICT, join(fresh(world), "doer"))


def test_renaming_to_the_same_name_changes_nothing(world: World) -> None:
    assert isinstance(world.do(cmd.RenameAgent(agent_id=WORKER, alias="worker"), WORKER), Unchanged)


@pytest.mark.parametrize("alias", ["another", "sp0ke"])
def test_a_spoke_keeps_the_name_that_its_program_says(world: World, alias: str) -> None:
    refused = refuses(world, ErrorCode.UNSUPPORTED, cmd.RenameAgent(agent_id=SPOKE, alias=alias))
    assert "its own program says" in refused.message
    assert "another spoke_id" in refused.remedy
    assert world.directory.named(alias) is None
    assert world.directory.agents[SPOKE].alias == "spoke"


def test_what_became_a_spoke_may_get_back_the_name_that_it_had(world: World) -> None:
    world.do(cmd.RenameAgent(agent_id=WORKER, alias="doer"), ANN)
    world.do(join(WORKER, "doer", connection="spoke"), ANN)
    world.do(cmd.RenameAgent(agent_id=WORKER, alias="worker"), ANN)
    assert world.directory.named("worker") == WORKER


def test_hostile_44_reported_7_the_name_of_one_who_left_is_a_tombstone(world: World) -> None:
    task_id = world.ask()
    world.do(cmd.LeaveAgent(agent_id=WORKER), ANN)
    refused = refuses(world, ErrorCode.CONFLICT, join(fresh(world), "worker"))
    assert "not given out again" in refused.message
    refuses(world, ErrorCode.CONFLICT, join(fresh(world), "w0rker"))
    assert world.directory.named("worker") is None
    assert world.task(task_id).assignee == WORKER, "what was for it is for nobody else"
    rows = {row.alias: row.current for row in world.table("aliases")}
    assert (rows["worker"], rows["reviewer"]) == (0, 1)


def test_one_who_left_for_good_does_not_join_again(world: World) -> None:
    world.do(cmd.LeaveAgent(agent_id=WORKER), ANN)
    refuses(world, ErrorCode.CONFLICT, join(WORKER, "worker"))
    refuses(world, ErrorCode.CONFLICT, join(WORKER, "another"))
    refuses(world, ErrorCode.NOT_FOUND, cmd.RenameAgent(agent_id=WORKER, alias="another"))
    refuses(world, ErrorCode.NOT_FOUND, cmd.LeaveAgent(agent_id=WORKER))


# --- joining -----------------------------------------------------------------------------------------------------


def test_joining_again_changes_only_what_is_given(world: World) -> None:
    before = world.directory.agents[RUNNER]
    world.do(join(RUNNER, "runner", strengths="fast"), ANN)
    after = world.directory.agents[RUNNER]
    assert (after.strengths, after.argv, after.connection, after.seconds) == ("fast", ("run",), "command", 60)
    assert (after.owner, after.joined_at, after.workspaces) == (before.owner, before.joined_at, before.workspaces)
    world.do(join(RUNNER, "runner", argv=("other",), capabilities=("Run",)), ANN)
    assert world.directory.agents[RUNNER].strengths == "fast"


def test_an_agent_joins_more_workspaces_and_leaves_one_of_them(world: World) -> None:
    world.do(join(WORKER, "worker", ELSEWHERE), ANN)
    assert WORKER in {a.agent_id for a in world.directory.members(ELSEWHERE)}
    world.do(cmd.LeaveAgent(agent_id=WORKER, workspace=HOME), ANN)
    assert not world.directory.agents[WORKER].deleted
    refuses(world, ErrorCode.CONFLICT, cmd.LeaveAgent(agent_id=WORKER, workspace=HOME))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"connection": "telepathy"}, ErrorCode.INVALID),
        ({"inbound": "maybe"}, ErrorCode.INVALID),
        ({"concurrency": 0}, ErrorCode.INVALID),
        ({"concurrency": 65}, ErrorCode.INVALID),
        ({"workspace": "wsp_none"}, ErrorCode.NOT_FOUND),
    ],
)
def test_what_cannot_be_joined_is_refused(world: World, given: dict[str, Any], code: ErrorCode) -> None:
    refuses(world, code, join(fresh(world), "new", **given))


@pytest.mark.parametrize("given", [{"argv": ("sh",)}, {"connection": "command"}, {"connection": "drive"}])
def test_only_a_person_joins_an_agent_with_a_command(world: World, given: dict[str, Any]) -> None:
    refuses(world, ErrorCode.DENIED, join(fresh(world), "new", **given), WORKER)
    world.do(join(fresh(world), "new", **given), ANN)


def test_an_agent_does_not_change_how_another_is_joined(world: World) -> None:
    refuses(world, ErrorCode.DENIED, join(CLOSED, "closed", inbound="accept"), WORKER)
    world.do(join(WORKER, "worker", strengths="slow"), WORKER)


def test_an_agents_join_consents_to_no_provider_and_a_persons_does(world: World) -> None:
    assert world.directory.workspaces[HOME].providers == {"none"}
    world.do(join(PAID, "paid", provider="acme"), PAID)
    assert "acme" not in world.directory.workspaces[HOME].providers
    world.do(join(PAID, "paid"), ANN)
    assert "acme" in world.directory.workspaces[HOME].providers


def test_one_agent_for_each_client_of_a_workspace(world: World) -> None:
    world.do(join(fresh(world), "first", connection="client", client="pi"), ANN)
    refuses(world, ErrorCode.CONFLICT, join(fresh(world), "second", connection="client", client="pi"))
    world.do(join(fresh(world), "third", connection="client", client="codex"), ANN)


def test_an_agent_works_for_who_joined_it(world: World) -> None:
    party = fresh(world)
    world.do(join(party, "new"), BOB)
    assert world.directory.owner_of(party) == BOB
    assert world.task(world.ask(by=party)).subject == BOB


# --- what is for persons only ------------------------------------------------------------------------------------

PERSONS = [
    cmd.SetHostMode(mode="paused"),
    cmd.SetWorkspaceMode(workspace_id=HOME, mode="paused"),
    cmd.SetAgentMode(agent_id=SHY, mode="paused"),
    cmd.SetSessionMode(session_id=SECOND, mode="paused"),
    cmd.AllowProvider(workspace_id=HOME, provider="acme"),
    cmd.AddCheck(workspace_id=HOME, check=CHECK),
    cmd.RemoveCheck(workspace_id=HOME, name="tests"),
    cmd.JoinPerson(person_id="per_new", alias="carol"),
    cmd.MakeSpokeToken(workspace_id=HOME, token_id="tok_1", name="far"),
]


@pytest.mark.parametrize("command", PERSONS, ids=lambda c: type(c).__name__)
def test_an_agent_may_not_do_what_is_for_persons(world: World, command: Any) -> None:
    world.do(cmd.AddCheck(workspace_id=HOME, check=CHECK.__class__("tests", ("true",))), ANN)
    refuses(world, ErrorCode.DENIED, command, WORKER)
    world.do(command, ANN)


@pytest.mark.parametrize(
    "command",
    [
        cmd.RenameAgent(agent_id=SHY, alias="bold"),
        cmd.LeaveAgent(agent_id=SHY),
        cmd.OpenSession(session_id="ses_new", agent=SHY, workspace=HOME, door="mcp"),
        cmd.EndSession(session_id=SESSIONS[SHY]),
    ],
    ids=lambda c: type(c).__name__,
)
def test_an_agent_does_these_for_itself_alone(world: World, command: Any) -> None:
    refuses(world, ErrorCode.DENIED, command, WORKER)
    world.do(command, SHY)


def test_only_the_first_person_needs_no_other_person() -> None:
    world = World()
    assert world.directory.owner == ANN
    assert world.directory.persons[ANN].owner


# --- modes -------------------------------------------------------------------------------------------------------

MODED = [
    lambda mode: cmd.SetHostMode(mode=mode),
    lambda mode: cmd.SetWorkspaceMode(workspace_id=HOME, mode=mode),
    lambda mode: cmd.SetAgentMode(agent_id=WORKER, mode=mode),
    lambda mode: cmd.SetSessionMode(session_id=SECOND, mode=mode),
]


@pytest.mark.parametrize("command", MODED)
def test_a_mode_is_one_of_four_and_the_same_again_changes_nothing(world: World, command: Any) -> None:
    for mode in ("paused", "stopped", "draining", "running"):
        world.do(command(mode), ANN)
        assert isinstance(world.do(command(mode), ANN), Unchanged)
    refuses(world, ErrorCode.INVALID, command("tired"))


@pytest.mark.parametrize(
    "command",
    [
        cmd.SetWorkspaceMode(workspace_id="wsp_none", mode="paused"),
        cmd.SetAgentMode(agent_id="agt_none", mode="paused"),
        cmd.SetSessionMode(session_id="ses_none", mode="paused"),
        cmd.EndSession(session_id="ses_none"),
        cmd.NotePresence(session_id="ses_none", presence="live"),
        cmd.ChooseCoordinator(workspace_id="wsp_none", agent=WORKER),
        cmd.ChooseCoordinator(workspace_id=HOME, agent="agt_none"),
        cmd.AllowProvider(workspace_id="wsp_none", provider="acme"),
        cmd.AddCheck(workspace_id="wsp_none", check=CHECK),
        cmd.RemoveCheck(workspace_id=HOME, name="none"),
        cmd.OpenSession(session_id="ses_new", agent="agt_none", workspace=HOME, door="mcp"),
    ],
    ids=lambda c: type(c).__name__,
)
def test_what_is_not_there_is_not_found(world: World, command: Any) -> None:
    refuses(world, ErrorCode.NOT_FOUND, command)


# --- workspaces --------------------------------------------------------------------------------------------------


def test_the_same_root_is_the_same_workspace(world: World) -> None:
    again = world.do(cmd.RegisterWorkspace(workspace_id="wsp_new", name="other", root="/home"), ANN)
    assert again == Unchanged(HOME)


def test_the_first_coordinator_may_choose_itself_and_then_only_a_person_changes_it(world: World) -> None:
    world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=WORKER), WORKER)
    assert isinstance(world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=WORKER), ANN), Unchanged)
    refuses(world, ErrorCode.DENIED, cmd.ChooseCoordinator(workspace_id=HOME, agent=REVIEWER), REVIEWER)
    world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=REVIEWER), ANN)
    task_id = world.ask(to="")
    world.act(cmd.ReassignTask, task_id, REVIEWER, assignee=WORKER)
    world.refuses(ErrorCode.DENIED, cmd.ReassignTask, task_id, SHY, assignee=SHY)


def test_a_command_or_one_from_elsewhere_does_not_coordinate(world: World) -> None:
    refuses(world, ErrorCode.CONFLICT, cmd.ChooseCoordinator(workspace_id=HOME, agent=RUNNER))
    refuses(world, ErrorCode.CONFLICT, cmd.ChooseCoordinator(workspace_id=ELSEWHERE, agent=WORKER))


def test_a_check_is_registered_by_name_and_replaced(world: World) -> None:
    world.do(cmd.AddCheck(workspace_id=HOME, check=CHECK), ANN)
    assert isinstance(world.do(cmd.AddCheck(workspace_id=HOME, check=CHECK), ANN), Unchanged)
    other = CheckSpec(name="tests", argv=("make", "test"))
    world.do(cmd.AddCheck(workspace_id=HOME, check=other), ANN)
    assert world.directory.workspaces[HOME].checks == (("tests", other),)
    world.do(cmd.RemoveCheck(workspace_id=HOME, name="tests"), ANN)
    assert world.directory.workspaces[HOME].check("tests") is None
    refuses(world, ErrorCode.INVALID, cmd.AddCheck(workspace_id=HOME, check=CheckSpec(name="x", argv=())))


def test_a_provider_has_a_name_and_is_allowed_once(world: World) -> None:
    refuses(world, ErrorCode.INVALID, cmd.AllowProvider(workspace_id=HOME, provider=" "))
    world.do(cmd.AllowProvider(workspace_id=HOME, provider="acme"), ANN)
    assert isinstance(world.do(cmd.AllowProvider(workspace_id=HOME, provider="acme"), ANN), Unchanged)


def test_a_capability_is_looked_for_here_and_then_in_the_default_workspace(world: World) -> None:
    default = world.id(Prefix.WORKSPACE)
    world.do(cmd.RegisterWorkspace(workspace_id=default, name="default"), ANN)
    assert holders("Sum", HOME, world.directory) == []
    world.do(join(SHY, "shy", default, capabilities=("Sum",)), ANN)
    world.do(cmd.LeaveAgent(agent_id=SHY, workspace=HOME), ANN)
    assert [h.agent.agent_id for h in holders("Sum", HOME, world.directory)] == [SHY]
    world.do(join(WORKER, "worker", capabilities=("Sum",)), ANN)
    assert [h.agent.agent_id for h in holders("Sum", HOME, world.directory)] == [WORKER]
    assert holders("Su", HOME, world.directory) == []


# --- sessions ----------------------------------------------------------------------------------------------------


def test_reported_37_a_second_process_on_the_same_history_is_refused(world: World) -> None:
    again = {"session_id": SECOND, "agent": WORKER, "workspace": HOME, "door": "mcp"}
    assert isinstance(world.do(cmd.OpenSession(**again, incarnation="2"), WORKER), Unchanged)
    refuses(world, ErrorCode.CONFLICT, cmd.OpenSession(**again, incarnation="3"), WORKER)


def test_reported_60_a_session_that_ended_is_not_opened_again(world: World) -> None:
    world.do(cmd.EndSession(session_id=SECOND), HOST)
    assert isinstance(world.do(cmd.EndSession(session_id=SECOND), HOST), Unchanged)
    again = cmd.OpenSession(session_id=SECOND, agent=WORKER, workspace=HOME, door="mcp", incarnation="2")
    refuses(world, ErrorCode.CONFLICT, again, WORKER)


def test_a_fork_is_a_new_session_with_a_parent(world: World) -> None:
    new = world.id(Prefix.SESSION)
    world.do(cmd.OpenSession(session_id=new, agent=WORKER, workspace=HOME, door="mcp", parent=SECOND), WORKER)
    assert world.directory.sessions[new].parent == SECOND
    task_id = world.ask(session=SECOND)
    assert world.task(task_id).session_wanted == SECOND


def test_only_a_change_of_presence_is_recorded(world: World) -> None:
    assert isinstance(world.do(cmd.NotePresence(session_id=SECOND, presence="live"), HOST), Unchanged)
    world.do(cmd.NotePresence(session_id=SECOND, presence="lapsed"), HOST)
    world.do(cmd.NotePresence(session_id=SESSIONS[WORKER], presence="lapsed"), HOST)
    rows = {row.agent_id: row.presence for row in world.table("agents")}
    assert (rows[WORKER], rows[SHY]) == ("lapsed", "live")
    world.do(cmd.EndSession(session_id=SECOND), HOST)
    assert isinstance(world.do(cmd.NotePresence(session_id=SECOND, presence="live"), HOST), Unchanged)


def test_a_reader_marks_its_own_items_as_seen(world: World) -> None:
    seen = cmd.MarkSeen(party=ASKER, items=(("tsk_1", 1),))
    refuses(world, ErrorCode.DENIED, seen, WORKER)
    world.do(seen, ASKER)
    assert isinstance(world.do(cmd.MarkSeen(party=ASKER, items=()), ASKER), Unchanged)


def test_each_event_raises_the_version_of_its_stream_by_one(world: World) -> None:
    for command in PERSONS[:5]:
        world.do(command, ANN)
    world.do(cmd.StartHost(host_version="1", boot_id="b", recovered=False), HOST)
    world.do(cmd.NoteRefusal(command="x", code="denied", object="", message=""), HOST)
    streams = {r.stream for r in world.log}
    for stream in streams:
        versions = [r.version for r in world.log if r.stream == stream]
        assert versions == list(range(1, len(versions) + 1))
        assert world.directory.version_of(stream) == len(versions)
    assert world.directory.version_of("agt_none") == 0


def test_every_command_to_a_place_has_a_stream() -> None:
    assert stream_of(cmd.SetHostMode(mode="paused")) == "host"
    assert stream_of(cmd.MarkSeen(party=ASKER, items=())) == ASKER


def test_rows_of_workspaces_follow(world: World) -> None:
    world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=WORKER), ANN)
    row = next(r for r in world.table("workspaces") if r.workspace_id == HOME)
    assert (row.coordinator, row.mode, row.root) == (WORKER, "running", "/home")


@pytest.mark.parametrize(
    "given",
    [
        {"provider": "p" * 201},
        {"display_name": "d" * 201},
        {"capabilities": ("c" * 201,)},
        {"strengths": "s" * 2001},
    ],
)
def test_what_an_agent_says_of_itself_has_a_limit_that_is_named(world: World, given: dict[str, Any]) -> None:
    assert "limit" in refuses(world, ErrorCode.INVALID, join(WORKER, "worker", **given)).message


def test_a_session_is_linked_to_the_conversation_that_its_hook_tells_of(world: World) -> None:
    session = SESSIONS[WORKER]
    link = cmd.LinkSession(session_id=session, history="a0b1", transcript="/t.jsonl")
    world.do(link, WORKER)
    assert world.directory.sessions[session].history == "a0b1"
    assert world.directory.sessions[session].transcript == "/t.jsonl"
    assert isinstance(world.do(link, WORKER), Unchanged)
    refuses(world, ErrorCode.DENIED, link, SHY)


def test_a_conversation_of_another_agent_of_that_client_is_not_claimed_by_another_process(world: World) -> None:
    mine, other = fresh(world), fresh(world)
    world.do(join(mine, "pen-one", connection="client", client="codex"), ANN)
    world.do(join(other, "pen-two", workspace=ELSEWHERE, connection="client", client="codex"), ANN)
    opened: dict[str, str] = {}
    for agent, place, process in ((mine, HOME, "10@1"), (other, ELSEWHERE, "20@1"), (other, ELSEWHERE, "10@1")):
        session = opened[agent + process] = world.id(Prefix.SESSION)
        opening = cmd.OpenSession(session_id=session, agent=agent, workspace=place, door="client", incarnation=process)
        world.do(opening, agent)
    world.do(cmd.LinkSession(session_id=opened[mine + "10@1"], history="a0b1", transcript="/t"), mine)
    theft = cmd.LinkSession(session_id=opened[other + "20@1"], history="a0b1", transcript="/t")
    assert "another process" in refuses(world, ErrorCode.CONFLICT, theft, other).message
    # The same process goes on with it in another workspace, where another agent is bound.
    world.do(cmd.LinkSession(session_id=opened[other + "10@1"], history="a0b1", transcript="/t"), other)
    world.do(cmd.EndSession(session_id=opened[mine + "10@1"]), mine)
    world.do(cmd.EndSession(session_id=opened[other + "10@1"]), other)
    world.do(theft, other)


def test_an_agent_of_a_known_client_has_its_provider_unless_another_is_given(world: World) -> None:
    agent = fresh(world)
    world.do(join(agent, "pen", connection="client", client="codex"), ANN)
    assert world.directory.agents[agent].provider == "openai"
    assert "openai" in world.directory.workspaces[HOME].providers
    world.do(join(agent, "pen", provider="local"), ANN)
    world.do(join(agent, "pen", connection="client", client="codex", strengths="reads"), ANN)
    assert world.directory.agents[agent].provider == "local"


def test_an_agent_that_binds_itself_consents_to_no_provider(world: World) -> None:
    world.do(join(WORKER, "worker", connection="client", client="claude"), WORKER)
    assert world.directory.agents[WORKER].provider == "anthropic"
    assert "anthropic" not in world.directory.workspaces[HOME].providers
