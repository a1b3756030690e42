"""A canary message: how far a real request gets with each agent whose client a person runs, and on whose word.

It costs that client a turn of its model, so it is sent only when a person asks for it.
"""

from __future__ import annotations

import asyncio

from tallystick.app.desk import forms
from tallystick.app.desk.asking import Asking
from tallystick.app.desk.diagnosis import Diagnosis, Finding
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.members import Members
from tallystick.app.desk.reading import Reading
from tallystick.app.desk.working import Working
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused, conflict
from tallystick.core.identity import short
from tallystick.core.model import FINAL_STATES, Promise

_TITLE = "Canary: is anybody there?"
_BODY = "A person proves that messages reach you. Take this task and submit the word `here`; do nothing else."
_WORD = "here"


class Canary(Asking, Reading, Working, Members):
    """send_canaries."""

    async def send_canaries(self, guest: Guest, name: str, seconds: float) -> Diagnosis:
        """A task for the agent of that name, or for each that is bound to a client here; what came of each within a
        time. One that was not taken is canceled again."""
        self.person(guest, "send a canary, which costs a model's turn")
        if name:
            agents = [self.member(guest, name)]
        else:
            agents = [a for a in self.directory.members(guest.workspace) if a.connection in ("client", "wake")]
        if not agents:
            raise conflict("No agent here is bound to a client.", "Bind one: tally join NAME --client CLIENT")
        found = await asyncio.gather(*(self._send(guest, agent, seconds) for agent in agents))
        return Diagnosis(findings=tuple(found))

    async def _send(self, guest: Guest, agent: Agent, seconds: float) -> Finding:
        asked = forms.Ask(
            address=f"@{agent.alias}", title=_TITLE, body=_BODY, expect="answer", parent="none", wake=True
        )
        try:
            receipt = await self.ask(guest, asked)
        except Refused as refusal:
            return _finding(agent, False, "sent a canary", refusal.message, refusal.remedy)
        shown = await self._until_closed(guest, receipt.task_id, seconds)
        did = f"sent a canary ({short(receipt.task_id)}), promised {receipt.promise}, and waited"
        if shown.state == "completed" and shown.result.strip().lower().startswith(_WORD):
            return _finding(agent, True, did, _far(shown), "")
        if shown.state == "submitted":
            await self.cancel(guest, receipt.task_id, "The canary was not answered in time.")
        return _finding(agent, False, did, _far(shown), _fix(agent, receipt.promise, shown))

    async def _until_closed(self, guest: Guest, task: str, seconds: float) -> forms.Shown:
        shown = await self.show(guest, task)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while shown.state not in FINAL_STATES and loop.time() < until:
            shown = await self.wait(guest, task, version=shown.version, seconds=until - loop.time())
        return shown


def _far(shown: forms.Shown) -> str:
    facts = [f"{fact.fact} ({fact.evidence or fact.witness})" for fact in shown.facts]
    return f"{shown.label}: {', '.join(facts)}"


def _fix(agent: Agent, promise: str, shown: forms.Shown) -> str:
    if shown.state != "submitted":
        return f"See what it does: tally show {short(shown.task_id)}"
    if promise in (Promise.LIVE, Promise.NEXT_TURN):
        return f"It was promised {promise} and did not look. See its wakes: tally trace {short(shown.task_id)}"
    client = agent.client or "its client"
    wakes = f", or install what wakes it: tally install {agent.client}" if agent.client else ""
    return f"Only its mailbox was promised: open {client} by hand{wakes}"


def _finding(agent: Agent, ok: bool, did: str, saw: str, fix: str) -> Finding:
    level = "ok" if ok else "warning"
    return Finding(check=f"canary @{agent.alias}", ok=ok, level=level, did=did, saw=saw, fix=fix)
