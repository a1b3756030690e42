"""Hosts that are started anew, spokes that are lost, stopped or late, frames that come twice or in another order."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.app.desk import forms
from tallystick.core.identity import short
from tests.support.ends import PATIENCE, End, Haven, Lost, UnixEnd
from tests.support.hosts import Home


@pytest.fixture
async def haven(tmp_path: Path) -> AsyncIterator[Haven]:
    async with Haven(tmp_path / "home", retry_seconds=(0.05, 0.05, 0.05)) as haven:
        yield haven


async def ends_with(client: End, msg_id: str) -> dict[str, Any]:
    """What a message ends with; everything before it is passed over."""
    while True:
        frame = await client.hear()
        kind, body = frame["header"]["msg_type"], frame["body"]
        if frame["header"]["msg_id"] == msg_id and kind in ("RESULT", "FAIL") and not body.get("of"):
            return {"kind": kind, **body}


def held(sail: dict[str, Any], state: str) -> list[dict[str, Any]]:
    return [{"delivery": sail["body"]["delivery"], "fence": sail["body"]["fence"], "state": state}]


# --- the host is started anew -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "do"), [("running", "go_on"), ("done", "resend")])
async def test_a_spoke_goes_on_with_what_it_had_begun_before_the_host_was_started_anew(
    haven: Haven, state: str, do: str
) -> None:
    spoke, client = await haven.end("unix"), await haven.end("unix")
    await spoke.anchor()
    msg_id = await client.sail({"n": 1}, dedup_key="k")
    sail = await spoke.begin()
    await haven.restart()
    history = (await haven.desk.show(await haven.person(), sail["body"]["task_id"])).history
    assert "its spoke tells how it goes once it is back" in history[-1].error
    back, again = await haven.end("unix"), await haven.end("unix")
    ack = await back.anchor(held=held(sail, state))
    assert ack["resume"] == [{"delivery": sail["body"]["delivery"], "do": do}]
    await again.sail({"n": 1}, dedup_key="k", msg_id=msg_id)
    assert (await again.hear("ACK"))["body"]["duplicate"]
    await back.about(sail, "RESULT", payload=2)
    assert (await back.hear("ACK"))["body"]["of"] == "RESULT"
    assert (await ends_with(again, msg_id))["payload"] == 2


async def test_a_host_that_stops_says_so_and_does_not_wait_for_who_is_connected(haven: Haven) -> None:
    unix: Any = await haven.end("unix")
    await unix.anchor()
    await haven.restart()
    with pytest.raises(Lost):
        await unix.hear()
    assert unix.last["error"]["code"] == "unavailable"


async def test_what_had_not_begun_is_handed_over_anew_and_the_earlier_begin_is_refused(haven: Haven) -> None:
    spoke, client = await haven.end("unix"), await haven.end("unix")
    await spoke.anchor()
    msg_id = await client.sail(dedup_key="k")
    sail = await spoke.take()
    await haven.restart()
    back = await haven.end("unix")
    ack = await back.anchor(held=held(sail, "begun"))
    assert ack["resume"] == [{"delivery": sail["body"]["delivery"], "do": "drop"}]
    again = await back.hear("SAIL")
    assert again["body"]["fence"] > sail["body"]["fence"]
    await back.about(sail, "BEGIN")
    assert (await back.hear("FAIL"))["body"]["code"] == "conflict"
    assert again["header"]["msg_id"] == msg_id


async def test_messages_wait_through_a_restart_for_a_spoke_that_comes_later(haven: Haven) -> None:
    spoke, client = await haven.end("unix"), await haven.end("unix")
    await spoke.anchor(offer={"standing": True})
    await spoke.close()
    msg_id = await client.sail(dedup_key="k")
    await client.hear("ACK")
    await haven.restart()
    again = await haven.end("unix")
    await again.sail(dedup_key="k", msg_id=msg_id)
    back = await haven.end("unix")
    await back.anchor(process="2@2", offer={"standing": True})
    await back.about(await back.begin(), "RESULT", payload=1)
    assert (await ends_with(again, msg_id))["kind"] == "RESULT"


@pytest.mark.parametrize("moment", ["sailed", "taken", "begun", "told"])
async def test_after_kill_9_of_the_host_a_message_has_one_outcome_and_is_begun_once(moment: str) -> None:
    with Home() as home:
        child = home.probe()
        place = Shore(home)
        spoke, client = await UnixEnd(place).open(), await UnixEnd(place).open()
        await spoke.anchor()
        msg_id = await client.sail(dedup_key="k")
        await client.hear("ACK")
        sail = await (spoke.hear("SAIL") if moment in ("sailed", "taken") else spoke.begin())
        if moment == "taken":
            await spoke.about(sail, "ACK", of="SAIL", fence=None)
        if moment == "told":
            await spoke.about(sail, "RESULT", payload="one")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        home.probe()
        again, back = await UnixEnd(place).open(), await UnixEnd(place).open()
        state = {"begun": "running", "told": "done"}.get(moment)
        ack = await back.anchor(held=held(sail, state) if state else [])
        if state and ack["resume"][0]["do"] != "drop":
            await back.about(sail, "RESULT", payload="one")
        elif not state:
            await back.about(await back.begin(), "RESULT", payload="one")
        await again.sail(dedup_key="k", msg_id=msg_id)
        assert (await ends_with(again, msg_id))["payload"] == "one"
        for end in (spoke, client, again, back):
            await end.close()


class Shore:
    """A host in another process, as far as an end needs it."""

    def __init__(self, home: Home) -> None:
        self.home = Path(home.path)


# --- spokes that are lost, stopped or late ----------------------------------------------------------------------


async def test_a_stopped_spoke_loses_what_it_did_not_take_and_its_late_begin_is_refused(haven: Haven) -> None:
    stopped, client = await haven.end("unix"), await haven.end("memory")
    await stopped.anchor()
    msg_id = await client.sail(timeout_ms=3000)
    sail = await stopped.hear("SAIL")  # and then it says nothing, as a process that is stopped
    other = await haven.end("memory")
    await other.anchor("echo-2")
    await other.about(await other.begin(), "RESULT", payload=2)
    assert (await ends_with(client, msg_id))["payload"] == 2
    assert (await stopped.hear("RETREAT"))["body"]["delivery"] == sail["body"]["delivery"]
    await stopped.about(sail, "BEGIN")
    assert (await stopped.hear("FAIL"))["body"]["code"] == "conflict"


async def test_however_long_a_stopped_spoke_takes_all_of_it_is_ended_at_once_and_others_get_their_work_meanwhile(
    haven: Haven,
) -> None:
    person = await haven.person()
    await haven.desk.join(person, forms.Join(name="quick", run=("/bin/echo", "done")))
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor(offer={"concurrency": 8})
    sails = []
    for _ in range(8):
        await client.sail()
        sails.append(await spoke.begin())
    await haven.desk.set_mode(person, "stop", "@echo-1")
    asked = await haven.desk.ask(person, forms.Ask(address="@quick", title="meanwhile"))
    assert await state_of(haven, asked.task_id, "completed"), "one after the other they would take longer than that"
    for sail in sails:
        await spoke.about(sail, "FAIL", code="canceled", message="It was stopped.")
    for sail in sails:
        assert (await state_of(haven, sail["body"]["task_id"], "input_required")).reason == "unverified"


async def state_of(haven: Haven, task_id: str, state: str) -> Any:
    """The task once it is there."""
    person = await haven.person()
    async with asyncio.timeout(PATIENCE):
        shown = await haven.desk.show(person, task_id)
        while shown.state != state:
            shown = await haven.desk.wait(person, task_id, version=shown.version, seconds=1.0)
    return shown


async def test_a_result_that_comes_after_its_lease_ended_clears_the_doubt(tmp_path: Path) -> None:
    limits = {"presence_seconds": 0.4, "suspect_seconds": 0.2}
    async with Haven(tmp_path / "home", **limits) as haven:
        spoke, client = await haven.end("unix"), await haven.end("memory")
        await spoke.anchor()
        msg_id = await client.sail()
        sail = await spoke.begin()
        await spoke.close()
        assert (await ends_with(client, msg_id))["code"] == "unverified"
        person = await haven.person()
        async with asyncio.timeout(PATIENCE):
            version, reason = 0, ""
            while reason != "unverified":
                shown = await haven.desk.outcome(person, sail["body"]["task_id"], version=version, seconds=5)
                version, reason = shown.version, shown.reason
        back = await haven.end("unix")
        ack = await back.anchor(process="2@2", held=held(sail, "done"))
        assert ack["resume"][0]["do"] == "resend"
        await back.about(sail, "RESULT", payload=3)
        assert (await back.hear("ACK"))["body"]["of"] == "RESULT"
        shown = await haven.desk.show(person, sail["body"]["task_id"])
        assert shown.state == "completed", shown


async def test_a_spoke_that_cannot_know_what_its_dead_process_did_leaves_it_unverified_and_nothing_runs_again(
    haven: Haven,
) -> None:
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor()
    msg_id = await client.sail(dedup_key="k")
    sail = await spoke.begin()
    await spoke.close()
    back = await haven.end("unix")
    await back.anchor(process="2@2", held=held(sail, "begun"))
    await back.about(sail, "FAIL", code="unverified", message="Nobody knows.", began=True)
    assert (await back.hear("ACK"))["body"]["of"] == "FAIL"
    assert (await ends_with(client, msg_id))["code"] == "unverified"
    again = await haven.end("memory")
    second = await again.sail(dedup_key="k")
    assert (await ends_with(again, second))["code"] == "unverified"
    shown = await haven.desk.show(await haven.person(), sail["body"]["task_id"])
    assert shown.state in ("working", "input_required")
    await back.say("HEARTBEAT")
    await back.hear("ACK")
    assert back.came.empty()


async def test_a_deadline_takes_a_running_message_back(haven: Haven) -> None:
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor()
    msg_id = await client.sail(timeout_ms=600)
    sail = await spoke.begin()
    assert (await spoke.hear("RETREAT"))["body"]["delivery"] == sail["body"]["delivery"]
    await spoke.about(sail, "FAIL", code="canceled", began=True)
    assert (await ends_with(client, msg_id))["code"] in ("timeout", "expired")


async def test_the_same_process_over_a_new_connection_takes_the_place_of_the_old_one(haven: Haven) -> None:
    old, client = await haven.end("unix"), await haven.end("memory")
    await old.anchor()
    msg_id = await client.sail()
    sail = await old.begin()
    new = await haven.end("unix")
    ack = await new.anchor(held=held(sail, "running"))
    assert ack["resume"][0]["do"] == "go_on"
    await new.about(sail, "RESULT", payload=1)
    assert (await new.hear("ACK"))["body"]["of"] == "RESULT"
    assert (await ends_with(client, msg_id))["payload"] == 1


async def test_show_and_trace_say_what_a_waiting_message_waits_for(haven: Haven) -> None:
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor()
    await spoke.say("DRAIN")
    await spoke.hear("ACK")
    await client.sail()
    task_id = (await client.hear("ACK"))["body"]["task_id"]
    person = await haven.person()
    assert "(draining, last heard" in (await haven.desk.show(person, task_id)).waits_for
    (told,) = (await haven.desk.trace(person, task_id)).waiting
    assert "(draining, last heard" in told


async def test_a_message_that_nobody_began_in_time_says_who_was_handed_it(haven: Haven) -> None:
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor()
    msg_id = await client.sail(timeout_ms=500, ack_timeout_ms=60_000)
    sail = await spoke.take()
    assert (await spoke.hear("RETREAT"))["body"]["delivery"] == sail["body"]["delivery"]
    await spoke.about(sail, "FAIL", code="canceled", message="It was not begun here.")
    said = (await ends_with(client, msg_id))["message"]
    assert "@echo-1 (online, 1 of 1 in hand) was handed it and did not begin it." in said


async def test_a_message_that_was_handed_to_a_spoke_waits_for_the_begin_of_that_one(haven: Haven) -> None:
    spoke, other, client = await haven.end("unix"), await haven.end("memory"), await haven.end("memory")
    await spoke.anchor(offer={"weight": 1000})
    await other.anchor("echo-2")
    await client.sail()
    task_id = (await client.hear("ACK"))["body"]["task_id"]
    sail = await spoke.take()
    person = await haven.person()
    shown = await haven.desk.show(person, task_id)
    assert (shown.link, shown.waits_for) == ("PROVISIONED", "@echo-1 (online, 1 of 1 in hand) to begin it")
    assert (await haven.desk.trace(person, task_id)).waiting == (f"{short(task_id)} waits; {shown.waits_for}",)
    await spoke.about(sail, "BEGIN")
    await spoke.hear("ACK")
    assert (await haven.desk.show(person, task_id)).waits_for == ""


async def status_other_than(haven: Haven, *passing: str) -> str:
    """The status of the one route, once it is none of those."""
    person = await haven.person()
    async with asyncio.timeout(PATIENCE):
        while (status := (await haven.desk.routes(person)).routes[0].status) in passing:  # noqa: ASYNC110
            await asyncio.sleep(0)
    return str(status)


@pytest.mark.parametrize("kind", ["drained", "drained with work in hand", "cut off"])
async def test_a_spoke_that_goes_in_order_is_offline_at_once_and_one_that_is_cut_off_is_waited_for(
    haven: Haven, kind: str
) -> None:
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor()
    if kind == "drained with work in hand":
        await client.sail()
        await client.hear("ACK")
        await spoke.begin()
    if kind != "cut off":
        await spoke.say("DRAIN")
        assert (await spoke.hear("ACK"))["body"]["of"] == "DRAIN"
    await spoke.close()
    assert await status_other_than(haven, "online", "draining") == ("offline" if kind == "drained" else "returning")
    if kind == "drained":
        msg_id = await client.sail()
        assert (await client.hear("FAIL"))["body"]["code"] == "offline", msg_id
        back = await haven.end("unix")
        await back.anchor(process="2@2")
        assert await status_other_than(haven, "returning") == "online"


async def test_a_spoke_with_another_store_knows_nothing_of_what_was_begun(haven: Haven) -> None:
    spoke, client = await haven.end("unix"), await haven.end("memory")
    await spoke.anchor()
    await client.sail()
    sail = await spoke.begin()
    await spoke.close()
    other = await haven.end("unix")
    ack = await other.anchor(store="s2", process="2@2", held=held(sail, "done"))
    assert ack["resume"][0]["do"] == "drop"
    await other.about(sail, "RESULT", payload="invented")
    assert (await other.hear("FAIL"))["body"]["code"] == "conflict"


# --- twice, and in another order --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
async def test_frames_in_any_order_and_number_make_one_outcome(haven: Haven, seed: int) -> None:
    """A spoke that repeats and reorders what it says: what it has no leave for is never counted."""
    chance = random.Random(seed)
    spoke, client = await haven.end("memory"), await haven.end("memory")
    await spoke.anchor()
    msg_id = await client.sail()
    sail = await spoke.hear("SAIL")
    says: list[tuple[str, dict[str, Any]]] = [
        ("ACK", {"of": "SAIL", "fence": None}),
        ("BEGIN", {}),
        ("PROGRESS", {"text": "p"}),
        ("RESULT", {"payload": "r"}),
        ("FAIL", {"code": "failed", "message": "f", "began": True}),
    ]
    early = [chance.choice([says[0], *says[2:4]]) for _ in range(chance.randrange(5))]
    said = [*early, says[1], *(chance.choice(says) for _ in range(6)), says[3]]
    for kind, body in said:
        await spoke.about(sail, kind, **body)
    kinds = [kind for kind, _ in said]
    first = next(kind for kind in kinds[kinds.index("BEGIN") :] if kind in ("RESULT", "FAIL"))
    ended = await ends_with(client, msg_id)
    assert ended["kind"] == first
    shown = await haven.desk.show(await haven.person(), sail["body"]["task_id"])
    assert [line.what for line in shown.history if line.what in ("handed in", "failed")] in (["handed in"], ["failed"])


class Wanderer:
    """A spoke that is lost after some messages and comes back as another process, with what its store has."""

    def __init__(self, haven: Haven, number: int, done: list[int]) -> None:
        self.haven, self.name, self.done = haven, f"echo-{number}", done
        self.chance = random.Random(number)
        self.store: dict[str, tuple[str, dict[str, Any]]] = {}
        """By delivery: `begun` or `done`, and the message."""
        self.was_there = asyncio.Event()

    async def wander(self) -> None:
        while True:
            end = await self.haven.end("memory")
            told = [held(sail, state)[0] for state, sail in self.store.values()]
            process = f"1@{self.chance.random()}"
            ack = await end.anchor(self.name, process=process, held=told, offer={"concurrency": 4})
            self.was_there.set()
            goes_on = {one["delivery"] for one in ack.get("resume", ()) if one["do"] != "drop"}
            self.store = {known: one for known, one in self.store.items() if known in goes_on}
            for state, sail in list(self.store.values()):
                await self.say(end, "BEGIN" if state == "begun" else "RESULT", sail)
            await self.work(end, self.chance.randint(5, 40))
            await end.close()

    async def say(self, end: End, kind: str, sail: dict[str, Any]) -> None:
        await end.about(sail, kind, **({"payload": sail["body"]["payload"]} if kind == "RESULT" else {}))

    async def work(self, end: End, frames: int) -> None:
        for _ in range(frames):
            frame = await end.hear()
            kind, body = frame["header"]["msg_type"], frame["body"]
            if kind == "SAIL":
                self.store[body["delivery"]] = "begun", frame
                await self.say(end, "BEGIN", frame)
            elif kind == "FAIL" or (kind == "ACK" and body["of"] == "RESULT"):
                self.store.pop(body["delivery"], None)
            elif kind == "ACK" and self.store.get(body["delivery"], ("",))[0] == "begun":
                _, sail = self.store[body["delivery"]]
                self.store[body["delivery"]] = "done", sail
                self.done.append(sail["body"]["payload"])
                await self.say(end, "RESULT", sail)


async def test_messages_to_spokes_that_come_and_go_are_each_done_once_and_have_their_own_outcome(haven: Haven) -> None:
    client, done = await haven.end("memory"), list[int]()
    wanderers = [Wanderer(haven, number, done) for number in range(3)]
    lives = [asyncio.create_task(one.wander()) for one in wanderers]
    await asyncio.gather(*(one.was_there.wait() for one in wanderers))
    sent: dict[str, int] = {}
    outcomes: dict[str, list[int]] = {}
    async with asyncio.timeout(3 * PATIENCE):
        while len(outcomes) < MANY:
            if len(sent) < MANY:
                sent[await client.sail(len(sent))] = len(sent)
            frame = await client.hear()
            if frame["header"]["msg_type"] == "RESULT":
                outcomes.setdefault(frame["header"]["msg_id"], []).append(frame["body"]["payload"])
    for task in lives:
        task.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    assert outcomes == {msg_id: [number] for msg_id, number in sent.items()}
    assert sorted(done) == list(range(MANY))


MANY = 150
