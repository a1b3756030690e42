"""Spokes and clients that come to a host from another machine: over TLS, with a token, under a private authority."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import Capability, ReachClient, ReachMessage, ReachNoRoute, ReachRefused, Spoke
from tests.support.ends import PATIENCE, Haven
from tests.support.web import Site

AUTHORITY = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=Ours"
REQUEST = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=hub"
NAMES = """\
subjectAltName=DNS:localhost
basicConstraints=CA:FALSE
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (`ca.pem`), a certificate of it for localhost (`cert.pem`, `key.pem`), and another authority."""
    place = tmp_path_factory.mktemp("pki")
    for name in ("ca", "other"):
        openssl(*AUTHORITY.split(), "-keyout", str(place / f"{name}.key"), "-out", str(place / f"{name}.pem"))
    (place / "names").write_text(NAMES)
    openssl(*REQUEST.split(), "-keyout", str(place / "key.pem"), "-out", str(place / "request.pem"))
    signed = ("-CA", str(place / "ca.pem"), "-CAkey", str(place / "ca.key"), "-CAcreateserial", "-days", "2")
    given = ("-in", str(place / "request.pem"), "-out", str(place / "cert.pem"), "-extfile", str(place / "names"))
    openssl("x509", "-req", *signed, *given)
    return place


@pytest.fixture
async def haven(tmp_path: Path, pki: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Haven]:
    """A host that listens with TLS. The programs have a home of their own, so that they find no token by themselves."""
    monkeypatch.setenv("TALLY_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("TALLY_AGENT", "TALLY_SESSION", "TALLY_SOCKET", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(pki / "ca.pem"))
    haven = Haven(tmp_path / "home", listen=True)
    given = {"tls_cert": str(pki / "cert.pem"), "tls_key": str(pki / "key.pem")}
    haven._settings = msgspec.structs.replace(haven._settings, **given)
    async with haven:
        yield haven


async def made(haven: Haven, name: str, *domains: str) -> str:
    token: str = (await haven.desk.add_token(await haven.person(), name, domains)).token
    return token


def at(haven: Haven, name: str = "localhost") -> str:
    return haven.url.replace("127.0.0.1", name)


async def shout(message: ReachMessage) -> Any:
    return message.payload.upper()


async def test_a_spoke_and_a_client_reach_each_other_over_tls_with_tokens_of_their_own(haven: Haven) -> None:
    assert haven.url.startswith("https://")
    token = await made(haven, "shout-1", "words")
    async with Spoke("shout-1", [Capability("Shout", domain="words")], {"Shout": shout}, at(haven), token):
        async with ReachClient(at(haven), token) as inside:
            assert (await inside.sail("Shout", "hello")).payload == "HELLO"
        outsider = await made(haven, "other-1", "numbers")
        async with (
            Spoke("other-1", [Capability("Echo", domain="numbers")], {"Echo": shout}, at(haven), outsider),
            ReachClient(at(haven), outsider) as client,
        ):
            with pytest.raises(ReachNoRoute):
                await client.sail("Shout", "hello")


async def test_a_token_that_is_taken_away_ends_the_link_and_lets_nobody_in_again(haven: Haven) -> None:
    token = await made(haven, "shout-1")
    spoke = Spoke("shout-1", [Capability("Shout")], {"Shout": shout}, at(haven), token)
    await spoke.start()
    assert spoke._running is not None
    channel = spoke._running.channel
    await haven.desk.remove_token(await haven.person(), "shout-1")
    async with asyncio.timeout(PATIENCE):
        while channel.is_up or haven.hub.spokes:  # noqa: ASYNC110 - it is the host that ends it
            await asyncio.sleep(0.01)
    with pytest.raises(ReachRefused) as caught:
        await ReachClient(at(haven), token).sail("Shout", "hello")
    assert caught.value.code == "unauthenticated"
    await spoke.stop()


@pytest.mark.parametrize("reason", ["another authority", "another name"])
async def test_a_host_whose_certificate_is_not_trusted_is_refused_and_never_told_the_token(
    haven: Haven, pki: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    token = await made(haven, "shout-1")
    url = at(haven)
    if reason == "another authority":
        monkeypatch.setenv("SSL_CERT_FILE", str(pki / "other.pem"))
    else:
        url = haven.url  # the certificate is for localhost, not for its address
    spoke = Spoke("shout-1", [Capability("Shout")], {"Shout": shout}, url, token)
    for reach in (spoke.start, lambda: ReachClient(url, token).sail("Shout", "hello")):
        with pytest.raises(ReachRefused) as caught:
            await reach()
        assert (caught.value.code, "SSL_CERT_FILE" in caught.value.remedy) == ("denied", True)
        assert token not in str(caught.value)
    assert haven.hub.spokes == {}


async def test_without_a_token_nobody_gets_in_and_nothing_goes_in_the_clear(haven: Haven) -> None:
    with pytest.raises(ReachRefused) as caught:
        ReachClient(at(haven))
    assert caught.value.code == "unauthenticated"
    with pytest.raises(ReachRefused) as caught:
        ReachClient("http://hub.example.org:8765", "x" * 43)
    assert caught.value.code == "denied"


def test_what_a_person_types_lets_a_spoke_in_from_another_machine(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(pki / "ca.pem"))
    with Site() as site:
        tls = ("--tls-cert", str(pki / "cert.pem"), "--tls-key", str(pki / "key.pem"))
        site.up(*tls, settings='person_verbs = "uid"\n')
        code, out, err = site.tally("token", "add", "shout-1", "--domain", "words")
        assert (code, err) == (0, "")
        token = out.splitlines()[0]
        assert len(token) == 43
        code, out, _ = site.tally("token", "list", "--json")
        assert [(one["name"], one["domains"]) for one in json.loads(out)["tokens"]] == [("shout-1", ["words"])]
        assert token not in out

        async def sail() -> Any:
            offers, url = [Capability("Shout", domain="words")], site.url.replace("127.0.0.1", "localhost")
            async with Spoke("shout-1", offers, {"Shout": shout}, url, token, store=site.place / "spoke.db"):
                return (await ReachClient(url, token).sail("Shout", "hello")).payload

        assert asyncio.run(sail()) == "HELLO"
        site.tally("token", "remove", "shout-1")
        with pytest.raises(ReachRefused) as caught:
            asyncio.run(sail())
        assert caught.value.code == "unauthenticated"
        said = [line["what"] for line in json.loads(site.tally("activity", "--json")[1])["events"]]
        assert [words for words in said if "token" in words] == [
            "made the token of shout-1",
            "took the token of shout-1 away",
        ]
        logged = b"".join(path.read_bytes() for path in (site.path / "log").iterdir())
        assert token.encode() not in logged


PROGRAM = """
import asyncio, sys
from tallystick import ReachClient, ReachNoRoute

async def main():
    client = ReachClient(sys.argv[1], sys.argv[2])
    try:
        await client.sail("Nothing", 1)
    except ReachNoRoute as refused:
        print(refused.code)

asyncio.run(main())
"""


async def test_a_program_that_ends_without_closing_its_client_ends_without_a_word(haven: Haven, tmp_path: Path) -> None:
    ended = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, at(haven), haven.token),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        told = await ended.communicate()
    assert told == (b"no_route\n", b"")
