"""What may be a payload or a result: it arrives as it was given, or is refused with the place."""

from __future__ import annotations

import datetime as dt
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import Capability, ReachClient, ReachMessage, ReachRefused, Spoke
from tallystick.sdk import Schema
from tallystick.sdk.payload import DEPTH, plain
from tests.support.reach import ScriptedHub

WHEN = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
RING: list[Any] = []
RING.append(RING)


def nested(depth: int) -> Any:
    """Lists in one another."""
    return [nested(depth - 1)] if depth else 1


NOT_JSON = [
    ({"a": [1, float("nan")]}, r"the number nan at \$\.a\[1\]"),
    ({"a": float("-inf")}, r"the number -inf at \$\.a\."),
    ({"a": {"b": b"x"}}, r"type bytes at \$\.a\.b"),
    ([{1, 2}], r"type set at \$\[0\]"),
    ({"a": {1: 2}}, r"the key 1 at \$\.a\."),
    ({None: 2}, r"the key None at \$\."),
    ({"at": WHEN}, r"type datetime at \$\.at"),
    (2**64, r"an integer of more than 64 bits at \$"),
    (RING, "nested too deep, or holds itself"),
    (nested(DEPTH + 1), "nests deeper than 60"),
    ({"a": [nested(DEPTH - 1)]}, "nests deeper than 60"),
    ("\ud800", "cannot be sent as JSON"),
]


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Record(msgspec.Struct):
    at: dt.datetime
    content: bytes
    names: set[str]
    by_number: dict[int, str]
    share: float = 0.5


RECORD = Record(WHEN, b"\x00\xff", {"a"}, {1: "one"})


def test_what_nests_as_deep_as_the_host_takes_is_sent() -> None:
    whole = [nested(DEPTH - 1)] * 40
    assert plain(whole, "payload") == whole


@pytest.mark.parametrize(("value", "words"), NOT_JSON)
async def test_what_json_would_change_is_refused_with_the_place_before_it_is_sent(value: Any, words: str) -> None:
    hub = ScriptedHub()
    with pytest.raises(ReachRefused, match=words) as caught:
        await ReachClient(link=hub.dial).sail("Do", value)
    assert caught.value.code == "invalid"
    assert hub.heard == []


@pytest.mark.parametrize(("value", "words"), NOT_JSON)
async def test_a_result_that_json_would_change_fails_with_the_place(tmp_path: Path, value: Any, words: str) -> None:
    hub = ScriptedHub()
    async with Spoke("s-1", [Capability("Do")], {"Do": lambda _: value}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Do", 1)
        failed = (await hub.got("FAIL"))["body"]
    with pytest.raises(ReachRefused, match=words):
        plain(value, "result")
    assert (failed["code"], failed["began"]) == ("invalid", True)
    assert failed["message"].startswith("The result of capability Do ")


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ({"a": [None, True, 1, -(2**63), 2**64 - 1, 1.5, "é"]},) * 2,
        ((1, (2,)), [1, [2]]),
        ({"a": Colour.RED, "b": Size.SMALL}, {"a": "red", "b": 1}),
    ],
)
def test_plain_values_travel_as_they_are(value: Any, sent: Any) -> None:
    assert plain(value, "payload") == sent


def test_a_struct_with_a_number_that_json_lacks_is_refused_too() -> None:
    with pytest.raises(ReachRefused, match=r"the number inf at \$\.order\.share"):
        plain({"order": msgspec.structs.replace(RECORD, share=float("inf"))}, "payload")


async def test_each_field_of_a_struct_comes_back_as_its_type(tmp_path: Path) -> None:
    hub = ScriptedHub()

    async def same(message: ReachMessage) -> Record:
        assert message.payload == RECORD
        return RECORD

    offer = Capability("Do", schema=Schema(Record, Record))
    async with Spoke("s-1", [offer], {"Do": same}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Do", plain(RECORD, "payload"))
        payload = (await hub.got("RESULT"))["body"]["payload"]
    assert offer.checks.check_result(payload, "capability Do") == RECORD
