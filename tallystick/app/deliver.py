"""The only effect path: due rows, a lease written ahead, the transport, a report.

An outcome comes back in as an ordinary command. What was dispatched and has no outcome is never sent again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tallystick.app.clock import HighWater
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.heads import Heads
from tallystick.app.outcomes import STOPPED, Outcomes
from tallystick.app.ports import Envelope, NewId, Transport
from tallystick.app.prompting import FurtherPrompts
from tallystick.app.routing import DOOR, Chosen, Route, Routing
from tallystick.app.words import Words
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused
from tallystick.core.events import Text
from tallystick.core.identity import HOST, Prefix, short
from tallystick.core.limits import Limits
from tallystick.core.model import Fact, Reason
from tallystick.core.route import agent_mode, is_stopped
from tallystick.core.rows import DeliveryRow, Row, TaskRow
from tallystick.core.state import Work
from tallystick.core.task import is_held_back, wanted
from tallystick.store.interface import Store

_SWEEP_SECONDS = 5.0
_LATER_SECONDS = 0.01
"""The loop's clock is not the one by which a delivery is due: so much later it surely is."""
_SUBMITTED = Fact.SUBMITTED.value
_LOOK = 200
"""So many due deliveries are looked at for a free place: what waits for one session holds up nobody else's work."""
_GONE = "Its process is gone and nobody saw how it ended."
_SPOKE_AWAY = "The host was started anew; its spoke tells how it goes once it is back."


class Deliverer:
    """Pushes what is due to recipients that are pushed to. `transports` by the agent's connection."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        executor: Executor,
        words: Words,
        clock: HighWater,
        new_id: NewId,
        limits: Limits,
        transports: Mapping[str, Transport],
        diagnostics: Diagnostics,
        routing: Routing,
        reached: Reached = unmoved,
    ) -> None:
        self._store = store
        self._heads = heads
        self._executor = executor
        self._words = words
        self._clock = clock
        self._outcomes = Outcomes(heads, executor, clock, new_id, limits, diagnostics)
        self._transports = transports
        self._diagnostics = diagnostics
        self._routing = routing
        self._reached = reached
        self._wake = asyncio.Event()
        self._named: set[str] = set()
        """Recipients that something changed for since the last look."""
        self._everybody = True
        self._loop: asyncio.Task[None] | None = None
        self._pushes: dict[str, asyncio.Task[None]] = {}
        self._busy: dict[str, str] = {}
        """Whom each of these is for."""
        self.prompts = FurtherPrompts(self._outcomes, clock, limits, diagnostics)
        self._endings: dict[str, asyncio.Task[None]] = {}
        """By delivery: what is being ended, each for itself, since nobody knows how long a process takes to go."""
        self._choices: set[asyncio.Task[None]] = set()
        self._timers: dict[Route, asyncio.TimerHandle] = {}
        """When a message of a route that waits for its next attempt is due."""
        self._due: dict[str, asyncio.TimerHandle] = {}
        """The same of deliveries whose recipient is known: when it is looked at again."""

    # --- running ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take back what an earlier host dispatched, then begin to look for what is due."""
        for agent in self._pushed_to():
            if self._transports[agent.connection].reconciles and agent.connection != DOOR:
                await self._reconcile(agent)
                continue  # a spoke tells itself what it has once it is back: see `app.returning`
            for row in await self._store.query("outstanding", recipient=agent.agent_id):
                await self._recover(agent, str(row["task_id"]), str(row["delivery_id"]))
                self._reached("deliver.mid_recovery")
        await self._routing.start()
        self._loop = asyncio.create_task(self._run(), name="deliver")

    async def stop(self) -> None:
        """Send nothing more. What runs goes on with its keeper and is taken back by the next host."""
        tasks: list[asyncio.Task[Any]] = [*self._pushes.values(), *self._endings.values(), *self._choices]
        if self._loop is not None:
            tasks.append(self._loop)
        for timer in (*self._timers.values(), *self._due.values()):
            timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def delivery_changed(self, row: DeliveryRow) -> None:
        """A delivery may be due, or have left a slot free."""
        if not row.open and row.fact != _SUBMITTED and row.delivery_id in self._pushes:
            self._end_closed(row.recipient, row.delivery_id)
        self._look_at(row.recipient)
        self._look_when_due(row)
        self._route_again(row)

    def task_changed(self, row: TaskRow) -> None:
        """The session of a task may have to be prompted, or a slot of a holder be free."""
        if row.state == "working":
            self._look_at(row.assignee)
        if row.capability:
            self._route_again(row)

    def _route_again(self, row: Row) -> None:
        for route in self._routing.committed((row,)):
            self._route(route)

    def _look_at(self, recipient: str) -> None:
        """Something changed for somebody whose queue is read from the store."""
        agent = self._heads.directory.agents.get(recipient)
        if agent is not None and agent.connection in self._transports and agent.connection != DOOR:
            self._named.add(recipient)
            self._wake.set()

    def _look_when_due(self, row: DeliveryRow) -> None:
        """What was taken back waits no longer for its next attempt than it has to."""
        timer = self._due.pop(row.delivery_id, None)
        if timer is not None:
            timer.cancel()
        wait = row.due_at - self._clock.now() if row.open and row.due_at else 0.0
        if wait > 0:
            loop = asyncio.get_running_loop()
            self._due[row.delivery_id] = loop.call_later(wait + _LATER_SECONDS, self._came_due, row)

    def _came_due(self, row: DeliveryRow) -> None:
        self._due.pop(row.delivery_id, None)
        self._look_at(row.recipient)

    def _end_closed(self, recipient: str, delivery_id: str) -> None:
        """Its task went on without it (a person corrected or reassigned it): nothing of it may run on."""
        agent = self._heads.directory.agents.get(recipient)
        if agent is not None and agent.connection in self._transports:
            self._begin_to_end(agent, delivery_id)

    def _begin_to_end(self, agent: Agent, delivery_id: str, stopped: str = "") -> None:
        """Nobody waits for it, and it is not begun twice. `stopped`: the task, where a person stopped who has it."""
        if delivery_id not in self._endings:
            ending = asyncio.get_running_loop().create_task(self._see_end(agent, delivery_id, stopped))
            self._endings[delivery_id] = ending
            ending.add_done_callback(lambda _: self._endings.pop(delivery_id, None))

    async def _see_end(self, agent: Agent, delivery_id: str, stopped: str) -> None:
        """Until nothing of it runs. What it had done until a person stopped it is for a person to look at."""
        try:
            if await self._transports[agent.connection].end(delivery_id) and stopped:
                await self._outcomes.unknown(stopped, delivery_id, STOPPED)
                await self._outcomes.tell(cmd.DoubtTask(task_id=stopped, detail=STOPPED), HOST)
        except Refused as refusal:  # the task has moved on
            self._diagnostics.record("doubt refused", task=stopped, delivery=delivery_id, detail=str(refusal))
        except Exception as error:  # noqa: BLE001 - what still runs is looked at again
            self._diagnostics.failure("end", error)

    def look(self) -> None:
        """Something else changed (an agent joined, a person said resume)."""
        self._everybody = True
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._once()
            except Exception as error:  # noqa: BLE001 - a broken route must not stop everything
                self._diagnostics.failure("deliver", error)
            # Not wait_for: on Python 3.11 that drops a cancel which comes together with the wake-up.
            try:
                async with asyncio.timeout(_SWEEP_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                self._everybody = True

    def _pushed_to(self) -> list[Agent]:
        agents = self._heads.committed_directory.agents.values()
        return [a for a in agents if a.connection in self._transports and not a.deleted]

    async def _once(self) -> None:
        named, everybody = self._named, self._everybody
        self._named, self._everybody = set(), False
        for route in self._routing.every() if everybody else ():
            self._route(route)
        for agent in self._pushed_to():
            if everybody or agent.agent_id in named:
                try:
                    await self._serve(agent)
                except Exception as error:  # noqa: BLE001 - one broken recipient must not stop the others
                    self._diagnostics.failure("deliver", error)

    async def _serve(self, agent: Agent) -> None:
        """End what a person stopped of it, go on with what it has, and send it what is due while it has a free slot."""
        await self._end_stopped(agent)
        if self._routing.routes(agent.agent_id):
            return
        if self._transports[agent.connection].reconciles:
            await self._go_on(agent)  # who drains finishes what it has
        if agent_mode(agent, self._heads.directory) != "running":
            return
        pushes = sum(busy == agent.agent_id for busy in self._busy.values())
        free = agent.concurrency - max(pushes, await self._heads.outstanding(agent.agent_id))
        if free <= 0:
            return
        now = self._clock.now()
        for row in await self._store.query("due_deliveries", recipient=agent.agent_id, now=now, limit=_LOOK):
            work = await self._heads.work(str(row["task_id"]))
            free -= work is not None and await self._dispatch(agent, work, str(row["delivery_id"]))
            if free <= 0:
                break

    async def _end_stopped(self, agent: Agent) -> None:
        """A person stopped it: what runs is ended."""
        for row in await self._store.query("outstanding", recipient=agent.agent_id):
            workspace, delivery_id = str(row["workspace"]), str(row["delivery_id"])
            if not is_stopped(agent.agent_id, str(row["session"]), workspace, self._heads.directory):
                continue
            work = await self._heads.work(str(row["task_id"]))
            if work is not None and work.in_flight:  # else it waits for an answer: nothing of it runs
                self._begin_to_end(agent, delivery_id, stopped=work.task.task_id)

    # --- capabilities -------------------------------------------------------------------------------------------

    def offers(self, agent: Agent) -> None:
        """A spoke is there, or has a free slot more: look at what waits for what it offers."""
        for route in self._routing.of_agent(agent):
            self._route(route)

    def adopt(self, agent: Agent, work: Work, delivery_id: str) -> None:
        """A spoke is back with what it had begun: stay with it until it ends, as with anything sent."""
        if delivery_id not in self._pushes:
            self._push(agent, work, delivery_id, adopted=True)

    def _route(self, route: Route) -> None:
        """Choose holders for what is due, as far as they have free slots. Each is leased on its own: what is chosen
        together is written together."""
        while (chosen := self._routing.next(route)) is not None:
            task = asyncio.get_running_loop().create_task(self._hand_over(chosen))
            self._choices.add(task)
            task.add_done_callback(self._choices.discard)
        self._set_timer(route)

    def _set_timer(self, route: Route) -> None:
        timer = self._timers.pop(route, None)
        if timer is not None:
            timer.cancel()
        due_at = self._routing.next_due(route)
        if due_at is not None:
            wait = max(0.0, due_at - self._clock.now())
            self._timers[route] = asyncio.get_running_loop().call_later(wait, self._on_time, route)

    def _on_time(self, route: Route) -> None:
        self._timers.pop(route, None)
        self._route(route)

    async def _hand_over(self, chosen: Chosen) -> None:
        work = await self._heads.work(chosen.task_id)
        try:
            if work is not None and await self._dispatch(chosen.agent, work, chosen.delivery_id):
                return
        except Exception as error:  # noqa: BLE001 - it waits on, and is looked at again
            self._diagnostics.failure("hand over", error)
        work = await self._heads.work(chosen.task_id)
        self._routing.give_back(chosen, work)
        if work is not None and work.task.mode == "paused":  # meanwhile: it is passed over from now on
            for route in self._routing.again(chosen.delivery_id):
                self._route(route)

    # --- one delivery -------------------------------------------------------------------------------------------

    async def _dispatch(self, agent: Agent, work: Work, delivery_id: str) -> bool:
        """Lease it and send it on its way; False where it was not leased."""
        if delivery_id in self._pushes or self._takes_nothing(work, agent) or agent.connection not in self._transports:
            return False
        if await self._was_for_one_that_ended(work):
            return False
        transport = self._transports[agent.connection]
        plan = await transport.plan(agent, work)
        if plan is None:
            return False  # the session that it needs is busy; it is looked at again when it is not
        lease = cmd.LeaseDelivery(
            task_id=work.task.task_id,
            delivery_id=delivery_id,
            session=plan.session,
            intent_id=intent_of(work, delivery_id),
            lease_seconds=plan.lease_seconds,
            recipient=agent.agent_id if work.task.route else "",
        )
        self._reached("deliver.before_lease")
        try:
            outcome = await self._executor.execute(lease, HOST)
        except Refused:
            transport.unplanned(plan)
            return False  # lost the race, or it is no longer due
        self._reached("deliver.after_lease")
        if outcome.work is not None:
            self._push(agent, outcome.work, delivery_id, adopted=False)
        return True

    async def _was_for_one_that_ended(self, work: Work) -> bool:
        """`@reviewer/ses_…` is that very session or nothing: what was only for one that has ended is for nobody."""
        session = self._heads.directory.sessions.get(work.task.session_wanted)
        if session is None or not session.ended:
            return False
        who = self._heads.directory.alias_of(work.task.assignee)
        text = f"The session {short(session.session_id)} that it was for has ended. Ask the role instead: {who}"
        command = cmd.FailTask(task_id=work.task.task_id, text=Text(body=text), why=Reason.OFFLINE)
        try:
            await self._executor.execute(command, HOST)
        except Refused as refusal:  # it moved on, or nothing can be recorded now: it is looked at again while it is due
            self._diagnostics.record("report refused", task=work.task.task_id, detail=str(refusal))
        return True

    def _takes_nothing(self, work: Work, agent: Agent) -> bool:
        """Whether a person said of the task, of its session, or of what these belong to that nothing new goes there:
        who drains takes nothing either, and is prompted all the same about what it has."""
        task = work.task
        mode = agent_mode(agent, self._heads.directory, task.workspace, task.session or task.session_wanted)
        return mode != "running" or task.mode == "paused"

    def _is_held_back(self, work: Work, agent: Agent) -> bool:
        return is_held_back(work.task, agent, work.task.session, self._heads.directory)

    def _push(self, agent: Agent, work: Work, delivery_id: str, *, adopted: bool, purpose: str = "") -> None:
        task = asyncio.create_task(self._carry(agent, work, delivery_id, adopted=adopted, purpose=purpose))
        self._pushes[delivery_id] = task
        self._busy[delivery_id] = agent.agent_id
        task.add_done_callback(lambda _: self._pushed(delivery_id))

    def _pushed(self, delivery_id: str) -> None:
        self._pushes.pop(delivery_id, None)
        self._look_at(self._busy.pop(delivery_id, ""))  # it may be due again already
        for route in self._routing.again(delivery_id):
            self._route(route)

    async def _carry(self, agent: Agent, work: Work, delivery_id: str, *, adopted: bool, purpose: str) -> None:
        task_id = work.task.task_id

        async def began(witness: str, evidence: str) -> bool:
            begun = cmd.BeginDelivery(task_id=task_id, delivery_id=delivery_id, witness=witness, evidence=evidence)
            self._reached("deliver.before_begin")
            try:
                await self._outcomes.tell(begun, HOST)
            except Refused:
                # An earlier host recorded it, or it is over.
                return await self._outcomes.is_under_way(task_id, delivery_id)
            self._reached("deliver.after_begin")
            return True

        try:
            envelope = await self._envelope(agent, work, delivery_id, adopted=adopted, purpose=purpose)
            receipt = await self._transports[agent.connection].send(envelope, began)
            self._reached("deliver.before_report")
            if purpose and receipt.outcome == "returned":
                await self.prompts.returned(agent, work, delivery_id, receipt.detail)
                return
            self.prompts.sent(task_id)
            await self._outcomes.report(agent, work, delivery_id, receipt)
            self._reached("deliver.after_report")
            await self._transports[agent.connection].settled(delivery_id)
        except Refused as refusal:
            self._diagnostics.record("report refused", task=task_id, delivery=delivery_id, detail=str(refusal))
            await self._transports[agent.connection].settled(delivery_id)  # decided without it: nobody waits for it
        except Exception as error:  # noqa: BLE001 - whatever happened to it is not known
            self._diagnostics.failure("push", error)
            await self._outcomes.unknown(task_id, delivery_id, "The push failed in the host.")

    async def _envelope(self, agent: Agent, work: Work, delivery_id: str, *, adopted: bool, purpose: str) -> Envelope:
        delivery = work.delivery(delivery_id)
        return Envelope(
            delivery_id=delivery_id,
            task_id=work.task.task_id,
            intent_id=delivery.intent_id if delivery else "",
            session=work.task.session if purpose or not delivery else delivery.session,
            fence=work.task.fence,
            agent=agent,
            work=work,
            text=await self._words.first(work.task),
            offer=self._routing.offer_for(work.task, agent.agent_id),
            caller=self._heads.directory.alias_of(work.task.requester),
            note=await self._words.newest(work.task, ("changes", "answer")),
            adopted=adopted,
            purpose=purpose,
        )

    async def let_go(self, delivery_id: str) -> None:
        """It was taken back from a spoke that had begun it and is silent: nobody waits for that any more, and it can go
        to another."""
        push = self._pushes.get(delivery_id)
        if push is not None:
            push.cancel()
            await self._transports[DOOR].settled(delivery_id)

    # --- sessions that the host drives --------------------------------------------------------------------------

    async def _reconcile(self, agent: Agent) -> None:
        """An earlier host prompted these: what became of it is found out, never guessed."""
        for work in await self._with(agent):
            assignment = work.assignment
            if work.in_flight and assignment is not None and assignment.open:
                self._push(agent, work, assignment.delivery_id, adopted=True)
                self._reached("deliver.mid_recovery")

    async def _go_on(self, agent: Agent) -> None:
        """Tasks that its sessions hold and that need another prompt: an answer came, a check failed. Whatever the
        prompt hands over, it is the same attempt that goes on: one push at a time, ended with the work itself."""
        for work in await self._with(agent):
            purpose, assignment = wanted(work), work.assignment
            if not purpose or self.prompts.waits(work.task.task_id) or self._is_held_back(work, agent):
                continue
            if assignment is not None and assignment.delivery_id not in self._pushes:
                self._push(agent, work, assignment.delivery_id, adopted=False, purpose=purpose)

    async def _with(self, agent: Agent) -> list[Work]:
        rows = await self._store.query("sessioned")
        mine = [str(row["task_id"]) for row in rows if row["assignee"] == agent.agent_id]
        # What is about to be committed is looked at once it is.
        works = [await self._heads.work(task_id) for task_id in mine if task_id not in self._heads.pending]
        return [work for work in works if work is not None]

    # --- after a restart, and ending ----------------------------------------------------------------------------

    async def _recover(self, agent: Agent, task_id: str, delivery_id: str) -> None:
        """Dispatched by an earlier host: take it back, or prove that it never began, or doubt it."""
        work = await self._heads.work(task_id)
        delivery = work.delivery(delivery_id) if work else None
        if work is None or delivery is None or not delivery.open:
            return
        if delivery_id in self._transports[agent.connection].found():
            self._push(agent, work, delivery_id, adopted=True)
            return
        never_began = delivery.fact.value in ("claimed", "admitted") and not delivery.unverified
        command: cmd.Command = cmd.DoubtDelivery(
            task_id=task_id, delivery_id=delivery_id, detail=_SPOKE_AWAY if agent.connection == DOOR else _GONE
        )
        if never_began:
            detail, now = "The host stopped before it was started.", self._clock.now()
            command = cmd.ReturnDelivery(task_id=task_id, delivery_id=delivery_id, retry_at=now, detail=detail)
        try:
            await self._executor.execute(command, HOST)
        except Refused as refusal:  # nothing can be recorded now; a later start tries again
            self._diagnostics.record("recovery refused", task=task_id, detail=str(refusal))

    def is_in_hand(self, work: Work) -> bool:
        """Whether a push of it is under way here, or a person holds back the next prompt to its session, where nothing
        runs meanwhile. A push to a spoke tells nothing: it waits for a lost one, too."""
        agent = self._heads.directory.agents.get(work.task.assignee)
        if agent is not None and agent.connection == DOOR:
            return False
        if agent is not None and agent.connection == "drive" and wanted(work) and self._is_held_back(work, agent):
            return True
        return any(delivery.delivery_id in self._pushes for delivery in work.deliveries)

    async def end(self, work: Work) -> bool:
        """End what the host runs for a task. True when nothing of it is left."""
        agent = self._heads.directory.agents.get(work.task.assignee)
        assignment = work.assignment
        if agent is None or assignment is None or agent.connection not in self._transports:
            return True
        if not assignment.intent_id:
            return True
        return await self._transports[agent.connection].end(assignment.delivery_id)


def intent_of(work: Work, delivery_id: str) -> str:
    """The id of the effect of one attempt: the same for the same task, kind, arguments and attempt."""
    delivery = work.delivery(delivery_id)
    attempt = f"{delivery.attempt}.{delivery.retries}" if delivery else "0"
    parts = (work.task.task_id, "dispatch", delivery_id, attempt)
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return f"{Prefix.INTENT}_{sha256(joined.encode()).hexdigest()[:26].upper()}"
