"""What the checker writes into a store: records, rows and random histories of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tallystick.core import rows as r
from tallystick.core.events import AgentJoined, Event, Recorded, TaskClaimed, TaskProgressed, Text, TraceSettled
from tallystick.core.identity import HOST
from tallystick.core.model import Reason, TaskState
from tallystick.store.interface import Cell, Entry, Maintenance, Store


class FullStore(Store, Maintenance, Protocol):
    """A store with its maintenance."""


class Place(Protocol):
    """Where a store lives. Each case gets a fresh one."""

    def open(self) -> FullStore:
        """Open the store; after it was closed, open it again with what was kept."""
        ...

    def damage(self, how: str, position: int) -> None:
        """Damage the closed store behind its back. `flip`: one bit of the event's data; `field`: another subject;
        `remove`: the event is gone; `swap`: it and the next one change places; `body`: one bit of its body."""
        ...


def record(stream: str, version: int, event: Event | None = None, *, trace: str = "trc_1", **fields: Any) -> Recorded:
    """A record to append, of a small event."""
    event = event or TaskProgressed(state=TaskState.WORKING, turn="agt_1", fraction=version / 8)
    fields = {"workspace": "wsp_1", "at": 1_700_000_000.5, "actor": HOST, "subject": "per_1", **fields}
    return Recorded(position=0, stream=stream, version=version, trace=trace, event=event, **fields)


def entry(stream: str, version: int, *rows: r.Row, reads: Sequence[tuple[str, int]] = (), **fields: Any) -> Entry:
    """An entry around such a record."""
    return Entry(record=record(stream, version, **fields), rows=rows, reads=tuple(reads))


def said(title: str, body: str = "") -> Event:
    """An event with words."""
    return TaskProgressed(state=TaskState.WORKING, turn="agt_1", text=Text(title=title, body=body))


def joined(agent_id: str) -> Event:
    """An event of an agent."""
    return AgentJoined(agent_id=agent_id, alias="coder", workspace="wsp_1", owner="per_1")


def claimed() -> Event:
    """An event of another type."""
    return TaskClaimed(
        state=TaskState.WORKING, turn="agt_1", delivery_id="dlv_1", holder="agt_1", session="ses_1", fence=1
    )


def settled() -> Event:
    """The event after which a trace may be archived."""
    return TraceSettled(state=TaskState.COMPLETED, reason=Reason.APPROVED)


def task_row(task_id: str, **fields: Any) -> r.TaskRow:
    """A task's row."""
    texts = dict.fromkeys(("parent", "reason", "holder", "session", "reviewer", "digest", "capability"), "")
    values = {
        "task_id": task_id,
        "tail": task_id[::-1].lower(),
        "workspace": "wsp_1",
        "trace": "trc_1",
        "title": "Fix it",
        "state": "submitted",
        "open": 1,
        "turn": "agt_1",
        "requester": "per_1",
        "subject": "per_1",
        "assignee": "agt_1",
        "key": None,
        "version": 1,
        "turn_version": 1,
        "due_at": None,
        "created_at": 1.0,
        "updated_at": 1.0,
        "closed_at": None,
        "settled": 0,
    }
    return r.TaskRow(**{**texts, **values, **fields})


def alias_row(skeleton: str, party: str, current: int = 1) -> r.AliasRow:
    """A name's row."""
    return r.AliasRow(skeleton=skeleton, alias=skeleton, party=party, current=current)


def notice_row(task_id: str, party: str, **fields: Any) -> r.NoticeRow:
    """A notice's row."""
    values = {"workspace": "wsp_1", "kind": "result", "version": 1, "at": 1.0, "unread": 1, **fields}
    return r.NoticeRow(task_id=task_id, party=party, **values)


class _Dice:
    """Random rows over a small world, so that they meet."""

    def __init__(self, seed: int) -> None:
        self.roll = random.Random(seed)  # noqa: S311 - test data
        self.tasks = [f"tsk_{n:04d}" for n in range(12)]
        self.parties = ["", "agt_1", "agt_2", "per_1", "cap:review"]

    def time(self) -> float:
        return float(self.roll.randrange(6))

    def maybe(self, value: Any) -> Any:
        return self.roll.choice((None, value))

    def party(self) -> str:
        return self.roll.choice(self.parties)

    def row(self) -> r.Row:
        makers = (self.task, self.task, self.task, self.delivery, self.notice, self.read, self.seen, self.permission)
        return self.roll.choice((*makers, self.commit, self.outcome, self.alias, self.workspace, self.agent))()

    def task(self) -> r.Row:
        choice, number = self.roll.choice, self.roll.randrange
        is_open = number(2)
        return task_row(
            choice(self.tasks),
            workspace=choice(("wsp_1", "wsp_2")),
            trace=choice(("trc_1", "trc_2", "trc_3", "trc_4")),
            parent=choice(("", *self.tasks[:3])),
            state=choice(("submitted", "working", "input_required", "failed", "completed")),
            reason=choice(("", "question", "unverified", "review")),
            open=is_open,
            turn=self.party(),
            requester=self.party(),
            assignee=self.party(),
            session=choice(("", "ses_1", "ses_2")),
            reviewer=self.party(),
            key=self.maybe(f"key{number(40)}"),
            version=number(9),
            turn_version=number(9),
            due_at=self.maybe(self.time()),
            closed_at=None if is_open else self.maybe(self.time()),
            settled=0 if is_open else number(2),
            capability=choice(("", "", "Count", "Sum")),
        )

    def delivery(self) -> r.Row:
        return r.DeliveryRow(
            delivery_id=f"dlv_{self.roll.randrange(12)}",
            task_id=self.roll.choice(self.tasks),
            workspace="wsp_1",
            kind="assignment",
            sender=self.party(),
            recipient=self.party(),
            session="",
            attempt=1,
            fact=self.roll.choice(("accepted", "persisted", "claimed", "admitted", "recorded", "working", "submitted")),
            ended="",
            open=self.roll.randrange(2),
            due_at=self.maybe(self.time()),
            created_at=1.0,
            updated_at=self.time(),
        )

    def notice(self) -> r.Row:
        return notice_row(self.roll.choice(self.tasks), self.party(), at=self.time(), version=self.roll.randrange(9))

    def read(self) -> r.Row:
        return r.NoticeReadRow(task_id=self.roll.choice(self.tasks), party=self.party(), unread=0)

    def seen(self) -> r.Row:
        return r.SeenRow(party=self.party(), task_id=self.roll.choice(self.tasks), version=self.roll.randrange(9))

    def permission(self) -> r.Row:
        return r.PermissionRow(
            permission_id=f"prm_{self.roll.randrange(6)}",
            task_id=self.roll.choice(self.tasks),
            workspace="wsp_1",
            action="push",
            digest="d",
            open=self.roll.randrange(2),
            decision="",
            requested_at=self.time(),
            decided_at=self.maybe(self.time()),
        )

    def commit(self) -> r.Row:
        task_id, commit_id = self.roll.choice(self.tasks), self.roll.choice("ab")
        return r.CommitRow(repository="rep_1", commit_id=commit_id, task_id=task_id, at=self.time())

    def outcome(self) -> r.Row:
        return r.OutcomeRow(
            task_id=self.roll.choice(self.tasks),
            version=self.roll.randrange(4),
            agent=self.party(),
            workspace="wsp_1",
            outcome="accepted",
            seconds=self.maybe(self.time()),
            at=self.time(),
        )

    def alias(self) -> r.Row:
        return alias_row(self.roll.choice("abcd"), self.roll.choice(("agt_1", "agt_2")), self.roll.randrange(2))

    def workspace(self) -> r.Row:
        return r.WorkspaceRow(
            workspace_id=self.roll.choice(("wsp_1", "wsp_2")),
            name="n",
            root="/r",
            repository="",
            coordinator=self.party(),
            mode="run",
            updated_at=self.time(),
        )

    def agent(self) -> r.Row:
        return r.AgentRow(
            agent_id=self.roll.choice(("agt_1", "agt_2")),
            alias="coder",
            owner="per_1",
            connection="mailbox",
            deleted=self.roll.randrange(2),
            mode="run",
            presence="live",
            updated_at=self.time(),
        )


def random_history(seed: int, length: int = 60) -> Iterator[Entry]:
    """Entries with random rows, the same for the same seed; some of them have to be refused for a taken key."""
    dice = _Dice(seed)
    for number in range(length):
        event = settled() if dice.roll.randrange(8) == 0 else said(f"step {number}")
        trace = dice.roll.choice(("trc_1", "trc_2", "trc_3"))
        rows = [dice.row() for _ in range(dice.roll.randrange(5))]
        yield entry(f"tsk_s{number}", 1, *rows, event=event, trace=trace)


_VALUES: dict[str, tuple[Cell, ...]] = {
    "capability": ("", "Count", "Absent"),
    "delivery_id": ("dlv_1", "dlv_7", "dlv_none"),
    "party": ("agt_1", "agt_2", "per_1", "nobody"),
    "workspace": ("wsp_1", "wsp_2"),
    "task_id": ("tsk_0000", "tsk_0003", "tsk_none"),
    "prefix": ("tsk_000", "tsk_0011", "x"),
    "tail": ("1", "0000_kst", "0"),
    "parent": ("tsk_0000", "tsk_0001", ""),
    "session": ("ses_1", "ses_2", ""),
    "requester": ("agt_1", "per_1"),
    "key": tuple(f"key{n}" for n in range(40)),
    "now": (0.0, 3.0, 9.0),
    "after": (0.0, 3.0, 9.0),
    "last": ("", "tsk_0003"),
    "recipient": ("agt_1", "agt_2", "cap:review"),
    "sender": ("agt_1", "per_1"),
    "trace": ("trc_1", "trc_2", "trc_3", "trc_4"),
    "repository": ("rep_1", "rep_2"),
    "commit_id": ("a", "b"),
    "agent": ("agt_1", "agt_2"),
    "permission_id": ("prm_0", "prm_1"),
    "before": (1.0, 3.0, 9.0),
    "limit": (1, 3, 100),
}


def questions(name: str, parameters: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """Values to ask a named query with: every combination of the small world's."""
    if not parameters:
        yield {}
        return
    for rest in questions(name, parameters[1:]):
        for value in _VALUES[parameters[0]]:
            yield {parameters[0]: value, **rest}


async def same_answers(one: FullStore, other: FullStore, queries: dict[str, Sequence[str]]) -> None:
    """Assert that two stores answer every named query alike. `queries` maps their names to their parameters."""
    for name, parameters in queries.items():
        for values in questions(name, sorted(parameters)):
            left, right = await one.query(name, **values), await other.query(name, **values)
            assert left == right, (name, values)
