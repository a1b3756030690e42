"""Where the host may post to: an address that a spoke names is looked at before anything is sent there.

Only https, and only to addresses of the public internet; a person allows others by their very origin in `config.toml`.
What was looked at is what is connected to: the address is pinned, so that a name which leads elsewhere a moment later
leads nowhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from tallystick.core.errors import Refused, denied, invalid

_PORTS: Final = {"http": 80, "https": 443}
_RESERVED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "168.63.129.16/32",  # a cloud's metadata at a public address
        "64:ff9b::/96",  # IPv4 behind a translator: whatever lies there
        "64:ff9b:1::/48",
        "2002::/16",  # 6to4 and Teredo carry an IPv4 address
        "2001::/32",
        "192.88.99.0/24",
        "fec0::/10",  # site-local, which the library counts as public
    )
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]


class Target(NamedTuple):
    """An address that may be posted to."""

    url: str
    """With the number of the address in place of the name."""
    host: str
    """What the Host header says."""
    name: str
    """What the certificate must be of."""


class Guard:
    """Looks at addresses. `allowed`: origins (`scheme://host:port`) that a person allowed, whatever they lead to."""

    def __init__(self, allowed: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._allowed = frozenset(_origin(_split(url)) for url in allowed)
        self._resolve = resolve or _look_up

    async def target(self, url: str) -> Target:
        """Where exactly to connect for a URL. Raises `Refused`: `invalid` for none that can be used, else `denied`."""
        parts = _split(url)
        origin, name = _origin(parts), parts.hostname or ""
        port = parts.port or _PORTS[parts.scheme]
        is_allowed = origin in self._allowed
        if parts.scheme != "https" and not is_allowed:
            raise denied(f"The endpoint {origin} is not https.", _remedy(origin))
        found = [ipaddress.ip_address(text) for text in await self._addresses(name, port)]
        closed = next((address for address in found if not is_public(address)), None)
        if closed is not None and not is_allowed:
            raise denied(f"The endpoint {origin} leads to {closed}, which is no public address.", _remedy(origin))
        number = f"[{found[0]}]" if found[0].version == 6 else str(found[0])
        pinned = parts._replace(netloc=f"{number}:{port}").geturl()
        return Target(pinned, parts.netloc, name)

    async def _addresses(self, name: str, port: int) -> list[str]:
        try:
            found = await self._resolve(name, port)
        except OSError:
            found = []
        if not found:
            raise invalid(f"The name {name} of the endpoint leads nowhere.", "Name a host that can be found.")
        return found


def is_public(address: Address) -> bool:
    """Whether it is an address of the public internet, and none that stands for another."""
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        return is_public(mapped)
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    return not any(address.version == net.version and address in net for net in _RESERVED)


async def _look_up(name: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_url(url) from None
    whole = parts.scheme in _PORTS and parts.hostname and not parts.fragment and port != 0
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if not whole or not plain or parts.username is not None or parts.password is not None:
        raise _no_url(url)
    return parts


def _origin(parts: SplitResult) -> str:
    host = parts.hostname or ""
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}:{parts.port or _PORTS[parts.scheme]}"


def _no_url(url: str) -> Refused:
    return invalid(
        f"The endpoint {url[:100]!r} is no plain http or https URL.", "Name one without user, password and fragment."
    )


def _remedy(origin: str) -> str:
    return f'A person allows this very address in config.toml: callbacks = ["{origin}"], and starts the host again.'
