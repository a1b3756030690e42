"""What a program has in its hands is no news elsewhere: no notice in an inbox, nothing on a desktop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ends import PATIENCE, End, Haven


class Desktop:
    """Keeps what it is asked to show."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def show(self, _key: str, _title: str, text: str) -> str:
        self.shown.append(text)
        return ""

    async def clear(self, _key: str) -> None:
        return


@pytest.fixture
def desktop() -> Desktop:
    return Desktop()


@pytest.fixture
async def haven(tmp_path: Path, desktop: Desktop) -> AsyncIterator[Haven]:
    async with Haven(tmp_path / "home", notifier=desktop) as haven:
        yield haven


async def answered(haven: Haven, spoke: End, client: End) -> str:
    """One message, sailed and answered; its id."""
    msg_id = await client.sail({"n": 1})
    await spoke.about(await spoke.begin(), "RESULT", payload=2, digest="d")
    await spoke.hear("ACK")
    while (await client.hear())["header"]["msg_type"] != "RESULT":
        pass
    return msg_id


async def notices(haven: Haven) -> list[Any]:
    return list((await haven.desk.inbox(await haven.person())).notices)


async def test_a_result_that_its_program_acknowledged_is_no_notice(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    first, second = await answered(haven, spoke, client), await answered(haven, spoke, client)
    assert len(await notices(haven)) == 2, "until then it may still be lost with its program"
    for msg_id in (first, second):
        await client.say("ACK", {"of": "RESULT"}, msg_id=msg_id)
    async with asyncio.timeout(PATIENCE):
        while await notices(haven):  # noqa: ASYNC110 - whatever is awaited goes on meanwhile
            await asyncio.sleep(0)


async def test_what_was_acknowledged_as_the_host_stops_is_recorded(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.say("ACK", {"of": "RESULT"}, msg_id=await answered(haven, spoke, client))
    await client.say("SETTLE", {}, trace_id="trc_00000000000000000000000000")
    await client.hear("FAIL")  # frames are taken in order, so the ACK is there as well
    await haven.restart()
    assert await notices(haven) == []


async def test_a_result_whose_program_is_gone_is_a_notice(haven: Haven) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await client.sail({"n": 1})
    sail = await spoke.begin()
    await client.close()
    await spoke.about(sail, "RESULT", payload=2, digest="d")
    await spoke.hear("ACK")
    assert [found.task_id for found in await notices(haven)] == [sail["body"]["task_id"]]


async def test_the_desktop_is_not_told_of_a_result_that_a_program_waits_for(haven: Haven, desktop: Desktop) -> None:
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    await answered(haven, spoke, client)
    alone = await haven.end("memory")
    await alone.sail({"n": 2}, title="Nobody waits")
    sail = await spoke.begin()
    await alone.close()
    await spoke.about(sail, "RESULT", payload=2, digest="d")
    async with asyncio.timeout(PATIENCE):
        while not desktop.shown:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert len(desktop.shown) == 1
    assert "Nobody waits is done" in desktop.shown[0]
