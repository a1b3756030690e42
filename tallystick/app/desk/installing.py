"""Putting Tallystick into coding clients: look, show, and on a person's word do it."""

from __future__ import annotations

import asyncio
import difflib

import msgspec

from tallystick.app.clients import FileChange, InstallPlan, Surroundings
from tallystick.app.desk import forms, installed
from tallystick.app.desk.ground import digest_of
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.placing import Placing
from tallystick.core.clients import CLIENTS
from tallystick.core.errors import Refused, conflict, denied, invalid, not_found
from tallystick.core.identity import ActorKind

_NO_NEWLINE = "\\ No newline at end of file"


_Planned = tuple[installed.Installation, list[InstallPlan]]


class Installing(Placing):
    """plan_install, install, snippet."""

    async def plan_install(self, guest: Guest, form: installed.Install) -> installed.Installation:
        """What is here and what would change. Changes nothing. Not for agents: it shows what stands in a person's own
        files, and in whichever a link leads to from a home that the caller names."""
        if guest.actor.kind is not ActorKind.PERSON:
            raise denied("What is installed into coding clients is for persons.", "Ask the person you work for.")
        shown, _ = await self._planned(guest, form)
        return shown

    async def install(
        self, guest: Guest, form: installed.Install, digest: str, agent: str = ""
    ) -> installed.Installation:
        """Do what was shown under that digest; bind `agent` to the one client, if one is named."""
        self.person(guest, "change the configuration of a coding client")
        shown, plans = await self._planned(guest, form)
        _check_bound(agent, form, shown)
        if shown.digest != digest:
            raise conflict("A file was changed since this was shown. Nothing was written.", "Repeat the command.")
        for plan in plans:
            await asyncio.to_thread(self.s.installer.apply, plan)
        bound = await self._bind(guest, agent, plans[0].client if plans else form.clients[0]) if agent else ""
        return msgspec.structs.replace(shown, applied=True, agent=bound)

    async def _bind(self, guest: Guest, agent: str, client: str) -> str:
        joined = await self.join(guest, forms.Join(name=agent, client=client))
        return joined.name

    async def snippet(self, guest: Guest, client: str) -> installed.Snippet:  # noqa: ARG002
        """What to paste into a client that cannot be installed into."""
        return installed.Snippet(client=client, text=self.s.installer.snippet(client))

    async def _planned(self, guest: Guest, form: installed.Install) -> _Planned:
        place = self._surroundings(guest, form)
        shown: list[installed.ClientShown] = []
        plans: list[InstallPlan] = []
        for client in self._wanted(form):
            one, plan = await asyncio.to_thread(self._one, place, client, form)
            one = msgspec.structs.replace(one, agent=self._agent_of(guest, client))
            if one.found or form.clients or one.files:
                shown.append(one)
            if plan is not None and plan.changes and (one.found or form.clients or form.remove):
                plans.append(plan)
        digest = digest_of(form, [plan.changes for plan in plans])
        return (
            installed.Installation(
                clients=tuple(shown),
                scope=place.project or "user",
                removal=form.remove,
                applied=False,
                digest=digest,
            ),
            plans,
        )

    def _agent_of(self, guest: Guest, client: str) -> str:
        members = self.directory.members(guest.workspace)
        return next((f"@{a.alias}" for a in members if a.client == client and a.connection == "client"), "")

    def _wanted(self, form: installed.Install) -> tuple[str, ...]:
        known = self.s.installer.names()
        strange = next((name for name in form.clients if name not in known), "")
        if strange:
            raise not_found(
                f"{strange!r} is no client that can be installed into; known are {', '.join(known)}.",
                "For any other one: tally install --print, and paste what it shows.",
            )
        return tuple(dict.fromkeys(form.clients)) or known

    def _surroundings(self, guest: Guest, form: installed.Install) -> Surroundings:
        environment = guest.facts.environment
        root = self.directory.workspaces[guest.workspace].root if form.project else ""
        if form.project and not root:
            raise invalid("There is no workspace here to write files into.", "Go to a repository, or give --workspace.")
        return Surroundings(home=environment.get("HOME", ""), environment=environment, project=root, allow=form.allow)

    def _one(
        self, place: Surroundings, client: str, form: installed.Install
    ) -> tuple[installed.ClientShown, InstallPlan | None]:
        installer = self.s.installer
        found = installer.look(place, client)
        plan, refused = None, None
        if found or form.clients or form.remove:
            try:
                plan = installer.plan(place, client, remove=form.remove)
            except Refused as error:
                if form.clients:
                    raise
                refused = error
        shown = installed.ClientShown(
            client=client,
            title=CLIENTS[client].title,
            found=found is not None,
            version=found.version if found else "",
            program=found.program if found else "",
            config=found.config if found else "",
            files=tuple(map(_file, plan.changes)) if plan else (),
            notes=plan.notes if plan else (),
            refused=refused.message if refused else "",
            remedy=refused.remedy if refused else "",
        )
        return shown, plan


def _check_bound(agent: str, form: installed.Install, shown: installed.Installation) -> None:
    if agent and (form.remove or len(form.clients) != 1 or len(shown.clients) != 1):
        raise invalid("An agent is bound to one client.", "Name it: tally install CLIENT --as NAME")


def _file(change: FileChange) -> installed.FileShown:
    if change.after is None:
        kind = "delete"
    else:
        kind = "create" if change.before is None else "restore" if change.is_restored else "change"
    return installed.FileShown(path=change.path, change=kind, diff=_diff(change))


def _diff(change: FileChange) -> str:
    """Every line that goes or comes, with the lines around it. Bytes that are no text are shown escaped."""
    before, after = (_lines(data) for data in (change.before, change.after))
    old, new = ("/dev/null" if data is None else change.path for data in (change.before, change.after))
    return "\n".join(difflib.unified_diff(before, after, old, new, lineterm=""))


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "backslashreplace")
    lines = text.split("\n")
    if lines[-1]:
        return [*lines, _NO_NEWLINE] if data else []
    return lines[:-1]
