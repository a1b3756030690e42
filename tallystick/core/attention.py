"""What a person is told of by the machine itself: a decision, a risk, a result, an agent to be opened. Nothing else.

May live here: which rows of the views are worth a person's attention, as pure functions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tallystick.core.directory import Directory
from tallystick.core.model import Reason, TaskState, Value
from tallystick.core.rows import NoticeReadRow, NoticeRow, PermissionRow, Row, TaskRow


class Concern(StrEnum):
    """The four things a person is interrupted for."""

    DECISION = "decision"
    RISK = "risk"
    RESULT = "result"
    OPEN = "open"


class Attention(Value, frozen=True, kw_only=True):
    """One thing to tell one person once, until it is decided or seen."""

    key: str
    """The same for the same decision, so that it is told once and can be taken away again."""
    concern: Concern
    person: str
    task_id: str
    """Empty where it is about no task."""
    title: str
    what: str
    """What is wanted or happened, as the end of a sentence that begins with the title."""


class Standing(Value, frozen=True):
    """What a committed row says about what persons are to be told: this, and nothing else about that subject."""

    subject: str
    attention: Attention | None


_RISKS: Final = (Reason.UNVERIFIED, Reason.FROZEN)
_BY_PERMISSION: Final = (Reason.PERMISSION, Reason.GRANT)
_RESULTS: Final = {
    "result": "is done",
    "failed": "failed",
    "expired": "expired",
    "canceled": "was canceled",
    "refused": "was declined",
    "not_forwarded": "is done, and its result could not be sent on",
}
_ASKED: Final[dict[str, str]] = {
    Reason.QUESTION: "asks you a question",
    Reason.REVIEW: "waits for your review",
    Reason.UNVERIFIED: "may or may not have been done: say which",
    Reason.FROZEN: "goes round in circles and was stopped",
    Reason.INBOUND: "waits for your yes to be let in",
}


def standings(rows: tuple[Row, ...], directory: Directory, actor: str) -> list[Standing]:
    """What the rows of one event mean for persons. Who acted is not told of its own act."""
    found: list[Standing] = []
    for row in rows:
        if isinstance(row, TaskRow):
            found.append(Standing(f"turn/{row.task_id}", _turn(row, directory, actor)))
        elif isinstance(row, PermissionRow):
            subject = f"permission/{row.permission_id}"
            found.append(Standing(subject, _permission(row, directory, _title(rows, row.task_id))))
        elif isinstance(row, NoticeRow):
            subject = f"notice/{row.task_id}/{row.party}"
            found.append(Standing(subject, _notice(row, directory, actor, _title(rows, row.task_id))))
        elif isinstance(row, NoticeReadRow):
            found.append(Standing(f"notice/{row.task_id}/{row.party}", None))
    return found


def _title(rows: tuple[Row, ...], task_id: str) -> str:
    return next((row.title for row in rows if isinstance(row, TaskRow) and row.task_id == task_id), "")


def _turn(row: TaskRow, directory: Directory, actor: str) -> Attention | None:
    if not row.open or row.turn not in directory.persons or row.turn == actor or row.state == TaskState.WORKING:
        return None
    if row.reason in _BY_PERMISSION:
        return None  # each permission has a row of its own
    return Attention(
        key=f"{row.task_id}/{row.state}/{row.reason}/{row.turn}",
        concern=Concern.RISK if row.reason in _RISKS else Concern.DECISION,
        person=row.turn,
        task_id=row.task_id,
        title=row.title,
        what=_ASKED.get(row.reason, "is yours to take"),
    )


def _permission(row: PermissionRow, directory: Directory, title: str) -> Attention | None:
    if not row.open:
        return None
    return Attention(
        key=row.permission_id,
        concern=Concern.DECISION,
        person=directory.owner,
        task_id=row.task_id,
        title=title,
        what=f"needs your permission: {row.action}",
    )


def _notice(row: NoticeRow, directory: Directory, actor: str, title: str) -> Attention | None:
    if not row.unread or row.party not in directory.persons or row.party == actor or row.kind not in _RESULTS:
        return None
    return Attention(
        key=f"{row.task_id}/{row.version}/{row.party}",
        concern=Concern.RESULT,
        person=row.party,
        task_id=row.task_id,
        title=title,
        what=_RESULTS[row.kind],
    )
