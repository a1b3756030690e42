"""A spoke in its daily work: all kinds of handlers, taking back, being busy, leaving, and a hub that misbehaves."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick import Capability, ReachMessage, ReachRefused, Spoke
from tallystick.sdk.errors import reach_error
from tallystick.sdk.failure import TEXT
from tallystick.sdk.frames import frame
from tests.support.reach import ScriptedHub
from tests.support.spans import spans


@pytest.fixture
def hub() -> ScriptedHub:
    return ScriptedHub()


@pytest.fixture
async def started(hub: ScriptedHub, tmp_path: Path) -> Any:
    """Starts a spoke with handlers by capability, each with what its Capability is given."""
    spokes: list[Spoke] = []

    async def start(handler: Any, **given: Any) -> Spoke:
        spoke = Spoke("s-1", [Capability("Do", **given)], {"Do": handler}, store=tmp_path / "s.db", link=hub.dial)
        spokes.append(spoke)
        await spoke.start()
        return spoke

    yield start
    for spoke in spokes:
        await spoke.stop()


# --- handlers -----------------------------------------------------------------------------------------------------


class Caller:
    async def __call__(self, message: ReachMessage) -> Any:
        return message.payload


async def coroutine(message: ReachMessage) -> Any:
    return message.payload


async def with_more(more: int, message: ReachMessage) -> Any:
    return message.payload


@pytest.mark.parametrize(
    "handler",
    [
        coroutine,
        lambda message: message.payload,
        lambda message: coroutine(message),
        Caller(),
        functools.partial(with_more, 1),
    ],
    ids=["coroutine", "function", "function of a coroutine", "object", "partial"],
)
async def test_every_kind_of_handler_is_called(hub: ScriptedHub, started: Any, handler: Any) -> None:
    await started(handler)
    await hub.deliver("Do", {"a": [1, None, "ü"]})
    assert (await hub.got("RESULT"))["body"]["payload"] == {"a": [1, None, "ü"]}


async def test_a_handler_sees_what_the_host_knows_of_its_message(hub: ScriptedHub, started: Any) -> None:
    seen: list[ReachMessage] = []

    async def handle(message: ReachMessage) -> None:
        seen.append(message)

    await started(handle)
    sent = await hub.deliver(
        "Do", 1, dedup_key="k", timeout_ms=5000, attempt=3, fence=7, caller="agt_1", deadline_at=1234.5,
        context={"goal": "all of it", "conclusions": ["one"], "from a later version": 1},
    )  # fmt: skip
    assert (await hub.got("RESULT"))["body"]["payload"] is None
    message = seen[0]
    assert message.msg_id == sent["header"]["msg_id"]
    assert (message.task_id, message.trace_id) == (sent["body"]["task_id"], "trc_1")
    assert (message.attempt, message.caller, message.deadline_at) == (3, "agt_1", 1234.5)
    assert (message.header.dedup_key, message.header.timeout_ms) == ("k", 5000)
    assert (message.context.goal, message.context.conclusions) == ("all of it", ("one",))


@pytest.mark.parametrize("is_thread", [True, False])
async def test_what_a_handler_raises_is_told_without_its_stack(
    hub: ScriptedHub, started: Any, caplog: pytest.LogCaptureFixture, is_thread: bool
) -> None:
    def broken(_: ReachMessage) -> None:
        raise ValueError("no such file")

    async def broken_too(message: ReachMessage) -> None:
        broken(message)

    await started(broken if is_thread else broken_too)
    await hub.deliver("Do", 1)
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["message"], failed["began"]) == ("failed", "ValueError: no such file", True)
    assert "Traceback" not in str(failed)
    assert any(record.exc_info for record in caplog.records if record.name == "tallystick.sdk")


async def test_a_handler_may_refuse_with_a_code(hub: ScriptedHub, started: Any) -> None:
    async def handle(_: ReachMessage) -> None:
        raise ReachRefused("denied", "Not this file.", "Ask for another.")

    await started(handle)
    await hub.deliver("Do", 1)
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["message"]) == ("denied", "Not this file.")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


INNER = {"msg_id": "msg_inner"}
ITSELF = "the handler raised it, or awaited what was cancelled; nobody cancelled the message"
RAISED = [
    (ValueError("a\udcffb"), "failed", "ValueError: a?b"),
    (StopIteration(), "failed", "StopIteration"),
    (SystemExit(3), "failed", "SystemExit: 3"),
    (SystemExit(), "failed", "SystemExit"),
    (asyncio.CancelledError(), "failed", f"CancelledError: {ITSELF}"),
    (BaseException("bare"), "failed", "BaseException: bare"),
    (BaseExceptionGroup("all", [SystemExit(1)]), "failed", "BaseExceptionGroup: all (1 sub-exception)"),
    (Mute(), "failed", "Mute"),
    (ReachRefused("denied", "a\udcffb"), "denied", "a?b"),
    (ReachRefused("", "no code"), "failed", "ReachRefused: no code"),
    (ReachRefused(7, "a number"), "failed", "ReachRefused: a number"),  # type: ignore[arg-type]
    (ReachRefused("x" * 300, "long"), "failed", "ReachRefused: long"),
    (ReachRefused("canceled", "taken back"), "failed", "ReachRefused: taken back"),
    (reach_error("no_route", "Nobody.", **INNER), "failed", "ReachNoRoute: Nobody."),
    (reach_error("offline", "Away."), "failed", "ReachOffline: Away."),
    (reach_error("unverified", "Who knows.", **INNER), "failed", "ReachUnverified: Who knows."),
    (reach_error("denied", "Not to you.", **INNER), "failed", "ReachRefused: Not to you."),
]


@pytest.fixture
def traced() -> None:
    """Spans are recorded, which looks at what is raised too."""
    spans().clear()


@pytest.fixture
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is logged is captured, and a worker of the test run cannot send a lone surrogate on."""
    monkeypatch.setattr(logging.getLogger("tallystick.sdk"), "disabled", True)


@pytest.mark.usefixtures("unlogged", "traced")
@pytest.mark.parametrize(("raised", "code", "text"), RAISED)
async def test_whatever_a_thread_raises_fails_its_message_alone(
    hub: ScriptedHub, started: Any, raised: BaseException, code: str, text: str
) -> None:
    def handle(message: ReachMessage) -> str:
        if message.payload == "bad":
            raise raised
        return "good"

    await started(handle)
    await hub.deliver("Do", "bad")
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["message"], failed["began"]) == (code, text, True)
    await hub.deliver("Do", "next")
    assert (await hub.got("RESULT"))["body"]["payload"] == "good"


@pytest.mark.usefixtures("unlogged", "traced")
@pytest.mark.parametrize(("raised", "code", "text"), RAISED)
async def test_whatever_a_coroutine_raises_fails_its_message_alone(
    hub: ScriptedHub, started: Any, raised: BaseException, code: str, text: str
) -> None:
    async def handle(message: ReachMessage) -> str:
        if message.payload == "bad":
            raise raised
        return "good"

    await started(handle)
    await hub.deliver("Do", "bad")
    failed = (await hub.got("FAIL"))["body"]
    text = "RuntimeError: coroutine raised StopIteration" if text == "StopIteration" else text
    assert (failed["code"], failed["message"], failed["began"]) == (code, text, True)
    await hub.deliver("Do", "next")
    assert (await hub.got("RESULT"))["body"]["payload"] == "good"


async def test_a_handler_that_awaits_what_was_cancelled_has_failed_and_was_not_called_off(
    hub: ScriptedHub, started: Any
) -> None:
    async def handle(_: ReachMessage) -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner

    await started(handle)
    await hub.deliver("Do", 1)
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["message"]) == ("failed", f"CancelledError: {ITSELF}")


@pytest.mark.parametrize("kind", [ValueError, lambda text: ReachRefused("denied", text)])
async def test_a_long_text_of_a_handler_is_told_without_its_middle(hub: ScriptedHub, started: Any, kind: Any) -> None:
    def handle(_: ReachMessage) -> None:
        raise kind("begin" + "x" * 100_000 + "end")

    await started(handle)
    await hub.deliver("Do", 1)
    text = (await hub.got("FAIL"))["body"]["message"]
    assert len(text) == TEXT
    assert "begin" in text
    assert text.endswith("xend")


@pytest.mark.parametrize(
    ("result", "words"),
    [(object(), "cannot be sent as JSON"), ({1, 2j}, "cannot be sent as JSON"), ("x" * 262_145, "at most 262144")],
)
async def test_a_result_that_cannot_be_sent_fails_and_says_why(
    hub: ScriptedHub, started: Any, result: Any, words: str
) -> None:
    async def handle(_: ReachMessage) -> Any:
        return result

    await started(handle)
    await hub.deliver("Do", 1)
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["began"]) == ("invalid", True)
    assert words in failed["message"]


async def test_progress_is_told_from_coroutines_and_threads(hub: ScriptedHub, started: Any) -> None:
    def handle(message: ReachMessage) -> None:
        message.report("half", 0.5)

    await started(handle)
    sent = await hub.deliver("Do", 1)
    body = (await hub.got("PROGRESS"))["body"]
    assert body == {"delivery": sent["body"]["delivery"], "fence": 1, "text": "half", "fraction": 0.5}


@pytest.mark.parametrize(("text", "fraction"), [("x" * 2001, None), (5, None), ("a", 1.5), ("a", float("nan"))])
async def test_progress_that_makes_no_sense_is_refused(
    hub: ScriptedHub, started: Any, text: Any, fraction: float | None
) -> None:
    async def handle(message: ReachMessage) -> None:
        await message.progress(text, fraction)

    await started(handle)
    await hub.deliver("Do", 1)
    assert (await hub.got("FAIL"))["body"]["code"] == "invalid"
    assert hub.count("PROGRESS") == 0


# --- how many at once ---------------------------------------------------------------------------------------------


class Gate:
    """A handler that counts how many of it run, and waits."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.open = asyncio.Event()

    async def __call__(self, message: ReachMessage) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        await self.open.wait()
        self.running -= 1
        return message.payload


async def test_no_more_handlers_run_than_the_capability_allows(hub: ScriptedHub, started: Any) -> None:
    gate = Gate()
    await started(gate, concurrency=2)
    for number in range(6):
        await hub.deliver("Do", number)
    await hub.until(lambda: gate.running == 2)
    gate.open.set()
    for _ in range(6):
        await hub.got("RESULT")
    assert gate.most == 2


async def test_plain_functions_run_beside_each_other_in_threads(hub: ScriptedHub, started: Any) -> None:
    together = threading.Barrier(3, timeout=20)
    await started(lambda _: together.wait() >= 0, concurrency=3)
    for number in range(3):
        await hub.deliver("Do", number)
    for _ in range(3):
        assert (await hub.got("RESULT"))["body"]["payload"] is True


async def test_a_full_queue_is_told_to_the_host_before_anything_began_and_nothing_is_dropped(
    hub: ScriptedHub, started: Any
) -> None:
    gate = Gate()
    await started(gate)
    await hub.deliver("Do", 0)
    await hub.until(lambda: gate.running == 1)
    for number in range(1, 20):
        await hub.deliver("Do", number)
    refused = [await hub.got("FAIL") for _ in range(3)]
    assert {one["body"]["code"] for one in refused} == {"unavailable"}
    assert {one["body"]["of"] for one in refused} == {"SAIL"}
    gate.open.set()
    done = [(await hub.got("RESULT"))["body"]["payload"] for _ in range(17)]
    assert done == list(range(17))


async def test_heartbeats_tell_how_busy_each_capability_is(hub: ScriptedHub, started: Any) -> None:
    hub.answers["ANCHOR"] = lambda found: [hub.ack(found, heartbeat_seconds=0.05)]
    gate = Gate()
    await started(gate, concurrency=2)
    for number in range(5):
        await hub.deliver("Do", number)
    await hub.got("HEARTBEAT", lambda found: found["body"]["load"] == {"Do": {"running": 2, "queued": 3}})
    gate.open.set()
    await hub.got("HEARTBEAT", lambda found: found["body"]["load"] == {"Do": {"running": 0, "queued": 0}})


async def test_a_host_that_answers_no_heartbeat_is_reached_anew(hub: ScriptedHub, started: Any) -> None:
    hub.answers["ANCHOR"] = lambda found: [hub.ack(found, heartbeat_seconds=0.05)]
    hub.answers["HEARTBEAT"] = lambda _: []
    await started(Gate())
    await hub.until(lambda: hub.links >= 2 and hub.count("ANCHOR") >= 2)


# --- taking back --------------------------------------------------------------------------------------------------


async def retreat(hub: ScriptedHub, sent: dict[str, Any], why: str = "the caller left") -> None:
    body = {"delivery": sent["body"]["delivery"], "why": why}
    await hub.send(frame("RETREAT", body, msg_id=sent["header"]["msg_id"]))


async def test_a_running_coroutine_is_cancelled_and_says_so(hub: ScriptedHub, started: Any) -> None:
    ended: list[str] = []

    async def handle(message: ReachMessage) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up" if message.is_canceled else "")

    await started(handle)
    sent = await hub.deliver("Do", 1)
    await hub.got("BEGIN")
    await asyncio.sleep(0)
    await retreat(hub, sent)
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["began"], failed["message"]) == ("canceled", True, "the caller left")
    assert ended in (["cleaned up"], [])


async def test_what_waits_for_a_slot_is_taken_back_without_having_begun(hub: ScriptedHub, started: Any) -> None:
    gate = Gate()
    await started(gate)
    first = await hub.deliver("Do", 1)
    second = await hub.deliver("Do", 2)
    await hub.until(lambda: hub.count("ACK") == 2)
    await retreat(hub, second)
    failed = (await hub.got("FAIL"))["body"]
    assert (failed["code"], failed["began"]) == ("canceled", False)
    gate.open.set()
    assert (await hub.got("RESULT"))["body"]["delivery"] == first["body"]["delivery"]
    assert hub.count("BEGIN") == 1


async def test_what_waits_for_the_answer_to_its_begin_is_taken_back_without_having_run(
    hub: ScriptedHub, started: Any
) -> None:
    gate = Gate()
    await started(gate)
    hub.answers["BEGIN"] = lambda _: []
    sent = await hub.deliver("Do", 1)
    begin = await hub.got("BEGIN")
    await retreat(hub, sent)
    assert (await hub.got("FAIL"))["body"]["began"] is False
    await hub.send(hub.ack(begin))
    del hub.answers["BEGIN"]
    gate.open.set()
    await hub.deliver("Do", 2)
    await hub.got("RESULT")
    assert gate.most == 1


async def test_a_thread_cannot_be_stopped_so_that_is_said_and_its_outcome_follows(
    hub: ScriptedHub, started: Any
) -> None:
    is_told, release = threading.Event(), threading.Event()

    def handle(message: ReachMessage) -> str:
        is_told.set()
        release.wait(20)
        return "canceled" if message.is_canceled else "not"

    await started(handle)
    sent = await hub.deliver("Do", 1)
    await hub.until(is_told.is_set)
    await retreat(hub, sent)
    assert "cannot be stopped" in (await hub.got("PROGRESS"))["body"]["text"]
    release.set()
    assert (await hub.got("RESULT"))["body"]["payload"] == "canceled"


async def test_a_late_retreat_gets_the_outcome_that_is_there(hub: ScriptedHub, started: Any) -> None:
    await started(coroutine)
    sent = await hub.deliver("Do", 1)
    first = await hub.got("RESULT")
    await retreat(hub, sent)
    assert await hub.got("RESULT") == first


async def test_a_retreat_of_something_unknown_is_answered_as_not_begun(hub: ScriptedHub, started: Any) -> None:
    await started(coroutine)
    await hub.send(frame("RETREAT", {"delivery": "dlv_none", "why": ""}, msg_id="msg_none"))
    failed = await hub.got("FAIL")
    assert (failed["header"]["msg_id"], failed["body"]["began"]) == ("msg_none", False)


async def test_a_handler_that_goes_on_after_it_was_cancelled_tells_its_result(hub: ScriptedHub, started: Any) -> None:
    runs = asyncio.Event()

    async def stubborn(_: ReachMessage) -> str:
        runs.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    await started(stubborn)
    sent = await hub.deliver("Do", 1)
    await runs.wait()
    await retreat(hub, sent)
    assert (await hub.got("RESULT"))["body"]["payload"] == "done all the same"


# --- leaving ------------------------------------------------------------------------------------------------------


async def test_drain_takes_nothing_new_and_ends_when_all_is_told(hub: ScriptedHub, started: Any) -> None:
    gate = Gate()
    spoke = await started(gate, concurrency=2)
    await hub.deliver("Do", 1)
    await hub.until(lambda: gate.running == 1)
    draining = asyncio.ensure_future(spoke.drain())
    await hub.got("DRAIN")
    await hub.deliver("Do", 2)
    assert (await hub.got("FAIL"))["body"]["code"] == "unavailable"
    assert not draining.done()
    gate.open.set()
    await draining
    assert hub.count("RESULT") == 1


async def test_a_host_that_is_there_anew_is_told_that_the_spoke_drains(hub: ScriptedHub, started: Any) -> None:
    gate = Gate()
    spoke = await started(gate)
    await hub.deliver("Do", 1)
    await hub.until(lambda: gate.running == 1)
    draining = asyncio.ensure_future(spoke.drain())
    await hub.got("DRAIN")
    hub.cut()
    await hub.until(lambda: hub.count("DRAIN") == 2)
    assert hub.links == 2
    gate.open.set()
    await draining


async def test_the_host_may_ask_for_a_drain(hub: ScriptedHub, started: Any) -> None:
    await started(coroutine)
    await hub.send(frame("DRAIN", {}))
    await hub.got("ACK")
    await hub.deliver("Do", 1)
    assert (await hub.got("FAIL"))["body"]["of"] == "SAIL"


async def test_after_a_drain_that_the_host_asked_for_the_ack_of_anchor_lets_it_take_again(
    hub: ScriptedHub, started: Any
) -> None:
    await started(coroutine)
    await hub.send(frame("DRAIN", {}))
    await hub.got("ACK")
    await hub.send(frame("ACK", {"of": "ANCHOR", "agent": "agt_1", "session": "ses_1"}))
    await hub.deliver("Do", 1)
    await hub.got("BEGIN")


async def test_the_host_does_not_undo_a_drain_that_the_program_asked_for(hub: ScriptedHub, started: Any) -> None:
    spoke = await started(coroutine)
    draining = asyncio.ensure_future(spoke.drain())
    await hub.got("DRAIN")
    await hub.send(frame("ACK", {"of": "ANCHOR", "agent": "agt_1", "session": "ses_1"}))
    await hub.deliver("Do", 1)
    assert (await hub.got("FAIL"))["body"]["of"] == "SAIL"
    await draining


async def test_stop_gives_back_what_waits_and_reports_what_it_cancelled(hub: ScriptedHub, started: Any) -> None:
    gate = Gate()
    spoke = await started(gate)
    running = await hub.deliver("Do", 1)
    waiting = await hub.deliver("Do", 2)
    await hub.until(lambda: gate.running == 1)
    await spoke.stop()
    told = {one["body"]["delivery"]: one["body"] for one in hub.heard if one["header"]["msg_type"] == "FAIL"}
    assert told[running["body"]["delivery"]]["code"] == "canceled"
    assert told[running["body"]["delivery"]]["began"] is True
    assert told[waiting["body"]["delivery"]]["code"] == "unavailable"
    assert told[waiting["body"]["delivery"]]["began"] is False
    await spoke.stop()


async def test_a_spoke_comes_back_by_itself_however_long_the_host_is_away(
    hub: ScriptedHub, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.sdk.channel.LONGEST_PAUSE", 0.02)
    await started(coroutine)
    hub.is_reachable = False
    hub.cut()
    for _ in range(20):
        await asyncio.sleep(0)
    hub.is_reachable = True
    await hub.until(lambda: hub.links == 2)
    await hub.got("ANCHOR")
    await hub.got("ANCHOR")
    await hub.deliver("Do", 1)
    await hub.got("RESULT")


async def test_what_only_waited_when_the_link_was_lost_is_left_to_the_host(hub: ScriptedHub, started: Any) -> None:
    gate = Gate()
    await started(gate)
    await hub.deliver("Do", 1)
    await hub.deliver("Do", 2)
    await hub.until(lambda: gate.running == 1 and hub.count("ACK") == 2)
    hub.cut()
    await hub.until(lambda: hub.count("ANCHOR") == 2)
    gate.open.set()
    await hub.got("RESULT")
    assert hub.count("BEGIN") == 1


# --- what is refused ----------------------------------------------------------------------------------------------


async def test_start_tells_why_the_host_refuses(hub: ScriptedHub, started: Any) -> None:
    hub.answers["ANCHOR"] = lambda found: [hub.fail(found, "conflict", "The spoke is connected already.")]
    with pytest.raises(ReachRefused, match="connected already") as caught:
        await started(coroutine)
    assert caught.value.code == "conflict"
    hub.answers["ANCHOR"] = hub.anchored
    await started(coroutine)  # and the store is free again


async def test_start_tells_that_nobody_answers(hub: ScriptedHub, started: Any) -> None:
    hub.is_reachable = False
    with pytest.raises(ReachRefused, match="cannot be reached") as caught:
        await started(coroutine)
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"header": {"proto_version": 1, "msg_id": "m", "msg_type": "WAVE"}, "body": {}}, "unsupported"),
        ({"header": {"proto_version": 1, "msg_id": "m", "msg_type": "SAIL", "extra": 1}, "body": {}}, "invalid"),
        ({"header": {"proto_version": 1, "msg_id": "m", "msg_type": "SAIL"}, "body": []}, "invalid"),
        ({"header": {"proto_version": 1, "msg_id": "m", "msg_type": "SAIL"}, "body": {"delivery": 5}}, "no_route"),
        ({"header": {"proto_version": "1", "msg_id": "m", "msg_type": "SAIL"}, "body": {}}, "invalid"),
        ({"header": {"proto_version": 1, "msg_id": "m", "msg_type": "SETTLE"}, "body": {}}, "unsupported"),
        ({"nothing": 1}, "invalid"),
    ],
)
async def test_a_frame_that_makes_no_sense_is_refused_and_the_link_lives_on(
    hub: ScriptedHub, started: Any, sent: Any, code: str
) -> None:
    await started(coroutine)
    await hub.send(sent)
    failed = await hub.got("FAIL")
    assert failed["body"]["code"] in (code, "invalid")
    await hub.deliver("Do", 1)
    await hub.got("RESULT")
    assert hub.links == 1


async def test_a_frame_of_another_version_ends_the_link(hub: ScriptedHub, started: Any) -> None:
    await started(coroutine)
    await hub.send({"header": {"proto_version": 2, "msg_id": "m", "msg_type": "SAIL"}, "body": {}})
    failed = await hub.got("FAIL")
    assert failed["body"]["code"] == "unsupported"
    await hub.until(lambda: hub.links == 2)


async def test_answers_that_nobody_waits_for_do_no_harm(hub: ScriptedHub, started: Any) -> None:
    await started(coroutine)
    for kind in ("ACK", "FAIL"):
        for of in ("BEGIN", "RESULT", "ANCHOR", "NOTHING"):
            await hub.send(frame(kind, {"of": of, "delivery": "dlv_none", "code": "conflict", "message": "lies"}))
    await hub.deliver("Do", 1)
    await hub.got("RESULT")
    assert hub.links == 1


async def test_a_capability_that_is_not_offered_is_no_route(hub: ScriptedHub, started: Any) -> None:
    await started(coroutine)
    await hub.deliver("Other", 1)
    assert (await hub.got("FAIL"))["body"]["code"] == "no_route"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"spoke_id": "Bad Id"}, "is no spoke_id"),
        ({"spoke_id": ""}, "is no spoke_id"),
        ({"capabilities": []}, "1 to 64 capabilities"),
        ({"capabilities": [Capability("Do"), Capability("Do", "2.0")]}, "each name once"),
        ({"capabilities": ["Do"]}, "is no Capability"),
        ({"handler_map": {}}, "'Do' has no handler"),
        ({"handler_map": {"Do": coroutine, "Else": coroutine}}, "'Else' is not among the capabilities"),
        ({"handler_map": {"Do": "text"}}, "cannot be called"),
        ({"hub_url": "ftp://x"}, "is no address of a host"),
        ({"hub_url": "http://10.1.2.3:80", "token": "t"}, "in the clear"),
        ({"hub_url": "https://hub.example"}, "There is no token"),
        ({"endpoint": "https://me.example/reach"}, "needs a hub_url"),
    ],
)
def test_a_spoke_that_makes_no_sense_is_refused_when_it_is_made(given: dict[str, Any], words: str) -> None:
    usual = {"spoke_id": "s-1", "capabilities": [Capability("Do")], "handler_map": {"Do": coroutine}}
    with pytest.raises(ReachRefused, match=words) as caught:
        Spoke(**{**usual, **given})
    assert caught.value.remedy


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""}, {"name": "a b"}, {"name": "x" * 64}, {"name": "A@1"}, {"name": "1st"}, {"version": "one"},
        {"version": "1"}, {"version": "01.0"}, {"version": "1.2.3.4"}, {"domain": "Bad Domain!"}, {"domain": 5},
        {"weight": 0}, {"weight": True}, {"concurrency": 65}, {"concurrency": 1.0}, {"schema": "text"},
        {"schema": 5},
    ],
)  # fmt: skip
def test_a_capability_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ReachRefused) as caught:
        Capability(**{"name": "Do", **given})
    assert caught.value.code == "invalid"


async def test_a_spoke_that_is_not_started_says_so(hub: ScriptedHub, tmp_path: Path) -> None:
    spoke = Spoke("s-1", [Capability("Do")], {"Do": coroutine}, store=tmp_path / "s.db", link=hub.dial)
    with pytest.raises(ReachRefused, match="is not started"):
        await spoke.drain()
    await spoke.stop()
    async with spoke:
        with pytest.raises(ReachRefused, match="is started already"):
            await spoke.start()


def test_outside_of_a_loop_the_error_says_what_to_do(tmp_path: Path) -> None:
    spoke = Spoke("s-1", [Capability("Do")], {"Do": coroutine}, store=tmp_path / "s.db", link=ScriptedHub().dial)
    with pytest.raises(ReachRefused, match="no running asyncio loop"):
        spoke.start().send(None)


async def test_a_fork_of_a_started_spoke_is_refused(
    hub: ScriptedHub, started: Any, caplog: pytest.LogCaptureFixture
) -> None:
    spoke = await started(coroutine)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            spoke._running._store.soon(lambda _: None)
        except ReachRefused as error:
            os.write(write, error.message.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
    assert b"of which this one is a fork" in os.read(read, 1000)
    os.close(read)
    await hub.deliver("Do", 1)
    await hub.got("RESULT")


async def test_a_directory_that_is_made_for_a_store_is_told_once(
    hub: ScriptedHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "new" / "s.db"
    for _ in range(2):
        async with Spoke("s-1", [Capability("Do")], {"Do": coroutine}, store=path, link=hub.dial):
            pass
    said = [one.message for one in caplog.records if "directory" in one.message]
    assert said == [f"The directory {path.parent} is made for the store of spoke s-1"]


def test_the_default_store_is_one_for_each_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tallystick.sdk.place import store_path

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TALLY_HOME", str(tmp_path / "one"))
    one = store_path("s-1", None)
    monkeypatch.setenv("TALLY_HOME", str(tmp_path / "two"))
    paths = {one, store_path("s-1", None), store_path("s-1", "https://hub.example"), store_path("s-2", None)}
    assert len(paths) == 4
    for same in ("https://hub.example/", "https://HUB.example:443"):
        assert store_path("s-1", same) in paths
    assert store_path("s-1", "http://localhost:8765") == store_path("s-1", "http://127.0.0.1:8765/")
    assert store_path("s-1", "https://hub.example:444") not in paths
    assert all(path.is_relative_to(tmp_path) and not path.is_relative_to(tmp_path / "one") for path in paths)


def test_each_standing_registration_has_a_name_of_its_own() -> None:
    from tallystick.sdk.place import anchor_name

    asked = [("team", "a-b"), ("team-a", "b"), ("team", "A-b"), ("team-a", "B"), ("te", "am-a-b"), ("team", "a_b")]
    names = [anchor_name(*one) for one in asked]
    assert len(set(names)) == len(asked)
    assert names == [anchor_name(*one) for one in asked]
    assert names[0] == "team-a-b"
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", name) for name in [*names, anchor_name("x" * 63, "Y" * 63)])
