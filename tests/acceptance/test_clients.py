"""The real coding clients can be driven: without a terminal and in one, with their own tools and those of a server.

Which ones: `TALLY_TEST_CLIENTS` (see tests/support/clients/install.py). What they do belongs to the pinned versions;
what is observed here and stands in tests/support/clients/observed.py is what the product is built on.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.clients import install, observed, rpc
from tests.support.clients.pins import CLIENTS, Pin
from tests.support.clients.seat import HEADLESS, Seat
from tests.support.model import Model, Rule, script

HERE = Path(observed.__file__).parent
DRIVEN = [*HEADLESS]
LOOK = Rule("look at your inbox", [{"mcp": "probe.probe_echo", "args": {"text": "inbox"}}, {"text": "I looked."}])


@pytest.fixture
def model():
    with Model() as server:
        yield server


@pytest.fixture
def place(tmp_path):
    (tmp_path / "hooks").mkdir()
    return tmp_path


def probe(place):
    return {"probe": [sys.executable, str(HERE / "echo_server.py"), str(place / "mcp.log")]}


def recorder(place, event, *more):
    return shlex.join([sys.executable, str(HERE / "recorder.py"), str(place / "hooks"), event, *map(str, more)])


def recorded(place):
    """What hooks were told: event → the objects, in order."""
    found = {}
    for path in sorted((place / "hooks").glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
        found.setdefault(path.stem.rpartition("-")[0], []).append(json.loads(path.read_text()))
    return found


def said(model, text):
    """Wait for the answer that begins so to have been sent."""
    return model.wait_for(lambda ask: ask.answer and ask.answer.text.startswith(text) and ask.outcome == "sent")


@pytest.mark.parametrize("name", DRIVEN)
def test_a_client_without_a_terminal_runs_its_shell_and_a_servers_tool(model, place, name):
    hooks = {event: recorder(place, event) for event in observed.HOOKS.get(name, ())}
    with Seat(name, model, mcp=probe(place), hooks=hooks) as seat:
        steps = [
            {"shell": "echo one''two"},
            {"mcp": "probe.probe_echo", "args": {"text": "你好 {{result}}"}},
            {"text": "It gave {{result.task_id}}."},
        ]
        done = seat.headless(script(*steps))
        assert done.code == 0, (done, model.told())
        assert "It gave tsk_1." in done.out, (done, model.told())
        calls = [json.loads(line) for line in (place / "mcp.log").read_text().splitlines()]
        text = next(call["params"]["arguments"]["text"] for call in calls if call.get("method") == "tools/call")
        assert "你好" in text
        assert "onetwo" in text
    told = recorded(place)
    for event, facts in observed.HOOKS.get(name, {}).items():
        assert bool(told.get(event)) == facts.headless, (event, sorted(told))
        if facts.headless:
            assert {*observed.COMMON, *facts.fields} <= set(told[event][0]), (event, told[event][0])


@pytest.mark.parametrize("name", DRIVEN)
def test_a_client_in_a_terminal_takes_a_prompt_and_shows_the_answer(model, place, name):
    hooks = {event: recorder(place, event) for event in observed.HOOKS.get(name, ())}
    with Seat(name, model, mcp=probe(place), hooks=hooks) as seat, seat.open() as screen:
        screen.say(script({"shell": "echo one''two"}, {"text": "The shell has answered."}))
        said(model, "The shell")
        screen.wait(lambda shown: shown.count("The shell has") > 1)
        model.wait_for(lambda ask: any("onetwo" in text for text in ask.seen.of("result")))
        due = {event for event, facts in observed.HOOKS.get(name, {}).items() if facts.terminal}
        screen.wait(lambda _: due <= set(recorded(place)))


def test_nothing_of_a_seat_is_left_when_it_ends(model):
    with Seat("codex", model) as seat:
        with seat.open() as screen:
            screen.say(script({"text": "Hello."}))
            said(model, "Hello.")
            assert seat.processes()
        base = seat.base
    assert seat.processes() == []
    assert not base.exists()


def test_a_hook_of_claude_wakes_an_idle_session_and_a_busy_one(place):
    fifo = place / "fifo"
    os.mkfifo(fifo)
    hooks = {event: recorder(place, event, fifo) for event in ("SessionStart", "Stop")}
    with (
        Model(LOOK) as model,
        Seat("claude", model, mcp=probe(place), hooks=hooks, rewake=[*hooks]) as seat,
        seat.open() as screen,
    ):
        screen.type("half a thought")
        fifo.write_text("Please look at your inbox (1)")
        said(model, "I looked")
        screen.wait(lambda shown: "I looked." in shown and "esc to interrupt" not in shown)
        assert "half a thought" in screen.screen()
        screen.insist("C-u", lambda shown: "half a thought" not in shown)
        seen = len(model.requests)
        screen.say(script({"shell": "true"}, {"shell": "true", "gate": "busy"}, {"text": "Nobody woke me."}))
        model.wait_for(lambda ask: ask.answer and ask.answer.gate == "busy", since=seen)
        fifo.write_text("Please look at your inbox (2)")
        transcript = next(seat.home.glob(".claude/projects/*/*.jsonl"))
        screen.wait(lambda _: "inbox (2)" in transcript.read_text())
        model.open("busy")
        last = model.wait_for(lambda ask: ask.answer and ask.answer.text == "I looked.", since=seen)
        assert any("inbox (2)" in text for text in last.seen.of("developer"))


def test_a_message_is_put_into_the_queue_of_an_open_codex(place):
    with Model(LOOK) as model, Seat("codex", model, mcp=probe(place)) as seat, seat.open() as screen:
        screen.say(script({"text": "Hello."}))
        said(model, "Hello.")
        sock = seat.home / ".codex" / "app-server-control" / "app-server-control.sock"
        screen.wait(lambda _: sock.exists())
        screen.type("half a thought")

        async def queue():
            async with rpc.connected(sock) as line:
                loaded = (await line.call("thread/loaded/list"))["data"]
                threads = [(await line.call("thread/read", threadId=name))["thread"] for name in loaded]
                (name,) = [thread["id"] for thread in threads if not thread["ephemeral"]]
                message = [{"type": "text", "text": "look at your inbox"}]
                await line.call("thread/resume", threadId=name)
                await line.call("thread/queue/add", threadId=name, input=message, clientUserMessageId="msg-1")
                while True:
                    item = (await line.note("item/completed"))["item"]
                    if item["type"] == "userMessage":
                        break
                turn = (await line.note("turn/completed"))["turn"]
                return item["clientId"], turn["status"]

        assert asyncio.run(queue()) == ("msg-1", "completed")
        screen.wait("I looked.")
        assert "half a thought" in screen.screen()
        rollout = next(seat.home.rglob("rollout-*.jsonl")).read_text()
        assert '"client_id":"msg-1"' in rollout


def test_what_a_client_tries_to_reach_beside_loopback_is_refused_and_known(model):
    with Seat("codex", model) as seat:
        assert seat.headless(script({"text": "Hello."})).code == 0
    assert all(request.path.endswith(":443") for request in model.requests if request.method == "CONNECT")


def npm(place, monkeypatch, body):
    """A stand-in for npm, a cache of its own, and one client to install."""
    (place / "bin").mkdir()
    (place / "bin" / "npm").write_text(f"#!/bin/sh\necho called >>{place}/calls\n{body}\n")
    (place / "bin" / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setitem(CLIENTS, "one", Pin("one", "one-client", "1.0", "one", "chat"))
    return place / "calls"


def test_of_workers_that_want_the_same_client_one_installs_it(place, monkeypatch):
    made = "mkdir -p node_modules/.bin && touch node_modules/.bin/one"
    calls = npm(place, monkeypatch, made)
    with ThreadPoolExecutor(4) as pool:
        places = {*pool.map(install.install, ["one"] * 4)}
    assert places == {place / "cache" / "tallystick" / "clients" / "one-1.0"}
    assert calls.read_text() == "called\n"


def test_a_client_that_cannot_be_installed_is_skipped_with_the_reason(place, monkeypatch):
    npm(place, monkeypatch, "echo no such version >&2; exit 1")
    monkeypatch.setenv(install.CHOICE, "one")
    with pytest.raises(pytest.skip.Exception, match=r"NOT TESTED WITH THE REAL CLIENT.*no such version"):
        install.need("one")
    assert [path.name for path in (place / "cache" / "tallystick" / "clients").iterdir()] == ["one-1.0.lock"]


def test_each_pinned_client_says_what_a_test_has_to_know():
    for name, pin in CLIENTS.items():
        assert pin.dialect in ("chat", "responses", "messages", "gemini"), name
        assert name.endswith("-acp") or {name} <= {*observed.MCP} & {*HEADLESS}, name
