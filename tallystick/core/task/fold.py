"""How each event changes a task. Total and without rules: what is in the log has happened."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from tallystick.core import events as ev
from tallystick.core.identity import CAPABILITY_PREFIX, ActorKind
from tallystick.core.model import FINAL_STATES, Spent
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import NOT_RELEASED, TASK_SAME, Permission, Said, Task

_MESSAGES: dict[type, str] = {
    ev.TaskSubmitted: "brief",
    ev.QuestionAsked: "question",
    ev.QuestionAnswered: "answer",
    ev.ResultHandedIn: "result",
    ev.ChangesRequested: "changes",
}
"""Events that say something to somebody, and the kind of message."""
_TO_ANYBODY = frozenset(
    {
        ev.DeliveryReturned,
        ev.ChangesRequested,
        ev.QuestionAnswered,
        ev.TaskReleased,
        ev.LeaseLapsed,
        ev.TaskRestarted,
        ev.DoubtSettled,
        ev.TaskCorrected,
        ev.TaskFailed,
        ev.CheckReported,
        ev.ResultRefused,
    }
)
"""What takes a task out of the hands that had it: one for a capability waits for any holder again."""
_OF_TURNS = frozenset({ev.TurnStarted, ev.TurnNoted, ev.TurnEnded})


def evolve(task: Task | None, recorded: ev.Recorded) -> Task:
    """The task after one more of its events."""
    return with_turn(task, moved(task, recorded), recorded.event, recorded.event.turn)  # type: ignore[union-attr]


def moved(task: Task | None, recorded: ev.Recorded) -> Task:
    """The same but for whose turn it is: that is worked out from it."""
    event = recorded.event
    if type(event) is ev.TaskSubmitted:
        return _submitted(recorded, event)
    if task is None:
        raise ValueError(f"{recorded.stream} begins with {type(event).__name__}")
    change = _CHANGES.get(type(event), _nothing)
    changes = change(task, recorded, event)
    changes.update(_common(task, recorded, event))
    if task.route and type(event) in _TO_ANYBODY and _is_nobodys(changes):
        changes["assignee"] = task.route  # the host chooses anew
    after = replace(task, **changes)
    return _withdrawn(after) if after.permissions else after


def _is_nobodys(changes: dict[str, Any]) -> bool:
    return changes["state"] is S.SUBMITTED or changes["reason"] is R.INBOUND


def with_turn(before: Task | None, after: Task, event: ev.Happened, turn: str) -> Task:
    """A moved task, and whose turn it is then. To say something to somebody counts as giving the turn."""
    if before is None:
        return replace(after, turn=turn)
    if type(event) in _MESSAGES or turn != before.turn:
        return replace(after, turn=turn, turn_version=after.version)
    return after


def _withdrawn(task: Task) -> Task:
    """A permission that nobody decided is withdrawn when the task no longer waits for it."""
    if task.state is S.AUTH_REQUIRED or all(p.decision for p in task.permissions):
        return task
    return replace(
        task, permissions=tuple(p if p.decision else replace(p, decision="canceled") for p in task.permissions)
    )


def _common(task: Task, r: ev.Recorded, e: Any) -> dict[str, Any]:
    closed = e.state in FINAL_STATES
    changes: dict[str, Any] = {
        "state": e.state,
        "reason": e.reason,
        "version": r.version,
        "updated_at": r.at,
        "closed_at": (task.closed_at or r.at) if closed else 0.0,
    }
    kind = _MESSAGES.get(type(e))
    if kind:
        changes["messages"] = (*task.messages, Said(e.message_id, kind, r.actor.id, r.at, r.version))
        changes["rounds"] = 0 if _human(r) or kind == "result" else task.rounds + 1
    if type(e) not in _OF_TURNS:
        changes["said_version"] = r.version
    return changes


def _human(r: ev.Recorded) -> bool:
    return r.actor.kind is ActorKind.PERSON


_same = attrgetter(*TASK_SAME)


def _submitted(r: ev.Recorded, e: ev.TaskSubmitted) -> Task:
    title = e.text.title if e.text else ""
    return Task(  # type: ignore[misc]
        *(r.stream, r.workspace, r.trace, title, r.at, r.at, r.version),
        *_same(e),
        session_wanted=e.session,
        capability=e.capability or _named(e.assignee),
        route=e.assignee if _named(e.assignee) else "",
        key=r.key,
        turn_version=r.version,
        messages=(Said(e.message_id, "brief", r.actor.id, r.at, r.version),),
        rounds=0 if _human(r) else 1,
        closed_at=r.at if e.state in FINAL_STATES else 0.0,
        said_version=r.version,
    )


def _named(assignee: str) -> str:
    """The capability that an assignee is; empty for a party."""
    return assignee.removeprefix(CAPABILITY_PREFIX) if assignee.startswith(CAPABILITY_PREFIX) else ""


def _nothing(_t: Task, _r: ev.Recorded, _e: Any) -> dict[str, Any]:
    return {}


def _claimed(t: Task, r: ev.Recorded, e: ev.TaskClaimed) -> dict[str, Any]:
    return {
        "holder": e.holder,
        "session": e.session,
        "last_holder": e.holder,
        "last_session": e.session,
        "fence": e.fence,
        "fence_before": 0,
        "claim_key": r.key,
        "lease_until": e.lease_until,
        "lease_seconds": max(0.0, e.lease_until - r.at),
        "taken_at": t.taken_at or r.at,
        "released": NOT_RELEASED,
    }


def _question(_t: Task, _r: ev.Recorded, _e: ev.QuestionAsked) -> dict[str, Any]:
    return {"lease_until": 0.0}


def _answered(_t: Task, _r: ev.Recorded, e: ev.QuestionAnswered) -> dict[str, Any]:
    return {"lease_until": e.lease_until} if e.state is S.WORKING else _no_holder()


def _no_holder() -> dict[str, Any]:
    return {"holder": "", "session": "", "lease_until": 0.0, "fence_before": 0}


def _handed_in(t: Task, r: ev.Recorded, e: ev.ResultHandedIn) -> dict[str, Any]:
    return {
        "assignee": e.holder if t.route else t.assignee,  # who had it may take it back before another has begun
        "holder": e.holder if e.state is S.WORKING else "",
        "session": e.session if e.state is S.WORKING else "",
        "last_holder": e.holder,
        "last_session": e.session,
        "fence": e.fence,
        "lease_until": 0.0,
        "doubt": "",
        "handed_in_at": r.at,
        "revision": e.revision,
        "review_wanted": t.review_wanted or e.review_wanted,
        "commit": e.commit,
        "references": e.references,
        "artifacts": (*t.artifacts, *e.artifacts),
        "runs": (*t.runs, e.run) if e.run else t.runs,
        "rounds": 0,
    }


def _checked(t: Task, _r: ev.Recorded, e: ev.CheckReported) -> dict[str, Any]:
    after: dict[str, Any] = {"runs": (*t.runs, e.run), "rounds": 0, "failures": e.round or t.failures}
    if e.state is S.WORKING:
        return {**after, "lease_until": e.lease_until, "refuted": True}
    return {**after, **_no_holder()}


def _ended(t: Task, _r: ev.Recorded, e: Any) -> dict[str, Any]:
    failures = getattr(e, "round", 0) or t.failures
    run = getattr(e, "run", None)
    return {**_no_holder(), "failures": failures, "runs": (*t.runs, run) if run else t.runs}


def _changes(_t: Task, _r: ev.Recorded, _e: ev.ChangesRequested) -> dict[str, Any]:
    return _no_holder()


def _permission(t: Task, r: ev.Recorded, e: ev.PermissionRequested) -> dict[str, Any]:
    asked = Permission(e.permission_id, e.action, e.digest, r.at, options=e.options)
    return {**_interrupted(t, S.AUTH_REQUIRED), "permissions": (*t.permissions, asked)}


def _interrupted(t: Task, into: S) -> dict[str, Any]:
    """Remember where it was; being interrupted twice keeps the first place."""
    if t.state is into:
        return {"lease_until": 0.0}
    return {"resume_state": t.state, "resume_reason": t.reason, "lease_until": 0.0}


def _decided(t: Task, _r: ev.Recorded, e: ev.PermissionDecided) -> dict[str, Any]:
    rows = tuple(replace(p, decision=e.decision) if p.permission_id == e.permission_id else p for p in t.permissions)
    # A check that nobody allowed leaves the result to a reviewer: like any result handed in, nobody holds it then.
    held = {"holder": "", "session": ""} if e.state is S.INPUT_REQUIRED else {}
    return {"permissions": rows, "lease_until": e.lease_until, "rounds": 0, **held}


def _cancel_asked(t: Task, r: ev.Recorded, e: ev.CancelRequested) -> dict[str, Any]:
    by_person = _human(r) and r.actor.id != t.requester
    return {"cancel_requested_at": r.at, "cancel_by_person": by_person, "cascade": e.cascade}


def _canceled(t: Task, _r: ev.Recorded, e: ev.TaskCanceled) -> dict[str, Any]:
    return {**_no_holder(), "cascade": e.cascade or t.cascade}


def _cascaded(_t: Task, _r: ev.Recorded, _e: ev.CascadeFinished) -> dict[str, Any]:
    return {"cascade": ()}


def _forwarded(_t: Task, _r: ev.Recorded, _e: ev.ResultForwarded) -> dict[str, Any]:
    return {"forwarded": True}


def _reassigned(t: Task, r: ev.Recorded, e: ev.TaskReassigned) -> dict[str, Any]:
    return {
        **_no_holder(),
        "assignee": e.assignee,
        "capability": _named(e.assignee) or t.capability,
        "route": e.assignee if _named(e.assignee) else "",
        "session_wanted": e.session,
        "fresh": False,
        "fork_of": "",
        "handed_on": (*t.handed_on, t.assignee) if r.actor.kind is ActorKind.HOST else t.handed_on,
        "provider": e.provider,
        "promise": e.promise,
        "last_holder": "",
        "last_session": "",
        "attempt": t.attempt + 1,
        "rule": e.rule,
        "taken_at": 0.0,
        "handed_in_at": 0.0,
        "doubt": "",
        "rounds": 0 if _human(r) else t.rounds,
    }


def _released(t: Task, r: ev.Recorded, e: ev.TaskReleased) -> dict[str, Any]:
    return {**_no_holder(), "released": (r.actor.session, e.note), "attempt": t.attempt + 1}


def _lapsed(t: Task, _r: ev.Recorded, _e: ev.LeaseLapsed) -> dict[str, Any]:
    return {**_no_holder(), "attempt": t.attempt + 1, "last_holder": "", "last_session": ""}


def _recovered(t: Task, _r: ev.Recorded, e: ev.LeaseRecovered) -> dict[str, Any]:
    return {"fence": e.fence, "fence_before": t.fence_before or t.fence, "lease_until": e.lease_until}


def _returned(t: Task, r: ev.Recorded, e: ev.HolderReturned) -> dict[str, Any]:
    # Whoever takes it again is told the new fence; a spoke goes on with the one that it was sent.
    before = t.fence_before if r.actor.door == "spoke" else 0
    return {"fence": e.fence, "fence_before": before, "lease_until": e.lease_until}


def _doubted(t: Task, _r: ev.Recorded, e: ev.TaskDoubted | ev.TaskExpired) -> dict[str, Any]:
    """A person is asked. Whoever had it may still come back and tell, by the fence that it knows."""
    last = {"last_holder": t.holder, "last_session": t.session} if t.holder else {}
    return {**_no_holder(), **last, "fence_before": t.fence_before, "doubt": e.detail}


def _expired(t: Task, r: ev.Recorded, e: ev.TaskExpired) -> dict[str, Any]:
    return _ended(t, r, e) if e.reason is R.EXPIRED else _doubted(t, r, e)


def _settled_doubt(t: Task, _r: ev.Recorded, e: ev.DoubtSettled) -> dict[str, Any]:
    after = {**_no_holder(), "doubt": "", "rounds": 0}
    if e.reason is R.COMPENSATING:
        return {**after, "failures": t.failures + 1}
    if e.state is not S.SUBMITTED:
        return after
    # Whoever held it before may still wake up: its fence must not bring it back.
    return {**after, "attempt": t.attempt + 1, "last_holder": "", "last_session": ""}


def _restarted(t: Task, _r: ev.Recorded, e: ev.TaskRestarted) -> dict[str, Any]:
    if e.reason is R.COMPENSATING:
        return {"failures": t.failures + 1}
    return {**_no_holder(), "attempt": t.attempt + 1}


def _frozen(t: Task, _r: ev.Recorded, _e: ev.TaskFrozen) -> dict[str, Any]:
    return _interrupted(t, S.INPUT_REQUIRED)


def _corrected(t: Task, _r: ev.Recorded, e: ev.TaskCorrected) -> dict[str, Any]:
    kept = {} if e.state is S.WORKING and t.holder else _no_holder()
    canceled = {} if t.open else {"cancel_requested_at": 0.0, "cancel_by_person": False, "cascade": ()}
    attempt = t.attempt + 1 if e.delivery_id else t.attempt
    after = {"rounds": 0, "doubt": "", "settled": False, "lease_until": e.lease_until, "attempt": attempt}
    after |= {"resume_state": None, "resume_reason": R.NONE}  # where it was before is no place to go back to
    return {**kept, **canceled, **after}


def _erased(_t: Task, _r: ev.Recorded, _e: ev.TextsErased) -> dict[str, Any]:
    return {"title": ev.ERASED.title, "erased": True}


def _settled(_t: Task, _r: ev.Recorded, _e: ev.TraceSettled) -> dict[str, Any]:
    return {"settled": True}


def _mode(_t: Task, _r: ev.Recorded, e: ev.TaskModeChanged) -> dict[str, Any]:
    return {"mode": e.mode}


def _leased(t: Task, r: ev.Recorded, e: ev.DeliveryLeased) -> dict[str, Any]:
    return {
        "assignee": e.recipient or t.assignee,
        "session": e.session,
        "fence": e.fence,
        "lease_until": e.lease_until,
        "lease_seconds": max(0.0, e.lease_until - r.at),
    }


def _begun(t: Task, r: ev.Recorded, _e: ev.DeliveryBegun) -> dict[str, Any]:
    return {
        "holder": t.assignee,
        "last_holder": t.assignee,
        "last_session": t.session,
        "taken_at": t.taken_at or r.at,
        "released": NOT_RELEASED,
    }


def _turn_started(t: Task, _r: ev.Recorded, e: ev.TurnStarted) -> dict[str, Any]:
    return {
        "running": e.turn_id,
        "refuted": False,
        "turns": t.turns + 1,
        "reminders": t.reminders + 1 if e.purpose == "reminder" else 0,
        "resumes": t.resumes + 1 if e.purpose == "resumed" else 0 if e.purpose != "reminder" else t.resumes,
        "spent": t.spent.plus(t.spending),
        "spending": Spent(),
    }


def _turn_noted(_t: Task, _r: ev.Recorded, e: ev.TurnNoted) -> dict[str, Any]:
    return {"spending": e.spent}


def _turn_ended(t: Task, _r: ev.Recorded, e: ev.TurnEnded) -> dict[str, Any]:
    return {"running": "", "spent": t.spent.plus(e.spent), "spending": Spent()}


def _delivery_returned(_t: Task, _r: ev.Recorded, _e: ev.DeliveryReturned) -> dict[str, Any]:
    return _no_holder()


_CHANGES: dict[type, Callable[[Task, ev.Recorded, Any], dict[str, Any]]] = {
    ev.TaskClaimed: _claimed,
    ev.QuestionAsked: _question,
    ev.QuestionAnswered: _answered,
    ev.ResultHandedIn: _handed_in,
    ev.CheckReported: _checked,
    ev.ResultApproved: _ended,
    ev.ChangesRequested: _changes,
    ev.ResultRefused: _ended,
    ev.TaskDeclined: _ended,
    ev.TaskFailed: _ended,
    ev.TaskTurnedAway: _ended,
    ev.PermissionRequested: _permission,
    ev.PermissionDecided: _decided,
    ev.CancelRequested: _cancel_asked,
    ev.TaskCanceled: _canceled,
    ev.CascadeFinished: _cascaded,
    ev.ResultForwarded: _forwarded,
    ev.TaskReassigned: _reassigned,
    ev.TaskReleased: _released,
    ev.LeaseLapsed: _lapsed,
    ev.LeaseRecovered: _recovered,
    ev.HolderReturned: _returned,
    ev.TaskDoubted: _doubted,
    ev.DoubtSettled: _settled_doubt,
    ev.TaskExpired: _expired,
    ev.TaskRestarted: _restarted,
    ev.TaskFrozen: _frozen,
    ev.TaskCorrected: _corrected,
    ev.TextsErased: _erased,
    ev.TraceSettled: _settled,
    ev.TaskModeChanged: _mode,
    ev.DeliveryLeased: _leased,
    ev.DeliveryBegun: _begun,
    ev.DeliveryReturned: _delivery_returned,
    ev.TurnStarted: _turn_started,
    ev.TurnNoted: _turn_noted,
    ev.TurnEnded: _turn_ended,
}
