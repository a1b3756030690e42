"""What is kept of the tokens of spokes: one file for each. See `app.tokens.Keyring`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tallystick.app.tokens import KeptToken
from tallystick.core.errors import Refused
from tallystick.edge.api.http.tokens import NAME, SPOKES, keep_token, kept_token, sync_folder


class SpokeKeyring:
    """Implements `Keyring` over the folder `tokens` of a home. The door looks there itself."""

    dropped: Callable[[str], None] = staticmethod(lambda _name: None)
    """Ends the connections that the token of that name opened."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def keep(self, name: str, token_id: str) -> str:
        """See `Keyring`."""
        return keep_token(self._home, name, token_id)

    def all(self) -> tuple[KeptToken, ...]:
        """See `Keyring`."""
        folder = self._home / SPOKES
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        return tuple(_shown(file) for file in files if NAME.fullmatch(file.name))

    def drop(self, name: str) -> bool:
        """See `Keyring`. What it was is gone from the disk before this answers."""
        folder = self._home / SPOKES
        if NAME.fullmatch(name) is None or not os.path.lexists(folder / name):
            return False
        try:
            (folder / name).unlink()
            sync_folder(folder)
        finally:
            self.dropped(name)
        return True


def _shown(file: Path) -> KeptToken:
    kept_at = file.lstat().st_mtime
    try:
        _, identity = kept_token(file)
    except Refused as refused:
        return KeptToken(name=file.name, kept_at=kept_at, fault=refused.message)
    return KeptToken(name=file.name, token_id=identity.token, kept_at=kept_at)
