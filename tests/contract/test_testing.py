"""The test kit: what it promises, and that its checkers find what is wrong. Real transports pass the same contract."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from store_places import MemoryPlace

from tallystick.app.clock import SystemClock
from tallystick.app.ports import Envelope, Receipt
from tallystick.core.events import Text
from tallystick.core.identity import Prefix, id_milliseconds, is_id
from tallystick.core.limits import Limits
from tallystick.edge.command import CommandTransport
from tallystick.edge.git import GitCommands
from tallystick.edge.process import ProcessRunner, prefixes
from tallystick.store.blobs import BlobStore
from tallystick.store.contract.samples import entry
from tallystick.store.interface import StoreUnavailableError
from tallystick.store.memory import MemoryStore
from tallystick.testing import CrashingStore, FakeTransport, ManualClock, SeqIds, check_store, check_transport
from tests import build


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now=100.0, boot=5.0)
    assert (clock.now(), clock.boot(), clock.boot_id()) == (100.0, 5.0, "boot-1")
    clock.advance(10)
    clock.step_wall(-50)
    assert (clock.now(), clock.boot()) == (60.0, 15.0)
    clock.reboot("boot-2", 7)
    assert (clock.now(), clock.boot(), clock.boot_id()) == (67.0, 0.0, "boot-2")
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


def test_ids_are_the_same_in_each_run_and_sort_in_their_order() -> None:
    ids, again = SeqIds(), SeqIds()
    made = [ids(Prefix.TASK) for _ in range(300)]
    assert made == sorted(made) == [again(Prefix.TASK) for _ in range(300)]
    assert len(set(made)) == 300
    assert all(is_id(one, Prefix.TASK) for one in made)


def test_ids_go_with_a_clock_and_never_behind_each_other() -> None:
    clock = ManualClock()
    ids = SeqIds(now=clock.now)
    made = [ids(Prefix.TASK) for _ in range(3)]
    clock.advance(30 * 86400)
    made += [ids(Prefix.TASK) for _ in range(3)]
    assert made == sorted(made)
    assert abs(id_milliseconds(made[3]) / 1000 - clock.now()) < 1


# --- transports ---


def envelope(number: int, *argv: str) -> Envelope:
    """A push to a command, with ids of its own."""
    world = build.World()
    world.count += 100 * number
    work = world.work[world.leased()]
    delivery = work.deliveries[-1]
    agent = msgspec.structs.replace(
        world.directory.agents[build.RUNNER], argv=argv, seconds=60, search_path=os.environ["PATH"]
    )
    return Envelope(
        delivery_id=delivery.delivery_id,
        task_id=work.task.task_id,
        intent_id=delivery.intent_id,
        session=delivery.session,
        fence=work.task.fence,
        agent=agent,
        work=msgspec.structs.replace(work, task=msgspec.structs.replace(work.task, repository="", base_commit="")),
        text=Text(title="A task", body="Do it."),
    )


QUICK, ENDLESS = ("echo", "done"), ("sleep", "1000")


def command_transport(home: Path, limits: Limits = Limits()) -> CommandTransport:  # noqa: B008 - never changes
    home.mkdir(mode=0o700, exist_ok=True)
    runner = ProcessRunner(home, SystemClock())
    return CommandTransport(home, GitCommands(home), runner, BlobStore(home / "blobs"), SeqIds(), limits, prefixes)


def fake_transport(_home: Path) -> FakeTransport:
    fake = FakeTransport(holds=True)
    send = fake.send

    async def as_told(envelope: Envelope, began: object) -> Receipt:
        fake.holds = envelope.agent.argv == ENDLESS
        return await send(envelope, began)  # type: ignore[arg-type]

    fake.send = as_told  # type: ignore[method-assign,assignment]
    return fake


@pytest.mark.parametrize("make", [fake_transport, command_transport])
async def test_a_transport_passes_the_contract(make, tmp_path: Path) -> None:
    await check_transport(lambda: make(tmp_path / "home"), envelope(1, *QUICK), envelope(2, *ENDLESS))


class Early(FakeTransport):
    """Says that it was submitted without anybody having it."""

    async def send(self, envelope: Envelope, began: object) -> Receipt:
        return self.receipt


class Keeps(FakeTransport):
    """Finds again what was settled."""

    async def settled(self, delivery_id: str) -> None:
        self.left.append(delivery_id)


class Pretends(FakeTransport):
    """Says that it ended what it did not end, and reports a result all the same."""

    async def end(self, delivery_id: str) -> bool:
        if delivery_id in self._gates:
            self.release(delivery_id)
        return True


@pytest.mark.parametrize(
    ("broken", "finding"), [(Early, "began is called once"), (Keeps, "not found again"), (Pretends, "told as ended")]
)
async def test_the_checker_of_transports_finds_what_is_wrong(broken, finding: str) -> None:
    def make() -> FakeTransport:
        made = broken(holds=bool(calls))
        calls.append(made)
        return made

    calls: list[FakeTransport] = []
    with pytest.raises(AssertionError, match=finding):
        await check_transport(make, envelope(1, *QUICK), envelope(2, *ENDLESS))


async def test_a_job_that_is_ended_while_it_is_prepared_never_begins(tmp_path: Path) -> None:
    transport = command_transport(tmp_path / "home")
    push = envelope(1, "touch", str(tmp_path / "ran"))
    begun: list[str] = []

    async def began(witness: str, _evidence: str) -> bool:
        begun.append(witness)
        return True

    sending = asyncio.create_task(transport.send(push, began))
    await asyncio.sleep(0)
    assert await transport.end(push.delivery_id)
    assert (await sending).outcome == "ended"
    assert (begun, list((tmp_path / "home" / "jobs").iterdir())) == ([], [])


async def test_a_job_that_an_earlier_host_only_wrote_down_comes_back_as_not_begun(tmp_path: Path) -> None:
    push = envelope(1, *QUICK)
    folder = tmp_path / "home" / "jobs" / f"run-{push.delivery_id}"
    transport = command_transport(tmp_path / "home")
    folder.mkdir()
    begun: list[str] = []

    async def began(witness: str, _evidence: str) -> bool:
        begun.append(witness)
        return True

    assert transport.found() == [push.delivery_id]
    receipt = await transport.send(msgspec.structs.replace(push, adopted=True), began)
    assert (receipt.outcome, begun) == ("returned", [])
    assert not folder.exists(), "the next try has the same id"


@pytest.mark.parametrize(("own", "said"), [(0, "0.5"), (1, "1")])
async def test_a_command_that_ran_too_long_is_told_with_its_limit(tmp_path: Path, own: int, said: str) -> None:
    push = envelope(1, *ENDLESS)
    push = msgspec.structs.replace(push, agent=msgspec.structs.replace(push.agent, seconds=own))
    receipt = await command_transport(tmp_path / "home", Limits(command_seconds=0.5)).send(push, _nothing)
    assert (receipt.outcome, receipt.detail) == ("failed", f"It ran longer than {said} seconds.")


async def _nothing(_witness: str, _evidence: str) -> bool:
    """Nobody needs to know that it began."""
    return True


async def test_a_command_is_told_with_the_limit_that_an_earlier_host_gave_it(tmp_path: Path) -> None:
    push = envelope(1, *ENDLESS)
    push = msgspec.structs.replace(push, agent=msgspec.structs.replace(push.agent, seconds=0))
    begun = asyncio.Event()

    async def began(_witness: str, _evidence: str) -> bool:
        begun.set()
        return True

    earlier = asyncio.create_task(command_transport(tmp_path / "home", Limits(command_seconds=0.5)).send(push, began))
    await begun.wait()
    earlier.cancel()
    adopted = msgspec.structs.replace(push, adopted=True)
    receipt = await command_transport(tmp_path / "home", Limits(command_seconds=60.0)).send(adopted, began)
    assert receipt.detail == "It ran longer than 0.5 seconds."


# --- stores ---


async def test_check_store_passes_the_store_in_memory() -> None:
    await check_store(MemoryPlace)


@pytest.mark.parametrize(("after", "kept"), [(False, 1), (True, 2)])
async def test_a_crashing_store_fails_where_it_is_told_before_or_after_the_write(after: bool, kept: int) -> None:
    store = CrashingStore(MemoryStore(), 2, after=after, reason="full")
    await store.append([entry("tsk_1", 1)])
    for version in (2, 3):
        with pytest.raises(StoreUnavailableError) as refusal:
            await store.append([entry("tsk_1", version)])
        assert refusal.value.reason == "full"
    assert len(await store.load("tsk_1")) == len(await store.tail(0)) == kept
    store.heal()
    await store.append([entry("tsk_1", kept + 1)])
    assert await store.wait(0) == kept + 1
    await store.close()
