"""Who and where: persons, agents, sessions, workspaces and names, folded from their events.

Small and kept whole in memory. Immutable: a change makes a new directory, so that a failed batch drops back by keeping
the old one. May live here: the state and how events change it; what may change is decided in `core.places`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from tallystick.core import events as ev
from tallystick.core import wake
from tallystick.core.errors import not_found
from tallystick.core.model import CheckSpec, Value
from tallystick.core.offers import Offer

PASSIVE = frozenset({"command", "spoke"})
"""Connections of programs that do what they are handed: nobody there can judge, answer or choose."""
PUSHED = frozenset({"command", "drive", "spoke"})
"""Connections that the host pushes work to."""
MODES = ("running", "paused", "stopped", "draining")
"""How much something may do, from all to nothing new."""


class Person(Value, frozen=True):
    """A person known to this host."""

    person_id: str
    alias: str
    version: int
    owner: bool = False
    uid: int | None = None
    display_name: str = ""


class Agent(Value, frozen=True):
    """An agent of this host and how it is connected."""

    agent_id: str
    alias: str
    owner: str
    version: int
    joined_at: float
    workspaces: frozenset[str] = frozenset()
    connection: str = "mailbox"
    argv: tuple[str, ...] = ()
    client: str = ""
    strengths: str = ""
    offers: tuple[Offer, ...] = ()
    domains: tuple[str, ...] = ()
    """Whose capabilities it may see as a caller, beside those that it offers itself; empty: see `core.route`."""
    provider: str = "none"
    inbound: str = "accept"
    display_name: str = ""
    concurrency: int = 1
    seconds: int = 0
    network: bool = False
    search_path: str = ""
    virtual_env: str = ""
    model: str = ""
    required: str = ""
    deleted: bool = False
    mode: str = "running"
    waking: wake.Waking = wake.Waking()

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The names of what it offers, each once."""
        return tuple(dict.fromkeys(offer.name for offer in self.offers))

    def judges_in(self, workspace: str) -> bool:
        """Whether it can be asked to judge, answer or choose there: a member, and no program that does what it is
        handed."""
        return workspace in self.workspaces and self.connection not in PASSIVE


class SessionState(Value, frozen=True):
    """One execution of an agent."""

    session_id: str
    agent: str
    workspace: str
    door: str
    version: int
    opened_at: float
    parent: str = ""
    incarnation: str = ""
    """Which execution of its client it is, as `PID@START`; empty for one that is no process."""
    history: str = ""
    """The client's own id of this conversation, where a hook told it."""
    transcript: str = ""
    client: str = ""
    """What runs in it, where the host drives it: program and version."""
    level: str = ""
    """How far its gate was proved, where the host drives it."""
    level_detail: str = ""
    place: str = ""
    """The directory that it works in, where the host made one for it."""
    forks: bool = False
    """Its client said that it can fork the conversation."""
    presence: str = "live"
    mode: str = "running"
    ended: bool = False


class Workspace(Value, frozen=True):
    """A place of work; `root` is empty only for `default`."""

    workspace_id: str
    name: str
    version: int
    root: str = ""
    repository: str = ""
    common_directory: str = ""
    evidence: str = ""
    coordinator: str = ""
    providers: frozenset[str] = frozenset()
    checks: tuple[tuple[str, CheckSpec], ...] = ()
    pins: tuple[tuple[str, str, str], ...] = ()
    """(capability, domain, agent): a person said that only this agent holds it here."""
    mode: str = "running"

    def check(self, name: str) -> CheckSpec | None:
        """The registered check with that name."""
        return next((spec for key, spec in self.checks if key == name), None)


class SpokeToken(Value, frozen=True):
    """By which a spoke on another machine may come in, as the record has it: it alone says for what."""

    name: str
    """The `spoke_id` that it is for."""
    token_id: str
    """Told apart by it from every other that there was under that name."""
    workspace: str
    """The id of the one workspace that it opens."""
    domains: tuple[str, ...]
    made_at: float


class Name(Value, frozen=True):
    """A name that was given out: to whom, and whether it still leads there."""

    alias: str
    party: str
    current: bool = True


def skeleton(alias: str) -> str:
    """Names with the same skeleton look alike (`rn`/`m`, `1`/`l`, `0`/`o`); only one of them is given out."""
    return alias.casefold().replace("1", "l").replace("0", "o").replace("rn", "m")


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody and every place, as of one position of the log."""

    persons: Mapping[str, Person] = {}
    agents: Mapping[str, Agent] = {}
    sessions: Mapping[str, SessionState] = {}
    workspaces: Mapping[str, Workspace] = {}
    names: Mapping[str, Name] = {}
    """By skeleton."""
    open_sessions: Mapping[str, tuple[str, ...]] = {}
    """By agent: its sessions that have not ended, oldest first."""
    offered: Mapping[str, tuple[str, ...]] = {}
    """By name of a capability: the agents that offer it, in the order in which they began to."""
    tokens: Mapping[str, SpokeToken] = {}
    """By name: the tokens that open the door to a spoke on another machine."""
    owner: str = ""
    mode: str = "running"
    host_version: int = 0
    """Version of the `host` stream."""

    def agent(self, agent_id: str) -> Agent:
        """The agent with that id. Refused `not_found` where there is none, or where it has left for good."""
        found = self.agents.get(agent_id)
        if found is None or found.deleted:
            raise not_found("There is no such agent here.", "List them with `tally agents`.")
        return found

    def named(self, alias: str) -> str | None:
        """The party a current name leads to."""
        name = self.names.get(skeleton(alias))
        return name.party if name and name.current and name.alias == alias else None

    def alias_of(self, party: str) -> str:
        """What a party is called, for people to read; ids and capabilities as they are."""
        known = self.agents.get(party) or self.persons.get(party)
        return f"@{known.alias}" if known else party

    def owner_of(self, party: str) -> str:
        """The person a party works for."""
        agent = self.agents.get(party)
        return agent.owner if agent else party if party in self.persons else self.owner

    def members(self, workspace: str) -> list[Agent]:
        """The agents of a workspace, by name."""
        found = (a for a in self.agents.values() if workspace in a.workspaces and not a.deleted)
        return sorted(found, key=lambda a: a.alias)

    def version_of(self, stream: str) -> int:
        """The version of a stream that is folded here; 0 for one that does not exist."""
        if stream == "host":
            return self.host_version
        for group in (self.agents, self.persons, self.sessions, self.workspaces):
            found = group.get(stream)
            if found is not None:
                return int(found.version)
        return 0


def evolve(directory: Directory, recorded: ev.Recorded) -> Directory:
    """The directory after one more event; task events leave it as it is."""
    change = _CHANGES.get(type(recorded.event))
    return change(directory, recorded, recorded.event) if change else directory


# Events of these streams that change nothing here still raise the version of their stream.


def _touch(d: Directory, r: ev.Recorded, _: Any) -> Directory:
    return _with_version(d, r.stream, r.version)


def _with_version(d: Directory, stream: str, version: int) -> Directory:
    if stream == "host":
        return replace(d, host_version=version)
    for field in ("agents", "persons", "sessions", "workspaces"):
        group = getattr(d, field)
        if stream in group:
            return replace(d, **{field: {**group, stream: replace(group[stream], version=version)}})
    return d


def _host_mode(d: Directory, r: ev.Recorded, e: ev.HostModeChanged) -> Directory:
    return replace(d, mode=e.mode, host_version=r.version)


def _person(d: Directory, r: ev.Recorded, e: ev.PersonJoined) -> Directory:
    person = Person(e.person_id, e.alias, r.version, e.owner, e.uid, e.display_name)
    named = replace(d, persons={**d.persons, e.person_id: person}, owner=e.person_id if e.owner else d.owner)
    return _name(named, e.alias, e.person_id)


def _name(d: Directory, alias: str, party: str) -> Directory:
    names = {k: replace(n, current=False) if n.party == party else n for k, n in d.names.items()}
    names[skeleton(alias)] = Name(alias, party)
    return replace(d, names=names)


def _workspace(d: Directory, r: ev.Recorded, e: ev.WorkspaceRegistered) -> Directory:
    place = Workspace(e.workspace_id, e.name, r.version, e.root, e.repository, e.common_directory, e.evidence)
    return replace(d, workspaces={**d.workspaces, e.workspace_id: place})


def _in_workspace(d: Directory, r: ev.Recorded, **changes: Any) -> Directory:
    place = replace(d.workspaces[r.stream], version=r.version, **changes)
    return replace(d, workspaces={**d.workspaces, r.stream: place})


def _coordinator(d: Directory, r: ev.Recorded, e: ev.CoordinatorChosen) -> Directory:
    return _in_workspace(d, r, coordinator=e.agent)


def _provider(d: Directory, r: ev.Recorded, e: ev.ProviderAllowed) -> Directory:
    return _in_workspace(d, r, providers=d.workspaces[r.stream].providers | {e.provider})


def _check(d: Directory, r: ev.Recorded, e: ev.CheckAdded) -> Directory:
    kept = tuple(item for item in d.workspaces[r.stream].checks if item[0] != e.check.name)
    return _in_workspace(d, r, checks=(*kept, (e.check.name, e.check)))


def _uncheck(d: Directory, r: ev.Recorded, e: ev.CheckRemoved) -> Directory:
    return _in_workspace(d, r, checks=tuple(i for i in d.workspaces[r.stream].checks if i[0] != e.name))


def _workspace_mode(d: Directory, r: ev.Recorded, e: ev.WorkspaceModeChanged) -> Directory:
    return _in_workspace(d, r, mode=e.mode)


_KEPT_ON_REJOIN = (
    "connection argv client strengths domains provider inbound display_name concurrency seconds network "
    "search_path virtual_env model required"
).split()


def _agent(d: Directory, r: ev.Recorded, e: ev.AgentJoined) -> Directory:
    known = d.agents.get(e.agent_id) or Agent(e.agent_id, e.alias, e.owner, 0, r.at)
    given = {field: getattr(e, field) for field in _KEPT_ON_REJOIN if getattr(e, field) is not None}
    offers = _offers(known, e)
    agent = replace(known, version=r.version, workspaces=known.workspaces | {e.workspace}, offers=offers, **given)
    offered = d.offered if offers == known.offers else _offered(d, agent)
    after = _name(replace(d, agents={**d.agents, e.agent_id: agent}, offered=offered), agent.alias, e.agent_id)
    if not e.allow_provider:
        return after
    place = after.workspaces[e.workspace]
    allowed = replace(place, providers=place.providers | {agent.provider})
    return replace(after, workspaces={**after.workspaces, e.workspace: allowed})


def _offers(known: Agent, e: ev.AgentJoined) -> tuple[Offer, ...]:
    if e.offers is not None:
        return e.offers
    return known.offers if e.capabilities is None else tuple(Offer(name) for name in dict.fromkeys(e.capabilities))


def _offered(d: Directory, agent: Agent) -> dict[str, tuple[str, ...]]:
    """Who offers what, after an agent changed what it offers: who did before keeps its place."""
    found = {name: tuple(a for a in who if a != agent.agent_id) for name, who in d.offered.items()}
    for name in agent.capabilities:
        before = d.offered.get(name, ())
        found[name] = before if agent.agent_id in before else (*before, agent.agent_id)
    return {name: who for name, who in found.items() if who}


def _pinned(d: Directory, r: ev.Recorded, e: ev.CapabilityPinned) -> Directory:
    kept = tuple(pin for pin in d.workspaces[r.stream].pins if pin[:2] != (e.capability, e.domain))
    return _in_workspace(d, r, pins=(*kept, (e.capability, e.domain, e.agent)) if e.agent else kept)


def _token_made(d: Directory, r: ev.Recorded, e: ev.SpokeTokenMade) -> Directory:
    token = SpokeToken(e.name, e.token_id, r.stream, e.domains, r.at)
    return replace(_in_workspace(d, r), tokens={**d.tokens, e.name: token})


def _token_removed(d: Directory, r: ev.Recorded, e: ev.SpokeTokenRemoved) -> Directory:
    return replace(_in_workspace(d, r), tokens={n: token for n, token in d.tokens.items() if n != e.name})


def _in_agent(d: Directory, r: ev.Recorded, **changes: Any) -> Directory:
    return replace(d, agents={**d.agents, r.stream: replace(d.agents[r.stream], version=r.version, **changes)})


def _renamed(d: Directory, r: ev.Recorded, e: ev.AgentRenamed) -> Directory:
    return _name(_in_agent(d, r, alias=e.alias), e.alias, r.stream)


def _left(d: Directory, r: ev.Recorded, e: ev.AgentLeft) -> Directory:
    agent = d.agents[r.stream]
    if e.workspace:
        return _in_agent(d, r, workspaces=agent.workspaces - {e.workspace})
    names = {k: replace(n, current=False) if n.party == r.stream else n for k, n in d.names.items()}
    return replace(_in_agent(d, r, workspaces=frozenset(), deleted=True), names=names)


def _agent_mode(d: Directory, r: ev.Recorded, e: ev.AgentModeChanged) -> Directory:
    return _in_agent(d, r, mode=e.mode)


def _session(d: Directory, r: ev.Recorded, e: ev.SessionOpened) -> Directory:
    opened = SessionState(
        session_id=e.session_id,
        agent=e.agent,
        workspace=r.workspace,
        door=e.door,
        version=r.version,
        opened_at=r.at,
        parent=e.parent,
        incarnation=e.incarnation,
    )
    mine = (*_sessions_without(d, e.agent, e.session_id), e.session_id)
    return replace(d, sessions={**d.sessions, e.session_id: opened}, open_sessions={**d.open_sessions, e.agent: mine})


def _sessions_without(d: Directory, agent: str, session: str) -> tuple[str, ...]:
    return tuple(s for s in d.open_sessions.get(agent, ()) if s != session)


def _in_session(d: Directory, r: ev.Recorded, **changes: Any) -> Directory:
    return replace(d, sessions={**d.sessions, r.stream: replace(d.sessions[r.stream], version=r.version, **changes)})


def _session_mode(d: Directory, r: ev.Recorded, e: ev.SessionModeChanged) -> Directory:
    return _in_session(d, r, mode=e.mode)


def _session_ended(d: Directory, r: ev.Recorded, _: ev.SessionEnded) -> Directory:
    agent = d.sessions[r.stream].agent
    left = {**d.open_sessions, agent: _sessions_without(d, agent, r.stream)}
    after = replace(_in_session(d, r, ended=True, presence="lapsed"), open_sessions=left)
    woken = d.agents.get(agent)
    if woken is None:
        return after
    waking = wake.session_over(woken.waking, r.stream)
    return replace(after, agents={**d.agents, agent: replace(woken, waking=waking)})


def _linked(d: Directory, r: ev.Recorded, e: ev.SessionLinked) -> Directory:
    return _in_session(d, r, history=e.history, transcript=e.transcript)


def _described(d: Directory, r: ev.Recorded, e: ev.SessionDescribed) -> Directory:
    client = f"{e.client} {e.version}".strip()
    return _in_session(d, r, client=client, level=e.level, level_detail=e.detail, place=e.directory, forks=e.forks)


def _waking(fold: Callable[[wake.Waking, ev.Recorded, Any], wake.Waking]) -> Callable[..., Directory]:
    """A change of what is known of an agent's wakes."""

    def change(d: Directory, r: ev.Recorded, e: Any) -> Directory:
        return _in_agent(d, r, waking=fold(d.agents[r.stream].waking, r, e))

    return change


def _presence(d: Directory, r: ev.Recorded, e: ev.PresenceChanged) -> Directory:
    return _in_session(d, r, presence=e.presence)


_CHANGES: dict[type, Callable[[Directory, ev.Recorded, Any], Directory]] = {
    ev.HostStarted: _touch,
    ev.HostModeChanged: _host_mode,
    ev.PersonJoined: _person,
    ev.WorkspaceRegistered: _workspace,
    ev.CoordinatorChosen: _coordinator,
    ev.ProviderAllowed: _provider,
    ev.CheckAdded: _check,
    ev.CheckRemoved: _uncheck,
    ev.WorkspaceModeChanged: _workspace_mode,
    ev.CapabilityPinned: _pinned,
    ev.SpokeTokenMade: _token_made,
    ev.SpokeTokenRemoved: _token_removed,
    ev.AgentJoined: _agent,
    ev.AgentRenamed: _renamed,
    ev.AgentLeft: _left,
    ev.AgentModeChanged: _agent_mode,
    ev.SessionOpened: _session,
    ev.SessionModeChanged: _session_mode,
    ev.SessionEnded: _session_ended,
    ev.SessionLinked: _linked,
    ev.SessionDescribed: _described,
    ev.PresenceChanged: _presence,
    ev.InboxSeen: _touch,
    ev.CommandRefused: _touch,
    ev.WakeIntended: _waking(wake.intended),
    ev.WakeReported: _waking(wake.reported),
    ev.WatchAdded: _waking(wake.watch_added),
    ev.WatchRemoved: _waking(wake.watch_removed),
    ev.WatchNoticed: _waking(wake.watch_noticed),
}


def sessions_of(history: str, agent: str, directory: Directory) -> tuple[str, ...]:
    """The open sessions, of whichever agent, that are in a conversation of the client that an agent is bound to."""
    client = directory.agents[agent].client
    alike = [other for other in directory.open_sessions if directory.agents[other].client == client]
    found = (known for other in alike for known in directory.open_sessions[other])
    return tuple(known for known in found if history and directory.sessions[known].history == history)
