"""The rules of who and where: persons, agents, sessions, workspaces, names, presence, modes.

One `decide` over the directory; the stream it writes is told by `stream_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.clients import CLIENTS
from tallystick.core.directory import MODES, Agent, Directory, SessionState, Workspace, sessions_of, skeleton
from tallystick.core.errors import conflict, denied, invalid, not_found, unsupported
from tallystick.core.identity import ActorKind, check_alias, short
from tallystick.core.offers import Offer, check_offers, wanted
from tallystick.core.state import Context, Unchanged
from tallystick.core.tokens import RULES as TOKEN_RULES
from tallystick.core.waking import RULES as WAKING_RULES

CONNECTIONS = ("mailbox", "command", "client", "drive", "wake", "spoke")
INBOUND = ("accept", "hold", "refuse")
_NAMED = 5
"""So many tasks are named in a refusal."""
LONGEST_RUN_SECONDS = 30 * 86400
"""The longest time limit of a command or check; leases are reckoned from it."""


def stream_of(command: cmd.PlaceCommands | cmd.WakingCommands) -> str:
    """The stream that a command of this kind writes."""
    return _STREAMS[type(command)](command)


def decide(command: cmd.PlaceCommands | cmd.WakingCommands, ctx: Context) -> ev.Happened | Unchanged:
    """The event for a command to a party or place, `Unchanged`, or a refusal."""
    decided: ev.Happened | Unchanged = _RULES[type(command)](command, ctx)
    return decided


def _person_only(ctx: Context, what: str) -> None:
    if ctx.actor.kind is ActorKind.AGENT:
        raise denied(f"Only a person may {what}.", "Ask the person you work for.")


def _itself(agent_id: str, ctx: Context, what: str) -> None:
    """An agent may do this for itself alone; persons and the host for any."""
    if ctx.actor.kind is ActorKind.AGENT and ctx.actor.id != agent_id:
        raise denied(f"Only a person or that agent itself may {what}.", "Ask the person you work for.")


def _start(c: cmd.StartHost, _ctx: Context) -> ev.HostStarted:
    return ev.HostStarted(host_version=c.host_version, boot_id=c.boot_id, recovered=c.recovered)


def _mode(mode: str, present: str) -> bool:
    if mode not in MODES:
        raise invalid(f"{mode!r} is no mode.", "Use stop, pause, resume or drain.")
    return mode == present


def _host_mode(c: cmd.SetHostMode, ctx: Context) -> ev.HostModeChanged | Unchanged:
    _person_only(ctx, "stop or resume everything")
    return Unchanged("host") if _mode(c.mode, ctx.directory.mode) else ev.HostModeChanged(mode=c.mode)


def free_alias(alias: str, party: str, directory: Directory) -> None:
    """Refuse a name that is somebody else's, was somebody else's, or looks like one."""
    check_alias(alias)
    known = directory.names.get(skeleton(alias))
    if known is None or known.party == party:
        return
    if known.alias != alias:
        raise conflict(f"{alias!r} looks like @{known.alias}, which is known here.", "Choose a clearly other name.")
    if known.current:
        raise conflict(f"@{alias} is already known here.", "Choose another name, or join again as that one.")
    renamed = directory.agents.get(known.party)
    if renamed is not None and not renamed.deleted:
        raise conflict(f"@{alias} is now called @{renamed.alias}.", f"Join as {renamed.alias}, or choose another name.")
    raise conflict(f"@{alias} was given to somebody who left; names are not given out again.", "Choose another name.")


def _join_person(c: cmd.JoinPerson, ctx: Context) -> ev.PersonJoined:
    if ctx.directory.persons:
        _person_only(ctx, "make a person known")
    if c.owner and ctx.directory.owner:
        raise conflict("This host has its owner.", "Make the person known without owning it.")
    free_alias(c.alias, c.person_id, ctx.directory)
    return ev.PersonJoined(person_id=c.person_id, alias=c.alias, owner=c.owner, uid=c.uid, display_name=c.display_name)


def _workspace(workspace_id: str, directory: Directory) -> Workspace:
    found = directory.workspaces.get(workspace_id)
    if found is None:
        raise not_found("There is no such workspace.", "List them with `tally workspace`.")
    return found


def _register(c: cmd.RegisterWorkspace, ctx: Context) -> ev.WorkspaceRegistered | Unchanged:
    for place in ctx.directory.workspaces.values():
        if place.root == c.root:
            return Unchanged(place.workspace_id)
    return ev.WorkspaceRegistered(
        workspace_id=c.workspace_id,
        name=c.name,
        root=c.root,
        repository=c.repository,
        common_directory=c.common_directory,
        evidence=c.evidence,
    )


def _coordinator(c: cmd.ChooseCoordinator, ctx: Context) -> ev.CoordinatorChosen | Unchanged:
    place = _workspace(c.workspace_id, ctx.directory)
    if ctx.actor.kind is ActorKind.AGENT and (place.coordinator or c.agent not in ("", ctx.actor.id)):
        raise denied("Only a person may change the coordinator.", "Ask the person you work for.")
    if place.coordinator == c.agent:
        return Unchanged(c.workspace_id)
    if c.agent:
        agent = ctx.directory.agent(c.agent)
        if not agent.judges_in(c.workspace_id):
            raise conflict(f"@{agent.alias} cannot coordinate here.", "Choose a member that reads its inbox.")
    return ev.CoordinatorChosen(agent=c.agent)


def _allow(c: cmd.AllowProvider, ctx: Context) -> ev.ProviderAllowed | Unchanged:
    _person_only(ctx, "allow a model provider")
    place = _workspace(c.workspace_id, ctx.directory)
    if not c.provider.strip():
        raise invalid("The provider has no name.", "Name it as `tally agents` shows it.")
    return Unchanged(c.workspace_id) if c.provider in place.providers else ev.ProviderAllowed(provider=c.provider)


def _add_check(c: cmd.AddCheck, ctx: Context) -> ev.CheckAdded | Unchanged:
    _person_only(ctx, "register a check")
    place = _workspace(c.workspace_id, ctx.directory)
    if not c.check.argv:
        raise invalid("The check has no command.", "Give it after `--`: tally check add NAME -- pytest -q")
    if not 0 < c.check.seconds <= LONGEST_RUN_SECONDS:
        raise invalid("The time limit must be between 1 second and 30 days.", "Give fewer seconds.")
    _check_argv((*c.check.argv, *c.check.setup))
    return Unchanged(c.workspace_id) if place.check(c.check.name) == c.check else ev.CheckAdded(check=c.check)


def _check_argv(argv: tuple[str, ...]) -> None:
    if any("\0" in word for word in argv):
        raise invalid("A command cannot contain a NUL character.", "Give the command as it is typed in a shell.")


def _remove_check(c: cmd.RemoveCheck, ctx: Context) -> ev.CheckRemoved:
    _person_only(ctx, "remove a check")
    if _workspace(c.workspace_id, ctx.directory).check(c.name) is None:
        raise not_found(f"There is no check {c.name!r} here.", "List them with `tally check`.")
    return ev.CheckRemoved(name=c.name)


def _workspace_mode(c: cmd.SetWorkspaceMode, ctx: Context) -> ev.WorkspaceModeChanged | Unchanged:
    _person_only(ctx, "stop or resume a workspace")
    place = _workspace(c.workspace_id, ctx.directory)
    return Unchanged(c.workspace_id) if _mode(c.mode, place.mode) else ev.WorkspaceModeChanged(mode=c.mode)


def _check_lengths(c: cmd.JoinAgent, ctx: Context) -> None:
    limits = ctx.limits
    short_ones = (("provider", c.provider), ("display name", c.display_name), ("client", c.client))
    names = [*short_ones, *(("capability", name) for name in c.capabilities or ())]
    for what, text in names:
        if text is not None and len(text) > limits.name_characters:
            limit = limits.name_characters
            raise invalid(f"The {what} has {len(text)} characters; the limit is {limit}.", "Shorten it.")
    if c.strengths is not None and len(c.strengths) > limits.strengths_characters:
        raise invalid(
            f"The strengths have {len(c.strengths)} characters; the limit is {limits.strengths_characters}.",
            "Say it shorter; more belongs into the workspace's CONTEXT.md.",
        )


def _join(c: cmd.JoinAgent, ctx: Context) -> ev.AgentJoined:
    _check_lengths(c, ctx)
    _workspace(c.workspace, ctx.directory)
    known = ctx.directory.agents.get(c.agent_id)
    if known is not None and known.deleted:
        raise conflict(f"@{known.alias} has left for good.", "Join under another name.")
    if known is not None:
        _itself(c.agent_id, ctx, f"change how @{known.alias} is joined")
        _has_nothing_in_hand(c, known, ctx)
    free_alias(c.alias, c.agent_id, ctx.directory)
    if c.connection is not None and c.connection not in CONNECTIONS:
        raise invalid(f"{c.connection!r} is no connection.", f"Use one of: {', '.join(CONNECTIONS)}.")
    if c.inbound is not None and c.inbound not in INBOUND:
        raise invalid(f"{c.inbound!r} is no inbound policy.", f"Use one of: {', '.join(INBOUND)}.")
    if c.argv is not None or c.connection in ("command", "drive", "wake"):
        _person_only(ctx, "join an agent with a command")
    if c.connection == "spoke" and (known is None or known.connection != "spoke"):
        _person_only(ctx, "join a spoke")
    if c.offers is not None or c.capabilities is not None:
        check_offers(c.offers if c.offers is not None else tuple(map(Offer, dict.fromkeys(c.capabilities or ()))))
    if c.required not in (None, "", "E2", "E3"):
        raise invalid(f"{c.required!r} cannot be required.", "Use --require E2 or E3.")
    if c.concurrency is not None and not 1 <= c.concurrency <= 64:
        raise invalid("The concurrency must be between 1 and 64.", "Give a number in that range.")
    if c.seconds is not None and not 0 <= c.seconds <= LONGEST_RUN_SECONDS:
        raise invalid("The time limit must be between 0 (the default) and 30 days.", "Give fewer seconds.")
    _check_argv(c.argv or ())
    if c.connection == "client":
        _one_client(c, ctx)
    by_person = ctx.actor.kind is not ActorKind.AGENT
    given = {name: getattr(c, name) for name in _GIVEN} | {"provider": _provider(c, known)}
    return ev.AgentJoined(
        agent_id=c.agent_id,
        alias=c.alias,
        workspace=c.workspace,
        owner=ctx.directory.owner_of(ctx.actor.id),
        allow_provider=by_person,
        **given,
    )


def _has_nothing_in_hand(c: cmd.JoinAgent, known: Agent, ctx: Context) -> None:
    """What was pushed is ended, and taken back by a later host, over the connection that it went by."""
    if c.connection in (None, known.connection) or not ctx.in_hand:
        return
    named = ", ".join(map(short, ctx.in_hand[:_NAMED])) + (", …" if len(ctx.in_hand) > _NAMED else "")
    raise conflict(
        f"@{known.alias} is joined as {known.connection} and has work in hand by that: {named}.",
        f"`tally drain @{known.alias}` gives it nothing new: join it anew once these are done or reassigned.",
    )


def _pin(c: cmd.PinCapability, ctx: Context) -> ev.CapabilityPinned | Unchanged:
    _person_only(ctx, "say who holds a capability")
    place = _workspace(c.workspace_id, ctx.directory)
    wanted(c.capability)
    present = next((pin[2] for pin in place.pins if pin[:2] == (c.capability, c.domain)), "")
    if present == c.agent:
        return Unchanged(c.workspace_id)
    if c.agent:
        agent = ctx.directory.agent(c.agent)
        if not any((o.name, o.domain) == (c.capability, c.domain) for o in agent.offers):
            where = f" in domain {c.domain}" if c.domain else ""
            raise conflict(f"@{agent.alias} does not offer {c.capability!r}{where}.", "See `tally routes`.")
    return ev.CapabilityPinned(capability=c.capability, domain=c.domain, agent=c.agent)


def _provider(c: cmd.JoinAgent, known: Agent | None) -> str | None:
    """Whoever is bound to a known client sends its inputs where that client sends them, unless it is said otherwise."""
    client = CLIENTS.get(c.client or "")
    given_before = known is not None and known.client == c.client
    return c.provider if c.provider is not None or client is None or given_before else client.provider


_GIVEN = (
    "connection argv client strengths capabilities offers domains provider inbound display_name concurrency seconds "
    "network search_path virtual_env model required"
).split()


def _one_client(c: cmd.JoinAgent, ctx: Context) -> None:
    for other in ctx.directory.members(c.workspace):
        if other.client == c.client and other.connection == "client" and other.agent_id != c.agent_id:
            raise conflict(
                f"@{other.alias} is already bound to {c.client} in this workspace.",
                "One agent per client and workspace: let the other leave first, or use --as.",
            )


def _rename(c: cmd.RenameAgent, ctx: Context) -> ev.AgentRenamed | Unchanged:
    agent = ctx.directory.agent(c.agent_id)
    _itself(c.agent_id, ctx, "rename it")
    if agent.alias == c.alias:
        return Unchanged(c.agent_id)
    free_alias(c.alias, c.agent_id, ctx.directory)
    had = ctx.directory.names.get(skeleton(c.alias))
    if agent.connection == "spoke" and (had is None or had.alias != c.alias):
        raise unsupported(
            f"@{agent.alias} is a spoke: it comes back under the name that its own program says, and only under that.",
            "Give that program another spoke_id; it is another agent then.",
        )
    return ev.AgentRenamed(alias=c.alias)


def _leave(c: cmd.LeaveAgent, ctx: Context) -> ev.AgentLeft:
    agent = ctx.directory.agent(c.agent_id)
    _itself(c.agent_id, ctx, "let it leave")
    if c.workspace and c.workspace not in agent.workspaces:
        raise conflict(f"@{agent.alias} is not a member there.", "See `tally agents`.")
    return ev.AgentLeft(workspace=c.workspace)


def _agent_mode(c: cmd.SetAgentMode, ctx: Context) -> ev.AgentModeChanged | Unchanged:
    _person_only(ctx, "stop or resume an agent")
    agent = ctx.directory.agent(c.agent_id)
    return Unchanged(c.agent_id) if _mode(c.mode, agent.mode) else ev.AgentModeChanged(mode=c.mode)


def _session(session_id: str, directory: Directory) -> SessionState:
    found = directory.sessions.get(session_id)
    if found is None:
        raise not_found(f"There is no session {short(session_id)}.", "List them with `tally agents`.")
    return found


def _open(c: cmd.OpenSession, ctx: Context) -> ev.SessionOpened | Unchanged:
    known = ctx.directory.sessions.get(c.session_id)
    if known is not None:
        if known.ended or known.incarnation != c.incarnation:
            raise conflict(f"The session {short(c.session_id)} has ended or is another one's.", "Start a new session.")
        return Unchanged(c.session_id)
    ctx.directory.agent(c.agent)
    _itself(c.agent, ctx, "open a session of it")
    return ev.SessionOpened(
        session_id=c.session_id, agent=c.agent, door=c.door, parent=c.parent, incarnation=c.incarnation
    )


def _session_mode(c: cmd.SetSessionMode, ctx: Context) -> ev.SessionModeChanged | Unchanged:
    _person_only(ctx, "stop or resume a session")
    session = _session(c.session_id, ctx.directory)
    return Unchanged(c.session_id) if _mode(c.mode, session.mode) else ev.SessionModeChanged(mode=c.mode)


def _end(c: cmd.EndSession, ctx: Context) -> ev.SessionEnded | Unchanged:
    session = _session(c.session_id, ctx.directory)
    _itself(session.agent, ctx, "end a session of it")
    return Unchanged(c.session_id) if session.ended else ev.SessionEnded(detail=c.detail)


def _link(c: cmd.LinkSession, ctx: Context) -> ev.SessionLinked | Unchanged:
    session = _session(c.session_id, ctx.directory)
    _itself(session.agent, ctx, "say which conversation it is")
    if session.ended or (session.history, session.transcript) == (c.history, c.transcript):
        return Unchanged(c.session_id)
    _one_process(session, c.history, ctx.directory)
    return ev.SessionLinked(history=c.history, transcript=c.transcript)


def _describe(c: cmd.DescribeSession, ctx: Context) -> ev.SessionDescribed | Unchanged:
    session = _session(c.session_id, ctx.directory)
    if ctx.actor.kind is not ActorKind.HOST:
        raise denied("Only the host says what runs in a session that it drives.", "Nothing is to be done.")
    if session.ended:
        return Unchanged(c.session_id)
    return ev.SessionDescribed(
        client=c.client,
        version=c.version,
        protocol=c.protocol,
        mode=c.mode,
        model=c.model,
        directory=c.directory,
        level=c.level,
        detail=c.detail,
        forks=c.forks,
    )


def _one_process(session: SessionState, history: str, directory: Directory) -> None:
    """Two processes that go on with one conversation would each undo what the other was told; and who says that another
    agent's conversation is its own would have its wakes told there, and its reading proved there."""
    for known in sessions_of(history, session.agent, directory):
        if directory.sessions[known].incarnation != session.incarnation:
            raise conflict(
                f"That conversation is open in another process already ({short(known)}).",
                "Go on there, or close that one first.",
            )


def _note_presence(c: cmd.NotePresence, ctx: Context) -> ev.PresenceChanged | Unchanged:
    session = _session(c.session_id, ctx.directory)
    if session.ended or session.presence == c.presence:
        return Unchanged(c.session_id)
    return ev.PresenceChanged(presence=c.presence)


def _seen(c: cmd.MarkSeen, ctx: Context) -> ev.InboxSeen | Unchanged:
    if ctx.actor.id != c.party and ctx.actor.kind is not ActorKind.HOST:
        raise denied("Only a reader itself marks its items as seen.", "Nothing is to be done.")
    return ev.InboxSeen(party=c.party, items=c.items) if c.items else Unchanged(c.party)


def _refusal(c: cmd.NoteRefusal, _ctx: Context) -> ev.CommandRefused:
    return ev.CommandRefused(command=c.command, code=c.code, object=c.object, message=c.message, count=c.count)


_RULES: dict[type, Callable[[Any, Context], Any]] = {
    cmd.StartHost: _start,
    cmd.SetHostMode: _host_mode,
    cmd.JoinPerson: _join_person,
    cmd.RegisterWorkspace: _register,
    cmd.ChooseCoordinator: _coordinator,
    cmd.AllowProvider: _allow,
    cmd.AddCheck: _add_check,
    cmd.RemoveCheck: _remove_check,
    cmd.SetWorkspaceMode: _workspace_mode,
    cmd.PinCapability: _pin,
    cmd.JoinAgent: _join,
    cmd.RenameAgent: _rename,
    cmd.LeaveAgent: _leave,
    cmd.SetAgentMode: _agent_mode,
    cmd.OpenSession: _open,
    cmd.SetSessionMode: _session_mode,
    cmd.EndSession: _end,
    cmd.LinkSession: _link,
    cmd.DescribeSession: _describe,
    cmd.NotePresence: _note_presence,
    cmd.MarkSeen: _seen,
    cmd.NoteRefusal: _refusal,
    **TOKEN_RULES,
    **WAKING_RULES,
}

_STREAMS: dict[type, Callable[[Any], str]] = {
    cmd.StartHost: lambda _: "host",
    cmd.SetHostMode: lambda _: "host",
    cmd.JoinPerson: lambda c: c.person_id,
    cmd.RegisterWorkspace: lambda c: c.workspace_id,
    cmd.ChooseCoordinator: lambda c: c.workspace_id,
    cmd.AllowProvider: lambda c: c.workspace_id,
    cmd.AddCheck: lambda c: c.workspace_id,
    cmd.RemoveCheck: lambda c: c.workspace_id,
    cmd.SetWorkspaceMode: lambda c: c.workspace_id,
    cmd.PinCapability: lambda c: c.workspace_id,
    cmd.JoinAgent: lambda c: c.agent_id,
    cmd.RenameAgent: lambda c: c.agent_id,
    cmd.LeaveAgent: lambda c: c.agent_id,
    cmd.SetAgentMode: lambda c: c.agent_id,
    cmd.OpenSession: lambda c: c.session_id,
    cmd.SetSessionMode: lambda c: c.session_id,
    cmd.EndSession: lambda c: c.session_id,
    cmd.LinkSession: lambda c: c.session_id,
    cmd.DescribeSession: lambda c: c.session_id,
    cmd.NotePresence: lambda c: c.session_id,
    cmd.MarkSeen: lambda c: c.party,
    cmd.NoteRefusal: lambda _: "host",
    **dict.fromkeys(TOKEN_RULES, lambda c: c.workspace_id),
    **dict.fromkeys(WAKING_RULES, lambda c: c.agent_id),
}
