"""Secrets that callers over HTTP present, and whom each stands for.

The person's token lies in a file that only this user can read, where the person's own clients find it. Scoped ones are
known here by their digest alone; what they open is for the record to say.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from tallystick.core.directory import SpokeToken
from tallystick.core.errors import ErrorCode, Refused, denied, invalid
from tallystick.core.identity import Prefix, is_id

FILE = "token"
"""Where the person's token is, in the home."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")  # 256 bits
_BYTES = 4096
_SETTLES = 1_000_000_000
"""Nanoseconds after which the time of a folder tells every change apart."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a token stands for."""

    kind: Literal["person", "agent"]
    name: str = ""
    """The alias of the agent; empty for the host's person."""
    scope: frozenset[str] | None = None
    """The operations that it opens; None: all that are served over HTTP."""
    domains: tuple[str, ...] | None = None
    """The domains that it is registered for; None: those of whoever it stands for."""
    workspace: str = ""
    """The id of the one workspace that it opens; empty: all."""
    token: str = ""
    """The id of the token of a spoke, by which the record knows it; empty for every other identity."""


PERSON = Identity(kind="person")
"""The person whose host this is."""

SPOKES = "tokens"
"""Where the tokens of spokes are, in the home: one file for each, by its `spoke_id`."""
OPENED = frozenset({"reach/v1", "reach/v1/frames"})
"""What the token of a spoke opens."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
"""Of a spoke, and so of the file of its token."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of the token of a spoke."""

    sha256: str
    token_id: str


Known = Callable[[str], SpokeToken | None]
"""The token of a spoke of that name, as the record has it."""


def _none_known(_name: str) -> SpokeToken | None:
    return None


class Tokens:
    """From a presented secret to an identity, in a time that does not depend on how much of it is right."""

    def __init__(
        self,
        person: str,
        scoped: Mapping[str, Identity] | None = None,
        look: Callable[[], Mapping[str, Identity] | None] = lambda: None,
        known: Known = _none_known,
    ) -> None:
        """`scoped` by digest; `look` reads them again if they have changed since, else answers None. `known` is asked
        for what the token of a spoke opens: without a record none does."""
        self._person = digest(person)
        self._scoped = scoped or {}
        self._look = look
        self._known = known
        self.cursor_key = hmac.digest(person.encode(), b"tallystick cursors", "sha256")
        """Seals the cursors of event streams: they last as long as the token."""

    def identify(self, presented: str) -> Identity:
        """Whom it stands for. Raises `Refused` `unauthenticated`."""
        changed = self._look()
        if changed is not None:
            self._scoped = changed
        given = digest(presented)
        known = {self._person: PERSON, **self._scoped}
        found = [identity for secret, identity in known.items() if hmac.compare_digest(secret, given)]
        if not found:
            raise unknown()
        return self._as_recorded(found[0]) if found[0].token else found[0]

    def _as_recorded(self, identity: Identity) -> Identity:
        """What the record says of the token whose secret was presented, and nothing that a file says."""
        known = self._known(identity.name)
        if known is None or known.token_id != identity.token:
            raise unknown()
        return msgspec.structs.replace(identity, domains=known.domains, workspace=known.workspace)


def digest(secret: str) -> str:
    """What is kept of a scoped secret, and what secrets are compared by."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def unknown() -> Refused:
    """No token, or none that is known."""
    return Refused(
        ErrorCode.UNAUTHENTICATED,
        "The request carries no token that this host knows.",
        "Send `Authorization: Bearer TOKEN`. The person's own is in the file `token` of TALLY_HOME; for a spoke the "
        "person makes one: tally token add NAME",
    )


def load_tokens(
    home: Path, noted: Callable[[Refused], object] = lambda _refused: None, known: Known = _none_known
) -> Tokens:
    """The tokens of a home whose lock is held; the person's is made where there is none yet."""
    path = home / FILE
    if not os.path.lexists(path):
        _write(path, secrets.token_urlsafe(32).encode())
    look = SpokeTokens(home / SPOKES, noted)
    return Tokens(_read(path), look=look, known=known)


class SpokeTokens:
    """The tokens of spokes, read again when one was made or taken away: no host is started anew for them."""

    def __init__(self, folder: Path, noted: Callable[[Refused], object]) -> None:
        """`noted` is told of files that cannot be trusted."""
        self._folder = folder
        self._noted = noted
        self._seen: tuple[int, ...] = ()

    def __call__(self) -> Mapping[str, Identity] | None:
        """By digest; None where nothing has changed since the last look."""
        try:
            status = self._folder.stat()
        except OSError:
            status = None
        seen = (status.st_mtime_ns, status.st_ino) if status is not None else (0,)
        if seen == self._seen:
            return None
        # What changed a moment ago may change again within the same tick of the file system's clock.
        is_fresh = status is not None and abs(time.time_ns() - status.st_mtime_ns) < _SETTLES
        self._seen = () if is_fresh else seen
        files = sorted(self._folder.iterdir()) if status is not None else []
        return dict(filter(None, (self._usable(file) for file in files if NAME.fullmatch(file.name))))

    def _usable(self, file: Path) -> tuple[str, Identity] | None:
        """One that cannot be trusted opens nothing, and locks nobody else out."""
        try:
            return kept_token(file)
        except Refused as refused:
            self._noted(refused)
            return None


def keep_token(home: Path, name: str, token_id: str) -> str:
    """Keep what a new secret of a spoke is known by, in place of an older one: the secret, which is kept nowhere.
    Refused as `invalid` for a name that no file may have; raises `OSError`, and then nothing has changed."""
    if NAME.fullmatch(name) is None:
        raise invalid(f"{name[:80]!r} is not valid as spoke_id.", "Use 1 to 63 characters from a-z, 0-9 and '-'.")
    secret = secrets.token_urlsafe(32)
    folder = home / SPOKES
    folder.mkdir(mode=0o700, exist_ok=True)
    _write(folder / name, msgspec.json.encode(_Kept(digest(secret), token_id)))
    return secret


def kept_token(path: Path) -> tuple[str, Identity]:
    """By its digest, which token of which spoke a file is of; what that opens is not in it. Raises `Refused` `denied`
    for a file that cannot be trusted."""
    try:
        kept = msgspec.json.decode(_text(path), type=_Kept)
    except msgspec.DecodeError:
        raise _unusable(path, "it does not hold the digest of a token") from None
    if _DIGEST.fullmatch(kept.sha256) is None or not is_id(kept.token_id, Prefix.TOKEN):
        raise _unusable(path, "it does not hold the digest of a token")
    return kept.sha256, Identity(kind="agent", name=path.name, scope=OPENED, domains=(), token=kept.token_id)


def _write(path: Path, data: bytes) -> None:
    """A file that only this user can read, whole on the disk before it has its name."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data + b"\n")
        os.fsync(descriptor)
        draft.rename(path)
    finally:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """What was put there, or taken away, is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    text = _text(path)
    if _SECRET.fullmatch(text) is None:
        raise _unusable(path, "it does not hold a token")
    return text


def _text(path: Path) -> str:
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
        return os.read(descriptor, _BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)


def _unusable(path: Path, why: str) -> Refused:
    return denied(
        f"The token file {path} cannot be trusted: {why}.",
        "Move it out of the home; the host makes a new token when it starts again.",
    )
