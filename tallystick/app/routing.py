"""Who could take a message for a capability now, and what waits for one of them: in memory, made again after a start.

Heartbeats and loads live here alone; what of it matters to others (a session lapsed, came back) is an event. Nothing
here looks into the store but `start`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tallystick.app.clock import HighWater
from tallystick.app.heads import Heads
from tallystick.app.presence import Presence
from tallystick.core.directory import PUSHED, Agent, Directory
from tallystick.core.identity import CAPABILITY_PREFIX
from tallystick.core.model import Reason
from tallystick.core.offers import Offer, wanted
from tallystick.core.route import STATUSES, Candidate, Holder, agent_mode, choose, held_by, holders
from tallystick.core.rows import DeliveryRow, Row, TaskRow
from tallystick.core.state import Task, Work
from tallystick.store.interface import EVERY, Store

DOOR = "spoke"
"""The door of a spoke's standing session."""
_KEPT = 1024
_UNVERIFIED = Reason.UNVERIFIED.value
_TOLD = 5
"""Holders that one sentence names."""


class Route(NamedTuple):
    """What waiting messages have in common that decides who may get them. One that cannot be routed holds up no other
    route."""

    recipient: str
    capability: str
    workspace: str
    domains: tuple[str, ...]


class Connected(msgspec.Struct):
    """What a spoke's process says of itself while it is connected."""

    agent: str
    endpoint: str
    process: str
    """Which execution it is, as `PID@START`."""
    queued: dict[str, int] = {}
    """By capability: what waits in its own queue, beside what it was sent."""
    is_there: bool = True
    is_ready: bool = False
    """What it had before is sorted out, and it can be sent to."""
    draining: bool = False


class _Waiting(NamedTuple):
    task_id: str
    due_at: float
    is_paused: bool
    """A person paused its task: it is passed over."""


class _Taken(NamedTuple):
    agent: str
    capability: str
    task_id: str


class Chosen(NamedTuple):
    """A message, and who gets it: a slot is kept for it until it is given back or ends."""

    agent: Agent
    task_id: str
    delivery_id: str


class Routing:
    """The route table: connections of spokes, loads of all holders, queues of what waits."""

    def __init__(self, store: Store, heads: Heads, presence: Presence, clock: HighWater) -> None:
        self._store = store
        self._heads = heads
        self._presence = presence
        self._clock = clock
        self._connected: dict[str, Connected] = {}
        """By session."""
        self._waiting: dict[Route, OrderedDict[str, _Waiting]] = {}
        """By route and delivery, in the order in which they came."""
        self._postponed: set[str] = set()
        """Of these deliveries those that were not due yet when they came."""
        self._route_of: dict[str, Route] = {}
        self._taken: dict[str, _Taken] = {}
        self._running: Counter[tuple[str, str]] = Counter()
        """By agent and capability: how many are taken."""
        self._avoided: dict[str, str] = {}
        """By delivery: who did not begin it the last time."""
        self._credit: dict[Route, dict[str, int]] = {}
        self._looked_in: Directory | None = None
        self._holders: dict[tuple[str, str, tuple[str, ...], str], Sequence[Holder]] = {}

    async def start(self) -> None:
        """After a start: what waits, what is in hand, and that spokes which were there may come back."""
        directory = self._heads.committed_directory
        for session in directory.sessions.values():
            if session.door == DOOR and not session.ended and session.presence == "live":
                self._presence.heard(session.session_id)
        for row in await self._store.query("waiting", limit=EVERY):
            work = await self._heads.work(str(row["task_id"]))
            if work is not None:
                self._put(work.task, str(row["delivery_id"]), float(row["due_at"] or 0))
        for agent in directory.agents.values():
            if agent.offers and not agent.deleted:
                await self._take_back(agent)

    async def _take_back(self, agent: Agent) -> None:
        for row in await self._store.query("in_hand", party=agent.agent_id):
            work = await self._heads.work(str(row["task_id"]))
            if work is not None and work.in_flight and work.assignment is not None:
                name = wanted(work.task.capability).name
                self._take(work.assignment.delivery_id, _Taken(agent.agent_id, name, work.task.task_id))
        if agent.connection == DOOR:
            for row in await self._store.query("due_deliveries", recipient=agent.agent_id, now=2.0**60, limit=EVERY):
                work = await self._heads.work(str(row["task_id"]))
                if work is not None:
                    self._put(work.task, str(row["delivery_id"]), float(row["due_at"] or 0))

    # --- spokes -------------------------------------------------------------------------------------------------

    def arrived(self, session: str, agent: str, endpoint: str, process: str) -> None:
        """A spoke's process is connected."""
        self._connected[session] = Connected(agent=agent, endpoint=endpoint, process=process)
        self._presence.note_reachable(session, now=False)

    def ready(self, session: str) -> None:
        """It can be sent to from now on."""
        if session in self._connected:
            self._connected[session].is_ready = True
            self._presence.note_reachable(session, now=True)

    def lost(self, session: str, process: str) -> None:
        """That process is connected no more. Its session lives on for its lease."""
        known = self._connected.get(session)
        if known is not None and known.process == process:
            known.is_there = False
            self._presence.note_reachable(session, now=False)

    def drains(self, session: str) -> None:
        """It finishes what it has and takes nothing new."""
        if session in self._connected:
            self._connected[session].draining = True
            self._presence.note_reachable(session, now=False)

    def loaded(self, session: str, queued: Mapping[str, int]) -> None:
        """What waits in its own queue, from a heartbeat."""
        if session in self._connected:
            self._connected[session].queued = dict(queued)

    def connected(self, session: str) -> Connected | None:
        """What is known of a spoke's process; None where none was there since the host started."""
        return self._connected.get(session)

    def status(self, agent: Agent, workspace: str = "") -> str:
        """`online`, `suspect` (shown, chosen last), `draining`, `returning` (its connection is gone, its lease is not)
        or `offline`. Whom the host starts itself is online."""
        if agent_mode(agent, self._heads.directory, workspace) != "running":
            return "draining"  # a person has it take nothing new
        if agent.connection != DOOR:
            return "online"
        mine = [self._status_of(agent, session) for session in self._sessions(agent)]
        return min(mine, key=STATUSES.index, default="offline")

    def _sessions(self, agent: Agent) -> list[str]:
        directory = self._heads.directory
        return [s for s in directory.open_sessions.get(agent.agent_id, ()) if directory.sessions[s].door == DOOR]

    def _status_of(self, agent: Agent, session: str) -> str:
        heard = self._presence.of_session(session)
        if heard not in ("live", "suspect"):
            return "offline"
        known = self._connected.get(session)
        if known is None or not (known.is_there and known.is_ready):
            return "returning"
        directory = self._heads.directory
        if known.draining or agent_mode(agent, directory, directory.sessions[session].workspace, session) != "running":
            return "draining"
        return "online" if heard == "live" else "suspect"

    def last_seen(self, agent: Agent) -> float | None:
        """Seconds since anything was heard of a spoke; None where nothing was since the host started."""
        heard = [self._presence.silent_seconds(session) for session in self._sessions(agent)]
        return min((seconds for seconds in heard if seconds is not None), default=None)

    def endpoint(self, agent: Agent) -> str:
        """Where its process is reached; empty where none is connected."""
        known = [self._connected[s] for s in self._sessions(agent) if s in self._connected]
        return next((c.endpoint for c in known if c.is_there), "")

    def running(self, agent: str, capability: str) -> int:
        """How many messages for a capability an agent has in hand."""
        return self._running[agent, capability]

    def load(self, agent: Agent, capability: str) -> int:
        """The same, with what it says that waits in its own queue."""
        known = [self._connected[s] for s in self._sessions(agent) if s in self._connected]
        return self.running(agent.agent_id, capability) + sum(c.queued.get(capability, 0) for c in known if c.is_there)

    def waiting(self, capability: str) -> int:
        """How many messages wait for a capability, by its name."""
        return sum(len(q) for route, q in self._waiting.items() if wanted(route.capability).name == capability)

    # --- what waits ---------------------------------------------------------------------------------------------

    def committed(self, rows: Iterable[Row]) -> set[Route]:
        """Rows were committed: the routes on which something may be dispatched now."""
        changed: set[Route] = set()
        for row in rows:
            if isinstance(row, DeliveryRow):
                changed |= self._delivery(row)
            elif isinstance(row, TaskRow) and row.capability and row.reason == _UNVERIFIED:
                gone = [d for d, taken in self._taken.items() if taken.task_id == row.task_id]
                changed |= self._freed(gone)  # nobody knows whether it still runs, and it may be for days
            elif isinstance(row, TaskRow) and row.capability:
                changed |= self._paused_or_resumed(row.task_id)
        return changed

    def _paused_or_resumed(self, task_id: str) -> set[Route]:
        work = self._heads.remembered(task_id)
        delivery_id = work.assignment.delivery_id if work is not None and work.assignment is not None else ""
        route = self._route_of.get(delivery_id)
        if work is None or route is None:
            return set()
        waiting = self._waiting[route][delivery_id]
        if waiting.is_paused is (work.task.mode == "paused"):
            return set()
        return {self._put(work.task, delivery_id, waiting.due_at)}

    def _delivery(self, row: DeliveryRow) -> set[Route]:
        changed: set[Route] = set()
        is_due = bool(row.open) and row.due_at is not None
        taken = self._taken.get(row.delivery_id)
        if taken is not None and (not row.open or is_due or row.recipient != taken.agent):
            if is_due:
                self._avoided[row.delivery_id] = taken.agent
            changed |= self._freed([row.delivery_id])
        if is_due and self.routes(row.recipient):
            work = self._heads.remembered(row.task_id)
            if work is not None and work.task.capability:
                changed.add(self._put(work.task, row.delivery_id, float(row.due_at or 0)))
        else:
            self._remove(row.delivery_id)
        if not row.open:
            self._avoided.pop(row.delivery_id, None)
        return changed

    def routes(self, recipient: str) -> bool:
        """Whether what is for this recipient is dispatched from here: a capability, or a spoke by its name."""
        if recipient.startswith(CAPABILITY_PREFIX):
            return True
        agent = self._heads.directory.agents.get(recipient)
        return agent is not None and agent.connection == DOOR

    def _put(self, task: Task, delivery_id: str, due_at: float) -> Route:
        route = Route(task.assignee, task.capability, task.workspace, task.domains)
        waiting = _Waiting(task.task_id, due_at, task.mode == "paused")
        self._waiting.setdefault(route, OrderedDict())[delivery_id] = waiting
        (self._postponed.add if due_at > self._clock.now() else self._postponed.discard)(delivery_id)
        self._route_of[delivery_id] = route
        return route

    def _remove(self, delivery_id: str) -> None:
        route = self._route_of.pop(delivery_id, None)
        if route is not None:
            self._postponed.discard(delivery_id)
            queue = self._waiting[route]
            del queue[delivery_id]
            if not queue:
                del self._waiting[route]

    def _freed(self, deliveries: list[str]) -> set[Route]:
        names = set()
        for delivery_id in deliveries:
            taken = self._let_go(delivery_id)
            if taken is not None:
                names.add(taken.capability)
        return {route for route in self._waiting if wanted(route.capability).name in names} if names else set()

    def again(self, delivery_id: str) -> set[Route]:
        """The route on which a delivery waits that has just been taken back; none where it does not wait."""
        route = self._route_of.get(delivery_id)
        return {route} if route is not None else set()

    def every(self) -> set[Route]:
        """All routes on which something waits."""
        return set(self._waiting)

    def of_agent(self, agent: Agent) -> set[Route]:
        """The routes that an agent might serve."""
        names = set(agent.capabilities)
        return {route for route in self._waiting if wanted(route.capability).name in names}

    def next_due(self, route: Route) -> float | None:
        """When the first message of a route that is not due yet will be, in UTC seconds."""
        queue = self._waiting.get(route)
        if queue is None or not self._postponed:
            return None
        now, later = self._clock.now(), [queue[d].due_at for d in self._postponed if d in queue]
        return min([due_at for due_at in later if due_at > now], default=None)

    # --- choosing -----------------------------------------------------------------------------------------------

    def next(self, route: Route) -> Chosen | None:
        """The first message of a route that is due and not paused, with the holder that is chosen for it. A slot is
        kept for it."""
        queue = self._waiting.get(route)
        if queue is None:
            return None
        now = self._clock.now()
        for delivery_id, waiting in queue.items():
            if waiting.due_at > now or waiting.is_paused:
                continue
            work = self._heads.remembered(waiting.task_id)
            found = _who_may(delivery_id, work, self._candidates(route, work))
            if not found:
                continue  # nobody takes it from its requester, and others of the route may fare better
            agent = self._choose(route, found, self._avoided.get(delivery_id, ""))
            if agent is None:
                return None
            self._remove(delivery_id)
            self._take(delivery_id, _Taken(agent.agent_id, wanted(route.capability).name, waiting.task_id))
            return Chosen(agent, waiting.task_id, delivery_id)
        return None

    def holders(self, spec: str, workspace: str, domains: tuple[str, ...], requester: str) -> Sequence[Holder]:
        """See `core.route.holders`: as the next decision sees it, worked out once for as long as nobody and no place
        changes."""
        directory = self._heads.directory
        if self._looked_in is not directory or len(self._holders) > _KEPT:
            self._looked_in = directory
            self._holders.clear()
        key = (spec, workspace, domains, requester)
        found = self._holders.get(key)
        if found is None:
            found = self._holders[key] = holders(spec, workspace, directory, domains, requester)
        return found

    def offer_for(self, task: Task, agent_id: str) -> Offer | None:
        """As what of the task's capability an agent gets it now; None where it asks for none, or the agent holds it no
        more."""
        if not task.capability:
            return None
        found = held_by(agent_id, self.holders(task.capability, task.workspace, task.domains, task.requester))
        return found.offer if found is not None else None

    def _candidates(self, route: Route, work: Work | None) -> Sequence[Holder]:
        requester = work.task.requester if work is not None else ""
        found = self.holders(route.capability, route.workspace, route.domains, requester)
        if not route.recipient.startswith(CAPABILITY_PREFIX):
            found = [holder for holder in found if holder.agent.agent_id == route.recipient]
        return found

    def _choose(self, route: Route, found: Sequence[Holder], avoided: str) -> Agent | None:
        if len(self._credit) > _KEPT:
            self._credit.clear()
        credit = self._credit.setdefault(route, {})
        every = [self._candidate(holder, route.workspace) for holder in found]
        others = [c for c in every if c.agent != avoided]
        chosen = choose(others, credit) or choose(every, credit)
        return next((holder.agent for holder in found if holder.agent.agent_id == chosen), None)

    def _candidate(self, holder: Holder, workspace: str) -> Candidate:
        agent = holder.agent
        busy = self.load(agent, holder.offer.name)
        return Candidate(agent.agent_id, holder.offer.weight, holder.slots, busy, self.status(agent, workspace))

    def give_back(self, chosen: Chosen, work: Work | None) -> None:
        """It was not leased after all: the slot is free, and the message waits on if it is still due."""
        self._let_go(chosen.delivery_id)
        delivery = work.delivery(chosen.delivery_id) if work is not None else None
        if work is not None and delivery is not None and delivery.open and delivery.due_at:
            self._put(work.task, chosen.delivery_id, delivery.due_at)

    def _take(self, delivery_id: str, taken: _Taken) -> None:
        self._taken[delivery_id] = taken
        self._running[taken.agent, taken.capability] += 1

    def _let_go(self, delivery_id: str) -> _Taken | None:
        taken = self._taken.pop(delivery_id, None)
        if taken is not None:
            self._running[taken.agent, taken.capability] -= 1
        return taken

    def why_not_begun(self, work: Work) -> str:
        """Of a message that nobody began: who was there for it, and how. Empty for any other task."""
        told, has_it = self.waits_for(work), self._has_it(work)
        if has_it:
            return f"{has_it} was handed it and did not begin it."
        return f"Nobody began it; {told}." if told else ""

    def waits_for(self, work: Work) -> str:
        """Of an open message that nobody has begun: who has it, or who is registered for it, and how each is there at
        this moment. Empty for any other task."""
        task = work.task
        if not task.capability or task.taken_at or not task.open:
            return ""
        has_it = self._has_it(work)
        if has_it:
            return f"{has_it} to begin it"
        found = self.holders_of(task)
        if not found:
            return f"nobody is registered for {task.capability!r}"
        told = ", ".join(f"@{holder.agent.alias} ({self._how(holder, task)})" for holder in found[:_TOLD])
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        return f"registered for {task.capability!r}: {told}{more}"

    def _has_it(self, work: Work) -> str:
        """Who was handed a message that nobody has begun, and how it is there; empty where nobody was."""
        handed = work.assignment
        if handed is None or not handed.in_flight or work.task.taken_at or not work.task.open:
            return ""
        holders = [holder for holder in self.holders_of(work.task) if holder.agent.agent_id == handed.recipient]
        return f"@{holders[0].agent.alias} ({self._how(holders[0], work.task)})" if holders else ""

    def _how(self, holder: Holder, task: Task) -> str:
        """How a holder is there at this moment."""
        agent = holder.agent
        if agent.connection not in PUSHED:
            return "it has not taken it"
        heard, status = self.last_seen(agent), self.status(agent, task.workspace)
        if agent.connection == DOOR and status != "online":
            ago = f"last heard {heard:.0f} s ago" if heard is not None else "not heard since the host started"
            return f"{status}, {ago}"
        return f"{status}, {self.load(agent, holder.offer.name)} of {holder.slots} in hand"

    def holders_of(self, task: Task) -> Sequence[Holder]:
        """Who may get a message for a capability as it stands."""
        route = Route(task.assignee, task.capability, task.workspace, task.domains)
        return self._candidates(route, Work(task))


def _who_may(delivery_id: str, work: Work | None, found: Sequence[Holder]) -> Sequence[Holder]:
    """Of the holders those that may have it: what was begun before goes to nobody who must not do it twice."""
    delivery = work.delivery(delivery_id) if work is not None else None
    if delivery is None or not delivery.is_repeat:
        return found
    return [holder for holder in found if holder.offer.idempotent]
