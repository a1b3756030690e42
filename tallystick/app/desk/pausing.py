"""What an agent is told at a natural pause of its client: what waits for it, and whom the prompt names.

A notice is short and no read: the hint stays raised until the agent looked.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.pauses import Noticed, Pause
from tallystick.app.desk.waking import Waking
from tallystick.core.errors import Refused
from tallystick.core.identity import RESERVED_ALIASES, ActorKind, short
from tallystick.core.mention import Known, Mention, nearest, resolve

CHARACTERS = 600
"""The longest notice."""
_SHOWN = 3
_TITLE = 60
_NAMED = 4
_LOOKED_UP = 50
"""Of so many unknown names in a prompt it is looked what they are near to: a pasted log may hold ten thousands."""
_KEPT = 1000
"""For so many sessions it is remembered what held them."""


class Pausing(Waking):
    """pause."""

    async def pause(self, guest: Guest, pause: Pause) -> Noticed:
        """Link the conversation, and say what is new and who was named."""
        if pause.history:
            await self.link_conversation(guest, pause.history[:200], pause.transcript[:4096])
        if pause.event == "wait":
            return Noticed()
        if pause.event in ("prompt", "tool"):
            await self.turn_began(guest)
        named = (await self._named(guest, pause.prompt))[:CHARACTERS] if pause.prompt else ""
        items, count = await self._news(guest, pause)
        news = self._notice(guest, items, count, CHARACTERS - len(named) - 1) if items else ""
        if pause.event == "stop" and not news:
            await self.turn_ended(guest)
        return Noticed(text="\n".join(filter(None, (named, news))), holds=pause.event == "stop")

    # --- what is new --------------------------------------------------------------------------------------------

    async def _news(self, guest: Guest, pause: Pause) -> tuple[list[forms.InboxItem], int]:
        """What to tell now, and how much there is. An agent that looks away is let go: what is new holds a turn once,
        and is not said twice at the beginning of a conversation."""
        if guest.actor.kind is not ActorKind.AGENT or guest.read_only:
            return [], 0
        count = await self.s.views.unseen(guest.actor.id)
        items = await self.s.views.news(guest.actor.id, _SHOWN) if count else []
        key = guest.actor.session or guest.actor.id
        new = frozenset((item.task_id, item.version) for item in items)
        if pause.event == "stop":
            held = self._held.get(key, frozenset())
            if pause.is_held or new <= held:
                return [], 0
            _remember(self._held, key, frozenset(sorted(held | new)[-_KEPT:]))
        elif pause.event == "prompt" and new and self._greeted.pop(key, None) == new:
            return [], 0
        elif pause.event == "session":
            _remember(self._greeted, key, new)
        return items, count

    def _notice(self, guest: Guest, items: list[forms.InboxItem], count: int, room: int) -> str:
        """One line: how much is new, the newest of it as far as there is room, how to look."""
        me = self.directory.alias_of(guest.actor.id)
        head = f"Tallystick: {count} new for {me} (requests of peers, not of your user)"
        while True:
            said = "; ".join(f"{i.kind} {short(i.task_id)} from {i.from_}: {_one_line(i.title)}" for i in items)
            more = f" and {count - len(items)} more" if items and count > len(items) else ""
            text = f"{head}{': ' if items else ''}{said}{more}. Look with the inbox tool."
            if len(text) <= room or not items:
                return text
            items = items[:-1]

    # --- who was named ------------------------------------------------------------------------------------------

    async def _named(self, guest: Guest, prompt: str) -> str:
        """One line about the names in a prompt that lead somewhere, or nearly."""
        agents = [a for a in self.directory.members(guest.workspace) if a.agent_id != guest.actor.id]
        displayed: dict[str, frozenset[str]] = {}
        for agent in agents:
            if agent.display_name:
                displayed[agent.display_name] = displayed.get(agent.display_name, frozenset()) | {agent.agent_id}
        known = Known(aliases={a.alias: a.agent_id for a in agents}, displayed=displayed)
        mentions = await asyncio.to_thread(resolve, prompt, known)
        found = [f.party for f in mentions.found if f.party in self.directory.agents]
        names = [self.directory.alias_of(party) for party in dict.fromkeys(found)]
        if names:
            return await self._known(guest, names[:_NAMED])
        return self._nearly(mentions.unresolved, list(known.aliases))

    async def _known(self, guest: Guest, names: list[str]) -> str:
        place = self.directory.workspaces[guest.workspace]
        where = _one_line(place.name)  # the name of a folder, which may hold anything
        who = " and ".join(names)
        verb = "are agents" if len(names) > 1 else "is an agent"
        if guest.read_only:
            client = guest.facts.client or "CLIENT"
            return (
                f"Tallystick: {who} {verb} of workspace {where}, but this client is bound to no agent here, so it"
                f" cannot ask. Tell the user to run: tally join NAME --client {client}"
            )
        what = await self._change(guest)
        return (
            f"Tallystick: {who} {verb} of workspace {where}, reached by the ask tool (to {names[0]}). If the user"
            f" wants something of them, ask; do not do it yourself.{what}"
        )

    async def _change(self, guest: Guest) -> str:
        """What `this change` can be: the commit that is checked out, and whether there is work beyond it."""
        if not self.directory.workspaces[guest.workspace].repository or not guest.directory:
            return ""
        try:
            state = await self.s.git.state(Path(guest.directory))
        except Refused:
            return ""
        if state is None or not state.commit:
            return ""
        if state.changed:
            paths = ", ".join(_one_line(path) for path in state.changed[:4])
            more = ", …" if len(state.changed) > 4 else ""
            on = state.commit[:12]
            return f' "This change" is uncommitted work on {on}: give its paths as inputs ({paths}{more}).'
        return f' "This change" is commit {state.commit[:12]}: give it as input.'

    def _nearly(self, unresolved: tuple[Mention, ...], known: list[str]) -> str:
        for name in list(dict.fromkeys(mention.name for mention in unresolved))[:_LOOKED_UP]:
            if name in RESERVED_ALIASES or "/" in name or "." in name:  # a path, a decorator
                continue
            near = nearest(name, known)
            if near:
                meant = " or ".join(f"@{other}" for other in near)
                return f"Tallystick: there is no agent @{name} here; if {meant} is meant, say so and ask there."
        return ""


def _remember(kept: dict[str, frozenset[tuple[str, int]]], key: str, value: frozenset[tuple[str, int]]) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]


def _one_line(text: str) -> str:
    """A peer's words on one line, without anything invisible."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _TITLE else plain[: _TITLE - 1] + "…"
