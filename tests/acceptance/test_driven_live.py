"""What a driven session does is seen while it does it: by whoever waits, whoever follows, and at both event streams of
the host."""

from __future__ import annotations

import json
import socket
import threading

import httpx
import pytest
from websockets.sync.client import connect

from tests.support.driven import DONE, TAKE, Stage, do
from tests.support.hosts import SECONDS, eventually
from tests.support.web import stream

SAYS = {"say": "Half of it is read."}


@pytest.fixture
def stage():
    with Stage() as stage:
        config = stage.path / "config.toml"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            stage.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        config.write_text(f'listen = "{stage.url[7:]}"\n{config.read_text()}')
        assert stage.start()
        stage.driven(more="sandbox = false\ncanary = false\n")
        stage.plan()
        yield stage


def lines(child):
    """What a program has printed so far, in a list that grows."""
    found = []

    def read():
        for line in child.stdout:
            found.append(line.decode())

    threading.Thread(target=read, daemon=True).start()
    return found


def is_said(event):
    return event["what"] == "says" and SAYS["say"] in event["text"]


def until_said(found, *texts):
    def there():
        whole = "".join(found)
        return all(text in whole for text in texts)

    eventually(there, f"{texts} in {found}")


def test_whoever_waits_sees_the_turn_while_it_runs(stage: Stage) -> None:
    body = do(TAKE, SAYS, {"wait": "go-on"}, DONE)
    child = stage.spawn_tally("ask", "@reviewer", "a task", "--body", body, "--wait", "60s", cwd=stage.place)
    found = lines(child)
    until_said(found, "prompted: work", "Half of it is read.")
    assert child.poll() is None
    assert not any("turn ended" in line for line in found)
    stage.opens("go-on")
    assert child.wait(SECONDS) == 0
    assert "All is well." in "".join(found)


def test_whoever_follows_sees_the_turn_while_it_runs(stage: Stage) -> None:
    task = stage.ask(TAKE, SAYS, {"wait": "go-on"}, DONE)
    child = stage.spawn_tally("show", task, "--follow", cwd=stage.place)
    found = lines(child)
    until_said(found, "prompted: work", "Half of it is read.")
    assert child.poll() is None
    stage.opens("go-on")
    assert child.wait(SECONDS) == 0
    until_said(found, "handed in")


TOLD = {"at", "who", "asserted", "what", "task_id", "before", "after", "text", "workspace"}
"""The golden shape of a line: keys may be added, never removed."""


def test_the_event_stream_of_the_host_tells_the_turn_while_it_runs(stage: Stage) -> None:
    token = (stage.path / "token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    client = httpx.Client(base_url=stage.url, headers=headers, timeout=SECONDS, trust_env=False)
    with client, stream(client) as (_, events):
        task = stage.ask(TAKE, SAYS, {"wait": "go-on"}, DONE)
        seen = []
        while not any(is_said(event) for event in seen):
            seen.append(next(events)[1])
        mine = [event for event in seen if event["task_id"] == task]
        assert "prompted: work" in [event["what"] for event in mine]
        assert stage.show(task)["state"] == "working", "it was told while the turn ran"
        assert all(event.keys() >= TOLD for event in mine)
        stage.opens("go-on")
        while seen[-1]["what"] != "turn ended: end_turn":
            seen.append(next(events)[1])


def test_the_web_socket_of_the_host_tells_the_turn_while_it_runs(stage: Stage) -> None:
    token = (stage.path / "token").read_text().strip()
    url = stage.url.replace("http://", "ws://") + "/v1/socket"
    with connect(url, additional_headers={"authorization": f"Bearer {token}"}, proxy=None) as line:
        hello = {"protocol": [1, 1], "client": "test", "version": "0"}
        line.send(json.dumps({"hello": hello}))
        assert "welcome" in json.loads(line.recv(SECONDS))
        task = stage.ask(TAKE, SAYS, {"wait": "go-on"}, DONE)
        seen, version = [], 0
        while not any(is_said(event) for event in seen):
            shown = wait(line, task, version)
            version, seen = shown["version"], shown["history"]
        assert stage.show(task)["state"] == "working", "it was told while the turn ran"
        stage.opens("go-on")
        while shown["state"] != "completed":
            shown = wait(line, task, shown["version"])
        assert shown["result"] == "All is well."


def wait(line, task, version):
    """The task as soon as it is newer."""
    line.send(json.dumps({"id": 1, "op": "wait", "args": {"task": task, "version": version}}))
    return json.loads(line.recv(SECONDS))["result"]
