"""The way out of a limited session: it connects to what is listed, whatever it is asked for and however."""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
from contextlib import asynccontextmanager

import pytest

from tallystick.edge.acp.egress import HEAD_BYTES, Egress
from tallystick.edge.acp.endpoints import Endpoint
from tests.support import tls

BOUND = 20.0


class Server:
    """On the loopback: keeps what it is sent, answers with its name."""

    def __init__(self, name):
        self.name = name
        self.heads = []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.came, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.place = Endpoint("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def came(self, reader, writer):
        self.heads.append(await reader.read(65536))
        body = self.name.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


class Way:
    """One session's way out, and what it told."""

    def __init__(self, path, *allowed, names=()):
        self.names = dict(names)
        self.told = []
        self.egress = Egress(frozenset(allowed), lambda what, fields: self.told.append((what, fields)), self.resolve)
        self.path = path / "x.net"

    async def resolve(self, host, port):
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]

    async def __aenter__(self):
        await self.egress.listen(self.path)
        return self

    async def __aexit__(self, *_):
        await self.egress.close()

    async def say(self, raw):
        """All that comes back."""
        async with asyncio.timeout(BOUND):
            reader, writer = await asyncio.open_unix_connection(str(self.path))
            writer.write(raw)
            await writer.drain()
            said = await reader.read()
            writer.close()
            return said

    async def tunnel(self, target):
        return await self.say(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nhello".encode())


def code(answer):
    return int(answer.split(b" ", 2)[1])


async def test_a_tunnel_to_what_is_listed_carries_bytes_both_ways(tmp_path) -> None:
    async with Server("model") as model, Way(tmp_path, model.place) as way:
        said = await way.tunnel(f"127.0.0.1:{model.port}")
        assert code(said) == 200
        assert said.endswith(b"model")
        assert model.heads == [b"hello"]
        await way.egress.close()
        used = dict(way.told)["used"]["endpoints"][str(model.place)]
        assert (used["connections"], used["sent"]) == (1, 5)
        assert used["received"] > 5


async def test_what_is_not_listed_is_refused_and_told_once(tmp_path) -> None:
    async with Server("model") as model, Server("other") as other, Way(tmp_path, model.place) as way:
        for _ in range(3):
            said = await way.tunnel(f"127.0.0.1:{other.port}")
            assert code(said) == 403
            assert str(model.place).encode() in said  # what it may reach instead
        assert other.heads == []
        assert [what for what, _ in way.told] == ["refused"]
        await way.egress.close()
        assert dict(way.told)["used"]["refused"] == {f"127.0.0.1:{other.port}": 3}


@pytest.mark.parametrize(
    "target",
    [
        *("localhost:{p}", "[::1]:{p}", "[::ffff:127.0.0.1]:{p}", "127.0.0.2:{p}", "model.example:{p}"),
        *("169.254.169.254:80", "metadata.google.internal:80", "0.0.0.0:{p}"),
    ],
)
async def test_another_spelling_of_a_listed_address_is_another_place(tmp_path, target) -> None:
    async with Server("model") as model, Way(tmp_path, model.place) as way:
        assert code(await way.tunnel(target.format(p=model.port))) == 403
        assert model.heads == []


@pytest.mark.parametrize("target", ["127.1:{p}", "2130706433:{p}", "0x7f.1:{p}", "127.0.0.1", "/", "", "a:1:2"])
async def test_what_is_no_endpoint_is_a_bad_request(tmp_path, target) -> None:
    async with Server("model") as model, Way(tmp_path, model.place) as way:
        assert code(await way.tunnel(target.format(p=model.port))) == 400
        assert model.heads == []


async def test_a_plain_request_goes_on_in_its_own_form_for_that_one_server(tmp_path) -> None:
    async with Server("model") as model, Way(tmp_path, model.place) as way:
        url = f"http://127.0.0.1:{model.port}/v1/models?a=b"
        head = f"GET {url} HTTP/1.1\r\nHost: evil.example\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n"
        said = await way.say(head.encode())
        assert said.endswith(b"model")
        sent = model.heads[0].decode().split("\r\n")
        assert sent[0] == "GET /v1/models?a=b HTTP/1.1"
        assert [line for line in sent if line.lower().startswith("host:")] == [f"Host: 127.0.0.1:{model.port}"]
        assert "Connection: close" in sent
        assert not any("Proxy" in line for line in sent)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        *(("http://127.0.0.1:1/", 403), ("http://example.org/", 403), ("http://169.254.169.254/latest/", 403)),
        *(("https://127.0.0.1:{p}/", 400), ("ftp://127.0.0.1:{p}/", 400), ("/v1/models", 400)),
        *(("http://127.0.0.1:{p}@example.org/", 400), ("http://example.org@127.0.0.1:{p}/", 400)),
        *(("http://127.0.0.1:{p}x/", 400), ("http://[::1/", 400), ("http:///x", 400)),
    ],
)
async def test_a_plain_request_for_anything_else_is_refused(tmp_path, url, wanted) -> None:
    async with Server("model") as model, Way(tmp_path, model.place) as way:
        said = await way.say(
            f"GET {url.format(p=model.port)} HTTP/1.1\r\nHost: 127.0.0.1:{model.port}\r\n\r\n".encode()
        )
        assert code(said) == wanted
        assert model.heads == []


async def test_a_name_is_looked_up_outside_and_may_not_lead_to_a_private_address(tmp_path) -> None:
    async with Server("model") as model:
        name = Endpoint("model.example", model.port)
        names = {"model.example": ["127.0.0.1"]}
        async with Way(tmp_path, name, names=names.items()) as way:
            said = await way.tunnel(str(name))
            assert code(said) == 403
            assert b"leads to 127.0.0.1" in said
            assert model.heads == []
        async with Way(tmp_path, name, model.place, names=names.items()) as way:
            assert (await way.tunnel(str(name))).endswith(b"model")


async def test_a_private_address_among_public_ones_is_never_tried(tmp_path) -> None:
    async with Server("model") as model:
        name = Endpoint("model.example", model.port)
        way = Way(tmp_path, name, names={"model.example": ["127.0.0.1", "192.0.2.1", "93.184.216.34"]}.items())
        assert [str(found) for found in await way.egress._addresses(name)] == ["93.184.216.34"]


async def test_a_listed_server_that_is_not_there_is_a_bad_gateway(tmp_path) -> None:
    async with Server("gone") as gone:
        place = gone.place
    async with Way(tmp_path, place, Endpoint("nobody.example", 443)) as way:
        assert code(await way.tunnel(str(place))) == 502
        assert code(await way.tunnel("nobody.example:443")) == 502


@pytest.mark.parametrize(
    "raw", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"x" * (HEAD_BYTES + 4), b"get http://a/ HTTP/2\r\n\r\n"]
)
async def test_what_is_no_request_to_a_proxy_is_answered_and_ended(tmp_path, raw) -> None:
    async with Way(tmp_path) as way:
        assert code(await way.say(raw)) == 400


async def test_a_flood_of_different_refusals_is_counted_and_not_kept_one_by_one(tmp_path) -> None:
    async with Way(tmp_path) as way:
        for number in range(60):
            assert code(await way.tunnel(f"host-{number}.example:443")) == 403
        assert len(way.told) == 50
        assert way.egress.refused["others"] == 10


async def test_closing_breaks_off_what_is_under_way_and_takes_the_socket_away(tmp_path) -> None:
    async with Server("model") as model, Way(tmp_path, model.place) as way:
        assert stat.S_IMODE(way.path.stat().st_mode) == 0o600
        async with asyncio.timeout(BOUND):
            reader, writer = await asyncio.open_unix_connection(str(way.path))
            writer.write(f"CONNECT {model.place} HTTP/1.1\r\n\r\n".encode())
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            await way.egress.close()
            assert await reader.read() == b""
            writer.close()
        assert not way.path.exists()


# --- TLS ----------------------------------------------------------------------------------------------------------

LARGE = 300_000
"""Bytes each way: more than any buffer on the way holds at once."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of its own for model.example, with its key."""
    return tls.certificate(tmp_path_factory.mktemp("tls"), "model.example")


class TlsServer(Server):
    """The same with TLS: gives back what it is sent."""

    def __init__(self, certificate):
        super().__init__("model")
        self.context = tls.shown(certificate)

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.came, "127.0.0.1", 0, ssl=self.context)
        self.port = self.server.sockets[0].getsockname()[1]
        self.place = Endpoint("127.0.0.1", self.port)
        return self

    async def came(self, reader, writer):
        self.heads.append(await reader.readexactly(LARGE))
        writer.write(self.heads[-1])
        await writer.drain()
        writer.close()


@asynccontextmanager
async def tunnel_to(way, target):
    """A client's connection through a tunnel, before it says anything to the other end."""
    async with asyncio.timeout(BOUND):
        reader, writer = await asyncio.open_unix_connection(str(way.path))
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        try:
            yield code(answer), reader, writer
        finally:
            writer.close()


def by_name(server):
    """What a person lists so that a name may lead to this very server."""
    return Endpoint("model.example", server.port), server.place


async def test_tls_passes_end_to_end_and_what_is_counted_is_what_went_over_the_wire(tmp_path, certificate) -> None:
    names = {"model.example": ["127.0.0.1"]}
    async with TlsServer(certificate) as model, Way(tmp_path, *by_name(model), names=names.items()) as way:
        async with tunnel_to(way, f"model.example:{model.port}") as (status, reader, writer):
            assert status == 200
            await writer.start_tls(ssl.create_default_context(cafile=certificate[0]), server_hostname="model.example")
            seen = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            assert seen == ssl.PEM_cert_to_DER_cert(certificate[0].read_text()), "nobody stands in between"
            sent = os.urandom(LARGE)
            writer.write(sent)
            assert await reader.readexactly(LARGE) == sent == model.heads[0]
        await way.egress.close()
        used = dict(way.told)["used"]["endpoints"]
        assert list(used) == [f"model.example:{model.port}"]
        assert min(used[f"model.example:{model.port}"][which] for which in ("sent", "received")) > LARGE


async def test_a_client_that_trusts_another_authority_is_told_by_its_own_tls(tmp_path, certificate) -> None:
    async with TlsServer(certificate) as model, Way(tmp_path, model.place) as way:
        async with tunnel_to(way, str(model.place)) as (_, _reader, writer):
            with pytest.raises(ssl.SSLCertVerificationError):
                await writer.start_tls(ssl.create_default_context(), server_hostname="model.example")
        assert model.heads == []


@pytest.mark.parametrize(
    "target",
    [
        *("other.example:{p}", "model.example:443", "model.example:{q}", "sub.model.example:{p}"),
        *("127.0.0.1:{q}", "127.0.0.2:{p}", "localhost:{p}", "[::1]:{p}", "93.184.216.34:{p}"),
    ],
)
async def test_no_tls_begins_with_another_host_port_or_address_than_is_listed(tmp_path, certificate, target) -> None:
    names = {name: ["127.0.0.1"] for name in ("model.example", "other.example", "sub.model.example", "localhost")}
    async with (
        TlsServer(certificate) as model,
        TlsServer(certificate) as other,
        Way(tmp_path, *by_name(model), names=names.items()) as way,
    ):
        wanted = target.format(p=model.port, q=other.port)
        async with tunnel_to(way, wanted) as (status, reader, _):
            assert status == 403
            assert f"{wanted} is refused" in (await reader.read()).decode()
        assert way.egress.used == {}
        assert way.egress.refused == {wanted: 1}
