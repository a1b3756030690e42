"""The tokens of spokes on other machines: a person makes them, looks at them and takes them away.

The record comes first, then the file beside it: whatever happens between the two, a token that the record does not have
opens nothing, and one without its file neither.
"""

from __future__ import annotations

import asyncio
import shlex

from tallystick.app.desk import forms, reach
from tallystick.app.desk.diagnosis import Finding
from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.app.tokens import KeptToken, faults
from tallystick.app.views.show import when
from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import SpokeToken
from tallystick.core.errors import ErrorCode, Refused, not_found, unavailable
from tallystick.core.identity import HOST, Actor, ActorKind, Prefix
from tallystick.core.mention import nearest


class Admitting(Ground):
    """add_token, tokens, remove_token, examine_tokens."""

    async def add_token(self, guest: Guest, name: str, domains: tuple[str, ...] = ()) -> reach.TokenMade:
        """Make the token of a spoke, for the workspace of who asks. It is recorded by whom, never by what it is known;
        the secret goes to the caller alone."""
        actor = self.person(guest, "make a token")
        alias = name.removeprefix("@")
        token_id = self.s.new_id(Prefix.TOKEN)
        command = cmd.MakeSpokeToken(workspace_id=guest.workspace, token_id=token_id, name=alias, domains=domains)
        async with self._admitting:  # files are written in the order of the record
            recorded = (await self.s.executor.execute(command, actor, workspace=guest.workspace)).recorded
            assert recorded is not None  # noqa: S101 - a token that is made is always an event
            assert isinstance(recorded.event, ev.SpokeTokenMade)  # noqa: S101
            try:
                secret = self.s.tokens.keep(alias, token_id)
            except OSError as error:
                raise await self._taken_back(recorded, recorded.event, error) from None
        made = recorded.event
        place = self._place_name(guest.workspace)
        known = self.directory.agents.get(self.directory.named(alias) or "")
        return reach.TokenMade(
            name=alias,
            domains=made.domains,
            workspace=place,
            token=secret,
            replaced=made.replaced,
            known=known is not None and guest.workspace in known.workspaces,
        )

    async def _taken_back(self, recorded: ev.Recorded, made: ev.SpokeTokenMade, error: OSError) -> Refused:
        """A token without its file opens nothing: the record says that, too."""
        name, again = made.name, self._again(made.name)
        why = f"its file could not be written: {error.strerror or error}"
        command = cmd.RemoveSpokeToken(workspace_id=recorded.stream, name=name, detail=why)
        await self.s.executor.execute(command, HOST, workspace=recorded.stream, cause=recorded.position)
        return unavailable(
            f"{name} has no token: {why}. One that it had opens nothing any more.",
            f"See to the folder {self.s.home}/tokens and its disk, then make it again: {again}",
        )

    async def tokens(self, guest: Guest) -> reach.Tokens:
        """The tokens of spokes, without what opens the door."""
        self.person(guest, "look at tokens")
        kept = {token.name: token for token in await asyncio.to_thread(self.s.tokens.all)}
        known = self.directory.tokens
        wrong = faults(kept.values(), known)
        names = sorted({*known, *kept})
        return reach.Tokens(
            tokens=tuple(self._shown(name, known.get(name), kept.get(name), wrong.get(name, "")) for name in names)
        )

    async def remove_token(self, guest: Guest, name: str) -> forms.Done:
        """Take the token of a spoke away; its connections are ended. The spoke stays registered."""
        actor = self.person(guest, "take a token away")
        alias = name.removeprefix("@")
        async with self._admitting:
            known = self.directory.tokens.get(alias)
            unrecorded = await self._record_removal(known, actor) if known is not None else None
            was_kept = self._drop(alias)
        if unrecorded is not None:
            raise unavailable(
                f"The log could not be written and still has the token of {alias}; without its file, which is gone, it "
                "opens nothing, and its connections were ended.",
                f"{unrecorded.remedy} Then once more: tally token remove {alias}",
            )
        if known is not None:
            return forms.Done(detail=f"The token of {alias} opens nothing any more; its connections were ended.")
        if not was_kept:
            raise self._no_token(alias)
        self.s.diagnostics.record("token file removed", name=alias, uid=guest.facts.uid, door=guest.facts.door)
        return forms.Done(detail=f"The record knew no token of {alias}, so it opened nothing; its file is gone.")

    async def _record_removal(self, known: SpokeToken, actor: Actor) -> Refused | None:
        """Where the log takes nothing, the refusal: the door can be shut by the file alone, and has to be."""
        command = cmd.RemoveSpokeToken(workspace_id=known.workspace, name=known.name)
        try:
            await self.s.executor.execute(command, actor, workspace=known.workspace)
        except Refused as refused:
            if refused.code is not ErrorCode.UNAVAILABLE:
                raise
            return refused
        return None

    def _drop(self, name: str) -> bool:
        try:
            return self.s.tokens.drop(name)
        except OSError as error:
            raise unavailable(
                f"The token of {name} opens nothing any more; its file could not be removed: "
                f"{error.strerror or error}.",
                f"See to the folder {self.s.home}/tokens, then once more: tally token remove {name}",
            ) from None

    def _no_token(self, alias: str) -> Refused:
        near = nearest(alias, [*self.directory.tokens, *(token.name for token in self.s.tokens.all())])
        remedy = f"Did you mean {' or '.join(dict.fromkeys(near))}?" if near else "Look: tally token list"
        return not_found(f"There is no token of a spoke {alias[:80]!r}.", remedy)

    async def examine_tokens(self, guest: Guest) -> list[Finding]:
        """For doctor: tokens where what is kept and the record are at odds, for persons; one line where all is well."""
        if guest.actor.kind is not ActorKind.PERSON:
            return []
        kept = await asyncio.to_thread(self.s.tokens.all)
        wrong = faults(kept, self.directory.tokens)
        did = "compared the files of tokens with the record"
        if not wrong:
            saw = f"{len(kept)} of spokes, each as recorded"
            return [Finding(check="tokens", ok=True, level="ok", did=did, saw=saw)] if kept else []
        return [
            Finding(
                check=f"token {name}",
                ok=False,
                level="warning",
                did=did,
                saw=f"{fault} It opens nothing",
                fix=f"Add it again: {self._again(name)}; or take it away: tally token remove {name}",
            )
            for name, fault in wrong.items()
        ]

    def _again(self, name: str) -> str:
        """The command that makes a token as the record has it."""
        known = self.directory.tokens.get(name)
        words = ["tally", "token", "add", name]
        if known is not None:
            words += [word for domain in known.domains for word in ("--domain", domain)]
            words += ["--workspace", self._place_name(known.workspace)]
        return shlex.join(words)

    def _shown(self, name: str, known: SpokeToken | None, kept: KeptToken | None, fault: str) -> reach.TokenShown:
        made_at = known.made_at if known is not None else kept.kept_at if kept is not None else 0.0
        return reach.TokenShown(
            name=name,
            domains=known.domains if known is not None else (),
            workspace=self._place_name(known.workspace) if known is not None else "",
            made=when(made_at),
            fault=fault,
        )

    def _place_name(self, workspace: str) -> str:
        known = self.directory.workspaces.get(workspace)
        return known.name if known is not None else workspace
