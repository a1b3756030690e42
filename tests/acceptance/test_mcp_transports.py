"""One table behind two transports and two eras: the same results, byte for byte once the era's own fields are gone.

`GOLDEN=write pytest tests/acceptance/test_mcp_transports.py` writes what the results look like.
"""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from tests.support.hosts import SECONDS
from tests.support.mcp_clients import ERAS, VERSION, Agent, HttpAgent, canonical, sdk_http, sdk_stdio, without_era
from tests.support.web import Site

pytest.importorskip("mcp", reason="MCP OVER HTTP WAS NOT TESTED: pip install 'tallystick[mcp]'")
GOLDEN = Path(__file__).parents[1] / "golden" / "mcp"
WAYS = [(kind, version) for kind in (Agent, HttpAgent) for version in ("2025-11-25", VERSION)]


def opened():
    """A host that listens, with two agents."""
    site = Site()
    site.up()
    for name in ("alice", "bob"):
        assert site.tally("join", name, "--strengths", "reads well", cwd=site.place)[0] == 0
    return site


@pytest.fixture(scope="module")
def site():
    with opened() as site:
        yield site


@pytest.fixture
def fresh():
    with opened() as site:
        yield site


def reach(site, kind, name, version):
    return kind(site, "--as", name, version=version) if kind is Agent else kind(site, name, version=version)


def normal(value):
    """A result without what differs from run to run: ids, times, ages, the number of a position."""
    text = canonical(value)
    seen = {}
    text = re.sub(
        r"\b(tsk|trc|dlv|ses|msg|agt|per|wsp|rep)_[0-9A-HJKMNP-TV-Z]{26}\b",
        lambda hit: seen.setdefault(hit[0], f"{hit[1]}_{len(seen)}"),
        text,
    )
    text = re.sub(r"\b(tsk|ses)_[0-9a-hjkmnp-tv-z]{6}\b", r"\1_short", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r'(\\?"(?:age|silent_seconds|seconds|position|median_seconds)\\?":)[0-9.]+', r"\1 0", text)
    return re.sub(r"position \d+|\(version \d+", "position 0", text)


def listed(agent):
    """Everything that is listed, and what reading and asking wrongly gives."""
    yield "tools/list", agent.ask("tools/list")
    yield "prompts/list", agent.ask("prompts/list")
    yield "prompts/get", agent.ask("prompts/get", name="ask", arguments={"agent": "bob", "request": "{agent} 看"})
    yield "resources/templates/list", agent.ask("resources/templates/list")
    yield "unknown tool", agent.error("tools/call", name="nothing", arguments={})
    yield "unknown prompt", agent.error("prompts/get", name="nothing")
    for name, arguments in (
        ("overview", {"what": "agents"}),
        ("overview", {"what": "context"}),
        ("overview", {"what": "routes"}),
        ("read", {"task": "0000"}),
        ("read", {"task": 5}),
        ("read", {}),
        ("ask", {"to": "@nobody", "subject": "x"}),
        ("submit", {"task": "@last", "outcome": "lost"}),
        ("take", {"tsk": "x"}),
    ):
        yield f"{name} {canonical(arguments)}", agent.ask("tools/call", name=name, arguments=arguments)


def played(alice, bob):
    """A whole task, by every tool."""

    def call(agent, name, **arguments):
        steps.append((name, agent.ask("tools/call", name=name, arguments=arguments)))
        return steps[-1][1]["structuredContent"]

    steps = []
    task = call(alice, "ask", to="@bob", subject="Read it", body="全部\n> all", expect="answer")["task_id"]
    call(bob, "inbox", limit="5")
    call(bob, "read", task=task)
    call(bob, "take", task=task)
    call(bob, "progress", task=task, text="half", fraction="0.5")
    call(bob, "question", task=task, text="Which?")
    call(alice, "wait", task=task)
    call(alice, "answer", task=task, text='{"a": 1}')
    call(bob, "submit", task=task, text="It is so.", review="true")
    call(alice, "read", task=task, history=True)
    call(alice, "review", task=task, verdict="changes", text="Say more.")
    call(bob, "take", task=task)
    call(bob, "submit", task=task, text="It is so, because.", review=True)
    call(alice, "wait", task=task)
    call(alice, "review", task=task, verdict="approve")
    call(bob, "inbox")
    resource = ("resources/read", alice.ask("resources/read", uri=f"tally://task/{task}"))
    call(bob, "wait", task=task, seconds=0)
    return [*steps, resource]


def test_all_ways_lead_to_the_same_results(fresh):
    pairs = [[reach(fresh, kind, name, version) for name in ("alice", "bob")] for kind, version in WAYS]
    found = [list(played(*pair)) for pair in pairs]
    for steps, (alice, bob) in zip(found, pairs, strict=True):
        steps += listed(alice)  # after all were played, so that all see the same board
        alice.close()
        bob.close()
    first, *others = [[(name, normal(without_era(result))) for name, result in steps] for steps in found]
    for other in others:
        for (name, mine), (_, theirs) in zip(first, other, strict=True):
            assert mine == theirs, name
    shown = [{"step": name, "result": json.loads(text)} for name, text in first]
    text = json.dumps(shown, indent=1, ensure_ascii=False) + "\n"
    file = GOLDEN / "results.json"
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text


def test_results_of_the_modern_era_say_their_type_and_how_long_they_are_good_for(site):
    for kind in (Agent, HttpAgent):
        agent = reach(site, kind, "alice", VERSION)
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            result = agent.ask(method)
            assert result["resultType"] == "complete"
            assert (result["ttlMs"] >= 0, result["cacheScope"] in ("public", "private")) == (True, True)
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "tallystick"
        agent.close()


def test_what_a_server_says_of_itself_is_the_same_on_both_transports(site):
    said = []
    for kind in (Agent, HttpAgent):
        hello = reach(site, kind, "alice", "2025-06-18").hello
        discovered = reach(site, kind, "alice", VERSION).ask("server/discover")
        assert hello["instructions"] == discovered["instructions"]
        assert hello["capabilities"] == discovered["capabilities"]
        assert discovered["supportedVersions"] == [VERSION]
        said.append(canonical([without_era(discovered), hello]))
    assert said[0] == said[1]


@pytest.mark.parametrize("version", ERAS[:-1])
def test_every_version_of_the_handshake_era_is_agreed_on(site, version):
    for kind in (Agent, HttpAgent):
        agent = reach(site, kind, "alice", version)
        assert agent.hello["protocolVersion"] == version
        assert len(agent.ask("tools/list")["tools"]) == 11
        agent.close()


def test_an_unknown_version_is_answered_with_the_newest_of_its_era(site):
    agent = reach(site, Agent, "alice", "1999-01-01")
    assert agent.hello["protocolVersion"] == "2025-11-25"
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {}}
    error = agent.error("tools/list", _meta=meta)
    assert (error["code"], error["data"]) == (-32022, {"supported": [VERSION], "requested": "2099-01-01"})
    agent.close()


# --- the SDK's own client is the oracle ---------------------------------------------------------------------------

DOORS = {"stdio": sdk_stdio, "http": sdk_http}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*removed as of.*")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("door", DOORS)
async def test_the_sdks_client_can_do_everything(site, door, mode):
    async with DOORS[door](site, "alice", mode) as alice, DOORS[door](site, "bob", mode) as bob:
        assert alice.protocol_version == (VERSION if mode == "auto" else "2025-11-25")
        assert [tool.name for tool in (await alice.list_tools()).tools][:3] == ["inbox", "read", "ask"]
        asked = await alice.call_tool("ask", {"to": "@bob", "subject": "x", "body": "y"})
        task = asked.structured_content["task_id"]
        assert not (await bob.call_tool("take", {"task": task})).is_error
        wrong = await bob.call_tool("take", {"task": task, "action": "eat"})
        assert wrong.is_error
        assert wrong.structured_content["error"]["code"] == "invalid"
        assert len((await alice.list_resources()).resources) >= 3
        assert len((await alice.list_resource_templates()).resource_templates) == 3
        read = await alice.read_resource(f"tally://task/{task}")
        assert json.loads(read.contents[0].text)["task_id"] == task
        for prompt in (await alice.list_prompts()).prompts:
            assert prompt.description
        assert (await alice.get_prompt("inbox", {})).messages


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*removed as of.*")
@pytest.mark.parametrize("door", DOORS)
async def test_the_sdks_client_is_told_of_changes_it_subscribed_to_in_the_handshake_era(site, door):
    told = asyncio.Queue()

    async def note(message):
        if type(message).__name__ == "ResourceUpdatedNotification":
            told.put_nowait(str(message.params.uri))

    async with DOORS[door](site, "alice", "legacy", message_handler=note) as alice:
        task = (await alice.call_tool("ask", {"to": "@bob", "subject": "x"})).structured_content["task_id"]
        uri = f"tally://task/{task}"
        await alice.subscribe_resource(uri)
        await asyncio.to_thread(site.tally, "take", task, "--as", "bob", cwd=site.place)
        assert await asyncio.wait_for(told.get(), SECONDS) == uri
        await alice.unsubscribe_resource(uri)
        with pytest.raises(Exception, match="There is no resource"):
            await alice.subscribe_resource("tally://room/1")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["task", "trace", "agent"])
async def test_the_sdks_client_is_told_of_changes_it_listens_to_in_the_modern_era(site, door, kind):
    async with DOORS[door](site, "alice", "auto") as alice:
        asked = (await alice.call_tool("ask", {"to": "@bob", "subject": "x"})).structured_content
        name = {"task": asked["task_id"], "trace": asked["trace"], "agent": "bob"}[kind]
        async with alice.listen(resource_subscriptions=[f"tally://{kind}/{name}"]) as changes:
            await asyncio.to_thread(site.tally, "take", asked["task_id"], "--as", "bob", cwd=site.place)
            event = await asyncio.wait_for(anext(aiter(changes)), SECONDS)
            assert event.uri == f"tally://{kind}/{name}"


# --- the door over HTTP -------------------------------------------------------------------------------------------


def test_the_door_asks_for_the_token_and_looks_at_host_and_origin(site):
    with site.client() as client:
        assert client.post("/mcp", json={}, headers={"authorization": "Bearer x"}).status_code == 401
        assert client.post("/mcp", json={}, headers={"origin": "http://evil.example"}).status_code == 403
        assert client.post("/mcp", json={}, headers={"host": "evil.example"}).status_code == 421
        assert client.post("/mcp?as=alice&as=bob", json={}).status_code == 400
        assert client.post("/mcp?who=alice", json={}).status_code == 400


def test_a_session_over_http_is_its_owners(site):
    alice = HttpAgent(site, "alice")
    thief = HttpAgent(site, "bob")
    thief.headers["mcp-session-id"] = alice.headers["mcp-session-id"]
    response = thief._post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert response.status_code == 404


def test_over_http_nobody_in_particular_only_reads(site):
    agent = HttpAgent(site, "")
    result = agent.ask("tools/call", name="ask", arguments={"to": "@bob", "subject": "x"})
    assert result["structuredContent"]["error"]["code"] == "denied"
    assert agent.ask("tools/call", name="overview", arguments={})["isError"] is False


def test_a_host_with_open_sessions_stops_in_order(fresh):
    agent = HttpAgent(fresh, "alice")
    with fresh.client() as client, client.stream("GET", "/mcp?as=alice", headers=agent.headers) as stream:
        assert stream.status_code == 200
        assert fresh.tally("down")[0] == 0
        assert fresh.child.wait(SECONDS) == 0
