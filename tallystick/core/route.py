"""Presence, and what may be promised for a recipient; choice of a holder for a capability.

Times in seconds. May live here: pure functions over the directory.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final

import msgspec

from tallystick.core.directory import PUSHED, Agent, Directory
from tallystick.core.identity import CAPABILITY_PREFIX
from tallystick.core.limits import Limits
from tallystick.core.model import Promise
from tallystick.core.offers import Offer, Wanted, serves, wanted


def presence(silent_seconds: float, limits: Limits) -> str:
    """`live`, `suspect` (shown, chosen last) or `lapsed` by how long nothing was heard."""
    if silent_seconds < limits.suspect_seconds:
        return "live"
    return "suspect" if silent_seconds < limits.presence_seconds else "lapsed"


_RUNNING = {"running"}
_STRICTER = ("running", "draining", "paused", "stopped")


def strictest(*modes: str) -> str:
    """Of what people said of several things that hold for one, that which holds it back the most."""
    return max(modes, key=_STRICTER.index)


def agent_mode(agent: Agent, directory: Directory, workspace: str = "") -> str:
    """The strictest of what people said of the agent, its workspace and everything."""
    place = directory.workspaces.get(workspace)
    said = {agent.mode, directory.mode, place.mode if place else "running"}
    return "running" if said == _RUNNING else strictest(*said)


def is_stopped(actor_id: str, session: str, workspace: str, directory: Directory) -> bool:
    """Whether a person stopped this agent, its session, its workspace or everything."""
    agent = directory.agents.get(actor_id)
    if agent is None:
        return False
    state = directory.sessions.get(session)
    return agent_mode(agent, directory, workspace) == "stopped" or (state is not None and state.mode == "stopped")


HEARD: Final = frozenset({"client", "wake", "spoke"})
"""Connections that are promised something by their signs of life: for others nobody has to look for any."""


def promise_to(agent: Agent, directory: Directory, *, live: bool, reachable: bool = False) -> Promise:
    """What the sender is told: never more than the connection can keep. `live`: it has a session whose hooks or runs
    are heard of. `reachable`: an entry would wake it at this moment, or its program is connected and takes work."""
    mode = agent_mode(agent, directory)
    if agent.deleted or mode == "stopped":
        return Promise.OFFLINE
    if mode != "running":
        return Promise.MAILBOX
    if agent.connection in ("command", "drive"):
        return Promise.LIVE
    if agent.connection in HEARD and reachable:
        return Promise.LIVE
    if agent.connection in ("client", "wake") and live:
        return Promise.NEXT_TURN
    return Promise.MAILBOX


# --- who holds a capability ---------------------------------------------------------------------------------------


class Holder(msgspec.Struct, frozen=True, gc=False):
    """An agent, and the offer of it that serves a request."""

    agent: Agent
    offer: Offer

    @property
    def slots(self) -> int:
        """How many messages it works at together: a spoke says so for each capability, others for all their work."""
        return self.offer.concurrency if self.agent.connection == "spoke" else self.agent.concurrency

    @property
    def rule(self) -> str:
        """What admits a message to it: the domain of a spoke's offer, `*` where everybody sees it. Empty for others,
        who have a policy of their own."""
        return f"domain:{self.offer.domain or '*'}" if self.agent.connection == "spoke" else ""


def concurrency_of(party: str, directory: Directory) -> int:
    """How many deliveries an agent works at together; 0 where there is no such agent."""
    agent = directory.agents.get(party)
    return agent.concurrency if agent is not None else 0


def domains_of(party: str, given: tuple[str, ...] | None, directory: Directory) -> tuple[str, ...]:
    """The domains that a caller sees: those it is registered for, beside what has none (written as an empty name).
    `given`: what the door knows of it, None on the local socket. An empty tuple: it is local and registered for none,
    so it sees every domain of its workspace."""
    agent = directory.agents.get(party)
    mine = {*(given or ())}
    if agent is not None:
        mine |= {*agent.domains, *(offer.domain for offer in agent.offers)}
    mine.discard("")
    return ("", *sorted(mine)) if mine or given is not None else ()


def holders(
    spec: str, workspace: str, directory: Directory, domains: tuple[str, ...] = (), requester: str = ""
) -> list[Holder]:
    """Who serves a capability for a caller: those of the workspace, else those of `default`. Whoever takes nothing from
    this requester, or sends its inputs where nobody consented, holds nothing for it."""
    asked = wanted(spec)
    places = directory.workspaces
    allowed = places[workspace].providers if workspace in places else frozenset()

    def of(place: str) -> list[Holder]:
        pins = {pin[:2]: pin[2] for pin in places[place].pins} if place in places else {}
        found = []
        for agent_id in directory.offered.get(asked.name, ()):
            agent = directory.agents[agent_id]
            if agent.deleted or place not in agent.workspaces or not _takes(agent, requester, allowed):
                continue
            offer = _best(agent, asked, domains, pins)
            if offer is not None:
                found.append(Holder(agent, offer))
        return found

    return of(workspace) or of(_default(directory))


def held_by(agent_id: str, found: Sequence[Holder]) -> Holder | None:
    """Of those who hold what is asked for that agent, with the offer of its that serves: the one by which it is chosen,
    counted and judged."""
    return next((holder for holder in found if holder.agent.agent_id == agent_id), None)


def _takes(agent: Agent, requester: str, providers: frozenset[str]) -> bool:
    if agent.provider not in ("", "none") and agent.provider not in providers:
        return False
    return agent.inbound == "accept" or requester in ("", "host", agent.owner, agent.agent_id)


def _best(agent: Agent, asked: Wanted, domains: tuple[str, ...], pins: Mapping[tuple[str, str], str]) -> Offer | None:
    """Of an agent the newest version that serves, in a domain that the caller sees and where no other is pinned."""
    fits = [
        offer
        for offer in agent.offers
        if serves(offer, asked)
        and (not domains or offer.domain in domains)
        and pins.get((offer.name, offer.domain), agent.agent_id) == agent.agent_id
    ]
    if len(fits) < 2:
        return fits[0] if fits else None
    return max(fits, key=lambda offer: [int(part) for part in offer.version.split(".")])


def addressed(spec: str, found: Sequence[Holder]) -> str:
    """Whom a request for a capability that these hold is addressed to: `cap:Name` while the host chooses among holders
    that it pushes to; where all of them pull, the one that has offered it longest."""
    if not found or any(holder.agent.connection in PUSHED for holder in found):
        return f"{CAPABILITY_PREFIX}{spec}"
    return found[0].agent.agent_id


def _default(directory: Directory) -> str:
    return next((w.workspace_id for w in directory.workspaces.values() if not w.root), "")


# --- choosing one of them -----------------------------------------------------------------------------------------


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """One holder at the moment of a choice."""

    agent: str
    weight: int
    concurrency: int
    running: int
    """What it has in hand of this capability, waiting in its own queue included."""
    status: str
    """`online`, `suspect`, `draining`, `returning` or `offline`."""


STATUSES: Final = ("online", "suspect", "draining", "returning", "offline")


def choose(candidates: Sequence[Candidate], credit: MutableMapping[str, int]) -> str:
    """The agent that gets the next message; empty where none has a free slot.

    Smooth weighted round robin: each gains credit by its weight and its free share, the richest is chosen and pays what
    all gained. Idle holders are chosen exactly in the proportion of their weights; one under load gains less. `credit`
    is kept from choice to choice, by agent, and changed here. A suspect is chosen only where nobody is online."""
    online = [c for c in candidates if c.status == "online"]
    free = [c for c in online or [c for c in candidates if c.status == "suspect"] if c.running < c.concurrency]
    if not free:
        return ""
    total, best, most = 0, "", 0
    for c in free:
        gain = c.weight * (c.concurrency - c.running) * _SHARES // c.concurrency
        credit[c.agent] = credit.get(c.agent, 0) + gain
        total += gain
        if not best or credit[c.agent] > most:
            best, most = c.agent, credit[c.agent]
    credit[best] -= total
    return best


_SHARES: Final = 27720
"""Divided by every concurrency up to 12, so that the shares of the usual ones are exact."""
