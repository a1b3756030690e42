"""What each tool does: the desk's verbs with the arguments of the table, and how their answers are shown.

The forms are those of `tally --json`. What was given to a reader counts as read when the reader has acknowledged it:
that is `seen`, called by whoever hands the answer over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tallystick.app.desk import forms, reach
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import invalid
from tallystick.core.model import FINAL_STATES
from tallystick.edge.mcp import words
from tallystick.edge.mcp.pace import moments
from tallystick.edge.mcp.told import plain, told

LIST = 60
"""Tasks or routes that one overview shows."""
INBOX = 20
"""Items that one inbox shows unless more are asked for."""
WAIT_SECONDS = 40.0
"""The longest single wait: clients give up on calls that take longer than about 50 seconds."""

Arguments = Mapping[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """What a tool answers."""

    data: dict[str, Any]
    text: str
    seen: Callable[[], Awaitable[None]] | None = None
    """To be called once the reader has it."""


# --- looking ----------------------------------------------------------------------------------------------------


async def inbox(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Whose turn is mine."""
    whole = await desk.inbox(guest)
    room = int(a.get("limit", INBOX))
    turns = whole.turns[:room]
    shown = forms.Inbox(turns=turns, notices=whole.notices[: room - len(turns)])
    more = len(whole.turns) + len(whole.notices) - len(shown.turns) - len(shown.notices)
    return Answer({**plain(shown), "more": more}, words.inbox(shown, more), lambda: desk.saw_inbox(guest, shown))


async def read(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """All of a task."""
    shown = await desk.show(guest, a["task"])
    return Answer(told(shown, history=bool(a.get("history"))), words.task(shown), lambda: _saw(desk, guest, shown))


async def _saw(desk: Desk, guest: Guest, shown: forms.Shown) -> None:
    await desk.saw(guest, shown)
    if guest.actor.session and shown.session == guest.actor.session:
        await desk.recorded(guest, shown.task_id, shown.delivery_id)


async def overview(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """The board, the agents, the context of the workspace, or who offers what."""
    what = a.get("what", "board")
    if what == "board":
        return await _board(desk, guest, everything=bool(a.get("all")))
    if what == "routes":
        return await _routes(desk, guest)
    here = await desk.agents(guest)
    if what == "context":
        found = here.context or "This workspace has no CONTEXT.md."
        return Answer({"context": here.context}, words.join(found))
    return Answer(plain(here), words.agents(here))


async def _board(desk: Desk, guest: Guest, *, everything: bool) -> Answer:
    whole = await desk.board(guest, everything=everything)
    shown = forms.Board(tasks=whole.tasks[:LIST])
    more = len(whole.tasks) - len(shown.tasks)
    return Answer({**plain(shown), "more": more}, words.board(shown, more))


async def _routes(desk: Desk, guest: Guest) -> Answer:
    """Who holds which capability, as far as this agent sees."""
    whole = await desk.routes(guest)
    shown = reach.Routes(routes=whole.routes[:LIST])
    more = len(whole.routes) - len(shown.routes)
    return Answer({"routes": plain(shown)["routes"], "more": more}, words.routes(shown, more))


async def wait(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Until something happens to a task, or in the inbox."""
    seconds = _left(a)
    if "task" not in a:
        return await _wait_inbox(desk, guest, seconds)
    now = await desk.show(guest, a["task"])
    me = (await desk.whoami(guest)).name
    version = int(a.get("version", -1 if now.state in FINAL_STATES or now.turn == me else _begun_with(now, a)))
    if now.version <= version:
        now = await desk.wait(guest, now.task_id, version=version, seconds=seconds)
    timed_out = now.version <= version
    return Answer(
        {**told(now), "timed_out": timed_out},
        words.waited(now, timed_out=timed_out),
        None if timed_out else lambda: _saw(desk, guest, now),
    )


def _left(a: Arguments) -> float:
    """How long it still waits: one that goes on with another host is over when it would have been."""
    whole = min(float(a.get("seconds", WAIT_SECONDS)), WAIT_SECONDS)
    begun_at = float(a.get("begun_at") or time.time())
    return max(0.0, whole - max(0.0, time.time() - begun_at))


def _begun_with(shown: forms.Shown, a: Arguments) -> int:
    """The version that its task had when it was begun: whatever is newer ends it."""
    if "begun_at" not in a:
        return shown.version
    begun_at = float(a["begun_at"])
    return shown.version - sum(datetime.fromisoformat(line.at).timestamp() > begun_at for line in shown.history)


async def _wait_inbox(desk: Desk, guest: Guest, seconds: float) -> Answer:
    """The inbox as soon as it holds something new."""
    position = int((await desk.log_head(guest))["position"])
    answer = await inbox(desk, guest, {}, "")
    try:
        async with asyncio.timeout(seconds):
            looks = moments(desk, guest, position)
            while not _has_new(answer):
                await anext(looks)
                answer = await inbox(desk, guest, {}, "")
    except TimeoutError:
        return Answer({**answer.data, "timed_out": True}, "Nothing new came. Wait again, or go on with other work.")
    return Answer({**answer.data, "timed_out": False}, answer.text, answer.seen)


def _has_new(answer: Answer) -> bool:
    return any(item["new"] for item in (*answer.data["turns"], *answer.data["notices"]))


# --- asking -----------------------------------------------------------------------------------------------------


async def ask(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:
    """Hand work to somebody."""
    form = forms.Ask(
        address=a["to"],
        title=a["subject"],
        body=a.get("body", ""),
        inputs=a.get("inputs", ()),
        expect=a.get("expect", ""),
        done_when=a.get("done_when", ""),
        review_by=a.get("review_by", ""),
        deadline=a.get("deadline", ""),
        key=a.get("key", "") or key,
        parent=a.get("parent", ""),
        retry_of=a.get("retry_of", ""),
        wake=a.get("wake", False),
        session=a.get("session", ""),
    )
    receipt = await desk.ask(guest, form)
    return Answer(plain(receipt), words.receipt(receipt))


async def answer(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Answer a question."""
    return _moved(await desk.answer(guest, a["task"], a["text"]))


async def review(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Accept a result, ask for changes, or refuse it for good."""
    task, text, revision = a["task"], a.get("text", ""), a.get("revision")
    if a["verdict"] == "approve":
        return _moved(await desk.approve(guest, task, revision=revision, text=text))
    if a["verdict"] == "changes":
        return _moved(await desk.changes(guest, task, text, revision=revision))
    return _moved(await desk.refuse(guest, task, text, revision=revision))


# --- doing ------------------------------------------------------------------------------------------------------


async def take(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:
    """Accept a task with its whole brief, decline it, or give it back."""
    action, task, text = a.get("action", "accept"), a["task"], a.get("text", "")
    if action == "decline":
        return _moved(await desk.decline(guest, task, text))
    if action == "release":
        return _moved(await desk.release(guest, task, text, fence=await _fence(desk, guest, task)))
    taken = await desk.take(guest, task, key=key)
    return Answer(plain(taken), words.taken(taken), lambda: desk.recorded(guest, taken.task_id, taken.delivery_id))


async def progress(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Say how far it is."""
    fence = await _fence(desk, guest, a["task"])
    return _moved(await desk.progress(guest, a["task"], a["text"], fraction=a.get("fraction"), fence=fence))


async def question(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Ask the requester back."""
    return _moved(await desk.question(guest, a["task"], a["text"], fence=await _fence(desk, guest, a["task"])))


async def submit(desk: Desk, guest: Guest, a: Arguments, key: str) -> Answer:  # noqa: ARG001
    """Hand in a result, or say that it failed."""
    text, failed = a.get("text", ""), a.get("outcome") == "failed"
    if failed and not text.strip():
        raise invalid("A failure needs its reason.", "Say in `text` what was tried and why it failed.")
    form = forms.HandIn(
        task=a["task"],
        text="" if failed else text,
        failed=text if failed else "",
        commit=a.get("commit", ""),
        files=a.get("files", ()),
        review=a.get("review", False),
        fence=await _fence(desk, guest, a["task"]),
    )
    return _moved(await desk.submit(guest, form))


async def _fence(desk: Desk, guest: Guest, task: str) -> int:
    """The fence of the hold that a session writes under. Whether it is this session's hold, the rules decide: a hold
    of another session or agent is refused whatever its fence; one that ends meanwhile has another fence."""
    return (await desk.show(guest, task)).fence


def _moved(form: forms.Moved) -> Answer:
    return Answer(plain(form), words.moved(form))
