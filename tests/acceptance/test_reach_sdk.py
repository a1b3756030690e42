"""The SDK and a whole host, over every transport: what a builder of agents sees."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn

from tallystick import (
    Capability,
    ReachClient,
    ReachError,
    ReachMessage,
    ReachNoRoute,
    ReachOffline,
    ReachRefused,
    ReachResult,
    ReachTimeout,
    Spoke,
)
from tallystick.app.desk import forms, reach
from tallystick.core.errors import Refused
from tallystick.core.identity import short
from tallystick.edge.spoke.line import LinkLine
from tallystick.sdk import ContextSlice, LinkLost, MemoryLink, Schema
from tests.support.ends import PATIENCE, Haven

TRANSPORTS = ("unix", "websocket", "memory", "posted")


class Harbour:
    """A host with the SDK's ends of one transport."""

    def __init__(self, haven: Haven, transport: str, place: Path, port: int) -> None:
        self.haven, self.transport, self.place, self.port = haven, transport, place, port
        self.spokes: list[Spoke] = []
        self.servers: list[tuple[uvicorn.Server, asyncio.Task[None]]] = []
        self.visits: set[asyncio.Task[None]] = set()

    async def link(self, may_start: bool) -> Any:
        if self.haven.hub.is_stopping:
            raise LinkLost
        ours, theirs = MemoryLink.pair()
        visit = asyncio.create_task(self.haven.hub.serve(LinkLine(theirs, self.haven.facts)))
        visit.add_done_callback(lambda _: theirs.close())
        self.visits.add(visit)
        return ours

    @property
    def given(self) -> dict[str, Any]:
        if self.transport == "memory":
            return {"link": self.link}
        return {} if self.transport == "unix" else {"hub_url": self.haven.url}

    async def spoke(self, handlers: dict[str, Any], spoke_id: str = "s-1", **offer: Any) -> Spoke:
        more: dict[str, Any] = {}
        if self.transport == "posted":
            more["endpoint"] = f"http://127.0.0.1:{self.port}/reach"
        offers = [Capability(name, **offer) for name in handlers]
        store = self.place / f"{spoke_id}.db"
        spoke = Spoke(spoke_id, offers, handlers, store=store, **self.given, **more)
        if spoke.app is not None:
            await self.serve(spoke.app)
        await spoke.start()
        self.spokes.append(spoke)
        return spoke

    async def serve(self, app: Any) -> None:
        config = uvicorn.Config(app, "127.0.0.1", self.port, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
        task = asyncio.create_task(server.serve())
        self.servers.append((server, task))
        await eventually(lambda: server.started)

    def client(self, **given: Any) -> ReachClient:
        return ReachClient(**self.given, **given)

    async def close(self) -> None:
        for spoke in self.spokes:
            await spoke.stop()
        for server, task in self.servers:
            server.should_exit = True
            await task


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def harbour_of(transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harbour]:
    home = tmp_path / "h"
    monkeypatch.setenv("TALLY_HOME", str(home))
    for name in ("TALLY_AGENT", "TALLY_SESSION", "TALLY_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    port = free_port()
    haven = Haven(home, listen=True, callbacks=(f"http://127.0.0.1:{port}",))
    haven._settings = msgspec.structs.replace(haven._settings, listen=f"127.0.0.1:{free_port()}")
    async with haven:
        found = Harbour(haven, transport, tmp_path, port)
        yield found
        await found.close()


@pytest.fixture(params=TRANSPORTS)
async def harbour(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    async with harbour_of(request.param, tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
async def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same over the Unix socket alone."""
    async with harbour_of("unix", tmp_path, monkeypatch) as found:
        yield found


async def eventually(condition: Callable[[], Any]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (found := condition()):  # noqa: ASYNC110 - whatever it is, bounded
            await asyncio.sleep(0.01)
    return found


async def seen(look: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (found := await look()):  # noqa: ASYNC110 - whatever it is, bounded
            await asyncio.sleep(0.01)
    return found


async def echo(message: ReachMessage) -> Any:
    return {"echo": message.payload, "goal": message.context.goal}


# --- over every transport -----------------------------------------------------------------------------------------


async def test_a_message_goes_there_and_its_result_comes_back(harbour: Harbour) -> None:
    await harbour.spoke({"Echo": echo})
    async with harbour.client() as client:
        found = await client.sail("Echo", {"n": [1, None, "ü"]}, context=ContextSlice(goal="all of it"))
    assert found.payload == {"echo": {"n": [1, None, "ü"]}, "goal": "all of it"}
    assert (found.task_id[:4], found.trace_id[:4], found.msg_id[:4]) == ("tsk_", "trc_", "msg_")
    assert found.duplicate is False


async def test_what_a_handler_raises_comes_back_as_an_error(harbour: Harbour) -> None:
    def broken(_: ReachMessage) -> None:
        raise ValueError("no such file")

    await harbour.spoke({"Broken": broken})
    async with harbour.client() as client:
        with pytest.raises(ReachRefused, match="ValueError: no such file") as caught:
            await client.sail("Broken", 1)
    assert caught.value.code == "failed"
    assert caught.value.task_id.startswith("tsk_")
    assert "Traceback" not in str(caught.value)


async def test_what_a_message_refers_to_is_read_by_its_handler(harbour: Harbour) -> None:
    words = bytes(range(256)) * 3000
    digest = harbour.haven.desk.s.blobs.put(words)

    async def read(message: ReachMessage) -> Any:
        (found,) = message.context.references
        both = await asyncio.gather(found.resolve(), found.resolve())
        return [found, found.kind, found.size, [content == words for content in both]]

    def in_a_thread(message: ReachMessage) -> Any:
        return message.context.references[0].read() == words

    await harbour.spoke({"Read": read, "Thread": in_a_thread})
    async with harbour.client() as client:
        context = ContextSlice(references=(f"blob:{digest}",))
        found = await client.sail("Read", 1, context=context)
        assert found.payload == [f"blob:{digest}", "blob", len(words), [True, True]]
        assert (await client.sail("Thread", 1, context=context)).payload


async def test_the_same_key_again_gets_the_first_result_and_another_body_a_conflict(harbour: Harbour) -> None:
    ran: list[Any] = []

    async def count(message: ReachMessage) -> int:
        ran.append(message.payload)
        return len(ran)

    await harbour.spoke({"Count": count})
    async with harbour.client() as client, harbour.client() as other:
        first = await client.sail("Count", 1, dedup_key="k-1")
        again = await other.sail("Count", 1, dedup_key="k-1")
        with pytest.raises(ReachRefused) as caught:
            await client.sail("Count", 2, dedup_key="k-1")
    assert (first.payload, again.payload, first.task_id) == (1, 1, again.task_id)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert caught.value.code == "conflict"
    assert ran == [1]


async def test_a_dispatch_has_its_results_in_order_with_each_failure_as_what_it_is(harbour: Harbour) -> None:
    async def odd(message: ReachMessage) -> int:
        if message.payload % 2 == 0:
            raise ValueError("even")
        return message.payload

    await harbour.spoke({"Odd": odd}, concurrency=8)
    async with harbour.client() as client:
        requests = [{"target_capability": "Odd", "payload": n} for n in range(20)]
        found = await client.dispatch([*requests, {"target_capability": "Nobody", "payload": 1}])
    assert [one.payload for one in found if isinstance(one, ReachResult)] == list(range(1, 20, 2))
    assert [type(one) for one in found] == [*([ReachRefused, ReachResult] * 10), ReachNoRoute]


async def test_a_handle_follows_long_work_across_a_restart_of_the_host(harbour: Harbour) -> None:
    runs, release = asyncio.Event(), asyncio.Event()

    async def slow(message: ReachMessage) -> str:
        runs.set()
        await message.progress("half", 0.5)
        await release.wait()
        return "done"

    await harbour.spoke({"Slow": slow})
    async with harbour.client() as client:
        handle = await client.sail("Slow", 1, timeout_ms=60_000, wait=False)
        await runs.wait()
        assert await handle.state() == "REACHED"
        await harbour.haven.restart()
        release.set()
        assert (await handle.result()).payload == "done"
        assert await handle.state() == "CONFIRMED"


async def test_a_typed_payload_that_does_not_fit_is_refused_with_the_place(harbour: Harbour) -> None:
    class Order(msgspec.Struct):
        count: int

    class Bill(msgspec.Struct):
        cents: int

    async def bill(message: ReachMessage) -> Bill:
        assert isinstance(message.payload, Order)
        return Bill(message.payload.count * 250)

    await harbour.spoke({"Bill": bill}, schema=Schema(Order, Bill))
    async with harbour.client() as client:
        known = Capability("Bill", schema=Schema(Order, Bill))
        assert (await client.sail(known, Order(3))).payload == Bill(750)
        assert (await client.sail("Bill", {"count": 2})).payload == {"cents": 500}
        for target in (known, "Bill"):
            with pytest.raises(ReachRefused, match=r"\$\.count") as caught:
                await client.sail(target, {"count": "three"})
            assert caught.value.code == "invalid"


# --- over one ------------------------------------------------------------------------------------------------------


async def test_nobody_who_offers_it_is_no_route(local: Harbour) -> None:
    async with local.client() as client:
        with pytest.raises(ReachNoRoute) as caught:
            await client.sail("Nothing", 1)
    assert caught.value.code == "no_route"
    assert caught.value.remedy
    desk, person = local.haven.desk, await local.haven.person()

    async def found() -> Any:
        return [line for line in (await desk.activity(person)).events if "no_route" in line.what]

    (noted,) = await seen(found)
    assert caught.value.trace_id == noted.trace
    for typed in (noted.trace, short(noted.trace), f"trc_{noted.trace[-4:].lower()}"):
        assert (await desk.trace(person, typed)).events == (noted,)
    for typed in ("trc_", f"trc_{noted.trace[-3:]}", "trc_zzzzzz"):
        with pytest.raises(Refused, match="is no whole id of a trace"):
            await desk.trace(person, typed)


async def test_a_handler_that_says_nothing_for_long_is_shown_as_suspected(local: Harbour) -> None:
    async def never(_: ReachMessage) -> None:
        await asyncio.Event().wait()

    await local.spoke({"Never": never})
    desk, person = local.haven.desk, await local.haven.person()
    async with local.client() as client:
        handle = await client.sail("Never", 1, timeout_ms=60_000, wait=False, stall_after_ms=1)

        async def suspected() -> Any:
            return (await desk.show(person, handle.task_id)).suspected

        await seen(suspected)
        assert await handle.state() == "REACHED"
        with pytest.raises(ReachRefused, match="stall_after_ms=0 is not from 1"):
            await client.sail("Never", 1, stall_after_ms=0)


async def test_a_message_says_how_long_a_spoke_may_take_to_answer(local: Harbour) -> None:
    await local.spoke({"Echo": echo})
    async with local.client() as client:
        sent: dict[str, Any] = {"target_capability": "Echo", "payload": 1, "ack_timeout_ms": 60_000}
        assert (await client.sail(**sent)).payload["echo"] == 1
        (part,) = await client.dispatch([sent])
        assert isinstance(part, ReachResult)
        for wrong in (0, 7 * 86_400_000 + 1, 2.5, "1 s", True):
            with pytest.raises(ReachRefused, match=r"ack_timeout_ms=.* is not from 1 to") as caught:
                await client.sail("Echo", 1, ack_timeout_ms=wrong)
            assert caught.value.code == "invalid"


async def test_without_an_answer_in_time_the_error_says_how_far_it_came(local: Harbour) -> None:
    async def never(_: ReachMessage) -> None:
        await asyncio.Event().wait()

    await local.spoke({"Never": never})
    async with local.client() as client:
        with pytest.raises(ReachError) as caught:
            await client.sail("Never", 1, timeout_ms=300)
    assert caught.value.code in ("timeout", "expired", "unverified")
    assert caught.value.task_id


@pytest.mark.parametrize("harbour", ["unix", "posted"], indirect=True)
async def test_a_spoke_that_left_in_order_is_offline_at_once(harbour: Harbour) -> None:
    spoke = await harbour.spoke({"Away": echo})
    async with harbour.client() as client:
        await client.sail("Away", 1)
        await spoke.stop()
        with pytest.raises(ReachOffline, match="Every holder of 'Away' is offline: @s-1") as caught:
            await client.sail("Away", 1)
        assert caught.value.trace_id.startswith("trc_")


async def test_a_timeout_with_nobody_free_says_who_is_registered_and_how_it_is(local: Harbour) -> None:
    await (await local.spoke({"Away": echo})).drain()
    async with local.client() as client:
        with pytest.raises(ReachTimeout) as caught:
            await client.sail("Away", 1, timeout_ms=300)
    assert "Nobody began it; registered for 'Away': @s-1 (draining, last heard " in caught.value.message
    assert caught.value.message.endswith(".")
    assert "tally routes" in caught.value.remedy


async def test_a_result_goes_on_to_a_second_spoke(local: Harbour) -> None:
    came: asyncio.Queue[ReachMessage] = asyncio.Queue()

    async def keep(message: ReachMessage) -> str:
        came.put_nowait(message)
        return "kept"

    await local.spoke({"Echo": echo}, "s-echo")
    await local.spoke({"Keep": keep}, "s-keep")
    async with local.client() as client:
        found = await client.sail("Echo", 1, reply_to="Keep")
    onward = await asyncio.wait_for(came.get(), PATIENCE)
    assert (onward.payload, onward.trace_id) == (found.payload, found.trace_id)
    assert onward.context.related == (found.task_id,)


async def test_a_handler_is_told_what_a_reviewer_wants_changed_and_which_attempt_it_is(harbour: Harbour) -> None:
    messages: list[ReachMessage] = []

    async def write(message: ReachMessage) -> int:
        messages.append(message)
        return len(messages)

    await harbour.spoke({"Write": write})
    desk, person = harbour.haven.desk, await harbour.haven.person()
    async with harbour.client() as client:
        handle = await client.sail("Write", "a page", wait=False, review_by="@human", dedup_key="page-1")

        async def until_handed_in(revision: int) -> None:
            async def handed_in() -> bool:
                return bool((await desk.show(person, handle.task_id)).revision == revision)

            await seen(handed_in)

        for number, words in enumerate(("Shorter, please.", "Shorter, please.", "As before."), start=1):
            await until_handed_in(number)
            await desk.changes(person, handle.task_id, words, revision=number)
        await until_handed_in(4)
        await desk.approve(person, handle.task_id, revision=4)
        assert (await handle.result(5_000)).payload == 4
    assert [message.payload for message in messages] == ["a page"] * 4
    assert [message.attempt for message in messages] == [1, 2, 3, 4]
    assert [message.changes for message in messages] == ["", "Shorter, please.", "Shorter, please.", "As before."]


async def test_a_message_to_all_has_a_part_for_each_holder(local: Harbour) -> None:
    def named(name: str) -> Any:
        async def handle(_: ReachMessage) -> str:
            if name == "s-3":
                raise ValueError("not me")
            return name

        return handle

    for name in ("s-1", "s-2", "s-3"):
        await local.spoke({"Who": named(name)}, name)
    async with local.client() as client:
        found = await client.sail("Who", 1, to="all")
    assert sorted(str(one) for one in found.payload) == ["None", "s-1", "s-2"]
    assert sorted(type(one).__name__ for one in found.parts) == ["ReachRefused", "ReachResult", "ReachResult"]


async def test_a_message_sent_by_a_handler_is_a_child_in_the_same_trace(local: Harbour) -> None:
    seen: list[ReachMessage] = []

    async def inner(message: ReachMessage) -> str:
        seen.append(message)
        return "inner"

    async with local.client() as client:

        async def outer(message: ReachMessage) -> Any:
            seen.append(message)
            return (await client.sail("Inner", 1)).payload

        await local.spoke({"Outer": outer}, "s-outer")
        await local.spoke({"Inner": inner}, "s-inner")
        found = await client.sail("Outer", 1)
    assert found.payload == "inner"
    assert [one.trace_id for one in seen] == [found.trace_id] * 2
    shown = await local.haven.desk.show(await local.haven.person(), seen[1].task_id)
    assert shown.parent == seen[0].task_id


async def test_a_handler_is_told_the_name_of_who_asked(local: Harbour) -> None:
    async def who(message: ReachMessage) -> str:
        return str(message.caller)

    await local.spoke({"Who": who})
    await local.haven.desk.join(await local.haven.person(), forms.Join(name="asker"))
    async with local.client() as person, local.client(sender="asker") as agent:
        name = (await local.haven.desk.whoami(await local.haven.person())).name
        assert (await person.sail("Who", 1)).payload == name
        assert (await agent.sail("Who", 1)).payload == "@asker"


async def test_a_spoke_that_a_person_drains_finishes_what_it_has_and_takes_more_once_resumed(harbour: Harbour) -> None:
    runs, release = asyncio.Event(), asyncio.Event()

    async def slow(message: ReachMessage) -> Any:
        runs.set()
        await release.wait()
        return message.payload

    desk, person = harbour.haven.desk, await harbour.haven.person()
    spoke = await harbour.spoke({"Slow": slow}, "s-1")
    assert spoke._running is not None
    works, number = spoke._running.works, spoke._running.channel.number
    async with harbour.client() as client:
        first = await client.sail("Slow", 1, timeout_ms=60_000, wait=False)
        await asyncio.wait_for(runs.wait(), PATIENCE)
        await desk.set_mode(person, "drain", "@s-1")
        await eventually(lambda: works.is_held)
        assert [route.status for route in (await desk.routes(person)).routes] == ["draining"]
        second = await client.sail("Slow", 2, timeout_ms=60_000, wait=False)
        release.set()
        assert (await first.result()).payload == 1
        assert await second.state() == "IDLE"
        await desk.set_mode(person, "resume", "@s-1")
        assert (await second.result()).payload == 2
    assert not works.is_held
    assert spoke._running.channel.number == number, "it kept its connection"


@pytest.mark.parametrize("mode", ["drain", "pause", "stop"])
@pytest.mark.parametrize("target", ["workspace", "all"])
async def test_what_a_person_says_of_a_whole_workspace_or_of_everything_reaches_its_spokes(
    local: Harbour, mode: str, target: str
) -> None:
    desk, person = local.haven.desk, await local.haven.person()
    spoke = await local.spoke({"Echo": echo}, "s-1")
    assert spoke._running is not None
    works = spoke._running.works
    await desk.set_mode(person, mode, target)
    await eventually(lambda: works.is_held)
    words = {"drain": "draining", "pause": "paused", "stop": "stopped"}
    what = {"workspace": "workspace default", "all": "everything"}[target]
    assert shown(await desk.routes(person)) == [("draining", f"{what} is {words[mode]}")]
    await desk.set_mode(person, "resume", target)
    await eventually(lambda: not works.is_held)
    assert shown(await desk.routes(person)) == [("online", "")]


def shown(form: reach.Routes) -> list[tuple[str, str]]:
    return [(route.status, route.why) for route in form.routes]


async def test_the_routes_say_who_wants_a_spoke_drained_and_only_where_that_is_so(local: Harbour) -> None:
    desk, person = local.haven.desk, await local.haven.person()
    spoke = await local.spoke({"Echo": echo}, "s-1")
    (agent,) = [agent for agent in desk.directory.agents.values() if agent.alias == "s-1"]
    (session,) = desk.directory.open_sessions[agent.agent_id]
    await desk.set_mode(person, "drain", session)
    await desk.set_mode(person, "pause", "@s-1")
    told = f"@s-1 is paused, its session {short(session)} is draining"
    assert shown(await desk.routes(person)) == [("draining", told)]
    for target in ("@s-1", session):
        await desk.set_mode(person, "resume", target)
    (other := local.place / "other").mkdir()
    subprocess.run(["git", "init", "-q", other], check=True)  # noqa: ASYNC221 - before anything waits
    place = await desk.register_workspace(person, str(other))
    elsewhere = await desk.guest(local.haven.facts, workspace=place.name)
    await desk.set_mode(elsewhere, "drain", "workspace")
    found = await desk.routes(elsewhere)
    assert (found.workspace, found.routes[0].workspace) == (place.name, "default")
    await spoke.drain()
    assert shown(await desk.routes(person)) == [("draining", "its program drains it")]
    await spoke.stop()
    await desk.set_mode(person, "drain", "workspace")
    assert shown(await desk.routes(person)) == [("offline", "workspace default is draining")]
    with pytest.raises(Refused) as caught:
        await desk.ask(person, forms.Ask(address="cap:Echo", title="t"))
    assert "tally resume workspace" in caught.value.remedy


async def test_a_spoke_that_comes_while_a_person_has_it_drained_is_told_so(local: Harbour) -> None:
    desk, person = local.haven.desk, await local.haven.person()
    spoke = await local.spoke({"Echo": echo}, "s-1")
    await spoke.stop()
    await desk.set_mode(person, "pause", "@s-1")
    again = await local.spoke({"Echo": echo}, "s-1")
    assert again._running is not None
    works = again._running.works
    await eventually(lambda: works.is_held)
    await desk.set_mode(person, "resume", "@s-1")
    async with local.client() as client:
        assert (await client.sail("Echo", 1)).payload["echo"] == 1


async def test_a_domain_is_seen_only_from_inside(local: Harbour) -> None:
    await local.spoke({"Secret": echo}, domain="data-team")
    async with local.client() as client:
        assert (await client.sail("Secret", 1)).payload["echo"] == 1


async def test_a_standing_registration_gets_what_came_while_it_was_away(local: Harbour, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(local.place / "state"))
    got: list[Any] = []

    async def note(message: ReachMessage) -> str:
        got.append(message.payload)
        return "noted"

    async with local.client() as client:
        spoke = await client.anchor("Inbox", note)
        assert (await client.sail("Inbox", 1)).payload == "noted"
        await spoke.stop()
        handle = await client.sail("Inbox", 2, timeout_ms=60_000, wait=False)
        assert got == [1]
        spoke = await client.anchor("Inbox", note)
        local.spokes.append(spoke)
        assert (await handle.result()).payload == "noted"
    assert got == [1, 2]


async def test_retreat_takes_back_what_has_not_begun_and_settle_ends_a_trace(local: Harbour) -> None:
    runs, release = asyncio.Event(), asyncio.Event()

    async def slow(_: ReachMessage) -> None:
        runs.set()
        await release.wait()

    spoke = await local.spoke({"Slow": slow}, standing=True)
    await spoke.stop()
    async with local.client() as client:
        handle = await client.sail("Slow", 1, timeout_ms=60_000, wait=False)
        assert await client.retreat(handle.msg_id) in ("IDLE", "PROVISIONED")
        await local.spoke({"Slow": slow}, standing=True)
        await runs.wait()
        with pytest.raises(ReachRefused) as caught:
            await client.retreat(handle.msg_id)
        assert caught.value.code == "conflict"
        with pytest.raises(ReachRefused) as caught:
            await client.settle(handle.trace_id)
        assert caught.value.code == "conflict"
        release.set()
        await handle.result()
        assert await client.retreat(handle.msg_id) == "CONFIRMED"
        await client.settle(handle.trace_id)
        assert await handle.state() == "SUNSET"


async def test_a_second_process_of_the_same_spoke_is_refused_while_the_first_lives(local: Harbour) -> None:
    await local.spoke({"Echo": echo})
    other = Spoke("s-1", [Capability("Echo")], {"Echo": echo}, store=local.place / "other.db")
    with pytest.raises(ReachRefused) as caught:
        await other.start()
    assert caught.value.code == "conflict"


async def test_when_all_holders_are_long_gone_it_is_offline(local: Harbour) -> None:
    spoke = await local.spoke({"Echo": echo})
    await spoke.stop()
    async with local.client() as client:
        with pytest.raises((ReachOffline, ReachTimeout)):
            await client.sail("Echo", 1, timeout_ms=500)
