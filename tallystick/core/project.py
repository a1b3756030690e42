"""From an event to rows: `project(before, event, after)` says what should stand in the views afterwards.

Data, not SQL; counts are queries. The same function runs live and in a replay, so both give the same rows.
"""

from __future__ import annotations

from operator import attrgetter

from tallystick.core import events as ev
from tallystick.core.directory import Agent, Directory
from tallystick.core.limits import Limits
from tallystick.core.model import Reason, TaskState
from tallystick.core.rows import (
    TASK_ROW_SAME,
    AgentRow,
    AliasRow,
    CommitRow,
    DeliveryRow,
    NoticeReadRow,
    NoticeRow,
    OutcomeRow,
    PermissionRow,
    Row,
    SeenRow,
    TaskRow,
    WorkspaceRow,
)
from tallystick.core.state import Delivery, Task, Work
from tallystick.core.task import next_duty

_LIMITS = Limits()
_same = attrgetter(*TASK_ROW_SAME)


def project(before: Work | None, recorded: ev.Recorded, after: Work, limits: Limits = _LIMITS) -> tuple[Row, ...]:
    """The rows that follow from one event of a task."""
    old = before.deliveries if before else ()
    moved = [delivery_row(d, after.task) for d in after.deliveries if d not in old]
    return (task_row(after, limits), *moved, *happened(before, recorded, after))


def standing(work: Work, limits: Limits = _LIMITS) -> tuple[Row, ...]:
    """The rows that follow from how a task stands, however it came there."""
    return (task_row(work, limits), *[delivery_row(d, work.task) for d in work.deliveries])


def happened(before: Work | None, recorded: ev.Recorded, after: Work) -> list[Row]:
    """The rows that follow from the event itself, beside those of how the task stands then."""
    old, task = before.task if before else None, after.task
    rows = _notices(old, recorded, task)
    if task.permissions:
        rows += _permissions(old, task)
    if type(recorded.event) is ev.ResultHandedIn:
        rows += _commits(recorded.event, task)
    return rows + _outcome(old, recorded, task) if old is not None else rows


def task_row(work: Work, limits: Limits) -> TaskRow:
    """The task as board, inbox and scheduler need it."""
    task = work.task
    duty = next_duty(work, limits)
    return TaskRow(  # type: ignore[misc]
        *_same(task),
        tail=task.task_id[::-1].lower(),
        state=str(task.state),
        reason=str(task.reason),
        open=int(task.open),
        key=task.key or None,
        due_at=duty.at if duty else None,
        closed_at=task.closed_at or None,
        settled=(2 if task.erased else 1) if task.settled else 0,
        capability=task.capability.partition("@")[0],
    )


def delivery_row(d: Delivery, task: Task) -> DeliveryRow:
    """One attempt to hand over."""
    return DeliveryRow(
        delivery_id=d.delivery_id,
        task_id=task.task_id,
        workspace=task.workspace,
        kind=d.kind,
        sender=d.sender,
        recipient=d.recipient,
        session=d.session,
        attempt=d.attempt,
        fact="unverified" if d.unverified else str(d.fact),
        ended=d.ended,
        open=int(d.open),
        due_at=d.due_at or None,
        created_at=d.created_at,
        updated_at=d.updated_at,
    )


_TERMINAL_NOTICE = {
    TaskState.COMPLETED: "result",
    TaskState.FAILED: "failed",
    TaskState.CANCELED: "canceled",
    TaskState.REJECTED: "refused",
}

_LOST_NOTICE: dict[type, str] = {
    ev.TaskReassigned: "reassigned",
    ev.LeaseLapsed: "lost",
    ev.TaskDoubted: "lost",
    ev.TaskExpired: "lost",
}
"""What takes a task from its holder, and what the holder is told then."""


def _notice(task: Task, party: str, kind: str, at: float) -> NoticeRow:
    return NoticeRow(
        task_id=task.task_id,
        party=party,
        workspace=task.workspace,
        kind=kind,
        version=task.version,
        at=at,
        unread=1,
    )


def _notices(before: Task | None, r: ev.Recorded, task: Task) -> list[Row]:
    """One notice per terminal move to the requester; what ended a holder's work to that holder."""
    found: dict[str, str] = {}
    event, actor = type(r.event), r.actor.id
    if not task.open and (before is None or before.open or event is ev.TaskCorrected):
        kind = "expired" if task.reason is Reason.EXPIRED else _TERMINAL_NOTICE[task.state]
        found[task.requester] = kind
        if before is not None and before.open and before.holder:
            found.setdefault(before.holder, kind)
    elif before is not None and before.holder and not task.holder and event in _LOST_NOTICE:
        found[before.holder] = _LOST_NOTICE[event]
    if event is ev.CheckReported and task.state is TaskState.WORKING:
        found[task.holder] = "refuted"
    if type(r.event) is ev.ResultForwarded and r.event.code:
        found[task.requester] = "not_forwarded"
    if event is ev.CancelRequested:
        found[task.holder or task.assignee] = "cancel_asked"
    if not found:
        return []
    return [
        _notice(task, party, kind, r.at)
        for party, kind in found.items()
        if party and party != actor and ":" not in party
    ]


def _permissions(before: Task | None, task: Task) -> list[Row]:
    old = before.permissions if before else ()
    return [
        PermissionRow(
            permission_id=p.permission_id,
            task_id=task.task_id,
            workspace=task.workspace,
            action=p.action,
            digest=p.digest,
            open=int(not p.decision and task.open),
            decision=p.decision,
            requested_at=p.requested_at,
            decided_at=task.updated_at if p.decision else None,
        )
        for p in task.permissions
        if p not in old or (before is not None and before.open != task.open and not p.decision)
    ]


def _commits(event: ev.ResultHandedIn, task: Task) -> list[Row]:
    names = event.commits or ((event.commit,) if event.commit else ())
    return [
        CommitRow(repository=task.repository, commit_id=name, task_id=task.task_id, at=task.updated_at)
        for name in names
        if task.repository
    ]


def _outcome(before: Task, r: ev.Recorded, task: Task) -> list[Row]:
    """What the track record of the one who did the work is counted from."""
    outcome = _outcome_of(before, r, task)
    if not outcome:
        return []
    agent = before.holder or before.last_holder or (before.assignee if task.state is TaskState.REJECTED else "")
    if not agent:
        return []
    spent = task.handed_in_at - task.taken_at if task.handed_in_at and task.taken_at else None
    return [
        OutcomeRow(
            task_id=task.task_id,
            version=task.version,
            agent=agent,
            workspace=task.workspace,
            outcome=outcome,
            seconds=spent,
            at=r.at,
        )
    ]


_JUDGED = frozenset({ev.CheckReported, ev.ResultRefused})


def _outcome_of(before: Task, r: ev.Recorded, task: Task) -> str:
    event = type(r.event)
    if event in _JUDGED and task.state is not TaskState.INPUT_REQUIRED:
        return "verified" if task.reason is Reason.VERIFIED else "refuted"
    if event is ev.TaskFailed:
        return "failed"
    if task.open or not before.open:
        return ""
    if task.state is TaskState.COMPLETED:
        return "accepted" if task.reason is Reason.APPROVED else "unreviewed"
    if task.state is TaskState.REJECTED and task.reason is Reason.BY_AGENT:
        return "declined"
    return "failed" if task.state is TaskState.FAILED else ""


# --- parties and places -----------------------------------------------------------------------------------------


def project_place(before: Directory, recorded: ev.Recorded, after: Directory) -> tuple[Row, ...]:
    """The rows that follow from an event of a party or place."""
    event = recorded.event
    if isinstance(event, ev.InboxSeen):
        return _seen(event)
    if isinstance(event, ev.WakingEvents):
        return ()
    rows: list[Row] = []
    session = after.sessions.get(recorded.stream)
    agent = after.agents.get(session.agent if session else recorded.stream)
    if agent is not None:
        rows.append(_agent_row(agent, after, recorded))
    place = after.workspaces.get(recorded.stream)
    if place is not None:
        rows.append(
            WorkspaceRow(
                workspace_id=place.workspace_id,
                name=place.name,
                root=place.root,
                repository=place.repository,
                coordinator=place.coordinator,
                mode=place.mode,
                updated_at=recorded.at,
            )
        )
    rows += [
        AliasRow(skeleton=key, alias=name.alias, party=name.party, current=int(name.current))
        for key, name in after.names.items()
        if before.names.get(key) != name
    ]
    return tuple(rows)


def _seen(event: ev.InboxSeen) -> tuple[Row, ...]:
    rows: list[Row] = []
    for task_id, version in event.items:
        rows.append(SeenRow(party=event.party, task_id=task_id, version=version))
        rows.append(NoticeReadRow(task_id=task_id, party=event.party, unread=0))
    return tuple(rows)


def _agent_row(agent: Agent, after: Directory, r: ev.Recorded) -> AgentRow:
    return AgentRow(
        agent_id=agent.agent_id,
        alias=agent.alias,
        owner=agent.owner,
        connection=agent.connection,
        deleted=int(agent.deleted),
        mode=agent.mode,
        presence=_presence(agent.agent_id, after),
        updated_at=r.at,
    )


def _presence(agent: str, directory: Directory) -> str:
    mine = [directory.sessions[session].presence for session in directory.open_sessions.get(agent, ())]
    return "live" if "live" in mine else "lapsed" if mine else "unknown"
