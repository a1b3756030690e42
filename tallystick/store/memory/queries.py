"""The named queries over plain dicts: what each means, said once in Python. `store/sql/queries.sql` must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

Line = dict[str, Any]
Tables = dict[str, dict[tuple[Any, ...], Line]]

QUERIES: Final[dict[str, Callable[..., list[Line]]]] = {}
"""The queries by name. Parameters are keyword-only and have no defaults; the first argument is the tables."""

_Query = Callable[..., list[Line]]


def _named(query: _Query) -> _Query:
    QUERIES[query.__name__] = query
    return query


def _rows(tables: Tables, table: str, order: str = "", /, **equal: Any) -> list[Line]:
    """Rows whose columns equal the given values, by the named columns and otherwise by key."""
    found = [
        row for _, row in sorted(tables[table].items()) if all(row[name] == value for name, value in equal.items())
    ]
    return sorted(found, key=lambda row: tuple(row[name] for name in order.split())) if order else found


def _newest(rows: Iterable[Line]) -> list[Line]:
    return list(rows)[::-1]


def _title(tables: Tables, row: Line, *names: str) -> Line:
    task = tables["tasks"].get((row["task_id"],), {})
    return {**row, **{name: task.get(name) for name in names}}


def _seen(tables: Tables, party: str, task: Line) -> int:
    version: int = tables["seen"].get((party, task["task_id"]), {"version": 0})["version"]
    return version


def _is_failed(row: Line) -> bool:
    return row["state"] == "failed" or (row["state"], row["reason"]) == ("input_required", "unverified")


def _is_held(row: Line) -> bool:
    return row["state"] == "working" or (row["state"], row["reason"]) == ("input_required", "question")


def _is_due(row: Line, now: float) -> bool:
    return row["due_at"] is not None and row["due_at"] <= now


@_named
def inbox_turns(tables: Tables, *, party: str, limit: int) -> list[Line]:
    """Open tasks whose turn it is, with the version the party has seen."""
    turns = _rows(tables, "tasks", open=1, turn=party)
    return [{**row, "seen": _seen(tables, party, row)} for row in turns][:limit]


@_named
def news(tables: Tables, *, party: str, limit: int) -> list[Line]:
    """Of the open tasks whose turn it is, those with something the party has not seen, newest first."""
    turns = _newest(_rows(tables, "tasks", open=1, turn=party))
    names = ("task_id", "turn_version")
    found = [{**{n: row[n] for n in names}, "seen": _seen(tables, party, row)} for row in turns]
    return [row for row in found if row["turn_version"] > row["seen"]][:limit]


@_named
def inbox_notices(tables: Tables, *, party: str, limit: int) -> list[Line]:
    """Unread notices, oldest first."""
    found = _rows(tables, "notices", "at task_id", party=party, unread=1)
    return [_title(tables, row, "title", "state", "reason", "requester", "assignee") for row in found][:limit]


@_named
def seen(tables: Tables, *, party: str, task_id: str) -> list[Line]:
    """What a party has seen of a task, and whether it has an unread notice of it."""
    shown = []
    for task in _rows(tables, "tasks", task_id=task_id):
        unread = tables["notices"].get((task_id, party), {"unread": 0})["unread"]
        kept = {name: task[name] for name in ("turn", "open", "turn_version")}
        shown.append({**kept, "seen": _seen(tables, party, task), "unread": unread})
    return shown


@_named
def unseen(tables: Tables, *, party: str) -> list[Line]:
    """How many turns and notices the party has not seen."""
    turns = _rows(tables, "tasks", open=1, turn=party)
    fresh = [row for row in turns if row["turn_version"] > _seen(tables, party, row)]
    return [{"count": len(fresh) + len(_rows(tables, "notices", party=party, unread=1))}]


@_named
def board(tables: Tables, *, workspace: str, limit: int) -> list[Line]:
    """Open tasks of a workspace, oldest first."""
    return _rows(tables, "tasks", open=1, workspace=workspace)[:limit]


@_named
def board_all(tables: Tables, *, workspace: str, limit: int) -> list[Line]:
    """All tasks of a workspace, newest first."""
    return _newest(_rows(tables, "tasks", workspace=workspace))[:limit]


@_named
def board_every(tables: Tables, *, limit: int) -> list[Line]:
    """Open tasks of all workspaces, oldest first."""
    return _rows(tables, "tasks", open=1)[:limit]


@_named
def board_every_all(tables: Tables, *, limit: int) -> list[Line]:
    """All tasks of all workspaces, newest first."""
    return _newest(_rows(tables, "tasks"))[:limit]


@_named
def task(tables: Tables, *, task_id: str) -> list[Line]:
    """One task."""
    return _rows(tables, "tasks", task_id=task_id)


@_named
def tasks_prefix(tables: Tables, *, prefix: str, limit: int) -> list[Line]:
    """Tasks whose id starts so."""
    return [row for row in _rows(tables, "tasks") if row["task_id"].startswith(prefix)][:limit]


@_named
def tasks_tail(tables: Tables, *, tail: str, limit: int) -> list[Line]:
    """Tasks whose tail starts so, that is whose id ends so."""
    return [row for row in _rows(tables, "tasks", "tail task_id") if row["tail"].startswith(tail)][:limit]


@_named
def children(tables: Tables, *, parent: str) -> list[Line]:
    """Open children of a task."""
    return _rows(tables, "tasks", open=1, parent=parent) if parent else []


@_named
def held(tables: Tables, *, session: str) -> list[Line]:
    """Open tasks that a session works at or has a question about."""
    found = _rows(tables, "tasks", open=1, session=session) if session else []
    return [row for row in found if _is_held(row)]


@_named
def dedup(tables: Tables, *, workspace: str, requester: str, key: str) -> list[Line]:
    """The task that was asked for under this key."""
    return _rows(tables, "tasks", workspace=workspace, requester=requester, key=key)


@_named
def due_tasks(tables: Tables, *, now: float, after: float, last: str, limit: int) -> list[Line]:
    """Tasks the host must look at by now, behind one of them."""
    due = [row for row in _rows(tables, "tasks") if _is_due(row, now) and _when(row) > (after, last)]
    return sorted(due, key=_when)[:limit]


def _when(row: Line) -> tuple[float, str]:
    return row["due_at"], row["task_id"]


@_named
def next_due(tables: Tables, *, after: float) -> list[Line]:
    """The earliest time after that one at which a task is due."""
    found = [row["due_at"] for row in _rows(tables, "tasks") if row["due_at"] is not None]
    return [{"at": min((at for at in found if at > after), default=None)}]


@_named
def due_deliveries(tables: Tables, *, recipient: str, now: float, limit: int) -> list[Line]:
    """Open deliveries to a recipient to push by now."""
    due = [row for row in _rows(tables, "deliveries", open=1, recipient=recipient) if _is_due(row, now)]
    return sorted(due, key=lambda row: row["due_at"])[:limit]


@_named
def queue(tables: Tables, *, recipient: str) -> list[Line]:
    """How many open deliveries a recipient has."""
    return [{"count": len(_rows(tables, "deliveries", open=1, recipient=recipient))}]


@_named
def queue_sender(tables: Tables, *, recipient: str, sender: str) -> list[Line]:
    """How many open deliveries of one sender a recipient has."""
    return [{"count": len(_rows(tables, "deliveries", open=1, recipient=recipient, sender=sender))}]


@_named
def outstanding(tables: Tables, *, recipient: str) -> list[Line]:
    """Open deliveries that a recipient has in hand."""
    in_hand = {"claimed", "admitted", "recorded", "working"}
    found = [row for row in _rows(tables, "deliveries", open=1, recipient=recipient) if row["fact"] in in_hand]
    return sorted(found, key=lambda row: (row["due_at"] or 0.0, row["delivery_id"]))


@_named
def waiting(tables: Tables, *, limit: int) -> list[Line]:
    """Open deliveries for which a holder of a capability is still to be chosen."""
    found = [row for row in _rows(tables, "deliveries", open=1) if row["recipient"].startswith("cap:")]
    return sorted(found, key=lambda row: (row["recipient"], row["due_at"] or 0.0, row["delivery_id"]))[:limit]


@_named
def delivery(tables: Tables, *, delivery_id: str) -> list[Line]:
    """One delivery."""
    return _rows(tables, "deliveries", delivery_id=delivery_id)


@_named
def in_hand(tables: Tables, *, party: str) -> list[Line]:
    """Open tasks for a capability that a holder was handed."""
    mine = _rows(tables, "tasks", open=1, assignee=party)
    return [row for row in mine if row["session"] and row["capability"]]


@_named
def asked_for(tables: Tables, *, capability: str, limit: int) -> list[Line]:
    """Tasks that ask for a capability, newest first."""
    return _newest(_rows(tables, "tasks", capability=capability))[:limit] if capability else []


@_named
def in_trace(tables: Tables, *, trace: str) -> list[Line]:
    """All tasks of a trace."""
    return _rows(tables, "tasks", trace=trace)


@_named
def commit(tables: Tables, *, repository: str, commit_id: str) -> list[Line]:
    """The tasks a commit was made under."""
    made = _rows(tables, "commits", repository=repository, commit_id=commit_id)
    return [row for link in made for row in task(tables, task_id=link["task_id"])]


@_named
def outcomes(tables: Tables, *, agent: str, limit: int) -> list[Line]:
    """Outcomes of an agent, newest first."""
    return _newest(_rows(tables, "outcomes", "at task_id version", agent=agent))[:limit]


@_named
def permissions(tables: Tables, *, limit: int) -> list[Line]:
    """Permissions that wait for a decision, oldest first."""
    waiting = _rows(tables, "permissions", "requested_at permission_id", open=1)
    return [_title(tables, row, "title") for row in waiting][:limit]


@_named
def permission(tables: Tables, *, permission_id: str) -> list[Line]:
    """One permission."""
    return _rows(tables, "permissions", permission_id=permission_id)


@_named
def failed(tables: Tables, *, limit: int) -> list[Line]:
    """Tasks that failed or whose outcome is in doubt, newest first."""
    return _newest(row for row in _rows(tables, "tasks") if _is_failed(row))[:limit]


@_named
def assigned_count(tables: Tables, *, party: str) -> list[Line]:
    """How many open tasks an assignee has."""
    return [{"count": len(_rows(tables, "tasks", open=1, assignee=party))}]


@_named
def requested(tables: Tables, *, party: str) -> list[Line]:
    """Open tasks of a requester."""
    return _rows(tables, "tasks", open=1, requester=party)


@_named
def sessioned(tables: Tables) -> list[Line]:
    """Open tasks that a session has."""
    return [row for row in _rows(tables, "tasks", "session task_id", open=1) if row["session"]]


@_named
def outworn(tables: Tables, *, before: float, limit: int) -> list[Line]:
    """Tasks that are settled, closed before that time, and still have their words."""
    old = [row for row in _rows(tables, "tasks", settled=1) if row["closed_at"] is not None]
    old = [row for row in old if row["closed_at"] < before]
    return sorted(old, key=lambda row: (row["closed_at"], row["task_id"]))[:limit]


@_named
def settleable(tables: Tables, *, before: float, limit: int) -> list[Line]:
    """Traces without an open task whose last unsettled one closed before that time."""
    last: dict[str, Line] = {}
    closed = [row for row in _rows(tables, "tasks", open=0, settled=0) if row["closed_at"] is not None]
    for row in sorted(closed, key=lambda row: (row["closed_at"], row["task_id"])):
        last[row["trace"]] = row
    still_open = {row["trace"] for row in _rows(tables, "tasks", open=1)}
    ready = [row for trace, row in last.items() if trace not in still_open and row["closed_at"] < before]
    return [{"trace": row["trace"]} for row in sorted(ready, key=lambda row: (row["closed_at"], row["task_id"]))][
        :limit
    ]


@_named
def archivable(tables: Tables, *, limit: int) -> list[Line]:
    """Traces that hold an event `TraceSettled` outside the archive, the trace begun first in front."""
    return list(tables["settled"].values())[:limit]


@_named
def newest(tables: Tables, *, party: str) -> list[Line]:
    """The newest task that the party asked for, has or reviews, among the last 10,000."""
    recent = _newest(_rows(tables, "tasks"))[:10_000]
    return [row for row in recent if party in {row["requester"], row["assignee"], row["reviewer"]}][:1]


@_named
def aliases(tables: Tables) -> list[Line]:
    """Every name that is or was given out."""
    return _rows(tables, "aliases")
