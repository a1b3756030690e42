"""What has happened: the events of the log, in the past tense, and the envelope they are recorded in.

One command makes one event; everything it implies (facts of a delivery, whose turn it is) is derived from it.
Free text of people and agents stands only in `text`, which the store keeps apart as an erasable body.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.core.events.places import (
    AgentJoined,
    AgentLeft,
    AgentModeChanged,
    AgentRenamed,
    CapabilityPinned,
    CheckAdded,
    CheckRemoved,
    CommandRefused,
    CoordinatorChosen,
    HostModeChanged,
    HostStarted,
    InboxSeen,
    PersonJoined,
    PlaceEvents,
    PresenceChanged,
    ProviderAllowed,
    SessionDescribed,
    SessionEnded,
    SessionLinked,
    SessionModeChanged,
    SessionOpened,
    SpokeTokenMade,
    SpokeTokenRemoved,
    WorkspaceModeChanged,
    WorkspaceRegistered,
)
from tallystick.core.events.task import (
    CancelRequested,
    CascadeFinished,
    ChangesRequested,
    CheckReported,
    DeliveryBegun,
    DeliveryLeased,
    DeliveryRecorded,
    DeliveryReturned,
    DeliveryUnverified,
    DoubtSettled,
    HolderReturned,
    LeaseLapsed,
    LeaseRecovered,
    PermissionDecided,
    PermissionRequested,
    QuestionAnswered,
    QuestionAsked,
    ResultApproved,
    ResultForwarded,
    ResultHandedIn,
    ResultRefused,
    TaskAdmitted,
    TaskCanceled,
    TaskClaimed,
    TaskCorrected,
    TaskDeclined,
    TaskDoubted,
    TaskEvent,
    TaskExpired,
    TaskFailed,
    TaskFrozen,
    TaskModeChanged,
    TaskProgressed,
    TaskReassigned,
    TaskReleased,
    TaskRestarted,
    TaskSubmitted,
    TaskTurnedAway,
    TextsErased,
    TraceSettled,
    TurnMoved,
)
from tallystick.core.events.task import TaskEvents as _TaskEvents
from tallystick.core.events.turns import TurnEnded, TurnEvents, TurnNoted, TurnStarted
from tallystick.core.events.waking import (
    WakeIntended,
    WakeReported,
    WakingEvents,
    WatchAdded,
    WatchNoticed,
    WatchRemoved,
)
from tallystick.core.events.words import ERASED, Happened, Text
from tallystick.core.identity import Actor
from tallystick.core.model import Fact

TaskEvents = _TaskEvents | TurnEvents
Event = TaskEvents | PlaceEvents | WakingEvents


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as it stands in the log."""

    position: int
    """Place in the whole log, from 1, without gaps."""
    stream: str
    """The aggregate it belongs to: its id (`tsk_…`, `agt_…`, `wsp_…`, `per_…`, `ses_…`) or `host`."""
    version: int
    """Place in its stream, from 1, without gaps."""
    workspace: str
    at: float
    """UTC seconds since 1970."""
    actor: Actor
    subject: str
    trace: str
    cause: int = 0
    """Position of the event that this one follows from; 0 for none."""
    key: str = ""
    """Dedup key of the sender, unique per (workspace, sender)."""
    event: Event
    hash: str = ""
    """sha256 in hexadecimal over the previous hash and this record; empty before it is appended."""


def event_types() -> dict[str, type[Any]]:
    """Every event by its name: the table of contents of the log."""
    return {member.__name__: member for member in Event.__args__}


FACT_ORDER: tuple[Fact, ...] = (
    Fact.ACCEPTED,
    Fact.PERSISTED,
    Fact.CLAIMED,
    Fact.ADMITTED,
    Fact.RECORDED,
    Fact.WORKING,
    Fact.SUBMITTED,
)

__all__ = [
    "ERASED",
    "FACT_ORDER",
    "AgentJoined",
    "AgentLeft",
    "AgentModeChanged",
    "AgentRenamed",
    "CancelRequested",
    "CapabilityPinned",
    "CascadeFinished",
    "ChangesRequested",
    "CheckAdded",
    "CheckRemoved",
    "CheckReported",
    "CommandRefused",
    "CoordinatorChosen",
    "DeliveryBegun",
    "DeliveryLeased",
    "DeliveryRecorded",
    "DeliveryReturned",
    "DeliveryUnverified",
    "DoubtSettled",
    "Event",
    "Happened",
    "HolderReturned",
    "HostModeChanged",
    "HostStarted",
    "InboxSeen",
    "LeaseLapsed",
    "LeaseRecovered",
    "PermissionDecided",
    "PermissionRequested",
    "PersonJoined",
    "PlaceEvents",
    "PresenceChanged",
    "ProviderAllowed",
    "QuestionAnswered",
    "QuestionAsked",
    "Recorded",
    "ResultApproved",
    "ResultForwarded",
    "ResultHandedIn",
    "ResultRefused",
    "SessionDescribed",
    "SessionEnded",
    "SessionLinked",
    "SessionModeChanged",
    "SessionOpened",
    "SpokeTokenMade",
    "SpokeTokenRemoved",
    "TaskAdmitted",
    "TaskCanceled",
    "TaskClaimed",
    "TaskCorrected",
    "TaskDeclined",
    "TaskDoubted",
    "TaskEvent",
    "TaskEvents",
    "TaskExpired",
    "TaskFailed",
    "TaskFrozen",
    "TaskModeChanged",
    "TaskProgressed",
    "TaskReassigned",
    "TaskReleased",
    "TaskRestarted",
    "TaskSubmitted",
    "TaskTurnedAway",
    "Text",
    "TextsErased",
    "TraceSettled",
    "TurnEnded",
    "TurnEvents",
    "TurnMoved",
    "TurnNoted",
    "TurnStarted",
    "WakeIntended",
    "WakeReported",
    "WakingEvents",
    "WatchAdded",
    "WatchNoticed",
    "WatchRemoved",
    "WorkspaceModeChanged",
    "WorkspaceRegistered",
    "event_types",
]
