"""Messages to capabilities: asking, waiting, taking back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from tallystick.app.desk import reach
from tallystick.app.desk.anchoring import Anchoring
from tallystick.app.desk.evidence import Evidence
from tallystick.app.desk.ground import digest_of
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.routes import RouteTable
from tallystick.app.execute import Outcome
from tallystick.app.shapes import canonical, payload_of
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused, conflict, denied, invalid, not_found, unsupported
from tallystick.core.events import Text
from tallystick.core.identity import CAPABILITY_PREFIX, HOST, Prefix, is_id, short
from tallystick.core.link import link_of
from tallystick.core.model import BlobReference, Brief, ExternalReference, GitReference, Reference, as_typed
from tallystick.core.offers import wanted
from tallystick.core.route import Holder, addressed
from tallystick.core.state import Task, Work

_TO: Final = ("one", "all")
_RETRY: Final = {"retreat": "", "none": "none"}
_MESSAGES_KEPT: Final = 10_000


class Reaching(Anchoring, RouteTable, Evidence):
    """sail, reaches, retreat, fetch."""

    async def sail(self, guest: Guest, form: reach.Sail) -> reach.Sailed:
        """Send a message to one holder of a capability, or to all of them. The same message again (by key, else by its
        id) is the first one, whatever has become of it."""
        actor = self.writer(guest)
        self._check(form)
        domains = (form.domain,) if form.domain else self.seen_domains(guest)
        found = self.s.routing.holders(form.capability, guest.workspace, domains, guest.actor.id)
        await self._check_shape(guest, form, found)
        msg_id = form.msg_id or self.s.new_id(Prefix.MESSAGE)
        trace = await self._trace_of(guest, form)
        to = self._every(form, found) if form.to == "all" else [None]
        inputs = await self._inputs(guest, form, msg_id, to[0])
        address = addressed(form.capability, found)
        messages = [self._message(guest, form, msg_id, trace, holder, address, inputs) for holder in to]
        if len(messages) == 1:
            outcomes = [await self.s.executor.execute(messages[0], actor)]
        else:
            outcomes = await asyncio.gather(*[self.s.executor.execute(message, actor) for message in messages])
        return self._sailed(guest, outcomes, msg_id)

    def _check(self, form: reach.Sail) -> None:
        limits = self.s.limits
        wanted(form.capability)
        if form.reply_to:
            wanted(form.reply_to)
        size = len(form.payload.encode("utf-8", "surrogatepass"))
        if size > limits.reach_bytes:
            raise invalid(
                f"The payload has {size} bytes; the limit is {limits.reach_bytes}.",
                "Put it into a file and hand over a reference.",
            )
        if form.to not in _TO or form.retry not in _RETRY:
            said = f"to={form.to!r}, retry={form.retry!r}"
            raise invalid(f"{said} is not understood.", "Use one or all, and retreat or none.")
        if form.timeout_ms is not None and not 0 < form.timeout_ms <= reach.LONGEST_MS:
            raise invalid("The timeout must be between 1 ms and 7 days.", "Give a number in that range.")
        if not 0 <= form.ack_timeout_ms <= reach.LONGEST_MS:
            raise invalid("The ack timeout must be between 1 ms and 7 days.", "Give a number in that range, or none.")
        if form.msg_id and not is_id(form.msg_id, Prefix.MESSAGE):
            raise invalid("The message id is not valid.", "Send `msg_` and a ULID.")
        if form.trace and not is_id(form.trace, Prefix.TRACE):
            raise invalid("The trace id is not valid.", "Send `trc_` and a ULID, or none for a new trace.")

    async def _check_shape(self, guest: Guest, form: reach.Sail, found: Sequence[Holder]) -> None:
        """Refuse what no holder takes, before it is a task. At the hand-over it is checked again: by then there may be
        other holders. What was stored once is not refused when it is sent again."""
        schemas = {holder.offer.schema: "" for holder in found}
        if not schemas or "" in schemas:
            return
        payload = payload_of(Text(title=form.title or form.capability, body=form.payload))
        for schema in schemas:
            schemas[schema] = await self.s.shapes.wrong(payload, schema)
            if not schemas[schema]:
                return
        keys = [form.key or form.msg_id]
        keys += [f"{keys[0]}/{holder.agent.agent_id}" for holder in found]
        for key in keys if keys[0] else ():
            if await self.s.views.rows("dedup", workspace=guest.workspace, requester=guest.actor.id, key=key):
                return
        raise invalid(
            f"The payload has the wrong shape for {form.capability}: {next(iter(schemas.values()))}.",
            "Correct it at that place.",
        )

    async def _trace_of(self, guest: Guest, form: reach.Sail) -> str:
        """The trace that is named; else that of the parent, named or the one task that the session holds; else a new
        one."""
        if form.trace:
            await self._check_trace(guest, form.trace)
            return form.trace
        parent = form.parent
        if not parent and guest.actor.session:
            held = await self.s.heads.held.of(guest.actor.session)
            parent = held[0] if len(held) == 1 else ""
        if parent in ("", "none"):
            return self.s.new_id(Prefix.TRACE)
        work = await self.s.heads.work(await self.task_id(guest, parent))
        return work.task.trace if work is not None else self.s.new_id(Prefix.TRACE)

    async def _check_trace(self, guest: Guest, trace: str) -> None:
        """Refuse an agent a trace that is none of its own: one of other workspaces in which it has no part."""
        if guest.actor.id not in self.directory.agents:
            return
        sees, me = self.sees(guest), guest.actor.id
        parts = await self.s.views.rows("in_trace", trace=trace)
        if parts and not any(sees(str(row["workspace"])) or me in (row["assignee"], row["requester"]) for row in parts):
            raise denied("That trace is of another workspace.", "Send none: the message gets a trace of its own.")

    def _every(self, form: reach.Sail, found: Sequence[Holder]) -> list[Holder | None]:
        status = self.s.routing.status
        there = [h for h in found if h.offer.standing or not form.at_once or status(h.agent) != "offline"]
        if len(found) > self.s.limits.dispatch_parts:
            most = self.s.limits.dispatch_parts
            raise invalid(f"{len(found)} agents hold it; the limit is {most}.", "Name a domain.")
        return [*there] or [None]  # where nobody holds it, or nobody is there, the rules say so in their own words

    def _message(
        self,
        guest: Guest,
        form: reach.Sail,
        msg_id: str,
        trace: str,
        holder: Holder | None,
        address: str,
        inputs: tuple[Reference, ...],
    ) -> cmd.SubmitTask:
        """The request; `holder` is the one of all that it is for, else it goes to `address`."""
        seconds = form.timeout_ms / 1000 if form.timeout_ms is not None else self.s.limits.reach_seconds
        spec = form.capability
        to = holder.agent.agent_id if holder is not None else address
        return cmd.SubmitTask(
            task_id=self.s.new_id(Prefix.TASK),
            workspace=guest.workspace,
            trace=trace,
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            message_id=msg_id if holder is None else self.s.new_id(Prefix.MESSAGE),
            text=Text(title=form.title or spec, body=form.payload, brief=Brief(context=form.context)),
            assignee=to,
            capability="" if to.startswith(CAPABILITY_PREFIX) else spec,
            key=_key(form, msg_id, holder),
            digest=digest_of(spec, canonical(form.payload), form.to, form.domain, form.title, *form.inputs),
            inputs=inputs,
            deadline_at=self.s.clock.now() + seconds,
            parent=form.parent if form.parent != "none" else "",
            group=form.group or (msg_id if holder is not None else ""),
            retry=_RETRY[form.retry],
            stall_seconds=form.stall_after_ms / 1000,
            ack_seconds=form.ack_timeout_ms / 1000,
            domain=form.domain,
            domains=guest.facts.domains,
            on_failure=self.party(guest, form.on_failure)[0] if form.on_failure else "",
            reviewer=self.party(guest, form.review_by)[0] if form.review_by else "",
            reply_to=form.reply_to,
            traceparent=form.traceparent,
            at_once=form.at_once,
        )

    async def _inputs(
        self, guest: Guest, form: reach.Sail, msg_id: str, holder: Holder | None
    ) -> tuple[Reference, ...]:
        """What the message rests on, found and read once. Of one that is here already nothing is looked for: a sender
        that lost its connection sends the same again, whatever has become of its files."""
        if not form.inputs:
            return ()
        sent = {"workspace": guest.workspace, "requester": guest.actor.id, "key": _key(form, msg_id, holder)}
        for row in await self.s.views.rows("dedup", **sent):
            first = await self.s.heads.work(str(row["task_id"]))
            return first.task.inputs if first is not None else ()
        given = await self._given(guest, form.parent)
        return tuple([given.get(typed) or await self._input(guest, typed) for typed in form.inputs])

    async def _given(self, guest: Guest, parent: str) -> dict[str, Reference]:
        """What was given to the sender with the task that it works on: it may hand on any of that as it was named."""
        if parent in ("", "none"):
            return {}
        work = await self.s.heads.work(await self.task_id(guest, parent))
        if work is None or guest.actor.id != work.task.assignee or guest.workspace != work.task.workspace:
            return {}
        return {as_typed(found): found for found in work.task.inputs}

    async def _input(self, guest: Guest, typed: str) -> Reference:
        found = await self.reference(guest, typed)
        await self.readable(found, guest.workspace)
        self._check_size(found)
        return found

    def _check_size(self, found: Reference) -> None:
        most = self.s.limits.reference_bytes
        if not isinstance(found, ExternalReference) and found.size > most:
            raise invalid(
                f"{as_typed(found)} has {found.size} bytes; a reference of a message may have {most}.",
                "Refer to the part that is needed, or put it where the other side can read it and give a URL.",
            )

    def _sailed(self, guest: Guest, outcomes: list[Outcome], msg_id: str) -> reach.Sailed:
        works = [outcome.work for outcome in outcomes if outcome.work is not None]
        first = works[0].task
        self.remember(guest, first.task_id)
        self._remember_message(guest, msg_id, first.task_id)
        return reach.Sailed(
            task_id=first.task_id,
            trace_id=first.trace,
            msg_id=msg_id,
            duplicate=all(outcome.duplicate for outcome in outcomes),
            link=link_of(works[0]).value,
            promise=first.promise,
            tasks=tuple(work.task.task_id for work in works) if len(works) > 1 else (),
        )

    def _remember_message(self, guest: Guest, msg_id: str, task_id: str) -> None:
        self._messages[guest.actor.id, msg_id] = task_id
        if len(self._messages) > _MESSAGES_KEPT:
            self._messages.popitem(last=False)

    async def reaches(self, guest: Guest, task: str) -> AsyncIterator[reach.Reached]:
        """Where a message is, then all that happens to it, ending with its result or failure."""
        return self.s.reaches.follow(await self.task_id(guest, task))

    async def retreat(self, guest: Guest, message: str) -> reach.LinkShown:
        """Take a message back: what was not begun waits again and is tried later; what was begun is refused, unless its
        holder is idempotent."""
        work = await self._message_of(guest, message)
        task, assignment = work.task, work.assignment
        if assignment is None or not assignment.in_flight:
            return reach.LinkShown(task_id=task.task_id, link=link_of(work).value, changed=False)
        command = cmd.ReturnDelivery(
            task_id=task.task_id,
            delivery_id=assignment.delivery_id,
            retry_at=self.s.clock.now() + self.s.limits.retry_seconds[0],
            detail=f"{self.directory.alias_of(guest.actor.id)} took it back",
        )
        self.writer(guest)
        try:
            outcome = await self.s.executor.execute(command, HOST)
        except Refused:
            raise conflict(
                f"Task {short(task.task_id)} has begun at {self.directory.alias_of(task.assignee)}.",
                f"Wait for it, or stop it: tally cancel {short(task.task_id)}",
            ) from None
        after = outcome.work or work
        return reach.LinkShown(task_id=task.task_id, link=link_of(after).value)

    async def fetch(self, guest: Guest, task: str, index: int) -> bytes:
        """The bytes of an input of a task, by its place from 0, read once and verified. What is outside is not read.
        For whoever asked, has it, or reviews it; to others it is as good as absent."""
        work = await self.s.views.work(await self.task_id(guest, task))
        found = work.task
        if guest.actor.id not in (found.requester, found.subject, found.assignee, found.reviewer):
            raise not_found("There is no such task of yours.", "List yours with `tally board`.")
        return await self._read(found, index)

    async def fetch_held(self, session: str, task_id: str, index: int) -> bytes:
        """The same, for the session that holds it."""
        work = await self.s.heads.work(task_id)
        held = work.assignment if work is not None else None
        if work is None or held is None or held.session != session:
            raise not_found("This session holds no such task.", "Read references while their message is in hand.")
        return await self._read(work.task, index)

    async def _read(self, task: Task, index: int) -> bytes:
        inputs = task.inputs
        if not 0 <= index < len(inputs):
            raise not_found(f"Task {short(task.task_id)} has {len(inputs)} inputs.", "Count them from 0.")
        found = inputs[index]
        self._check_size(found)
        if isinstance(found, GitReference):
            return await self.s.git.read(found)
        if isinstance(found, BlobReference):
            return await asyncio.to_thread(self.s.blobs.get, found.sha256)
        raise unsupported(f"{found.target[:200]!r} is outside; the host does not read it.", "Read it yourself.")

    async def _message_of(self, guest: Guest, message: str) -> Work:
        """The task of a message by its id, or by the task's."""
        task_id = self._messages.get((guest.actor.id, message), "")
        if not task_id and is_id(message, Prefix.MESSAGE):
            task_id = await self._looked_up(guest, message)
        try:
            work = await self.s.heads.work(task_id or await self.task_id(guest, message))
        except Refused as refused:
            if refused.code is not ErrorCode.NOT_FOUND:
                raise
            work = None
        if work is None or guest.actor.id not in (work.task.requester, work.task.subject):
            raise not_found(
                f"There is no message {short(message)} of yours.",
                "Name it by the `msg_id` that `sail` tells, or by its task: `tally board` lists yours.",
            )
        return work

    async def _looked_up(self, guest: Guest, message: str) -> str:
        for row in await self.s.views.rows("requested", party=guest.actor.id):
            work = await self.s.heads.work(str(row["task_id"]))
            if work is not None and work.task.messages[0].message_id == message:
                return work.task.task_id
        raise not_found(f"There is no open message {short(message)} of yours.", "List yours with `tally board`.")


def _key(form: reach.Sail, msg_id: str, holder: Holder | None) -> str:
    """What a message, or its part for one of all holders, is known by when it comes again."""
    key = form.key or msg_id
    return key if holder is None else f"{key}/{holder.agent.agent_id}"
