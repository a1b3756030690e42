"""Addresses that a spoke names: none of them makes the host speak to its own network."""

from __future__ import annotations

import pytest

from tallystick.core.errors import Refused
from tallystick.edge.spoke.guard import Guard

CLOSED = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "100.100.100.200", "168.63.129.16", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "2001:0:7f00:1::", "fec0::1",
]  # fmt: skip


def guard(*addresses: str, allowed: tuple[str, ...] = ()) -> Guard:
    async def resolve(_name: str, _port: int) -> list[str]:
        return list(addresses)

    return Guard(allowed, resolve)


@pytest.mark.parametrize("address", CLOSED)
async def test_no_name_leads_the_host_to_an_address_that_is_not_public(address: str) -> None:
    for found in ((address,), ("93.184.215.14", address)):
        with pytest.raises(Refused) as caught:
            await guard(*found).target("https://spoke.example/frames")
        assert caught.value.code.value == "denied"
        assert "config.toml" in caught.value.remedy


async def test_a_public_address_is_pinned_and_its_name_kept_for_the_certificate() -> None:
    target = await guard("93.184.215.14").target("https://spoke.example:8443/frames?x=1")
    assert target == ("https://93.184.215.14:8443/frames?x=1", "spoke.example:8443", "spoke.example")
    target = await guard("2606:2800:21f:cb07:6820:80da:af6b:8b2c").target("https://spoke.example/")
    assert target.url == "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:443/"


async def test_plain_http_is_refused_even_to_a_public_address() -> None:
    with pytest.raises(Refused, match="not https"):
        await guard("93.184.215.14").target("http://spoke.example/")


async def test_what_a_person_allowed_is_that_very_origin_and_no_other() -> None:
    local = guard("127.0.0.1", allowed=("http://127.0.0.1:9000",))
    assert (await local.target("http://127.0.0.1:9000/frames")).url == "http://127.0.0.1:9000/frames"
    for url in ("http://127.0.0.1:9001/", "http://localhost:9000/", "https://127.0.0.1:9000/", "http://127.0.0.1/"):
        with pytest.raises(Refused):
            await local.target(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "spoke.example", "ftp://spoke.example/", "file:///etc/passwd", "https://", "https://user@spoke.example/",
        "https://user:pw@spoke.example/", "https://spoke.example/#x", "https://spoke.example:0/", "https://a:b:c/",
        "https://spoke.example:99999/", "https://spoke.example\\@127.0.0.1/", "https://spoke.example/\r\nHost: x",
        "https://spoke.example/ x", "https://gemäß.example/", "javascript:alert(1)", "https://[::1/", "//x.example/",
    ],
)  # fmt: skip
async def test_what_is_no_plain_url_is_invalid(url: str) -> None:
    with pytest.raises(Refused) as caught:
        await guard("93.184.215.14").target(url)
    assert caught.value.code.value == "invalid"


async def test_numbers_in_odd_spellings_are_what_the_system_makes_of_them() -> None:
    for url in ("https://127.1/", "https://2130706433/", "https://0x7f.1/", "https://[::ffff:7f00:1]/", "https://localhost/"):
        with pytest.raises(Refused):
            await Guard().target(url)


async def test_a_name_that_leads_nowhere_is_told() -> None:
    with pytest.raises(Refused, match="leads nowhere"):
        await guard().target("https://spoke.example/")
