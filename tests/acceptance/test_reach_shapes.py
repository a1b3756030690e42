"""Payloads and results that have not the shape which a capability names, at the host."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.app.desk import forms
from tallystick.edge.spoke import schemas
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
    told = await ended(client, await client.sail({"path": 5}))
    assert told["code"] == "invalid"
    assert "$.path" in told["message"]
    right = await client.sail({"path": "/etc/hostname"})
    assert (await spoke.begin())["body"]["payload"] == {"path": "/etc/hostname"}
    assert right


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
