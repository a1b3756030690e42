"""Asking for work and giving it to somebody else: who may be asked, for what, within which limits."""

from __future__ import annotations

from typing import Final

import msgspec

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import ErrorCode, Refused, conflict, denied, invalid, not_found
from tallystick.core.identity import CAPABILITY_PREFIX, ActorKind, Prefix, id_milliseconds, is_id, short
from tallystick.core.model import Expects, Promise
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.route import is_stopped, promise_to
from tallystick.core.state import Context, Task, Unchanged
from tallystick.core.task import routing
from tallystick.core.task.routing import Asked
from tallystick.core.task.turn import can_take_turn

LATEST: Final = 253_402_300_000.0
"""Times from here on (also "infinite") cannot be written as a date, and would make what holds them unreadable."""


def submit(c: cmd.SubmitTask, ctx: Context) -> ev.TaskSubmitted | Unchanged:
    """A new task, the first one made with this key, or a refusal."""
    if ctx.duplicate is not None:
        return _again(c, ctx.duplicate)
    _check_asker(c.workspace, ctx)
    _check_words(c, ctx)
    _check_modes(c.workspace, ctx)
    _check_not_stopped(c.workspace, ctx)
    _check_parts(ctx)
    parent = _check_parent(c, ctx)
    _check_source(ctx)
    origin = parent or ctx.source
    requester = c.requester if c.requester and ctx.actor.kind is ActorKind.HOST else ctx.actor.id
    asked = routing.asked(c, requester, ctx)
    agent = check_assignee(c.assignee, c.workspace, ctx, asked)
    routing.check_remedy(c.on_failure, c.workspace, asked, ctx)
    check_session(c.session, c.assignee, c.workspace, ctx)
    _check_new_session(c, agent, ctx)
    check_cycle(c.assignee, ctx)
    _check_reviewer(c.reviewer, c.assignee, c.workspace, ctx)
    state, reason, rule = admission(agent, c.assignee, requester, ctx)
    return ev.TaskSubmitted(
        state=state,
        reason=reason,
        text=c.text,
        delivery_id=c.delivery_id,
        message_id=c.message_id,
        requester=requester,
        subject=ctx.directory.owner_of(requester),
        assignee=c.assignee,
        session=c.session,
        fresh=c.fresh,
        fork_of=c.fork_of,
        expects=c.expects,
        done_when=c.done_when,
        reviewer=c.reviewer,
        deadline_at=c.deadline_at or routing.patience(c, ctx),
        digest=c.digest,
        parent=parent.task_id if parent else "",
        retry_of=c.retry_of,
        depth=origin.depth + 1 if origin else 0,
        on_failure=c.on_failure,
        inputs=c.inputs,
        repository=c.repository,
        base_commit=c.base_commit,
        budget=c.budget,
        provider=agent.provider if agent else "none",
        promise=str(promise(agent, asked, ctx, c.session)),
        capability=c.capability if agent is not None else "",
        domains=asked.domains if asked else (),
        group=c.group,
        retry=c.retry,
        stall_seconds=c.stall_seconds,
        ack_seconds=c.ack_seconds,
        reply_to=c.reply_to,
        forwards=c.forwards,
        traceparent=c.traceparent or (origin.traceparent if origin else ""),
        level=c.level,
        rule=rule,
        wake=c.wake,
        compensates=c.compensates,
    )


def promise(agent: Agent | None, asked: Asked | None, ctx: Context, session: str = "") -> Promise:
    """What can be promised for this recipient now, and for that very session of it where one is named."""
    if agent is None:
        return routing.promise(asked, ctx) if asked is not None else Promise.MAILBOX
    known, named = agent.agent_id, ctx.directory.sessions.get(session)
    if named is not None and named.mode != "running":
        return Promise.OFFLINE if named.mode == "stopped" else Promise.MAILBOX
    return promise_to(agent, ctx.directory, live=known in ctx.live, reachable=known in ctx.reachable)


def _again(c: cmd.SubmitTask, first: Task) -> Unchanged:
    if first.digest == c.digest:
        return Unchanged(first.task_id, duplicate=True)
    raise conflict(
        f"The key {c.key!r} was used by you for another request ({short(first.task_id)}).",
        "Use the same request with the same key, or another key for another request.",
    )


def _check_asker(workspace: str, ctx: Context) -> None:
    """An agent asks only while it is here, and where it is a member: elsewhere is for it as good as absent."""
    if ctx.actor.kind is not ActorKind.AGENT:
        return
    agent = ctx.directory.agents.get(ctx.actor.id)
    if agent is None or agent.deleted:
        raise denied("This agent has left and can ask for nothing.", "A person may join another one: tally join NAME")
    if workspace not in agent.workspaces:
        raise not_found("There is no such workspace.", "List them with `tally workspace`.")


def _check_words(c: cmd.SubmitTask, ctx: Context) -> None:
    limits = ctx.limits
    if not c.text.title.strip():
        raise invalid("The title is empty.", "Say in a few words what is asked.")
    if len(c.text.title) > limits.title_characters:
        raise invalid(
            f"The title has {len(c.text.title)} characters; the limit is {limits.title_characters}.",
            "Shorten it and put the rest into --body.",
        )
    size = len(msgspec.json.encode(c.text.brief))
    if size > limits.brief_bytes:
        raise invalid(
            f"The brief has {size} bytes; the limit is {limits.brief_bytes}.",
            "Hand over larger content as a reference: --input PATH.",
        )
    check_body(c.text, ctx)
    if len(c.key) > limits.name_characters:
        raise invalid(f"The key has {len(c.key)} characters; the limit is {limits.name_characters}.", "Shorten it.")
    if not is_id(c.message_id, Prefix.MESSAGE):
        raise invalid("The message id is not valid.", "Send `msg_` and a ULID.")
    if abs(ctx.now - id_milliseconds(c.message_id) / 1000) > limits.key_retention_seconds:
        raise Refused(
            ErrorCode.EXPIRED,
            "The message id is older (or newer) than keys are kept, so a repeat could not be recognised.",
            "Send it with a new id if it is meant as a new request.",
        )
    if not c.deadline_at < LATEST:
        raise invalid("The deadline lies beyond the year 9999.", "Give a nearer one, or none.")
    if c.deadline_at and c.deadline_at <= ctx.now:
        raise Refused(ErrorCode.EXPIRED, "The deadline has already passed.", "Give a later one with --deadline.")
    if c.expects is Expects.CHANGE and not c.repository:
        raise invalid(
            "A change was asked for, and this workspace has no commit to start from.",
            "Ask from inside a git repository with at least one commit, or use --expect answer.",
        )
    if c.done_when is not None and not c.repository:
        raise invalid("A check needs a commit to run at.", "Ask from inside a git repository with at least one commit.")


def check_body(text: ev.Text, ctx: Context) -> None:
    """The limit of one message."""
    size = len(text.body.encode("utf-8", "surrogatepass"))
    if size > ctx.limits.message_bytes:
        raise invalid(
            f"The message has {size} bytes; the limit is {ctx.limits.message_bytes}.",
            "Put the content into a file and hand it over as a reference: --input PATH.",
        )


def _check_modes(workspace: str, ctx: Context) -> None:
    place = ctx.directory.workspaces.get(workspace)
    if place is None:
        raise not_found("There is no such workspace.", "List them with `tally workspace`.")
    if ctx.actor.kind is ActorKind.HOST:
        return
    if ctx.directory.mode in _NOTHING_NEW:
        raise _held_back("The host", ctx.directory.mode, "all")
    if place.mode in _NOTHING_NEW:
        raise _held_back(f"Workspace {place.name}", place.mode, "workspace")


_NOTHING_NEW: Final = ("stopped", "draining")


def _held_back(what: str, mode: str, target: str) -> Refused:
    return Refused(
        ErrorCode.UNAVAILABLE,
        f"{what} is {mode} by a person and takes no new work.",
        f"A person lets it go on with `tally resume {target}`.",
    )


def _check_not_stopped(workspace: str, ctx: Context) -> None:
    if is_stopped(ctx.actor.id, ctx.actor.session, workspace, ctx.directory):
        raise denied("A person has stopped this agent; it can ask for nothing.", "Wait for `tally resume`.")


def _check_parent(c: cmd.SubmitTask, ctx: Context) -> Task | None:
    if c.parent is None and len(ctx.held) > 1:
        names = ", ".join(short(t) for t in ctx.held[:5])
        raise invalid(
            f"This session holds several tasks: {names}.", "Say which one this belongs to: --parent ID or none."
        )
    parent = ctx.parent
    if parent is None:
        return None
    if not parent.open:
        raise conflict(f"The parent {short(parent.task_id)} is {parent.place}.", "Use --parent none for new work.")
    if parent.depth + 1 > ctx.limits.depth:
        raise denied(
            f"Tasks may delegate {ctx.limits.depth} deep, and {short(parent.task_id)} is at that depth.",
            "Do it yourself, or hand it back with `tally question`.",
        )
    if not ctx.parts and ctx.siblings >= ctx.limits.open_children and not c.compensates:
        raise denied(
            f"Task {short(parent.task_id)} already has {ctx.siblings} open children; the limit is "
            f"{ctx.limits.open_children}.",
            "Wait for one of them to end.",
        )
    return parent


def _check_parts(ctx: Context) -> None:
    if ctx.parts >= ctx.limits.dispatch_parts:
        raise denied(
            f"This dispatch has {ctx.parts} open parts; the limit is {ctx.limits.dispatch_parts}.",
            "Wait for some of them to end.",
        )


def _check_source(ctx: Context) -> None:
    """A result that is sent on lies one step deeper than what it is of, so a ring of replies comes to its end."""
    source = ctx.source
    if source is not None and source.depth + 1 > ctx.limits.depth:
        raise denied(
            f"Messages may lead to others {ctx.limits.depth} deep, and {short(source.task_id)} is at that depth.",
            "Have the result come back to its sender, and send it on from there.",
        )


def check_session(session: str, assignee: str, workspace: str, ctx: Context) -> None:
    """`@reviewer/ses_…` is that very session or nothing: it must be the assignee's, in this workspace, and must not
    have ended."""
    known = ctx.directory.sessions.get(session)
    here = known is not None and known.agent == assignee and known.workspace == workspace
    if not session or (known is not None and here and not known.ended):
        return
    raise not_found(
        f"{ctx.directory.alias_of(assignee)} has no session {short(session)} that could take it.",
        "Leave the session out, so that any of its sessions may take it.",
    )


def _check_new_session(c: cmd.SubmitTask, agent: Agent | None, ctx: Context) -> None:
    """A new session, empty or with a copy of a conversation, is begun only where the host begins sessions at all."""
    if not (c.fresh or c.fork_of):
        return
    if c.session or (c.fresh and c.fork_of):
        raise invalid(
            "A task goes to one session: to the one that is named, to a new one, or to a fork.", "Name one of them."
        )
    if agent is None or agent.connection != "drive":
        raise Refused(
            ErrorCode.UNSUPPORTED,
            f"The host does not start the sessions of {ctx.directory.alias_of(c.assignee) or '@coordinator'}.",
            "Leave the session out; only an agent joined with --drive gets a new one on request.",
        )
    if c.fork_of:
        check_session(c.fork_of, c.assignee, c.workspace, ctx)
        _check_forks(ctx.directory.sessions[c.fork_of])


def _check_forks(session: SessionState) -> None:
    if not session.forks:
        raise Refused(
            ErrorCode.UNSUPPORTED,
            f"Nothing shows that the client of session {short(session.session_id)} can fork a conversation.",
            "Ask for a fresh session, or ask that one itself.",
        )


def check_cycle(assignee: str, ctx: Context, *, by_host: bool = False) -> None:
    """A → B → A is refused: whoever waits for a piece of work cannot be given a part of it. What the host asks for by
    itself is no part of anything, unless `by_host` says that it is; a capability waits for nothing, its holders do."""
    if not ctx.ancestors or not assignee or assignee.startswith(CAPABILITY_PREFIX):
        return
    if ctx.actor.kind is ActorKind.HOST and not by_host:
        return
    for task in ctx.ancestors:
        if assignee in (task.requester, task.assignee):
            raise conflict(
                f"{ctx.directory.alias_of(assignee)} already waits for this: it is part of {short(task.task_id)}.",
                f"Ask it there instead: tally question {short(ctx.ancestors[0].task_id)} TEXT",
            )


def check_assignee(assignee: str, workspace: str, ctx: Context, asked: Asked | None) -> Agent | None:
    """The agent behind an assignee (None for a person, a capability or nobody yet), or a refusal."""
    if not assignee or assignee in ctx.directory.persons:
        return None
    if asked is not None:
        return routing.check_holder(assignee, asked, ctx)
    agent = ctx.directory.agents.get(assignee)
    if agent is None or agent.deleted or workspace not in agent.workspaces:
        raise not_found("There is no such agent here.", "List them with `tally agents`, or name --workspace.")
    place = ctx.directory.workspaces[workspace]
    if agent.provider not in ("", "none") and agent.provider not in place.providers:
        raise denied(
            f"@{agent.alias} sends its inputs to {agent.provider}, and nobody allowed that for workspace {place.name}.",
            f"A person may allow it: tally workspace allow {agent.provider}",
        )
    if agent.connection == "spoke":
        names = ", ".join(f"cap:{name}" for name in agent.capabilities[:5]) or "none yet"
        raise invalid(f"@{agent.alias} is a spoke: it takes messages for its capabilities.", f"Ask for one: {names}.")
    return agent


def _check_reviewer(reviewer: str, assignee: str, workspace: str, ctx: Context) -> None:
    if not reviewer:
        return
    if reviewer == assignee:
        raise invalid("The assignee cannot review its own work.", "Name another reviewer with --review-by.")
    if not can_take_turn(reviewer, ctx.directory, workspace):
        raise invalid(
            f"{ctx.directory.alias_of(reviewer)} cannot review: it is a command or has left.",
            "Name a person or an agent that reads its inbox.",
        )


def admission(agent: Agent | None, assignee: str, requester: str, ctx: Context) -> tuple[S, R, str]:
    """Where a new assignment begins by the recipient's inbound policy, and the rule that said so."""
    if not assignee:
        return S.SUBMITTED, R.UNASSIGNED, "unassigned"
    if agent is None:
        return S.SUBMITTED, R.NEW, "member"
    if requester == agent.owner or requester not in ctx.directory.agents or requester == agent.agent_id:
        return S.SUBMITTED, R.NEW, "owner"
    if agent.inbound == "hold":
        return S.AUTH_REQUIRED, R.INBOUND, "inbound:hold"
    if agent.inbound == "refuse":
        return S.REJECTED, R.BY_POLICY, "inbound:refuse"
    return S.SUBMITTED, R.NEW, "inbound:accept"
