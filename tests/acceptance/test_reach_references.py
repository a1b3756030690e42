"""What a message rests on: found when it is sent, kept as it was, read by who has it in hand, and handed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick import Capability, ReachClient, ReachMessage, ReachRefused, Spoke
from tallystick.core.errors import ErrorCode, Refused
from tallystick.sdk import ContextSlice
from tests.support.ends import PATIENCE, Haven
from tests.support.hub import Hub
from tests.support.places import git


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which both programs run."""
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "notes.md").write_text("one\ntwo\nthree\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Begin")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
async def haven(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Haven]:
    monkeypatch.setenv("TALLY_HOME", str(tmp_path / "h"))
    for name in ("TALLY_AGENT", "TALLY_SESSION", "TALLY_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    async with Haven(tmp_path / "h", retry_seconds=(0.05, 0.05), reference_bytes=4096) as haven:
        yield haven


def spoke(place: Path, **handlers: Any) -> Spoke:
    name = "-".join(handlers).lower()
    offers = [Capability(capability) for capability in handlers]
    return Spoke(name, offers, handlers, store=place / f"{name}.db")


async def contents(message: ReachMessage) -> Any:
    return [(await found.resolve()).decode() for found in message.context.references]


async def test_files_are_read_as_they_were_when_the_message_was_sent(
    haven: Haven, repository: Path, tmp_path: Path
) -> None:
    may_read = asyncio.Event()

    async def read(message: ReachMessage) -> Any:
        await may_read.wait()
        told = [[found.kind, found.name, found.size] for found in message.context.references]
        return [told, await contents(message)]

    commit = git(repository, "rev-parse", "HEAD").strip()
    (repository / "draft.md").write_text("not committed\n")
    named = ("notes.md", f"{commit}:notes.md:2-3", "draft.md")
    async with spoke(tmp_path, Read=read), ReachClient() as client:
        handle = await client.sail("Read", 1, context=ContextSlice(references=named), wait=False)
        for file in ("notes.md", "draft.md"):
            (repository / file).write_text("changed since\n")
        git(repository, "commit", "-q", "-a", "-m", "Change")
        may_read.set()
        told, read_ = (await handle.result()).payload
    assert told == [["git", "notes.md", 14], ["git", "notes.md", None], ["git", "draft.md", 14]]
    assert read_ == ["one\ntwo\nthree\n", "two\nthree\n", "not committed\n"]


async def test_what_is_outside_is_not_read_and_its_handler_is_told_who_may(haven: Haven, tmp_path: Path) -> None:
    remedies: list[str] = []

    async def read(message: ReachMessage) -> Any:
        try:
            return await contents(message)
        except ReachRefused as refused:
            remedies.append(refused.remedy)
            raise

    async with spoke(tmp_path, Read=read), ReachClient() as client:
        with pytest.raises(ReachRefused, match="is outside") as caught:
            await client.sail("Read", 1, context={"references": ["https://example.org/x"]})
    assert caught.value.code == "unsupported"
    assert "Read it yourself" in remedies[0]


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (["absent.md"], "absent.md"),
        (["notes.md:2-9"], "Lines 2 to 9"),
        ([f"blob:{'0' * 64}"], "is not here"),
        (["../h/tally.db"], "outside"),
        (["large"], "has 5000 bytes; a reference of a message may have 4096"),
        (["notes.md"] * 65, "64"),
        ([""], "references"),
    ],
)
async def test_what_cannot_be_read_is_refused_before_anything_is_stored(
    haven: Haven, repository: Path, tmp_path: Path, named: list[str], words: str
) -> None:
    (repository / "large").write_bytes(b"x" * 5000)
    async with spoke(tmp_path, Read=contents), ReachClient() as client:
        with pytest.raises(ReachRefused, match=words) as caught:
            await client.sail("Read", 1, context={"references": named})
    assert caught.value.remedy
    assert not caught.value.task_id
    assert (await haven.desk.board(await haven.person())).tasks == ()


async def test_the_same_message_again_is_the_first_whatever_became_of_its_files(
    haven: Haven, repository: Path, tmp_path: Path
) -> None:
    async with spoke(tmp_path, Read=contents), ReachClient() as client:
        first = await client.sail("Read", 1, dedup_key="k", context={"references": ["notes.md"]})
        (repository / "notes.md").unlink()
        again = await client.sail("Read", 1, dedup_key="k", context={"references": ["notes.md"]})
        assert (again.payload, again.duplicate) == (first.payload, True)
        with pytest.raises(ReachRefused) as caught:
            await client.sail("Read", 1, dedup_key="k", context={"references": ["HEAD:notes.md"]})
    assert caught.value.code == "conflict"


async def test_a_handler_hands_its_references_on_also_those_that_no_commit_has(
    haven: Haven, repository: Path, tmp_path: Path
) -> None:
    async with ReachClient() as client:

        async def outer(message: ReachMessage) -> Any:
            return (await client.sail("Inner", 1, context=message.context.last())).payload

        (repository / "draft.md").write_text("not committed\n")
        async with spoke(tmp_path, Outer=outer), spoke(tmp_path, Inner=contents):
            found = await client.sail("Outer", 1, context={"references": ["draft.md", "notes.md"]})
    assert found.payload == ["not committed\n", "one\ntwo\nthree\n"]


async def test_a_handler_reads_on_after_the_host_was_started_again(haven: Haven, tmp_path: Path) -> None:
    runs, may_read = asyncio.Event(), asyncio.Event()

    async def read(message: ReachMessage) -> Any:
        runs.set()
        await may_read.wait()
        return await contents(message)

    async with spoke(tmp_path, Read=read), ReachClient() as client:
        context = {"references": ["notes.md"]}
        handle = await client.sail("Read", 1, timeout_ms=60_000, context=context, wait=False)
        async with asyncio.timeout(PATIENCE):
            await runs.wait()
        await haven.restart()
        may_read.set()
        assert (await handle.result()).payload == ["one\ntwo\nthree\n"]


async def test_only_its_parties_read_what_a_message_rests_on(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        holder, other = await hub.spoke("counter", "Count"), await hub.spoke("stranger", "Else")
        digest = hub.desk.s.blobs.put(b"the words")
        sailed = await hub.sail(inputs=(f"blob:{digest}",))
        await hub.until(lambda: hub.work(sailed.task_id).task.state.value == "working")
        for reader in (hub.guest(), hub.guest("counter")):
            assert await hub.desk.fetch(reader, sailed.task_id, 0) == b"the words"
        assert await hub.desk.fetch_held(holder.session, sailed.task_id, 0) == b"the words"
        for refused in (
            hub.desk.fetch(hub.guest("stranger"), sailed.task_id, 0),
            hub.desk.fetch_held(other.session, sailed.task_id, 0),
            hub.desk.fetch_held("", sailed.task_id, 0),
        ):
            with pytest.raises(Refused) as caught:
                await refused
            assert caught.value.code is ErrorCode.NOT_FOUND
