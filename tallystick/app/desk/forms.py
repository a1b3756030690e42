"""What the desk takes and gives: one struct per verb, the same for every door.

Results are encoded as they stand for `--json`: keys may be added, never removed. Parties are shown as `@alias`; ids in
full; times as ISO 8601 UTC; ages and durations in seconds.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Form(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of what a verb takes or gives."""


# --- taken ------------------------------------------------------------------------------------------------------


class Ask(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tally ask ADDRESS TITLE`."""

    address: str
    title: str
    body: str = ""
    inputs: tuple[str, ...] = ()
    """`PATH`, `PATH:10-20`, a git revision, `REV:PATH`, `blob:sha256`, or a URL."""
    expect: str = ""
    done_when: str = ""
    done_when_argv: tuple[str, ...] = ()
    review_by: str = ""
    deadline: str = ""
    """A duration (`90s`, `2h`, `3d`) from now, or an ISO time."""
    session: str = ""
    """`fresh` or `fork`: a new session of a driven agent; `reuse` or empty: one that is idle, else a new one."""
    budget: str = ""
    """What sessions that the host drives may use for it: `tokens=N,cents=N,seconds=N`, each if wanted."""
    key: str = ""
    parent: str = ""
    """An id, `none`, or empty for the one task that the session holds."""
    on_failure: str = ""
    retry_of: str = ""
    wake: bool = False
    message_id: str = ""
    intent: str = ""
    action_required: str = ""
    context: str = ""
    known_facts: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()


class HandIn(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tally submit ID`."""

    task: str
    text: str = ""
    failed: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    review: bool = False
    fence: int | None = None


class Join(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tally join NAME`; None = not given."""

    name: str
    run: tuple[str, ...] | None = None
    client: str | None = None
    drive: str | None = None
    wake: str | None = None
    strengths: str | None = None
    capabilities: tuple[str, ...] | None = None
    domains: tuple[str, ...] | None = None
    provider: str | None = None
    inbound: str | None = None
    display_name: str | None = None
    concurrency: int | None = None
    seconds: int | None = None
    network: bool | None = None
    model: str | None = None
    required: str | None = None
    """E2 or E3: no session below that level is started."""


class NewCheck(Form, frozen=True, kw_only=True):
    """`tally check add NAME -- ARGV…`."""

    name: str
    argv: tuple[str, ...]
    kind: str = ""
    """test, command, or empty: by the runner that argv names."""
    setup: str = ""
    protect: tuple[str, ...] = ()
    bind: tuple[str, ...] = ()
    network: bool = False
    seconds: int = 0


class Watch(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tally watch add AGENT`: one of `file`, `ref` and `inbox`."""

    agent: str
    file: str = ""
    """A path, or a pattern with `*`, `?`, `[…]` or `**`."""
    ref: str = ""
    repo: str = ""
    """The directory whose repository `ref` is in; empty: where the caller is."""
    inbox: bool = False


# --- given ------------------------------------------------------------------------------------------------------


class Receipt(Form, frozen=True, kw_only=True):
    """What `ask` answers with, after the commit."""

    task_id: str
    trace: str
    promise: str
    provider: str
    level: str
    duplicate: bool
    state: str
    reason: str
    to: str
    workspace: str
    registered: str = ""
    """The directory that this ask registered as a workspace, if it did."""
    unresolved: tuple[str, ...] = ()
    """Mentions in the text that lead to nobody."""


class Taken(Form, frozen=True, kw_only=True):
    """What `take` answers with: the right to work on it, and the whole work."""

    task_id: str
    fence: int
    lease_until: str
    delivery_id: str
    title: str
    brief: dict[str, Any]


class Outcome(Form, frozen=True, kw_only=True):
    """What has become of a task so far, without its history: for whoever waits for the result alone."""

    task_id: str
    state: str
    reason: str
    turn: str
    version: int
    revision: int
    result: str
    """The words of the newest hand-in."""
    commit: str
    question: str
    verdict: str
    """The words of a failure, refusal or wish for changes."""
    unverified: bool


class Moved(Form, frozen=True, kw_only=True):
    """Where a task is after a verb."""

    task_id: str
    state: str
    reason: str
    turn: str
    version: int
    changed: bool = True
    """False: it was so already, nothing was recorded."""
    fence: int = 0
    revision: int = 0
    cancel_requested: bool = False
    """Cancel was asked; it is canceled once nothing of it runs any more."""


class FactShown(Form, frozen=True, kw_only=True):
    """One fact with its witness."""

    fact: str
    at: str
    witness: str
    evidence: str


class Line(Form, frozen=True, kw_only=True):
    """One event as a line: for history, trace and activity. `trace` is told of what belongs to no task (a refusal)."""

    position: int
    at: str
    who: str
    asserted: bool
    what: str
    task_id: str
    before: str
    after: str
    text: str
    workspace: str = ""
    seconds: float | None = None
    error: str = ""
    link: str = ""
    """Of a message to a capability: its link before and after, as `IDLE → PROVISIONED`, or the one it stayed at."""
    trace: str = ""


class RunShown(Form, frozen=True, kw_only=True):
    """What the host saw when it ran something."""

    check: str
    outcome: str
    commit: str
    argv: tuple[str, ...]
    exit_code: int | None
    signal: int | None
    sandbox: str
    seconds: float
    stdout_sha256: str
    stdout_bytes: int
    stderr_sha256: str
    stderr_bytes: int
    environment_sha256: str
    tests: str
    detail: str
    protected_changed: tuple[str, ...] = ()
    output_tail: str = ""


class Shown(Form, frozen=True, kw_only=True):
    """`tally show ID`."""

    task_id: str
    title: str
    state: str
    reason: str
    turn: str
    label: str
    brief: dict[str, Any]
    facts: tuple[FactShown, ...]
    artifacts: tuple[dict[str, Any], ...]
    history: tuple[Line, ...]
    workspace: str
    trace: str
    parent: str
    requester: str
    assignee: str
    holder: str
    session: str
    reviewer: str
    fence: int
    attempt: int
    revision: int
    lease_until: str
    deadline_at: str
    promise: str
    provider: str
    level: str
    result: str
    commit: str
    references: tuple[dict[str, Any], ...]
    inputs: tuple[dict[str, Any], ...]
    checks: tuple[RunShown, ...]
    question: str
    answer: str
    waiting_on: tuple[str, ...]
    cancel_requested: bool
    attempts: tuple[dict[str, Any], ...]
    permissions: tuple[dict[str, Any], ...]
    silent_seconds: float
    """How long nothing has happened to it while it is open; 0 once it is over."""
    version: int
    unverified: bool = False
    doubt: str = ""
    waits_for: str = ""
    """Of a message to a capability that nobody has begun: who is registered for it, and how each is there now."""
    mode: str = ""
    key: str = ""
    delivery_id: str = ""
    woken: dict[str, Any] = {}
    """The newest wake of whoever's turn it is that was about this task: wake_id, outcome, at, seconds_ago."""
    capability: str = ""
    link: str = ""
    """Of a message to a capability: IDLE, PROVISIONED, REACHED, CONFIRMED or SUNSET."""
    suspected: bool = False
    """It is REACHED, and has shown no progress for longer than its sender wants to wait for any."""


class InboxItem(Form, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One turn or notice."""

    task_id: str
    from_: str
    state: str
    reason: str
    title: str
    asks: str
    references: tuple[dict[str, Any], ...]
    question: str
    answer: str
    new: bool
    kind: str
    """For a turn: what to do (take, answer, review, decide, work, look); for a notice: what happened."""
    age: float
    workspace: str
    version: int
    overdue: bool = False
    result: str = ""


class Inbox(Form, frozen=True, kw_only=True):
    """`tally inbox`."""

    turns: tuple[InboxItem, ...]
    notices: tuple[InboxItem, ...]


class BoardTask(Form, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One line of the board."""

    task_id: str
    title: str
    state: str
    reason: str
    turn: str
    from_: str
    age: float
    label: str
    assignee: str
    workspace: str
    updated_at: str
    parent: str = ""
    why: str = ""


class Board(Form, frozen=True, kw_only=True):
    """`tally board`."""

    tasks: tuple[BoardTask, ...]


class Lines(Form, frozen=True, kw_only=True):
    """`tally trace` (with what its messages that nobody has begun wait for at this moment) and `tally activity`."""

    events: tuple[Line, ...]
    waiting: tuple[str, ...] = ()


class AgentShown(Form, frozen=True, kw_only=True):
    """One agent as others see it."""

    agent_id: str
    name: str
    display_name: str
    owner: str
    connection: str
    command: tuple[str, ...]
    client: str
    strengths: str
    capabilities: tuple[str, ...]
    provider: str
    inbound: str
    presence: str
    promise: str
    mode: str
    level: str
    workspaces: tuple[str, ...]
    sessions: tuple[str, ...]
    open_tasks: int
    track_record: dict[str, Any]
    """accepted, verified, refuted, declined, failed, unreviewed: counts; median_seconds or null; cost null while
    nobody reports it."""
    coordinator: bool
    wake: str = ""
    """How the host can start an idle session of it; empty: somebody has to open it."""
    model: str = ""
    required: str = ""
    driven: tuple[dict[str, str], ...] = ()
    """session_id, client, level, rests_on: the sessions that the host drives; fork_of: the one it was forked from;
    mode: what a person said of it (stopped, paused, draining), where that is not that it runs."""
    facts: tuple[dict[str, str], ...] = ()
    """fact, rests_on: what each delivery fact of it rests on."""


class Agents(Form, frozen=True, kw_only=True):
    """`tally agents`, with the workspace's `CONTEXT.md`."""

    agents: tuple[AgentShown, ...]
    context: str


class WorkspaceShown(Form, frozen=True, kw_only=True):
    """One workspace."""

    workspace_id: str
    name: str
    root: str
    repository: str
    coordinator: str
    providers: tuple[str, ...]
    checks: tuple[str, ...]
    mode: str
    members: tuple[str, ...]
    current: bool


class Workspaces(Form, frozen=True, kw_only=True):
    """`tally workspace`."""

    workspaces: tuple[WorkspaceShown, ...]


class Checks(Form, frozen=True, kw_only=True):
    """`tally check`."""

    checks: tuple[dict[str, Any], ...]


class WhoAmI(Form, frozen=True, kw_only=True):
    """`tally whoami`."""

    name: str
    id: str
    kind: str
    workspace: str
    workspace_id: str
    session: str
    assertion: str
    because: str
    """What the host went by: --as, TALLY_SESSION, TALLY_AGENT, a client's binding, or the user."""
    read_only: bool


class PermissionShown(Form, frozen=True, kw_only=True):
    """One permission that waits for a person."""

    permission_id: str
    task_id: str
    title: str
    action: str
    digest: str
    age: float
    kind: str
    """permission or inbound."""


class Permissions(Form, frozen=True, kw_only=True):
    """`tally permission list`."""

    permissions: tuple[PermissionShown, ...]


class Source(Form, frozen=True, kw_only=True):
    """`tally why PATH:LINE`."""

    path: str
    line: int
    text: str
    commit: str
    uncommitted: bool
    tasks: tuple[dict[str, Any], ...]
    """Each: task_id, title, agent, session, requester, result, and `ask`: the command that asks its agent about it."""


class Watched(Form, frozen=True, kw_only=True):
    """`tally watch list`."""

    watches: tuple[dict[str, Any], ...]
    """Each: watch_id, agent, kind, what, changed (how often is not kept: whether it ever was since), by."""


class Done(Form, frozen=True, kw_only=True):
    """Something without a task was done; `detail` says what, for people."""

    detail: str
    id: str = ""
    changed: bool = True


def verified(shown: Shown, references: tuple[dict[str, Any], ...], checks: tuple[RunShown, ...]) -> Shown:
    """A task as shown, with the verdict on each reference and the checks that were run again."""
    return msgspec.structs.replace(shown, references=references, checks=checks)
