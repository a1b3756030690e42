"""Secrets that callers over HTTP present, and whom each stands for.

The person's token lies in a file that only this user can read, where the person's own clients find it. Scoped ones are
known here by their digest alone.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from tallystick.core.errors import ErrorCode, Refused, denied

FILE = "token"
"""Where the person's token is, in the home."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits
_BYTES = 4096


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a token stands for."""

    kind: Literal["person", "agent"]
    name: str = ""
    """The alias of the agent; empty for the host's person."""
    scope: frozenset[str] | None = None
    """The operations that it opens; None: all that are served over HTTP."""


PERSON = Identity(kind="person")
"""The person whose host this is."""


class Tokens:
    """From a presented secret to an identity, in a time that does not depend on how much of it is right."""

    def __init__(self, person: str, scoped: Mapping[str, Identity] | None = None) -> None:
        self._known = {digest(person): PERSON, **(scoped or {})}
        self.cursor_key = hmac.digest(person.encode(), b"tallystick cursors", "sha256")
        """Seals the cursors of event streams: they last as long as the token."""

    def identify(self, presented: str) -> Identity:
        """Whom it stands for. Raises `Refused` `unauthenticated`."""
        given = digest(presented)
        found = [identity for known, identity in self._known.items() if hmac.compare_digest(known, given)]
        if not found:
            raise unknown()
        return found[0]


def digest(secret: str) -> str:
    """What is kept of a scoped secret, and what secrets are compared by."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def unknown() -> Refused:
    """No token, or none that is known."""
    return Refused(
        ErrorCode.UNAUTHENTICATED,
        "The request carries no token that this host knows.",
        "Send `Authorization: Bearer TOKEN`; yours is in the file `token` of TALLY_HOME.",
    )


def load_tokens(home: Path) -> Tokens:
    """The tokens of a home whose lock is held; the person's is made where there is none yet."""
    path = home / FILE
    if not os.path.lexists(path):
        _make(path)
    return Tokens(_read(path))


def _make(path: Path) -> None:
    """A new token, whole on the disk before it has its name."""
    draft = path.with_name(f".{FILE}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secrets.token_urlsafe(32).encode() + b"\n")
        os.fsync(descriptor)
        draft.rename(path)
    finally:
        os.close(descriptor)
        draft.unlink(missing_ok=True)


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be read") from None
    try:
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 != 0o100000 or status.st_uid != os.getuid():
            raise _unusable(path, "it is no regular file of yours")
        if status.st_mode & 0o077:
            raise _unusable(path, f"others may read or change it (mode {status.st_mode & 0o7777:04o})")
        text = os.read(descriptor, _BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if _SECRET.fullmatch(text) is None:
        raise _unusable(path, "it does not hold a token")
    return text


def _unusable(path: Path, why: str) -> Refused:
    return denied(
        f"The token file {path} cannot be trusted: {why}.",
        "Move it out of the home; the host makes a new token when it starts again.",
    )
