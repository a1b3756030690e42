"""The address of a host that listens, and the token that opens it."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from tallystick import wire
from tallystick.sdk.errors import ReachRefused, invalid

_TOKEN_BYTES = 4096


@dataclass(frozen=True)
class Address:
    """Where a host listens. `token` opens it; never shown."""

    is_tls: bool
    name: str
    """Host name or address, without brackets."""
    port: int
    token: str

    def __repr__(self) -> str:
        return f"<Address {self.origin}>"

    @property
    def origin(self) -> str:
        """`http(s)://HOST:PORT`."""
        return f"http{'s' if self.is_tls else ''}://{self._place}"

    @property
    def socket(self) -> str:
        """`ws(s)://HOST:PORT`."""
        return f"ws{'s' if self.is_tls else ''}://{self._place}"

    @property
    def _place(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """How the certificate is checked: by the authorities of this machine, or those that the environment variable
        SSL_CERT_FILE names."""
        return ssl.create_default_context() if self.is_tls else None


def address_of(hub_url: str, token: str | None) -> Address:
    """The address that a `hub_url` names. For a loopback address the token of this user's home is found where none is
    given. Raises `ReachRefused`: `invalid` for what is no such URL, `unauthenticated` where there is no token,
    `denied` where it would travel in the clear, or others may read its file."""
    parts = urlsplit(hub_url if isinstance(hub_url, str) else "")
    try:
        port = parts.port
    except ValueError:
        port = -1
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or not plain:
        raise invalid(
            "The hub_url is no address of a host.",
            'Write "https://HOST[:PORT]" or "http://127.0.0.1:PORT", without path, user or token.',
        )
    is_tls = parts.scheme == "https"
    is_here = _is_loopback(parts.hostname)
    if not is_tls and not is_here:
        raise ReachRefused(
            "denied",
            f"The token would travel to {parts.hostname} in the clear.",
            "Use https:// there (`tls_cert` and `tls_key` in the host's settings), or a tunnel to 127.0.0.1.",
        )
    found = token or (_own_token() if is_here else "")
    if not found:
        raise ReachRefused(
            "unauthenticated",
            f"There is no token for {parts.hostname}.",
            "Give one by `token=`; a person makes it.",
        )
    return Address(is_tls, parts.hostname, port or (443 if is_tls else 80), found)


def query(sender: str, workspace: str) -> str:
    """The query that says as whom and where; empty for the usual."""
    given = {key: value for key, value in (("as", sender), ("workspace", workspace)) if value}
    return f"?{urlencode(given)}" if given else ""


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.lower() == "localhost"


def _own_token() -> str:
    """The person's token in the home of this user; empty where there is none yet."""
    path = f"{wire.home()}/token"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ReachRefused("denied", f"The token file {path} cannot be read: {error.strerror}.", "Let this user read it.") from None
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise ReachRefused(
                "denied", f"The token file {path} is not yours alone.", "Take the rights of others away: chmod 600."
            )
        return os.read(descriptor, _TOKEN_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
