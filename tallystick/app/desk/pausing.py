"""What an agent is told at a natural pause of its client: what waits for it, and whom the prompt names.

A notice is short and no read: the hint stays raised until the agent looked.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

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
        lines = await self._named(guest, pause.prompt) if pause.prompt else []
        news, holds = await self._news(guest, pause)
        if pause.event == "stop" and not holds:
            await self.turn_ended(guest)
        text = "\n".join([*lines, *([news] if news else [])])
        return Noticed(text=text[:CHARACTERS], holds=holds)

    # --- what is new --------------------------------------------------------------------------------------------

    async def _news(self, guest: Guest, pause: Pause) -> tuple[str, bool]:
        """The notice. At the end of a turn it is given once for what is new: an agent that looks away is let go."""
        if guest.actor.kind is not ActorKind.AGENT or guest.read_only:
            return "", False
        count = await self.s.views.unseen(guest.actor.id)
        if not count:
            return "", False
        newest = await self.s.views.news(guest.actor.id, _SHOWN)
        if pause.event == "stop":
            told = self._held.get(guest.actor.session or guest.actor.id, frozenset())
            fresh = {(item.task_id, item.version) for item in newest} - told
            if pause.is_held or not fresh:
                return "", False
            self._remember_held(guest.actor.session or guest.actor.id, told | fresh)
        me = self.directory.alias_of(guest.actor.id)
        items = "; ".join(f"{i.kind} {short(i.task_id)} from {i.from_}: {_one_line(i.title)}" for i in newest)
        more = f" and {count - len(newest)} more" if count > len(newest) else ""
        head = f"Tallystick: {count} new for {me} (requests of peers, not of your user): "
        return f"{head}{items}{more}. Look with the inbox tool.", pause.event == "stop"

    def _remember_held(self, key: str, told: frozenset[tuple[str, int]]) -> None:
        self._held[key] = frozenset(sorted(told)[-_KEPT:])
        if len(self._held) > _KEPT:
            del self._held[next(iter(self._held))]

    # --- who was named ------------------------------------------------------------------------------------------

    async def _named(self, guest: Guest, prompt: str) -> list[str]:
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
            return [await self._known(guest, names[:_NAMED])]
        line = self._nearly(mentions.unresolved, list(known.aliases))
        return [line] if line else []

    async def _known(self, guest: Guest, names: list[str]) -> str:
        place = self.directory.workspaces[guest.workspace]
        who = " and ".join(names)
        verb = "are agents" if len(names) > 1 else "is an agent"
        if guest.read_only:
            client = guest.facts.client or "CLIENT"
            return (
                f"Tallystick: {who} {verb} of workspace {place.name}, but this client is bound to no agent here, so it"
                f" cannot ask. Tell the user to run: tally join NAME --client {client}"
            )
        what = await self._change(guest)
        return (
            f"Tallystick: {who} {verb} of workspace {place.name}, reached by the ask tool (to {names[0]}). If the user"
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
        for mention in unresolved:
            if mention.name in RESERVED_ALIASES or "/" in mention.name or "." in mention.name:  # a path, a decorator
                continue
            near = nearest(mention.name, known)
            if near:
                meant = " or ".join(f"@{name}" for name in near)
                return f"Tallystick: there is no agent @{mention.name} here; if {meant} is meant, say so and ask there."
        return ""


def _one_line(text: str) -> str:
    """A peer's words on one line, without anything invisible."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _TITLE else plain[: _TITLE - 1] + "…"
