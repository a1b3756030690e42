"""What several moves stand on: names for people, leases, whether a session can go on."""

from __future__ import annotations

from tallystick.core import events as ev
from tallystick.core.errors import ErrorCode, Refused, conflict, denied, invalid
from tallystick.core.identity import ActorKind, short
from tallystick.core.model import Reason as R
from tallystick.core.route import strictest
from tallystick.core.state import Context, Task
from tallystick.core.task.submit import check_body


def name_of(task: Task) -> str:
    """The task's id as people read it."""
    return short(task.task_id)


def check_still_wanted(task: Task, ctx: Context) -> None:
    """Nothing starts after cancel was asked, or after the deadline."""
    if task.cancel_requested_at:
        raise conflict(f"Cancel was asked of task {name_of(task)}.", "Leave it; it ends by itself.")
    if task.deadline_at and not task.handed_in_at and ctx.now >= task.deadline_at:
        raise Refused(
            ErrorCode.EXPIRED, f"The deadline of task {name_of(task)} has passed.", "Leave it; its requester is told."
        )


def check_may_start(task: Task, mode: str, ctx: Context) -> None:
    """Nothing starts that is not wanted any more, or while a person holds it back."""
    check_still_wanted(task, ctx)
    mode = strictest(mode, task.mode or "running")
    if mode != "running":
        raise conflict(
            f"Task {name_of(task)} cannot be taken now: a person has set this to {mode}.",
            "Wait until a person says `tally resume`.",
        )


def session_alive(task: Task, ctx: Context) -> bool:
    """Whether the session that held it can go on with it."""
    if not task.holder:
        return False
    if task.holder in ctx.directory.persons:
        return True
    session = ctx.directory.sessions.get(task.session)
    agent = ctx.directory.agents.get(task.holder)
    return session is not None and not session.ended and agent is not None and not agent.deleted


def pull_lease(task: Task, ctx: Context) -> float:
    """When a full lease of the present holder would end; 0 for a person or nobody."""
    if not task.holder or task.holder in ctx.directory.persons:
        return 0.0
    return ctx.now + (task.lease_seconds or ctx.limits.pull_lease_seconds)


def check_said(text: ev.Text, ctx: Context) -> None:
    """Words are there, and not too many."""
    check_body(text, ctx)
    if not text.body.strip():
        raise invalid("The text is empty.", "Say it in words.")


def check_not_frozen(task: Task, ctx: Context) -> None:
    """Out of a freeze leads only what a person says: it is there to stop agents that go round among themselves."""
    if task.reason is R.FROZEN and ctx.actor.kind is not ActorKind.PERSON:
        raise denied(f"Task {name_of(task)} is frozen until a person says how to go on.", "Wait for a person.")


def canceled_by(ctx: Context, task: Task) -> R:
    """Why a task that this actor ends is canceled: the word of a person who did not ask for it counts as such."""
    by_person = ctx.actor.kind is ActorKind.PERSON and ctx.actor.id != task.requester
    return R.BY_PERSON if by_person or task.cancel_by_person else R.BY_REQUESTER
