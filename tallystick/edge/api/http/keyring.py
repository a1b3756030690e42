"""The tokens of spokes, as a person makes them and takes them away. See `app.tokens.Keyring`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tallystick.app.tokens import SpokeToken
from tallystick.core.errors import Refused
from tallystick.edge.api.http.tokens import NAME, SPOKES, make_token, spoke_token


class SpokeKeyring:
    """Implements `Keyring` over the folder `tokens` of a home. The doors look there themselves."""

    removed: Callable[[str], None] = staticmethod(lambda _name: None)
    """Ends the connections that the token of that name opened."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def add(self, name: str, domains: tuple[str, ...], workspace: str) -> str:
        """See `Keyring`."""
        secret = make_token(self._home, name, domains, workspace)
        self.removed(name)
        return secret

    def all(self) -> tuple[SpokeToken, ...]:
        """See `Keyring`."""
        folder = self._home / SPOKES
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        return tuple(_shown(file) for file in files if NAME.fullmatch(file.name))

    def remove(self, name: str) -> bool:
        """See `Keyring`. What it was is gone from the disk before this answers."""
        folder = self._home / SPOKES
        if NAME.fullmatch(name) is None or not os.path.lexists(folder / name):
            return False
        (folder / name).unlink()
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.removed(name)
        return True


def _shown(file: Path) -> SpokeToken:
    made_at = file.lstat().st_mtime
    try:
        _, identity = spoke_token(file)
    except Refused as refused:
        return SpokeToken(name=file.name, made_at=made_at, fault=refused.message)
    return SpokeToken(
        name=file.name, domains=identity.domains or (), workspace=identity.workspace, made_at=made_at
    )
