"""Payloads and results that have not the shape which a capability names, at the host."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.app.desk import forms
from tallystick.edge.spoke import schemas
from tallystick.edge.spoke.shapes import ShapeJudge
from tests.support.ends import End, Haven

TAKES = '{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}'
GIVES = '{"type":"object","required":["lines"],"properties":{"lines":{"type":"integer"}}}'


@pytest.fixture
async def haven(tmp_path: Path) -> AsyncIterator[Haven]:
    async with Haven(tmp_path / "home", retry_seconds=(0.05,)) as haven:
        yield haven


async def ended(client: End, msg_id: str) -> dict[str, Any]:
    while True:
        frame = await client.hear()
        kind, body = frame["header"]["msg_type"], frame["body"]
        if frame["header"]["msg_id"] == msg_id and kind in ("RESULT", "FAIL"):
            return {"kind": kind, **body}


async def test_a_payload_of_another_shape_reaches_nobody_and_is_told_with_the_place(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor(offer={"schema": TAKES})
    await client.sail({"path": 5})
    told = (await client.hear("FAIL"))["body"]
    assert (told["of"], told["code"]) == ("SAIL", "invalid")
    assert "$.path: 5 is not of type 'string'" in told["message"]
    assert (await haven.desk.board(await haven.person(), everything=True)).tasks == ()
    right = await client.sail({"path": "/etc/hostname"})
    assert (await spoke.begin())["body"]["payload"] == {"path": "/etc/hostname"}
    assert right


async def test_a_payload_that_one_of_several_holders_takes_is_let_in(haven: Haven) -> None:
    strict, other, client = [await haven.end("memory") for _ in range(3)]
    await strict.anchor(offer={"schema": TAKES})
    await other.anchor("echo-2", store="s2", process="2@2", offer={"schema": GIVES})
    await client.sail({"lines": 3})
    assert (await client.hear("ACK"))["body"]["of"] == "SAIL"


async def test_what_was_let_in_is_checked_again_when_it_is_handed_over(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.sail("first")
    sail = await spoke.begin()
    waits = await client.sail({"path": 5}, dedup_key="k")
    assert (await client.hear("ACK"))["body"]["of"] == "SAIL"
    held = [{"delivery": sail["body"]["delivery"], "fence": sail["body"]["fence"], "state": "running"}]
    await spoke.anchor(offer={"schema": TAKES}, held=held)
    await client.sail({"path": 5}, dedup_key="k", msg_id=waits)
    again = [await client.hear() for _ in range(3)]
    assert any(frame["body"].get("duplicate") for frame in again), "a message that was let in once is not refused"
    await spoke.about(sail, "RESULT", payload=1)
    told = await ended(client, waits)
    assert (told["code"], "$.path" in told["message"]) == ("invalid", True)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a+)+$"},
        {"patternProperties": {"^(a|a)*$": {}}},
        {"$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)} | {"d60": {}}}
        | {"$ref": "#/$defs/d0"},
    ],
    ids=["pattern", "names", "doubling"],
)
async def test_a_schema_that_would_take_years_holds_up_nobody(haven: Haven, schema: dict[str, Any]) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor(capabilities=[{"name": "Slow", "schema": json.dumps(schema)}, {"name": "Echo"}])
    long = "a" * 60 + "!"
    await client.sail({long: 1} if "patternProperties" in schema else long, "Slow")
    await client.sail("quick")
    quick = await client.hear("ACK")
    assert quick["body"]["of"] == "SAIL"
    told = (await client.hear("FAIL"))["body"]
    assert (told["code"], "cannot be applied within" in told["message"]) == ("invalid", True)
    assert (await spoke.begin())["body"]["payload"] == "quick"


async def test_a_schema_that_took_too_long_is_not_applied_again_for_a_while_and_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge, done, processes = ShapeJudge(), [], []
    begin = asyncio.create_subprocess_exec

    async def counted(*given: Any, **named: Any) -> Any:
        processes.append(await begin(*given, **named))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)

    async def ask(name: str, schema: str, payload: bytes) -> str:
        wrong = await judge.wrong(payload, schema)
        done.append(name)
        return wrong

    slow = json.dumps({"pattern": "^(a+)+$"})
    asked = [ask("slow", slow, json.dumps("a" * 60 + "!").encode()) for _ in range(20)]
    said = await asyncio.gather(*asked, ask("honest", TAKES, b'{"path":"x"}'))
    await judge.stop()
    assert said[-1] == ""
    assert {"cannot be applied within" in wrong for wrong in said[:-1]} == {True}
    assert done.index("honest") <= 2, "it waits for one question of another schema, not for twenty"
    assert len(processes) == 2, "the slow one was applied once"


async def test_the_process_that_checks_shapes_ends_with_the_host(tmp_path: Path) -> None:
    async with Haven(tmp_path / "home") as haven:
        spoke = await haven.end("memory")
        await spoke.anchor(offer={"schema": TAKES})
        child = haven.hub.shapes._child
        assert child is not None
        assert child.returncode is None
    assert child.returncode is not None


async def test_a_result_of_another_shape_is_a_failure_and_is_compensated(haven: Haven) -> None:
    spoke, helper, client = [await haven.end("memory") for _ in range(3)]
    await spoke.anchor(offer={"result_schema": GIVES})
    await helper.anchor("mender", capabilities=[{"name": "Mend"}])
    msg_id = await client.sail(on_failure="cap:Mend")
    sail = await spoke.begin()
    await spoke.about(sail, "RESULT", payload={"lines": "many"})
    assert (await spoke.hear("ACK"))["body"]["of"] == "RESULT"
    await helper.about(await helper.begin(), "RESULT", payload="mended")
    await spoke.about(await spoke.begin(), "RESULT", payload={"lines": 3})
    assert (await ended(client, msg_id))["payload"] == {"lines": 3}


@pytest.mark.parametrize(
    ("newest", "asked", "more"),
    [
        ({"version": "2.0"}, "Echo@1.0", {}),
        ({"version": "1.9", "domain": "b"}, "Echo", {"domain": "a"}),
        ({"version": "2.0", "domain": "b"}, "Echo@1", {"domain": "a"}),
    ],
)
async def test_payload_and_result_are_judged_by_the_offer_that_serves_the_request(
    haven: Haven, newest: dict[str, Any], asked: str, more: dict[str, Any]
) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    served = {"name": "Echo", "version": "1.0", "schema": TAKES, "result_schema": GIVES, **more}
    await spoke.anchor(capabilities=[served, {"name": "Echo", "schema": GIVES, "result_schema": TAKES, **newest}])
    right = await client.sail({"path": "x"}, asked, **more)
    sail = await spoke.begin()
    assert sail["body"]["payload"] == {"path": "x"}
    await spoke.about(sail, "RESULT", payload={"lines": 3})
    assert (await ended(client, right))["payload"] == {"lines": 3}
    assert (await spoke.hear("ACK"))["body"]["of"] == "RESULT"
    wrong = await client.sail({"path": "y"}, asked, **more)
    await spoke.about(await spoke.begin(), "RESULT", payload={"path": "y"})
    told = await ended(client, wrong)
    assert (told["kind"], told["code"]) == ("FAIL", "invalid")


async def test_what_a_person_asks_of_a_capability_in_words_arrives_as_title_and_body(haven: Haven) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor()
    person = await haven.person()
    await haven.desk.ask(person, forms.Ask(address="cap:Echo", title="Say it", body="Hello, é."))
    assert (await spoke.begin())["body"]["payload"] == {"title": "Say it", "body": "Hello, é."}


async def test_a_spoke_with_a_schema_is_refused_by_a_host_that_cannot_check_it(
    haven: Haven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    monkeypatch.setattr(schemas.importlib.util, "find_spec", lambda _name: None)
    spoke = await haven.end("memory")
    given = {"spoke_id": "echo-1", "store": "s", "incarnation": "1@1"}
    await spoke.say("ANCHOR", {**given, "capabilities": [{"name": "Echo", "schema": TAKES}]})
    refused = (await spoke.hear("FAIL"))["body"]
    assert (refused["code"], "pip install" in refused["remedy"]) == ("unsupported", True)
    assert (await spoke.anchor())["of"] == "ANCHOR"


async def test_what_is_no_schema_is_refused_when_the_spoke_comes(haven: Haven) -> None:
    spoke = await haven.end("memory")
    given = {"spoke_id": "echo-1", "store": "s", "incarnation": "1@1"}
    await spoke.say("ANCHOR", {**given, "capabilities": [{"name": "Echo", "result_schema": '{"type": 7}'}]})
    assert (await spoke.hear("FAIL"))["body"]["code"] == "invalid"
