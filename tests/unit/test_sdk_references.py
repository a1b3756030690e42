"""References in a handler, and a host that hands over something else than it named."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import Capability, ReachClient, ReachMessage, Spoke
from tallystick.sdk import ContextSlice, Reference
from tallystick.sdk.frames import Frame
from tests.support.reach import ScriptedHub

WORDS = b"the words"
NAMED = {"kind": "blob", "text": "blob:ab", "name": "notes.md", "sha256": hashlib.sha256(WORDS).hexdigest()}


async def resolve(message: ReachMessage) -> str:
    return (await message.context.references[0].resolve()).decode()


def part(content: bytes, **told: Any) -> dict[str, Any]:
    return {"bytes": base64.b64encode(content).decode(), "size": len(WORDS), **told}


async def outcome(hub: ScriptedHub, tmp_path: Path, handler: Any = resolve, size: int | None = len(WORDS)) -> Frame:
    """What the handler's message ends with."""
    async with Spoke("s-1", [Capability("Do")], {"Do": handler}, store=tmp_path / "s.db", link=hub.dial):
        await hub.deliver("Do", 1, references=[{**NAMED, "size": size}], context={"goal": "g", "references": ["old"]})
        return await hub.got("RESULT" if hub.answers.get("right") else "FAIL")


def answering(*parts: Any, right: bool = False) -> ScriptedHub:
    """A hub that answers one FETCH after the other with these."""
    hub, left = ScriptedHub(), list(parts)
    hub.answers["FETCH"] = lambda asked: [hub.ack(asked, **(left.pop(0) if len(left) > 1 else left[0]))]
    if right:
        hub.answers["right"] = lambda _: []
    return hub


async def test_parts_are_put_together_each_asked_for_where_the_last_ended(tmp_path: Path) -> None:
    hub = answering(part(WORDS[:4], more=True), part(WORDS[4:]), right=True)
    assert (await outcome(hub, tmp_path))["body"]["payload"] == "the words"
    asked = [sent["body"] for sent in hub.heard if sent["header"]["msg_type"] == "FETCH"]
    assert [(one["index"], one["offset"]) for one in asked] == [(0, 0), (0, 4)]


async def test_an_answer_that_is_lost_with_its_link_is_asked_for_again(tmp_path: Path) -> None:
    hub = ScriptedHub()
    seen: list[Frame] = []

    def answer(asked: Frame) -> list[Frame]:
        seen.append(asked)
        if len(seen) == 1:
            assert hub.link is not None
            hub.link.close()
            return []
        return [hub.ack(asked, **part(WORDS))]

    hub.answers |= {"FETCH": answer, "right": lambda _: []}
    hub.resume = {}
    assert (await outcome(hub, tmp_path))["body"]["payload"] == "the words"
    assert len(seen) == 2


@pytest.mark.parametrize(
    "parts",
    [
        [part(b"THE WORDS")],
        [part(WORDS[:4])],
        [part(WORDS + b"!")],
        [part(WORDS, size=10)],
        [part(WORDS, more=True)],
        [part(b"", more=True)],
    ],
    ids=["other bytes", "too few", "too many", "another size", "no end", "nothing and more"],
)
async def test_content_that_is_not_what_was_named_is_refused(tmp_path: Path, parts: list[Any]) -> None:
    body = (await outcome(answering(*parts), tmp_path))["body"]
    assert body["code"] == "conflict"
    assert "blob:ab is not what was sent" in body["message"]


async def test_of_lines_the_size_is_known_when_they_are_read_and_the_digest_before(tmp_path: Path) -> None:
    hub = answering(part(WORDS), right=True)
    assert (await outcome(hub, tmp_path, size=None))["body"]["payload"] == "the words"
    hub = answering(part(b"THE WORDS"))
    again = tmp_path / "again"
    again.mkdir()
    assert (await outcome(hub, again, size=None))["body"]["code"] == "conflict"


async def test_what_cannot_be_read_as_an_answer_is_refused(tmp_path: Path) -> None:
    body = (await outcome(answering({"bytes": "%%"}), tmp_path))["body"]
    assert body["code"] == "invalid"


async def test_a_refusal_of_the_host_is_raised_in_the_handler(tmp_path: Path) -> None:
    hub = ScriptedHub()
    hub.answers["FETCH"] = lambda asked: [hub.fail(asked, "not_found", "It was erased.")]
    body = (await outcome(hub, tmp_path))["body"]
    assert (body["code"], "It was erased." in body["message"]) == ("not_found", True)


async def test_a_reference_is_its_text_and_goes_on_as_that(tmp_path: Path) -> None:
    other = ScriptedHub()
    other.answers["SAIL"] = lambda found: [other.fail(found, "offline", "Gone.")]

    async def hands_on(message: ReachMessage) -> None:
        (found,) = message.context.references
        assert isinstance(found, Reference)
        assert (found, found.name, found.place) == ("blob:ab", "notes.md", 0)
        assert message.context.within(8, len).references == (found,)
        async with ReachClient(link=other.dial) as client:
            await client.sail("Inner", 1, context=message.context)

    await outcome(ScriptedHub(), tmp_path, hands_on)
    assert other.heard[0]["body"]["context"] == {"goal": "g", "references": ["blob:ab"]}


async def test_what_is_no_text_is_no_reference() -> None:
    with pytest.raises(Exception, match="is no slice"):
        await ReachClient(link=ScriptedHub().dial).sail("Do", 1, context={"references": [object()]})
    assert msgspec.json.encode(ContextSlice(references=("a",))) == b'{"references":["a"]}'
