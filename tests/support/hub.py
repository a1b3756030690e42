"""A host's hub without its doors: real rules, write path, routing, delivery and duties over a store in memory, a clock
that stands still, and spokes that do as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

from tallystick.app.calls import CallerFacts
from tallystick.app.clock import HighWater
from tallystick.app.custody import Refusals
from tallystick.app.deliver import Deliverer
from tallystick.app.desk import reach
from tallystick.app.desk.asking import Asking
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.reaching import Reaching
from tallystick.app.desk.services import Services
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.duties import Duties
from tallystick.app.execute import Executor
from tallystick.app.feed import Feed
from tallystick.app.following import LEASE_EVENTS, OTHER_EVENTS, TASK_EVENTS, Following
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.app.kept import KeptBlobs
from tallystick.app.openings import FirstThings, Record
from tallystick.app.ports import Began, Envelope, Plan, Receipt
from tallystick.app.presence import Presence
from tallystick.app.reaches import Reaches
from tallystick.app.returning import Returning
from tallystick.app.routing import Routing
from tallystick.app.verify import Verifier
from tallystick.app.views import Views
from tallystick.app.words import Words
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent
from tallystick.core.identity import Actor, ActorKind, Prefix
from tallystick.core.limits import Limits
from tallystick.core.offers import Offer
from tallystick.core.rows import DeliveryRow, TaskRow
from tallystick.core.state import Work
from tallystick.store.blobs import BlobStore
from tallystick.store.interface import Store
from tallystick.store.memory import MemoryStore
from tallystick.testing import ManualClock, SeqIds

PATIENCE = 20.0


class FakeSpokes:
    """The spokes' side of a transport: `plan` where the routing says that one is there; what a message meets is told by
    `answer`, which may wait."""

    reconciles = True

    def __init__(self) -> None:
        self.sent: list[Envelope] = []
        self.answer: Callable[[Envelope, Began], Any] = self.done
        self.ended: list[str] = []
        self.settled_ids: list[str] = []
        self.session_of: dict[str, str] = {}
        self.running: dict[str, asyncio.Future[Receipt]] = {}
        self.is_deaf = False
        """Whether what runs goes on though it was told to end, as a handler in a thread does."""

    async def plan(self, agent: Agent, work: Work) -> Plan | None:
        session = self.session_of.get(agent.agent_id, "")
        return Plan(session, 120.0) if session else None

    def unplanned(self, plan: Plan) -> None:
        """Nothing was kept for it."""

    async def send(self, envelope: Envelope, began: Began) -> Receipt:
        self.sent.append(envelope)
        receipt: Receipt = await self.answer(envelope, began)
        return receipt

    async def done(self, envelope: Envelope, began: Began) -> Receipt:
        if not envelope.adopted and not await began("fake spoke", "BEGIN"):
            return Receipt(outcome="ended")
        return Receipt(outcome="submitted", text=f'{{"by":"{envelope.agent.alias}"}}')

    async def held(self, envelope: Envelope, began: Began) -> Receipt:
        """Begins, and runs until the test says how it ends."""
        if not envelope.adopted:
            await began("fake spoke", "BEGIN")
        return await self.unanswered(envelope, began)

    async def unanswered(self, envelope: Envelope, _began: Began) -> Receipt:
        """Has it, and tells nothing until the test says how it ends."""
        future = self.running[envelope.task_id] = asyncio.get_running_loop().create_future()
        return await future

    def ends(self, task_id: str, outcome: str, **given: Any) -> None:
        self.running.pop(task_id).set_result(Receipt(outcome=outcome, **given))

    async def end(self, delivery_id: str) -> bool:
        self.ended.append(delivery_id)
        for envelope in self.sent:
            if envelope.delivery_id == delivery_id and envelope.task_id in self.running:
                if self.is_deaf:
                    return False
                self.ends(envelope.task_id, "ended")
        return True

    async def settled(self, delivery_id: str) -> None:
        self.settled_ids.append(delivery_id)

    def found(self) -> list[str]:
        return []


class Desk(Asking, Reaching):
    """The part of the desk that the hub needs."""


class Hub:
    """`async with Hub(tmp_path) as hub`."""

    def __init__(self, home: Path, store: Store | None = None, clock: ManualClock | None = None, **limits: Any) -> None:
        self.home = home
        self.limits = Limits(**limits)
        self.store = store or MemoryStore()
        self.manual = clock or ManualClock()
        self.clock = HighWater(self.manual, 0.0)
        self.new_id = SeqIds(int(self.manual.now() * 1000), self.manual.now)
        self.spokes = FakeSpokes()
        self.heads, self.feed, self.presence = Heads(self.store), Feed(), Presence(self.clock, self.limits)
        words = Words(self.store, self.heads.histories.of)
        self.routing = Routing(self.store, self.heads, self.presence, self.clock)
        gather = Gather(self.store, self.heads, self.clock, self.presence, self.limits)
        self.diagnostics = Diagnostics(home / "host.jsonl")
        self.executor = Executor(self.store, self.heads, gather, self.clock, self.feed, self.limits)
        self.reaches = Reaches(self.store, self.heads)
        rest: Any = (self.clock, self.new_id, self.limits)
        self.deliverer = Deliverer(
            self.store,
            self.heads,
            self.executor,
            words,
            *rest,
            {"spoke": self.spokes},
            self.diagnostics,
            self.routing,
        )
        self.duties = Duties(self.store, self.heads, gather, self.executor, self.presence, *rest, self.diagnostics)
        self.duties.end_run = self.deliverer.end
        self.duties.why_not_begun = self.routing.why_not_begun
        views = Views(
            self.store,
            self.heads,
            self.presence,
            self.clock,
            self.feed,
            None,  # type: ignore[arg-type]
            self.limits,
            lambda: "none",
        )
        blobs = KeptBlobs(BlobStore(home / "blobs"))
        absent_: Any = None  # neither git nor processes are needed to look at a blob
        verifier = Verifier(home, absent_, absent_, blobs, self.executor, self.new_id, self.diagnostics, lambda *_: ())
        parts = {
            "home": home,
            "limits": self.limits,
            "person_verbs": "uid",
            "store": self.store,
            "heads": self.heads,
            "executor": self.executor,
            "views": views,
            "presence": self.presence,
            "clock": self.clock,
            "feed": self.feed,
            "blobs": blobs,
            "verifier": verifier,
            "new_id": self.new_id,
            "diagnostics": self.diagnostics,
            "routing": self.routing,
            "reaches": self.reaches,
            "deliverer": self.deliverer,
            "returning": Returning(self.store, self.heads, self.executor, self.deliverer, self.clock, self.diagnostics),
            "engine": "memory",
        }
        absent = dict.fromkeys(set(Services.__struct_fields__) - parts.keys() - {"examine"})
        self.desk = Desk(Services(**parts, **absent))  # type: ignore[arg-type]
        self.executor.follow = self._following().committed
        self.executor.refused = Refusals(self.executor, self.clock).refused
        first = FirstThings(self.heads, self.executor, self.store, self.new_id, "owner", 1000)
        self._services: list[Any] = [Record(self.store, self.heads, self.clock), self.executor, first]
        self._services += [self.deliverer, self.duties]

    def _following(self) -> Following:
        return Following(
            events=(
                (LEASE_EVENTS, self.presence.leased),
                (TASK_EVENTS, self.reaches.committed),
                (OTHER_EVENTS, lambda _: self.deliverer.look()),
            ),
            rows=(
                (TaskRow, self.presence.task_changed),
                (TaskRow, self.deliverer.task_changed),
                (TaskRow, self.duties.task_changed),
                (DeliveryRow, self.deliverer.delivery_changed),
            ),
            stumbled=self.diagnostics.failure,
        )

    async def __aenter__(self) -> Self:
        for service in self._services:
            await service.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for service in reversed(self._services[1:]):
            await service.stop()
        self.diagnostics.close()

    # --- who asks ---

    @property
    def owner(self) -> str:
        return self.heads.directory.owner

    @property
    def workspace(self) -> str:
        return next(w.workspace_id for w in self.heads.directory.workspaces.values() if not w.root)

    def guest(self, who: str = "", workspace: str = "", domains: tuple[str, ...] | None = None) -> Guest:
        facts = CallerFacts(uid=1000, pid=1, domains=domains)
        actor = Actor(self.owner, ActorKind.PERSON, uid=1000)
        if who:
            agent = self.heads.directory.named(who) or who
            session = self.spokes.session_of.get(agent, "")
            actor = Actor(agent, ActorKind.AGENT, session, "mcp")
        return Guest(
            actor=actor,
            subject=self.owner,
            workspace=workspace or self.workspace,
            directory="",
            because="",
            read_only=False,
            facts=facts,
        )

    # --- what happens ---

    async def spoke(self, name: str, *offers: Offer | str, process: str = "1@1", **given: Any) -> reach.Anchored:
        """A spoke is there, and what it offers."""
        found = tuple(Offer(o) if isinstance(o, str) else o for o in offers) if offers else None
        form = {"spoke_id": name, "store": f"store-{name}", "process": process, "capabilities": found, **given}
        guest = self.guest(workspace=form.pop("workspace", ""))
        anchored = await self.desk.anchor(guest, reach.Anchor(**form))
        self.spokes.session_of[anchored.agent] = anchored.session
        await self.desk.ready(anchored.session)
        return anchored

    async def loses(self, spoke: reach.Anchored, sailed: reach.Sailed) -> None:
        """The connection of a spoke is gone after BEGIN: it is doubted, and may be back within its lease."""
        self.desk.lost(spoke.session, "1@1")
        self.spokes.ends(sailed.task_id, "unverified", detail="the connection was lost")
        await self.until(lambda: self.work(sailed.task_id).deliveries[-1].unverified)
        assert self.work(sailed.task_id).task.state.value == "working", "for its lease it is waited for"

    async def sail(self, capability: str = "Count", *, guest: Guest | None = None, **given: Any) -> reach.Sailed:
        form = reach.Sail(**{"capability": capability, "payload": "{}", **given})
        return await self.desk.sail(guest or self.guest(), form)

    async def outcome(self, task_id: str) -> list[reach.Reached]:
        """All that is told of a message to its end."""
        async with asyncio.timeout(PATIENCE):
            return [reached async for reached in await self.desk.reaches(self.guest(), task_id)]

    async def told(self, task_id: str, what: str) -> AsyncIterator[reach.Reached]:
        """All that is told of a message until it is that."""
        async with asyncio.timeout(PATIENCE):
            async for reached in await self.desk.reaches(self.guest(), task_id):
                yield reached
                if reached.what == what:
                    return

    async def reaches_(self, capability: str = "Count", **given: Any) -> reach.Reached:
        """Send, and wait for the end."""
        sailed = await self.sail(capability, **given)
        return (await self.outcome(sailed.task_id))[-1]

    async def until(self, condition: Callable[[], Any], what: str = "it") -> Any:
        """The first true value of a condition."""
        async with asyncio.timeout(PATIENCE):
            while not (value := condition()):  # noqa: ASYNC110 - whatever is awaited goes on meanwhile
                await asyncio.sleep(0)
        return value

    async def pass_time(self, seconds: float) -> None:
        """Time passes, and whoever looks at it has looked."""
        self.manual.advance(seconds)
        self.deliverer.look()
        await self.duties.once()

    def holds(self, task_id: str, state: str, **given: Any) -> reach.Held:
        """What a spoke says that it has of a message."""
        work = self.work(task_id)
        found = {"delivery": work.deliveries[-1].delivery_id, "fence": work.task.fence, "state": state}
        return reach.Held(**{**found, **given})

    async def holds_of(self, task_id: str, state: str) -> reach.Held:
        """The same, where the host has just started."""
        await self.heads.work(task_id)
        return self.holds(task_id, state)

    def place(self, sailed: reach.Sailed) -> str:
        return self.work(sailed.task_id).task.place

    async def join(self, name: str) -> str:
        """An agent that fetches its work."""
        agent_id = self.new_id(Prefix.AGENT)
        join = cmd.JoinAgent(agent_id=agent_id, alias=name, workspace=self.workspace, connection="mailbox")
        await self.executor.execute(join, self.guest().actor)
        return agent_id

    def work(self, task_id: str) -> Work:
        found = self.heads.remembered(task_id)
        assert found is not None
        return found

    async def events(self, task_id: str) -> list[str]:
        return [type(recorded.event).__name__ for recorded in await self.store.load(task_id)]

    def id(self, prefix: Prefix) -> str:
        return self.new_id(prefix)
