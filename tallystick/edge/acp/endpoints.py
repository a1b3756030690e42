"""What a session may reach: hosts with their ports, as a person lists them, and which addresses a name may stand for.

May live here: reading and comparing. Names are resolved, and connections made, in `egress`.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from tallystick.core.model import Value

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\Z")
_NUMBER: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
"""A last label by which the system would read a name as an address, in one of its many spellings."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_CLOSED: Final = (ip_network("168.63.129.16/32"), ip_network("fec0::/10"))
"""A cloud's metadata at a public address; site-local addresses, which the library counts as public."""
_LOWEST: Final = 1024

Address = IPv4Address | IPv6Address


class Endpoint(Value, frozen=True):
    """One host and port. `host` is a name in small letters or an address in its one canonical spelling."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def address(self) -> Address | None:
        """The address that it names itself; None for a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine's own loopback."""
        address = self.address
        return self.host == "localhost" or (address is not None and address.is_loopback)


def endpoint(text: str) -> Endpoint:
    """`host:port` or `[v6]:port`. ValueError, in words for a person, where it is none, or could be read in two ways."""
    host, colon, number = text.strip().rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", number) or not 0 < int(number) < 65536:
        raise ValueError(f"{text!r} has no port; write host:port, such as api.example.com:443")
    return Endpoint(_host(host, text), int(number))


def listed(text: str) -> Endpoint:
    """The same, for a list: a port of the loopback has to be one that can be listened on in a sandbox."""
    found = endpoint(text)
    if found.is_loopback and found.port < _LOWEST:
        raise ValueError(f"{text!r}: a port of the loopback has to be {_LOWEST} or above, to be had in a sandbox")
    return found


def _host(host: str, text: str) -> str:
    name = host.lower().removesuffix(".")
    try:
        if host.startswith("[") and host.endswith("]") and "%" not in host:
            return str(IPv6Address(host[1:-1]))
        if _NUMBER.match(name.rpartition(".")[2]):
            return str(IPv4Address(name))
    except ValueError:
        name = ""
    if not _NAME.match(name):
        raise ValueError(f"{text!r} names no host: a name, an IPv4 address, or an IPv6 address in brackets")
    return name


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to in the end, where it does."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if inner is None and address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def may_be(name: Endpoint, address: Address, allowed: frozenset[Endpoint]) -> bool:
    """Whether a name that is listed may lead to that address: a public one, or one that is listed itself."""
    real = unwrapped(address)
    if Endpoint(str(real), name.port) in allowed:
        return True
    if name.host == "localhost":
        return real.is_loopback
    is_closed = any(real.version == net.version and real in net for net in _CLOSED)
    return real.is_global and not (real.is_multicast or real.is_reserved or is_closed)


def words(allowed: frozenset[Endpoint]) -> str:
    """For a person."""
    return ", ".join(sorted(map(str, allowed))) or "nothing"
