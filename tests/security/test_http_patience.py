"""Clients over HTTP that are slow, many or silent: each is bounded, and nobody else suffers."""

import asyncio
import json
import socket

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tallystick.app.desk import forms
from tallystick.app.diagnostics import Diagnostics
from tallystick.core.identity import Actor, ActorKind
from tallystick.edge.api.http.bounds import HttpBounds
from tallystick.edge.api.http.cursor import Cursors
from tallystick.edge.api.http.listen import Listen
from tallystick.edge.api.http.server import HttpServer
from tests.support.hosts import SECONDS
from tests.support.web import Site


class Desk:
    """The little that streams need: a guest, a position, events."""

    def __init__(self, lines=0, size=0):
        self.lines = lines
        self.size = size
        self.read = 0

    async def guest(self, facts, *, as_name="", workspace="", register=False):
        return type("Guest", (), {"actor": Actor("per_x", ActorKind.PERSON)})()

    async def log_head(self, guest):
        return {"position": 0}

    async def feed(self, guest, *, after):
        for position in range(after + 1, self.lines + 1):
            self.read = max(self.read, position)
            yield forms.Line(
                position=position,
                at="",
                who="",
                asserted=True,
                what="",
                task_id="",
                before="",
                after="",
                text="x" * self.size,
            )
        await asyncio.Event().wait()


class Inside:
    """`async with Inside(bounds)`: a server in this very process."""

    def __init__(self, home, desk=None, ops=None, **bounds):
        self.home = home
        self.diagnostics = Diagnostics(home / "host.jsonl")
        self.server = HttpServer(
            desk or Desk(),
            ops or {"whoami": whoami},
            home=home,
            listen=Listen(address="127.0.0.1:0"),
            diagnostics=self.diagnostics,
            bounds=HttpBounds(**bounds),
        )

    async def __aenter__(self):
        await self.server.start()
        self.url = self.server.url
        self.port = int(self.url.rpartition(":")[2])
        self.token = (self.home / "token").read_text().strip()
        return self

    async def __aexit__(self, *_):
        await self.server.stop()
        self.diagnostics.close()

    async def open(self, receive=None):
        """A raw connection; `receive`: a small buffer of its system."""
        sock = socket.socket()
        if receive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=sock, limit=2**16)

    head = Site.head

    @property
    def authority(self):
        return f"127.0.0.1:{self.port}"

    def client(self):
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=SECONDS, trust_env=False)


async def whoami(call):
    return {"name": call.arguments["as"], "door": call.facts.door, "terminal": call.facts.terminal.stdin}


async def ended(reader):
    """Whatever still comes, to the end."""
    try:
        return await asyncio.wait_for(reader.read(-1), SECONDS)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("data", [b"", b"POST /v1/who", b"HEAD", b"BODY"], ids=["nothing", "line", "head", "body"])
async def test_slowloris_is_cut_off(tmp_path, data):
    async with Inside(tmp_path, request_seconds=0.05) as host:
        reader, writer = await host.open()
        data = {b"HEAD": host.head()[:-10], b"BODY": host.head(content_length="9") + b"{"}.get(data, data)
        writer.write(data)
        assert b"200 OK" not in await ended(reader)
        writer.close()


async def test_slowloris_one_byte_at_a_time_gains_nothing(tmp_path):
    async with Inside(tmp_path, request_seconds=0.2) as host:
        reader, writer = await host.open()
        coming = asyncio.ensure_future(ended(reader))
        for byte in host.head(x_long="x" * 60_000):
            if coming.done():
                break
            writer.write(bytes([byte]))
            await asyncio.wait({coming}, timeout=0.001)
        assert await coming == b""
        writer.close()


async def test_a_long_call_is_not_cut_off_by_the_bound_of_requests(tmp_path):
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(call):
        begun.set()
        await go.wait()
        return {}

    async with Inside(tmp_path, ops={"whoami": slow}, request_seconds=0.05) as host:
        reader, writer = await host.open()
        writer.write((host.head() + b"{}") * 2)  # the second waits for the first
        await begun.wait()
        other, other_writer = await host.open()
        assert await ended(other) == b""  # by now the bound has passed
        go.set()
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        for each in (writer, other_writer):
            each.close()


async def test_too_many_connections_are_turned_away_and_the_others_served(tmp_path):
    async with Inside(tmp_path, connections=2) as host:
        kept = [await host.open() for _ in range(2)]
        for reader, writer in kept:
            writer.write(host.head() + b"{}")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        third, writer = await host.open()
        assert await ended(third) == b""
        for each in (writer, *(writer for _, writer in kept)):
            each.close()


async def test_a_slow_reader_is_cut_off_holds_little_and_loses_nothing(tmp_path):
    desk = Desk(lines=2000, size=10_000)
    async with Inside(tmp_path, desk, write_seconds=0.2) as host:
        first = await _first_cursor(host)
        reader, writer = await host.open(receive=4096)
        writer.write(host.head(f"GET /v1/events?after={first} HTTP/1.1", content_length=None))
        await cut_off(host)  # nothing is read until the host has had enough
        assert desk.read < desk.lines
        ids = _ids(await ended(reader))
        writer.close()
        last = ids[-1]
        async with host.client() as client, client.stream("GET", "/v1/events", params={"after": last}) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id: ") and line[4:] != last:
                    ids.append(line[4:])
                if len(ids) > desk.lines:
                    break
        cursors = Cursors(host.server._door.tokens.cursor_key)
        assert [cursors.open("per_x", cursor) for cursor in ids] == list(range(desk.lines + 1))


async def _first_cursor(host):
    async with host.client() as client, client.stream("GET", "/v1/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                return line[4:]
    raise AssertionError("the stream did not begin")


def _ids(received):
    """The cursors of whole events."""
    *whole, _ = received.decode().split("\n\n")
    return [part.partition("id: ")[2].partition("\n")[0] for part in whole if "\ndata:" in part]


async def cut_off(host):
    """Wait until the host has no connection left."""
    async with asyncio.timeout(SECONDS):
        while host.server._server.server_state.connections:
            await _passed()


async def _passed():
    """The loop has gone round."""
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.001, done.set_result, None)
    await done


async def test_a_websocket_that_does_not_greet_is_closed(tmp_path):
    async with Inside(tmp_path, hello_seconds=0.05) as host:
        address = host.url.replace("http", "ws") + "/v1/socket"
        async with connect(address, proxy=None, open_timeout=SECONDS) as ws:
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(ws.recv(), SECONDS)


async def test_a_websocket_that_does_not_read_is_cut_off(tmp_path):
    async def much(call):
        return {"text": "x" * 1_000_000}

    async with Inside(tmp_path, ops={"whoami": much}, write_seconds=0.1) as host:
        _, writer = await host.open(receive=4096)
        writer.write(host.head("GET /v1/socket HTTP/1.1", content_length=None, **UPGRADE))
        hello = {"hello": {"protocol": [1, 1]}}
        for number in range(64):
            writer.write(frame({"id": number, "op": "whoami"} if number else hello))
        await cut_off(host)
        writer.close()


UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def frame(message):
    """A text frame of a client, masked with zeros."""
    text = json.dumps(message).encode()
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


async def test_a_websocket_message_beyond_the_limit_ends_it(tmp_path):
    async with Inside(tmp_path, body_bytes=1000) as host:
        address = host.url.replace("http", "ws") + "/v1/socket"
        headers = {"authorization": f"Bearer {host.token}"}
        async with connect(address, proxy=None, open_timeout=SECONDS, additional_headers=headers) as ws:
            await ws.send("x" * 1001)
            with pytest.raises(ConnectionClosed) as caught:
                await asyncio.wait_for(ws.recv(), SECONDS)
            assert caught.value.rcvd.code == 1009


async def test_a_quiet_stream_shows_that_it_lives(tmp_path):
    async with (
        Inside(tmp_path, heartbeat_seconds=0.01) as host,
        host.client() as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        beats = 0
        async for line in answer.aiter_lines():
            beats += line.startswith(":")
            if beats == 3:
                break


async def test_streams_are_few_and_their_end_is_noticed(tmp_path):
    async with Inside(tmp_path, streams=1) as host, host.client() as client:
        async with client.stream("GET", "/v1/events") as answer:
            assert answer.status_code == 200
            second = await client.get("/v1/events")
            assert (second.status_code, second.json()["error"]["code"]) == (503, "unavailable")
        async with asyncio.timeout(SECONDS):
            while host.server._door.streams:
                await _passed()
        async with client.stream("GET", "/v1/events") as answer:
            assert answer.status_code == 200


async def test_an_unforeseen_error_is_a_number_to_the_caller(tmp_path):
    async def boom(call):
        raise ValueError("secret detail")

    async with Inside(tmp_path, ops={"whoami": boom}) as host, host.client() as client:
        answer = await client.post("/v1/whoami", json={})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (500, "internal")
        assert "secret detail" not in answer.text
        reference = error["message"].rpartition(" ")[2].rstrip(".")
        assert reference in (tmp_path / "host.jsonl").read_text()


async def test_a_caller_over_http_is_a_door_without_terminal_or_environment(tmp_path):
    async with Inside(tmp_path) as host, host.client() as client:
        answer = (await client.post("/v1/whoami", json={})).json()
        assert answer == {"name": "", "door": "http", "terminal": False}


async def test_when_the_host_stops_running_calls_are_answered(tmp_path):
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(call):
        begun.set()
        await go.wait()
        return {"done": True}

    host = Inside(tmp_path, ops={"whoami": slow})
    await host.__aenter__()
    async with host.client() as client:
        asked = asyncio.ensure_future(client.post("/v1/whoami", json={}))
        await begun.wait()
        stopping = asyncio.ensure_future(host.__aexit__())
        await host.server._door.stopping.wait()
        go.set()
        assert (await asked).json() == {"done": True}
        await stopping
        with pytest.raises(httpx.ConnectError):
            await client.post("/v1/whoami", json={})
