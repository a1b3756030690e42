"""The cases. Each is an async function of a fresh place; its name is the sentence that has to hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from tallystick.core.events import ERASED, Recorded, Text
from tallystick.core.rows import NoticeReadRow, Row
from tallystick.store.contract.samples import (
    FullStore,
    Place,
    alias_row,
    claimed,
    entry,
    joined,
    notice_row,
    said,
    settled,
    task_row,
)
from tallystick.store.interface import ConflictError, Entry, StoreUnavailableError

Case = Callable[[Place], Awaitable[None]]

CASES: Final[dict[str, Case]] = {}
"""All cases by name."""

LARGE: Final = "wörd " * 30_000
"""Words above the size at which a body becomes a file."""


async def check_store(make_place: Callable[[], Place]) -> None:
    """Run every case against stores at places made by `make_place`. Raises AssertionError at the first that fails."""
    for case in CASES.values():
        await case(make_place())


def _case(case: Case) -> Case:
    CASES[case.__name__] = case
    return case


async def _refused(error: type[Exception], work: Awaitable[Any]) -> Exception:
    try:
        await work
    except error as refusal:
        return refusal
    raise AssertionError(f"{error.__name__} was expected")


async def _everything(store: FullStore) -> tuple[list[Recorded], dict[str, list[dict[str, Any]]]]:
    return await store.tail(0, 10**6), await store.dump()


async def _whole(store: FullStore) -> None:
    damages = await store.scan()
    assert damages == [], damages


# --- append, load, tail ---


@_case
async def appended_events_get_dense_positions_and_a_chain(place: Place) -> None:
    """Positions without gaps, hashes, everything else as it was given."""
    store = place.open()
    assert await store.head() == (0, "")
    batch = [entry("tsk_1", 1), entry("tsk_2", 1, event=said("a", "b")), entry("tsk_1", 2)]
    appended = await store.append(batch)
    assert [event.position for event in appended] == [1, 2, 3]
    assert all(len(event.hash) == 64 for event in appended)
    assert appended == await store.tail(0)
    assert [event.event for event in appended] == [item.record.event for item in batch]
    assert await store.head() == (3, appended[-1].hash)
    assert await store.append([]) == []
    await _whole(store)
    await store.close()


@_case
async def load_gives_one_stream_in_order(place: Place) -> None:
    """Only that stream, from the version asked for."""
    store = place.open()
    await store.append([entry("tsk_1", 1), entry("tsk_2", 1), entry("tsk_1", 2), entry("tsk_1", 3)])
    assert [event.version for event in await store.load("tsk_1")] == [1, 2, 3]
    assert [event.version for event in await store.load("tsk_1", 1)] == [2, 3]
    assert await store.load("tsk_9") == []
    await store.close()


@_case
async def words_of_every_size_come_back(place: Place) -> None:
    """Empty, small and large texts, with all kinds of characters."""
    store = place.open()
    texts = ["", "x", "a\x00b\u202e\U0001f600\n" * 40, "w" * 20_000, LARGE]
    await store.append([entry("tsk_1", at, event=said(text[:20], text)) for at, text in enumerate(texts, 1)])
    loaded = [event.event.text for event in await store.load("tsk_1")]
    assert [text.body for text in loaded if text is not None] == texts
    await store.close()


@_case
async def what_cannot_be_encoded_is_refused_alone(place: Place) -> None:
    """A lone surrogate fails its own call, in an event as in a row; the store goes on."""
    store = place.open()
    bad = entry("tsk_1", 1, event=said("\ud800"))
    worse = entry("tsk_2", 1, task_row("tsk_2", title="\ud800"))
    answers = await asyncio.gather(
        store.append([bad]), store.append([worse]), store.append([entry("tsk_3", 1)]), return_exceptions=True
    )
    assert [isinstance(answer, UnicodeEncodeError) for answer in answers[:1]] == [True]
    assert [event.stream for event in await store.tail(0)] in (["tsk_3"], ["tsk_2", "tsk_3"])
    await store.append([entry("tsk_4", 1)])
    await _whole(store)
    await store.close()


@_case
async def tail_is_bounded_and_filtered(place: Place) -> None:
    """By limit, trace, prefix of the stream and event name."""
    store = place.open()
    for at in range(1, 5):
        await store.append(
            [
                entry("tsk_1", at, trace="trc_1"),
                entry("tsk_2", at, trace="trc_2", event=claimed()),
                entry("agt_1", at, trace="trc_2", event=joined("agt_1")),
            ]
        )
    await _check_filters(store)
    await store.archive(["trc_2"])
    await _check_filters(store)
    await store.close()


async def _check_filters(store: FullStore) -> None:
    async def positions(after: int, limit: int = 1000, **filters: Any) -> list[int]:
        return [event.position for event in await store.tail(after, limit, **filters)]

    assert await positions(3, 2) == [4, 5]
    assert await positions(12) == []
    assert await positions(2, trace="trc_1") == [4, 7, 10]
    assert await positions(2, 3, trace="trc_2") == [3, 5, 6]
    assert await positions(0, stream_prefix="agt_") == [3, 6, 9, 12]
    assert await positions(4, stream_prefix="tsk_2") == [5, 8, 11]
    assert await positions(0, 2, types=("TaskClaimed",)) == [2, 5]
    assert await positions(0, types=("TaskClaimed", "AgentJoined"), trace="trc_2", stream_prefix="agt_") == [
        3,
        6,
        9,
        12,
    ]
    assert await positions(0, types=("NoSuchEvent",)) == []
    assert await positions(0, trace="trc_9") == []
    assert await positions(0, stream_prefix="ses_") == []


# --- conflicts ---


async def _leaves_nothing(store: FullStore, *batch: Entry) -> None:
    before = await _everything(store)
    await _refused(ConflictError, store.append(batch))
    assert await _everything(store) == before


@_case
async def a_conflict_leaves_nothing(place: Place) -> None:
    """A stale stream, a stale read, a gap; also as the last entry of a batch."""
    store = place.open()
    await store.append([entry("tsk_1", 1), entry("agt_1", 1)])
    fine = entry("tsk_2", 1, task_row("tsk_2"))
    await _leaves_nothing(store, entry("tsk_1", 1, task_row("tsk_1")))
    await _leaves_nothing(store, entry("tsk_1", 3))
    await _leaves_nothing(store, entry("tsk_1", 2, reads=[("agt_1", 0)]))
    await _leaves_nothing(store, fine, entry("tsk_1", 1))
    await _leaves_nothing(store, fine, entry("tsk_2", 1))
    await store.append([fine, entry("tsk_2", 2, reads=[("agt_1", 1), ("ses_1", 0), ("tsk_1", 1)])])
    await _whole(store)
    await store.close()


@_case
async def a_taken_key_or_name_is_a_conflict(place: Place) -> None:
    """A dedup key of the same requester, a name of another party; the owner may write them again."""
    store = place.open()
    mine = task_row("tsk_1", key="k")
    await store.append([entry("tsk_1", 1, mine, alias_row("coder", "agt_1"))])
    await _leaves_nothing(store, entry("tsk_2", 1, task_row("tsk_2", key="k")))
    await _leaves_nothing(store, entry("agt_2", 1, alias_row("coder", "agt_2")))
    await _leaves_nothing(
        store, entry("tsk_3", 1, task_row("tsk_3", key="j")), entry("tsk_2", 1, task_row("x", key="k"))
    )
    await store.append([entry("tsk_1", 2, mine, alias_row("coder", "agt_1", 0))])
    await store.append([entry("tsk_2", 1, task_row("tsk_2", key="k", requester="per_2"))])
    assert len(await store.query("dedup", workspace="wsp_1", requester="per_1", key="k")) == 1
    await store.close()


@_case
async def of_calls_made_together_only_the_bad_ones_fail(place: Place) -> None:
    """Conflicts of each kind among good calls that share a commit."""
    store = place.open()
    await store.append([entry("tsk_0", 1, task_row("tsk_0", key="k"), alias_row("a", "agt_1"))])
    calls = [
        store.append([entry("tsk_1", 1, task_row("tsk_1"))]),
        store.append([entry("tsk_0", 1)]),
        store.append([entry("tsk_2", 1, task_row("tsk_2", key="k"))]),
        store.append([entry("agt_2", 1, alias_row("a", "agt_2"))]),
        store.append([entry("agt_3", 1, alias_row("b", "agt_3"))]),
        store.append([entry("agt_4", 1, alias_row("b", "agt_4"))]),
        store.append([entry("tsk_1", 2, task_row("tsk_1", version=2))]),
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, ConflictError) for answer in answers] == [False, True, True, True, False, True, False]
    assert [event.stream for event in await store.tail(1)] == ["tsk_1", "agt_3", "tsk_1"]
    assert [(row["skeleton"], row["party"]) for row in await store.query("aliases")] == [("a", "agt_1"), ("b", "agt_3")]
    assert [row["version"] for row in await store.query("task", task_id="tsk_1")] == [2]
    await _whole(store)
    await store.close()


@_case
async def concurrent_writers_keep_order_and_a_reader_skips_nothing(place: Place) -> None:
    """Many writers, some on one stream; one winner per version; a follower sees every position once, in order."""
    store = place.open()
    writers, rounds = 12, 8
    seen: list[Recorded] = []

    async def own(number: int) -> None:
        for version in range(1, rounds + 1):
            await store.append([entry(f"tsk_{number}", version)])

    async def shared() -> int:
        won = 0
        while (version := len(await store.load("tsk_shared"))) < rounds:
            answer = await asyncio.gather(store.append([entry("tsk_shared", version + 1)]), return_exceptions=True)
            won += not isinstance(answer[0], BaseException)
        return won

    async def follow() -> None:
        while len(seen) < (writers + 1) * rounds:
            await store.wait(len(seen))
            seen.extend(await store.tail(len(seen), 7))

    results = await asyncio.gather(follow(), *(own(n) for n in range(writers)), *(shared() for _ in range(4)))
    assert sum(won for won in results if isinstance(won, int)) == rounds
    assert [event.position for event in seen] == list(range(1, len(seen) + 1))
    for stream in {event.stream for event in seen}:
        assert [event.version for event in seen if event.stream == stream] == list(range(1, rounds + 1))
    await _whole(store)
    await store.close()


# --- wait, query, rows ---


@_case
async def wait_returns_when_there_is_news(place: Place) -> None:
    """At once where there is some, after an append, and never into a closed store."""
    store = place.open()
    waiting = asyncio.ensure_future(store.wait(0))
    await store.append([entry("tsk_1", 1)])
    assert await waiting == 1
    assert await store.wait(0) == 1
    left, right = asyncio.ensure_future(store.wait(1)), asyncio.ensure_future(store.wait(2))
    await store.append([entry("tsk_1", 2)])
    assert await left == 2
    await asyncio.sleep(0)
    assert not right.done()
    await store.close()
    await _refused(StoreUnavailableError, right)


@_case
async def a_query_needs_its_name_and_its_values(place: Place) -> None:
    """An unknown name, a missing and a needless value are errors of the programmer."""
    store = place.open()
    for name, values in (("no_such_query", {}), ("task", {}), ("task", {"task_id": "t", "party": "p"})):
        await _refused(KeyError, store.query(name, **values))
    assert await store.query("task", task_id="tsk_1") == []
    assert await store.query("next_due", after=0.0) == [{"at": None}]
    await store.close()


@_case
async def rows_are_replaced_and_marks_need_a_row(place: Place) -> None:
    """The last row of a key stands; marking a notice as read makes none."""
    store = place.open()
    read = NoticeReadRow(task_id="tsk_1", party="per_1", unread=0)
    await store.append([entry("tsk_1", 1, read, task_row("tsk_1", title="one"))])
    assert (await store.dump())["notices"] == []
    await store.append([entry("tsk_1", 2, notice_row("tsk_1", "per_1"), task_row("tsk_1", title="two", due_at=5.0))])
    assert await store.query("unseen", party="per_1") == [{"count": 1}]
    calls = [
        store.append([entry("tsk_1", 3, read)]),
        store.append([entry("tsk_1", 4, notice_row("tsk_1", "per_1", version=4))]),
    ]
    await asyncio.gather(*calls)
    assert await store.query("unseen", party="per_1") == [{"count": 1}]
    await store.append([entry("tsk_1", 5, read, task_row("tsk_1", title="three"))])
    assert await store.query("unseen", party="per_1") == [{"count": 0}]
    assert [(row["title"], row["due_at"]) for row in await store.query("task", task_id="tsk_1")] == [("three", None)]
    assert await store.query("inbox_notices", party="per_1", limit=9) == []
    await store.close()


# --- open and closed ---


@_case
async def everything_is_there_after_reopening(place: Place) -> None:
    """Events, words, rows, archive, and the versions that are expected next."""
    store = place.open()
    await store.append([entry("tsk_1", 1, task_row("tsk_1", key="k"), event=said("t", LARGE))])
    await store.append([entry("tsk_2", 1, trace="trc_2", event=said("t", "b"))])
    await store.archive(["trc_2"])
    before = await _everything(store)
    await store.close()
    await store.close()
    store = place.open()
    assert await _everything(store) == before
    await _leaves_nothing(store, entry("tsk_2", 1))
    await _leaves_nothing(store, entry("tsk_3", 1, task_row("tsk_3", key="k")))
    assert (await store.append([entry("tsk_2", 2)]))[0].position == 3
    await _whole(store)
    await store.close()


@_case
async def a_closed_or_readonly_store_says_so(place: Place) -> None:
    """With the reason; reading goes on while it is only read-only."""
    store = place.open()
    await store.append([entry("tsk_1", 1)])
    store.readonly("the chain is broken at 17")
    refusal = await _refused(StoreUnavailableError, store.append([entry("tsk_1", 2)]))
    assert (getattr(refusal, "reason", ""), str(refusal)) == ("readonly", "the chain is broken at 17")
    assert len(await store.load("tsk_1")) == 1
    await store.close()
    for work in (store.append([entry("tsk_1", 2)]), store.load("tsk_1"), store.tail(0), store.query("aliases")):
        refusal = await _refused(StoreUnavailableError, work)
        assert getattr(refusal, "reason", "") == "closed"


# --- maintenance ---


@_case
async def erasing_takes_the_words_and_leaves_the_chain(place: Place) -> None:
    """Small, large and archived words of one stream go; the others stay."""
    store = place.open()
    await store.append([entry("tsk_1", 1, event=said("secret", "secret")), entry("tsk_1", 2, event=said("s", LARGE))])
    await store.append([entry("tsk_1", 3, trace="trc_2", event=said("secret")), entry("tsk_1", 4)])
    await store.append([entry("tsk_2", 1, trace="trc_2", event=said("kept"))])
    await store.archive(["trc_2"])
    assert await store.erase("tsk_1") == 3
    assert await store.erase("tsk_1") == 0
    assert await store.erase("tsk_9") == 0
    assert [event.event.text for event in await store.load("tsk_1")] == [ERASED, ERASED, ERASED, None]
    assert [event.event.text for event in await store.load("tsk_2")] == [Text(title="kept")]
    await _whole(store)
    assert (await store.append([entry("tsk_1", 5)]))[0].position == 6
    await store.close()


@_case
async def the_archive_is_not_to_be_seen(place: Place) -> None:
    """Everything reads as before, streams go on, and a trace can be archived again."""
    store = place.open()
    for at in range(1, 6):
        await store.append(
            [entry("tsk_1", at, event=said(f"{at}")), entry("tsk_2", at, trace="trc_2", event=claimed())]
        )
    await store.append([entry("tsk_1", 6, event=settled()), entry("tsk_3", 1, trace="trc_2", event=settled())])
    assert await store.query("archivable", limit=9) == [{"trace": "trc_1"}, {"trace": "trc_2"}]
    before, streams = await _everything(store), [await store.load(f"tsk_{n}") for n in (1, 2, 3)]
    assert await store.archive(["trc_2", "trc_9"]) == 6
    assert await store.archive(["trc_2"]) == 0
    assert await store.query("archivable", limit=9) == [{"trace": "trc_1"}]
    assert await _everything(store) == before
    assert [await store.load(f"tsk_{n}") for n in (1, 2, 3)] == streams
    await store.append([entry("tsk_2", 6, trace="trc_2"), entry("tsk_4", 1, trace="trc_2", event=settled())])
    assert await store.archive(["trc_1", "trc_2"]) == 8
    assert await store.query("archivable", limit=9) == []
    assert [event.version for event in await store.load("tsk_2")] == [1, 2, 3, 4, 5, 6]
    assert [event.version for event in await store.load("tsk_2", 4)] == [5, 6]
    assert await store.tail(0, 12) == before[0]
    assert (await store.head())[0] == 14
    await _whole(store)
    assert (await store.append([entry("tsk_2", 7)]))[0].position == 15
    await _whole(store)
    await store.close()


async def _groups(*groups: Sequence[Row]) -> AsyncIterator[tuple[Row, ...]]:
    for group in groups:
        await asyncio.sleep(0)
        yield tuple(group)


async def _broken() -> AsyncIterator[tuple[Row, ...]]:
    yield (task_row("tsk_8"),)
    raise RuntimeError("the replay broke")


@_case
async def rebuilding_replaces_every_view_or_none(place: Place) -> None:
    """New rows stand alone; a replay that breaks changes nothing."""
    store = place.open()
    await store.append([entry("tsk_1", 1, task_row("tsk_1"), alias_row("a", "agt_1"))])
    before = await store.dump()
    await _refused(RuntimeError, store.rebuild(_broken()))
    assert await store.dump() == before
    await store.rebuild(_groups([task_row("tsk_2")], [task_row("tsk_2", title="new"), alias_row("a", "agt_2")]))
    dump = await store.dump()
    assert [(row["task_id"], row["title"]) for row in dump["tasks"]] == [("tsk_2", "new")]
    assert [row["party"] for row in dump["aliases"]] == ["agt_2"]
    await store.append([entry("tsk_2", 1, task_row("tsk_2", title="newer"), task_row("tsk_1"))])
    assert [row["title"] for row in await store.query("board", workspace="wsp_1", limit=9)] == ["Fix it", "newer"]
    await store.close()


async def _damaged(place: Place, how: str, *, archived: bool) -> None:
    store = place.open()
    await store.append([entry("tsk_1", at, event=said(f"{at}", "words " * 50)) for at in range(1, 7)])
    await store.append([entry("tsk_2", 1, trace="trc_2")])
    if archived:
        await store.archive(["trc_1"])
    await _whole(store)
    await store.close()
    place.damage(how, 3)
    store = place.open()
    damages = await store.scan()
    assert damages, how
    assert min(damage.position for damage in damages if damage.position) in (3, 4), damages
    assert how == "remove" or [damage for damage in await store.scan(4) if damage.position > 5] == []
    await store.close()


def _damage_case(how: str) -> None:
    async def case(place: Place) -> None:
        await _damaged(place, how, archived=False)

    case.__name__ = f"a_scan_finds_damage_{how}"
    _case(case)


for _how in ("flip", "field", "remove", "swap", "body"):
    _damage_case(_how)


@_case
async def a_scan_can_be_bounded(place: Place) -> None:
    """Only the asked-for part is looked at."""
    store = place.open()
    await store.append([entry("tsk_1", at) for at in range(1, 10)])
    await store.close()
    place.damage("flip", 5)
    store = place.open()
    assert await store.scan(0, 4) == []
    assert await store.scan(5) == []
    assert [damage.position for damage in await store.scan(3, 2)] == [5]
    await store.close()
