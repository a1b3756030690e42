"""What a model or its client may send to the MCP server: more than is good, in any order, and as anybody."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tallystick._mcp.server import WATCHED
from tallystick.edge.mcp import serving
from tests.support.mcp_clients import Agent
from tests.support.town import Town
from tests.support.web import Site


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    with Town() as town:
        yield town


def test_one_resource_too_many_is_refused_and_those_that_are_watched_still_bring_news(town: Town) -> None:
    assert serving.WATCHED == WATCHED
    name = town.agent("pen")
    tasks = [town.task(name) for _ in range(WATCHED + 2)]
    agent = Agent(town, "--as", name)
    uris = [f"tally://task/{task}" for task in tasks]
    begun = [agent.begin("resources/subscribe", uri=uri) for uri in uris]  # all at once, before the first is answered
    answers = [agent.answer(number) for number in begun]
    assert [uri for uri, answer in zip(uris, answers, strict=True) if "error" in answer] == uris[WATCHED:]
    assert agent.ask("resources/subscribe", uri=uris[0]) == {}
    agent.ask("resources/unsubscribe", uri=uris[1])
    agent.ask("resources/subscribe", uri=uris[-1])
    town.call("take", name, task=tasks[-1])
    while agent.told("notifications/resources/updated")["uri"] != uris[-1]:
        pass
    agent.close()


NOT_STRICT = {
    "h13-key-twice": '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
    "h13-argument-twice": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":'
    '{"to":"@alice","to":"@bob","subject":"to whom?"}}}',
    "h14-nan": '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"seconds":NaN}}}',
    "h14-infinite": '{"jsonrpc":"2.0","id":1e400,"method":"ping"}',
    "h14-half-a-surrogate": '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    "h14-deep": '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + "[" * 70 + "]" * 70 + "}}",
}


@pytest.mark.skipif(not importlib.util.find_spec("mcp"), reason="MCP OVER HTTP WAS NOT TESTED: tallystick[mcp]")
def test_json_that_is_not_strict_is_refused_over_http_as_at_every_door() -> None:
    with Site() as site:
        site.up()
        for name in ("alice", "bob"):
            assert site.tally("join", name, cwd=site.place)[0] == 0
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"'
        hello += ',"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
        with site.client() as client:
            begun = client.post("/mcp?as=alice", content=hello, headers=headers)
            assert begun.status_code == 200
            for more in ({"mcp-session-id": begun.headers["mcp-session-id"]}, {"mcp-protocol-version": "2026-07-28"}):
                for name, body in NOT_STRICT.items():
                    answer = client.post("/mcp?as=alice", content=body, headers={**headers, **more})
                    assert (name, answer.status_code) == (name, 400)
                    assert (name, answer.json()["error"]["code"]) == (name, "invalid")
            ping = '{"jsonrpc":"2.0","id":"a:\\"b\\":{","method":"ping"}'
            more = {"mcp-session-id": begun.headers["mcp-session-id"]}
            assert client.post("/mcp?as=alice", content=ping, headers={**headers, **more}).status_code == 200
