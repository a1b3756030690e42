"""Inside a sandbox: listens on its loopback, carries bytes to the host's proxy, and becomes the command.

Run as `python -I -S forwarder.py JSON COMMAND…`. It decides nothing: what may be reached is said at the other end of
the socket, outside. It ends with the sandbox, that is with the command. Standard library only, no import of this
project.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from typing import Any, Final, NamedTuple

CHUNK: Final = 65536
HEAD: Final = 4096
"""Longest answer of the proxy to a request to be connected."""
PAUSE: Final = 0.05
"""Seconds before the next try where no connection can be taken: too many are open."""
INSIDE: Final = "localhost,127.0.0.1,::1"
"""What is on the loopback in here needs no proxy."""


class Listener(NamedTuple):
    """A port of this loopback, and where it leads: a host and a port, or "" for whatever is asked of the proxy."""

    socket: socket.socket
    target: str


def listeners(doors: list[tuple[str, int]]) -> list[Listener]:
    """Listen on each door, and for the proxy itself (last, so that it takes none of their ports)."""
    found: list[Listener] = []
    for host, port in doors:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        found.append(Listener(_bound("127.0.0.1" if host == "localhost" else host, port), target))
        if host == "localhost":
            with contextlib.suppress(OSError):  # a machine without IPv6
                found.append(Listener(_bound("::1", port), target))
    return [*found, Listener(_bound("127.0.0.1", 0), "")]


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen(128)
    return made


def environment(port: int) -> dict[str, str]:
    """What leads clients to the proxy that is listened for at this port."""
    address = f"http://127.0.0.1:{port}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    given = {**dict.fromkeys(names, address), "NO_PROXY": INSIDE}
    return {**given, **{name.lower(): value for name, value in given.items()}, "NODE_USE_ENV_PROXY": "1"}


def serve(path: str, found: list[Listener]) -> None:
    """Take connections for as long as the sandbox lives."""
    selector = selectors.DefaultSelector()
    for listener in found:
        selector.register(listener.socket, selectors.EVENT_READ, listener)
    while True:
        for key, _ in selector.select():
            try:
                came = key.data.socket.accept()[0]
            except OSError:
                time.sleep(PAUSE)
                continue
            threading.Thread(target=lead, args=(path, came, key.data.target), daemon=True).start()


def lead(path: str, came: socket.socket, target: str) -> None:
    """Carry one connection until both sides have ended."""
    with came, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as out:
        try:
            out.connect(path)
            if target and not connected(out, target):
                return
        except OSError:
            return
        back = threading.Thread(target=carry, args=(out, came), daemon=True)
        back.start()
        carry(came, out)
        back.join()


def connected(out: socket.socket, target: str) -> bool:
    """Ask the proxy to be connected; whether it did."""
    out.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("ascii"))
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < HEAD:
        byte = out.recv(1)  # no more than the head: what follows is the connection
        if not byte:
            return False
        head += byte
    return head.split(b" ", 2)[1:2] == [b"200"]


def carry(source: socket.socket, target: socket.socket) -> None:
    """One direction, to its end; what breaks off ends both."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def apart(path: str, found: list[Listener]) -> None:
    """Serve in a process that is no child of the command and holds none of its streams."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    # Asked to end, the command may still have something to say; with the command the sandbox goes, and this with it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    try:
        serve(path, found)
    finally:
        os._exit(1)


def main() -> None:
    """Listen, leave behind what serves, become the command."""
    about: dict[str, Any] = json.loads(sys.argv[1])
    command = sys.argv[2:]
    try:
        found = listeners([(host, port) for host, port in about["doors"]])
    except OSError as error:
        sys.exit(f"The sandbox cannot listen on its own loopback: {error}")
    apart(about["socket"], found)
    os.environ.update(environment(found[-1].socket.getsockname()[1]))
    for listener in found:
        listener.socket.close()
    try:
        os.execvp(command[0], command)  # noqa: S606 - words, and no shell
    except OSError as error:
        sys.exit(f"Cannot start {command[0]!r}: {error.strerror}")


if __name__ == "__main__":
    main()
