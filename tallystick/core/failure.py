"""Where a failure leads: to whoever puts it right, or to its end. The machines of tasks and of deliveries ask here."""

from __future__ import annotations

from typing import Any

from tallystick.core import events as ev
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import Context, Task


def would_fail(task: Task, reason: R, ctx: Context) -> tuple[S, R, int]:
    """Where a failure leads: to the compensation target while rounds are left, else to its end."""
    if not task.on_failure:
        return S.FAILED, reason, 0
    if task.failures >= ctx.limits.compensation_rounds:
        return S.FAILED, R.EXHAUSTED, task.failures
    return S.SUBMITTED, R.COMPENSATING, task.failures + 1


def failing(
    task: Task, reason: R, ctx: Context, *, text: ev.Text | None = None, run: Any = None, code: str = ""
) -> ev.TaskFailed:
    """The event of a failure, compensated or final."""
    state, why, round_ = would_fail(task, reason, ctx)
    return ev.TaskFailed(state=state, reason=why, round=round_, text=text, run=run, code=code)
