"""The route table: who holds which capability, as far as a caller sees it, and what became of what was asked of it."""

from __future__ import annotations

from statistics import median
from typing import Final

from tallystick.app.desk import reach
from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.app.routing import DOOR
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent, Workspace
from tallystick.core.identity import short
from tallystick.core.route import Holder, domains_of

_COUNTED: Final = 1000
"""So many of the newest messages for a capability are counted."""


class RouteTable(Ground):
    """routes, pin."""

    def seen_domains(self, guest: Guest) -> tuple[str, ...]:
        """The domains that a caller sees; an empty tuple: all of its workspace."""
        return domains_of(guest.actor.id, guest.facts.domains, self.directory)

    async def routes(self, guest: Guest, *, stats: bool = False) -> reach.Routes:
        """Who holds which capability, as far as this caller sees; with `stats` what became of the newest messages."""
        found = self._visible(guest)
        names = sorted({holder.offer.name for holder, _ in found})
        counted = [await self._counted(name) for name in names] if stats else []
        shown = [self._route(*pair) for pair in found]
        shown.sort(key=lambda route: route.status == "offline")  # who is there stands first
        place = self.directory.workspaces[guest.workspace].name
        return reach.Routes(routes=tuple(shown), stats=tuple(counted), workspace=place)

    def _visible(self, guest: Guest) -> list[tuple[Holder, str]]:
        """Each offer in the caller's workspace, then in `default`, with where it is."""
        seen, places = self.seen_domains(guest), self.directory.workspaces
        default = next((w for w, place in places.items() if not place.root), guest.workspace)
        found = [
            (Holder(agent, offer), workspace)
            for workspace in dict.fromkeys((guest.workspace, default))
            for agent in self.directory.members(workspace)
            for offer in agent.offers
            if not seen or offer.domain in seen
        ]
        return sorted(found, key=lambda pair: (pair[0].offer.name, pair[0].offer.version, pair[0].agent.alias))

    def _route(self, holder: Holder, workspace: str) -> reach.RouteShown:
        agent, offer = holder.agent, holder.offer
        place = self.directory.workspaces[workspace]
        last = self.s.routing.last_seen(agent)
        held, status = self._why_held(agent, place), self.s.routing.status(agent)
        own = "its program drains it" if status == "draining" else ""
        return reach.RouteShown(
            capability=offer.name,
            version=offer.version,
            spoke=agent.alias,
            endpoint=self.s.routing.endpoint(agent) or agent.connection,
            weight=offer.weight,
            domain=offer.domain,
            load=self.s.routing.load(agent, offer.name),
            concurrency=holder.slots,
            last_seen=round(last, 1) if last is not None else None,
            status="draining" if held and status != "offline" else status,
            workspace=place.name,
            why=held or own,
            first=self._first(offer.name, offer.domain, workspace) == agent.agent_id,
            pinned=(offer.name, offer.domain, agent.agent_id) in place.pins,
            idempotent=offer.idempotent,
            standing=offer.standing,
        )

    def _why_held(self, agent: Agent, place: Workspace) -> str:
        """What people stopped, paused or drained, so that an agent takes nothing new in a workspace; else empty."""
        sessions = [self.directory.sessions[s] for s in self.directory.open_sessions.get(agent.agent_id, ())]
        said = [("everything", self.directory.mode), (f"workspace {place.name}", place.mode)]
        said.append((f"@{agent.alias}", agent.mode))
        mine = [s for s in sessions if s.door == DOOR and s.workspace == place.workspace_id]
        said += [(f"its session {short(s.session_id)}", s.mode) for s in mine]
        return ", ".join(f"{what} is {mode}" for what, mode in said if mode != "running")

    def _first(self, name: str, domain: str, workspace: str) -> str:
        for agent_id in self.directory.offered.get(name, ()):
            agent = self.directory.agents[agent_id]
            if workspace in agent.workspaces and any((o.name, o.domain) == (name, domain) for o in agent.offers):
                return agent_id
        return ""

    async def _counted(self, name: str) -> reach.CapabilityShown:
        rows = await self.s.views.rows("asked_for", capability=name, limit=_COUNTED)
        done = [row for row in rows if row["state"] == "completed"]
        spent = [float(row["closed_at"] or 0) - float(row["created_at"] or 0) for row in done]
        return reach.CapabilityShown(
            capability=name,
            waiting=self.s.routing.waiting(name),
            asked=len(rows),
            done=len(done),
            failed=sum(row["state"] in ("failed", "rejected") for row in rows),
            unverified=sum(row["reason"] == "unverified" for row in rows),
            open=sum(bool(row["open"]) for row in rows),
            median_seconds=round(median(spent), 3) if spent else None,
        )

    async def pin(self, guest: Guest, capability: str, name: str, domain: str = "") -> reach.Routes:
        """Say which agent alone holds a capability here; `none`: whoever offers it does again. A person's verb."""
        actor = self.person(guest, "say who holds a capability")
        agent = "" if name == "none" else self.directory.named(name.removeprefix("@")) or ""
        if name != "none" and agent not in self.directory.agents:
            raise self.unknown_name(name, guest.workspace)
        command = cmd.PinCapability(workspace_id=guest.workspace, capability=capability, domain=domain, agent=agent)
        await self.s.executor.execute(command, actor, workspace=guest.workspace)
        return await self.routes(guest)
