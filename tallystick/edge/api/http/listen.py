"""Where a host listens: from ADDRESS:PORT to a bound socket, and the names under which it may be asked for."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
from pathlib import Path

import msgspec

from tallystick.core.errors import Refused, conflict, denied, invalid

BACKLOG = 512
"""Connections that may wait to be accepted."""


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for."""

    address: str
    """ADDRESS:PORT, an IPv6 address in brackets; port 0: any that is free."""
    certificate: str = ""
    key: str = ""
    """PEM files; given, everything is TLS."""


class Site(msgspec.Struct, frozen=True):
    """How this host is named from outside."""

    url: str
    hosts: frozenset[str]
    """What a Host header may say."""
    origins: frozenset[str]
    """What an Origin header may say."""


def bind(listen: Listen) -> tuple[socket.socket, Site]:
    """A bound socket that does not listen yet. Raises `Refused`."""
    name, port = _split(listen.address)
    host = "127.0.0.1" if name == "localhost" else name
    is_local = _is_loopback(host)
    if not is_local and not listen.certificate:
        raise denied(
            f"{name} is not an address of this machine alone, so the host listens there with TLS only.",
            "Give --tls-cert and --tls-key (or tls_cert and tls_key in config.toml), or listen at 127.0.0.1.",
        )
    sock = _bind(host, port, listen.address)
    return sock, _site(name, sock.getsockname(), is_local=is_local, secure=bool(listen.certificate))


def tls(listen: Listen) -> ssl.SSLContext | None:
    """The TLS of a listener, if it has one. Raises `Refused`."""
    if bool(listen.certificate) != bool(listen.key):
        raise invalid("TLS needs a certificate and a key.", "Give both --tls-cert and --tls-key.")
    if not listen.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(Path(listen.certificate), Path(listen.key))
    except (OSError, ssl.SSLError) as error:
        raise invalid(
            f"The TLS certificate {listen.certificate} and key {listen.key} cannot be used: {error.strerror or error}.",
            "Name PEM files of a certificate and of its unencrypted key.",
        ) from None
    return context


def _split(address: str) -> tuple[str, int]:
    name, separator, port = address.rpartition(":")
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    is_port = port.isascii() and port.isdecimal() and int(port) < 65536
    if not bare or not separator or not is_port or not bare.isascii() or (":" in bare and bare == name):
        raise invalid(f"{address!r} is not ADDRESS:PORT.", "Write it like 127.0.0.1:8765 or [::1]:8765.")
    return bare.lower(), int(port)


def _is_loopback(host: str) -> bool:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    if found.is_unspecified:
        raise invalid(
            f"{host} means every address, and a request could then name any host.",
            "Name the one address or host name under which this host is to be reached.",
        )
    return found.is_loopback


def _bind(host: str, port: int, asked: str) -> socket.socket:
    try:
        family, kind, number, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise invalid(f"{host} is no address or name that can be found.", "Name an address of this machine.") from None
    sock = socket.socket(family, kind, number)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _not_bound(asked, error) from None
    return sock


def _not_bound(asked: str, error: OSError) -> Refused:
    remedy = "Choose another with `tally up --listen ADDRESS:PORT`, or `listen` in config.toml."
    if error.errno == errno.EADDRINUSE:
        return conflict(f"Another program already listens at {asked}.", remedy)
    if error.errno in (errno.EACCES, errno.EPERM):
        return denied(f"This user may not listen at {asked}.", remedy)
    return invalid(f"The host cannot listen at {asked}: {error.strerror}.", remedy)


def _site(name: str, bound: tuple[str, int], *, is_local: bool, secure: bool) -> Site:
    port = bound[1]
    names = {_in_url(name), _in_url(bound[0])} | ({"localhost"} if is_local else set())
    scheme, usual = ("https", 443) if secure else ("http", 80)
    hosts = {f"{n}:{port}" for n in names} | (names if port == usual else set())
    return Site(f"{scheme}://{_in_url(name)}:{port}", frozenset(hosts), frozenset(f"{scheme}://{h}" for h in hosts))


def _in_url(name: str) -> str:
    return f"[{name}]" if ":" in name else name
