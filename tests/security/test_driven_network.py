"""What a driven session whose network is limited reaches, from its client and from what that starts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO SANDBOX WAS TESTED: install bubblewrap")
PYTHON = sys.executable


class Server:
    """Something of this machine that listens on its loopback."""

    def __init__(self):
        outer = self
        self.paths = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.paths.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"here I am")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def model():
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def other():
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def stage(model):
    with Stage() as stage:
        assert stage.start()
        stage.driven(more=f'[network]\nallow = ["127.0.0.1:{model.port}"]\n', required="E3")
        yield stage


def driven(stage, name="@reviewer"):
    """The session that is looked at."""
    return next(agent for agent in stage.call("agents")["agents"] if agent["name"] == name)["driven"][0]


def tried(stage, code):
    """What Python code of the session prints: its result, or the name of what it raised."""
    script = (
        f"import os, socket, urllib.request as u\ntry:\n    print({code})\nexcept Exception as e:\n    print(repr(e))"
    )
    line = f"{shlex.quote(PYTHON)} -I -S -c {shlex.quote(script)} > out.txt 2>&1; true"
    task = stage.ask({"run": line}, TAKE, DONE)
    session = stage.until(task, "completed")["attempts"][0]["session"]
    return (stage.path / "worktrees" / session / "out.txt").read_text(), task


def test_what_is_listed_is_reached_at_its_own_address_and_our_tools_work(stage: Stage, model: Server) -> None:
    said, task = tried(stage, f"u.urlopen('{model.url}/direct', timeout=20).read()")
    assert "here I am" in said
    assert "/direct" in model.paths
    assert stage.show(task)["result"] == "All is well."  # take and submit went by the session's own socket


def test_what_is_listed_is_reached_by_the_proxy_too(stage: Stage, model: Server) -> None:
    opener = "u.build_opener(u.ProxyHandler({'http': os.environ['HTTP_PROXY']}))"
    said, _ = tried(stage, f"{opener}.open('{model.url}/proxied', timeout=20).read()")
    assert "here I am" in said
    assert "/proxied" in model.paths


UNREACHABLE = {
    "another port of this machine": "socket.create_connection(('127.0.0.1', {other}), 5)",
    "another port of this machine, IPv6": "socket.create_connection(('::1', {other}), 5)",
    "a metadata address": "socket.create_connection(('169.254.169.254', 80), 5)",
    "a public address": "socket.create_connection(('192.0.2.1', 443), 5)",
    "an address of this machine": "socket.create_connection(('{address}', {other}), 5)",
    "a resolver": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.53', 53))",
    "a name": "socket.getaddrinfo('example.org', 443)",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect(chr(0) + '{abstract}')",
    "the host's socket": "socket.socket(socket.AF_UNIX).connect('{host}')",
    "another virtual machine": "socket.socket(40, socket.SOCK_STREAM)",
    "raw packets": "socket.socket(17, socket.SOCK_RAW)",
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_anything_else_cannot_be_reached(stage: Stage, other: Server, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        abstract = f"tally-{os.getpid()}"
        listening.bind(f"\0{abstract}")
        listening.listen()
        places = {
            "other": other.port,
            "address": socket.gethostbyname(socket.gethostname()),
            "abstract": abstract,
            "host": stage.socket,
        }
        said, _ = tried(stage, UNREACHABLE[name].format(**places))
    assert "Error" in said or "error" in said, said
    assert other.paths == []


@pytest.mark.parametrize("target", ["127.0.0.1:{other}", "169.254.169.254:80", "localhost:{other}", "example.org:443"])
def test_the_proxy_refuses_anything_else_and_the_turn_says_so(stage: Stage, other: Server, target: str) -> None:
    place = target.format(other=other.port)
    proxy = "socket.create_connection(('127.0.0.1', int(os.environ['HTTP_PROXY'].rpartition(':')[2])), 5)"
    ask = f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n"
    said, task = tried(stage, f"(lambda s: (s.sendall(b'{ask}'), s.recv(999))[1])({proxy})")
    assert "403 Forbidden" in said
    assert other.paths == []
    told = f"network: {place} was refused"
    eventually(lambda: any(told in line["text"] for line in stage.show(task)["history"]), told)
    log = [json.loads(line) for line in (stage.path / "log" / "host.jsonl").read_text().splitlines()]
    assert place in [line.get("endpoint") for line in log if line["kind"] == "network refused"]


def test_the_level_says_what_is_reached(stage: Stage, model: Server) -> None:
    tried(stage, "1")
    shown = driven(stage)
    assert shown["level"] == "E3"
    assert f"network: only 127.0.0.1:{model.port};" in shown["rests_on"]


def test_without_a_list_the_network_is_open_and_that_is_said(stage: Stage, other: Server) -> None:
    stage.driven("free", required="E3")
    line = f"{shlex.quote(PYTHON)} -I -S -c 'import urllib.request as u; u.urlopen(\"{other.url}/free\", timeout=20)'"
    stage.until(stage.ask({"run": line}, TAKE, DONE, to="free"), "completed")
    assert other.paths == ["/free"]
    other.paths.clear()
    assert "network: open;" in driven(stage, "@free")["rests_on"]


def forwarders(stage):
    """The processes that carry the network of this host's sessions."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
        except OSError:
            continue
        if b"forwarder.py" in words and str(stage.path).encode() in words and b"bwrap" not in words:
            found.append(int(folder.name))
    return found


@pytest.fixture
def carried(model):
    """A host with a limited session at work, and the processes that carry its network."""
    with Stage() as stage:
        assert stage.start()
        stage.driven(more=f'[network]\nallow = ["127.0.0.1:{model.port}"]\n')
        stage.ask({"say": "I begin."}, {"wait": "go"}, {"die": 3})
        stage.until_log("prompt", 2)  # the first is the canary's
        yield stage, set(eventually(lambda: forwarders(stage), "a forwarder"))


def test_what_carries_the_network_goes_with_the_client(carried) -> None:
    stage, first = carried
    stage.opens("go")
    eventually(lambda: not first & set(forwarders(stage)), "the end of what carried a client that died")


def test_what_carries_the_network_goes_with_a_host_that_is_killed(carried) -> None:
    stage, first = carried
    stage.kill()
    eventually(lambda: not first & set(forwarders(stage)), "the end of what carried for a host that was killed")


def test_where_there_is_no_sandbox_a_limited_session_is_refused(model: Server) -> None:
    with Stage() as stage:
        stage.wishes = {"sandbox": False}
        assert stage.start()
        stage.driven(more=f'[network]\nallow = ["127.0.0.1:{model.port}"]\n')
        assert "The network of @reviewer is limited" in refusal(stage)


def refusal(stage):
    """Why a session did not begin."""
    task = stage.ask(TAKE, DONE)

    def failed():
        return next((x for x in stage.show(task)["history"] if x["what"] == "did not begin"), None)

    said = eventually(failed, "a refusal")["error"]
    stage.call("cancel", task=task, text="")
    return said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('sandbox = false\n[network]\nallow = ["a.example:443"]', "kept by the sandbox"),
        ('[network]\nallow = ["a.example"]', "has no port"),
        ('[network]\nallow = ["127.1:8080"]', "names no host"),
        ("[network]", "allow"),
        ('[network]\nallow = []\ndeny = ["a.example:443"]', "deny"),
    ],
)
def test_a_list_that_cannot_be_kept_is_refused_in_words(more, said) -> None:
    with Stage() as stage:
        assert stage.start()
        stage.driven(more=more)
        assert said in refusal(stage)
