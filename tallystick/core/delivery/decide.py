"""What may be decided about a delivery alone: proof of recording, lease, begin, return, doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import PUSHED
from tallystick.core.errors import conflict, unavailable
from tallystick.core.failure import failing
from tallystick.core.identity import CAPABILITY_PREFIX, ActorKind, short
from tallystick.core.model import Fact
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.route import Holder, concurrency_of, held_by, holders
from tallystick.core.state import Context, Delivery, Task, Unchanged, Work, same_place


def decide(work: Work | None, command: cmd.TaskCommand, ctx: Context, sofar: Any) -> Any:
    """Passes on what the task machine decided, or decides what only concerns a delivery."""
    rule = _RULES.get(type(command))
    return rule(work, command, ctx, sofar) if rule else sofar


def _caps(_w: Work | None, c: cmd.SubmitTask, ctx: Context, sofar: Any) -> Any:
    if isinstance(sofar, Unchanged):
        return sofar
    limits = ctx.limits
    agent = ctx.directory.agents.get(c.assignee)
    if ctx.queued >= limits.mailbox_queue:
        raise unavailable(f"The mailbox is full: {ctx.queued} open messages.", "Wait until some of them are done.")
    if c.assignee.startswith(CAPABILITY_PREFIX) and ctx.queued >= limits.anchor_queue:
        name = c.assignee.removeprefix(CAPABILITY_PREFIX)
        raise unavailable(
            f"{ctx.queued} messages wait for {name!r}; the limit is {limits.anchor_queue}.",
            "Wait until some of them are done, or let more holders join.",
        )
    if agent is not None and agent.connection in PUSHED and ctx.queued_by_sender >= limits.push_queue:
        raise unavailable(
            f"{ctx.queued_by_sender} messages of yours wait for @{agent.alias}; the limit is {limits.push_queue}.",
            "Wait until some of them are done.",
        )
    return sofar


def _known(work: Work | None, delivery_id: str) -> Delivery:
    found = work.delivery(delivery_id) if work else None
    if found is None:
        raise conflict(f"There is no delivery {short(delivery_id)} of this task.", "Look at the task again.")
    return found


def _record(work: Work, c: cmd.RecordDelivery, ctx: Context, _sofar: Any) -> ev.DeliveryRecorded | Unchanged:
    delivery = _known(work, c.delivery_id)
    proven = not c.proof.startswith("inferred")
    if proven and ctx.actor.kind is ActorKind.HOST and _is_inferred(delivery):
        return ev.DeliveryRecorded(**same_place(work.task), delivery_id=c.delivery_id, witness=c.witness, proof=c.proof)
    if delivery.has(Fact.RECORDED) or not delivery.open:
        return Unchanged(work.task.task_id)
    if delivery.recipient.startswith(CAPABILITY_PREFIX):
        raise conflict("Nobody was chosen for it yet, so nobody has it.", "Nothing is to be done.")
    if delivery.recipient != ctx.actor.id and ctx.actor.kind is not ActorKind.HOST:
        raise conflict("Only the recipient acknowledges its own delivery.", "Nothing is to be done.")
    return ev.DeliveryRecorded(**same_place(work.task), delivery_id=c.delivery_id, witness=c.witness, proof=c.proof)


def _is_inferred(delivery: Delivery) -> bool:
    """Whether its being recorded was concluded and not shown: what the client's own record proves takes its place."""
    seen = next((f for f in delivery.facts if f.fact is Fact.RECORDED), None)
    return seen is not None and (not seen.evidence or seen.evidence.startswith("inferred"))


def _lease(work: Work, c: cmd.LeaseDelivery, ctx: Context, _sofar: Any) -> ev.DeliveryLeased:
    delivery = _known(work, c.delivery_id)
    if not delivery.open or not delivery.due_at or delivery.due_at > ctx.now:
        raise conflict(f"Delivery {short(c.delivery_id)} is not due.", "Nothing is to be done.")
    holder = _holder(work.task, delivery, c.recipient, ctx)
    slots = holder.slots if holder is not None else concurrency_of(delivery.recipient, ctx.directory)
    if ctx.outstanding >= slots:
        raise conflict("Every slot of the recipient is taken.", "It is tried again when one is free.")
    return ev.DeliveryLeased(
        **same_place(work.task),
        delivery_id=c.delivery_id,
        session=c.session,
        intent_id=c.intent_id,
        fence=work.task.fence + 1,
        lease_until=ctx.now + c.lease_seconds,
        rule=(holder.rule if holder is not None else "") or work.task.rule or "joined",
        recipient=c.recipient,
    )


def _holder(task: Task, delivery: Delivery, chosen: str, ctx: Context) -> Holder | None:
    """As what of a capability its recipient gets it; None where none is asked for, or its recipient was named and holds
    it no more. Who was chosen must hold it now, and is not chosen where somebody was named."""
    if bool(chosen) != bool(task.route):
        raise conflict(f"Delivery {short(delivery.delivery_id)} is not for whom the host chooses.", "Choose anew.")
    if not task.capability:
        return None
    found = holders(task.capability, task.workspace, ctx.directory, task.domains, task.requester)
    holder = held_by(chosen or delivery.recipient, found)
    if delivery.is_repeat and (holder is None or not holder.offer.idempotent):
        raise conflict("It was begun before, and this holder must not do it twice.", "Choose one that may.")
    if holder is None and chosen:
        raise conflict(f"{ctx.directory.alias_of(chosen)} does not hold {task.capability!r} now.", "Choose anew.")
    return holder


def _intended(work: Work | None, delivery_id: str) -> Delivery:
    delivery = _known(work, delivery_id)
    if delivery.intent != "intended" or not delivery.open:
        raise conflict(f"Delivery {short(delivery_id)} is not being dispatched.", "Nothing is to be done.")
    return delivery


def _begin(work: Work, c: cmd.BeginDelivery, ctx: Context, _sofar: Any) -> ev.DeliveryBegun:
    recipient = ctx.directory.agents.get(_intended(work, c.delivery_id).recipient)
    proof, evidence = c.proof, c.evidence
    if recipient is not None and recipient.connection == "spoke":
        proof, evidence = c.evidence, ""  # it says so itself, and only once it has stored it
    return ev.DeliveryBegun(
        state=S.WORKING, delivery_id=c.delivery_id, witness=c.witness, proof=proof, evidence=evidence
    )


def _return(work: Work, c: cmd.ReturnDelivery, ctx: Context, _sofar: Any) -> ev.TaskEvent:
    delivery = _known(work, c.delivery_id)
    task = work.task
    has_begun = delivery.has(Fact.RECORDED) or task.state is S.WORKING
    if not delivery.in_flight or (has_begun and not _is_idempotent(task, ctx)):
        raise conflict(f"Delivery {short(c.delivery_id)} is not being dispatched.", "Nothing is to be done.")
    tries = 0 if task.retry == "none" else len(ctx.limits.retry_seconds)
    if delivery.retries < tries:
        place = {"state": S.SUBMITTED, "reason": R.NEW} if has_begun else same_place(task)
        return ev.DeliveryReturned(**place, delivery_id=c.delivery_id, retry_at=c.retry_at, detail=c.detail)
    return failing(task, R.OFFLINE, ctx, text=ev.Text(body=c.detail))


def _is_idempotent(task: Task, ctx: Context) -> bool:
    """Whether its holder says of the offer that it got it by that to do it twice is to do it once: then another that
    says so too may get what was begun."""
    if not task.capability:
        return False
    found = holders(task.capability, task.workspace, ctx.directory, task.domains, task.requester)
    holder = held_by(task.assignee, found)
    return holder is not None and holder.offer.idempotent


def _doubt(work: Work, c: cmd.DoubtDelivery, _ctx: Context, _sofar: Any) -> ev.DeliveryUnverified | Unchanged:
    delivery = _known(work, c.delivery_id)
    if delivery.unverified or not delivery.open:
        return Unchanged(work.task.task_id)
    if delivery.intent != "intended":
        raise conflict(f"Delivery {short(c.delivery_id)} was never dispatched.", "Nothing is to be doubted.")
    return ev.DeliveryUnverified(**same_place(work.task), delivery_id=c.delivery_id, detail=c.detail)


_RULES: dict[type, Callable[..., Any]] = {
    cmd.SubmitTask: _caps,
    cmd.RecordDelivery: _record,
    cmd.LeaseDelivery: _lease,
    cmd.BeginDelivery: _begin,
    cmd.ReturnDelivery: _return,
    cmd.DoubtDelivery: _doubt,
}
