"""Deciding a command to a task: the checks that the table states for every move, then the move itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.core import commands as cmd
from tallystick.core.directory import Directory
from tallystick.core.errors import Refused, conflict, denied, invalid, not_found
from tallystick.core.events import TaskEvent
from tallystick.core.identity import Actor, ActorKind, short
from tallystick.core.model import place
from tallystick.core.route import agent_mode, is_stopped
from tallystick.core.state import Context, Task, Unchanged, Work
from tallystick.core.task import moves
from tallystick.core.task.ground import check_may_start
from tallystick.core.task.submit import submit
from tallystick.core.task.table import BY_COMMAND, Role, Transition
from tallystick.core.task.turn import reviewer_of


def decide(
    work: Work | None, command: cmd.TaskCommand, ctx: Context, _sofar: Any = None
) -> TaskEvent | Unchanged | None:
    """The task's event for a command (its turn still to be filled in), `Unchanged`, or a refusal.

    None: the table allows it, and what happens is for the next machine to say.
    """
    if type(command) is cmd.SubmitTask:
        return submit(command, ctx)
    if work is None:
        raise missing(command.task_id)
    task = work.task
    row = BY_COMMAND[type(command)]
    check_actor(task, ctx, row)
    again = moves.REPLAYS.get(type(command))
    replayed = again(task, command, ctx) if again else None
    if replayed is not None:
        return replayed
    check(task, command, ctx, row)
    if isinstance(command, cmd.LeaseDelivery):
        agent = ctx.directory.agents.get(command.recipient or task.assignee)
        mode = agent_mode(agent, ctx.directory, task.workspace, command.session) if agent else "running"
        check_may_start(task, mode, ctx)
    move = moves.MOVES.get(type(command))
    return move(work, command, ctx) if move else None


def missing(task_id: str) -> Refused:
    """Absent and not visible are told in the same words."""
    return not_found(
        f"There is no task {short(task_id)} here.",
        "List what is there with `tally board`, or name its workspace with --workspace.",
    )


def check_actor(task: Task, ctx: Context, row: Transition) -> None:
    """Who may do it. Asked before a repeat is recognised: also that a task exists is told only to those who see it."""
    if not _sees(task, ctx):
        raise missing(task.task_id)
    for role in row.by:
        if has_role(role, task, ctx):
            return
    raise _not_yours(task, ctx, row)


def check(task: Task, command: cmd.TaskCommand, ctx: Context, row: Transition) -> None:
    """What the table says of every move: from where, with which fence, on which version."""
    if task.place not in row.sources:
        raise wrong_place(task, row)
    if command.base is not None and command.base < task.said_version:
        raise conflict(
            f"Task {short(task.task_id)} has changed since version {command.base}: it is at {task.version}.",
            f"Look at it again with `tally show {short(task.task_id)}`, then decide.",
        )
    if row.fenced and isinstance(command, cmd.HolderCommand):
        check_fence(task, command, ctx)
    if Role.HOLDER in row.by and not row.after_cancel and ctx.actor.kind is not ActorKind.HOST:
        _check_may_write(task, ctx)


def _check_may_write(task: Task, ctx: Context) -> None:
    """After a stop or a cancel nothing is taken from a holder but that it gives the task back."""
    if is_stopped(ctx.actor.id, ctx.actor.session, task.workspace, ctx.directory):
        raise conflict(
            f"A person has stopped {ctx.directory.alias_of(ctx.actor.id)}; nothing is taken from it.",
            f"Wait for `tally resume`, or give the task back: tally release {short(task.task_id)}",
        )
    if task.cancel_requested_at:
        raise conflict(
            f"Cancel was asked of task {short(task.task_id)}; nothing more is taken from its holder.",
            f"Stop the work and give it back: tally release {short(task.task_id)}",
        )


def _sees(task: Task, ctx: Context) -> bool:
    """Persons and the host see all; agents what is in a workspace of theirs or is theirs."""
    if ctx.actor.kind is not ActorKind.AGENT:
        return True
    agent = ctx.directory.agents.get(ctx.actor.id)
    if agent is None or agent.deleted:
        return False
    return task.workspace in agent.workspaces or agent.agent_id in (task.requester, task.assignee, task.reviewer)


def has_role(role: Role, task: Task, ctx: Context) -> bool:
    """Whether the actor is that to the task."""
    return _ROLES[role](task, ctx.actor, ctx.directory)


def _is_holder(task: Task, actor: Actor, _: Directory) -> bool:
    return bool(task.holder) and task.holder == actor.id and (not task.session or task.session == actor.session)


def _is_last_holder(task: Task, actor: Actor, _: Directory) -> bool:
    return bool(task.last_holder) and task.last_holder == actor.id and not task.holder


def _is_reviewer(task: Task, actor: Actor, directory: Directory) -> bool:
    return actor.id == task.turn or actor.id == reviewer_of(task, directory)


def _is_coordinator(task: Task, actor: Actor, directory: Directory) -> bool:
    place = directory.workspaces.get(task.workspace)
    return place is not None and bool(actor.id) and place.coordinator == actor.id


_ROLES: Final[dict[Role, Callable[[Task, Actor, Directory], bool]]] = {
    Role.ANYONE: lambda _task, _actor, _directory: True,
    Role.REQUESTER: lambda task, actor, _: bool(actor.id) and actor.id == task.requester,
    Role.ASSIGNEE: lambda task, actor, _: bool(actor.id) and actor.id == task.assignee,
    Role.HOLDER: _is_holder,
    Role.LAST_HOLDER: _is_last_holder,
    Role.REVIEWER: _is_reviewer,
    Role.COORDINATOR: _is_coordinator,
    Role.PERSON: lambda _task, actor, _: actor.kind is ActorKind.PERSON,
    Role.HOST: lambda _task, actor, _: actor.kind is ActorKind.HOST,
}


def _not_yours(task: Task, ctx: Context, row: Transition) -> Refused:
    who = ctx.directory.alias_of(ctx.actor.id)
    allowed = " or ".join(role.value.replace("_", " ") for role in row.by)
    if Role.HOLDER in row.by and task.holder and task.holder != ctx.actor.id:
        return conflict(
            f"Task {short(task.task_id)} is held by {ctx.directory.alias_of(task.holder)}, not by {who}.",
            f"See how far it is: tally show {short(task.task_id)}",
        )
    if Role.HOLDER in row.by and task.holder == ctx.actor.id:
        return conflict(
            f"Task {short(task.task_id)} is held by another session of {who} ({short(task.session)}).",
            "Let that session go on, or ask it to release the task.",
        )
    if Role.HOLDER in row.by and task.assignee == ctx.actor.id and task.open:
        return conflict(
            f"Task {short(task.task_id)} is not held by {who}: it is {task.place}.",
            f"Take it first: tally take {short(task.task_id)}",
        )
    if not task.open:
        return wrong_place(task, row)
    return denied(
        f"{who} may not {row.move} task {short(task.task_id)}: that is for its {allowed}.",
        f"See whose turn it is: tally show {short(task.task_id)}",
    )


def wrong_place(task: Task, row: Transition) -> Refused:
    """The state does not allow the move."""
    state = task.place.replace("_", " ")
    if not task.open:
        remedy = "Ask for new work instead, with --retry-of or --parent if it belongs to this."
    else:
        remedy = f"See whose turn it is: tally show {short(task.task_id)}"
    return conflict(f"Task {short(task.task_id)} does not allow to {row.move}: it is {state}.", remedy)


def check_fence(task: Task, command: cmd.HolderCommand, ctx: Context) -> None:
    """A write of a holder carries its fence; only the standing session of the CLI need not type it."""
    if ctx.actor.kind is ActorKind.HOST or ctx.actor.door == "command":
        return
    if command.fence is None:
        if ctx.actor.door != "cli" and ctx.actor.kind is ActorKind.AGENT:
            raise invalid("The fence of the take is missing.", "Send the fence that `take` answered with.")
        return
    if command.fence == task.fence or (task.fence_before and command.fence == task.fence_before):
        return
    raise conflict(
        f"Stale: fence {command.fence} of task {short(task.task_id)} is no longer valid.",
        f"The task has moved on; look at it: tally show {short(task.task_id)}",
    )


def moved(task: Task | None, event: TaskEvent) -> str:
    """The target of a move as the table writes it: `=` where the place stays the same."""
    after = place(event.state, event.reason)
    return "=" if task is not None and after == task.place else after


def allowed_target(command: cmd.TaskCommand, task: Task | None, event: TaskEvent) -> bool:
    """Whether the event leads where the table says this command may lead."""
    row = BY_COMMAND[type(command)]
    after = place(event.state, event.reason)
    return after in row.targets or moved(task, event) in row.targets
