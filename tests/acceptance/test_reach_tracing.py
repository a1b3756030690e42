"""The span of a sender through a whole host: to the handler, to what that sends, and past a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tallystick import Capability, ReachClient, ReachMessage, Spoke
from tallystick.app.desk import reach
from tests.support.ends import PATIENCE, Haven
from tests.support.spans import spans

SPAN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def haven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Haven]:
    monkeypatch.setenv("TALLY_HOME", str(tmp_path / "h"))
    for name in ("TALLY_AGENT", "TALLY_SESSION", "TALLY_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    async with Haven(tmp_path / "h", retry_seconds=(0.05, 0.05)) as haven:
        yield haven


async def elsewhere(doing: Any) -> Any:
    """Run it in a loop and a thread of its own: no context variable leads there."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(doing))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run).start()
    async with asyncio.timeout(PATIENCE):
        return await asyncio.wrap_future(done)


def parents(found: list[ReadableSpan]) -> dict[str, str]:
    """Each span's name, and that of the one it is under."""
    names = {span.context.span_id: span.name for span in found if span.context}
    return {span.name: names.get(span.parent.span_id, "?") if span.parent else "" for span in found}


async def test_a_message_and_what_its_handler_sends_are_one_trace_across_loops(haven: Haven, tmp_path: Path) -> None:
    spans().clear()
    ready, over = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def inner(message: ReachMessage) -> Any:
        return message.payload

    async def outer(message: ReachMessage) -> Any:
        async with ReachClient() as client:
            return (await client.sail("Inner", message.payload)).payload

    async def offers() -> None:
        async with (
            Spoke("outer", [Capability("Outer")], {"Outer": outer}, store=tmp_path / "o.db"),
            Spoke("inner", [Capability("Inner")], {"Inner": inner}, store=tmp_path / "i.db"),
        ):
            loop.call_soon_threadsafe(ready.set)
            await asyncio.to_thread(over.wait, PATIENCE)

    async def asks() -> Any:
        async with ReachClient() as client:
            return (await client.sail("Outer", 7)).payload

    offering = asyncio.create_task(elsewhere(offers()))
    async with asyncio.timeout(PATIENCE):
        await ready.wait()
    try:
        assert await elsewhere(asks()) == 7
    finally:
        over.set()
        await offering
    found = list(spans().get_finished_spans())
    assert parents(found) == {
        "sail Outer": "",
        "handle Outer": "sail Outer",
        "sail Inner": "handle Outer",
        "handle Inner": "sail Inner",
    }
    assert len({span.context.trace_id for span in found if span.context}) == 1
    assert len({span.attributes.get("tallystick.trace_id") for span in found if span.name.startswith("handle")}) == 1


async def test_the_span_of_a_message_survives_the_host(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await spoke.close()
    await client.sail(1, traceparent=SPAN)
    await client.hear("ACK")
    await haven.restart()
    back = await haven.end("memory")
    await back.anchor(process="2@2")
    assert (await back.take())["header"]["traceparent"] == SPAN


async def test_what_is_sent_because_of_a_message_stays_in_its_span(haven: Haven) -> None:
    spoke, helper, client = [await haven.end("memory") for _ in range(3)]
    await spoke.anchor()
    await helper.anchor("mender", capabilities=[{"name": "Mend"}])
    await client.sail(1, traceparent=SPAN, on_failure="cap:Mend")
    sail = await spoke.begin()
    await client.sail(2, "Mend", parent=sail["body"]["task_id"])
    child = await helper.begin()
    assert child["header"]["traceparent"] == SPAN
    await helper.about(child, "RESULT", payload=1)
    await helper.hear("ACK")
    await spoke.about(sail, "FAIL", code="failed", began=True)
    assert (await helper.begin())["header"]["traceparent"] == SPAN, "the failure notice"


async def test_a_result_that_is_sent_on_stays_in_the_span_of_its_message(haven: Haven) -> None:
    spoke, reporter, client = [await haven.end("memory") for _ in range(3)]
    await spoke.anchor()
    await reporter.anchor("reporter", capabilities=[{"name": "Report"}])
    await client.sail(1, traceparent=SPAN, reply_to="Report")
    await spoke.about(await spoke.begin(), "RESULT", payload=2)
    assert (await reporter.take())["header"]["traceparent"] == SPAN


async def test_another_span_is_no_other_request(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.sail(1, dedup_key="k", traceparent=SPAN)
    first = (await client.hear("ACK"))["body"]
    await client.sail(1, dedup_key="k", traceparent=SPAN.replace("b7", "c7"))
    while (again := await client.hear())["header"]["msg_type"] != "ACK":
        pass
    assert (again["body"]["task_id"], again["body"]["duplicate"]) == (first["task_id"], True)


@pytest.mark.parametrize("odd", ["nonsense", f"{SPAN}\n", SPAN.upper(), f"01{SPAN[2:]}"])
def test_what_is_no_span_is_refused_at_every_door(odd: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="traceparent"):
        msgspec.convert({"capability": "Echo", "payload": "1", "traceparent": odd}, reach.Sail)
