"""Resources: what a client may read and watch by address. Each of them is also reachable by a tool.

Reading one does not count as seen: a client may fetch it without any model looking at it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import Refused, not_found
from tallystick.edge.mcp.told import told
from tallystick.edge.mcp.words import one_line

_LISTED = 50
_MIME: Final = "application/json"
_URI = re.compile(r"tally://(task|trace|agent)/([A-Za-z0-9@_-]{1,80})\Z")

TEMPLATES: Final[list[dict[str, Any]]] = [
    {
        "uriTemplate": "tally://task/{id}",
        "name": "task",
        "description": "Everything about a task, with its history",
        "mimeType": _MIME,
    },
    {
        "uriTemplate": "tally://trace/{id}",
        "name": "trace",
        "description": "Every event of a trace, across agents; by trace or task id",
        "mimeType": _MIME,
    },
    {
        "uriTemplate": "tally://agent/{name}",
        "name": "agent",
        "description": "One agent: strengths, presence, what it holds, its track record",
        "mimeType": _MIME,
    },
]
"""What `resources/templates/list` shows."""


def parse(uri: Any) -> tuple[str, str]:
    """Kind and name of an address. Raises `Refused`."""
    found = _URI.match(uri) if isinstance(uri, str) else None
    if found is None:
        raise not_found(
            f"There is no resource {str(uri)[:100]!r}.",
            "Resources are tally://task/ID, tally://trace/ID and tally://agent/NAME.",
        )
    return found[1], found[2]


async def listed(desk: Desk, guest: Guest) -> list[dict[str, Any]]:
    """The open tasks and the agents of the reader's workspace."""
    tasks = (await desk.board(guest)).tasks[:_LISTED]
    agents = (await desk.agents(guest)).agents[:_LISTED]
    return [
        *[_entry(f"task/{t.task_id}", one_line(t.title), f"{t.label}, {t.from_} → {t.assignee}") for t in tasks],
        *[_entry(f"agent/{a.name.removeprefix('@')}", a.name, one_line(a.strengths)) for a in agents],
    ]


def _entry(place: str, name: str, about: str) -> dict[str, Any]:
    return {"uri": f"tally://{place}", "name": name, "mimeType": _MIME, **({"description": about} if about else {})}


async def found(desk: Desk, guest: Guest, uri: Any) -> Any:
    """What is at an address: a form. Raises `Refused`."""
    kind, name = parse(uri)
    if kind == "task":
        return told(await desk.show(guest, name), history=True)
    if kind == "trace":
        return await desk.trace(guest, name)
    return await _agent(desk, guest, name)


async def _agent(desk: Desk, guest: Guest, name: str) -> forms.AgentShown:
    wanted = name.removeprefix("@")
    for agent in (await desk.agents(guest)).agents:
        if agent.name.removeprefix("@") == wanted:
            return agent
    raise not_found(f"There is no @{wanted} in this workspace.", "List who is here with the tool overview.")


async def changes(desk: Desk, guest: Guest, uris: frozenset[str], after: int) -> AsyncIterator[str]:
    """The address of each resource that may have changed, as it happens, beginning after a position of the log."""
    if not uris:
        await asyncio.Event().wait()
    watched: list[tuple[str, str, str]] = []
    for uri in sorted(uris):
        with suppress(Refused):  # it was there when the watch was asked for
            watched.append((uri, *await _watched(desk, guest, uri)))
    async for line in desk.feed(guest, after=after):
        about = await _about(desk, guest, line)
        for uri, kind, name in watched:
            if name in about.get(kind, ()) or (kind == "agent" and not line.task_id):
                yield uri


async def _watched(desk: Desk, guest: Guest, uri: str) -> tuple[str, str]:
    """Kind and whole id of what is watched."""
    kind, name = parse(uri)
    if kind == "agent":
        return kind, f"@{name.removeprefix('@')}"
    if kind == "trace" and name.startswith("trc_"):
        return kind, name
    shown = await desk.show(guest, name)
    return kind, shown.trace if kind == "trace" else shown.task_id


async def _about(desk: Desk, guest: Guest, line: forms.Line) -> dict[str, tuple[str, ...]]:
    """What an event is about, by kind of resource."""
    if not line.task_id:
        return {"agent": (line.who,)}
    try:
        shown = await desk.show(guest, line.task_id)
    except Refused:
        return {}
    return {"task": (line.task_id,), "trace": (shown.trace,), "agent": (line.who, shown.assignee, shown.holder)}
