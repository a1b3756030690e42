"""`tally mcp`: the server that a coding client starts on its standard streams. It forwards; the protocol is the host's.

Every agent starts one, so it imports `wire` and a few C modules alone. One line of its client becomes one call to the
host, and what the host says becomes lines for the client, one at a time, in UTF-8. It outlives the host: it keeps what
defines the session, finds or starts the next host, and sends again what may be sent again; of the rest it says
truthfully that nobody knows whether it was done.

One loop, and a thread only while a connection is being made: that may take as long as a host takes to start.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os

from tallystick import wire
from tallystick._mcp.server import Server

USAGE = """usage: tally mcp [--client NAME] [--as NAME] [--workspace W] [--channel]

An MCP server on standard input and output, started by a coding client. Which agent it is:
  --client NAME     the agent that is bound to this client here (tally join NAME --client CLIENT)
  --as NAME         this agent
  --channel         tell Claude Code in the middle of its work that something waits (an experiment of that client)
"""


def options(words: list[str]) -> dict[str, str]:
    """`--client`, `--as`, `--workspace` and `--channel` (there: `yes`). Raises `WireError` for anything else."""
    names = {"--client": "client", "--as": "as", "--workspace": "workspace"}
    given: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, mark, value = rest.pop(0).partition("=")
        if name == "--channel" and not mark:
            given["channel"] = "yes"
            continue
        if name not in names or not (mark or rest):
            raise wire.WireError("invalid", f"{name!r} is not understood here, or lacks its value.", USAGE)
        given[names[name]] = value if mark else rest.pop(0)
    return given


def main(words: list[str]) -> int:
    """The entry point of `tally mcp`."""
    try:
        given = options(words)
    except wire.WireError as error:
        os.write(2, wire.printable(f"tally: {error.message}\n{error.remedy}").encode())
        return 2
    if os.isatty(0):
        os.write(2, USAGE.encode())
    else:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # meant for the client; its end is the end of the input
    is_told = given.pop("channel", "") == "yes"
    server = Server({**given, "cwd": wire.directory(), "env": wire.caller_environment()}, channel=is_told)
    try:
        return server.run()
    except BrokenPipeError:
        return 0  # the client is gone
