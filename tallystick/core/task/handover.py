"""Giving a task out of the hands that have it: to another assignee, or back."""

from __future__ import annotations

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.errors import Refused, conflict, denied, invalid
from tallystick.core.identity import ActorKind
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import NOT_RELEASED, Context, Task, Unchanged, Work
from tallystick.core.task import routing
from tallystick.core.task.ground import canceled_by, check_not_frozen, name_of
from tallystick.core.task.submit import admission, check_assignee, check_cycle, check_session, promise


def _check_handed_on(work: Work, c: cmd.ReassignTask, ctx: Context) -> None:
    """The host hands a task on to an agent, to each at most once: two used-up quotas must not play it to and fro. Never
    while the outcome of an attempt is open: only after a turn that has ended."""
    task, assignment = work.task, work.assignment
    has_ended = task.state is S.WORKING and not task.running and assignment is not None and not assignment.unverified
    if work.in_flight and not has_ended:
        raise conflict(
            f"What became of the last attempt of task {name_of(task)} is open.",
            f"A person tells: tally verify {name_of(task)} --settle redo TEXT",
        )
    if c.assignee not in ctx.directory.agents or c.assignee == task.assignee:
        raise conflict("The host hands a task on to another agent.", "A person may reassign it.")
    if c.assignee in task.handed_on:
        who = ctx.directory.alias_of(c.assignee)
        raise conflict(f"{who} had task {name_of(task)} before, and could not go on.", "A person may reassign it.")


def _check_known(work: Work, ctx: Context) -> None:
    """What was begun and has no known outcome may have taken effect: only a person says that it is done again
    (docs/decisions/0004)."""
    task = work.task
    if ctx.actor.kind is ActorKind.PERSON or not (work.is_in_doubt or task.reason is R.UNVERIFIED):
        return
    raise conflict(
        f"What became of the last attempt of task {name_of(task)} is not known: it is {task.place.replace('_', ' ')}.",
        f"A person tells: tally verify {name_of(task)} --settle done|failed|redo|cancel TEXT"
        if task.reason is R.UNVERIFIED
        else f"Whoever had it may still tell; else a person hands it on: tally reassign {name_of(task)} @NAME",
    )


def reassign(work: Work, c: cmd.ReassignTask, ctx: Context) -> ev.TaskReassigned:
    """Another assignee; whoever had it is told, and its deliveries are canceled."""
    task = work.task
    if task.cancel_requested_at:
        raise conflict(f"Cancel was asked of task {name_of(task)}.", "Ask for new work instead.")
    check_not_frozen(task, ctx)
    _check_known(work, ctx)
    if c.assignee and c.assignee == (task.reviewer or ""):
        raise invalid("The reviewer cannot be the assignee.", "Choose another assignee.")
    asked = routing.again(task, c.assignee, ctx)
    agent = check_assignee(c.assignee, task.workspace, ctx, asked)
    check_session(c.session, c.assignee, task.workspace, ctx)
    if ctx.actor.kind is ActorKind.HOST:
        _check_handed_on(work, c, ctx)
    check_cycle(c.assignee, ctx, by_host=True)
    state, reason, rule = admission(agent, c.assignee, task.requester, ctx)
    if state is S.REJECTED:
        raise denied(f"{ctx.directory.alias_of(c.assignee)} takes no work from others.", "Choose another assignee.")
    return ev.TaskReassigned(
        state=state,
        reason=reason,
        delivery_id=c.delivery_id,
        assignee=c.assignee,
        session=c.session,
        provider=agent.provider if agent else "none",
        promise=promise(agent, asked, ctx, c.session).value,
        rule=rule,
        text=c.text,
    )


def release(work: Work, c: cmd.ReleaseTask, ctx: Context) -> ev.TaskReleased | ev.TaskCanceled:
    """Its holder gives it back; after cancel was asked that is how the holder confirms it."""
    task = work.task
    if not task.holder:
        raise _not_held(task, ctx)
    if task.cancel_requested_at:
        reason = canceled_by(ctx, task)
        return ev.TaskCanceled(state=S.CANCELED, reason=reason, text=c.text, cascade=task.cascade)
    return ev.TaskReleased(state=S.SUBMITTED, reason=R.NEW, delivery_id=c.delivery_id, note=c.note, text=c.text)


def _not_held(task: Task, ctx: Context) -> Refused:
    """Why whoever had it last has nothing to give back."""
    look = f"Look at it: tally show {name_of(task)}"
    if task.open and task.released != NOT_RELEASED:
        how = "with another reason" if task.released[0] == ctx.actor.session else "by another session"
        return conflict(f"Task {name_of(task)} was already released {how}.", look)
    again = task.reason is R.REWORK and task.assignee == ctx.actor.id
    return conflict(
        f"Nobody holds task {name_of(task)}: it is {task.place.replace('_', ' ')}.",
        f"Take it to go on with it, or leave it: tally decline {name_of(task)} TEXT" if again else look,
    )


def release_again(task: Task, c: cmd.ReleaseTask, ctx: Context) -> Unchanged | None:
    """The same session gives it back for the same reason once more."""
    same = not task.holder and task.released == (ctx.actor.session, c.note) and task.last_holder == ctx.actor.id
    return Unchanged(task.task_id) if same else None
