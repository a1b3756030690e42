"""`tally mcp` against hosts that misbehave: they hang, say nothing, or break off. In one process, with short times."""

import json
import os
import socket
import threading

import pytest

from tallystick import wire
from tallystick._mcp import call as calls
from tallystick._mcp import server as servers
from tallystick._mcp.lines import Lines

SECONDS = 30


class Client:
    """The two ends that a client holds of a server that runs in a thread."""

    def __init__(self, path, monkeypatch):
        monkeypatch.setenv("TALLY_SOCKET", path)
        theirs, self.input = os.pipe()
        self.output, ours = os.pipe()
        self.file = os.fdopen(self.output, "rb")
        server = servers.Server({"as": "alice"}, theirs, ours)
        self.thread = threading.Thread(target=server.run, daemon=True)
        self.thread.start()

    def ask(self, number, method, **params):
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(self.input, json.dumps(line).encode() + b"\n")

    def answer(self):
        return json.loads(self.file.readline())

    def leave(self):
        os.close(self.input)
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


class Host:
    """Somebody at the socket who shakes hands, or not even that."""

    def __init__(self, path, *, shakes=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen()
        self.shakes = shakes
        self.lines = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            connection, _ = self.socket.accept()
            self.connection = connection
            file = connection.makefile("rb")
            if self.shakes and file.readline():
                connection.sendall(b'{"welcome":{"protocol":1,"host":"0","pid":1}}\n')
                for line in file:
                    self.lines.append(json.loads(line))
                    self.heard(self.lines[-1])

    def heard(self, line):
        """What it does about a line: nothing."""

    def say(self, message):
        self.connection.sendall(json.dumps(message).encode() + b"\n")


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return "s"


@pytest.fixture
def hasty(path, monkeypatch):
    """For those that wait in vain."""
    monkeypatch.setattr(calls, "FIRST_PATIENCE", 0.3)
    monkeypatch.setattr(calls, "PATIENCE", 0.3)
    return path


def test_a_host_that_does_not_shake_hands_is_told_and_nothing_hangs(path, monkeypatch):
    monkeypatch.setattr(wire, "SHAKE_SECONDS", 0.3)
    Host(path, shakes=False)
    client = Client(path, monkeypatch)
    client.ask(1, "initialize")
    assert "error" in client.answer()
    client.ask(2, "tools/call", name="submit")
    assert client.answer()["result"]["isError"] is True
    client.leave()


def test_a_host_that_never_answers_is_given_up(hasty, monkeypatch):
    Host(hasty)
    client = Client(hasty, monkeypatch)
    client.ask(1, "initialize")
    assert "does not answer" in client.answer()["error"]["message"]
    client.ask(2, "tools/call", name="submit")
    assert "not known" in client.answer()["result"]["content"][0]["text"]
    client.ask(3, "tools/call", name="inbox")
    assert "does not answer" in client.answer()["result"]["content"][0]["text"]
    client.leave()


def test_no_host_and_none_that_may_be_started_is_an_error_with_its_remedy(path, monkeypatch):
    client = Client(path, monkeypatch)
    client.ask(1, "initialize")
    assert "tally up" in client.answer()["error"]["message"]
    client.leave()


class Full(Host):
    """Takes no more calls, but stays."""

    def heard(self, line):
        if "message" in line:
            error = {"code": "unavailable", "message": "Too many calls.", "remedy": "Wait."}
            self.say({"id": line["id"], "error": error})


def test_a_call_that_a_host_breaks_off_is_told_as_it_said(path, monkeypatch):
    monkeypatch.setattr(calls, "BROKEN", 0.3)
    Full(path)
    client = Client(path, monkeypatch)
    client.ask(1, "tools/call", name="submit")
    assert "Too many calls." in client.answer()["result"]["content"][0]["text"]
    client.leave()


class Chunks(Host):
    """Sends an answer in pieces, asks for its acknowledgement, and keeps the next call waiting for it."""

    def heard(self, line):
        if "message" in line:
            request = json.loads(line["message"])["id"]
            answer = wire.encode({"jsonrpc": "2.0", "id": request, "result": {"n": "é" * 9}})
            self.say({"id": line["id"], "out": answer[:20]})
            self.say({"id": line["id"], "out": answer[20:] + "\n"})
            self.say({"id": line["id"], "want": "flush"})
        elif line.get("flushed"):
            self.say({"id": line["id"], "result": None})


def test_an_answer_in_pieces_is_one_line_and_acknowledged_before_the_next_call(path, monkeypatch):
    host = Chunks(path)
    client = Client(path, monkeypatch)
    for number in (1, 2, 3):
        client.ask(number, "ping")
        assert client.answer()["id"] == number
    client.leave()
    told = [line for line in host.lines if "message" in line or "flushed" in line]
    order = ["flush" if "flushed" in line else "call" for line in told]
    assert order == ["call", "flush"] * 3


def test_lines_are_cut_at_their_limit_and_the_next_ones_are_whole():
    lines = Lines(5)
    assert lines.feed(b"ab") == []
    assert lines.feed(b"c\n\n12345\n") == [b"abc", b"", b"12345"]
    assert lines.feed(b"123456") == [None]
    assert lines.feed(b"78\nok\nre") == [b"ok"]
    assert lines.rest() == [b"re"]
    assert lines.rest() == []
