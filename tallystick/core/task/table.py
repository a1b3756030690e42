"""Which moves a task has: from where, to where, by whom, on whose word. Code, docs, diagrams and tests read this table.

May live here: data. How a move is carried out stands in `moves`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from tallystick.core import commands as cmd
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.model import place


class Role(StrEnum):
    """What somebody is to a task."""

    ANYONE = "anyone"
    REQUESTER = "requester"
    ASSIGNEE = "assignee"
    HOLDER = "holder"
    LAST_HOLDER = "last_holder"
    REVIEWER = "reviewer"
    COORDINATOR = "coordinator"
    PERSON = "person"
    HOST = "host"


REASONS: Final[dict[S, tuple[R, ...]]] = {
    S.SUBMITTED: (R.NEW, R.REWORK, R.UNASSIGNED, R.COMPENSATING),
    S.WORKING: (R.NONE, R.ANSWERED, R.CHECKING),
    S.INPUT_REQUIRED: (R.QUESTION, R.REVIEW, R.FROZEN, R.UNVERIFIED),
    S.AUTH_REQUIRED: (R.PERMISSION, R.GRANT, R.INBOUND),
    S.COMPLETED: (R.APPROVED, R.VERIFIED, R.UNREVIEWED),
    S.FAILED: (R.ERROR, R.REFUTED, R.EXPIRED, R.BUDGET, R.NO_ROUTE, R.OFFLINE, R.EXHAUSTED),
    S.CANCELED: (R.BY_REQUESTER, R.BY_PERSON),
    S.REJECTED: (R.BY_AGENT, R.BY_POLICY, R.BY_PERSON),
}
"""The closed set of reasons of each state."""

_LABELS: Final = {
    "submitted/new": "pending",
    "submitted/rework": "changes requested",
    "submitted/unassigned": "pending",
    "submitted/compensating": "compensating",
    "working": "working",
    "working/answered": "working",
    "working/checking": "checking",
    "input_required/question": "question",
    "input_required/review": "review",
    "input_required/frozen": "stuck",
    "input_required/unverified": "result to be checked",
}


def board_label(state: S, reason: R) -> str:
    """What the board calls a state."""
    if state is S.AUTH_REQUIRED:
        return "needs permission"
    fixed = {S.COMPLETED: "done", S.FAILED: "failed", S.CANCELED: "canceled", S.REJECTED: "declined"}
    return fixed.get(state) or _LABELS[place(state, reason)]


def _places(*patterns: str) -> frozenset[str]:
    """`submitted` stands for the state with each of its reasons; `submitted/new` for just that one."""
    found: set[str] = set()
    for pattern in patterns:
        state, _, reason = pattern.partition("/")
        reasons = REASONS[S(state)] if not reason else (R("" if reason == "-" else reason),)
        found.update(place(S(state), r) for r in reasons)
    return frozenset(found)


OPEN: Final = _places("submitted", "working", "input_required", "auth_required")
FINAL: Final = _places("completed", "failed", "canceled", "rejected")
ENDED_BADLY: Final = _places("failed/refuted", "failed/error", "failed/exhausted", "submitted/compensating")
SAME: Final = frozenset({"="})
"""The target of a move that leaves the state as it is."""


class Transition(msgspec.Struct, frozen=True):
    """One row: this command, by these, from these places to these."""

    move: str
    command: type[cmd.TaskCommand]
    by: tuple[Role, ...]
    sources: frozenset[str]
    targets: frozenset[str]
    witness: str
    """Who may attest that it happened."""
    fenced: bool = False
    """The caller must hold the present fence."""
    after_cancel: bool = False
    """Still taken from the holder after cancel was asked."""


_ACTIVE = _places("working/-", "working/answered")

TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition(
        "submit task",
        cmd.SubmitTask,
        (Role.ANYONE,),
        frozenset(),
        _places("submitted/new", "submitted/unassigned", "auth_required/inbound", "rejected/by_policy"),
        "host",
    ),
    Transition(
        "take",
        cmd.ClaimTask,
        (Role.ASSIGNEE,),
        _places("submitted/new", "submitted/rework", "working/-", "working/answered"),
        _places("working/-") | SAME,
        "connection holding the lease",
    ),
    Transition("progress", cmd.ReportProgress, (Role.HOLDER,), _ACTIVE, SAME, "holder", fenced=True),
    Transition(
        "question",
        cmd.AskQuestion,
        (Role.HOLDER,),
        _ACTIVE,
        _places("input_required/question"),
        "holder",
        fenced=True,
    ),
    Transition(
        "answer",
        cmd.AnswerQuestion,
        (Role.REQUESTER, Role.PERSON),
        _places("input_required/question", "input_required/frozen"),
        _places("working/answered", "submitted/rework"),
        "requester",
    ),
    Transition(
        "hand in",
        cmd.HandInResult,
        (Role.HOLDER, Role.LAST_HOLDER),
        _ACTIVE | _places("submitted/rework", "input_required/unverified"),
        _places("working/checking", "input_required/review", "completed/unreviewed") | ENDED_BADLY,
        "holder, or a spoke that is back; every reference resolves and its digest matches",
        fenced=True,
    ),
    Transition(
        "check",
        cmd.ReportCheck,
        (Role.HOST,),
        _places("working/checking"),
        _places("working/-", "input_required/review", "completed/verified") | ENDED_BADLY,
        "host, by running it",
    ),
    Transition(
        "approve",
        cmd.ApproveResult,
        (Role.REVIEWER,),
        _places("input_required/review"),
        _places("completed/approved"),
        "reviewer",
    ),
    Transition(
        "request changes",
        cmd.RequestChanges,
        (Role.REVIEWER,),
        _places("input_required/review"),
        _places("submitted/rework"),
        "reviewer",
    ),
    Transition("refuse", cmd.RefuseResult, (Role.REVIEWER,), _places("input_required/review"), ENDED_BADLY, "reviewer"),
    Transition(
        "decline",
        cmd.DeclineTask,
        (Role.ASSIGNEE, Role.HOLDER),
        _places("submitted/new", "submitted/rework") | _ACTIVE,
        _places("rejected/by_agent", "rejected/by_person"),
        "assignee",
    ),
    Transition(
        "fail",
        cmd.FailTask,
        (Role.HOLDER, Role.HOST),
        _places("submitted/new", "submitted/rework", "submitted/unassigned") | _ACTIVE,
        _places("failed/error", "failed/budget", "failed/no_route", "failed/offline") | ENDED_BADLY,
        "holder or host",
        fenced=True,
    ),
    Transition(
        "admit",
        cmd.AdmitTask,
        (Role.PERSON,),
        _places("auth_required/inbound"),
        _places("submitted/new"),
        "person",
    ),
    Transition(
        "turn away",
        cmd.TurnAwayTask,
        (Role.PERSON, Role.HOST),
        _places("auth_required/inbound"),
        _places("rejected/by_person", "rejected/by_policy"),
        "person or policy",
    ),
    Transition(
        "request permission",
        cmd.RequestPermission,
        (Role.HOLDER, Role.HOST),
        _places("submitted/new", "submitted/rework", "working", "auth_required/permission"),
        _places("auth_required/permission"),
        "connection",
    ),
    Transition(
        "decide permission",
        cmd.DecidePermission,
        (Role.PERSON, Role.HOST),
        _places("auth_required/permission"),
        _places("submitted/new", "submitted/rework", "working", "auth_required/permission", "input_required/review"),
        "person; the host only as the time-out's no",
    ),
    Transition(
        "cancel",
        cmd.CancelTask,
        (Role.REQUESTER, Role.PERSON, Role.HOST),
        OPEN,
        SAME | _places("canceled"),
        "requester or person",
    ),
    Transition(
        "confirm cancel",
        cmd.ConfirmCancel,
        (Role.HOST,),
        OPEN,
        _places("canceled"),
        "host: nothing of it runs any more",
    ),
    Transition("finish cascade", cmd.FinishCascade, (Role.HOST,), OPEN | FINAL, SAME, "host: the children were told"),
    Transition(
        "forward result",
        cmd.ForwardResult,
        (Role.HOST,),
        _places("completed"),
        SAME,
        "host: it is on its way to where its sender wanted it, or cannot be",
    ),
    Transition(
        "reassign",
        cmd.ReassignTask,
        (Role.REQUESTER, Role.COORDINATOR, Role.PERSON, Role.HOST),
        OPEN,
        _places("submitted/new", "submitted/unassigned", "auth_required/inbound"),
        "requester, coordinator or person; a person alone where it is frozen or its outcome not known; the host to "
        "whom a person named for a used-up quota",
    ),
    Transition(
        "release",
        cmd.ReleaseTask,
        (Role.HOLDER, Role.LAST_HOLDER),
        _ACTIVE | _places("input_required/question", "submitted/new", "submitted/rework", "canceled"),
        _places("submitted/new", "canceled"),
        "holder",
        fenced=True,
        after_cancel=True,
    ),
    Transition(
        "lapse",
        cmd.LapseLease,
        (Role.HOST,),
        _ACTIVE,
        _places("submitted/new", "canceled"),
        "host: the lease is over, or the session of its holder has ended",
    ),
    Transition(
        "recover",
        cmd.RecoverLease,
        (Role.HOST,),
        _places("submitted/new", "submitted/rework", "working", "input_required/question"),
        SAME,
        "host",
    ),
    Transition(
        "doubt",
        cmd.DoubtTask,
        (Role.HOST,),
        _places("working", "submitted/new", "submitted/rework"),
        _places("input_required/unverified"),
        "host",
    ),
    Transition(
        "settle doubt",
        cmd.SettleDoubt,
        (Role.PERSON, Role.HOST),
        _places("input_required/unverified"),
        _places("submitted/rework", "completed/approved", "canceled") | ENDED_BADLY,
        "person; host: that it failed, as a spoke that is back tells",
    ),
    Transition(
        "expire",
        cmd.ExpireTask,
        (Role.HOST,),
        OPEN - _places("working/checking", "input_required/review", "submitted/compensating"),
        _places("failed/expired", "input_required/unverified") | SAME,
        "host: the deadline has passed",
    ),
    Transition(
        "restart",
        cmd.RestartTask,
        (Role.HOST,),
        _places("submitted/compensating"),
        _places("submitted/new", "submitted/compensating", "failed/exhausted"),
        "host: the compensation ended",
    ),
    Transition(
        "freeze",
        cmd.FreezeTask,
        (Role.HOST,),
        OPEN - _places("input_required/frozen", "input_required/unverified", "submitted/compensating"),
        _places("input_required/frozen"),
        "host: rounds guard",
    ),
    Transition("correct", cmd.CorrectTask, (Role.PERSON,), OPEN | FINAL, OPEN | FINAL, "person"),
    Transition("settle", cmd.SettleTrace, (Role.REQUESTER, Role.PERSON, Role.HOST), FINAL, SAME, "person or requester"),
    Transition("erase", cmd.EraseTexts, (Role.PERSON, Role.HOST), OPEN | FINAL, SAME, "person; host, by age"),
    Transition("move turn", cmd.MoveTurn, (Role.HOST,), OPEN, SAME, "host"),
    Transition("pause or resume", cmd.SetTaskMode, (Role.PERSON, Role.REQUESTER), OPEN, SAME, "person"),
    Transition("record", cmd.RecordDelivery, (Role.ASSIGNEE, Role.HOLDER, Role.HOST), OPEN | FINAL, SAME, "connection"),
    Transition(
        "lease delivery",
        cmd.LeaseDelivery,
        (Role.HOST,),
        _places("submitted/new", "submitted/rework"),
        SAME,
        "host: the intent is written ahead",
    ),
    Transition(
        "begin delivery",
        cmd.BeginDelivery,
        (Role.HOST,),
        _places("submitted/new", "submitted/rework"),
        _places("working/-"),
        "connection",
    ),
    Transition(
        "return delivery",
        cmd.ReturnDelivery,
        (Role.HOST,),
        _places("submitted/new", "submitted/rework", "working/-"),
        SAME | _places("submitted/new", "failed/offline", "failed/exhausted", "submitted/compensating"),
        "connection: it never began, or its holder is idempotent",
    ),
    Transition(
        "start turn",
        cmd.StartTurn,
        (Role.HOST,),
        _places("submitted/new", "submitted/rework") | _ACTIVE,
        SAME,
        "host: the prompt is written down ahead",
    ),
    Transition("note turn", cmd.NoteTurn, (Role.HOST,), OPEN | FINAL, SAME, "connection"),
    Transition("end turn", cmd.EndTurn, (Role.HOST,), OPEN | FINAL, SAME, "connection"),
    Transition("doubt delivery", cmd.DoubtDelivery, (Role.HOST,), OPEN, SAME, "host"),
)
"""Every move there is. What is not listed is refused."""

BY_COMMAND: Final[dict[type, Transition]] = {row.command: row for row in TRANSITIONS}
