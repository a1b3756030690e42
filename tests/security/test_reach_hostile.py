"""Hostile frames, tokens and addresses at the hub: each is refused with its reason, and what goes on goes on."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from tallystick.core.errors import Refused
from tallystick.edge.spoke.visit import AT_ONCE
from tests.support import ends
from tests.support.ends import PATIENCE, End, Haven, Lost, new_id
from tests.support.places import contents

HEAD = {"proto_version": 1, "msg_id": "msg_1", "msg_type": "HEARTBEAT"}
FRAMES: dict[str, bytes] = {
    "duplicate-key": b'{"header":{"proto_version":1,"msg_id":"m","msg_id":"n","msg_type":"DRAIN"},"body":{}}',
    "duplicate-in-payload": b'{"header":{"proto_version":1,"msg_id":"m","msg_type":"SAIL","target_capability":"E"},'
    b'"body":{"payload":{"a":1,"a":2}}}',
    "nan": b'{"header":{"proto_version":1,"msg_id":"m","msg_type":"SAIL","target_capability":"E"},'
    b'"body":{"payload":NaN}}',
    "deep": b'{"header":{"proto_version":1,"msg_id":"m","msg_type":"SAIL","target_capability":"E"},"body":{"payload":'
    + b"[" * 5000
    + b"]" * 5000
    + b"}}",
    "surrogate": b'{"header":{"proto_version":1,"msg_id":"m","msg_type":"SAIL","target_capability":"E"},'
    b'"body":{"payload":"\\ud800"}}',
    "no-object": b"[1]",
    "no-json": b"{",
}
BODIES: dict[str, dict[str, Any]] = {
    "true-for-a-number": {"header": {**HEAD, "msg_type": "BEGIN"}, "body": {"delivery": "d", "fence": True}},
    "text-for-a-number": {"header": {**HEAD, "msg_type": "BEGIN"}, "body": {"delivery": "d", "fence": "1"}},
    "huge-number": {"header": {**HEAD, "msg_type": "BEGIN"}, "body": {"delivery": "d", "fence": 2**70}},
    "unknown-field": {"header": {**HEAD, "admin": True}, "body": {}},
    "long-id": {"header": {**HEAD, "msg_id": "m" * 100_000}, "body": {}},
    "no-version": {"header": {"msg_id": "m", "msg_type": "DRAIN"}, "body": {}},
    "spoke-name-with-a-path": {
        "header": {**HEAD, "msg_type": "ANCHOR"},
        "body": {"spoke_id": "../x", "store": "s", "incarnation": "1", "capabilities": []},
    },
    "reserved-spoke-name": {
        "header": {**HEAD, "msg_type": "ANCHOR"},
        "body": {"spoke_id": "human", "store": "s", "incarnation": "1", "capabilities": []},
    },
    "odd-capability": {
        "header": {**HEAD, "msg_type": "ANCHOR"},
        "body": {"spoke_id": "x", "store": "s", "incarnation": "1", "capabilities": [{"name": "a b\x1b[2J"}]},
    },
    "odd-target": {"header": {**HEAD, "msg_type": "SAIL", "target_capability": "@human"}, "body": {}},
    "odd-reply": {
        "header": {**HEAD, "msg_id": "@", "msg_type": "SAIL", "target_capability": "Echo", "reply_to": "http://x/"},
        "body": {},
    },
    "settle-of-nothing": {"header": {**HEAD, "msg_type": "SETTLE", "trace_id": "trc_x"}, "body": {}},
    "retreat-of-nothing": {"header": {**HEAD, "msg_type": "RETREAT"}, "body": {}},
    "begin-without-a-spoke": {"header": {**HEAD, "msg_type": "BEGIN"}, "body": {"delivery": "d", "fence": 1}},
    "result-without-a-spoke": {
        "header": {**HEAD, "msg_type": "RESULT"},
        "body": {"delivery": "d", "fence": 1, "payload": 1},
    },
}


@pytest.fixture
async def haven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Haven]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        monkeypatch.setattr(ends, "PORT", sock.getsockname()[1])
    allowed = (f"http://127.0.0.1:{ends.PORT}",)
    async with Haven(tmp_path / "home", listen=True, callbacks=allowed, retry_seconds=(0.05,)) as haven:
        yield haven


async def lives(end: End) -> None:
    """The connection still serves."""
    msg_id = await end.say("RETREAT")
    while (await end.hear())["header"]["msg_id"] != msg_id:
        pass


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("kind", ["memory", "unix", "websocket"])
async def test_a_hostile_frame_is_refused_and_the_connection_lives_on(haven: Haven, kind: str, name: str) -> None:
    end = await haven.end(kind)
    await end.send(BODIES[name])
    refused = (await end.hear("FAIL"))["body"]
    assert refused["code"] not in ("internal", "")
    assert refused["message"]
    assert "Traceback" not in refused["message"]
    await lives(end)


@pytest.mark.parametrize("name", FRAMES)
async def test_hostile_json_over_a_websocket_is_refused_and_the_connection_lives_on(haven: Haven, name: str) -> None:
    end: Any = await haven.end("websocket")
    await end.send(FRAMES[name].decode())
    assert (await end.hear("FAIL"))["body"]["code"] == "invalid"
    await end.socket.send(b"\x00binary")
    assert (await end.hear("FAIL"))["body"]["code"] == "invalid"
    await lives(end)


TOLD = {"duplicate-key": "n", "duplicate-in-payload": "m", "no-object": ""}
"""Of a frame that is no strict JSON in a line that still tells its call: the message that the refusal names."""


async def test_hostile_json_over_the_socket_is_refused_and_the_link_lives_on(haven: Haven) -> None:
    end: Any = await haven.end("unix")
    for name, frame in FRAMES.items():
        end.writer.write(b'{"id":1,"frame":' + frame + b"}\n")
        if name in TOLD:
            refused = await end.hear("FAIL")
            assert (refused["header"]["msg_id"], refused["body"]["code"]) == (TOLD[name], "invalid"), name
        else:
            async with asyncio.timeout(PATIENCE):
                told = await end.errors.get()
            assert (told["id"], told["error"]["code"], bool(told["error"]["remedy"])) == (None, "invalid", True), name
        await lives(end)


@pytest.mark.parametrize("name", FRAMES)
async def test_hostile_json_that_is_posted_is_refused(haven: Haven, name: str) -> None:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {haven.token}"}) as client:
        headers = {"content-type": "application/json"}
        answer = await client.post(f"{haven.url}/reach/v1/frames", content=FRAMES[name], headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid"


async def test_a_frame_that_is_too_large_is_refused(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("unix")
    await spoke.anchor()
    await client.sail("x" * (256 * 1024))
    assert (await client.hear("FAIL"))["body"]["code"] == "invalid"
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {haven.token}"}) as posts:
        answer = await posts.post(f"{haven.url}/reach/v1/frames", json={"x": "x" * 3_000_000})
    assert answer.status_code in (400, 413)


async def test_a_spoke_cannot_speak_of_what_another_was_given(haven: Haven) -> None:
    spoke, thief, client = [await haven.end("memory") for _ in range(3)]
    await spoke.anchor()
    await thief.anchor("thief", capabilities=[{"name": "Other"}])
    msg_id = await client.sail()
    sail = await spoke.begin()
    for kind, body in (("RESULT", {"payload": "stolen"}), ("FAIL", {"code": "failed"}), ("BEGIN", {})):
        await thief.about(sail, kind, **body)
        assert (await thief.hear("FAIL"))["body"]["code"] == "conflict"
    await thief.about(sail, "PROGRESS", text="stolen")
    await spoke.about(sail, "RESULT", payload="mine")
    frames = [await client.hear() for _ in range(3)]
    assert [f["header"]["msg_type"] for f in frames] == ["ACK", "BEGIN", "RESULT"]
    assert (frames[-1]["header"]["msg_id"], frames[-1]["body"]["payload"]) == (msg_id, "mine")


async def test_another_fence_counts_for_nothing(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.sail()
    sail = await spoke.begin()
    await spoke.about(sail, "RESULT", payload="early", fence=sail["body"]["fence"] + 1)
    await spoke.about(sail, "PROGRESS", text="early", fence=sail["body"]["fence"] - 1)
    await spoke.about(sail, "RESULT", payload="right")
    frames = [await client.hear() for _ in range(3)]
    assert [f["header"]["msg_type"] for f in frames] == ["ACK", "BEGIN", "RESULT"]
    assert frames[-1]["body"]["payload"] == "right"


# --- tokens -----------------------------------------------------------------------------------------------------


async def made(haven: Haven, *domains: str) -> str:
    """The secret of a token that a person made for `remote-1`."""
    secret: str = (await haven.desk.add_token(await haven.person(), "remote-1", domains)).token
    return secret


@pytest.mark.parametrize("token", ["x", "A" * 43])
async def test_nobody_comes_in_without_a_token_that_is_known(haven: Haven, token: str) -> None:
    with pytest.raises(websockets.InvalidStatus) as caught:
        await haven.end("websocket", token=token)
    assert caught.value.response.status_code == 401
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as client:
        assert (await client.post(f"{haven.url}/reach/v1/frames", json={})).status_code == 401


async def test_the_token_of_a_spoke_registers_that_spoke_in_its_domains_and_opens_nothing_else(haven: Haven) -> None:
    token = await made(haven, "data")
    end: Any = await haven.end("websocket", token=token)
    given = {"spoke_id": "other", "store": "s", "incarnation": "1@1", "capabilities": [{"name": "Echo"}]}
    await end.say("ANCHOR", given)
    assert (await end.hear("FAIL"))["body"]["code"] == "denied"
    foreign = {"name": "Echo", "domain": "secret"}
    await end.say("ANCHOR", {**given, "spoke_id": "remote-1", "capabilities": [foreign]})
    assert (await end.hear("FAIL"))["body"]["code"] == "denied"
    assert (await end.anchor("remote-1", offer={"domain": "data"}))["of"] == "ANCHOR"
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as client:
        assert (await client.post(f"{haven.url}/v1/board", json={})).status_code == 403
        assert (await client.get(f"{haven.url}/v1/events")).status_code == 403


async def test_a_token_opens_the_workspace_that_it_was_made_in_and_every_other_is_as_if_absent(
    haven: Haven, tmp_path: Path
) -> None:
    places = []
    for name in ("shop", "secret"):
        (tmp_path / name).mkdir()
        places.append(await haven.desk.register(str(tmp_path / name), os.getuid()))
    shop, secret = places
    person = await haven.desk.guest(haven.facts, workspace="shop")
    made = await haven.desk.add_token(person, "remote-1", ("data",))
    assert made.workspace == "shop"
    end = await haven.end("websocket", token=made.token)
    offered = [{"name": "Echo", "domain": "data"}]
    given = {"spoke_id": "remote-1", "store": "s", "incarnation": "1@1", "capabilities": offered}
    refusals = []
    for name in ("secret", secret.workspace_id, "absent", "default"):
        await end.say("ANCHOR", {**given, "workspace": name})
        refused = (await end.hear("FAIL"))["body"]
        refusals.append((refused["code"], refused["message"].replace(name, "NAME"), refused["remedy"]))
    assert len(set(refusals)) == 1
    assert refusals[0][0] == "not_found"
    assert (await end.anchor("remote-1", offer={"domain": "data"}))["workspace"] == shop.workspace_id
    assert [token.workspace for token in (await haven.desk.tokens(person)).tokens] == ["shop"]


async def test_a_token_with_domains_offers_nothing_that_the_whole_workspace_sees(haven: Haven) -> None:
    end = await haven.end("websocket", token=await made(haven, "data"))
    given = {"spoke_id": "remote-1", "store": "s", "incarnation": "1@1", "capabilities": [{"name": "Pay"}]}
    await end.say("ANCHOR", given)
    refused = (await end.hear("FAIL"))["body"]
    assert (refused["code"], refused["remedy"]) == ("denied", "Offer it with the domain data.")
    assert not haven.hub.spokes


async def test_a_token_sees_only_its_domains_and_the_rest_is_told_as_if_it_were_absent(haven: Haven) -> None:
    spoke = await haven.end("memory")
    offers = [{"name": "Echo", "domain": "secret"}, {"name": "Sum", "domain": "data"}, {"name": "Free"}]
    await spoke.anchor(capabilities=offers)
    end = await haven.end("websocket", token=await made(haven, "data"))
    await end.anchor("remote-1", capabilities=[])
    await end.sail(capability="Echo")
    hidden = (await end.hear("FAIL"))["body"]
    await end.sail(capability="None")
    absent = (await end.hear("FAIL"))["body"]
    assert hidden["code"] == absent["code"] == "no_route"
    assert hidden["message"].replace("Echo", "None") == absent["message"]
    assert hidden["remedy"] == absent["remedy"]
    for name in ("Sum", "Free"):
        await end.sail(capability=name)
        assert (await end.hear("ACK"))["body"]["of"] == "SAIL"


async def test_a_token_that_is_made_or_taken_away_counts_at_once(haven: Haven) -> None:
    token = await made(haven)
    first = await haven.end("websocket", token=token)
    await first.anchor("remote-1")
    (haven.home / "tokens" / "remote-1").unlink()
    with pytest.raises(websockets.InvalidStatus):
        await haven.end("websocket", token=token)


async def test_a_person_makes_a_token_that_is_shown_once_and_kept_as_a_digest(haven: Haven) -> None:
    person = await haven.person()
    made = await haven.desk.add_token(person, "remote-1", ("data",))
    end = await haven.end("websocket", token=made.token)
    assert (await end.anchor("remote-1", offer={"domain": "data"}))["of"] == "ANCHOR"
    listed = await haven.desk.tokens(person)
    assert [(token.name, token.domains, token.fault) for token in listed.tokens] == [("remote-1", ("data",), "")]
    file = haven.home / "tokens" / "remote-1"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [path for path, held in contents(haven.home).items() if made.token.encode() in held] == []
    digest = hashlib.sha256(made.token.encode()).hexdigest().encode()
    assert [path for path, held in contents(haven.home).items() if digest in held] == [file]


@pytest.mark.parametrize("kind", ["websocket", "posted"])
async def test_a_token_that_is_taken_away_ends_the_connections_that_it_opened_and_no_others(
    haven: Haven, kind: str
) -> None:
    person = await haven.person()
    made = await haven.desk.add_token(person, "remote-1")
    gone, stays = await haven.end(kind, token=made.token), await haven.end("websocket")
    await gone.anchor("remote-1")
    await stays.anchor("stays-1", store="s2", process="2@2")
    await haven.desk.remove_token(person, "remote-1")
    async with asyncio.timeout(PATIENCE):
        while any(visit.bound_to for visit in haven.hub._visits):  # noqa: ASYNC110 - nobody is told of the end of a visit
            await asyncio.sleep(0)
    assert {spoke.name for spoke in haven.hub.spokes.values()} == {"stays-1"}
    with pytest.raises(websockets.InvalidStatus):
        await haven.end("websocket", token=made.token)
    await lives(stays)
    with pytest.raises(Refused, match="no token"):
        await haven.desk.remove_token(person, "remote-1")


async def test_a_token_that_is_made_anew_takes_the_place_of_the_older_one(haven: Haven) -> None:
    person = await haven.person()
    older = (await haven.desk.add_token(person, "remote-1")).token
    end = await haven.end("websocket", token=older)
    await end.anchor("remote-1")
    newer = await haven.desk.add_token(person, "remote-1", ("data",))
    assert newer.replaced
    with pytest.raises(Lost):
        await end.hear()
    with pytest.raises(websockets.InvalidStatus):
        await haven.end("websocket", token=older)
    again = await haven.end("websocket", token=newer.token)
    assert (await again.anchor("remote-1", offer={"domain": "data"}))["of"] == "ANCHOR"


async def test_only_a_person_makes_sees_and_takes_away_tokens(haven: Haven) -> None:
    end = await haven.end("memory")
    await end.anchor("echo-1")
    agent = await haven.desk.guest(haven.facts, as_name="echo-1")
    for verb in (
        haven.desk.add_token(agent, "remote-1"),
        haven.desk.tokens(agent),
        haven.desk.remove_token(agent, "remote-1"),
    ):
        with pytest.raises(Refused, match="Only a person"):
            await verb
    assert not (haven.home / "tokens").exists()


@pytest.mark.parametrize("name", ["../x", "", "Über", "a" * 64, "human", ".x"])
async def test_a_token_is_made_for_no_name_that_a_spoke_cannot_have(haven: Haven, name: str) -> None:
    with pytest.raises(Refused):
        await haven.desk.add_token(await haven.person(), name)
    with pytest.raises(Refused, match="domain"):
        await haven.desk.add_token(await haven.person(), "remote-1", ("a b",))
    assert not (haven.home / "tokens").exists()


@pytest.mark.parametrize("spoiled", ["mode", "words", "link"])
async def test_a_token_file_that_cannot_be_trusted_opens_nothing_and_locks_nobody_out(
    haven: Haven, tmp_path: Path, spoiled: str
) -> None:
    token = await made(haven)
    file = haven.home / "tokens" / "remote-1"
    assert file.stat().st_mode & 0o777 == 0o600
    if spoiled == "mode":
        file.chmod(0o644)
    elif spoiled == "words":
        file.write_text("{}")
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(websockets.InvalidStatus):
        await haven.end("websocket", token=token)
    await lives(await haven.end("websocket"))
    (listed,) = (await haven.desk.tokens(await haven.person())).tokens
    assert "cannot be trusted" in listed.fault
    await haven.desk.remove_token(await haven.person(), "remote-1")
    assert (await haven.desk.tokens(await haven.person())).tokens == ()


# --- addresses that are posted to -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:1/", "https://127.0.0.1/", "http://169.254.169.254/latest", "https://localhost:9/", "file:///x"],
)
async def test_a_spoke_cannot_make_the_host_post_into_its_own_network(haven: Haven, endpoint: str) -> None:
    end = await haven.end("posted")
    given = {"spoke_id": "echo-1", "store": "s", "incarnation": "1@1", "capabilities": [], "endpoint": endpoint}
    await end.say("ANCHOR", given)
    assert (await end.hear("FAIL"))["body"]["code"] in ("denied", "invalid")


async def test_what_is_posted_is_signed_with_the_secret_that_only_the_spoke_was_told(haven: Haven) -> None:
    spoke: Any = await haven.end("posted")
    secret = (await spoke.anchor())["secret"]
    client = await haven.end("memory")
    await client.sail({"n": 1})
    await spoke.take()
    header, body = spoke.signatures[0]
    seconds, _, given = header.removeprefix("t=").partition(",v1=")
    expected = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(given, expected)
    assert json.loads(body)["body"]["payload"] == {"n": 1}
    assert secret not in body.decode()


@pytest.mark.parametrize("status", [b"302 Found", b"307 Temporary Redirect", b"500 Oops", b"404 Not Found"])
async def test_a_redirect_or_an_error_is_no_delivery_and_the_message_goes_to_another(
    haven: Haven, status: bytes
) -> None:
    spoke: Any = await haven.end("posted")
    await spoke.anchor()
    spoke.status = status
    client = await haven.end("memory")
    await client.sail()
    other = await haven.end("memory")
    await other.anchor("echo-2")
    await other.begin()
    assert spoke.came.empty()


async def test_without_an_endpoint_nothing_is_posted_here(haven: Haven) -> None:
    end = await haven.end("posted")
    await end.say("SAIL", {}, target_capability="Echo")
    assert (await end.hear("FAIL"))["body"]["code"] == "unsupported"
    await end.say("ANCHOR", {"spoke_id": "x", "store": "s", "incarnation": "1", "capabilities": []})
    assert (await end.hear("FAIL"))["body"]["code"] == "invalid"


# --- what costs memory ------------------------------------------------------------------------------------------


async def test_a_client_that_reads_nothing_is_read_no_more(haven: Haven) -> None:
    spoke = await haven.end("memory")
    await spoke.anchor(offer={"concurrency": 64})

    async def echo() -> None:
        while True:
            sail = await spoke.hear()
            if sail["header"]["msg_type"] == "SAIL":
                await spoke.about(sail, "BEGIN")
            elif sail["body"].get("of") == "BEGIN":
                await spoke.say("RESULT", {"delivery": sail["body"]["delivery"], "fence": 1, "payload": "x" * 100_000})

    reader, writer = await asyncio.open_unix_connection(ends.wire.socket_path(str(haven.home)), limit=1024)
    asked = {"header": {**HEAD, "msg_type": "RETREAT"}, "body": {}}
    call = {"id": 1, "op": "reach", "env": {}, "cwd": str(haven.home)}
    for line in ({"hello": {"protocol": [1, 1]}}, call, {"id": 1, "frame": asked}):
        writer.write(json.dumps(line).encode() + b"\n")
    assert b"welcome" in await reader.readline()
    assert b"FAIL" in await reader.readline()
    echoing = asyncio.create_task(echo())
    held = asyncio.Event()
    server = next(s for s in haven._host.services if hasattr(s, "listen_session"))
    (connection,) = server.connections
    plain = connection.pause_writing

    def paused() -> None:
        plain()
        held.set()

    connection.pause_writing = paused
    for _ in range(200):
        head = {"proto_version": 1, "msg_id": new_id(), "msg_type": "SAIL", "target_capability": "Echo"}
        frame = {"header": head, "body": {"payload": 1}}
        writer.write(json.dumps({"id": 1, "frame": frame}).encode() + b"\n")
    async with asyncio.timeout(PATIENCE):
        await held.wait()
    assert connection._transport.get_write_buffer_size() < 1_000_000
    echoing.cancel()
    writer.close()


async def test_a_flood_of_progress_keeps_only_the_newest(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.sail()
    sail = await spoke.begin()
    for number in range(2000):
        await spoke.about(sail, "PROGRESS", text=str(number))
    await spoke.about(sail, "RESULT", payload=1)
    told = []
    while (frame := await client.hear())["header"]["msg_type"] != "RESULT":
        told.append(frame["body"].get("text"))
    assert told[-1] == "1999"
    assert len(told) < 1000


async def test_a_version_of_tomorrow_ends_the_connection_after_it_was_told(haven: Haven) -> None:
    end = await haven.end("websocket")
    await end.send({"header": {**HEAD, "proto_version": 7}, "body": {}})
    assert (await end.hear("FAIL"))["body"]["code"] == "unsupported"
    with pytest.raises(Lost):
        await end.hear()


class DeafLine:
    """A program that sends and never reads, as fast as it is let."""

    def __init__(self, haven: Haven) -> None:
        self.facts = haven.facts
        self.take: Any = None
        self.is_held = False
        self.gone = asyncio.Event()

    def listen(self, take: Any) -> None:
        self.take = take

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held

    async def frame(self, frame: Any) -> None:
        await self.gone.wait()

    async def interrupted(self) -> None:
        await self.gone.wait()

    def floods(self, frame: dict[str, Any]) -> int:
        """So many were taken until it was held back."""
        for sent in range(10 * AT_ONCE):
            if self.is_held:
                return sent
            self.take(frame)
        return 10 * AT_ONCE


@pytest.mark.parametrize("kind", ["RESULT", "Nonsense", "SETTLE"])
async def test_a_program_that_reads_no_answers_is_soon_not_read_either(haven: Haven, kind: str) -> None:
    line = DeafLine(haven)
    visit = asyncio.create_task(haven.hub.serve(line))
    async with asyncio.timeout(PATIENCE):
        while line.take is None:  # noqa: ASYNC110 - the visit begins meanwhile
            await asyncio.sleep(0)
    header = {"proto_version": 1, "msg_id": new_id(), "msg_type": kind, "trace_id": "trc_1"}
    body = {"delivery": "dlv_1", "fence": 1, "payload": "x"} if kind == "RESULT" else {}
    assert line.floods({"header": header, "body": body}) == AT_ONCE
    line.gone.set()
    await visit


@pytest.mark.parametrize("kind", ["unix", "websocket"])
async def test_a_result_that_is_too_deep_is_refused_by_its_name(haven: Haven, kind: str) -> None:
    end = await haven.end(kind)
    header = {"proto_version": 1, "msg_id": "msg_1", "msg_type": "RESULT"}
    deep: Any = 1
    for _ in range(80):
        deep = [deep]
    await end.send({"header": header, "body": {"delivery": "dlv_1", "fence": 1, "payload": deep}})
    told = await end.hear("FAIL")
    assert told["header"]["msg_id"] == "msg_1"
    assert (told["body"]["code"], told["body"]["of"], told["body"]["delivery"]) == ("invalid", "RESULT", "dlv_1")
    await lives(end)
