"""What holds over every transport of REACH-RPC alike: socket, WebSocket, posts to an address, a link in memory."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tallystick.app.ports import Envelope
from tallystick.core.events import TaskProgressed, Text
from tallystick.core.offers import Offer
from tallystick.edge.spoke import SpokeTransport, callback
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.carried import Carried, Terms, Turn
from tallystick.edge.spoke.guard import Guard
from tallystick.testing import check_transport
from tests import build
from tests.support import ends
from tests.support.ends import ENDS, LONG, PATIENCE, End, Haven, Lost

KINDS = sorted(ENDS)
LASTING = [kind for kind in KINDS if kind != "posted"]
"""Those that are a connection: it can be lost, and clients may use it."""
SPAN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def haven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Haven]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        monkeypatch.setattr(ends, "PORT", sock.getsockname()[1])
    allowed = (f"http://127.0.0.1:{ends.PORT}",)
    async with Haven(tmp_path / "home", listen=True, callbacks=allowed, retry_seconds=(0.05, 0.05)) as haven:
        yield haven


@pytest.fixture
async def client(haven: Haven) -> End:
    return await haven.end("memory")


async def outcome(client: End, msg_id: str) -> dict[str, Any]:
    """What a message ends with; what is told before it is passed over."""
    while True:
        frame = await client.hear()
        kind, body = frame["header"]["msg_type"], frame["body"]
        if frame["header"]["msg_id"] == msg_id and (kind == "RESULT" or (kind == "FAIL" and not body.get("of"))):
            return {"kind": kind, **body}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_goes_through_every_step_and_its_result_comes_back(
    haven: Haven, client: End, kind: str
) -> None:
    spoke = await haven.end(kind)
    ack = await spoke.anchor()
    assert ack["of"] == "ANCHOR"
    assert ack["heartbeat_seconds"] == 15.0
    msg_id = await client.sail({"n": [1, "é"]}, context={"goal": "g"})
    sailed = (await client.hear("ACK"))["body"]
    assert (sailed["of"], sailed["promise"]) == ("SAIL", "live")
    sail = await spoke.begin()
    assert sail["header"]["msg_id"] == msg_id
    assert sail["header"]["target_capability"] == "Echo"
    assert (sail["body"]["payload"], sail["body"]["context"]) == ({"n": [1, "é"]}, {"goal": "g"})
    assert sail["body"]["task_id"] == sailed["task_id"]
    assert (sail["body"]["workspace"], sail["body"]["attempt"]) == (ack["workspace"], 1)
    assert (await client.hear("BEGIN"))["body"] == {"task_id": sailed["task_id"]}
    await spoke.about(sail, "PROGRESS", text="half", fraction=0.5)
    told = (await client.hear("PROGRESS"))["body"]
    assert (told["text"], told["fraction"]) == ("half", 0.5)
    await spoke.about(sail, "RESULT", payload={"back": 1}, digest="d")
    assert (await spoke.hear("ACK"))["body"] == {"of": "RESULT", "delivery": sail["body"]["delivery"]}
    result = await client.hear("RESULT")
    assert result["body"] == {"task_id": sailed["task_id"], "payload": {"back": 1}, "spoke": "echo-1"}
    assert result["header"]["trace_id"] == sailed["trace_id"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_span_of_the_sender_goes_to_the_spoke_and_back_with_what_is_told(haven: Haven, kind: str) -> None:
    spoke, client = await haven.end(kind), await haven.end("memory" if kind == "posted" else kind)
    await spoke.anchor()
    await client.sail(1, traceparent=SPAN)
    await client.hear("ACK")
    sail = await spoke.begin()
    assert sail["header"]["traceparent"] == SPAN
    await spoke.about(sail, "RESULT", payload=2)
    assert [(await client.hear(told))["header"]["traceparent"] for told in ("BEGIN", "RESULT")] == [SPAN, SPAN]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_message_refers_to_is_named_and_read_part_by_part(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    words = bytes(range(256)) * 1025
    digest = haven.desk.s.blobs.put(words)
    await client.sail(1, context={"goal": "g", "references": [f"blob:{digest}", "https://example.org/x"]})
    await client.hear("ACK")
    sail = await spoke.begin()
    blob = {"kind": "blob", "text": f"blob:{digest}", "sha256": digest, "size": len(words)}
    assert sail["body"]["references"] == [blob, {"kind": "external", "text": "https://example.org/x"}]
    assert sail["body"]["context"] == {"goal": "g"}
    parts = b""
    for is_last in (False, True):
        asked = await spoke.fetch(sail, 0, len(parts))
        answer = await spoke.hear("ACK")
        body = answer["body"]
        assert (answer["header"]["msg_id"], body["of"]) == (asked, "FETCH")
        assert (body["size"], body["sha256"], body.get("more", False)) == (len(words), digest, not is_last)
        parts += base64.b64decode(body["bytes"])
    assert parts == words
    for index, code in ((1, "unsupported"), (2, "not_found")):
        asked = await spoke.fetch(sail, index)
        refused = await spoke.hear("FAIL")
        assert (refused["header"]["msg_id"], refused["body"]["code"]) == (asked, code)
    await spoke.about(sail, "RESULT", payload=1)
    assert (await spoke.hear("ACK"))["body"]["of"] == "RESULT"
    await spoke.fetch(sail, 0)
    assert (await spoke.hear("FAIL"))["body"]["code"] == "not_found", "it is not in hand any more"


@pytest.mark.parametrize("kind", LASTING)
async def test_a_client_may_reach_over_it(haven: Haven, kind: str) -> None:
    spoke, client = await haven.end("memory"), await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail(1)
    assert (await client.hear("ACK"))["header"]["msg_id"] == msg_id
    await spoke.about(await spoke.begin(), "RESULT", payload=2)
    assert (await outcome(client, msg_id))["payload"] == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_that_fails_fails_the_message_with_its_words(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.begin()
    await spoke.about(sail, "FAIL", code="failed", message="No such file.", began=True)
    assert (await spoke.hear("ACK"))["body"]["of"] == "FAIL"
    ended = await outcome(client, msg_id)
    assert ended["kind"] == "FAIL"
    assert "No such file." in ended["message"]
    assert ended["link"] == "SUNSET"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_said_twice_counts_once_and_is_acknowledged_twice(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.begin()
    await spoke.about(sail, "BEGIN")
    assert (await spoke.hear("ACK"))["body"]["of"] == "BEGIN"
    await spoke.about(sail, "RESULT", payload=1)
    assert (await spoke.hear("ACK"))["body"]["of"] == "RESULT"
    await spoke.about(sail, "RESULT", payload=1)
    assert (await spoke.hear("ACK"))["body"]["of"] == "RESULT"
    assert (await outcome(client, msg_id))["payload"] == 1
    shown = await haven.desk.show(await haven.person(), sail["body"]["task_id"])
    assert [line.what for line in shown.history].count("handed in") == 1, shown.history


@pytest.mark.parametrize("kind", KINDS)
async def test_a_spoke_that_says_no_is_asked_again_or_another_is(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.hear("SAIL")
    await spoke.about(sail, "FAIL", code="unavailable", message="Full.", of="SAIL", fence=None)
    again = await spoke.begin()
    assert again["body"]["delivery"] == sail["body"]["delivery"]
    assert again["body"]["fence"] > sail["body"]["fence"]
    await spoke.about(again, "RESULT", payload=1)
    assert (await outcome(client, msg_id))["kind"] == "RESULT"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_begin_of_an_earlier_attempt_is_refused(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    await client.sail()
    sail = await spoke.hear("SAIL")
    await spoke.about(sail, "FAIL", code="unavailable", of="SAIL", fence=None)
    again = await spoke.take()
    await spoke.about(again, "BEGIN", fence=sail["body"]["fence"])
    refused = (await spoke.hear("FAIL"))["body"]
    assert (refused["code"], refused["of"]) == ("conflict", "BEGIN")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancel_reaches_the_handler_and_is_confirmed_by_it(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.begin()
    await haven.desk.cancel(await haven.person(), sail["body"]["task_id"])
    assert (await spoke.hear("RETREAT"))["body"]["delivery"] == sail["body"]["delivery"]
    await spoke.about(sail, "FAIL", code="canceled", message="Stopped.", began=True)
    assert (await outcome(client, msg_id))["code"] == "canceled"


@pytest.mark.parametrize("kind", KINDS)
async def test_heartbeats_are_acknowledged_and_a_drained_spoke_gets_nothing_new(
    haven: Haven, client: End, kind: str
) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    await spoke.say("HEARTBEAT", {"load": {"Echo": {"running": 0, "queued": 3}}}, source_spoke="echo-1")
    assert (await spoke.hear("ACK"))["body"] == {"of": "HEARTBEAT"}
    await spoke.say("DRAIN", source_spoke="echo-1")
    assert (await spoke.hear("ACK"))["body"] == {"of": "DRAIN"}
    other = await haven.end("memory")
    await other.anchor("echo-2")
    for _ in range(3):
        await client.sail()
        await other.about(await other.begin(), "RESULT", payload=1)
        await other.hear("ACK")
    assert spoke.came.empty()


async def test_a_posted_to_spoke_that_drained_is_offline_once_its_last_message_is_settled(
    haven: Haven, client: End
) -> None:
    async def status() -> str:
        (route,) = (await haven.desk.routes(await haven.person())).routes
        return str(route.status)

    async def says(kind: str) -> None:
        await spoke.say(kind, source_spoke="echo-1")
        assert (await spoke.hear("ACK"))["body"] == {"of": kind}

    spoke = await haven.end("posted")
    await spoke.anchor()
    await client.sail()
    sail = await spoke.begin()
    await says("DRAIN")
    assert await status() == "draining"
    await spoke.about(sail, "RESULT", payload=1)
    await spoke.hear("ACK")
    assert await status() == "offline"
    for kind in ("HEARTBEAT", "DRAIN"):
        await says(kind)
        assert await status() == "offline"
    await spoke.anchor()
    assert await status() == "online"
    await says("DRAIN")
    assert await status() == "offline"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unknown_frame_is_refused_and_the_connection_lives_on(haven: Haven, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await spoke.say("PUSH", source_spoke="echo-1")
    refused = await spoke.hear("FAIL")
    assert (refused["header"]["msg_id"], refused["body"]["code"]) == (msg_id, "unsupported")
    await spoke.say("HEARTBEAT", source_spoke="echo-1")
    await spoke.hear("ACK")


@pytest.mark.parametrize("kind", LASTING)
async def test_another_version_is_refused_and_ends_the_connection(haven: Haven, kind: str) -> None:
    end = await haven.end(kind)
    await end.say("HEARTBEAT", proto_version=2)
    assert "version 1" in (await end.hear("FAIL"))["body"]["message"]
    with pytest.raises(Lost):
        await end.hear()


@pytest.mark.parametrize("kind", KINDS)
async def test_what_waits_is_handed_over_when_a_holder_comes_back(haven: Haven, client: End, kind: str) -> None:
    first = await haven.end("memory")
    await first.anchor()
    await first.close()
    msg_id = await client.sail()
    await client.hear("ACK")
    spoke = await haven.end(kind)
    await spoke.anchor(process="2@2")
    await spoke.about(await spoke.begin(), "RESULT", payload=1)
    assert (await outcome(client, msg_id))["kind"] == "RESULT"


@pytest.mark.parametrize("kind", LASTING)
async def test_a_message_that_was_not_begun_goes_to_another_when_its_spoke_is_lost(
    haven: Haven, client: End, kind: str
) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    await spoke.take()
    other = await haven.end("memory")
    await other.anchor("echo-2")
    await spoke.close()
    again = await other.begin()
    assert again["body"]["attempt"] == 2
    await other.about(again, "RESULT", payload=2)
    assert (await outcome(client, msg_id))["payload"] == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_spoke_that_does_not_answer_in_the_time_of_the_message_is_passed_over(
    haven: Haven, client: End, kind: str
) -> None:
    spoke, other = await haven.end(kind), await haven.end("memory")
    await spoke.anchor(offer={"weight": 1000})
    await other.anchor("echo-2")
    msg_id = await client.sail(ack_timeout_ms=1000)
    unanswered = await spoke.hear("SAIL")
    assert (await spoke.hear("RETREAT"))["body"]["delivery"] == unanswered["body"]["delivery"]
    again = await other.begin()
    assert again["body"]["attempt"] == 2
    await other.about(again, "RESULT", payload=2)
    assert (await outcome(client, msg_id))["payload"] == 2


@pytest.mark.parametrize("ack_timeout_ms", [-1, 2**60, 31 * 86_400_000, "soon"])
async def test_a_time_to_answer_that_is_none_is_refused(client: End, ack_timeout_ms: Any) -> None:
    await client.sail(ack_timeout_ms=ack_timeout_ms)
    assert (await client.hear("FAIL"))["body"]["code"] == "invalid"


@pytest.mark.parametrize("kind", LASTING)
async def test_what_was_begun_by_a_lost_spoke_is_unverified_until_it_is_back_with_the_result(
    haven: Haven, client: End, kind: str
) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.begin()
    other = await haven.end("memory")
    await other.anchor("echo-2")
    await spoke.close()
    while (told := await client.hear())["header"]["msg_type"] != "PROGRESS":
        pass
    assert "lost sight of it" in told["body"]["text"], "and whoever waits goes on waiting"
    back = await haven.end(kind)
    held = [{"delivery": sail["body"]["delivery"], "fence": sail["body"]["fence"], "state": "done"}]
    ack = await back.anchor(process="2@2", held=held)
    assert ack["resume"] == [{"delivery": sail["body"]["delivery"], "do": "resend"}]
    await back.about(sail, "RESULT", payload=3)
    assert (await back.hear("ACK"))["body"]["of"] == "RESULT"
    assert (await outcome(client, msg_id))["payload"] == 3
    assert other.came.empty()


@pytest.mark.parametrize("kind", LASTING)
async def test_an_idempotent_capability_is_given_to_another_when_its_spoke_is_lost(
    haven: Haven, client: End, kind: str
) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor(offer={"idempotent": True})
    msg_id = await client.sail()
    sail = await spoke.begin()
    other = await haven.end("memory")
    await other.anchor("echo-2", offer={"idempotent": True})
    await spoke.close()
    await other.about(await other.begin(), "RESULT", payload=2)
    assert (await outcome(client, msg_id))["payload"] == 2
    back = await haven.end(kind)
    held = [{"delivery": sail["body"]["delivery"], "fence": sail["body"]["fence"], "state": "running"}]
    assert (await back.anchor(process="2@2", held=held))["resume"][0]["do"] == "drop"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_second_process_of_a_spoke_that_is_connected_is_refused(haven: Haven, kind: str) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor()
    second = await haven.end(kind)
    given = {"spoke_id": "echo-1", "store": "s2", "incarnation": "2@2", "capabilities": [], **second.registers()}
    await second.say("ANCHOR", given)
    assert (await second.hear("FAIL"))["body"]["code"] == "conflict"
    await spoke.say("HEARTBEAT")
    await spoke.hear("ACK")


async def test_of_two_processes_that_register_under_one_id_at_once_one_is_refused(haven: Haven) -> None:
    for name in ("new-1", "new-2", "new-2"):
        both = [await haven.end("memory"), await haven.end("unix")]
        for number, spoke in enumerate(both):
            spoke.name = name
            given = {"spoke_id": name, "store": f"s{number}", "incarnation": f"{number}@1", "capabilities": []}
            await spoke.say("ANCHOR", given, source_spoke=name)
        kinds = sorted([(await spoke.hear())["header"]["msg_type"] for spoke in both])
        assert kinds == ["ACK", "FAIL"]
        for spoke in both:
            await spoke.close()
        async with asyncio.timeout(PATIENCE):
            while haven.hub.spokes:  # noqa: ASYNC110 - the host notices it meanwhile
                await asyncio.sleep(0)


@pytest.mark.parametrize("kind", LASTING)
async def test_a_connection_that_registered_twice_leaves_its_name_free(haven: Haven, kind: str) -> None:
    spoke = await haven.end(kind)
    await spoke.anchor(store="s1")
    await spoke.anchor(store="s2")
    assert len(haven.hub.spokes) == 1
    await spoke.close()
    other = await haven.end("memory")
    async with asyncio.timeout(PATIENCE):
        while haven.hub.spokes:  # noqa: ASYNC110 - the host notices it meanwhile
            await asyncio.sleep(0)
    assert (await other.anchor(store="s3", process="2@2"))["of"] == "ANCHOR"


@pytest.mark.parametrize("kind", LASTING)
async def test_the_same_message_again_is_the_same_and_gets_its_outcome(haven: Haven, client: End, kind: str) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor()
    first = await haven.end(kind)
    msg_id = await first.sail({"a": 1}, dedup_key="k-1")
    task = (await first.hear("ACK"))["body"]["task_id"]
    sail = await spoke.begin()
    await first.close()
    again = await haven.end(kind)
    await again.sail({"a": 1}, dedup_key="k-1", msg_id=msg_id)
    ack = (await again.hear("ACK"))["body"]
    assert (ack["task_id"], ack["duplicate"]) == (task, True)
    await spoke.about(sail, "RESULT", payload=1)
    assert (await outcome(again, msg_id))["payload"] == 1
    await again.sail({"a": 1}, dedup_key="k-1", msg_id=msg_id)
    assert (await outcome(again, msg_id))["duplicate"]
    await again.sail({"a": 2}, dedup_key="k-1")
    assert (await again.hear("FAIL"))["body"]["code"] == "conflict"


@pytest.mark.parametrize("kind", LASTING)
async def test_a_message_is_taken_back_before_it_begins_and_not_after(haven: Haven, kind: str) -> None:
    spoke, client = await haven.end("memory"), await haven.end(kind)
    await spoke.anchor()
    msg_id = await client.sail()
    await client.hear("ACK")
    sail = await spoke.take()
    await client.say("RETREAT", msg_id=msg_id)
    assert (await client.hear("ACK"))["body"]["of"] == "RETREAT"
    await spoke.hear("RETREAT")
    await spoke.about(sail, "BEGIN")
    assert (await spoke.hear("FAIL"))["body"]["code"] == "conflict"
    await spoke.begin()
    await client.hear("BEGIN")
    await client.say("RETREAT", msg_id=msg_id)
    assert (await client.hear("FAIL"))["body"]["code"] == "conflict"


def handed(spoke: End, session: str, number: int) -> Envelope:
    """A delivery to that spoke which no record knows of."""
    world = build.World()
    world.count += 100 * number
    work = world.work[world.leased()]
    delivery = work.deliveries[-1]
    task = replace(work.task, capability="Echo", session=session)
    agent = replace(
        world.directory.agents[build.RUNNER], alias=spoke.name, connection="spoke", offers=(Offer(name="Echo"),)
    )
    return Envelope(
        delivery_id=delivery.delivery_id,
        task_id=task.task_id,
        intent_id=delivery.intent_id,
        session=session,
        fence=task.fence,
        agent=agent,
        work=replace(work, task=task),
        text=Text(title="Echo", body='{"n": 1}'),
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_the_transport_of_spokes_keeps_the_contract_of_all_transports(haven: Haven, kind: str) -> None:
    spoke = await haven.end(kind)
    session = (await spoke.anchor())["session"]
    quick, endless = handed(spoke, session, 1), handed(spoke, session, 2)

    async def answers() -> None:
        while True:
            frame = await spoke.hear()
            if frame["header"]["msg_type"] == "SAIL":
                await spoke.about(frame, "BEGIN")
            elif frame["header"]["msg_type"] == "RETREAT":
                told = {"delivery": frame["body"]["delivery"], "fence": endless.fence, "code": "canceled"}
                await spoke.say("FAIL", told, msg_id=frame["header"]["msg_id"], source_spoke=spoke.name)
            elif frame["body"] == {"of": "BEGIN", "delivery": quick.delivery_id}:
                told = {"delivery": quick.delivery_id, "fence": quick.fence, "payload": 1}
                await spoke.say("RESULT", told, msg_id=frame["header"]["msg_id"], source_spoke=spoke.name)

    answering = asyncio.create_task(answers())
    await check_transport(lambda: SpokeTransport(haven.hub), quick, endless)
    answering.cancel()


@pytest.mark.parametrize("kind", LASTING)
async def test_nobody_there_is_told_at_once(haven: Haven, kind: str) -> None:
    client = await haven.end(kind)
    await client.sail(capability="Nothing")
    refused = (await client.hear("FAIL"))["body"]
    assert (refused["code"], refused["of"]) == ("no_route", "SAIL")


@pytest.mark.parametrize("turns", [(), (Turn.LOST,), (Turn.LOST, Turn.ENDED), (Turn.ENDED,)])
async def test_a_message_that_a_slow_spoke_does_not_get_is_held_no_longer_than_its_time_and_connection(
    haven: Haven, turns: tuple[Turn, ...]
) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor()
    sending = asyncio.Event()

    async def send(frame: f.Frame) -> None:
        if frame.header.msg_type == "SAIL":
            sending.set()
            await asyncio.Event().wait()

    async def right(*_: bytes) -> str:
        return ""

    async def never(*_: Any) -> bool:
        raise AssertionError("it has not begun")

    sail = f.frame("SAIL", "msg_1", f.Nothing())
    bounded = None if turns else 0.01
    terms = Terms(
        sail=sail, ack_seconds=LONG, sail_seconds=bounded, begin_seconds=LONG, check_payload=right, check_result=right
    )
    carried = Carried(handed(spoke, "ses_1", 3), terms, send, never, never)
    carrying = asyncio.create_task(carried.carry())
    async with asyncio.timeout(PATIENCE):
        await sending.wait()
        for turn in turns:
            carried.hear(turn)
        receipt = await carrying
    assert receipt.outcome == ("ended" if turns == (Turn.ENDED,) else "returned")


async def test_a_post_whose_answer_drips_in_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(drips, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/frames"
    poster = callback.Poster(Guard((url.removesuffix("/frames"),)), lambda: 0.0)
    monkeypatch.setattr(callback, "POST_SECONDS", 0.3)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ConnectionError, match="could not be posted to: TimeoutError"):
            await poster.post(url, "s", f.frame("DRAIN", "msg_1", f.Nothing()))
    await poster.close()
    server.close()


class Posted:
    """A spoke's address: each post waits for its answer until the test gives it."""

    def __init__(self) -> None:
        self.answers, self.has_its_share = asyncio.Event(), asyncio.Event()
        self.came: list[str] = []

    async def open(self) -> str:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(line for line in head.decode().lower().split("\r\n") if line.startswith("content-length: "))
        body = json.loads(await reader.readexactly(int(size.partition(": ")[2])))
        self.came.append(body["header"]["msg_id"])
        if len(self.came) == callback.SHARE:
            self.has_its_share.set()
        await self.answers.wait()
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()


async def test_a_spoke_that_answers_no_post_holds_up_no_other_and_gets_later_what_it_is_owed(
    haven: Haven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callback, "POST_SECONDS", 10 * PATIENCE)
    slow, other = Posted(), Posted()
    urls = [await slow.open(), await other.open()]
    poster = callback.Poster(Guard(urls), lambda: 0.0)
    to_slow, to_other = (callback.CallbackLine(haven.facts, poster, f"{url}/frames") for url in urls)
    owed = [f"msg_{number}" for number in range(250)]  # more than the host has connections
    async with asyncio.timeout(2 * PATIENCE), asyncio.TaskGroup() as posts:
        for msg_id in owed:
            posts.create_task(to_slow.frame(f.frame("DRAIN", msg_id, f.Nothing())))
        await slow.has_its_share.wait()
        other.answers.set()
        await to_other.frame(f.frame("DRAIN", "msg_other", f.Nothing()))
        assert (len(slow.came), other.came) == (callback.SHARE, ["msg_other"])
        slow.answers.set()
    assert sorted(slow.came) == sorted(owed)
    await poster.close()
    slow.server.close()
    other.server.close()


async def test_progress_that_comes_faster_than_it_is_worth_is_recorded_as_the_newest_and_cut(
    haven: Haven, client: End
) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor()
    msg_id = await client.sail()
    task_id = (await client.hear("ACK"))["body"]["task_id"]
    sail = await spoke.begin()
    for number in range(500):
        await spoke.about(sail, "PROGRESS", text=f"{number} " + "w" * 20_000)
    await spoke.about(sail, "RESULT", payload=1)
    assert (await outcome(client, msg_id))["payload"] == 1
    history = await haven.desk.s.store.load(task_id)
    words = [r.event.text.body for r in history if isinstance(r.event, TaskProgressed)]
    assert words[-1].startswith("499 ")
    assert len(words) < 50
    assert {len(text) for text in words} == {4096}


@pytest.mark.parametrize("code", ["no_route", "offline", "timeout"])
async def test_what_a_handler_met_itself_is_not_told_as_what_its_message_met(
    haven: Haven, client: End, code: str
) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.begin()
    await spoke.about(sail, "FAIL", code=code, message="Nobody offers Other.", began=True)
    told = await outcome(client, msg_id)
    assert (told["code"], "Nobody offers Other." in told["message"]) == ("failed", True)
