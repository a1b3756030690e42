"""What has happened: the events of the log, in the past tense, and the envelope they are recorded in.

One command makes one event; everything it implies (facts of a delivery, whose turn it is) is derived from it.
May live here: event shapes and the envelope. Free text of people and agents stands only in `text`, which the store
keeps apart as an erasable body.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.core.identity import Actor
from tallystick.core.model import (
    Artifact,
    Brief,
    Budget,
    CheckRun,
    CheckSpec,
    Expects,
    Fact,
    Reason,
    Reference,
    TaskState,
    Value,
)


class Text(Value, frozen=True):
    """The words of one event. Stored as a body that can be erased without breaking the chain."""

    title: str = ""
    body: str = ""
    brief: Brief = Brief()


ERASED = Text(title="[erased]", body="[erased]")
"""What stands in place of a body that was erased."""


class Happened(msgspec.Struct, frozen=True, omit_defaults=True, tag=True, kw_only=True):
    """Base of all events."""

    text: Text | None = None


# --- a task and its deliveries ----------------------------------------------------------------------------------


class TaskEvent(Happened, frozen=True, kw_only=True):
    """A move of a task: the state it is in afterwards and whose turn it then is."""

    state: TaskState
    reason: Reason = Reason.NONE
    turn: str = ""
    """The one party whose turn it is; empty exactly when the task is closed."""


class TaskSubmitted(TaskEvent, frozen=True, kw_only=True):
    """A task was asked for. Its first delivery exists from here on."""

    delivery_id: str
    message_id: str
    requester: str
    subject: str
    assignee: str
    """An agent, a person or `cap:Name`; empty while the coordinator has to choose."""
    session: str = ""
    """Only this very session may take it (`@reviewer/ses_…`)."""
    expects: Expects = Expects.ANSWER
    done_when: CheckSpec | None = None
    reviewer: str = ""
    deadline_at: float = 0.0
    digest: str = ""
    """sha256 of the request, compared when its dedup key comes again."""
    parent: str = ""
    retry_of: str = ""
    depth: int = 0
    on_failure: str = ""
    inputs: tuple[Reference, ...] = ()
    repository: str = ""
    base_commit: str = ""
    budget: Budget = Budget()
    provider: str = ""
    promise: str = ""
    level: str = ""
    rule: str = ""
    """The rule that admitted, held or turned it away."""
    wake: bool = False
    compensates: str = ""
    """The task whose failure this one makes good."""


class TaskClaimed(TaskEvent, frozen=True, kw_only=True):
    """A session took the task: claimed, admitted and working in one event."""

    delivery_id: str
    holder: str
    session: str
    fence: int
    lease_until: float = 0.0
    """Boot-clock free: UTC seconds; 0 for a person, who has no lease."""
    rule: str = "member"


class TaskProgressed(TaskEvent, frozen=True, kw_only=True):
    """The holder told how it goes."""

    fraction: float | None = None


class QuestionAsked(TaskEvent, frozen=True, kw_only=True):
    """The holder needs something from the requester; the lease pauses."""

    message_id: str


class QuestionAnswered(TaskEvent, frozen=True, kw_only=True):
    """The requester answered, or a person gave input to a frozen task."""

    message_id: str
    delivery_id: str = ""
    lease_until: float = 0.0


class ResultHandedIn(TaskEvent, frozen=True, kw_only=True):
    """The holder says it is done. `references` resolved and their digests matched."""

    message_id: str
    revision: int
    commit: str = ""
    references: tuple[Reference, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    commits: tuple[str, ...] = ()
    """The commits of this work, oldest first: they are linked to the task."""
    holder: str = ""
    session: str = ""
    fence: int = 0
    review_wanted: bool = False
    run: CheckRun | None = None
    """What the host saw itself, where the host ran the agent (command agents)."""


class CheckReported(TaskEvent, frozen=True, kw_only=True):
    """The host ran the named check."""

    run: CheckRun
    lease_until: float = 0.0
    round: int = 0


class ResultApproved(TaskEvent, frozen=True, kw_only=True):
    """The reviewer accepted this revision."""

    revision: int


class ChangesRequested(TaskEvent, frozen=True, kw_only=True):
    """The reviewer wants changes to this revision."""

    message_id: str
    delivery_id: str
    revision: int


class ResultRefused(TaskEvent, frozen=True, kw_only=True):
    """The reviewer refused the result for good."""

    revision: int
    round: int = 0


class TaskDeclined(TaskEvent, frozen=True, kw_only=True):
    """The assignee does not take it on."""


class TaskFailed(TaskEvent, frozen=True, kw_only=True):
    """It failed, or would have and is being compensated."""

    round: int = 0
    run: CheckRun | None = None


class TaskHeld(TaskEvent, frozen=True, kw_only=True):
    """The recipient's inbound policy wants a person to decide first."""

    rule: str


class TaskAdmitted(TaskEvent, frozen=True, kw_only=True):
    """A person let a held task in."""


class TaskTurnedAway(TaskEvent, frozen=True, kw_only=True):
    """A person or a policy turned a task away."""

    rule: str = ""


class PermissionRequested(TaskEvent, frozen=True, kw_only=True):
    """Something needs a person's yes: the exact action and its digest."""

    permission_id: str
    action: str
    digest: str
    options: tuple[str, ...] = ("allow_once", "reject_once")


class PermissionDecided(TaskEvent, frozen=True, kw_only=True):
    """A person (or the time-out, as a no) decided one permission, once."""

    permission_id: str
    decision: str
    lease_until: float = 0.0


class CancelRequested(TaskEvent, frozen=True, kw_only=True):
    """Cancel was asked while work runs; it is canceled only when that has ended."""

    cascade: tuple[str, ...] = ()


class TaskCanceled(TaskEvent, frozen=True, kw_only=True):
    """It is canceled: nothing of it runs any more."""

    cascade: tuple[str, ...] = ()


class CascadeFinished(TaskEvent, frozen=True, kw_only=True):
    """What had to follow in the children of a canceled task was done."""


class TaskReassigned(TaskEvent, frozen=True, kw_only=True):
    """It goes to another assignee; the deliveries to the old one are canceled."""

    delivery_id: str
    assignee: str
    provider: str = ""
    promise: str = ""
    session: str = ""
    rule: str = ""


class TaskReleased(TaskEvent, frozen=True, kw_only=True):
    """The holder gave it back."""

    delivery_id: str
    note: str = ""
    """Digest of the reason, so that a replay is recognised."""


class LeaseLapsed(TaskEvent, frozen=True, kw_only=True):
    """The holder was silent for a whole lease; the task is due again with a new attempt."""

    delivery_id: str
    previous: str


class LeaseRecovered(TaskEvent, frozen=True, kw_only=True):
    """After a restart of the host: the fence is raised and one full lease granted."""

    fence: int
    lease_until: float


class HolderReturned(TaskEvent, frozen=True, kw_only=True):
    """The same session came back with the fence it had before a restart, and got the new one."""

    fence: int
    lease_until: float


class TaskDoubted(TaskEvent, frozen=True, kw_only=True):
    """An effect was begun and its outcome is not known: a person has to look."""

    detail: str = ""


class DoubtSettled(TaskEvent, frozen=True, kw_only=True):
    """A person or a reconciler told the outcome."""

    outcome: str
    delivery_id: str = ""


class TaskExpired(TaskEvent, frozen=True, kw_only=True):
    """Its deadline passed before a result was handed in."""


class TaskRestarted(TaskEvent, frozen=True, kw_only=True):
    """The compensation ended well; the original runs again."""

    delivery_id: str


class TaskFrozen(TaskEvent, frozen=True, kw_only=True):
    """Too many messages without an artifact, a check or human input."""

    messages: int


class TaskCorrected(TaskEvent, frozen=True, kw_only=True):
    """A person set the state by hand and said why."""


class TraceSettled(TaskEvent, frozen=True, kw_only=True):
    """Every part of the trace is final and was declared settled."""


class TurnMoved(TaskEvent, frozen=True, kw_only=True):
    """The party whose turn it was cannot take it any more."""


class TaskModeChanged(TaskEvent, frozen=True, kw_only=True):
    """`pause` or `resume` of this one task."""

    mode: str


class DeliveryRecorded(TaskEvent, frozen=True, kw_only=True):
    """A reader acknowledged the body after its own flush."""

    delivery_id: str
    witness: str
    proof: str = "inferred"


class DeliveryLeased(TaskEvent, frozen=True, kw_only=True):
    """Dispatch is about to happen: the write-ahead intent of a push."""

    delivery_id: str
    session: str
    intent_id: str
    fence: int
    lease_until: float
    rule: str


class DeliveryBegun(TaskEvent, frozen=True, kw_only=True):
    """The recipient has it: recorded and, by its kind, working."""

    delivery_id: str
    witness: str
    proof: str = "inferred"
    evidence: str = ""


class DeliveryReturned(TaskEvent, frozen=True, kw_only=True):
    """Dispatch did not happen: the intent is refuted and the delivery due again."""

    delivery_id: str
    retry_at: float
    detail: str = ""


class DeliveryUnverified(TaskEvent, frozen=True, kw_only=True):
    """Dispatched, and the host lost sight of it."""

    delivery_id: str
    detail: str = ""


# --- places and parties -----------------------------------------------------------------------------------------


class HostStarted(Happened, frozen=True, kw_only=True):
    """A host opened this log."""

    host_version: str
    boot_id: str
    recovered: bool = False


class HostModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of everything."""

    mode: str


class PersonJoined(Happened, frozen=True, kw_only=True):
    """A person is known to this host; the first one is its owner."""

    person_id: str
    alias: str
    owner: bool = False
    uid: int | None = None
    display_name: str = ""


class WorkspaceRegistered(Happened, frozen=True, kw_only=True):
    """A directory became a workspace."""

    workspace_id: str
    name: str
    root: str = ""
    repository: str = ""
    common_directory: str = ""
    evidence: str = ""


class CoordinatorChosen(Happened, frozen=True, kw_only=True):
    """Who routes what nobody was named for."""

    agent: str


class ProviderAllowed(Happened, frozen=True, kw_only=True):
    """A person consented that this workspace's content goes to that model provider."""

    provider: str


class CheckAdded(Happened, frozen=True, kw_only=True):
    """A person registered a check with the environment of their shell."""

    check: CheckSpec


class CheckRemoved(Happened, frozen=True, kw_only=True):
    """A check is no longer offered for new tasks."""

    name: str


class WorkspaceModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of a workspace."""

    mode: str


class AgentJoined(Happened, frozen=True, kw_only=True):
    """An agent joined a workspace, or joined again. None = not given: left as it was."""

    agent_id: str
    alias: str
    workspace: str
    owner: str
    connection: str | None = None
    """mailbox, command, client, drive or wake."""
    argv: tuple[str, ...] | None = None
    client: str | None = None
    strengths: str | None = None
    capabilities: tuple[str, ...] | None = None
    provider: str | None = None
    inbound: str | None = None
    display_name: str | None = None
    concurrency: int | None = None
    seconds: int | None = None
    network: bool | None = None
    search_path: str | None = None
    virtual_env: str | None = None
    unsandboxed: bool | None = None
    """A person said yes to running it without a sandbox."""
    allow_provider: bool = False


class AgentRenamed(Happened, frozen=True, kw_only=True):
    """Same id, other name; the old name is a tombstone."""

    alias: str


class AgentLeft(Happened, frozen=True, kw_only=True):
    """The agent left one workspace, or for good when `workspace` is empty."""

    workspace: str = ""


class AgentModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of an agent."""

    mode: str


class SessionOpened(Happened, frozen=True, kw_only=True):
    """One execution of an agent began. `door` tells which connection it has."""

    session_id: str
    agent: str
    door: str
    parent: str = ""
    incarnation: str = ""


class SessionModeChanged(Happened, frozen=True, kw_only=True):
    """`stop`, `pause`, `resume` or `drain` of a session."""

    mode: str


class SessionEnded(Happened, frozen=True, kw_only=True):
    """That execution is over; its id is never used again."""

    detail: str = ""


class PresenceChanged(Happened, frozen=True, kw_only=True):
    """A session went live or its lease lapsed. Heartbeats themselves are not events."""

    presence: str


class InboxSeen(Happened, frozen=True, kw_only=True):
    """A reader acknowledged items after its own flush: (task id, version of the task) each."""

    party: str
    items: tuple[tuple[str, int], ...]


class CommandRefused(Happened, frozen=True, kw_only=True):
    """An authenticated actor was refused; at most one a minute per actor, object and trace."""

    command: str
    code: str
    object: str
    message: str
    count: int = 1


TaskEvents = (
    TaskSubmitted
    | TaskClaimed
    | TaskProgressed
    | QuestionAsked
    | QuestionAnswered
    | ResultHandedIn
    | CheckReported
    | ResultApproved
    | ChangesRequested
    | ResultRefused
    | TaskDeclined
    | TaskFailed
    | TaskHeld
    | TaskAdmitted
    | TaskTurnedAway
    | PermissionRequested
    | PermissionDecided
    | CancelRequested
    | TaskCanceled
    | CascadeFinished
    | TaskReassigned
    | TaskReleased
    | LeaseLapsed
    | LeaseRecovered
    | HolderReturned
    | TaskDoubted
    | DoubtSettled
    | TaskExpired
    | TaskRestarted
    | TaskFrozen
    | TaskCorrected
    | TraceSettled
    | TurnMoved
    | TaskModeChanged
    | DeliveryRecorded
    | DeliveryLeased
    | DeliveryBegun
    | DeliveryReturned
    | DeliveryUnverified
)

PlaceEvents = (
    HostStarted
    | HostModeChanged
    | PersonJoined
    | WorkspaceRegistered
    | CoordinatorChosen
    | ProviderAllowed
    | CheckAdded
    | CheckRemoved
    | WorkspaceModeChanged
    | AgentJoined
    | AgentRenamed
    | AgentLeft
    | AgentModeChanged
    | SessionOpened
    | SessionModeChanged
    | SessionEnded
    | PresenceChanged
    | InboxSeen
    | CommandRefused
)

Event = TaskEvents | PlaceEvents


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
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
