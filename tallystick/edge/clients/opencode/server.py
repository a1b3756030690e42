"""The HTTP API of a running OpenCode (`opencode --port N`), on loopback. Measured with 1.18.33.

Nobody tells us the port: it is looked up among the sockets at which that very process, or one that it started, listens.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

from tallystick.core.errors import Refused, unavailable

SECONDS = 5.0
_BYTES = 32 * 1024 * 1024
_LISTENS = "0A"
_LOOPBACK = ("0100007F", "00000000", "00000000000000000000000001000000", "00000000000000000000000000000000")


def port_of(process: str) -> int:
    """The port at which a process named as `PID@START` listens on loopback; 0 where it does not, or cannot be seen."""
    pid = process.partition("@")[0]
    if not pid.isdecimal():
        return 0
    inodes = {inode for member in _with_children(pid) for inode in _sockets(member)}
    ports = [port for port, inode in _listening(pid) if inode in inodes]
    return ports[0] if len(ports) == 1 else 0


def _with_children(pid: str) -> list[str]:
    found = [pid]
    for member in found:
        if len(found) > 64:
            break
        try:
            for task in Path(f"/proc/{member}/task").iterdir():
                found += (task / "children").read_text().split()
        except OSError:
            continue
    return found


def _sockets(pid: str) -> list[str]:
    found = []
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                found.append(target[8:-1])
    except OSError:
        return []
    return found


def _listening(pid: str) -> list[tuple[int, str]]:
    """(port, inode) of all sockets of its network namespace that listen on loopback."""
    found = []
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            words = row.split()
            address, _, port = words[1].partition(":")
            if words[3] == _LISTENS and address in _LOOPBACK:
                found.append((int(port, 16), words[9]))
    return found


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """One request: the status and the decoded answer (None where it has none). Raises `Refused`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"} if sent else {})
        answer = connection.getresponse()
        raw = answer.read(_BYTES)
        return answer.status, json.loads(raw) if raw.strip() and answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise _unreachable(error) from None
    finally:
        connection.close()


def _unreachable(error: Exception) -> Refused:
    return unavailable(f"OpenCode cannot be reached: {str(error)[:200]}", "Open it with: opencode --port 0")
