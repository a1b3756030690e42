"""Which agent a name means, for every verb that is about an agent of the workspace."""

from __future__ import annotations

from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.core.directory import Agent


class Members(Ground):
    """Base of the desk's parts that name agents."""

    def member(self, guest: Guest, name: str) -> Agent:
        """The member of this workspace that a name means, with or without @; refused with the nearest names."""
        agent = self.directory.agents.get(self.directory.named(name.removeprefix("@")) or "")
        if agent is None or agent.deleted or guest.workspace not in agent.workspaces:
            raise self.unknown_name(name, guest.workspace)
        return agent
