"""The tokens of spokes on other machines: a person makes them, looks at them and takes them away."""

from __future__ import annotations

import asyncio

from tallystick.app.desk import forms, reach
from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.app.tokens import SpokeToken
from tallystick.app.views.show import when
from tallystick.core.errors import not_found
from tallystick.core.identity import check_alias
from tallystick.core.mention import nearest
from tallystick.core.offers import check_domain


class Admitting(Ground):
    """add_token, tokens, remove_token."""

    async def add_token(self, guest: Guest, name: str, domains: tuple[str, ...] = ()) -> reach.TokenMade:
        """Make the token of a spoke, for the workspace of who asks. Diagnostics keep who did; the secret goes to the
        caller alone."""
        self.person(guest, "make a token")
        alias = check_alias(name.removeprefix("@"))
        wanted = tuple(dict.fromkeys(check_domain(domain) for domain in domains))
        replaced = alias in {token.name for token in await asyncio.to_thread(self.s.tokens.all)}
        secret = self.s.tokens.add(alias, wanted, guest.workspace)
        self._note(guest, "token made", alias)
        place = self._place_name(guest.workspace)
        return reach.TokenMade(name=alias, domains=wanted, workspace=place, token=secret, replaced=replaced)

    async def tokens(self, guest: Guest) -> reach.Tokens:
        """The tokens of spokes, without what opens the door."""
        self.person(guest, "look at tokens")
        found = await asyncio.to_thread(self.s.tokens.all)
        return reach.Tokens(tokens=tuple(self._shown(token) for token in found))

    async def remove_token(self, guest: Guest, name: str) -> forms.Done:
        """Take the token of a spoke away; its connections are ended. The spoke stays registered."""
        self.person(guest, "take a token away")
        alias = name.removeprefix("@")
        if not self.s.tokens.remove(alias):
            near = nearest(alias, [token.name for token in self.s.tokens.all()])
            remedy = f"Did you mean {' or '.join(near)}?" if near else "Look: tally token list"
            raise not_found(f"There is no token of a spoke {alias[:80]!r}.", remedy)
        self._note(guest, "token removed", alias)
        return forms.Done(detail=f"The token of {alias} opens nothing any more; its connections were ended.")

    def _note(self, guest: Guest, what: str, name: str) -> None:
        self.s.diagnostics.record(what, name=name, uid=guest.facts.uid, door=guest.facts.door)

    def _shown(self, token: SpokeToken) -> reach.TokenShown:
        place = self._place_name(token.workspace)
        return reach.TokenShown(
            name=token.name, domains=token.domains, workspace=place, made=when(token.made_at), fault=token.fault
        )

    def _place_name(self, workspace: str) -> str:
        known = self.directory.workspaces.get(workspace)
        return known.name if known is not None else workspace
