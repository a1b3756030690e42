"""What the machines decide over: a task, its deliveries, and the frozen context of one decision.

May live here: state shapes, no rules. `Context` is filled by `app`: the rules themselves never look anything up.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

import msgspec

from tallystick.core.directory import Directory
from tallystick.core.identity import Actor
from tallystick.core.limits import Limits
from tallystick.core.model import (
    FINAL_STATES,
    Artifact,
    Budget,
    CheckRun,
    CheckSpec,
    Expects,
    Fact,
    Reason,
    Reference,
    Spent,
    TaskState,
    Value,
    place,
)

_SUBMITTED = Fact.SUBMITTED


class FactSeen(Value, frozen=True):
    """One fact of a delivery: when, and on whose word."""

    fact: Fact
    at: float
    witness: str
    evidence: str = ""


_fact_of = attrgetter("fact")
_PUSHED = frozenset({"intended", "performed", "unverified"})
"""Intents of what a recipient has got."""


class Delivery(Value, frozen=True):
    """One attempt to hand one message of a task to one recipient."""

    delivery_id: str
    kind: str
    sender: str
    recipient: str
    attempt: int
    facts: tuple[FactSeen, ...]
    created_at: float
    updated_at: float
    session: str = ""
    ended: str = ""
    """canceled, expired, failed (lease), rejected …; empty while open, and for good once submitted."""
    due_at: float = 0.0
    """When to push it; 0 where the recipient pulls."""
    intent_id: str = ""
    intent: str = ""
    """intended, performed, refuted or unverified; empty where nothing was pushed."""
    retries: int = 0
    unverified: bool = False
    prompted: bool = False
    """A prompt for it was written down, so it may have been sent."""
    is_repeat: bool = False
    """An earlier holder began it and was lost: only who says that twice is as good as once may get it."""

    @property
    def fact(self) -> Fact:
        """The furthest fact."""
        return self.facts[-1].fact

    def has(self, fact: Fact) -> bool:
        """Whether somebody witnessed that."""
        return fact in map(_fact_of, self.facts)

    @property
    def open(self) -> bool:
        """Whether something can still become of it."""
        return not self.ended and self.facts[-1].fact is not _SUBMITTED

    @property
    def in_flight(self) -> bool:
        """Whether it was pushed and its outcome is not known: nothing is tried again without somebody's word."""
        return self.intent in ("intended", "unverified") and self.open


class Said(Value, frozen=True):
    """A message of a task: who said it, what kind it was; the words stand in the event at `version`."""

    message_id: str
    kind: str
    sender: str
    at: float
    version: int


class Permission(Value, frozen=True):
    """One exact action that waits or waited for a person's yes."""

    permission_id: str
    action: str
    digest: str
    requested_at: float
    decision: str = ""
    options: tuple[str, ...] = ("allow_once", "reject_once")


NOT_RELEASED: Final = ("", "")


class Task(Value, frozen=True):
    """A task as folded from its events. In front what it is called, then how it was asked for, under the same names as
    in that event."""

    task_id: str
    workspace: str
    trace: str
    title: str
    created_at: float
    updated_at: float
    version: int
    state: TaskState
    reason: Reason
    turn: str
    requester: str
    subject: str
    assignee: str = ""
    fresh: bool = False
    fork_of: str = ""
    reviewer: str = ""
    expects: Expects = Expects.ANSWER
    done_when: CheckSpec | None = None
    deadline_at: float = 0.0
    digest: str = ""
    parent: str = ""
    retry_of: str = ""
    depth: int = 0
    on_failure: str = ""
    compensates: str = ""
    domains: tuple[str, ...] = ()
    group: str = ""
    retry: str = ""
    stall_seconds: float = 0.0
    ack_seconds: float = 0.0
    reply_to: str = ""
    forwards: str = ""
    """The task whose result it brings."""
    traceparent: str = ""
    inputs: tuple[Reference, ...] = ()
    repository: str = ""
    base_commit: str = ""
    budget: Budget = Budget()
    provider: str = ""
    promise: str = ""
    level: str = ""
    rule: str = ""
    wake: bool = False
    session_wanted: str = ""
    capability: str = ""
    """`Name` or `Name@1.2`: what is asked of its holder; empty for a task of an ordinary agent."""
    route: str = ""
    """`cap:Name` where the host chooses the holder, for each attempt anew; empty where somebody was named."""
    key: str = ""
    forwarded: bool = False
    """Its result went on to `reply_to`, or cannot go there."""
    holder: str = ""
    session: str = ""
    last_holder: str = ""
    last_session: str = ""
    fence: int = 0
    fence_before: int = 0
    """The fence before the last recovery: the same session may come back with it once."""
    claim_key: str = ""
    lease_until: float = 0.0
    lease_seconds: float = 0.0
    attempt: int = 1
    taken_at: float = 0.0
    handed_in_at: float = 0.0
    turn_version: int = 0
    revision: int = 0
    review_wanted: bool = False
    commit: str = ""
    references: tuple[Reference, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    runs: tuple[CheckRun, ...] = ()
    messages: tuple[Said, ...] = ()
    rounds: int = 0
    failures: int = 0
    """Rounds of compensation begun."""
    cancel_requested_at: float = 0.0
    cancel_by_person: bool = False
    cascade: tuple[str, ...] = ()
    """Children still to be told of a cancel."""
    released: tuple[str, str] = NOT_RELEASED
    """(session, digest of the reason) of the last release."""
    permissions: tuple[Permission, ...] = ()
    resume_state: TaskState | None = None
    """Where a permission or a freeze interrupted it."""
    resume_reason: Reason = Reason.NONE
    mode: str = ""
    settled: bool = False
    erased: bool = False
    """Its words were erased."""
    closed_at: float = 0.0
    doubt: str = ""
    running: str = ""
    """The turn that is under way in a session which the host drives."""
    turns: int = 0
    """How many turns were begun for it."""
    handed_on: tuple[str, ...] = ()
    """The agents that the host took it from because their quota was used up."""
    reminders: int = 0
    """Turns in a row that only reminded of it."""
    resumes: int = 0
    """Turns in a row that went on with an interrupted one."""
    refuted: bool = False
    """Its check failed, and its session was not told yet."""
    spent: Spent = Spent()
    """Of all turns that have ended."""
    spending: Spent = Spent()
    """Of the turn under way, as far as it was told."""
    said_version: int = 0
    """The version without later notes of turns: what somebody has looked at is not made old by them."""

    @property
    def open(self) -> bool:
        """Whether it is not in a final state."""
        return self.state not in FINAL_STATES

    @property
    def place(self) -> str:
        """State and reason as one word, as in the tables: `input_required/question`."""
        return place(self.state, self.reason)


def same_place(task: Task) -> dict[str, Any]:
    """State and reason for an event that leaves them as they are."""
    return {"state": task.state, "reason": task.reason}


_FIELDS = Task.__struct_fields__
TASK_SAME = _FIELDS[_FIELDS.index("state") : _FIELDS.index("session_wanted")]
"""The fields that stand in the event of its submission under the same name, in the order of the task."""


class Work(msgspec.Struct, frozen=True, gc=False):
    """The aggregate of a task's stream: the task and its deliveries, oldest first."""

    task: Task
    deliveries: tuple[Delivery, ...] = ()

    def delivery(self, delivery_id: str) -> Delivery | None:
        """The delivery with that id."""
        for d in self.deliveries:
            if d.delivery_id == delivery_id:
                return d
        return None

    @property
    def assignment(self) -> Delivery | None:
        """The newest delivery of the work itself (an assignment or a change)."""
        for d in reversed(self.deliveries):
            if d.kind in ("assignment", "change"):
                return d
        return None

    @property
    def in_flight(self) -> bool:
        """Whether the work itself was pushed and its outcome is not known."""
        assignment = self.assignment
        return bool(self.task.running) or (assignment is not None and assignment.in_flight)

    def is_pushed_to(self, agent: str) -> bool:
        """Whether the host handed it to that agent, and it may still go on there without anybody's word."""
        if self.task.assignee != agent or not self.task.open or self.task.reason is Reason.UNVERIFIED:
            return False
        goes_on = bool(self.task.session) and self.task.state is TaskState.WORKING
        return goes_on or any(d.open and d.recipient == agent and d.intent in _PUSHED for d in self.deliveries)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the work itself was pushed, and whoever had it was lost sight of."""
        assignment = self.assignment
        return assignment is not None and assignment.in_flight and assignment.unverified


class Context(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything else one decision rests on, frozen by `app` before it asks."""

    now: float
    """High-water time, UTC seconds."""
    actor: Actor
    directory: Directory
    limits: Limits
    parent: Task | None = None
    """The parent named or implied by the command."""
    source: Task | None = None
    """The task whose result the command sends on."""
    ancestors: tuple[Task, ...] = ()
    """Parent, its parent, and so on."""
    held: tuple[str, ...] = ()
    """Open tasks that the acting session holds."""
    open_children: tuple[str, ...] = ()
    open_parts: tuple[str, ...] = ()
    """Open tasks of the trace."""
    siblings: int = 0
    """Open children of the parent, where the parts of one dispatch count as one; of this task's own dispatch none."""
    parts: int = 0
    """Open parts of this task's own dispatch."""
    duplicate: Task | None = None
    """The task that this sender already made with this key in this workspace."""
    queued: int = 0
    queued_by_sender: int = 0
    outstanding: int = 0
    """Deliveries to the recipient that are dispatched and not ended."""
    in_hand: tuple[str, ...] = ()
    """Tasks that were pushed to the agent that the command is about, and that it is not done with."""
    live: frozenset[str] = frozenset()
    """Of the agents that the command names: those heard from within the presence time."""
    reachable: frozenset[str] = frozenset()
    """Of the agents that the command names: those that an entry would wake now, or that are connected and take work."""
    lease_until: float = 0.0
    """Renewed lease kept in memory, if it is later than the recorded one."""


class Unchanged(msgspec.Struct, frozen=True):
    """The command asks for what already is: nothing is recorded, the answer is the first one."""

    task_id: str
    duplicate: bool = False
