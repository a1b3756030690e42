"""Reported cases of MCP servers. The numbers are those of the list in this folder."""

import os
import signal
import sys

import pytest

from tests.support.hosts import ROOT, RUN_TALLY, eventually
from tests.support.mcp_clients import VERSION, Agent, HttpAgent, town
from tests.support.web import Site


@pytest.fixture
def home():
    with town("alice", "bob") as home:
        yield home


CLIENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {RUN_TALLY!r}, "mcp", "--as", "alice"])
print(child.pid, flush=True)
child.wait()
"""


def test_case_59_a_server_that_outlives_its_client_ends(home):
    """The client is killed, and another process still holds the input of the server it had started."""
    theirs, ours = os.pipe()
    client = home.spawn(sys.executable, "-c", CLIENT, stdin=theirs, cwd=home.place)
    os.close(theirs)
    server = int(client.stdout.readline())
    os.write(ours, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert b'"id":1' in client.stdout.readline()
    client.send_signal(signal.SIGKILL)
    eventually(lambda: gone(server))
    os.close(ours)


def gone(pid):
    """Whether a process has ended; nobody may be there to collect it."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_case_66_a_wait_returns_in_time_and_says_how_to_go_on(home):
    alice = Agent(home, "--as", "alice")
    task = alice.tool("ask", to="@bob", subject="Slow")["task_id"]
    result = alice.ask("tools/call", name="wait", arguments={"task": task, "seconds": 0.1})
    assert result["structuredContent"]["timed_out"] is True
    assert "wait again" in result["content"][0]["text"]
    assert not [n for n in alice.notifications if "progress" in n["method"]], "nobody gave a token"


HEADER_MISMATCH = -32020
"""What the newest version says where a header cannot say the same as the body."""
WRONG = [
    ("tools/call", {}),
    ("tools/call", {"name": 5}),
    ("tools/call", {"name": "nothing"}),
    ("resources/read", {}),
    ("prompts/get", {"name": "ask"}),
]


def test_case_67_wrong_parameters_over_http_are_an_answer_of_the_protocol():
    pytest.importorskip("mcp", reason="MCP OVER HTTP WAS NOT TESTED: pip install 'tallystick[mcp]'")
    with Site() as site:
        site.up()
        assert site.tally("join", "alice", cwd=site.place)[0] == 0
        for version in ("2025-11-25", VERSION):
            agent = HttpAgent(site, "alice", version=version)
            for method, params in WRONG:
                error = agent.error(method, **params)
                assert error["code"] in (-32602, HEADER_MISMATCH), (version, method, params)
        with site.client() as client:
            for body in (b"", b"{", b"[]", b"5", b'{"jsonrpc":"2.0"}'):
                response = client.post("/mcp?as=alice", content=body, headers={"content-type": "application/json"})
                assert response.status_code < 500


NEWER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tallystick import bootstrap
from tallystick.edge.mcp import tools
tools.LISTED.append({{"name": "newer", "description": "Not there before", "inputSchema": {{"type": "object"}}}})
sys.exit(bootstrap.main(["up", "--replace"]))
"""


def test_case_68_a_session_from_before_an_upgrade_gets_the_tools_of_the_newer_host(home):
    alice = Agent(home, "--as", "alice")
    assert "newer" not in [tool["name"] for tool in alice.ask("tools/list")["tools"]]
    host = home.spawn(sys.executable, "-c", NEWER)
    assert b"serves" in host.stdout.readline()
    eventually(lambda: home.holder() and home.holder().pid == host.pid)
    assert "newer" in [tool["name"] for tool in alice.ask("tools/list")["tools"]]
    assert alice.child.poll() is None
    assert alice.close() == 0
