"""The single door of the rules: a state, a command and a frozen context give one event, `Unchanged`, or a refusal.

`MACHINES` maps a command to the ordered machines that decide it; each sees what the earlier ones decided, and none
imports another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
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


_KEYED = frozenset({cmd.SubmitTask, cmd.ClaimTask})
"""Commands that carry a key, by which their repeat is known."""


class Made(msgspec.Struct, frozen=True, gc=False):
    """What a command to a task makes: its event as it will be recorded, still without a position, and the work then."""

    recorded: ev.Recorded
    work: Work


def decide(work: Work | None, command: cmd.Command, ctx: Context) -> ev.Happened | Unchanged:
    """What becomes of a command. `work` is the task it is about, None for other commands and new tasks."""
    if type(command) not in MACHINES:
        return places.decide(command, ctx)  # type: ignore[arg-type]
    made = make(work, command, ctx)  # type: ignore[arg-type]
    return made if isinstance(made, Unchanged) else made.recorded.event


def make(work: Work | None, command: cmd.TaskCommands, ctx: Context, cause: int = 0) -> Made | Unchanged:
    """The same for a command to a task, together with what folding its event gives: it is folded here anyway."""
    decided: Any = None
    for machine in MACHINES[type(command)]:
        decided = machine(work, command, ctx, decided)
    if isinstance(decided, Unchanged):
        return decided
    before = work.task if work else None
    if not allowed_target(command, before, decided):
        where = f"{decided.state.value}/{decided.reason.value}"
        raise Refused(ErrorCode.INTERNAL, f"{type(command).__name__} may not lead to {where}.", "Please report this.")
    untold = _record(before, command, ctx, decided, cause)
    after = task.moved(before, untold)
    turn = task.turn_of(after, ctx.directory)
    after = task.with_turn(before, after, decided, turn)
    recorded = replace(untold, event=replace(decided, turn=turn))
    return Made(recorded, Work(after, delivery.evolve(work.deliveries if work else (), recorded, after)))


def _record(before: Task | None, command: Any, ctx: Context, event: Any, cause: int) -> ev.Recorded:
    return ev.Recorded(
        position=0,
        stream=command.task_id,
        version=before.version + 1 if before else 1,
        workspace=before.workspace if before else command.workspace,
        at=ctx.now,
        actor=ctx.actor,
        subject=ctx.directory.owner_of(ctx.actor.id),
        trace=before.trace if before else command.trace,
        cause=cause,
        key=command.key if type(command) in _KEYED else "",
        event=event,
    )
