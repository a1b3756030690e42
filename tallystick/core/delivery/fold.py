"""How events change the deliveries of a task: most facts follow from task events, one command being one event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tallystick.core import events as ev
from tallystick.core.model import Fact
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import Delivery, FactSeen, Task


def evolve(deliveries: tuple[Delivery, ...], recorded: ev.Recorded, task: Task) -> tuple[Delivery, ...]:
    """The deliveries after one more event; `task` is the task after it."""
    change = _CHANGES.get(type(recorded.event))
    after = change(deliveries, recorded, recorded.event, task) if change else deliveries
    after = _rested(_inferred(after, recorded), recorded, task)
    if task.open:
        return after
    how = "expired" if task.reason is R.EXPIRED else _ENDINGS.get(task.state, "")
    return _ended(after, recorded.at, how)


_ENDINGS = {S.FAILED: "failed", S.CANCELED: "canceled", S.REJECTED: "rejected", S.COMPLETED: "settled"}

_RESTS = frozenset({ev.TurnEnded, ev.QuestionAsked})
"""What may end a turn with the task in other hands."""


def _rested(ds: tuple[Delivery, ...], r: ev.Recorded, task: Task) -> tuple[Delivery, ...]:
    """A turn that ended with the task in other hands was a prompt carried out: nothing of it is in doubt."""
    if type(r.event) not in _RESTS:
        return ds
    waits = task.state is S.INPUT_REQUIRED and task.reason is not R.UNVERIFIED and task.turns and not task.running
    if not waits:
        return ds
    return tuple(replace(d, intent="performed", updated_at=r.at) if d.intent == "intended" else d for d in ds)


def _end(d: Delivery, at: float, how: str) -> Delivery:
    intent = "performed" if d.intent == "intended" and how == "settled" else d.intent
    return replace(d, ended=how, due_at=0.0, updated_at=at, intent=intent)


def _and(facts: tuple[FactSeen, ...], new: tuple[FactSeen, ...]) -> tuple[FactSeen, ...]:
    """The facts of a delivery and what was seen now; who said one first has said it."""
    # A pull take says claimed, admitted and working at once; the proof of recording may come later, or before it.
    known = {f.fact: f for f in (*new, *facts)}
    return tuple(filter(None, map(known.get, ev.FACT_ORDER)))


def _only(
    deliveries: tuple[Delivery, ...], delivery_id: str, change: Callable[[Delivery], Delivery]
) -> tuple[Delivery, ...]:
    return tuple([change(d) if d.delivery_id == delivery_id else d for d in deliveries])


def _new(r: ev.Recorded, task: Task, delivery_id: str, kind: str, recipient: str, session: str = "") -> Delivery:
    facts = (FactSeen(Fact.ACCEPTED, r.at, "host"), FactSeen(Fact.PERSISTED, r.at, "host"))
    return Delivery(
        delivery_id=delivery_id,
        kind=kind,
        sender=r.actor.id,
        recipient=recipient,
        attempt=task.attempt,
        facts=facts,
        created_at=r.at,
        updated_at=r.at,
        session=session,
        due_at=r.at if kind in ("assignment", "change") else 0.0,
    )


def _submitted(_ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.TaskSubmitted, task: Task) -> tuple[Delivery, ...]:
    delivery = _new(r, task, e.delivery_id, "assignment", e.assignee, session=e.session)
    return (delivery if e.state is S.SUBMITTED else replace(delivery, due_at=0.0),)


def _claimed(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.TaskClaimed, _t: Task) -> tuple[Delivery, ...]:
    who = e.session or e.holder
    facts = (
        FactSeen(Fact.CLAIMED, r.at, who, f"fence {e.fence}"),
        FactSeen(Fact.ADMITTED, r.at, "policy", f"rule {e.rule}"),
        FactSeen(Fact.WORKING, r.at, who, "take"),
    )

    def change(d: Delivery) -> Delivery:
        intent = "intended" if d.intent == "unverified" else d.intent  # the recipient itself tells that it has it
        return replace(
            d,
            facts=_and(d.facts, facts),
            session=e.session,
            due_at=0.0,
            unverified=False,
            intent=intent,
            updated_at=r.at,
        )

    return _only(ds, e.delivery_id, change)


_PROOFS = frozenset({ev.TaskClaimed, ev.DeliveryRecorded, ev.DeliveryBegun})
"""What says itself whether the body was recorded."""


def _inferred(ds: tuple[Delivery, ...], r: ev.Recorded) -> tuple[Delivery, ...]:
    """Any later call of the holding session shows that it has the body."""
    if not ds or type(r.event) in _PROOFS:
        return ds
    last = ds[-1]
    if r.actor.id != last.recipient or r.actor.session != last.session or not last.open:
        return ds
    if not last.has(Fact.WORKING) or last.has(Fact.RECORDED):
        return ds
    fact = FactSeen(Fact.RECORDED, r.at, r.actor.session or r.actor.id, "inferred: its next call")
    return (*ds[:-1], replace(last, facts=_and(last.facts, (fact,)), updated_at=r.at))


def _recorded(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.DeliveryRecorded, _t: Task) -> tuple[Delivery, ...]:
    fact = FactSeen(Fact.RECORDED, r.at, e.witness, e.proof)

    def change(d: Delivery) -> Delivery:
        kept = tuple(f for f in d.facts if f.fact is not Fact.RECORDED or e.proof.startswith("inferred"))
        return replace(d, facts=_and(kept, (fact,)), updated_at=r.at)

    return _only(ds, e.delivery_id, change)


def _assignment_id(ds: tuple[Delivery, ...]) -> str:
    for d in reversed(ds):
        if d.kind in ("assignment", "change"):
            return d.delivery_id
    return ""


def _handed_in(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.ResultHandedIn, _t: Task) -> tuple[Delivery, ...]:
    who = e.session or e.holder
    facts = (
        FactSeen(Fact.CLAIMED, r.at, who, f"fence {e.fence}"),
        FactSeen(Fact.ADMITTED, r.at, "policy", "rule member"),
        FactSeen(Fact.RECORDED, r.at, who, "inferred: its next call"),
        FactSeen(Fact.WORKING, r.at, who, "submit"),
        FactSeen(Fact.SUBMITTED, r.at, who, _evidence(e)),
    )

    def change(d: Delivery) -> Delivery:
        if not d.open:
            return d
        intent = "performed" if d.intent else ""
        return replace(d, facts=_and(d.facts, facts), due_at=0.0, unverified=False, intent=intent, updated_at=r.at)

    return _only(ds, _assignment_id(ds), change)


def _evidence(e: ev.ResultHandedIn) -> str:
    count = len(e.references)
    checked = f"{count} reference{'' if count == 1 else 's'} checked"
    if e.commit:
        return f"commit {e.commit[:12]}, {checked}"
    if e.run is not None:
        return f"exit {e.run.exit_code}" if e.run.exit_code is not None else f"signal {e.run.signal}"
    return checked


def _change(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.ChangesRequested, task: Task) -> tuple[Delivery, ...]:
    return (*ds, _new(r, task, e.delivery_id, "change", task.assignee))


def _answer(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.QuestionAnswered, task: Task) -> tuple[Delivery, ...]:
    if e.state is S.WORKING:
        return (*ds, _new(r, task, e.delivery_id, "answer", task.holder, session=task.session))
    return (*_ended(ds, r.at, "failed"), _new(r, task, e.delivery_id, "change", task.assignee))


def _ended(ds: tuple[Delivery, ...], at: float, how: str) -> tuple[Delivery, ...]:
    return tuple([_end(d, at, how) if d.open else d for d in ds])


def _doubt_settled(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.DoubtSettled, task: Task) -> tuple[Delivery, ...]:
    """Somebody told what became of it; a cancel tells nothing, and the flag stays."""
    fact = FactSeen(Fact.SUBMITTED, r.at, r.actor.id, f"settled: {e.outcome}")

    def change(d: Delivery) -> Delivery:
        if not d.in_flight or e.outcome == "cancel":
            return d
        if e.outcome == "done":
            return replace(d, facts=_and(d.facts, (fact,)), unverified=False, intent="performed", updated_at=r.at)
        return replace(d, unverified=False, intent="refuted")

    return _again("failed")(tuple(change(d) for d in ds), r, e, task) if e.outcome != "cancel" else ds


def _again(how: str) -> Callable[..., tuple[Delivery, ...]]:
    """The attempt in hand ends, and a new one begins."""

    def change(ds: tuple[Delivery, ...], r: ev.Recorded, e: Any, task: Task) -> tuple[Delivery, ...]:
        after = _ended(ds, r.at, how)
        if not e.delivery_id or e.state not in (S.SUBMITTED, S.AUTH_REQUIRED) or e.reason is R.COMPENSATING:
            return after
        new = _new(r, task, e.delivery_id, "assignment", task.assignee, session=task.session_wanted)
        return (*after, new if e.state is S.SUBMITTED else replace(new, due_at=0.0))

    return change


def _corrected(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.TaskCorrected, task: Task) -> tuple[Delivery, ...]:
    """A person put it elsewhere: what is being run of it counts no longer, unless just that is what nobody knows."""
    goes_on = e.state is S.WORKING or e.reason is R.UNVERIFIED
    after = ds if goes_on else tuple([_end(d, r.at, "canceled") if d.in_flight else d for d in ds])
    if not e.delivery_id:
        return after
    return (*_ended(after, r.at, "canceled"), _new(r, task, e.delivery_id, "assignment", task.assignee))


def _admitted(ds: tuple[Delivery, ...], r: ev.Recorded, _e: ev.TaskAdmitted, _t: Task) -> tuple[Delivery, ...]:
    return _only(ds, _assignment_id(ds), lambda d: replace(d, due_at=r.at, updated_at=r.at) if d.open else d)


def _leased(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.DeliveryLeased, _t: Task) -> tuple[Delivery, ...]:
    facts = (
        FactSeen(Fact.CLAIMED, r.at, e.session, f"slot taken, fence {e.fence}"),
        FactSeen(Fact.ADMITTED, r.at, "policy", f"rule {e.rule}"),
    )
    return _only(
        ds,
        e.delivery_id,
        lambda d: replace(
            d,
            facts=_and(d.facts, facts),
            session=e.session,
            recipient=e.recipient or d.recipient,
            due_at=0.0,
            intent_id=e.intent_id,
            intent="intended",
            updated_at=r.at,
        ),
    )


def _begun(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.DeliveryBegun, _t: Task) -> tuple[Delivery, ...]:
    facts = (
        FactSeen(Fact.RECORDED, r.at, e.witness, e.proof),
        FactSeen(Fact.WORKING, r.at, e.witness, "auto"),
    )
    return _only(ds, e.delivery_id, lambda d: replace(d, facts=_and(d.facts, facts), updated_at=r.at))


def _returned(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.DeliveryReturned, task: Task) -> tuple[Delivery, ...]:
    def change(d: Delivery) -> Delivery:
        return replace(
            d,
            recipient=task.assignee,
            facts=d.facts[:2],
            session="",
            due_at=e.retry_at,
            intent="refuted",
            unverified=False,
            prompted=False,
            is_repeat=d.is_repeat or d.has(Fact.WORKING),
            retries=d.retries + 1,
            updated_at=r.at,
        )

    return _only(ds, e.delivery_id, change)


def _unverified(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.DeliveryUnverified, _t: Task) -> tuple[Delivery, ...]:
    return _only(ds, e.delivery_id, lambda d: replace(d, unverified=True, intent="unverified", updated_at=r.at))


def _turn_started(ds: tuple[Delivery, ...], r: ev.Recorded, e: ev.TurnStarted, task: Task) -> tuple[Delivery, ...]:
    """A prompt is on its way: what it hands over is claimed, and the work itself is in flight (again)."""
    work = _assignment_id(ds)
    facts = (FactSeen(Fact.CLAIMED, r.at, e.session, "prompt written down"), _policy(r, task))

    def change(d: Delivery) -> Delivery:
        if not d.open or d.delivery_id not in (work, e.delivery_id):
            return d
        if d.delivery_id != work:
            return replace(d, facts=_and(d.facts, facts), session=e.session, due_at=0.0, updated_at=r.at)
        # That it goes on was found in the session's own history: the host reconciled it.
        return replace(d, intent="intended", unverified=False, prompted=True, updated_at=r.at)

    return tuple(change(d) for d in ds)


def _policy(r: ev.Recorded, task: Task) -> FactSeen:
    return FactSeen(Fact.ADMITTED, r.at, "policy", f"rule {task.rule or 'joined'}")


def _back(ds: tuple[Delivery, ...], r: ev.Recorded, _e: ev.HolderReturned, _t: Task) -> tuple[Delivery, ...]:
    """A reconciler restored the earlier fact."""
    return tuple(
        replace(d, unverified=False, intent="intended" if d.intent == "unverified" else d.intent, updated_at=r.at)
        if d.unverified and d.open
        else d
        for d in ds
    )


def _doubted(ds: tuple[Delivery, ...], r: ev.Recorded, e: Any, _t: Task) -> tuple[Delivery, ...]:
    if e.reason is not R.UNVERIFIED:
        return ds
    return tuple(
        replace(d, unverified=True, intent="unverified", due_at=0.0, updated_at=r.at) if d.in_flight else d for d in ds
    )


def _compensated(ds: tuple[Delivery, ...], r: ev.Recorded, e: Any, _t: Task) -> tuple[Delivery, ...]:
    return _ended(ds, r.at, "failed") if e.reason is R.COMPENSATING else ds


_CHANGES: dict[type, Callable[..., tuple[Delivery, ...]]] = {
    ev.TaskSubmitted: _submitted,
    ev.TaskClaimed: _claimed,
    ev.DeliveryRecorded: _recorded,
    ev.ResultHandedIn: _handed_in,
    ev.ChangesRequested: _change,
    ev.QuestionAnswered: _answer,
    ev.TaskAdmitted: _admitted,
    ev.TaskReassigned: _again("canceled"),
    ev.TaskReleased: _again("canceled"),
    ev.LeaseLapsed: _again("failed"),
    ev.TaskRestarted: _again("failed"),
    ev.DoubtSettled: _doubt_settled,
    ev.TaskCorrected: _corrected,
    ev.DeliveryLeased: _leased,
    ev.DeliveryBegun: _begun,
    ev.DeliveryReturned: _returned,
    ev.DeliveryUnverified: _unverified,
    ev.TurnStarted: _turn_started,
    ev.HolderReturned: _back,
    ev.TaskDoubted: _doubted,
    ev.TaskExpired: _doubted,
    ev.TaskFailed: _compensated,
    ev.CheckReported: _compensated,
    ev.ResultRefused: _compensated,
}
