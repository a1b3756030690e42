"""The way out of a session whose network is limited: an HTTP proxy at a Unix socket, that connects to what is listed.

It runs in the host, one for each session; the socket is bound into the session's sandbox, and nothing else leads out of
that. A tunnel (CONNECT) or a request for an `http://` address goes to a listed host and port or is refused. Names are
resolved here, and the connection goes to the address that was looked at. What passes is not read.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tallystick.edge.acp.endpoints import Address, Endpoint, endpoint, may_be, words

HEAD_BYTES: Final = 64 * 1024
"""Longest head of a request."""
_CHUNK: Final = 64 * 1024
_HEAD_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 20.0
_MOST: Final = 256
"""Connections of one session at once."""
_NAMED: Final = 50
"""Different endpoints that are named in diagnostics; those beyond are only counted."""
_LINE: Final = re.compile(r"([A-Z]+) (\S+) HTTP/1\.[01]\Z")
_DROPPED: Final = ("proxy-authorization", "proxy-connection", "proxy-authenticate", "connection", "keep-alive", "host")

Resolve = Callable[[str, int], Awaitable[list[str]]]
Told = Callable[[str, dict[str, object]], None]


class Use(msgspec.Struct):
    """What went to one endpoint."""

    connections: int = 0
    sent: int = 0
    received: int = 0


class Denied(Exception):
    """A request that is refused; the text says why."""


class _Wrong(Exception):
    """What came is no request to a proxy."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system finds them. OSError where there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Egress:
    """One session's way out. `told` is given what is worth knowing: `refused` (once for each endpoint) and `used`."""

    def __init__(self, allowed: frozenset[Endpoint], told: Told, resolver: Resolve | None = None) -> None:
        self.allowed = allowed
        self.used: dict[Endpoint, Use] = {}
        self.refused: dict[str, int] = {}
        """By endpoint as it was asked for: how often."""
        self._told = told
        self._resolve = resolver or resolve
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def listen(self, path: Path) -> None:
        """Answer at a Unix socket, for its owner alone."""
        self._path = path
        self._server = await asyncio.start_unix_server(self._came, sock=_bound(path), limit=HEAD_BYTES)

    async def close(self) -> None:
        """Take nothing more, break off what is under way, say what it was used for."""
        if self._server is None or self._path is None:
            return
        self._server.close()
        self._server = None
        self._path.unlink(missing_ok=True)
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        used = {str(place): msgspec.structs.asdict(use) for place, use in self.used.items()}
        self._told("used", {"endpoints": used, "refused": dict(self.refused)})

    # --- one connection ---

    def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except Denied as denied:
            await _say(writer, "403 Forbidden", f"{denied}\nThis session reaches {words(self.allowed)}.\n")
        except _Wrong as wrong:
            await _say(writer, "400 Bad Request", f"{wrong}\n")
        except (OSError, TimeoutError) as error:
            await _say(writer, "502 Bad Gateway", f"It cannot be reached: {error or 'it does not answer'}\n")
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, fields = await _head(reader)
        if method == "CONNECT":
            place, first = _place(target), b""
        else:
            place, first = _forward(method, target, fields)
        async with asyncio.timeout(_CONNECT_SECONDS):
            there, out = await self._connect(place)
        use = self.used.setdefault(place, Use())
        use.connections += 1
        try:
            if first:
                out.write(first)
                use.sent += len(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both((reader, out), (there, writer), use)
        finally:
            out.close()

    async def _connect(self, place: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To one of its addresses. Denied where it is not listed, or none of them may be meant; OSError where none
        answers."""
        if place not in self.allowed:
            raise self._denied(place, "it is not in the list of its agent")
        failed: OSError = OSError("it has no address")
        for address in await self._addresses(place):
            try:
                return await asyncio.open_connection(str(address), place.port, limit=_CHUNK)
            except OSError as error:
                failed = error
        raise failed

    async def _addresses(self, place: Endpoint) -> list[Address]:
        if place.address is not None:
            return [place.address]
        found = [ip_address(text) for text in await self._resolve(place.host, place.port)]
        meant = [address for address in found if may_be(place, address, self.allowed)]
        if found and not meant:
            raise self._denied(place, f"it leads to {found[0]}, which is not public and not listed itself")
        return meant

    def _denied(self, place: Endpoint, why: str) -> Denied:
        name = str(place)
        if name in self.refused or len(self.refused) < _NAMED:
            if name not in self.refused:
                self._told("refused", {"endpoint": name, "why": why})
            self.refused[name] = self.refused.get(name, 0) + 1
        else:
            self.refused["others"] = self.refused.get("others", 0) + 1
        return Denied(f"{name} is refused: {why}.")


def _bound(path: Path) -> socket.socket:
    """A socket that does not listen yet, so that nobody can connect before its mode is set. The umask is left alone: it
    is the whole process's, and its threads make directories meanwhile."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(0o600)
    except BaseException:
        made.close()
        raise
    return made


# --- the protocol -----------------------------------------------------------------------------------------------


async def _head(reader: asyncio.StreamReader) -> tuple[str, str, list[str]]:
    """Method, target and the lines of fields."""
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        raise _Wrong("This is a proxy, and that was no request to one.") from None
    lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = _LINE.match(lines[0])
    if found is None:
        raise _Wrong("This is a proxy for HTTP/1.1.")
    return found[1], found[2], lines[1:]


def _place(target: str) -> Endpoint:
    try:
        return endpoint(target)
    except ValueError as error:
        raise _Wrong(str(error)) from None


def _forward(method: str, target: str, fields: list[str]) -> tuple[Endpoint, bytes]:
    """Where a request for an `http://` address goes, and its head as that server gets it. One request a connection:
    the next may be for another server."""
    try:
        url = urlsplit(target)
        port = url.port or 80
    except ValueError:
        raise _Wrong("Its address cannot be read.") from None
    if url.scheme.lower() != "http" or not url.hostname or "@" in url.netloc:
        raise _Wrong("Ask for an address that begins with http://, or for a tunnel (CONNECT).")
    name = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    place = _place(f"{name}:{port}")
    kept = [line for line in fields if line.partition(":")[0].strip().lower() not in _DROPPED]
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = name if port == 80 else f"{name}:{port}"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *kept, "Connection: close", "", ""]
    return place, "\r\n".join(lines).encode("latin-1")


async def _say(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    with suppress(OSError):
        writer.write(head.encode("ascii") + b"Connection: close\r\n\r\n" + body)
        await writer.drain()


async def _both(
    outward: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    inward: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    use: Use,
) -> None:
    """Carry both directions to their ends; what breaks off ends both."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, outgoing: bool) -> None:
        while data := await reader.read(_CHUNK):
            use.sent += len(data) * outgoing
            use.received += len(data) * (not outgoing)
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(carry(*outward, True))
            both.create_task(carry(*inward, False))
    except* OSError:
        pass
