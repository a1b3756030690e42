"""How far a message has come between who sent it and who does it: five names, derived from the work and nothing else.

They are the same in the SDK, in traces and in `tally show`. May live here: the table and the pure functions over it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from tallystick.core.identity import CAPABILITY_PREFIX
from tallystick.core.model import Fact, TaskState
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import Task, Work


class Link(StrEnum):
    """The five states, in their usual order."""

    IDLE = "IDLE"
    PROVISIONED = "PROVISIONED"
    REACHED = "REACHED"
    CONFIRMED = "CONFIRMED"
    SUNSET = "SUNSET"


class LinkRow(msgspec.Struct, frozen=True):
    """One row of the table: what a link means, and which may come after it."""

    link: Link
    meaning: str
    next: tuple[Link, ...]


_I, _P, _R, _C, _E = Link.IDLE, Link.PROVISIONED, Link.REACHED, Link.CONFIRMED, Link.SUNSET

LINKS: Final[tuple[LinkRow, ...]] = (
    LinkRow(_I, "It is persisted, and nobody was chosen for it yet.", (_P, _C, _E)),
    LinkRow(_P, "It was dispatched, or is held for one holder; nothing proves that it began.", (_R, _I, _C, _E)),
    LinkRow(_R, "The holder has recorded it or works at it.", (_C, _P, _I, _E)),
    LinkRow(_C, "A result is in, and the trace is not settled.", (_E, _R, _P, _I)),
    LinkRow(_E, "The trace is settled, or it ended without a result.", ()),
)
"""Docs and tests read this table. A correction by a person may lead anywhere."""

_RESULT_IN: Final = frozenset({(S.INPUT_REQUIRED, R.REVIEW), (S.WORKING, R.CHECKING), (S.AUTH_REQUIRED, R.PERMISSION)})


def link_of(work: Work) -> Link:
    """The link of a message as it stands."""
    task = work.task
    if not task.open:
        return Link.CONFIRMED if task.state is S.COMPLETED and not task.settled else Link.SUNSET
    if _has_result(work):
        return Link.CONFIRMED
    if task.state is S.WORKING:
        return Link.REACHED
    if _is_unrouted(task):
        return Link.IDLE
    has_it = _has(work, Fact.RECORDED) or _has(work, Fact.WORKING)
    return Link.REACHED if has_it and task.reason is not R.COMPENSATING else Link.PROVISIONED


def _has_result(work: Work) -> bool:
    """Whether what was handed in waits for a check, a review, or a person's yes to the check."""
    task = work.task
    if (task.state, task.reason) not in _RESULT_IN:
        return False
    return task.state is not S.AUTH_REQUIRED or task.resume_reason is R.CHECKING


def _is_unrouted(task: Task) -> bool:
    return not task.assignee or task.assignee.startswith(CAPABILITY_PREFIX)


def _has(work: Work, fact: Fact) -> bool:
    assignment = work.assignment
    return assignment is not None and fact in [seen.fact for seen in assignment.facts]


def is_suspected(work: Work, now: float) -> bool:
    """Whether a REACHED message has shown no progress for so long that something may be wrong, whatever its holder's
    heartbeat says. Shown beside the link; it changes nothing. After `stall_seconds`, else the sender's timeout; never
    without either."""
    task = work.task
    patience = task.stall_seconds or (task.deadline_at - task.created_at if task.deadline_at else 0.0)
    if not patience or link_of(work) is not Link.REACHED or task.state is not TaskState.WORKING:
        return False
    return now - task.updated_at >= patience
