"""What the host has to do for a task next, and when: the one place that timers and follow-ups come from.

The due time stands in the task's row, so nothing due is forgotten after a crash and nothing happens before its commit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from tallystick.core.limits import Limits
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import Work


class DutyKind(StrEnum):
    """What is to be done."""

    CASCADE = "cascade"
    FORWARD = "forward"
    CONFIRM_CANCEL = "confirm_cancel"
    CHECK = "check"
    COMPENSATE = "compensate"
    FREEZE = "freeze"
    LAPSE = "lapse"
    DOUBT = "doubt"
    EXPIRE = "expire"
    PERMISSION = "permission"


class Duty(NamedTuple):
    """One thing to be done at a time (UTC seconds)."""

    at: float
    kind: DutyKind


def next_duty(work: Work, limits: Limits) -> Duty | None:
    """The earliest duty of a task, or None."""
    found = _duties(work, limits)
    return min(found) if found else None


def due_duties(work: Work, limits: Limits, now: float) -> list[Duty]:
    """Every duty that is due, earliest first: one that cannot be done yet must not keep the others waiting."""
    return sorted(duty for duty in _duties(work, limits) if duty.at <= now)


def _duties(work: Work, limits: Limits) -> list[Duty]:
    task = work.task
    found: list[Duty] = []
    if task.cascade:
        found.append(Duty(task.updated_at, DutyKind.CASCADE))
    if task.reply_to and not task.forwarded and task.state is S.COMPLETED:
        found.append(Duty(task.closed_at, DutyKind.FORWARD))
    if not task.open:
        return found
    if task.cancel_requested_at and _for_host_to_end(work):
        found.append(Duty(task.cancel_requested_at, DutyKind.CONFIRM_CANCEL))
    elif task.reason in _AT_ONCE:
        found.append(Duty(task.updated_at, _AT_ONCE[task.reason]))
    if task.rounds >= limits.rounds and task.reason not in _NOT_FROZEN:
        found.append(Duty(task.updated_at, DutyKind.FREEZE))
    found += _timers(work, limits)
    return found


_AT_ONCE = {R.CHECKING: DutyKind.CHECK, R.COMPENSATING: DutyKind.COMPENSATE}
"""What is due as soon as a task waits for it; of one that is to be canceled nothing is begun any more."""
_NOT_FROZEN = (R.FROZEN, R.UNVERIFIED, R.COMPENSATING)
"""What waits for these does not go back and forth any more."""
_NOT_BOUND = (R.CHECKING, R.REVIEW, R.COMPENSATING, R.UNVERIFIED)
"""While a task waits for these its deadline does not bind: a review never expires, it ages."""


def _timers(work: Work, limits: Limits) -> list[Duty]:
    task = work.task
    found: list[Duty] = []
    if task.lease_until:
        if work.in_flight:
            found.append(Duty(task.lease_until, DutyKind.DOUBT))
        elif task.state is S.WORKING:
            found.append(Duty(task.lease_until, DutyKind.LAPSE))
    if task.deadline_at and not task.handed_in_at and task.reason not in _NOT_BOUND:
        found.append(Duty(task.deadline_at, DutyKind.EXPIRE))
    if task.permissions and task.reason is R.PERMISSION:
        waiting = [p for p in task.permissions if not p.decision]
        found += [Duty(p.requested_at + limits.permission_seconds, DutyKind.PERMISSION) for p in waiting]
    return found


def _for_host_to_end(work: Work) -> bool:
    """Whether it is the host that ends what runs (a check or a pushed delivery), or nothing runs any more."""
    return work.task.reason is R.CHECKING or work.in_flight or not work.task.holder
