"""Agents with their strengths and track record, workspaces, checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from tallystick.app.desk import forms
from tallystick.app.presence import Presence
from tallystick.core.clients import CLIENTS
from tallystick.core.directory import PUSHED, Agent, Directory, SessionState, Workspace
from tallystick.core.facts import FACTS
from tallystick.core.model import CheckSpec, Fact
from tallystick.core.route import promise_to
from tallystick.store.interface import Cell

_COUNTED = ("accepted", "verified", "refuted", "declined", "failed", "unreviewed")


def track_record(rows: Iterable[Mapping[str, Cell]]) -> dict[str, Any]:
    """Counts and the median time from take to hand-in, from records only."""
    found = list(rows)
    record: dict[str, Any] = {name: sum(1 for r in found if r["outcome"] == name) for name in _COUNTED}
    spent = [float(r["seconds"]) for r in found if r["seconds"] is not None]
    record["median_seconds"] = round(median(spent), 3) if spent else None
    record["cost"] = None
    return record


def agent(
    found: Agent,
    workspace: str,
    directory: Directory,
    presence: Presence,
    record: dict[str, Any],
    *,
    open_tasks: int,
    sandbox: str,
) -> forms.AgentShown:
    """One agent as others see it."""
    place = directory.workspaces.get(workspace)
    told = presence.is_told(found.agent_id, directory)
    reachable = presence.is_reachable(found.agent_id, directory)
    sessions = [directory.sessions[s] for s in directory.open_sessions.get(found.agent_id, ())]
    return forms.AgentShown(
        agent_id=found.agent_id,
        name=f"@{found.alias}",
        display_name=found.display_name,
        owner=directory.alias_of(found.owner),
        connection=found.connection,
        command=found.argv,
        client=found.client,
        strengths=found.strengths,
        capabilities=found.capabilities,
        provider=found.provider,
        inbound=found.inbound,
        presence=_presence(found, [presence.of_session(s.session_id) for s in sessions]),
        promise=promise_to(found, directory, live=told, reachable=reachable).value,
        mode=found.mode,
        level=level(found, directory, sandbox, workspace),
        model=found.model,
        required=found.required,
        driven=tuple(_driven(s) for s in sessions if s.door == "acp"),
        workspaces=tuple(directory.workspaces[w].name for w in sorted(found.workspaces) if w in directory.workspaces),
        sessions=tuple(s.session_id for s in sessions),
        open_tasks=open_tasks,
        track_record=record,
        coordinator=place is not None and place.coordinator == found.agent_id,
        wake=woken_by(found),
        facts=_facts(found),
    )


def woken_by(found: Agent) -> str:
    """What can wake its sessions; empty: nothing can."""
    if found.connection == "wake":
        return "its wake command"
    known = CLIENTS.get(found.client)
    return known.wake if known is not None and found.connection == "client" else ""


def _facts(found: Agent) -> tuple[dict[str, str], ...]:
    known = CLIENTS.get(found.client) if found.connection == "client" else None
    if known is not None:
        rows = known.facts
    else:
        column = found.connection if found.connection in PUSHED else "pull"
        rows = tuple((row.fact, getattr(row, column)) for row in FACTS if row.fact is not Fact.UNVERIFIED)
    return tuple({"fact": fact.value, "rests_on": rests_on} for fact, rests_on in rows)


def _presence(found: Agent, sessions: list[str]) -> str:
    if found.connection in ("command", "drive"):
        return "live"
    for state in ("live", "suspect", "lapsed"):
        if state in sessions:
            return state
    return "unknown"


def level(found: Agent, directory: Directory, sandbox: str, workspace: str) -> str:
    """Its enforcement level: what the host runs is at the sandbox's level, of a session that it drives what was proved;
    everybody else only asserts."""
    if found.connection == "command":
        return sandbox
    if found.connection == "drive":
        mine = [directory.sessions[s] for s in directory.open_sessions.get(found.agent_id, ())]
        levels = [s.level for s in mine if s.level and s.workspace == workspace]
        return min(levels, default=found.required or "E1")
    return "E1" if found.connection in ("client", "wake") else "E0"


def _driven(session: SessionState) -> dict[str, str]:
    return {
        "session_id": session.session_id,
        "client": session.client,
        "level": session.level,
        "rests_on": session.level_detail,
        **({"mode": session.mode} if session.mode != "running" else {}),
        **({"fork_of": session.parent} if session.parent else {}),
    }


def workspace(place: Workspace, directory: Directory, *, current: bool) -> forms.WorkspaceShown:
    """One workspace."""
    return forms.WorkspaceShown(
        workspace_id=place.workspace_id,
        name=place.name,
        root=place.root,
        repository=place.repository,
        coordinator=directory.alias_of(place.coordinator) if place.coordinator else "",
        providers=tuple(sorted(place.providers)),
        checks=tuple(name for name, _ in place.checks),
        mode=place.mode,
        members=tuple(f"@{a.alias}" for a in directory.members(place.workspace_id)),
        current=current,
    )


def check(spec: CheckSpec) -> dict[str, Any]:
    """A registered check as JSON."""
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "argv": list(spec.argv),
        "setup": list(spec.setup),
        "protect": list(spec.protect),
        "binds": list(spec.binds),
        "network": spec.network,
        "seconds": spec.seconds,
        "path": spec.search_path,
        "virtual_env": spec.virtual_env,
    }
