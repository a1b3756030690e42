"""The port `Blobs` over whatever keeps bytes by digest; its faults become refusals."""

from __future__ import annotations

from typing import Protocol

from tallystick.core.errors import Refused, not_found, unavailable


class Keeper(Protocol):
    """A content-addressed store."""

    def put(self, content: bytes) -> str: ...
    def get(self, digest: str) -> bytes | None: ...
    def is_erased(self, digest: str) -> bool: ...


class KeptBlobs:
    """Implements `app.ports.Blobs`."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def put(self, data: bytes) -> str:
        """Keep the bytes durably; their sha256."""
        try:
            return self._keeper.put(data)
        except OSError as error:
            raise unavailable(
                f"Nothing was kept: {error.strerror}.", "Free some disk space, then try again."
            ) from error

    def get(self, sha256: str) -> bytes:
        """The bytes, verified on read."""
        try:
            found = self._keeper.get(sha256)
        except OSError as error:
            raise unavailable(f"It cannot be read: {error.strerror}.", "Look at the disk, then try again.") from error
        except Exception as error:
            raise self._damaged(sha256) from error
        if found is None:
            raise self._absent(sha256)
        return found

    def has(self, sha256: str) -> bool:
        """Whether they are here and whole."""
        try:
            self.get(sha256)
        except Refused:
            return False
        return True

    def _absent(self, sha256: str) -> Refused:
        what = "was erased" if self._keeper.is_erased(sha256) else "is not here"
        return not_found(f"The content {sha256[:12]} {what}.", "Hand it over again.")

    def _damaged(self, sha256: str) -> Refused:
        return unavailable(f"The content {sha256[:12]} is damaged on disk.", "Look at the disk; hand it over again.")
