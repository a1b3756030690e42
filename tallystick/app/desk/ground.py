"""What every verb stands on: the services, who asks, what an id, a name or an address means."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import msgspec

from tallystick.app.calls import CallerFacts
from tallystick.app.desk import forms
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.services import Services
from tallystick.app.execute import Outcome
from tallystick.app.ports import Located
from tallystick.app.tokens import not_joined
from tallystick.core import commands as cmd
from tallystick.core.caller import CallerClaim, identify, person_by_name, person_way
from tallystick.core.clients import client_among, execution_of
from tallystick.core.directory import Agent, Directory, Workspace
from tallystick.core.errors import ErrorCode, Refused, conflict, denied, invalid, not_found
from tallystick.core.identity import HOST, Actor, ActorKind, Assertion, Prefix, is_id
from tallystick.core.mention import (
    Capability,
    Coordinator,
    Human,
    Me,
    OneSession,
    Role,
    nearest,
    parse_address,
)
from tallystick.core.route import addressed, domains_of, holders

_GUESTS_KEPT = 1024


class Ground:
    """Base of the desk's parts."""

    def __init__(self, services: Services) -> None:
        self.s = services
        self._made_here = f"{services.home}/worktrees/"
        self._last: dict[str, str] = {}
        self._messages: OrderedDict[tuple[str, str], str] = OrderedDict()
        """By sender and id of a message: its task."""
        self._guests: dict[tuple[int, str, str], tuple[CallerFacts, Guest]] = {}
        self._guests_in: Directory | None = None
        self._shown_revision: dict[tuple[str, str], int] = {}
        self._opening = asyncio.Lock()
        self._admitting = asyncio.Lock()
        self._held: dict[str, frozenset[tuple[str, int]]] = {}
        self._greeted: dict[str, frozenset[tuple[str, int]]] = {}

    @property
    def directory(self) -> Directory:
        """Everybody and every place, as committed."""
        return self.s.heads.committed_directory

    # --- who asks, from where -----------------------------------------------------------------------------------

    async def guest(
        self, facts: CallerFacts, *, as_name: str = "", workspace: str = "", register: bool = False
    ) -> Guest:
        """Who calls, from where. `register`: join and ask register the repository they are in."""
        # Only what rests on nothing but the directory and the same facts: paths are looked up every time.
        timeless = not facts.directory and "/" not in workspace and not workspace.startswith(".")
        known = self._known_guest(facts, as_name, workspace) if timeless else None
        if known is None:
            before = self.directory
            known = await self._identified(facts, as_name, workspace, register=register)
            if timeless and before is self.directory:
                self._guests[id(facts), as_name, workspace] = facts, known
        if known.actor.session and self.s.presence.heard(known.actor.session):
            await self._note_live(known.actor.session)
        return known

    def _known_guest(self, facts: CallerFacts, as_name: str, workspace: str) -> Guest | None:
        """The same caller's guest as before, while nobody and no place has changed."""
        if self._guests_in is not self.directory or len(self._guests) >= _GUESTS_KEPT:
            self._guests_in = self.directory
            self._guests.clear()
        found = self._guests.get((id(facts), as_name, workspace))
        return found[1] if found is not None else None  # its facts are kept beside it, so no others have that id

    async def _identified(self, facts: CallerFacts, as_name: str, workspace: str, *, register: bool) -> Guest:
        self._refuse_token(facts.token)
        directory = await _resolved(facts.directory)
        place, registered = await self._workspace(facts, directory, workspace, register=register)
        claim = self._claim(facts, as_name, place)
        verdict = identify(claim)
        self._refuse_impostor(claim, verdict.name)
        actor = await self._actor(verdict.kind, verdict.name, place, facts, workspace)
        way = person_way(claim)
        self._refuse_foreign(actor, place, workspace)
        return Guest(
            actor=actor,
            subject=self.directory.owner_of(actor.id),
            workspace=place.workspace_id,
            directory=directory,
            because=verdict.because,
            read_only=verdict.read_only,
            facts=facts,
            person_way=way[1:] if way.startswith("!") else "",
            registered=registered,
        )

    def _refuse_token(self, token_id: str) -> None:
        """Who came in a moment before its token was taken away is here no more, either."""
        if token_id and all(token.token_id != token_id for token in self.directory.tokens.values()):
            raise Refused(
                ErrorCode.UNAUTHENTICATED,
                "The token that this came in by opens nothing any more.",
                "Ask the person for a new one: tally token add NAME",
            )

    def _refuse_impostor(self, claim: CallerClaim, name: str) -> None:
        """Sessions and coding clients may be any agent by name, but no person: that would lift all their limits."""
        why = person_by_name(claim)
        if why and self.directory.named(name) in self.directory.persons:
            raise denied(f"@{name} is a person, and {why}.", "Say which agent you are: --as NAME.")

    def _claim(self, facts: CallerFacts, as_name: str, place: Workspace) -> CallerClaim:
        client = facts.client or client_among(facts.ancestors)
        members = self.directory.members(place.workspace_id) if client else ()
        bound = next((a for a in members if a.client == client), None)
        return CallerClaim(
            as_name=as_name.removeprefix("@"),
            listener=facts.listener,
            session=facts.environment.get("TALLY_SESSION", ""),
            agent=facts.environment.get("TALLY_AGENT", "").removeprefix("@"),
            client=client,
            bound_agent=bound.alias if bound else "",
            terminal=facts.terminal.stdin or facts.terminal.stdout,
            setting=self.s.person_verbs,
        )

    async def _actor(self, kind: str, name: str, place: Workspace, facts: CallerFacts, named: str) -> Actor:
        if kind in ("listener", "session"):
            return self._of_session(name, kind, facts)
        if kind == "agent":
            return await self._named_actor(name, place, facts, named)
        owner = self._person_of(facts.uid)
        terminal = facts.terminal.stdin and kind == "person"
        assertion = Assertion.TERMINAL if terminal else Assertion.ASSERTED
        return Actor(owner, ActorKind.PERSON, door=facts.door, assertion=assertion, uid=facts.uid)

    def _person_of(self, uid: int) -> str:
        found = next((p.person_id for p in self.directory.persons.values() if p.uid == uid), "")
        return found or self.directory.owner

    def _of_session(self, session_id: str, kind: str, facts: CallerFacts) -> Actor:
        session = self.directory.sessions.get(session_id)
        if session is None or session.ended:
            raise Refused(
                ErrorCode.UNAUTHENTICATED,
                "This session is not known here or has ended.",
                "Start a new session; what it held becomes due again by itself.",
            )
        assertion = Assertion.LISTENER if kind == "listener" else Assertion.ASSERTED
        return Actor(session.agent, ActorKind.AGENT, session_id, facts.door, assertion, facts.uid)

    async def _named_actor(self, name: str, place: Workspace, facts: CallerFacts, named: str) -> Actor:
        party = self.directory.named(name)
        if party is not None and party in self.directory.persons:
            return Actor(party, ActorKind.PERSON, door=facts.door, uid=facts.uid)
        agent = self.directory.agents.get(party or "")
        if agent is not None and named:
            self._refuse_foreign(Actor(agent.agent_id, ActorKind.AGENT), place, named)
        if agent is None or place.workspace_id not in agent.workspaces:
            raise not_joined(name, place.name) if facts.token else self.unknown_name(name, place.workspace_id)
        session = await self._session_here(agent, place, facts)
        return Actor(agent.agent_id, ActorKind.AGENT, session, facts.door, Assertion.ASSERTED, facts.uid)

    async def _session_here(self, agent: Agent, place: Workspace, facts: CallerFacts) -> str:
        """The session that an agent's call belongs to: one for each execution of the client that the agent is bound
        to, whether it calls by its tools, a hook or the command line; else the standing one of an agent in a workspace,
        so that whoever comes by command line types no fence."""
        execution = _execution(agent, facts)
        door = "client" if execution else "cli"
        known = self._open_session(agent, place, door, execution)
        if known:
            return known
        async with self._opening:  # a client starts its server and several hooks at once: they are one session
            known = self._open_session(agent, place, door, execution)
            return known or await self._new_session(agent, place, facts.door, door, execution)

    def _open_session(self, agent: Agent, place: Workspace, door: str, execution: str) -> str:
        for known in self.directory.open_sessions.get(agent.agent_id, ()):
            session = self.directory.sessions[known]
            if session.workspace == place.workspace_id and (session.door, session.incarnation) == (door, execution):
                return known
        return ""

    async def _new_session(self, agent: Agent, place: Workspace, came_by: str, door: str, execution: str) -> str:
        session_id = self.s.new_id(Prefix.SESSION)
        opened = cmd.OpenSession(
            session_id=session_id,
            agent=agent.agent_id,
            workspace=place.workspace_id,
            door=door,
            incarnation=execution,
        )
        actor = Actor(agent.agent_id, ActorKind.AGENT, session_id, came_by)
        await self.s.executor.execute(opened, actor, workspace=place.workspace_id)
        return session_id

    async def _note_live(self, session: str) -> None:
        state = self.directory.sessions.get(session)
        if state is not None and state.presence != "live":
            await self.s.executor.execute(cmd.NotePresence(session_id=session, presence="live"), HOST)

    def _refuse_foreign(self, actor: Actor, place: Workspace, named: str) -> None:
        agent = self.directory.agents.get(actor.id)
        if agent is not None and place.workspace_id not in agent.workspaces:
            raise self._no_workspace(named or place.name)

    # --- workspaces ---------------------------------------------------------------------------------------------

    async def _workspace(
        self, facts: CallerFacts, directory: str, named: str, *, register: bool
    ) -> tuple[Workspace, str]:
        """By --workspace, the session, the repository, the longest registered prefix, or `default`."""
        if facts.workspace:
            return self._bound_place(facts.workspace, named, directory), ""
        if named:
            return self.workspace_named(named, directory), ""
        session = self.directory.sessions.get(facts.listener or facts.environment.get("TALLY_SESSION", ""))
        if session is not None and session.workspace in self.directory.workspaces:
            return self.directory.workspaces[session.workspace], ""
        made_for = await self._of_host_made(facts, directory)
        if made_for is not None:
            return made_for, ""
        located = await self.s.git.locate(Path(directory)) if directory else None
        if located is not None:
            found = self._of_repository(located)
            if found is not None:
                return found, ""
            repository = await self.s.git.find(Path(directory)) if register else None
            if repository is not None:
                return await self.register(repository.main_root, facts.uid), repository.main_root
        return self._by_prefix(directory), ""

    def _bound_place(self, bound: str, named: str, directory: str) -> Workspace:
        """The one workspace that a token opens: every other is to it as if it were absent."""
        place = self.workspace_named(bound, directory)
        if named and self.workspace_named(named, directory) is not place:
            raise self._no_workspace(named)
        return place

    async def _of_host_made(self, facts: CallerFacts, directory: str) -> Workspace | None:
        """The workspace of the task that the host made this work tree for."""
        if not directory.startswith(self._made_here):
            return None
        work = await self.s.heads.work(facts.environment.get("TALLY_TASK", ""))
        return self.directory.workspaces.get(work.task.workspace) if work else None

    def workspace_named(self, named: str, directory: str) -> Workspace:
        """By name, id, or path."""
        places = self.directory.workspaces
        if named in places:
            return places[named]
        is_path = ("/" in named or named.startswith(".")) and "\0" not in named
        path = str(Path(directory or "/", named)) if is_path else ""
        found = [w for w in places.values() if w.name == named or (path and w.root == _real(path))]
        if len(found) > 1:
            roots = ", ".join(w.root for w in found)
            raise invalid(f"Several workspaces are called {named!r}: {roots}.", "Name it by its path.")
        if not found:
            raise self._no_workspace(named)
        return found[0]

    def _no_workspace(self, named: str) -> Refused:
        return not_found(f"There is no workspace {named!r} here.", "List yours with `tally workspace`.")

    def _of_repository(self, repository: Located) -> Workspace | None:
        places = self.directory.workspaces.values()
        by_root = next((w for w in places if w.root == repository.root), None)
        shared = (w for w in places if w.common_directory and w.common_directory == repository.common_directory)
        return by_root or next(shared, None)

    def _by_prefix(self, directory: str) -> Workspace:
        best, default = None, None
        for place in self.directory.workspaces.values():
            if not place.root:
                default = place
            elif directory and (directory == place.root or directory.startswith(place.root.rstrip("/") + "/")):
                best = place if best is None or len(place.root) > len(best.root) else best
        found = best or default
        if found is None:
            raise conflict("This host has no default workspace yet.", "Try again in a moment.")
        return found

    async def register(self, root: str, uid: int) -> Workspace:
        """Make a directory (and the repository in it) a workspace."""
        repository = await self.s.git.find(Path(root))
        actor = Actor(self._person_of(uid), ActorKind.PERSON, door="cli", uid=uid)
        workspace_id = self.s.new_id(Prefix.WORKSPACE)
        top = repository.main_root if repository else root
        command = cmd.RegisterWorkspace(
            workspace_id=workspace_id,
            name=self._free_name(Path(top).name or "root"),
            root=top,
            repository=self.s.new_id(Prefix.REPOSITORY) if repository else "",
            common_directory=repository.common_directory if repository else "",
            evidence=repository.evidence if repository else "",
        )
        await self.s.executor.execute(command, actor, workspace=workspace_id)
        return next(w for w in self.directory.workspaces.values() if w.root == top)

    def _free_name(self, wanted: str) -> str:
        taken = {w.name for w in self.directory.workspaces.values()}
        wanted = "".join(c if c.isprintable() else "-" for c in wanted)  # a folder may be called anything
        number, name = 2, wanted
        while name in taken:
            name, number = f"{wanted}-{number}", number + 1
        return name

    # --- names, addresses, ids ----------------------------------------------------------------------------------

    def unknown_name(self, name: str, workspace: str) -> Refused:
        """A name that leads nowhere here, with the nearest ones that do."""
        known = [a.alias for a in self.directory.members(workspace)]
        known += [p.alias for p in self.directory.persons.values()]
        near = nearest(name.removeprefix("@"), known)
        hint = f"Did you mean {' or '.join('@' + n for n in near)}?" if near else "List who is here: tally agents."
        return not_found(f"There is no @{name.removeprefix('@')} in this workspace.", hint)

    def party(self, guest: Guest, address: str) -> tuple[str, str]:
        """The party and the wanted session that an address means; an empty party is for the coordinator to choose."""
        parsed = parse_address(address)
        if isinstance(parsed, Role):
            return self._role(guest, parsed.name), ""
        if isinstance(parsed, OneSession):
            return self._one_session(guest, parsed)
        if isinstance(parsed, Coordinator):
            return "", ""
        if isinstance(parsed, Human):
            return self.directory.owner, ""
        if isinstance(parsed, Me):
            return guest.actor.id, ""
        if isinstance(parsed, Capability):
            seen = domains_of(guest.actor.id, guest.facts.domains, self.directory)
            found = holders(parsed.name, guest.workspace, self.directory, seen, guest.actor.id)
            return addressed(parsed.name, found), ""
        raise invalid(f"{address!r} is a room, and rooms do not take tasks.", "Address an agent: @name.")

    def _role(self, guest: Guest, name: str) -> str:
        party = self.directory.named(name)
        agent = self.directory.agents.get(party or "")
        if party in self.directory.persons:
            return str(party)
        if agent is not None and guest.workspace in agent.workspaces:
            return agent.agent_id
        shown = [a for a in self.directory.members(guest.workspace) if a.display_name == name]
        if len(shown) == 1:
            return shown[0].agent_id
        raise self.unknown_name(name, guest.workspace)

    def _one_session(self, guest: Guest, parsed: OneSession) -> tuple[str, str]:
        party = self._role(guest, parsed.name)
        wanted = parsed.session.removeprefix("ses_").upper()
        found = [
            s.session_id
            for s in self.directory.sessions.values()
            if s.agent == party and (s.session_id[4:].startswith(wanted) or s.session_id.endswith(wanted))
        ]
        if len(wanted) < 4 or len(found) != 1:
            raise not_found(f"@{parsed.name} has no such session.", "List its sessions with `tally agents`.")
        if self.directory.sessions[found[0]].ended:
            raise Refused(
                ErrorCode.OFFLINE, f"That session of @{parsed.name} has ended.", f"Ask the role instead: @{parsed.name}"
            )
        return party, found[0]

    def sees(self, guest: Guest) -> Any:
        """Which workspaces a guest sees: persons all, agents those that they are in at that moment."""
        if guest.actor.id not in self.directory.agents:
            return lambda _workspace: True

        def sees(workspace: str) -> bool:
            agent = self.directory.agents.get(guest.actor.id)
            return agent is not None and workspace in agent.workspaces

        return sees

    async def task_id(self, guest: Guest, typed: str) -> str:
        """The task that an id as typed means to this reader."""
        if is_id(typed, Prefix.TASK):
            work = self.s.heads.remembered(typed) or await self.s.heads.work(typed)
            if work is not None and self.sees(guest)(work.task.workspace):
                return self.remember(guest, typed)
        if typed.strip().lower() == "@last":
            last = self._last.get(guest.actor.id) or await self.s.views.newest(guest.actor.id)
            work = await self.s.heads.work(last) if last else None
            if work is None or not self.sees(guest)(work.task.workspace):  # it may have left, or been told a wrong one
                raise not_found("There is no last task yet.", "List what is there with `tally board`.")
            return last
        return self.remember(guest, await self.s.views.find(typed, self.sees(guest)))

    async def trace_id(self, guest: Guest, typed: str) -> str:
        """The trace that is meant: by its whole id, by a task of it, or by its end where it is of a refusal."""
        if not typed.lower().startswith("trc_"):
            return (await self.s.views.work(await self.task_id(guest, typed))).task.trace
        if len(typed) <= 12:
            found = await self.s.views.refusal(typed, self.sees(guest))
            if not found:
                remedy = "Name a task of it, or the whole id, which `tally show TASK` tells."
                raise invalid(f"{typed!r} is no whole id of a trace.", remedy)
            return found
        return typed

    def remember(self, guest: Guest, task_id: str) -> str:
        """`@last` of this reader from now on."""
        self._last[guest.actor.id] = task_id
        return task_id

    # --- doing --------------------------------------------------------------------------------------------------

    def writer(self, guest: Guest) -> Actor:
        """The actor, if it may write at all."""
        if guest.read_only:
            raise denied(
                f"You are {guest.because}; that may read, not write.",
                "A person binds it: tally join NAME --client CLIENT; or say who you are: --as NAME.",
            )
        return guest.actor

    def person(self, guest: Guest, what: str) -> Actor:
        """The person who uses a person's verb, or a refusal that says why not."""
        if guest.actor.kind is not ActorKind.PERSON:
            raise denied(f"Only a person may {what}.", "Ask the person you work for.")
        if guest.person_way:
            raise denied(
                f"Only a person may {what}, and {guest.person_way}.",
                "A person runs it in a terminal of their own.",
            )
        return guest.actor

    async def do(self, guest: Guest, command: cmd.TaskCommands) -> Outcome:
        """Execute a command of this guest."""
        return await self.s.executor.execute(command, self.writer(guest))

    def moved(self, outcome: Outcome) -> forms.Moved:
        """Where the task is now."""
        if outcome.work is None:
            raise ValueError("not a task's outcome")
        task = outcome.work.task
        return forms.Moved(
            task_id=task.task_id,
            state=str(task.state),
            reason=str(task.reason),
            turn=self.directory.alias_of(task.turn) if task.turn else "",
            version=task.version,
            changed=outcome.recorded is not None,
            fence=task.fence,
            revision=task.revision,
            cancel_requested=bool(task.cancel_requested_at) and task.open,
        )


def digest_of(*parts: object) -> str:
    """sha256 over values, so that a repeated request is known by its content; length-safe, because it is JSON."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _real(path: str) -> str:
    return os.path.realpath(path)


async def _resolved(directory: str) -> str:
    if not directory:
        return ""
    try:
        return _real(directory)
    except (OSError, RuntimeError, ValueError):
        return ""


def _execution(agent: Agent, facts: CallerFacts) -> str:
    """Which execution of its client an agent's call comes out of; empty where the agent has none, or it is not seen."""
    if not agent.client or (facts.client or client_among(facts.ancestors)) != agent.client:
        return ""
    nearest = facts.processes[0] if facts.client and facts.processes else ""
    return execution_of(agent.client, facts.ancestors, facts.processes) or nearest
