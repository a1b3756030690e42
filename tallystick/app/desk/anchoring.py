"""Spokes as the desk sees them: they register, are heard, drain, are lost and come back."""

from __future__ import annotations

from collections.abc import Mapping

from tallystick.app.desk import reach
from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.app.routing import DOOR
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import conflict, denied, not_found
from tallystick.core.events import Text
from tallystick.core.identity import HOST, Actor, ActorKind, Assertion, Prefix, check_alias, short
from tallystick.core.route import agent_mode


class Anchoring(Ground):
    """anchor, heard, lost, drain_spoke, takes, told."""

    async def anchor(self, guest: Guest, form: reach.Anchor) -> reach.Anchored:
        """Register a spoke, or take back one that is known. The live one of a name wins; the second gets `conflict`."""
        alias = check_alias(form.spoke_id)
        agent = await self._spoke(guest, alias, form)
        session = await self._standing(guest, agent, form)
        self.s.routing.arrived(session.session_id, agent.agent_id, form.endpoint, form.process)
        try:
            await self.heard(session.session_id, {})
            resume = await self.s.returning.sort_out(agent, session.session_id, form.held)
        except BaseException:  # it left meanwhile, and nobody is there who would tell of that
            self.s.routing.lost(session.session_id, form.process)
            raise
        return reach.Anchored(
            agent=agent.agent_id,
            session=session.session_id,
            workspace=guest.workspace,
            heartbeat_seconds=self.s.limits.heartbeat_seconds,
            lease_seconds=self.s.limits.presence_seconds,
            resume=resume,
        )

    async def ready(self, session: str) -> None:
        """The spoke was told what `anchor` answered, and can be sent to: what it goes on with is watched again, and it
        is chosen from now on."""
        agent = self._behind(session)
        if agent is not None:
            self.s.routing.ready(session)
            self.s.returning.go_on(agent, session)
            self.s.deliverer.offers(agent)

    async def _spoke(self, guest: Guest, alias: str, form: reach.Anchor) -> Agent:
        """The agent behind a spoke, joined or changed where what it offers is new."""
        known = self.directory.agents.get(self.directory.named(alias) or "")
        if known is not None and known.connection != DOOR:
            raise conflict(f"@{alias} is here already, and is no spoke.", "Choose another spoke_id.")
        if known is not None and self._is_another_alive(known, guest.workspace, form):
            raise conflict(
                f"The spoke {alias!r} is connected already.", "Stop that one first, or choose another spoke_id."
            )
        same = known is not None and form.capabilities in (None, known.offers) and guest.workspace in known.workspaces
        if known is not None and same:
            return known
        command = cmd.JoinAgent(
            agent_id=known.agent_id if known else self.s.new_id(Prefix.AGENT),
            alias=alias,
            workspace=guest.workspace,
            connection=DOOR,
            offers=form.capabilities if form.capabilities is not None or known else (),
        )
        await self.s.executor.execute(command, self._registrar(guest, known), workspace=guest.workspace)
        return self.directory.agents[command.agent_id]

    def _registrar(self, guest: Guest, known: Agent | None) -> Actor:
        """Who registers it: the person whose socket it came in on, or it itself."""
        actor = self.writer(guest)
        if actor.kind is ActorKind.AGENT and (known is None or known.agent_id != actor.id):
            raise denied("An agent registers no other spoke than itself.", "Start it outside of the agent's session.")
        return actor

    def _is_another_alive(self, agent: Agent, workspace: str, form: reach.Anchor) -> bool:
        for session in self._spoke_sessions(agent, workspace):
            known = self.s.routing.connected(session.session_id)
            heard = self.s.presence.of_session(session.session_id) in ("live", "suspect")
            if known is not None and known.is_there and heard and known.process != form.process:
                return True
        return False

    def _spoke_sessions(self, agent: Agent, workspace: str) -> list[SessionState]:
        found = (self.directory.sessions[s] for s in self.directory.open_sessions.get(agent.agent_id, ()))
        return [s for s in found if s.door == DOOR and s.workspace == workspace]

    async def _standing(self, guest: Guest, agent: Agent, form: reach.Anchor) -> SessionState:
        """The session of this spoke with this store: it outlives connections, processes and hosts. Another store knows
        nothing of what the earlier one held, so that session is over."""
        for session in self._spoke_sessions(agent, guest.workspace):
            if session.incarnation == form.store:
                return session
            ended = cmd.EndSession(session_id=session.session_id, detail="the spoke came with another store")
            await self.s.executor.execute(ended, HOST, workspace=guest.workspace)
        opened = cmd.OpenSession(
            session_id=self.s.new_id(Prefix.SESSION),
            agent=agent.agent_id,
            workspace=guest.workspace,
            door=DOOR,
            incarnation=form.store,
        )
        await self.s.executor.execute(opened, HOST, workspace=guest.workspace)
        return self.directory.sessions[opened.session_id]

    async def heard(self, session: str, queued: Mapping[str, int]) -> None:
        """A heartbeat, with what waits in the spoke's own queue by capability. An event only where it had lapsed."""
        self.s.routing.loaded(session, queued)
        if self.s.presence.heard(session):
            await self._note_live(session)
        agent = self._behind(session)
        if agent is not None:
            self.s.deliverer.offers(agent)

    def lost(self, session: str, process: str) -> None:
        """The connection of that process is gone. What it holds is still its own until its lease is over."""
        self.s.routing.lost(session, process)

    def departed(self, session: str, process: str) -> None:
        """That process went in order: it had said that it takes nothing new, and has nothing left. It is offline from
        now on."""
        self.s.routing.lost(session, process)
        self.s.presence.left(session)

    def drain_spoke(self, session: str) -> None:
        """It finishes what it has and takes nothing new until it is anchored again."""
        self.s.routing.drains(session)

    def takes(self, session: str) -> bool:
        """Whether people let the spoke of a session take anything new: nothing that it belongs to is stopped, paused or
        draining."""
        known, agent = self.directory.sessions.get(session), self._behind(session)
        if known is None or agent is None:
            return False
        return agent_mode(agent, self.directory, known.workspace, session) == "running"

    def _behind(self, session: str) -> Agent | None:
        known = self.directory.sessions.get(session)
        return self.directory.agents.get(known.agent) if known is not None else None

    async def told(self, session: str, task_id: str, fence: int, text: str, fraction: float | None = None) -> None:
        """A spoke tells how it goes; that extends the stall and the lease, not the deadline."""
        known = self.directory.sessions.get(session)
        if known is None or known.ended:
            raise not_found(f"There is no session {short(session)}.", "Anchor again.")
        actor = Actor(known.agent, ActorKind.AGENT, session, DOOR, Assertion.LISTENER)
        self.s.presence.heard(session)
        command = cmd.ReportProgress(task_id=task_id, text=Text(body=text), fraction=fraction, fence=fence)
        await self.s.executor.execute(command, actor)
