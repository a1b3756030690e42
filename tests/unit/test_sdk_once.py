"""The rule of once in a spoke: begun on the disk and acknowledged before it runs, told until it is acknowledged."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tallystick import Capability, ReachMessage, ReachRefused, Spoke
from tallystick.sdk import outbox, tables
from tallystick.sdk.tables import Tables
from tests.support.reach import ScriptedHub

ROOT = Path(__file__).resolve().parents[2]


class Bench:
    """A spoke whose handler counts what it did, and goes on when the test lets it."""

    def __init__(self, store: Path, **capability: Any) -> None:
        self.store = store
        self.hub = ScriptedHub()
        self.ran: list[Any] = []
        self.messages: list[ReachMessage] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.capability = Capability("Echo", **{"concurrency": 4, **capability})
        self.spoke = self.make()

    def make(self, handler: Any = None) -> Spoke:
        handlers = {"Echo": handler or self.handle}
        return Spoke("echo-1", [self.capability], handlers, store=self.store, link=self.hub.dial)

    async def handle(self, message: ReachMessage) -> Any:
        self.ran.append(message.payload)
        self.messages.append(message)
        await self.gate.wait()
        return {"echo": message.payload}

    async def restart(self, **capability: Any) -> None:
        """A new process takes over: as after the orderly end of the one before."""
        await self.spoke.stop()
        self.capability = Capability("Echo", **{"concurrency": 4, **capability})
        self.spoke = self.make()
        await self.spoke.start()


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    found = Bench(tmp_path / "echo.db")
    await found.spoke.start()
    yield found
    await found.spoke.stop()


# --- before the handler -------------------------------------------------------------------------------------------


async def test_a_handler_runs_after_its_begin_was_acknowledged_and_its_result_is_told(bench: Bench) -> None:
    sent = await bench.hub.deliver("Echo", {"n": 1})
    begin = await bench.hub.got("BEGIN")
    result = await bench.hub.got("RESULT")
    assert begin["body"] == {"delivery": sent["body"]["delivery"], "fence": 1}
    assert begin["header"]["msg_id"] == result["header"]["msg_id"] == sent["header"]["msg_id"]
    assert result["body"]["payload"] == {"echo": {"n": 1}}
    assert bench.ran == [{"n": 1}]


async def test_a_handler_does_not_run_while_its_begin_is_not_acknowledged(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda _: []
    await bench.hub.deliver("Echo", 1)
    begin = await bench.hub.got("BEGIN")
    assert bench.ran == []
    await bench.hub.send(bench.hub.ack(begin))
    await bench.hub.got("RESULT")
    assert bench.ran == [1]


async def test_a_begin_whose_answer_was_lost_is_sent_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.sdk.work.ACK_SECONDS", 0.01)
    bench.hub.answers["BEGIN"] = lambda _: []
    await bench.hub.deliver("Echo", 1)
    await bench.hub.got("BEGIN")
    await bench.hub.got("BEGIN")
    del bench.hub.answers["BEGIN"]
    await bench.hub.got("RESULT")
    assert bench.ran == [1]


async def test_what_is_handed_over_anew_before_it_began_begins_by_its_new_fence_and_runs_once(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda _: []
    again = {"delivery": "dlv_1", "task_id": "tsk_1", "msg_id": "msg_1", "dedup_key": "k"}
    await bench.hub.deliver("Echo", 1, **again)
    await bench.hub.got("BEGIN")  # the host that it is for is gone
    del bench.hub.answers["BEGIN"]
    await bench.hub.deliver("Echo", 1, **{**again, "fence": 3})
    assert (await bench.hub.got("BEGIN"))["body"]["fence"] == 3
    assert (await bench.hub.got("RESULT"))["body"]["fence"] == 3
    assert bench.ran == [1]


async def test_a_handler_whose_begin_is_refused_never_runs(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda found: [bench.hub.fail(found, "conflict")]
    await bench.hub.deliver("Echo", 1)
    await bench.hub.got("BEGIN")
    del bench.hub.answers["BEGIN"]
    await bench.hub.deliver("Echo", 2)
    assert (await bench.hub.got("RESULT"))["body"]["payload"] == {"echo": 2}
    await bench.restart()
    assert bench.ran == [2]
    assert "held" not in bench.hub.heard[-1]["body"]


async def test_what_the_link_was_lost_before_is_begun_only_after_the_host_was_asked_again(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda _: []
    sent = await bench.hub.deliver("Echo", 1)
    await bench.hub.got("BEGIN")
    del bench.hub.answers["BEGIN"]
    bench.hub.cut()
    await bench.hub.got("ANCHOR")
    anchor = await bench.hub.got("ANCHOR")
    assert anchor["body"]["held"] == [{"delivery": sent["body"]["delivery"], "fence": 1, "state": "begun"}]
    await bench.hub.got("BEGIN")
    await bench.hub.got("RESULT")
    assert bench.ran == [1]


async def test_what_the_host_gave_to_another_meanwhile_is_dropped(bench: Bench) -> None:
    bench.hub.answers["BEGIN"] = lambda _: []
    sent = await bench.hub.deliver("Echo", 1)
    await bench.hub.got("BEGIN")
    bench.hub.resume[sent["body"]["delivery"]] = "drop"
    bench.hub.cut()
    await bench.hub.got("ANCHOR")
    await bench.hub.got("ANCHOR")
    del bench.hub.answers["BEGIN"]
    await bench.hub.deliver("Echo", 2)
    await bench.hub.got("RESULT")
    assert bench.ran == [2]
    assert bench.hub.count("BEGIN") == 2


# --- the same again -----------------------------------------------------------------------------------------------


async def test_the_same_delivery_twice_runs_once(bench: Bench) -> None:
    bench.gate.clear()
    sent = await bench.hub.deliver("Echo", 1)
    await bench.hub.until(lambda: bench.ran == [1])
    await bench.hub.send(sent)
    await bench.hub.send(sent)
    await bench.hub.until(lambda: bench.hub.count("ACK") == 3)
    bench.gate.set()
    await bench.hub.got("RESULT")
    assert bench.ran == [1]
    assert bench.hub.count("BEGIN") == 1


async def test_the_same_delivery_after_its_result_gets_the_stored_result(bench: Bench) -> None:
    sent = await bench.hub.deliver("Echo", 1)
    first = await bench.hub.got("RESULT")
    await bench.hub.until(lambda: not bench.spoke._running.outbox._sending)
    await bench.hub.send(sent)
    assert await bench.hub.got("RESULT") == first
    assert bench.ran == [1]


async def test_the_same_key_gets_the_stored_result_after_a_restart_too(bench: Bench) -> None:
    await bench.hub.deliver("Echo", 1, dedup_key="report-1", caller="ann")
    first = await bench.hub.got("RESULT")
    await bench.restart()
    other = await bench.hub.deliver("Echo", 1, dedup_key="report-1", caller="ann")
    again = await bench.hub.got("RESULT")
    assert again["body"]["payload"] == first["body"]["payload"]
    assert again["body"]["delivery"] == other["body"]["delivery"]
    assert bench.ran == [1]


async def test_the_same_key_while_it_runs_joins_and_both_are_told(bench: Bench) -> None:
    bench.gate.clear()
    one = await bench.hub.deliver("Echo", 1, dedup_key="k", caller="ann")
    await bench.hub.until(lambda: bench.ran == [1])
    two = await bench.hub.deliver("Echo", 1, dedup_key="k", caller="ann")
    await bench.hub.until(lambda: bench.hub.count("BEGIN") == 2)
    bench.gate.set()
    told = {(await bench.hub.got("RESULT"))["body"]["delivery"] for _ in range(2)}
    assert told == {one["body"]["delivery"], two["body"]["delivery"]}
    assert bench.ran == [1]


@pytest.mark.parametrize("is_running", [True, False])
async def test_another_body_under_the_same_key_is_a_conflict(bench: Bench, is_running: bool) -> None:
    bench.gate.clear()
    await bench.hub.deliver("Echo", 1, dedup_key="k", caller="ann")
    await bench.hub.until(lambda: bench.ran == [1])
    if not is_running:
        bench.gate.set()
        await bench.hub.got("RESULT")
    await bench.hub.deliver("Echo", 2, dedup_key="k", caller="ann")
    failed = await bench.hub.got("FAIL")
    assert (failed["body"]["code"], failed["body"]["began"]) == ("conflict", False)
    assert bench.ran == [1]
    bench.gate.set()


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_payload_and_a_context_whose_keys_stand_in_another_order_are_the_same(
    bench: Bench, is_running: bool
) -> None:
    bench.gate.clear()
    one = await bench.hub.deliver("Echo", {"a": 1, "b": {"x": 1, "y": 2}}, dedup_key="k", context={"m": 1, "n": 2})
    await bench.hub.until(lambda: len(bench.ran) == 1)
    if not is_running:
        bench.gate.set()
        await bench.hub.got("RESULT")
    two = await bench.hub.deliver("Echo", {"b": {"y": 2, "x": 1}, "a": 1}, dedup_key="k", context={"n": 2, "m": 1})
    await bench.hub.until(lambda: bench.hub.count("BEGIN") == 2)
    bench.gate.set()
    told = {(await bench.hub.got("RESULT"))["body"]["delivery"] for _ in range(2 if is_running else 1)}
    assert two["body"]["delivery"] in told
    assert (one["body"]["delivery"] in told) is is_running
    assert len(bench.ran) == 1


async def test_a_key_counts_among_those_of_its_caller(bench: Bench) -> None:
    await bench.hub.deliver("Echo", 1, dedup_key="k", caller="ann")
    await bench.hub.deliver("Echo", 2, dedup_key="k", caller="bob")
    await bench.hub.got("RESULT")
    await bench.hub.got("RESULT")
    assert sorted(bench.ran) == [1, 2]


async def test_a_key_counts_among_those_of_its_workspace(bench: Bench) -> None:
    for number, place in enumerate(["one", "two", "one"]):
        await bench.hub.deliver("Echo", number % 2, dedup_key="k", caller="ann", workspace=place)
        assert (await bench.hub.got("RESULT"))["body"]["payload"] == {"echo": number % 2}
    assert bench.ran == [0, 1]


async def test_a_new_attempt_that_the_host_decided_on_runs_again(bench: Bench) -> None:
    first = await bench.hub.deliver("Echo", 1, dedup_key="k", caller="ann")
    await bench.hub.got("RESULT")
    await bench.restart()  # and so it is on the disk that the result was acknowledged
    task = first["body"]["task_id"]
    await bench.hub.deliver("Echo", 1, dedup_key="k", caller="ann", task_id=task, fence=2, attempt=2)
    await bench.hub.got("RESULT")
    assert bench.ran == [1, 1]


async def test_changes_are_made_although_the_host_has_not_acknowledged_the_result_before(bench: Bench) -> None:
    bench.hub.answers["RESULT"] = lambda _: []
    again: dict[str, Any] = {"dedup_key": "k", "caller": "ann", "task_id": "tsk_1", "msg_id": "msg_1"}
    await bench.hub.deliver("Echo", 1, **again)
    await bench.hub.got("RESULT")
    for fence, revision in ((2, 1), (3, 2), (4, 2)):
        sent = await bench.hub.deliver("Echo", 1, **again, fence=fence, revision=revision, changes="More.")
        delivery = sent["body"]["delivery"]
        await bench.hub.got("RESULT", lambda frame, own=delivery: frame["body"]["delivery"] == own)
    assert bench.ran == [1, 1, 1], "the third time its own result was told again"
    assert [message.changes for message in bench.messages] == ["", "More.", "More."]


async def test_changes_wait_while_the_attempt_before_still_runs(bench: Bench) -> None:
    bench.gate.clear()
    again: dict[str, Any] = {"dedup_key": "k", "caller": "ann", "task_id": "tsk_1", "msg_id": "msg_1"}
    await bench.hub.deliver("Echo", 1, **again)
    await bench.hub.until(lambda: bench.ran == [1])
    await bench.hub.deliver("Echo", 1, **again, fence=2, revision=1)
    assert (await bench.hub.got("FAIL"))["body"]["code"] == "unavailable"
    bench.gate.set()
    await bench.hub.got("RESULT")
    assert bench.ran == [1]


# --- after the handler --------------------------------------------------------------------------------------------


async def test_a_result_is_sent_again_until_it_is_acknowledged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "ACK_SECONDS", 0.01)
    bench.hub.answers["RESULT"] = lambda _: []
    await bench.hub.deliver("Echo", 1)
    first = await bench.hub.got("RESULT")
    assert await bench.hub.got("RESULT") == first
    del bench.hub.answers["RESULT"]
    await bench.hub.until(lambda: not bench.spoke._running.outbox._sending)
    assert bench.ran == [1]


async def test_a_result_that_was_not_acknowledged_is_told_after_the_link_is_back(bench: Bench) -> None:
    bench.hub.answers["RESULT"] = lambda _: []
    sent = await bench.hub.deliver("Echo", 1)
    first = await bench.hub.got("RESULT")
    bench.hub.resume[sent["body"]["delivery"]] = "resend"
    del bench.hub.answers["RESULT"]
    bench.hub.cut()
    await bench.hub.got("ANCHOR")
    anchor = await bench.hub.got("ANCHOR")
    assert anchor["body"]["held"] == [{"delivery": sent["body"]["delivery"], "fence": 1, "state": "done"}]
    assert await bench.hub.got("RESULT") == first
    assert bench.ran == [1]


async def test_a_handler_goes_on_while_the_link_is_lost(bench: Bench) -> None:
    bench.gate.clear()
    sent = await bench.hub.deliver("Echo", 1)
    await bench.hub.until(lambda: bench.ran == [1])
    bench.hub.is_reachable = False
    bench.hub.cut()
    await bench.messages[0].progress("nobody hears this")
    bench.gate.set()
    bench.hub.is_reachable = True
    await bench.hub.got("ANCHOR")
    await bench.hub.got("ANCHOR")
    result = await bench.hub.got("RESULT")
    assert result["body"]["delivery"] == sent["body"]["delivery"]
    assert bench.ran == [1]


async def test_an_outcome_that_the_host_refuses_for_good_is_not_sent_for_ever(bench: Bench) -> None:
    bench.hub.answers["RESULT"] = lambda found: [bench.hub.fail(found, "conflict")]
    await bench.hub.deliver("Echo", 1)
    await bench.hub.until(lambda: bench.hub.count("RESULT") == 1 and not bench.spoke._running.outbox._sending)
    await bench.restart()
    assert "held" not in bench.hub.heard[-1]["body"]


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_result_that_no_host_takes_is_told_as_a_failure(bench: Bench, is_read: bool) -> None:
    told = {} if is_read else {"of": ""}
    bench.hub.answers["RESULT"] = lambda found: [bench.hub.fail(found, "invalid", "Too deep.", **told)]
    sent = await bench.hub.deliver("Echo", 1)
    failed = (await bench.hub.got("FAIL"))["body"]
    assert (failed["delivery"], failed["fence"], failed["began"]) == (sent["body"]["delivery"], 1, True)
    assert (failed["code"], failed["message"]) == ("failed", "The host cannot take the result: Too deep.")
    await bench.spoke.drain()
    assert bench.hub.count("RESULT") == 1


# --- after a crash ------------------------------------------------------------------------------------------------

CRASH = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tallystick import Capability, Spoke
from tests.support.reach import ScriptedHub
store, end = Path(sys.argv[1]), sys.argv[2]

async def handle(message):
    Path(str(store) + ".ran").open("a").write("x")
    if end == "handler":
        os._exit(9)
    return "made"

async def main():
    hub = ScriptedHub()
    if end == "result":
        hub.answers["RESULT"] = lambda _: os._exit(9)
    if end == "begin":
        hub.answers["BEGIN"] = lambda _: os._exit(9)
    spoke = Spoke("echo-1", [Capability("Echo")], {{"Echo": handle}}, store=store, link=hub.dial)
    await spoke.start()
    given = dict(delivery="dlv_1", task_id="tsk_1", msg_id="msg_1", dedup_key="k", caller="ann")
    await hub.deliver("Echo", 1, **given)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def crashed(tmp_path: Path, end: str, **capability: Any) -> Bench:
    """A bench whose store was left by a process that was killed at that point."""
    store = tmp_path / "echo.db"
    code = CRASH.format(root=str(ROOT))
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(store), end)
    assert await child.wait() == 9
    found = Bench(store, **capability)
    await found.spoke.start()
    return found


def held(bench: Bench) -> Any:
    return bench.hub.heard[0]["body"].get("held")


async def test_a_result_that_a_killed_process_had_stored_is_told_by_the_next(tmp_path: Path) -> None:
    bench = await crashed(tmp_path, "result")
    assert held(bench) == [{"delivery": "dlv_1", "fence": 1, "state": "done"}]
    result = await bench.hub.got("RESULT")
    assert (result["body"]["payload"], result["header"]["msg_id"]) == ("made", "msg_1")
    assert bench.ran == []
    await bench.spoke.stop()


async def test_what_a_killed_process_had_begun_is_reported_and_never_run_again(tmp_path: Path) -> None:
    bench = await crashed(tmp_path, "handler")
    assert held(bench) == [{"delivery": "dlv_1", "fence": 1, "state": "begun"}]
    again = {"task_id": "tsk_1", "msg_id": "msg_1", "dedup_key": "k", "caller": "ann"}
    await bench.hub.deliver("Echo", 1, delivery="dlv_1", **again)
    failed = await bench.hub.got("FAIL")
    assert (failed["body"]["code"], failed["body"]["began"]) == ("unverified", True)
    await bench.hub.deliver("Echo", 1, delivery="dlv_2", **{**again, "task_id": "tsk_2"})
    assert (await bench.hub.got("FAIL"))["body"]["code"] == "unverified"
    assert bench.ran == []
    await bench.spoke.stop()


async def test_a_new_attempt_at_what_was_begun_is_the_decision_of_the_host(tmp_path: Path) -> None:
    bench = await crashed(tmp_path, "handler")
    again = {"task_id": "tsk_1", "msg_id": "msg_1", "dedup_key": "k", "caller": "ann"}
    await bench.hub.deliver("Echo", 1, delivery="dlv_2", fence=2, attempt=2, **again)
    await bench.hub.got("RESULT")
    assert bench.ran == [1]
    await bench.spoke.stop()


async def test_an_idempotent_capability_runs_again_what_was_begun(tmp_path: Path) -> None:
    bench = await crashed(tmp_path, "handler", idempotent=True)
    await bench.hub.deliver("Echo", 1, delivery="dlv_1", task_id="tsk_1", msg_id="msg_1", dedup_key="k", caller="ann")
    await bench.hub.got("RESULT")
    assert bench.ran == [1]
    await bench.spoke.stop()


async def test_what_the_host_drops_after_a_crash_may_be_asked_for_again(tmp_path: Path) -> None:
    bench = await crashed(tmp_path, "begin")
    assert held(bench) == [{"delivery": "dlv_1", "fence": 1, "state": "begun"}]
    bench.hub.resume["dlv_1"] = "drop"
    bench.hub.cut()
    await bench.hub.got("ANCHOR")
    await bench.hub.got("ANCHOR")
    await bench.hub.deliver("Echo", 1, task_id="tsk_9", dedup_key="k", caller="ann")
    await bench.hub.got("RESULT")
    assert bench.ran == [1]
    await bench.spoke.stop()


# --- the store ----------------------------------------------------------------------------------------------------


async def test_two_spokes_with_one_store_are_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ReachRefused, match="is open already") as caught:
        await bench.make().start()
    assert caught.value.code == "conflict"
    code = """
import asyncio, sys
from pathlib import Path
from tallystick.sdk.store import SpokeStore
asyncio.run(SpokeStore(Path(sys.argv[1])).open())
"""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(bench.store), stderr=subprocess.PIPE)
    _, told = await child.communicate()
    assert b"is open already" in told


async def test_the_store_is_for_this_user_alone(bench: Bench) -> None:
    await bench.hub.deliver("Echo", 1)
    await bench.hub.got("RESULT")
    assert {path.stat().st_mode & 0o777 for path in bench.store.parent.glob("echo.db*")} == {0o600}


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"no database at all, but long enough to be looked at " * 20, "internal", "is damaged"),
        ("PRAGMA user_version=99", "unsupported", "has the form 99"),
        ("CREATE TABLE theirs (x)", "invalid", "is a database of something else"),
    ],
)
async def test_a_store_that_cannot_be_used_says_why_and_what_to_do(
    tmp_path: Path, content: bytes | str, code: str, words: str
) -> None:
    path = tmp_path / "echo.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute(content)
        connection.close()
    before = path.read_bytes()
    with pytest.raises(ReachRefused, match=words) as caught:
        await Bench(path).spoke.start()
    assert caught.value.code == code
    assert caught.value.remedy
    assert path.read_bytes() == before


async def test_results_beyond_the_newest_two_hundred_are_pruned(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables.HOT == 200
    monkeypatch.setattr(tables, "HOT", 5)
    for number in range(8):
        await bench.hub.deliver("Echo", number, dedup_key=f"k{number}", caller="ann")
        await bench.hub.got("RESULT")
    await bench.restart()
    count = "SELECT count(*) FROM effects UNION ALL SELECT count(*) FROM deliveries"
    assert await bench.spoke._running._store.do(lambda t: t._db.execute(count).fetchall()) == [(5,), (5,)]
    for number in (7, 0):
        await bench.hub.deliver("Echo", number, dedup_key=f"k{number}", caller="ann")
        await bench.hub.got("RESULT")
    assert bench.ran == [*range(8), 0]


async def test_a_full_disk_loses_no_result(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.gate.clear()
    await bench.hub.deliver("Echo", 1)
    await bench.hub.until(lambda: bench.ran == [1])
    failures: list[int] = []
    real = Tables.finish

    def full(self: Tables, *given: Any) -> None:
        failures.append(1)
        if len(failures) < 3:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error
        real(self, *given)

    monkeypatch.setattr(Tables, "finish", full)
    bench.gate.set()
    assert (await bench.hub.got("RESULT"))["body"]["payload"] == {"echo": 1}
    assert len(failures) == 3
    assert bench.ran == [1]


@pytest.mark.parametrize(
    "error", [UnicodeEncodeError("utf-8", "x", 0, 1, "no"), StopIteration(), sqlite3.DataError("no")]
)
async def test_a_step_that_cannot_be_done_is_left_out_and_the_store_goes_on(bench: Bench, error: Exception) -> None:
    def broken(_: Tables) -> None:
        raise error

    store = bench.spoke._running._store
    asked = [store.do(step) for step in (lambda _: 1, broken, lambda _: 3)]
    first, refused, last = await asyncio.gather(*asked, return_exceptions=True)
    assert (first, last) == (1, 3)
    assert isinstance(refused, ReachRefused)
    assert (refused.code, "cannot be written" in refused.message) == ("invalid", True)


async def test_an_outcome_that_no_disk_takes_is_a_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Tables.finish

    def picky(self: Tables, ask: tables.Ask, outcome: tables.Outcome) -> None:
        if not outcome.code:
            raise ValueError("not this")
        real(self, ask, outcome)

    monkeypatch.setattr(Tables, "finish", picky)
    await bench.hub.deliver("Echo", 1)
    failed = (await bench.hub.got("FAIL"))["body"]
    assert (failed["code"], "not this" in failed["message"]) == ("failed", True)


async def test_a_spoke_whose_disk_is_full_begins_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, *given: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise error

    monkeypatch.setattr(Tables, "begin", full)
    await bench.hub.deliver("Echo", 1)
    failed = await bench.hub.got("FAIL")
    assert (failed["body"]["code"], failed["body"]["began"]) == ("unavailable", False)
    assert bench.ran == []


# --- the end of the program ---------------------------------------------------------------------------------------


def ended(tmp_path: Path, handler: Any) -> list[dict[str, Any]]:
    """What a spoke holds whose loop ended while its handler ran."""
    bench: list[Bench] = []

    async def main() -> None:
        found = Bench(tmp_path / "echo.db")
        bench.append(found)
        found.spoke = found.make(handler)
        await found.spoke.start()
        await found.hub.deliver("Echo", 1)
        await found.hub.got("BEGIN")
        await found.hub.until(lambda: found.ran == [1] or started.is_set())

    started.clear()
    try:
        asyncio.run(main())
    finally:
        bench[0].spoke._running._store.close()
    return found_again(tmp_path)


def found_again(tmp_path: Path) -> list[dict[str, Any]]:
    """What the next process finds in the store."""

    async def again() -> list[dict[str, Any]]:
        found = Bench(tmp_path / "echo.db")
        await found.spoke.start()
        told = held(found)
        await found.spoke.stop()
        return told

    return [{k: v for k, v in one.items() if k == "state"} for one in asyncio.run(again())]


started = threading.Event()


def test_a_coroutine_that_ends_with_its_loop_is_kept_as_canceled(tmp_path: Path) -> None:
    async def handle(_: ReachMessage) -> None:
        started.set()
        await asyncio.Event().wait()

    assert ended(tmp_path, handle) == [{"state": "failed"}]


def test_ctrl_c_in_a_coroutine_ends_the_program_and_its_message_is_kept_as_failed(tmp_path: Path) -> None:
    async def handle(_: ReachMessage) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ended(tmp_path, handle)
    assert found_again(tmp_path) == [{"state": "failed"}]


def test_a_thread_that_goes_on_after_its_loop_stays_begun(tmp_path: Path) -> None:
    release = threading.Event()

    def handle(_: ReachMessage) -> None:
        started.set()
        release.wait(30)

    try:
        assert ended(tmp_path, handle) == [{"state": "begun"}]
    finally:
        release.set()
