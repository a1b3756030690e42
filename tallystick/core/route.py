"""Presence, and what may be promised for a recipient; choice of a holder for a capability.

Times in seconds. May live here: pure functions over the directory.
"""

from __future__ import annotations

from tallystick.core.directory import Agent, Directory
from tallystick.core.limits import Limits
from tallystick.core.model import Promise


def presence(silent_seconds: float, limits: Limits) -> str:
    """`live`, `suspect` (shown, chosen last) or `lapsed` by how long nothing was heard."""
    if silent_seconds < limits.suspect_seconds:
        return "live"
    return "suspect" if silent_seconds < limits.presence_seconds else "lapsed"


_RUNNING = {"running"}
_STRICTER = ("running", "draining", "paused", "stopped")


def agent_mode(agent: Agent, directory: Directory, workspace: str = "") -> str:
    """The strictest of what people said of the agent, its workspace and everything."""
    place = directory.workspaces.get(workspace)
    said = {agent.mode, directory.mode, place.mode if place else "running"}
    return "running" if said == _RUNNING else max(said, key=_STRICTER.index)


def is_stopped(actor_id: str, session: str, workspace: str, directory: Directory) -> bool:
    """Whether a person stopped this agent, its session, its workspace or everything."""
    agent = directory.agents.get(actor_id)
    if agent is None:
        return False
    state = directory.sessions.get(session)
    return agent_mode(agent, directory, workspace) == "stopped" or (state is not None and state.mode == "stopped")


def promise_to(agent: Agent, directory: Directory, *, live: bool, reachable: bool = False) -> Promise:
    """What the sender is told: never more than the connection can keep. `live`: it has a session whose hooks or runs
    are heard of. `reachable`: an entry would wake it at this moment."""
    if agent.deleted or agent_mode(agent, directory) == "stopped":
        return Promise.OFFLINE
    if agent_mode(agent, directory) != "running":
        return Promise.MAILBOX
    if agent.connection in ("command", "drive"):
        return Promise.LIVE
    if agent.connection in ("client", "wake") and reachable:
        return Promise.LIVE
    if agent.connection in ("client", "wake") and live:
        return Promise.NEXT_TURN
    return Promise.MAILBOX


def holders(capability: str, workspace: str, directory: Directory) -> list[Agent]:
    """The agents that offer a capability: those of the workspace, else those of `default`."""
    for place in (workspace, _default(directory)):
        found = [a for a in directory.members(place) if capability in a.capabilities]
        if found:
            return found
    return []


def _default(directory: Directory) -> str:
    return next((w.workspace_id for w in directory.workspaces.values() if not w.root), "")
