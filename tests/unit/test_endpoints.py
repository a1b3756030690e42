"""What a list of endpoints means: one spelling each, no address in disguise, no name that stands for a private one."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from tallystick.edge.acp.endpoints import Endpoint, endpoint, listed, may_be, words


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("api.openai.com:443", "api.openai.com", 443),
        ("API.OpenAI.com.:443", "api.openai.com", 443),
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("[::1]:8080", "::1", 8080),
        ("[2001:DB8:0::1]:1", "2001:db8::1", 1),
        ("localhost:65535", "localhost", 65535),
        ("xn--bcher-kva.example:443", "xn--bcher-kva.example", 443),
        ("host_1.internal:80", "host_1.internal", 80),
    ],
)
def test_an_endpoint_has_one_spelling(text, host, port) -> None:
    found = endpoint(text)
    assert found == Endpoint(host, port)
    assert endpoint(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        *("", ":443", "api.openai.com", "api.openai.com:", "api.openai.com:0", "api.openai.com:65536", "a:١"),
        *("a:+1", "a:1 1", "a:0x50", "https://api.openai.com:443", "a/b:1", "user@a:1", "*.openai.com:443", "a b:1"),
        *("127.1:80", "2130706433:80", "0x7f.1:80", "0177.0.0.1:80", "0x7f000001:80", "1.2.3.4.5:80", "256.1.1.1:80"),
        *("::1:80", "[::1%lo]:80", "[::1:80", "[127.0.0.1]:80", "bücher.example:443", "-a.example:1", "a..b:1"),
        *("a." * 130 + "b:1", "a\n:1", "a\0b:1", "a:443\n1"),
    ],
    ids=repr,
)
def test_what_is_no_endpoint_or_could_be_read_in_two_ways_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r"names no host|has no port"):
        endpoint(text)


def test_a_port_of_the_loopback_that_no_sandbox_can_listen_on_is_not_listed() -> None:
    for text in ("127.0.0.1:80", "localhost:443", "[::1]:22"):
        with pytest.raises(ValueError, match="1024 or above"):
            listed(text)
    assert listed("10.0.0.1:80") == Endpoint("10.0.0.1", 80)


NAME = Endpoint("model.example", 443)
PUBLIC = ("93.184.216.34", "2606:2800:220:1::1")
PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe"),
    *("168.63.129.16", "fec0::1", "::ffff:168.63.129.16"),
)


def test_a_name_may_lead_to_public_addresses_alone() -> None:
    assert [text for text in PUBLIC if not may_be(NAME, ip_address(text), frozenset({NAME}))] == []
    assert [text for text in PRIVATE if may_be(NAME, ip_address(text), frozenset({NAME}))] == []


def test_a_name_may_lead_to_a_private_address_that_is_listed_itself_with_that_port() -> None:
    allowed = frozenset({NAME, Endpoint("10.1.2.3", 443), Endpoint("10.1.2.4", 80)})
    assert may_be(NAME, ip_address("10.1.2.3"), allowed)
    assert may_be(NAME, ip_address("::ffff:10.1.2.3"), allowed)
    assert not may_be(NAME, ip_address("10.1.2.4"), allowed)


def test_localhost_is_the_loopback_and_nothing_else() -> None:
    local = Endpoint("localhost", 8080)
    assert local.is_loopback
    assert may_be(local, ip_address("127.0.0.1"), frozenset({local}))
    assert not may_be(local, ip_address("93.184.216.34"), frozenset({local}))


def test_a_list_is_shown_in_order_and_an_empty_one_says_nothing_is_reached() -> None:
    assert words(frozenset({Endpoint("b.example", 1), Endpoint("::1", 2000)})) == "[::1]:2000, b.example:1"
    assert words(frozenset()) == "nothing"
