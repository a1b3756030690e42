"""What the host takes for a frame of REACH-RPC, and how it refuses the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.app.calls import Unread
from tallystick.core.errors import invalid
from tallystick.edge.spoke.frames import Result, Sail
from tallystick.edge.spoke.reading import FrameRefused, read

HEAD = {"proto_version": 1, "msg_id": "msg_1", "msg_type": "BEGIN"}
BODY = {"delivery": "dlv_1", "fence": 1}


def refused(message: Any) -> FrameRefused:
    with pytest.raises(FrameRefused) as caught:
        read(message)
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("message", [None, [], "BEGIN", {}, {"header": HEAD}, {"header": [], "body": {}}])
def test_what_has_no_header_and_body_is_no_frame(message: Any) -> None:
    assert refused(message).code.value == "invalid"


def test_a_field_beside_header_and_body_is_refused() -> None:
    assert "no more" in refused({"header": HEAD, "body": BODY, "trailer": 1}).message


def test_another_version_is_refused_with_both_versions_and_ends_the_connection() -> None:
    found = refused({"header": {**HEAD, "proto_version": 2}, "body": BODY})
    assert (found.code.value, found.ends, found.msg_id) == ("unsupported", True, "msg_1")
    assert "version 1" in found.message
    assert "not 2" in found.message


@pytest.mark.parametrize("version", [None, True, 1.0, "1"])
def test_a_version_that_is_no_integer_is_invalid_and_ends_nothing(version: Any) -> None:
    found = refused({"header": {**HEAD, "proto_version": version}, "body": BODY})
    assert (found.code.value, found.ends) == ("invalid", False)


def test_an_unknown_kind_of_frame_is_told_with_those_that_are_known_and_ends_nothing() -> None:
    found = refused({"header": {**HEAD, "msg_type": "PUSH"}, "body": {}})
    assert (found.code.value, found.ends, found.msg_id, found.of) == ("unsupported", False, "msg_1", "PUSH")
    assert "ANCHOR" in found.remedy


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ({"port": 80}, {}),
        ({}, {"extra": 1}),
        ({"msg_id": ""}, {}),
        ({"msg_id": 5}, {}),
        ({"msg_id": "m" * 201}, {}),
        ({"msg_type": ""}, {}),
        ({"timeout_ms": -1}, {}),
        ({"timeout_ms": True}, {}),
        ({"timeout_ms": 1.5}, {}),
        ({"traceparent": "nonsense"}, {}),
        ({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n"}, {}),
        ({}, {"fence": "1"}),
        ({}, {"fence": True}),
        ({}, {"fence": -1}),
        ({}, {"fence": 2**60}),
        ({}, {"delivery": ""}),
    ],
)
def test_each_wrong_field_is_refused_and_named(header: dict[str, Any], body: dict[str, Any]) -> None:
    found = refused({"header": {**HEAD, **header}, "body": {**BODY, **body}})
    assert found.code.value == "invalid"
    assert not found.ends


@pytest.mark.parametrize("body", [{}, {"delivery": "dlv_1"}, [], None, "x"])
def test_a_body_that_lacks_something_is_refused(body: Any) -> None:
    assert refused({"header": HEAD, "body": body}).msg_id == "msg_1"


def test_a_message_to_nobody_and_a_settlement_of_nothing_are_refused() -> None:
    assert "target_capability" in refused({"header": {**HEAD, "msg_type": "SAIL"}, "body": {}}).message
    assert "trace_id" in refused({"header": {**HEAD, "msg_type": "SETTLE"}, "body": {}}).message


@pytest.mark.parametrize("name", ["", "Agent", "-a", "a_b", "a" * 64, "a\n", "审查员"])
def test_a_spoke_is_named_like_any_agent(name: str) -> None:
    body = {"spoke_id": name, "store": "s", "incarnation": "1@2", "capabilities": []}
    refused({"header": {**HEAD, "msg_type": "ANCHOR"}, "body": body})


def test_a_payload_may_be_any_json() -> None:
    for payload in (None, False, 0, "", [], {"a": [1.5, None]}):
        message = {"header": {**HEAD, "msg_type": "RESULT"}, "body": {**BODY, "payload": payload}}
        body = read(message).body
        assert isinstance(body, Result)
        assert body.payload == payload


def test_what_is_not_said_has_its_meaning() -> None:
    body = read({"header": {**HEAD, "msg_type": "SAIL", "target_capability": "Echo"}, "body": {}}).body
    assert body == Sail(payload=None, to="one", retry="retreat")


def test_a_refusal_names_the_delivery_that_the_frame_was_about() -> None:
    found = refused({"header": HEAD, "body": {**BODY, "code": "x" * 300}})
    assert (found.msg_id, found.of, found.delivery) == ("msg_1", "BEGIN", "dlv_1")
    assert refused({"header": HEAD, "body": {**BODY, "delivery": 5}}).delivery == ""


@pytest.mark.parametrize("depth", [80, 100_000])
def test_of_a_frame_that_is_too_deep_the_names_are_read_as_far_as_they_can_be(depth: int) -> None:
    text = b'{"header":{"msg_id":"msg_1","msg_type":"RESULT"},"body":{"delivery":"dlv_1","payload":%s}}'
    found = refused(Unread(invalid("It is too deep.", "Nest less."), text % (b"[" * depth + b"]" * depth)))
    known = ("msg_1", "RESULT", "dlv_1")
    assert (found.msg_id, found.of, found.delivery) == (known if depth == 80 else ("", "", ""))
    assert found.message == "It is too deep."


@pytest.mark.parametrize("text", [b"", b"[]", b'{"header":5}', b"\xff"])
def test_of_what_is_no_frame_at_all_nothing_is_named(text: bytes) -> None:
    assert refused(Unread(invalid("It is none.", "Send one."), text)).msg_id == ""
