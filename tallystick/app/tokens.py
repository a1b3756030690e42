"""Tokens by which spokes on other machines come in. The record says for whom and for what; what is kept beside it, in
files, is only what the secret is known by. The door asks both, so neither opens it alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.heads import Heads
from tallystick.core.directory import SpokeToken
from tallystick.core.errors import Refused, not_found


class KeptToken(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a token, beside the record. The secret is not: only its digest is."""

    name: str
    """The `spoke_id` that it is for."""
    token_id: str = ""
    """Which token of that name it is of; empty where that cannot be read."""
    kept_at: float = 0.0
    """UTC seconds."""
    fault: str = ""
    """Why it cannot be used; empty where it can."""


class Keyring(Protocol):
    """What is kept of the tokens of spokes of one home."""

    def keep(self, name: str, token_id: str) -> str:
        """Make a secret and keep what it is known by, in place of what was kept under that name. Answers the secret,
        which is kept nowhere. Raises `OSError` where nothing can be kept; then what was there before still is."""
        ...

    def all(self) -> tuple[KeptToken, ...]:
        """All that is kept, by name."""
        ...

    def drop(self, name: str) -> bool:
        """Keep nothing of that name any more, and end the connections that it opened. False where nothing was kept;
        raises `OSError` where it cannot be removed, and ends them all the same."""
        ...


def faults(kept: Iterable[KeptToken], known: Mapping[str, SpokeToken]) -> dict[str, str]:
    """Where what is kept and the record are at odds: by name, why that token opens nothing."""
    found = dict.fromkeys(known, "The record knows it, and its file is gone.")
    for token in kept:
        fault = token.fault or _fault(token, known.get(token.name))
        found[token.name] = fault
    return {name: fault for name, fault in sorted(found.items()) if fault}


def _fault(kept: KeptToken, known: SpokeToken | None) -> str:
    if known is None:
        return "The record does not know it: its file was put there by hand, or is left of one that was taken away."
    return "" if kept.token_id == known.token_id else "Its file is of an older token of that name."


def not_joined(name: str, workspace: str) -> Refused:
    """Nobody in that workspace has the name of a token. Who came in by it is on another machine, and cannot do what a
    person at the host can."""
    joining = shlex.join(("tally", "join", name, "--workspace", workspace))
    return not_found(
        f"There is no @{name} in this workspace.",
        "A spoke makes itself known when it starts; a program that only asks is made known by a person, on the machine "
        f"of the host: {joining}",
    )


class KeyringCheck:
    """A service that runs once: what is kept is compared with the record when a host starts. Where they are at odds,
    diagnostics say so and `tally doctor` shows it; nothing is put right by itself."""

    def __init__(self, keyring: Keyring, heads: Heads, diagnostics: Diagnostics) -> None:
        self._keyring = keyring
        self._heads = heads
        self._diagnostics = diagnostics

    async def start(self) -> None:
        """Compare them. The record has been opened by now."""
        for name, fault in faults(self._keyring.all(), self._heads.committed_directory.tokens).items():
            self._diagnostics.record("token at odds", name=name, detail=fault)

    async def stop(self) -> None:
        """Nothing runs."""
