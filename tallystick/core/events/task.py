"""Events of a task and its deliveries."""

from __future__ import annotations

from tallystick.core.events.words import Happened
from tallystick.core.model import Artifact, Budget, CheckRun, CheckSpec, Expects, Reason, Reference, TaskState


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
    fresh: bool = False
    """A new session of an agent that the host drives, also where one is idle."""
    fork_of: str = ""
    """A new session that goes on with a copy of this one's conversation; this one stays as it is."""
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
    capability: str = ""
    """What is asked of a named assignee, as `Name` or `Name@1.2`; the assignee `cap:Name` says so itself."""
    domains: tuple[str, ...] = ()
    """In which domains a holder may be; an empty name among them: in none. Empty: in any."""
    group: str = ""
    """The dispatch that it is a part of: all parts count as one child of their parent."""
    retry: str = ""
    """`none`: what did not begin is not tried again; empty: it is, by backoff."""
    stall_seconds: float = 0.0
    ack_seconds: float = 0.0
    """How long each spoke may take to say that it has the message; 0: as the host has it set."""
    reply_to: str = ""
    """The capability that the result goes to as well, as a message of its own."""
    forwards: str = ""
    """The task whose result this message brings."""
    traceparent: str = ""
    """The sender's span (W3C Trace Context), carried through for programs that trace; means nothing here."""


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
    code: str = ""
    """Why, in one word of its holder, where it gave one."""


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


class ResultForwarded(TaskEvent, frozen=True, kw_only=True):
    """The result went on to where its sender wanted it, as a message of its own; or it could not."""

    message: str = ""
    """The task that brings it there; empty where that was refused."""
    code: str = ""
    """Why it was refused: an error code."""
    detail: str = ""


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
    """The holder was silent for a whole lease, or its session has ended; the task is due again with a new attempt."""

    delivery_id: str
    previous: str
    detail: str = ""
    """Why, where it was not the time."""


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

    detail: str = ""
    """Why nobody had begun it, where nobody had."""


class TaskRestarted(TaskEvent, frozen=True, kw_only=True):
    """The compensation ended: well, and the original runs again; or not, or there was none, and it is the next round's
    turn or over."""

    delivery_id: str
    detail: str = ""
    """Why there was no compensation, where there was none."""


class TaskFrozen(TaskEvent, frozen=True, kw_only=True):
    """Too many messages without an artifact, a check or human input."""

    messages: int


class TaskCorrected(TaskEvent, frozen=True, kw_only=True):
    """A person set the state by hand and said why."""

    delivery_id: str = ""
    """The new attempt, where it is to be handed over again and none is open."""
    lease_until: float = 0.0


class TraceSettled(TaskEvent, frozen=True, kw_only=True):
    """Every part of the trace is final and was declared settled."""


class TextsErased(TaskEvent, frozen=True, kw_only=True):
    """A person had the words of this task erased; the tombstone of what was said."""


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
    recipient: str = ""
    """The holder that was chosen, where the task was for a capability."""


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
    | TaskAdmitted
    | TaskTurnedAway
    | PermissionRequested
    | PermissionDecided
    | CancelRequested
    | TaskCanceled
    | CascadeFinished
    | ResultForwarded
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
    | TextsErased
    | TurnMoved
    | TaskModeChanged
    | DeliveryRecorded
    | DeliveryLeased
    | DeliveryBegun
    | DeliveryReturned
    | DeliveryUnverified
)
