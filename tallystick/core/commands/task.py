"""Commands to a task."""

from __future__ import annotations

from tallystick.core.commands.asked import Asked
from tallystick.core.events import Text
from tallystick.core.model import Artifact, Budget, CheckRun, CheckSpec, Expects, Reference, TaskState
from tallystick.core.model import Reason as WhyState


class TaskCommand(Asked, frozen=True, kw_only=True):
    """A command to one task."""

    task_id: str
    base: int | None = None
    """Version of the task that the caller had seen; an older one than is there is refused as stale."""


class HolderCommand(TaskCommand, frozen=True, kw_only=True):
    """A write of the session that holds the task.

    `fence` None: the standing session of the CLI, which need not type it.
    """

    fence: int | None = None


class SubmitTask(TaskCommand, frozen=True, kw_only=True):
    """Ask for work."""

    workspace: str
    trace: str
    delivery_id: str
    message_id: str
    text: Text
    assignee: str = ""
    """An agent, a person, `cap:Name`, or empty for the coordinator to choose."""
    session: str = ""
    fresh: bool = False
    fork_of: str = ""
    requester: str = ""
    """Whom the result goes to; only the host may name another than the actor."""
    expects: Expects = Expects.ANSWER
    done_when: CheckSpec | None = None
    reviewer: str = ""
    deadline_at: float = 0.0
    key: str = ""
    digest: str = ""
    parent: str | None = None
    """None: the one task that the asking session holds; empty: a root."""
    retry_of: str = ""
    on_failure: str = ""
    inputs: tuple[Reference, ...] = ()
    repository: str = ""
    base_commit: str = ""
    budget: Budget = Budget()
    wake: bool = False
    compensates: str = ""
    level: str = ""
    capability: str = ""
    """What is asked of the assignee, where that is an agent and no `cap:`."""
    domain: str = ""
    """The one domain that the sender wants; empty: each that it sees."""
    domains: tuple[str, ...] | None = None
    """What the door knows of the sender's domains; None on the local socket."""
    group: str = ""
    retry: str = ""
    stall_seconds: float = 0.0
    ack_seconds: float = 0.0
    """How long each spoke may take to say that it has the message; 0: as the host has it set."""
    reply_to: str = ""
    """`Name` or `Name@1.2`: the capability that the result goes on to, as a message of its own."""
    forwards: str = ""
    """The task whose result this message brings; the host alone sends one on."""
    traceparent: str = ""
    """The sender's span (W3C Trace Context); empty: that of the parent."""
    at_once: bool = False
    """Refuse it as offline where no holder can be expected back."""


class ClaimTask(TaskCommand, frozen=True, kw_only=True):
    """`take`: the assignee's session starts on it."""

    session: str = ""
    key: str = ""


class ReportProgress(HolderCommand, frozen=True, kw_only=True):
    """Say how it goes; renews the lease."""

    text: Text
    fraction: float | None = None


class AskQuestion(HolderCommand, frozen=True, kw_only=True):
    """Hand the turn back to the requester with a question."""

    message_id: str
    text: Text


class AnswerQuestion(TaskCommand, frozen=True, kw_only=True):
    """Answer the open question, or give a frozen task human input."""

    message_id: str
    delivery_id: str
    text: Text


class HandInResult(HolderCommand, frozen=True, kw_only=True):
    """`submit`: the result, with references whose digests were checked at the door.

    `changed` and `blank` are what the evidence check saw: paths that differ from the base, and named files that are
    empty or white space.
    """

    message_id: str
    delivery_id: str
    text: Text
    commit: str = ""
    references: tuple[Reference, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    commits: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()
    review_wanted: bool = False
    run: CheckRun | None = None


class ReportCheck(TaskCommand, frozen=True, kw_only=True):
    """What the host saw when it ran the named check for this revision."""

    revision: int
    run: CheckRun


class ApproveResult(TaskCommand, frozen=True, kw_only=True):
    """Accept the revision that was last shown to the reviewer."""

    revision: int
    text: Text | None = None


class RequestChanges(TaskCommand, frozen=True, kw_only=True):
    """Ask for changes to the revision that was last shown to the reviewer."""

    revision: int
    message_id: str
    delivery_id: str
    text: Text


class RefuseResult(TaskCommand, frozen=True, kw_only=True):
    """Refuse the result for good."""

    revision: int
    text: Text


class DeclineTask(TaskCommand, frozen=True, kw_only=True):
    """The assignee says no."""

    text: Text


class FailTask(HolderCommand, frozen=True, kw_only=True):
    """Report failure. The host may also fail a task for budget, no_route or offline."""

    text: Text
    why: WhyState = WhyState.ERROR
    run: CheckRun | None = None
    code: str = ""


class AdmitTask(TaskCommand, frozen=True, kw_only=True):
    """A person lets a held task in."""


class TurnAwayTask(TaskCommand, frozen=True, kw_only=True):
    """A person or policy turns a task away."""

    text: Text | None = None


class RequestPermission(TaskCommand, frozen=True, kw_only=True):
    """A connection or the host needs a person's yes for one exact action."""

    permission_id: str
    action: str
    digest: str
    options: tuple[str, ...] = ("allow_once", "reject_once")
    """What may be chosen, as whoever asks offers it."""


class DecidePermission(TaskCommand, frozen=True, kw_only=True):
    """A person's answer (or the time-out's no) to one permission."""

    permission_id: str
    decision: str
    digest: str = ""


class CancelTask(TaskCommand, frozen=True, kw_only=True):
    """Stop it; canceled at once before dispatch, else once everything of it has ended. Again: no event."""

    text: Text | None = None


class ConfirmCancel(TaskCommand, frozen=True, kw_only=True):
    """The host saw that everything of it has ended."""


class FinishCascade(TaskCommand, frozen=True, kw_only=True):
    """The children of a canceled task were told."""


class ForwardResult(TaskCommand, frozen=True, kw_only=True):
    """The result was sent on to where its sender wanted it, or cannot be."""

    message: str = ""
    """The task that brings it there; empty where that was refused."""
    code: str = ""
    """Why it was refused: an error code."""
    detail: str = ""


class ReassignTask(TaskCommand, frozen=True, kw_only=True):
    """Give it to another assignee."""

    assignee: str
    delivery_id: str
    session: str = ""
    text: Text | None = None


class ReleaseTask(HolderCommand, frozen=True, kw_only=True):
    """The holder gives it back; also how a pull holder confirms a cancel."""

    delivery_id: str
    text: Text
    note: str
    """Digest of the reason: the same again is no event, another is refused."""


class LapseLease(TaskCommand, frozen=True, kw_only=True):
    """The lease of a pull holder is over, or its session has ended."""

    delivery_id: str
    fence: int
    detail: str = ""


class RecoverLease(TaskCommand, frozen=True, kw_only=True):
    """After a start of the host: raise the fence, grant one full lease."""


class DoubtTask(TaskCommand, frozen=True, kw_only=True):
    """Nobody reconciled the outcome in time: a person has to look."""

    detail: str = ""


class SettleDoubt(TaskCommand, frozen=True, kw_only=True):
    """Tell the outcome of what was unverified: done, failed, redo or cancel."""

    outcome: str
    delivery_id: str
    text: Text


class ExpireTask(TaskCommand, frozen=True, kw_only=True):
    """The deadline has passed. `ended`: the host saw that nothing of what it had started runs any more."""

    ended: bool = False
    detail: str = ""
    """Why nobody had begun it, where nobody had."""


class RestartTask(TaskCommand, frozen=True, kw_only=True):
    """The compensation child ended; `done` tells whether well."""

    delivery_id: str
    done: bool
    why_none: str = ""
    """Why there is no compensation and never will be; empty where there was one."""


class FreezeTask(TaskCommand, frozen=True, kw_only=True):
    """The rounds guard stops a conversation that gets nowhere."""


class CorrectTask(TaskCommand, frozen=True, kw_only=True):
    """A person sets the state by hand, with a reason."""

    state: TaskState
    reason: WhyState
    text: Text
    delivery_id: str = ""
    """Of the new attempt, where it is to be handed over again."""


class SettleTrace(TaskCommand, frozen=True, kw_only=True):
    """Declare the trace of this root task finished; refused while a part is open."""


class EraseTexts(TaskCommand, frozen=True, kw_only=True):
    """Erase the words of a task for good; the events stay."""


class MoveTurn(TaskCommand, frozen=True, kw_only=True):
    """Work out again whose turn it is (a party left)."""


class SetTaskMode(TaskCommand, frozen=True, kw_only=True):
    """`pause` or `resume` one task."""

    mode: str


class RecordDelivery(TaskCommand, frozen=True, kw_only=True):
    """A reader acknowledged the body of its delivery after its own flush."""

    delivery_id: str
    witness: str
    proof: str = "inferred"


class LeaseDelivery(TaskCommand, frozen=True, kw_only=True):
    """About to push: write the intent ahead."""

    delivery_id: str
    session: str
    intent_id: str
    lease_seconds: float
    recipient: str = ""
    """The holder that was chosen for a capability."""


class BeginDelivery(TaskCommand, frozen=True, kw_only=True):
    """The recipient has it (the keeper of a command: ready, with the brief)."""

    delivery_id: str
    witness: str
    proof: str = "inferred"
    evidence: str = ""


class ReturnDelivery(TaskCommand, frozen=True, kw_only=True):
    """It was not dispatched after all; try again at `retry_at` or give up."""

    delivery_id: str
    retry_at: float
    detail: str = ""


class DoubtDelivery(TaskCommand, frozen=True, kw_only=True):
    """It was dispatched and the host lost sight of it."""

    delivery_id: str
    detail: str = ""


TaskCommands = (
    SubmitTask
    | ClaimTask
    | ReportProgress
    | AskQuestion
    | AnswerQuestion
    | HandInResult
    | ReportCheck
    | ApproveResult
    | RequestChanges
    | RefuseResult
    | DeclineTask
    | FailTask
    | AdmitTask
    | TurnAwayTask
    | RequestPermission
    | DecidePermission
    | CancelTask
    | ConfirmCancel
    | FinishCascade
    | ForwardResult
    | ReassignTask
    | ReleaseTask
    | LapseLease
    | RecoverLease
    | DoubtTask
    | SettleDoubt
    | ExpireTask
    | RestartTask
    | FreezeTask
    | CorrectTask
    | SettleTrace
    | EraseTexts
    | MoveTurn
    | SetTaskMode
    | RecordDelivery
    | LeaseDelivery
    | BeginDelivery
    | ReturnDelivery
    | DoubtDelivery
)
