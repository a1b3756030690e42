"""Programs that ask the hub for what is not theirs to read, or not there to be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ends import End, Haven, new_id

WORDS = b"the words"


@pytest.fixture
async def haven(tmp_path: Path) -> AsyncIterator[Haven]:
    async with Haven(tmp_path / "home", retry_seconds=(0.05, 0.05)) as haven:
        yield haven


async def in_hand(haven: Haven) -> tuple[End, dict[str, Any]]:
    """A spoke, and a message with one reference that it has in hand."""
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    digest = haven.desk.s.blobs.put(WORDS)
    await client.sail(1, context={"references": [f"blob:{digest}"]})
    return spoke, await spoke.begin()


async def refusal(end: End, sail: dict[str, Any], index: int = 0, offset: int = 0) -> dict[str, Any]:
    asked = await end.fetch(sail, index, offset)
    refused = await end.hear("FAIL")
    assert refused["header"]["msg_id"] == asked
    assert refused["body"]["remedy"]
    return refused["body"]


async def test_the_delivery_of_another_is_as_good_as_none(haven: Haven) -> None:
    spoke, sail = await in_hand(haven)
    stranger = await haven.end("memory")
    await stranger.anchor("stranger", capabilities=[{"name": "Else"}])
    foreign = await refusal(stranger, sail)
    none = await refusal(stranger, {"body": {"delivery": new_id()}})
    assert foreign["code"] == none["code"] == "not_found"
    assert foreign["message"] == none["message"]
    await spoke.fetch(sail, 0)
    assert (await spoke.hear("ACK"))["body"]["size"] == len(WORDS)


async def test_a_program_that_is_no_spoke_reads_nothing(haven: Haven) -> None:
    _, sail = await in_hand(haven)
    assert (await refusal(await haven.end("memory"), sail))["code"] == "conflict"


async def test_a_message_that_was_given_to_another_is_read_by_that_one_alone(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    digest = haven.desk.s.blobs.put(WORDS)
    await client.sail(1, context={"references": [f"blob:{digest}"]})
    sail = await spoke.take()
    other = await haven.end("memory")
    await other.anchor("echo-2")
    await spoke.about(sail, "FAIL", code="unavailable", of="SAIL", fence=None)
    again = await other.begin()
    assert (await refusal(spoke, sail))["code"] == "not_found"
    await other.fetch(again, 0)
    assert (await other.hear("ACK"))["body"]["size"] == len(WORDS)


@pytest.mark.parametrize(
    ("index", "offset", "code"),
    [(1, 0, "not_found"), (-1, 0, "invalid"), (2**70, 0, "invalid"), (0, 10, "invalid"), (0, -1, "invalid")],
)
async def test_a_place_that_is_none_is_refused(haven: Haven, index: int, offset: int, code: str) -> None:
    spoke, sail = await in_hand(haven)
    assert (await refusal(spoke, sail, index, offset))["code"] == code
    await spoke.fetch(sail, 0, len(WORDS))
    assert "bytes" not in (await spoke.hear("ACK"))["body"], "at its end there is nothing more"


async def test_content_that_is_not_what_it_was_is_never_handed_over(haven: Haven) -> None:
    spoke, sail = await in_hand(haven)
    (blob,) = [path for path in (haven.home / "blobs").rglob("*") if path.is_file() and path.read_bytes() == WORDS]
    blob.chmod(0o600)
    blob.write_bytes(b"THE WORDS")
    refused = await refusal(spoke, sail)
    assert "damaged" in refused["message"]
    blob.unlink()
    assert (await refusal(spoke, sail))["code"] == "not_found"


@pytest.mark.parametrize(
    "references",
    ["notes.md", [5], [None], [["a"]], ["x" * 2001], ["a\0b"], {"0": "a"}, ["blob:" + "0" * 64], ["\x1b[2J"]],
)
async def test_references_that_are_none_are_refused_with_their_message(haven: Haven, references: Any) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.sail(1, context={"references": references})
    refused = (await client.hear("FAIL"))["body"]
    assert refused["code"] in ("invalid", "not_found")
    assert "\x1b" not in refused["message"]
    assert spoke.came.empty()
