"""What an agent pays for its tools: from the start of the server to the answer of `tools/list`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.group_cli import PACKAGE
from bench.machine import Machine, environment
from bench.table import Row, Skip

SECONDS = 0.3
TIMES = 15.0
_LINES = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
)
_SDK = '''
import asyncio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def listed(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="one", input_schema={"type": "object"})])
async def main():
    server = Server("minimal", on_list_tools=listed)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
asyncio.run(main())
'''
"""The smallest server of the official SDK: it knows one tool and asks nobody."""


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows: every round starts each server once."""
    if importlib.util.find_spec("mcp") is None:
        raise Skip("to compare with a server of the official SDK: pip install 'tallystick[mcp]'")
    rounds = 5 if quick else 15
    with machine.host() as host:
        host.agents("a0")
        env = {**os.environ, **environment(host.home)}
        ours: list[float] = []
        ratios: list[float] = []
        for _ in range(rounds):
            ours.append(_ready([*_tally(), "mcp", "--as", "a0"], env))
            ratios.append(_ready([sys.executable, "-c", _SDK], env) / ours[-1])
    note = "wall time from the spawn to the answer, initialize included, the host running"
    return [
        Row("mcp-ready", "tally mcp: spawn → tools/list answered", SECONDS, False, ours, "s", note),
        Row("mcp-sdk", "the same of a minimal server that imports the SDK, over ours", TIMES, True, ratios, note=note),
    ]


def _tally() -> list[str]:
    beside = Path(sys.executable).with_name("tally")
    return [str(beside)] if beside.exists() else [sys.executable, str(PACKAGE / "_tally.py")]


def _ready(argv: list[str], env: dict[str, str]) -> float:
    """Seconds until `tools/list` was answered; each message waits for the answer before, as a client does."""
    start = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("no pipes")
        for line in _LINES:
            child.stdin.write(json.dumps(line).encode() + b"\n")
            child.stdin.flush()
            if "id" in line and b'"result"' not in child.stdout.readline():
                raise RuntimeError(f"{argv[-4:]} did not answer {line['method']}")
        took = time.perf_counter() - start
        child.stdin.close()
        child.wait(60)
    return took
