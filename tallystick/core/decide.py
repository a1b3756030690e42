"""The single door of the rules: a state, a command and a frozen context give one event, `Unchanged`, or a refusal.

`MACHINES` maps a command to the ordered machines that decide it; each sees what the earlier ones decided, and none
imports another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tallystick.core import commands as cmd
from tallystick.core import delivery, places, task
from tallystick.core import events as ev
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.state import Context, Task, Unchanged, Work
from tallystick.core.task.decide import allowed_target

Machine = Callable[[Work | None, Any, Context, Any], Any]

_TASK: tuple[Machine, ...] = (task.decide,)
_TASK_AND_DELIVERY: tuple[Machine, ...] = (task.decide, delivery.decide)

MACHINES: dict[type, tuple[Machine, ...]] = {
    row.command: _TASK_AND_DELIVERY
    if row.command
    in (
        cmd.SubmitTask,
        cmd.RecordDelivery,
        cmd.LeaseDelivery,
        cmd.BeginDelivery,
        cmd.ReturnDelivery,
        cmd.DoubtDelivery,
    )
    else _TASK
    for row in task.TRANSITIONS
}


def decide(work: Work | None, command: cmd.Command, ctx: Context) -> ev.Happened | Unchanged:
    """What becomes of a command. `work` is the task it is about, None for other commands and new tasks."""
    machines = MACHINES.get(type(command))
    if machines is None:
        return places.decide(command, ctx)  # type: ignore[arg-type]
    decided: Any = None
    for machine in machines:
        decided = machine(work, command, ctx, decided)
    if isinstance(decided, Unchanged):
        return decided
    return _finish(work, command, ctx, decided)


def _finish(work: Work | None, command: Any, ctx: Context, event: ev.TaskEvent) -> ev.TaskEvent:
    before = work.task if work else None
    if not allowed_target(command, before, event):
        where = f"{event.state.value}/{event.reason.value}"
        raise Refused(ErrorCode.INTERNAL, f"{type(command).__name__} may not lead to {where}.", "Please report this.")
    pretended = _pretend(before, command, ctx, event)
    return replace(event, turn=task.turn_of(pretended, ctx.directory))


def _pretend(before: Task | None, command: Any, ctx: Context, event: ev.TaskEvent) -> Task:
    """The task as it will be, to see whose turn it then is."""
    record = ev.Recorded(
        position=0,
        stream=command.task_id,
        version=before.version + 1 if before else 1,
        workspace=before.workspace if before else command.workspace,
        at=ctx.now,
        actor=ctx.actor,
        subject="",
        trace="",
        event=event,  # type: ignore[arg-type]
    )
    return task.evolve(before, record)
