"""What `tally doctor` says of the coding clients here: whether what is installed is there, whole, and works."""

from __future__ import annotations

import asyncio

from tallystick.app.clients import Surroundings
from tallystick.app.desk.diagnosis import Finding
from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.core.clients import CLIENTS
from tallystick.core.errors import Refused


class Examining(Ground):
    """examine_clients."""

    async def examine_clients(self, guest: Guest) -> list[Finding]:
        """One finding for each client that is found, and the doubts of those that are installed into."""
        environment = guest.facts.environment
        place = Surroundings(home=environment.get("HOME", ""), environment=environment)
        if not place.home.startswith("/"):
            return []
        found: list[Finding] = []
        for client in self.s.installer.names():
            found += await asyncio.to_thread(self._examine, place, client)
        return found

    def _examine(self, place: Surroundings, client: str) -> list[Finding]:
        installer, name = self.s.installer, f"client {client}"
        if installer.look(place, client) is None:
            return []
        fix = f"Install it: tally install {client}"
        try:
            changes = len(installer.plan(place, client, remove=False).changes)
            ours = installer.plan(place, client, remove=True).changes
        except Refused as refusal:
            return [_finding(name, False, "read its files", refusal.message, refusal.remedy)]
        title = CLIENTS[client].title
        if not ours:
            return [_finding(name, True, "looked for our entries in its files", f"{title} is here, not installed into")]
        if changes:
            saw = f"{changes} of its files are not as this version writes them"
            return [_finding(name, False, "compared its files with what would be written", saw, fix)]
        doubts = installer.prove(place, client)
        did = "started its MCP server and its hook, as the client does"
        if not doubts:
            return [_finding(name, True, did, "both answered")]
        return [_finding(name, False, did, doubt.saw, doubt.fix) for doubt in doubts]


def _finding(check: str, ok: bool, did: str, saw: str, fix: str = "") -> Finding:
    return Finding(check=check, ok=ok, level="ok" if ok else "warning", did=did, saw=saw, fix=fix)
