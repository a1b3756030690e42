"""Tokens of spokes are in the record: by whom, for what, until when. The door asks the record and the file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
import websockets

from tallystick.app.desk import forms
from tallystick.core.errors import Refused
from tallystick.core.events import SpokeTokenMade, SpokeTokenRemoved
from tallystick.core.identity import ActorKind
from tallystick.sdk.client import ReachClient
from tallystick.sdk.errors import ReachRefused
from tallystick.sdk.link import MemoryLink
from tests.support.ends import PATIENCE, Haven, Lost, MemoryEnd
from tests.support.places import Place

LONGEST_START = 12
"""More events than a host records before it serves, and one."""


@pytest.fixture
async def haven(tmp_path: Path) -> AsyncIterator[Haven]:
    async with Haven(tmp_path / "home", listen=True) as haven:
        yield haven


async def made(haven: Haven, *domains: str) -> str:
    secret: str = (await haven.desk.add_token(await haven.person(), "far-1", domains)).token
    return secret


async def removed(haven: Haven) -> str:
    detail: str = (await haven.desk.remove_token(await haven.person(), "far-1")).detail
    return detail


def file_of(haven: Haven) -> Path:
    return haven.home / "tokens" / "far-1"


def put(file: Path, content: bytes) -> None:
    """A file as a person puts it back by hand."""
    file.write_bytes(content)
    file.chmod(0o600)


async def recorded(haven: Haven) -> list[Any]:
    """What the record has of tokens."""
    events = await haven.desk.s.store.tail(0, 1000)
    return [one for one in events if isinstance(one.event, SpokeTokenMade | SpokeTokenRemoved)]


async def comes_in(haven: Haven, secret: str) -> bool:
    try:
        await haven.end("websocket", token=secret)
    except websockets.InvalidStatus as refused:
        if refused.response.status_code != 401:
            raise
        return False
    return True


async def doubts(haven: Haven) -> dict[str, Any]:
    """What doctor finds amiss with tokens, by what it looked at."""
    found = (await haven.desk.doctor(await haven.person())).findings
    return {one.check: one for one in found if one.check.startswith("token") and not one.ok}


async def test_whoever_comes_with_a_token_that_is_none_is_told_how_a_spoke_gets_one(haven: Haven) -> None:
    secret = await made(haven)
    await removed(haven)
    with pytest.raises(ReachRefused) as caught:
        await ReachClient(hub_url=haven.url, token=secret).sail("Count", 1)
    assert caught.value.code == "unauthenticated"
    assert "tally token add NAME" in caught.value.remedy


async def test_a_program_that_only_asks_comes_in_once_it_is_joined_and_is_told_so_before(haven: Haven) -> None:
    person = await haven.person()
    made_first = await haven.desk.add_token(person, "far-1")
    assert not made_first.known
    async with ReachClient(hub_url=haven.url, token=made_first.token) as client:
        with pytest.raises(ReachRefused) as caught:
            await client.sail("Count", 1)
    assert caught.value.code == "not_found"
    assert caught.value.remedy.endswith("on the machine of the host: tally join far-1 --workspace default")
    await haven.desk.join(person, forms.Join(name="far-1"))
    spoke = await haven.end("memory")
    await spoke.anchor("near-1", offer={"name": "Count"})
    async with ReachClient(hub_url=haven.url, token=made_first.token) as client:
        handle = await client.sail("Count", 1, wait=False)
    assert handle.task_id
    assert (await haven.desk.add_token(person, "far-1")).known


async def test_the_record_says_who_made_and_took_away_a_token_and_for_what_and_never_its_secret(haven: Haven) -> None:
    person = await haven.person()
    first = await made(haven, "data")
    second = await made(haven, "ops")
    await removed(haven)
    events = await recorded(haven)
    assert [type(one.event).__name__ for one in events] == ["SpokeTokenMade", "SpokeTokenMade", "SpokeTokenRemoved"]
    assert [(one.event.domains, one.event.replaced) for one in events[:2]] == [(("data",), False), (("ops",), True)]
    for one in events:
        assert (one.stream, one.workspace, one.event.name) == (person.workspace, person.workspace, "far-1")
        assert (one.actor.id, one.actor.kind, one.actor.uid) == (person.actor.id, ActorKind.PERSON, os.getuid())
        assert (one.actor.door, one.subject) == (person.facts.door, person.actor.id)
    lines = (await haven.desk.activity(person, limit=3)).events
    assert [line.what for line in lines] == [
        "made the token of far-1",
        "made the token of far-1 anew",
        "took the token of far-1 away",
    ]
    log = msgspec.json.encode(await haven.desk.s.store.tail(0, 1000))
    for secret in (first, second):
        assert secret.encode() not in log
        assert hashlib.sha256(secret.encode()).hexdigest().encode() not in log
    assert (await haven.desk.log_verify(person))["ok"]
    assert (await haven.desk.log_replay(person))["ok"]


async def test_what_a_token_opens_is_what_the_record_says_also_after_a_restart(haven: Haven) -> None:
    secret = await made(haven, "data")
    await haven.restart()
    end = await haven.end("websocket", token=secret)
    assert (await end.anchor("far-1", offer={"domain": "data"}))["of"] == "ANCHOR"
    kept = json.loads(file_of(haven).read_text())
    assert set(kept) == {"sha256", "token_id"}
    put(file_of(haven), json.dumps({**kept, "domains": ["secret"]}).encode())
    assert not await comes_in(haven, secret)


async def test_a_token_that_was_taken_away_opens_nothing_also_when_its_file_is_put_back(haven: Haven) -> None:
    secret = await made(haven)
    content = file_of(haven).read_bytes()
    await removed(haven)
    assert not file_of(haven).exists()
    put(file_of(haven), content)
    assert not await comes_in(haven, secret)
    await haven.restart()
    assert not await comes_in(haven, secret)
    doubt = (await doubts(haven))["token far-1"]
    assert "does not know it" in doubt.saw
    assert doubt.fix == "Add it again: tally token add far-1; or take it away: tally token remove far-1"
    noted = [one for one in haven.desk.s.diagnostics.newest(50) if one["kind"] == "token at odds"]
    assert [one["name"] for one in noted] == ["far-1"]
    assert await haven.desk.names(await haven.person(), "token") == ["far-1"]
    assert "knew no token" in await removed(haven)
    assert not file_of(haven).exists()
    assert await doubts(haven) == {}
    with pytest.raises(Refused, match="no token"):
        await removed(haven)
    assert len(await recorded(haven)) == 2


async def test_the_file_of_an_older_token_opens_nothing_where_there_is_a_newer_one(haven: Haven) -> None:
    older = await made(haven)
    content = file_of(haven).read_bytes()
    await removed(haven)
    newer = await made(haven)
    put(file_of(haven), content)
    assert not await comes_in(haven, older)
    assert not await comes_in(haven, newer)
    assert "older token" in (await doubts(haven))["token far-1"].saw
    assert await comes_in(haven, await made(haven))
    assert await doubts(haven) == {}


async def test_a_token_whose_file_is_gone_is_told_by_doctor_with_the_command_that_makes_it_as_it_was(
    haven: Haven,
) -> None:
    secret = await made(haven, "data", "ops")
    assert await doubts(haven) == {}
    file_of(haven).unlink()
    assert not await comes_in(haven, secret)
    doubt = (await doubts(haven))["token far-1"]
    assert "its file is gone" in doubt.saw
    assert "tally token add far-1 --domain data --domain ops --workspace default;" in doubt.fix
    (listed,) = (await haven.desk.tokens(await haven.person())).tokens
    assert (listed.domains, listed.workspace, listed.fault) == (
        ("data", "ops"),
        "default",
        "The record knows it, and its file is gone.",
    )
    await removed(haven)
    assert (await haven.desk.tokens(await haven.person())).tokens == ()


async def test_doctor_tells_an_agent_nothing_of_tokens(haven: Haven) -> None:
    await made(haven)
    file_of(haven).unlink()
    end = await haven.end("memory")
    await end.anchor("echo-1")
    found = (await haven.desk.doctor(await haven.desk.guest(haven.facts, as_name="echo-1"))).findings
    assert [one for one in found if "token" in one.check] == []


async def test_where_the_file_cannot_be_written_the_person_is_told_and_the_record_says_that_it_opens_nothing(
    haven: Haven,
) -> None:
    older = await made(haven, "data")
    end = await haven.end("websocket", token=older)
    await end.anchor("far-1", offer={"domain": "data"})
    file_of(haven).unlink()
    file_of(haven).mkdir()  # nothing can be put in its place, and it is no file that could be taken away
    with pytest.raises(Refused) as caught:
        await made(haven, "data")
    assert caught.value.code == "unavailable"
    assert "its file could not be written" in caught.value.message
    assert "tally token add far-1 --domain data --workspace default" in caught.value.remedy
    with pytest.raises(Lost):
        await end.hear()
    *_, made_anew, taken_back = await recorded(haven)
    assert made_anew.event.replaced
    assert (taken_back.actor.kind, taken_back.cause) == (ActorKind.HOST, made_anew.position)
    assert "could not be written" in taken_back.event.detail
    (line,) = (await haven.desk.activity(await haven.person(), limit=1)).events
    assert (line.what, line.error) == ("took the token of far-1 away", taken_back.event.detail)
    assert "cannot be trusted" in (await doubts(haven))["token far-1"].saw
    file_of(haven).rmdir()
    assert await comes_in(haven, await made(haven, "data"))


async def test_where_the_file_cannot_be_removed_the_token_opens_nothing_all_the_same(haven: Haven) -> None:
    secret = await made(haven)
    end = await haven.end("websocket", token=secret)
    await end.anchor("far-1")
    kept = file_of(haven).read_bytes()
    file_of(haven).unlink()
    file_of(haven).mkdir()
    with pytest.raises(Refused) as caught:
        await removed(haven)
    assert "opens nothing any more; its file could not be removed" in caught.value.message
    assert "tally token remove far-1" in caught.value.remedy
    with pytest.raises(Lost):
        await end.hear()
    assert isinstance((await recorded(haven))[-1].event, SpokeTokenRemoved)
    file_of(haven).rmdir()
    put(file_of(haven), kept)
    assert not await comes_in(haven, secret)


async def test_while_the_log_cannot_be_written_a_token_is_not_made_and_one_that_is_taken_away_opens_nothing(
    haven: Haven,
) -> None:
    secret = await made(haven)
    end = await haven.end("websocket", token=secret)
    await end.anchor("far-1")
    kept = file_of(haven).read_bytes()
    intruder = apsw.Connection(str(haven.home / "tally.db"))
    intruder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(Refused, match="Nothing was recorded"):
            await made(haven, "data")
        assert file_of(haven).read_bytes() == kept
        with pytest.raises(Refused) as caught:
            await removed(haven)
    finally:
        intruder.execute("ROLLBACK")
        intruder.close()
    assert caught.value.code == "unavailable"
    assert caught.value.remedy.endswith("Then once more: tally token remove far-1")
    with pytest.raises(Lost):
        await end.hear()
    assert not await comes_in(haven, secret)
    assert "its file is gone" in (await doubts(haven))["token far-1"].saw
    await removed(haven)
    assert await doubts(haven) == {}
    assert len(await recorded(haven)) == 2


async def test_who_passed_the_door_just_before_its_token_was_taken_away_does_nothing_after_it(haven: Haven) -> None:
    await made(haven)
    known = haven.desk.directory.tokens["far-1"]
    facts = msgspec.structs.replace(
        haven.facts, domains=known.domains, workspace=known.workspace, token=known.token_id, door="http"
    )
    assert (await haven.desk.guest(facts)).workspace == known.workspace
    await removed(haven)
    late = MemoryEnd(haven)
    late.link, other = MemoryLink.pair()
    late.visit = asyncio.create_task(haven.hub.attach(other, facts, "far-1"))
    late.read(late.link.receive)
    haven.ends.append(late)
    offered = {"spoke_id": "far-1", "store": "s", "incarnation": "1@1", "capabilities": [{"name": "Echo"}]}
    await late.say("ANCHOR", offered)
    assert (await late.hear("FAIL"))["body"]["code"] == "unauthenticated"
    await late.sail()
    assert (await late.hear("FAIL"))["body"]["code"] == "unauthenticated"
    assert haven.hub.spokes == {}


async def test_of_many_tokens_made_and_taken_away_at_once_the_file_is_that_of_the_record(haven: Haven) -> None:
    person = await haven.person()
    async with asyncio.timeout(PATIENCE):
        secrets = await asyncio.gather(*(haven.desk.add_token(person, "far-1") for _ in range(8)))
    assert await doubts(haven) == {}
    assert [await comes_in(haven, one.token) for one in secrets] == [False] * 7 + [True]


def test_a_host_that_is_killed_between_the_record_and_the_file_leaves_a_token_that_opens_nothing_and_is_told() -> None:
    with Place() as place:
        assert place.start()
        place.stop()
        assert died_in(place, "token", "add", "far-1", "--domain", "data")
        assert not (place.path / "tokens" / "far-1").exists()
        assert place.start()
        (found,) = amiss(place)
        assert "its file is gone" in found["saw"]
        assert "tally token add far-1 --domain data --workspace default" in found["fix"]
        assert place.tally("token", "add", "far-1", "--domain", "data", cwd=place.place)[0] == 0
        assert amiss(place) == []
        place.stop()
        assert died_in(place, "token", "remove", "far-1")
        assert (place.path / "tokens" / "far-1").exists()
        assert place.start()
        (found,) = amiss(place)
        assert "does not know it" in found["saw"]
        assert place.tally("token", "remove", "far-1")[0] == 0
        assert amiss(place) == []
        place.stop()
        assert tokens_in(place) == ["SpokeTokenMade", "SpokeTokenMade", "SpokeTokenRemoved"]


def died_in(place: Place, *words: str) -> bool:
    """Have a host killed right after the event that comes of a command. How many come before, as it starts, is found by
    trying."""
    before = tokens_in(place)
    for nth in range(1, LONGEST_START):
        if not place.start(kill={"executor.after_append": nth}):
            continue
        code, _, _ = place.tally(*words, cwd=place.place)
        place.host.wait(PATIENCE)
        assert (code != 0, place.host.returncode) == (True, -signal.SIGKILL)
        if tokens_in(place) != before:
            return True
    return False


def tokens_in(place: Place) -> list[str]:
    """The events of tokens in a home without a host."""
    events, _ = place.audit()
    return [type(one.event).__name__ for one in events if isinstance(one.event, SpokeTokenMade | SpokeTokenRemoved)]


def amiss(place: Place) -> list[dict[str, Any]]:
    """What `tally doctor` finds amiss with tokens."""
    _, out, _ = place.tally("doctor", "--json", cwd=place.place)
    found = json.loads(out)["findings"]
    return [one for one in found if one["check"].startswith("token") and not one["ok"]]
