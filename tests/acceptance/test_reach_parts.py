"""A raw client that sends more parts of one dispatch than there may be: the host refuses what is too much."""

from __future__ import annotations

from pathlib import Path

from tests.support.ends import Haven

PARTS = 64


async def test_a_raw_client_gets_no_more_than_64_open_parts_in_one_group(tmp_path: Path) -> None:
    async with Haven(tmp_path / "home") as haven:
        spoke, client, other = [await haven.end("memory") for _ in range(3)]
        await spoke.anchor(offer={"concurrency": 64})
        for n in range(PARTS):
            await client.sail({"n": n}, group="grp_raw")
            await client.hear("ACK")
        await other.sail({"n": PARTS}, group="grp_raw")
        refused = (await other.hear("FAIL"))["body"]
        assert (refused["code"], refused["of"]) == ("denied", "SAIL")
        assert refused["message"] == "This dispatch has 64 open parts; the limit is 64."
        await other.sail({"n": 0}, group="grp_new")
        assert (await other.hear("ACK"))["body"]["of"] == "SAIL", "another dispatch is not held up"
