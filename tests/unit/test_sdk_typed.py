"""Typed payloads, context slices, and what of the calling span travels along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tallystick import Capability, ReachClient, ReachMessage, ReachRefused, Spoke
from tallystick.sdk import ContextSlice, Schema
from tallystick.sdk.context import SLICE_BYTES
from tallystick.sdk.frames import Frame, frame
from tests.support.reach import ScriptedHub
from tests.support.spans import spans

ROOT = Path(__file__).resolve().parents[2]
COUNT = {
    "type": "object",
    "properties": {"count": {"type": "integer", "minimum": 1}},
    "required": ["count"],
    "additionalProperties": False,
}


class Line(msgspec.Struct):
    item: str
    count: int


class Order(msgspec.Struct, forbid_unknown_fields=True):
    lines: list[Line]


class Bill(msgspec.Struct):
    cents: int


# --- schemas ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (Order, {"lines": [{"item": "a", "count": 1}, {"item": "b", "count": "2"}]}, r"\$\.lines\[1\]\.count"),
        (Order, {"lines": [], "more": 1}, "unknown field `more`"),
        (Order, {}, "missing required field `lines`"),
        (COUNT, {"count": "1"}, r"\$\.count"),
        (COUNT, {"count": 0}, r"\$\.count"),
        (COUNT, {"count": 1, "x": 2}, "'x' was unexpected"),
        (COUNT, [], r"at \$"),
    ],
)
async def test_a_payload_that_does_not_fit_is_refused_on_both_sides_with_the_place(
    tmp_path: Path, schema: Any, value: Any, words: str
) -> None:
    hub = ScriptedHub()
    offer = Capability("Do", schema=schema)
    with pytest.raises(ReachRefused, match=words) as caught:
        await ReachClient(link=hub.dial).sail(offer, value)
    assert caught.value.code == "invalid"
    assert hub.heard == []

    ran: list[Any] = []
    async with Spoke("s-1", [offer], {"Do": ran.append}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Do", value)
        failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["began"]) == ("invalid", False)
    assert ran == []
    assert hub.count("BEGIN") == 0


async def test_a_struct_is_what_the_handler_gets_and_may_return(tmp_path: Path) -> None:
    hub = ScriptedHub()

    async def bill(message: ReachMessage) -> Bill:
        assert isinstance(message.payload, Order)
        return Bill(sum(line.count for line in message.payload.lines) * 100)

    offer = Capability("Bill", schema=Schema(Order, Bill))
    async with Spoke("s-1", [offer], {"Bill": bill}, store=tmp_path / "s.db", link=hub.dial):
        offered = hub.heard[0]["body"]["capabilities"][0]
        await hub.deliver("Bill", {"lines": [{"item": "a", "count": 3}]})
        assert (await hub.got("RESULT"))["body"]["payload"] == {"cents": 300}
    assert msgspec.json.decode(offered["schema"])["$ref"] == "#/$defs/Order"
    assert msgspec.json.decode(offered["result_schema"])["$ref"] == "#/$defs/Bill"


async def test_a_host_that_cannot_apply_schemas_is_told_none_and_a_struct_is_checked_by_the_spoke(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = ScriptedHub()

    def without_the_extra(found: Frame) -> list[Frame]:
        if any("schema" in one for one in found["body"]["capabilities"]):
            return [hub.fail(found, "unsupported", "This host cannot check payloads against a JSON schema.")]
        return hub.anchored(found)

    hub.answers["ANCHOR"] = without_the_extra
    offer = Capability("Bill", schema=Schema(Order, Bill))
    async with Spoke("s-1", [offer], {"Bill": lambda _: Bill(5)}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Bill", {"lines": 5})
        assert "$.lines" in (await hub.got("FAIL"))["body"]["message"]
        await hub.deliver("Bill", {"lines": []})
        assert (await hub.got("RESULT"))["body"]["payload"] == {"cents": 5}
        hub.cut()
        await hub.until(lambda: hub.count("ANCHOR") == 4)
    assert [one.message for one in caplog.records if "checked here alone" in one.message] == [
        "Payloads of spoke s-1 are checked here alone: This host cannot check payloads against a JSON schema. Look."
    ]


async def test_a_json_schema_needs_a_host_that_can_apply_it(tmp_path: Path) -> None:
    hub = ScriptedHub()
    hub.answers["ANCHOR"] = lambda found: [hub.fail(found, "unsupported", "This host cannot.")]
    for schema, asked in ((COUNT, 1), (Schema(Order, COUNT), 2)):
        before = hub.count("ANCHOR")
        spoke = Spoke("s-1", [Capability("Do", schema=schema)], {"Do": len}, store=tmp_path / "s.db", link=hub.dial)
        with pytest.raises(ReachRefused, match="This host cannot"):
            await spoke.start()
        assert hub.count("ANCHOR") - before == asked


async def test_a_result_that_does_not_fit_fails_with_the_place(tmp_path: Path) -> None:
    hub = ScriptedHub()
    offer = Capability("Bill", schema=Schema(result=Bill))
    async with Spoke("s-1", [offer], {"Bill": lambda _: {"cents": "3"}}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Bill", 1)
        failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["began"]) == ("invalid", True)
    assert "$.cents" in failed["message"]


async def test_a_large_value_that_does_not_fit_is_not_quoted_whole(tmp_path: Path) -> None:
    hub = ScriptedHub()
    offer = Capability("Bill", schema=Schema(result={"type": "object", "properties": {"cents": {"type": "integer"}}}))
    async with Spoke(
        "s-1", [offer], {"Bill": lambda _: {"cents": "9" * 200_000}}, store=tmp_path / "s.db", link=hub.dial
    ):
        await hub.deliver("Bill", 1)
        failed = (await hub.got("FAIL"))["body"]
    assert len(failed["message"]) < 1000
    assert "is not of type 'integer' at $.cents" in failed["message"]


async def test_a_result_is_an_instance_of_the_struct_for_who_knows_the_type() -> None:
    hub = ScriptedHub()
    payloads = iter([{"cents": 5}, {"cents": "five"}])

    def sailed(found: Frame) -> list[Frame]:
        told = {"task_id": "tsk_1", "payload": next(payloads)}
        return [
            hub.ack(found, task_id="tsk_1", trace_id="trc_1"),
            frame("RESULT", told, msg_id=found["header"]["msg_id"]),
        ]

    hub.answers["SAIL"] = sailed
    known = Capability("Bill", "1.2", schema=Schema(Order, Bill))
    async with ReachClient(link=hub.dial) as client:
        assert (await client.sail(known, Order([Line("a", 1)]))).payload == Bill(5)
        assert hub.heard[0]["header"]["target_capability"] == "Bill@1.2"
        assert hub.heard[0]["body"]["payload"] == {"lines": [{"item": "a", "count": 1}]}
        with pytest.raises(ReachRefused, match=r"\$\.cents"):
            await client.sail(known, Order([]))


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": 5}, "text", 5, Schema])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ReachRefused) as caught:
        Capability("Do", schema=schema)
    assert caught.value.code == "invalid"


def test_without_the_extra_a_json_schema_says_what_to_install() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
sys.modules["jsonschema"] = None
from tallystick import Capability, ReachRefused
try:
    Capability("Do", schema={COUNT!r})
except ReachRefused as error:
    assert error.code == "unsupported" and "tallystick[schema]" in error.remedy, error
else:
    raise SystemExit("not refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- context ------------------------------------------------------------------------------------------------------


SLICE = ContextSlice(goal="ten tokens", related=("tsk_1",), references=("README.md",), conclusions=("a", "bb", "ccc"))


def test_the_newest_conclusions_stay() -> None:
    assert SLICE.last(2).conclusions == ("bb", "ccc")
    assert SLICE.last(0).conclusions == ()
    assert SLICE.last().conclusions == SLICE.conclusions
    assert ContextSlice(conclusions=tuple(map(str, range(30)))).last().conclusions == tuple(map(str, range(10, 30)))
    with pytest.raises(ReachRefused):
        SLICE.last(-1)


def test_a_budget_keeps_what_must_stay_and_as_many_of_the_newest_conclusions_as_fit() -> None:
    fixed = len("ten tokens") + len("tsk_1") + len("README.md")
    assert SLICE.within(fixed + 6, len).conclusions == ("a", "bb", "ccc")
    assert SLICE.within(fixed + 5, len).conclusions == ("bb", "ccc")
    assert SLICE.within(fixed + 4, len).conclusions == ("ccc",)
    assert SLICE.within(fixed, len).conclusions == ()
    with pytest.raises(ReachRefused, match=f"take {fixed} tokens of a budget of {fixed - 1}"):
        SLICE.within(fixed - 1, len)


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"goal": "x" * SLICE_BYTES}, "at most 8192"),
        ({"gaol": "x"}, "unknown field"),
        ({"goal": 5}, r"\$\.goal"),
        ({"related": "tsk_1"}, r"\$\.related"),
        ("goal", "is no slice"),
    ],
)
async def test_a_context_that_is_no_slice_or_too_large_is_never_sent(context: Any, words: str) -> None:
    hub = ScriptedHub()
    with pytest.raises(ReachRefused, match=words) as caught:
        await ReachClient(link=hub.dial).sail("Do", 1, context=context)
    assert caught.value.code == "invalid"
    assert hub.heard == []


# --- spans --------------------------------------------------------------------------------------------------------


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return spans()


async def test_sail_and_handler_are_spans_of_one_trace(exporter: InMemorySpanExporter, tmp_path: Path) -> None:
    exporter.clear()
    hub = ScriptedHub()
    hub.answers["SAIL"] = lambda found: [hub.fail(found, "offline", "Gone.")]
    async with ReachClient(link=hub.dial) as client:
        with pytest.raises(Exception, match="Gone"):
            await client.sail("Do", 1)
    carried = hub.heard[0]["header"]["traceparent"]
    hub = ScriptedHub()

    async def broken(_: ReachMessage) -> None:
        raise ValueError("broken")

    async with Spoke("s-1", [Capability("Do")], {"Do": broken}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Do", 1, traceparent=carried, task_id="tsk_7")
        await hub.got("FAIL")
    sail, handle = exporter.get_finished_spans()
    assert (sail.name, handle.name) == ("sail Do", "handle Do")
    assert handle.context.trace_id == sail.context.trace_id
    assert handle.parent is not None
    assert handle.parent.span_id == sail.context.span_id
    assert sail.attributes["tallystick.capability"] == "Do"
    assert (handle.attributes["tallystick.task_id"], handle.attributes["tallystick.spoke"]) == ("tsk_7", "s-1")
    assert not sail.status.is_ok
    assert not handle.status.is_ok


async def test_what_a_handler_sends_carries_the_span_of_its_message_on(tmp_path: Path) -> None:
    hub, other = ScriptedHub(), ScriptedHub()
    other.answers["SAIL"] = lambda found: [other.fail(found, "offline", "Gone.")]
    carried = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def outer(_: ReachMessage) -> None:
        async with ReachClient(link=other.dial) as client:
            await client.sail("Inner", 1)

    async with Spoke("s-1", [Capability("Do")], {"Do": outer}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Do", 1, traceparent=carried, task_id="tsk_7")
        assert (await hub.got("FAIL"))["body"]["code"] == "failed"
    sent = other.heard[0]
    assert sent["header"]["traceparent"].split("-")[1] == carried.split("-")[1]
    assert (sent["header"]["trace_id"], sent["body"]["parent"]) == ("trc_1", "tsk_7")


def test_a_program_without_opentelemetry_loads_nothing_of_it_and_nothing_of_the_host() -> None:
    code = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from tallystick import Capability, ReachClient, ReachError, Spoke
from tests.support.reach import ScriptedHub

async def main():
    hub = ScriptedHub()
    hub.answers["SAIL"] = lambda found: [hub.fail(found, "offline", "Gone.")]
    try:
        await ReachClient(link=hub.dial).sail("Do", 1)
    except ReachError:
        pass

asyncio.run(main())
loaded = [name for name in sys.modules if name.startswith("tallystick.")]
print(*[n for n in loaded if not n.startswith(("tallystick.sdk", "tallystick.wire"))])
print(*[n for n in ("opentelemetry", "jsonschema", "websockets", "starlette", "uvicorn", "apsw") if n in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
