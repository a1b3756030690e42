"""What is kept in memory beside the heads says what the store says."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.app.clock import Chance
from tallystick.app.recent import Histories
from tallystick.core import commands as cmd
from tallystick.core.identity import Actor, ActorKind, Prefix
from tallystick.store.contract.samples import record, said
from tallystick.store.sqlite import SqliteStore
from tests.contract.test_counters import Desk


def test_chance_is_never_given_out_twice() -> None:
    chance = Chance()
    given = [chance(10) for _ in range(5000)]
    assert len(set(given)) == 5000
    assert {len(one) for one in given} == {10}


def test_a_history_is_kept_from_its_first_event_or_not_at_all() -> None:
    kept = Histories()
    kept.committed(record("tsk_1", 2))
    assert kept.of("tsk_1") is None
    for version in (1, 2):
        kept.committed(record("tsk_2", version))
    assert [r.version for r in kept.of("tsk_2") or ()] == [1, 2]
    kept.committed(record("tsk_2", 4))
    assert kept.of("tsk_2") is None


def test_histories_are_bounded_by_what_they_take() -> None:
    kept = Histories()
    for number in range(20):
        kept.committed(record(f"tsk_{number}", 1, said("title", "x" * 1024 * 1024)))
    held = [number for number in range(20) if kept.of(f"tsk_{number}")]
    assert held == list(range(20 - len(held), 20))
    assert 1 <= len(held) <= 8


async def _follows_the_store(path: Path) -> None:
    desk = Desk(SqliteStore.open(path / "tally.db"))
    await desk.start()
    session = desk.new_id(Prefix.SESSION)
    holder = Actor(desk.worker.id, ActorKind.AGENT, session, "cli")
    opened = cmd.OpenSession(session_id=session, agent=holder.id, workspace=desk.workspace, door="cli")
    await desk.executor.execute(opened, holder, workspace=desk.workspace)
    assert await desk.heads.held.of(session) == ()
    tasks = [await desk.ask() for _ in range(3)]
    taking = [desk.executor.execute(cmd.ClaimTask(task_id=t, session=session), holder) for t in tasks]
    await asyncio.gather(*taking)
    assert await _same(desk, session) == tuple(sorted(tasks))
    release = cmd.CancelTask(task_id=tasks[0])
    await desk.executor.execute(release, Actor(desk.heads.directory.owner, ActorKind.PERSON))
    await _same(desk, session)
    for task in tasks:
        history = desk.heads.histories.of(task)
        assert history == await desk.store.load(task)
        assert desk.heads.children.committed(task) == ()
    await desk.stop()


async def _same(desk: Desk, session: str) -> tuple[str, ...]:
    rows = await desk.store.query("held", session=session)
    found = await desk.heads.held.of(session)
    assert found == tuple(sorted(str(row["task_id"]) for row in rows)) == desk.heads.held.committed(session)
    return found


def test_groups_and_histories_say_what_the_store_says(tmp_path: Path) -> None:
    asyncio.run(_follows_the_store(tmp_path))
