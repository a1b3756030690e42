"""Links of the SDK: what goes over each, what is refused before anything does, and how the end of one is told."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http
import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tallystick import Capability, ReachClient, ReachMessage, ReachRefused, Spoke
from tallystick.sdk.address import address_of
from tallystick.sdk.callback import WINDOW_SECONDS, CallbackDoor
from tallystick.sdk.channel import Channel
from tallystick.sdk.frames import Frame, frame
from tallystick.sdk.link import LinkLost, MemoryLink
from tallystick.sdk.unix import unix_dial
from tests.support.reach import BOUND, ScriptedHub

TOKEN = "t" * 43


async def echo(message: ReachMessage) -> Any:
    return message.payload


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TALLY_HOME", str(tmp_path))
    monkeypatch.delenv("TALLY_SOCKET", raising=False)
    monkeypatch.delenv("TALLY_SESSION", raising=False)
    return tmp_path


# --- inside a process ---------------------------------------------------------------------------------------------


async def test_what_is_on_its_way_when_an_end_closes_is_still_read() -> None:
    one, two = MemoryLink.pair()
    await one.send({"n": 1})
    one.close()
    assert await two.receive() == {"n": 1}
    with pytest.raises(LinkLost):
        await two.receive()
    with pytest.raises(LinkLost):
        await two.send({})


async def test_a_link_that_is_full_holds_the_sender_until_it_is_read_or_closed() -> None:
    one, two = MemoryLink.pair(bound=1)
    await one.send({"n": 1})
    second, third = (asyncio.ensure_future(one.send({"n": n})) for n in (2, 3))
    await asyncio.sleep(0)
    assert not second.done()
    assert await two.receive() == {"n": 1}
    await second
    two.close()
    with pytest.raises(LinkLost):
        await third


async def test_a_host_that_crashed_is_started_again_and_one_that_was_stopped_is_not() -> None:
    asked: list[bool] = []
    ends: list[LinkLost | None] = [
        LinkLost("crashed"),
        LinkLost("stopped", is_stopped=True),
        LinkLost("not there yet"),
        LinkLost("crashed once more"),
        None,
    ]
    is_over = asyncio.Event()

    class Ending(MemoryLink):
        async def receive(self) -> Frame:
            end = ends.pop(0)
            if end is None:
                is_over.set()
                await asyncio.Event().wait()
            raise end or LinkLost

    async def dial(may_start: bool) -> Any:
        asked.append(may_start)
        if ends[0] is not None and str(ends[0]) == "not there yet":
            raise ends.pop(0) or LinkLost
        return Ending(*(MemoryLink.pair()[0].__dict__.values()))

    async def nothing(*_: Any) -> None:
        pass

    channel = Channel(dial, greet=nothing, hear=nothing)
    await channel.open()
    async with asyncio.timeout(BOUND):
        await is_over.wait()
    channel.close()
    assert asked == [True, True, False, False, True]


# --- the Unix socket ----------------------------------------------------------------------------------------------


class UnixHub:
    """The host's side of the line protocol, as far as `reach` needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened: list[Any] = []
        self.lines: asyncio.Queue[Any] = asyncio.Queue()
        self.writer: Any = None

    async def __aenter__(self) -> Self:
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.server = await asyncio.start_unix_server(self._serve, str(self.path))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        if self.writer:
            self.writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        await reader.readline()
        self.say({"welcome": {"protocol": 1, "host": "test", "pid": os.getpid()}})
        self.opened.append(json.loads(await reader.readline()))
        while line := await reader.readline():
            await self.lines.put(json.loads(line))

    def say(self, message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")


async def test_frames_go_as_lines_of_one_long_call(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_AGENT", "ann")
    async with UnixHub(home / "run" / "host.sock") as hub:
        link = await unix_dial("bob", "shop")(False)
        await link.send({"header": {}, "body": {"n": 1}})
        assert await hub.lines.get() == {"id": 1, "frame": {"header": {}, "body": {"n": 1}}}
        opened = hub.opened[0]
        assert (opened["id"], opened["op"], opened["as"], opened["workspace"]) == (1, "reach", "bob", "shop")
        assert opened["env"]["TALLY_AGENT"] == "ann"
        for number in (1, 2):
            hub.say({"id": 1, "frame": {"n": number}})
        assert [await link.receive(), await link.receive()] == [{"n": 1}, {"n": 2}]
        hub.say({"id": 1, "frame": {"n": "x" * 3_000_000}})
        assert len((await link.receive())["n"]) == 3_000_000
        link.close()
        with pytest.raises(LinkLost):
            await link.send({})


@pytest.mark.parametrize(
    ("said", "is_stopped"),
    [
        ({"id": 1, "error": {"code": "unavailable", "message": "The host is stopping.", "remedy": ""}}, True),
        ({"id": 1, "result": None}, True),
        (["no object"], False),
    ],
)
async def test_the_end_of_the_call_is_a_lost_link(home: Path, said: Any, is_stopped: bool) -> None:
    async with UnixHub(home / "run" / "host.sock") as hub:
        link = await unix_dial()(False)
        await link.send({})
        await hub.lines.get()
        hub.say({"id": 1, "frame": {"last": 1}})
        hub.say(said)
        assert await link.receive() == {"last": 1}
        with pytest.raises(LinkLost) as caught:
            await link.receive()
        assert caught.value.is_stopped is is_stopped


async def test_a_refused_call_is_told_as_that(home: Path) -> None:
    async with UnixHub(home / "run" / "host.sock") as hub:
        link = await unix_dial("nobody")(False)
        await link.send({})
        await hub.lines.get()
        hub.say({"id": 1, "error": {"code": "not_found", "message": "There is no agent @nobody.", "remedy": "Join."}})
        with pytest.raises(ReachRefused, match="no agent @nobody") as caught:
            await link.receive()
        assert caught.value.code == "not_found"


async def test_without_a_host_and_without_leave_to_start_one_the_link_is_lost(home: Path) -> None:
    with pytest.raises(LinkLost, match="No host runs"):
        await unix_dial()(False)


# --- WebSocket ----------------------------------------------------------------------------------------------------


class SocketEnd:
    """A WebSocket of the test's server as a `Link`."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection

    async def send(self, sent: Frame) -> None:
        try:
            await self.connection.send(json.dumps(sent))
        except ConnectionClosed:
            raise LinkLost from None

    async def receive(self) -> Frame:
        try:
            return json.loads(await self.connection.recv())
        except ConnectionClosed:
            raise LinkLost from None

    def close(self) -> None:
        self.connection.transport.abort()


class SocketHub(ScriptedHub):
    """The scripted hub behind a WebSocket server."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Any] = []
        self.status = 0
        self.error: Any = None

    async def serve(self, connection: ServerConnection) -> None:
        self.links += 1
        self.link = SocketEnd(connection)
        await self._read(self.link)

    def check(self, connection: ServerConnection, request: Any) -> Any:
        self.requests.append(request)
        if self.status:
            text = json.dumps({"error": self.error}) if self.error else "<html>"
            return connection.respond(http.HTTPStatus(self.status), text)
        return None


@pytest.fixture
async def socket_hub() -> Any:
    hub = SocketHub()
    async with serve(hub.serve, "127.0.0.1", 0, process_request=hub.check) as server:
        hub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield hub


async def test_a_spoke_works_over_a_websocket_and_comes_back(socket_hub: SocketHub, tmp_path: Path) -> None:
    spoke = Spoke("s-1", [Capability("Do")], {"Do": echo}, socket_hub.url, TOKEN, tmp_path / "s.db", workspace="shop")
    await spoke.start()
    request = socket_hub.requests[0]
    assert request.path == "/reach/v1?workspace=shop"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    await socket_hub.deliver("Do", {"big": "x" * 200_000})
    assert len((await socket_hub.got("RESULT"))["body"]["payload"]["big"]) == 200_000
    socket_hub.cut()
    await socket_hub.got("ANCHOR")
    await socket_hub.got("ANCHOR")
    await socket_hub.deliver("Do", 2)
    assert (await socket_hub.got("RESULT"))["body"]["payload"] == 2
    await spoke.stop()


async def test_a_client_says_as_whom_it_asks(socket_hub: SocketHub) -> None:
    socket_hub.answers["SAIL"] = lambda found: [socket_hub.fail(found, "no_route", "Nobody offers it.")]
    async with ReachClient(socket_hub.url, TOKEN, "ann bee") as client:
        with pytest.raises(Exception, match="Nobody offers it"):
            await client.sail("Do", 1)
    assert socket_hub.requests[0].path == "/reach/v1?as=ann+bee"


@pytest.mark.parametrize(
    ("status", "error", "code", "words"),
    [
        (401, {"code": "unauthenticated", "message": "No such token.", "remedy": "x"}, "unauthenticated", "No such"),
        (403, {"code": "denied", "message": "Not this one.", "remedy": "x"}, "denied", "Not this one"),
        (404, None, "unsupported", "is no host that takes spokes"),
        (503, None, "unavailable", "answered 503"),
    ],
)
async def test_what_the_door_says_is_told(
    socket_hub: SocketHub, status: int, error: Any, code: str, words: str
) -> None:
    socket_hub.status, socket_hub.error = status, error
    with pytest.raises(ReachRefused, match=words) as caught:
        await ReachClient(socket_hub.url, TOKEN).sail("Do", 1)
    assert caught.value.code == code
    assert TOKEN not in repr(caught.value) + str(caught.value)


async def test_nobody_at_the_address_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ReachRefused, match="cannot be reached") as caught:
            await ReachClient(f"http://127.0.0.1:{free.getsockname()[1]}", TOKEN).sail("Do", 1)
    assert caught.value.code == "unavailable"
    assert "tally up --listen" in caught.value.remedy


async def test_a_spoke_that_posts_is_told_too_that_nobody_listens_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        spoke = Spoke(
            "s-1", [Capability("Do")], {"Do": echo}, url, TOKEN, tmp_path / "s.db", endpoint="https://me.example/reach"
        )
        with pytest.raises(ReachRefused, match="cannot be reached") as caught:
            await spoke.start()
    assert "tally up --listen" in caught.value.remedy


# --- addresses and tokens -----------------------------------------------------------------------------------------


def test_a_loopback_address_finds_the_token_of_this_user(home: Path) -> None:
    (home / "token").write_text(TOKEN + "\n")
    (home / "token").chmod(0o600)
    for url in ("http://127.0.0.1:8765", "http://localhost:8765/", "http://[::1]:8765", "https://127.0.0.1:8765"):
        assert address_of(url, None).token == TOKEN
    assert address_of("http://127.0.0.1:8765", "other").token == "other"
    assert TOKEN not in repr(address_of("http://127.0.0.1:8765", None))


def test_a_token_that_others_may_read_is_not_used(home: Path) -> None:
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o644)
    with pytest.raises(ReachRefused, match="is not yours alone"):
        address_of("http://127.0.0.1:8765", None)


def test_a_token_behind_a_symbolic_link_is_not_used(home: Path) -> None:
    (home / "real").write_text(TOKEN)
    (home / "token").symlink_to(home / "real")
    with pytest.raises(ReachRefused, match="cannot be read"):
        address_of("http://127.0.0.1:8765", None)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("hub.example:8765", "invalid"),
        ("ws://hub.example", "invalid"),
        ("https://user:secret@hub.example", "invalid"),
        ("https://hub.example/path", "invalid"),
        ("https://hub.example?token=x", "invalid"),
        ("https://hub.example:99999", "invalid"),
        ("https://", "invalid"),
        ("http://hub.example", "denied"),
        ("http://192.168.1.5:8765", "denied"),
        ("http://127.0.0.1.example:8765", "denied"),
    ],
)
def test_an_address_that_leads_nowhere_safe_is_refused(home: Path, url: str, code: str) -> None:
    with pytest.raises(ReachRefused) as caught:
        address_of(url, TOKEN)
    assert caught.value.code == code
    assert "secret" not in str(caught.value)


# --- posted frames ------------------------------------------------------------------------------------------------


class PostedHub:
    """A host that takes posts, and posts to the ASGI application of the spoke itself."""

    def __init__(self) -> None:
        self.secret = "s" * 43
        self.heard: list[tuple[Any, Frame]] = []
        self.came = threading.Event()
        hub = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hub.heard.append((self, sent))
                status, answer = hub.answer(sent)
                body = json.dumps(answer).encode() if answer else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                hub.came.set()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, sent: Frame) -> tuple[int, Any]:
        kind, msg_id = sent["header"]["msg_type"], sent["header"]["msg_id"]
        if kind in ("ACK", "PROGRESS"):
            return 202, None
        told = {"of": kind}
        if "delivery" in sent["body"]:
            told["delivery"] = sent["body"]["delivery"]
        if kind == "ANCHOR":
            told["secret"] = self.secret
        return 200, frame("ACK", told, msg_id=msg_id)

    async def got(self, kind: str) -> Frame:
        async with asyncio.timeout(BOUND):
            while True:
                for _, sent in self.heard:
                    if sent["header"]["msg_type"] == kind:
                        return sent
                await asyncio.to_thread(self.came.wait, 0.05)
                self.came.clear()

    def sign(self, body: bytes, seconds: int, secret: str | None = None) -> str:
        mac = hmac.new((secret or self.secret).encode(), f"{seconds}.".encode() + body, hashlib.sha256)
        return f"t={seconds},v1={mac.hexdigest()}"


async def post(app: Any, body: bytes, signature: str, method: str = "POST") -> int:
    statuses = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(b"tally-signature", signature.encode())] if signature else []
    await app({"type": "http", "method": method, "headers": headers}, receive, send)
    return statuses[0]


@pytest.fixture
async def posted(tmp_path: Path) -> Any:
    hub = PostedHub()
    spoke = Spoke(
        "s-1", [Capability("Do")], {"Do": echo}, hub.url, TOKEN, tmp_path / "s.db", endpoint="https://me.example/reach"
    )
    await spoke.start()
    yield hub, spoke
    await spoke.stop()
    hub.server.shutdown()
    hub.server.server_close()


def sail() -> bytes:
    body = {"delivery": "dlv_1", "task_id": "tsk_1", "fence": 1, "attempt": 1, "payload": {"n": 1}}
    return json.dumps(frame("SAIL", body, msg_id="msg_1", target_capability="Do")).encode()


NOW = 1_800_000_000


async def test_a_spoke_that_is_posted_to_takes_what_the_host_signed_and_posts_its_own(posted: Any) -> None:
    hub, spoke = posted
    door, anchor = hub.heard[0]
    assert (door.path, door.headers["Authorization"]) == ("/reach/v1/frames", f"Bearer {TOKEN}")
    assert anchor["body"]["endpoint"] == "https://me.example/reach"
    spoke.app._now = lambda: NOW
    body = sail()
    assert await post(spoke.app, body, hub.sign(body, NOW)) == 202
    assert (await hub.got("RESULT"))["body"]["payload"] == {"n": 1}
    assert {sent["header"].get("source_spoke") for _, sent in hub.heard} == {"s-1"}
    kinds = [sent["header"]["msg_type"] for _, sent in hub.heard]
    assert kinds == ["ANCHOR", "ACK", "BEGIN", "RESULT"]


@pytest.mark.parametrize(
    "signature",
    [
        lambda hub, body: "",
        lambda hub, body: "t=,v1=",
        lambda hub, body: "garbage",
        lambda hub, body: hub.sign(body, NOW, "another secret"),
        lambda hub, body: hub.sign(body + b" ", NOW),
        lambda hub, body: hub.sign(body, NOW - WINDOW_SECONDS - 1),
        lambda hub, body: hub.sign(body, NOW + WINDOW_SECONDS + 1),
        lambda hub, body: hub.sign(body, NOW).replace("v1=", "v1=é"),
    ],
    ids=["none", "empty", "garbage", "other secret", "other body", "old", "ahead", "no ascii"],
)
async def test_what_is_not_signed_by_the_host_just_now_is_not_taken(posted: Any, signature: Any) -> None:
    hub, spoke = posted
    spoke.app._now = lambda: NOW
    body = sail()
    assert await post(spoke.app, body, signature(hub, body)) == 401
    assert [sent["header"]["msg_type"] for _, sent in hub.heard] == ["ANCHOR"]


async def test_a_signature_counts_once(posted: Any) -> None:
    hub, spoke = posted
    spoke.app._now = lambda: NOW
    body = sail()
    signature = hub.sign(body, NOW)
    assert await post(spoke.app, body, signature) == 202
    for again in (
        signature,
        signature.removeprefix("t="),
        f" {signature}",
        signature.replace("v1=", "v1= "),
        f"{signature},",
    ):
        assert await post(spoke.app, body, again) == 401


async def test_other_posts_are_refused_by_what_they_are(posted: Any) -> None:
    hub, spoke = posted
    spoke.app._now = lambda: NOW
    assert await post(spoke.app, b"", "", "GET") == 405
    assert await post(spoke.app, b"x" * (2 * 1024 * 1024 + 1), "") == 413
    assert await post(spoke.app, b"no json", hub.sign(b"no json", NOW)) == 400


async def test_before_the_host_answered_nothing_is_taken(home: Path) -> None:
    door = CallbackDoor(address_of("http://127.0.0.1:9", TOKEN), "https://me.example", "s-1", "")
    assert await post(door, sail(), "t=1,v1=00") == 401
