"""Tokens by which spokes on other machines come in: the port that the desk makes, shows and takes them away by."""

from __future__ import annotations

from typing import Protocol

import msgspec


class SpokeToken(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token. The secret is not: only its digest is kept."""

    name: str
    """The `spoke_id` that it is for."""
    domains: tuple[str, ...] = ()
    workspace: str = ""
    """The id of the one workspace that it opens; empty: all."""
    made_at: float = 0.0
    """UTC seconds."""
    fault: str = ""
    """Why it opens nothing; empty where it does."""


class Keyring(Protocol):
    """The tokens of spokes of one home."""

    def add(self, name: str, domains: tuple[str, ...], workspace: str) -> str:
        """Make a token for one workspace, by its id, and answer its secret, which is kept nowhere. An older one of that
        name opens nothing any more, and the connections that it opened are ended. Refused as `invalid` for a name that
        no spoke can have."""
        ...

    def all(self) -> tuple[SpokeToken, ...]:
        """Every token, by name."""
        ...

    def remove(self, name: str) -> bool:
        """Take a token away and end the connections that it opened. False where there is none."""
        ...
