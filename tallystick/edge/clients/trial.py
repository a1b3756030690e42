"""A trial of what is installed: the server and the hook are started as the client would, and must answer."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tallystick.app.clients import Doubt, Surroundings
from tallystick.edge.clients.shape import Program

SECONDS = 10
"""A client gives up on its server after about that time."""

_PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


def server(place: Surroundings, program: Program, client: str) -> list[Doubt]:
    """The MCP server answers a ping."""
    try:
        done = _run(place, program.server(client), _PING, program.environment())
        answered = json.loads(done.stdout.split(b"\n")[0]).get("result") == {}
    except (OSError, ValueError, AttributeError, RecursionError, subprocess.TimeoutExpired) as error:
        return [Doubt(saw=f"its server did not answer ({type(error).__name__})", fix=_AGAIN)]
    return [] if answered else [Doubt(saw="its server answered something else", fix=_AGAIN)]


def hook(place: Surroundings, program: Program, client: str) -> list[Doubt]:
    """The hook script ends in time, well, and without a word of complaint."""
    script = program.hook_file(client)
    if not Path(script).exists():
        return []
    try:
        done = _run(place, ["sh", script, "tool"], b"{}", {})
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Doubt(saw=f"its hook could not be run ({type(error).__name__})", fix=_AGAIN)]
    said = done.stderr.decode("utf-8", "replace").strip()
    return [Doubt(saw=f"its hook said: {said[:200]}", fix=_AGAIN)] if done.returncode or said else []


_AGAIN = "Run `tally install` again; if that does not help, see `tally status --diagnostics`."


def _run(
    place: Surroundings, words: list[str], given: bytes, more: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    environment = {"HOME": place.home, "PATH": place.environment.get("PATH", os.defpath), **more}
    return subprocess.run(
        words, input=given, env=environment, cwd="/", capture_output=True, timeout=SECONDS, check=False
    )
