"""The nouns: task states, messages, artifacts, references, evidence, checks. Frozen values after A2A 1.0.

May live here: data shapes that several rooms share. No behaviour beyond small properties.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Value(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A frozen record; fields at their default are left out of its JSON. It can be part of no cycle, so the garbage
    collector is not told of it; the same holds for the other records of the rules."""


class TaskState(StrEnum):
    """The states of A2A, spelled A2A's way."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    AUTH_REQUIRED = "auth_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"


FINAL_STATES: Final = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})


class Reason(StrEnum):
    """Why a task is in its state. Closed; which go with which state stands in `core.task.REASONS`."""

    NONE = ""
    NEW = "new"
    REWORK = "rework"
    UNASSIGNED = "unassigned"
    COMPENSATING = "compensating"
    ANSWERED = "answered"
    CHECKING = "checking"
    QUESTION = "question"
    REVIEW = "review"
    FROZEN = "frozen"
    UNVERIFIED = "unverified"
    PERMISSION = "permission"
    GRANT = "grant"
    INBOUND = "inbound"
    APPROVED = "approved"
    VERIFIED = "verified"
    UNREVIEWED = "unreviewed"
    ERROR = "error"
    REFUTED = "refuted"
    EXPIRED = "expired"
    BUDGET = "budget"
    NO_ROUTE = "no_route"
    OFFLINE = "offline"
    EXHAUSTED = "exhausted"
    BY_REQUESTER = "by_requester"
    BY_PERSON = "by_person"
    BY_AGENT = "by_agent"
    BY_POLICY = "by_policy"


def place(state: TaskState, reason: Reason) -> str:
    """State and reason as one word; a state without a reason ends in nothing: `working`."""
    return _PLACES[state, reason]


_PLACES: Final = {
    (state, reason): f"{state.value}/{reason.value}" if reason.value else state.value
    for state in TaskState
    for reason in Reason
}


class Expects(StrEnum):
    """What kind of result the requester wants."""

    ANSWER = "answer"
    CHANGE = "change"
    FINDING = "finding"


class Fact(StrEnum):
    """How far a delivery got; each is said only by its own witness."""

    ACCEPTED = "accepted"
    PERSISTED = "persisted"
    CLAIMED = "claimed"
    ADMITTED = "admitted"
    RECORDED = "recorded"
    WORKING = "working"
    SUBMITTED = "submitted"
    UNVERIFIED = "unverified"


class Promise(StrEnum):
    """What the sender is told at send time about when this recipient will see it."""

    LIVE = "live"
    NEXT_TURN = "next_turn"
    MAILBOX = "mailbox"
    OFFLINE = "offline"


class GitReference(Value, frozen=True, tag="git"):
    """Bytes in a git repository. The git ids find them, `sha256` and `size` (bytes) authorise them.

    `repository` is the host's id for the repository. An empty `path` means the whole tree of the commit:
    then `object` is the tree id and `sha256`, `size` are over the output of `git ls-tree -r -z --full-tree`.
    `lines` is a 1-based inclusive range with the digest of exactly those bytes in `lines_sha256`.
    """

    repository: str
    commit: str
    path: str
    object: str
    sha256: str
    size: int
    mode: str = "100644"
    lines: tuple[int, int] | None = None
    lines_sha256: str = ""
    snapshot_of: str = ""
    """The base commit when `commit` is a snapshot of uncommitted work."""


class BlobReference(Value, frozen=True, tag="blob"):
    """Bytes in the host's own content-addressed store; `size` in bytes."""

    sha256: str
    size: int
    name: str = ""


class ExternalReference(Value, frozen=True, tag="external"):
    """Something outside that the host does not check: a URL, an object key, a record id."""

    target: str


Reference = GitReference | BlobReference | ExternalReference


def as_typed(reference: Reference) -> str:
    """A reference as people type it, in the form that means the same everywhere: `COMMIT:PATH`, `blob:SHA256`, URL."""
    if isinstance(reference, BlobReference):
        return f"blob:{reference.sha256}"
    if isinstance(reference, ExternalReference):
        return reference.target
    place = f"{reference.commit}:{reference.path}" if reference.path else reference.commit
    return f"{place}:{reference.lines[0]}-{reference.lines[1]}" if reference.lines else place


class Part(Value, frozen=True):
    """One piece of a message or artifact: text or a reference."""

    text: str = ""
    reference: Reference | None = None


class Artifact(Value, frozen=True):
    """Something made under a task. Only `observer="host"` counts as verified."""

    artifact_id: str
    name: str
    parts: tuple[Part, ...]
    producer: str
    observer: str = "agent"


class Brief(Value, frozen=True):
    """What the work is, in at most 8 KiB of JSON; larger content goes by reference."""

    intent: str = ""
    action_required: str = ""
    known_facts: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    context: str = ""


class Budget(Value, frozen=True):
    """Upper bounds for one task; 0 means no bound given."""

    tokens: int = 0
    cents: int = 0
    seconds: int = 0


class Spent(Value, frozen=True):
    """What turns used, brought to one measure. What a client does not report stays 0 and is named in `unknown`."""

    tokens: int = 0
    """Read and written, all model calls."""
    micros: int = 0
    """Millionths of a US dollar, by the client's own price table."""
    seconds: float = 0.0
    unknown: tuple[str, ...] = ()
    """Of `tokens` and `cost`: what could not be told."""

    def plus(self, other: Spent) -> Spent:
        """Both together; unknown is what is unknown of either."""
        return Spent(
            tokens=self.tokens + other.tokens,
            micros=self.micros + other.micros,
            seconds=round(self.seconds + other.seconds, 3),
            unknown=tuple(sorted({*self.unknown, *other.unknown})),
        )

    def over(self, budget: Budget) -> str:
        """Which bound of a budget is exceeded, in words; empty if none is."""
        if budget.tokens and self.tokens > budget.tokens:
            return f"{self.tokens} tokens of {budget.tokens}"
        if budget.cents and self.micros > budget.cents * 10_000:
            return f"{self.micros / 10_000:.2f} cents of {budget.cents}"
        if budget.seconds and self.seconds > budget.seconds:
            return f"{self.seconds:.0f} s of {budget.seconds} s"
        return ""


class CheckKind(StrEnum):
    """`test` needs at least one test that ran; `command` only its exit code."""

    TEST = "test"
    COMMAND = "command"


class CheckSpec(Value, frozen=True):
    """A check as a person registered it (or ad hoc, with `check_id` empty), with the environment of their shell."""

    name: str
    argv: tuple[str, ...]
    kind: CheckKind = CheckKind.COMMAND
    check_id: str = ""
    setup: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    search_path: str = ""
    virtual_env: str = ""
    network: bool = False
    seconds: int = 600
    output_bytes: int = 10 * 1024 * 1024


class Output(Value, frozen=True):
    """What a stream of a process held: digest and size of all of it; `truncated` if not all was kept."""

    sha256: str
    size: int
    truncated: bool = False


NO_OUTPUT: Final = Output(sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", size=0)
"""Of a process that wrote nothing there, or never began."""


class TestCounts(Value, frozen=True):
    """What a test run counted, from JUnit or a known runner's closing line."""

    ran: int = 0
    failed: int = 0
    skipped: int = 0
    source: str = ""


class CheckOutcome(StrEnum):
    """How a check ended. `error` means that the host could not run it: it says nothing about the work."""

    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "no_tests"
    TIMED_OUT = "timed_out"
    ERROR = "error"


class CheckRun(Value, frozen=True):
    """What the host saw when it ran a check or a command agent. Times are UTC seconds since 1970."""

    check: str
    argv: tuple[str, ...]
    outcome: CheckOutcome
    commit: str = ""
    repository: str = ""
    directory: str = "."
    environment_sha256: str = ""
    sandbox: str = "none"
    exit_code: int | None = None
    signal: int | None = None
    started_at: float = 0.0
    ended_at: float = 0.0
    stdout: Output | None = None
    stderr: Output | None = None
    tests: TestCounts | None = None
    protected_changed: tuple[str, ...] = ()
    detail: str = ""
