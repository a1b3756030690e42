"""The views as data: what `project` says should stand in which table after an event.

Each row type names its table and key; field names are the column names. Stores know nothing else about them.
May live here: row shapes only.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of a view: inserted, or replaced where the key is there already. Columns: str, int, float or None."""

    TABLE: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]]


class TaskRow(Row, frozen=True):
    """A task as board, inbox and scheduler need it. In front what stands in the task under the same name."""

    TABLE = "tasks"
    KEY = ("task_id",)

    task_id: str
    workspace: str
    trace: str
    parent: str
    title: str
    turn: str
    requester: str
    subject: str
    assignee: str
    holder: str
    session: str
    reviewer: str
    digest: str
    version: int
    turn_version: int
    """Version of the task when it last became somebody's turn or got a message for them."""
    created_at: float
    updated_at: float
    tail: str
    """The id backwards in lower case: a suffix that a person types is a prefix of it."""
    state: str
    reason: str
    open: int
    """1 while open, 0 once closed: the predicate of the partial indexes."""
    key: str | None
    """Dedup key, NULL without one: (workspace, requester, key) is unique."""
    due_at: float | None
    """When the host must look at it next (lease, deadline, check, cascade …), NULL for never."""
    closed_at: float | None
    settled: int
    """1 once its trace was settled: then it may be archived. 2 once its words were erased, too."""
    capability: str
    """The name of the capability that it asks for, without a version; empty for others."""


TASK_ROW_SAME = TaskRow.__struct_fields__[: TaskRow.__struct_fields__.index("tail")]
"""The columns that stand in the task under the same name, in the order of the row."""


class DeliveryRow(Row, frozen=True, kw_only=True):
    """One attempt to hand one message of a task to one recipient."""

    TABLE = "deliveries"
    KEY = ("delivery_id",)

    delivery_id: str
    task_id: str
    workspace: str
    kind: str
    """assignment, change, answer or cancel."""
    sender: str
    recipient: str
    session: str
    attempt: int
    fact: str
    """The furthest fact."""
    ended: str
    """How it ended other than by its last fact; empty while open or submitted."""
    open: int
    due_at: float | None
    """When to push it, NULL where the recipient pulls or it is in hand."""
    created_at: float
    updated_at: float


class NoticeRow(Row, frozen=True, kw_only=True):
    """Something a party should know and need not act on: one per terminal move, until read."""

    TABLE = "notices"
    KEY = ("task_id", "party")

    task_id: str
    party: str
    workspace: str
    kind: str
    """result, refused, expired, failed, canceled, reassigned, refuted …"""
    version: int
    at: float
    unread: int


class SeenRow(Row, frozen=True, kw_only=True):
    """How much of a task a party has seen."""

    TABLE = "seen"
    KEY = ("party", "task_id")

    party: str
    task_id: str
    version: int


class NoticeReadRow(Row, frozen=True, kw_only=True):
    """Marks a notice as read, if there is one; other columns stay."""

    TABLE = "notices"
    KEY = ("task_id", "party")

    task_id: str
    party: str
    unread: int


class AgentRow(Row, frozen=True, kw_only=True):
    """An agent of this host."""

    TABLE = "agents"
    KEY = ("agent_id",)

    agent_id: str
    alias: str
    owner: str
    connection: str
    deleted: int
    mode: str
    presence: str
    updated_at: float


class AliasRow(Row, frozen=True, kw_only=True):
    """A name that is or was given out, so that it is never given to another."""

    TABLE = "aliases"
    KEY = ("skeleton",)

    skeleton: str
    alias: str
    party: str
    current: int


class WorkspaceRow(Row, frozen=True, kw_only=True):
    """A workspace of this host."""

    TABLE = "workspaces"
    KEY = ("workspace_id",)

    workspace_id: str
    name: str
    root: str
    repository: str
    coordinator: str
    mode: str
    updated_at: float


class PermissionRow(Row, frozen=True, kw_only=True):
    """Something that waits or waited for a person's yes."""

    TABLE = "permissions"
    KEY = ("permission_id",)

    permission_id: str
    task_id: str
    workspace: str
    action: str
    digest: str
    open: int
    decision: str
    requested_at: float
    decided_at: float | None


class CommitRow(Row, frozen=True, kw_only=True):
    """A commit that was made under a task."""

    TABLE = "commits"
    KEY = ("repository", "commit_id", "task_id")

    repository: str
    commit_id: str
    task_id: str
    at: float


class OutcomeRow(Row, frozen=True, kw_only=True):
    """One closed or refuted piece of work of an agent: what its track record is counted from."""

    TABLE = "outcomes"
    KEY = ("task_id", "version")

    task_id: str
    version: int
    agent: str
    workspace: str
    outcome: str
    """accepted, verified, refuted, declined, failed, unreviewed."""
    seconds: float | None
    """From take to hand-in."""
    at: float


ROW_TYPES: tuple[type[Row], ...] = (
    TaskRow,
    DeliveryRow,
    NoticeRow,
    SeenRow,
    AgentRow,
    AliasRow,
    WorkspaceRow,
    PermissionRow,
    CommitRow,
    OutcomeRow,
)
"""Every table there is. `NoticeReadRow` writes into a table that is here already."""
