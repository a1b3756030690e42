"""The verbs that look: what waits, what is known, what happened. What was shown is acknowledged after its flush."""

from __future__ import annotations

from typing import Any

from tallystick.app.desk import forms
from tallystick.core.model import CheckOutcome, Reason
from tallystick.edge.cli import render_lists, render_outcome, render_task
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import ID, MAYBE_TEXT, Argument, Option, Verb

_TASKS = "Tasks"
_FOLLOW = Option("follow", "Go on as things happen, until it is closed or interrupted.")
_OUTCOMES = ("done", "failed", "redo", "cancel")


async def inbox(run: Run) -> int:
    """`tally inbox`."""
    guest = await run.guest()
    form = await run.desk.inbox(guest)
    await run.give(form, render_lists.inbox)
    if await run.call.flushed():
        await run.desk.saw_inbox(guest, form)
    return 0


async def show(run: Run) -> int:
    """`tally show`."""
    guest = await run.guest()
    task = run.parsed.text("id")
    if run.parsed.has("follow"):
        return await _follow(run, task)
    form = await run.desk.show(guest, task)
    await run.give(form, render_task.shown)
    if await run.call.flushed():
        await run.desk.saw(guest, form)
    return 0


async def _follow(run: Run, task: str) -> int:
    """All of it once, then the facts and the new history at each change."""
    guest = await run.guest()
    last: forms.Shown | None = None

    async def give(form: forms.Shown) -> None:
        nonlocal last
        if last is None or run.json:
            await run.give(form, render_task.shown)
        else:
            await run.give(_newer(form, last), render_outcome.followed)
        last = form
        if await run.call.flushed():
            await run.desk.saw(guest, form)

    await run.stream(run.desk.follow(guest, task), give)
    return 0


def _newer(form: forms.Shown, last: forms.Shown) -> tuple[forms.Shown, tuple[forms.Line, ...]]:
    seen = max((event.position for event in last.history), default=0)
    return form, tuple(event for event in form.history if event.position > seen)


async def board(run: Run) -> int:
    """`tally board`."""
    guest = await run.guest()
    await run.give(await run.desk.board(guest, everything=run.parsed.has("all")), render_lists.board)
    return 0


async def failed(run: Run) -> int:
    """`tally failed`."""
    guest = await run.guest()
    await run.give(await run.desk.failed(guest), render_lists.failed)
    return 0


async def trace(run: Run) -> int:
    """`tally trace`."""
    guest = await run.guest()
    await run.give(await run.desk.trace(guest, run.parsed.text("id")), render_lists.trace)
    return 0


async def activity(run: Run) -> int:
    """`tally activity`."""
    guest = await run.guest()
    after, limit = run.parsed.number("after") or 0, run.parsed.number("limit")
    form = await run.desk.activity(guest, after=after, limit=50 if limit is None else limit)
    if not run.parsed.has("follow"):
        await run.give(form, render_lists.trace)
        return 0
    for event in form.events:
        await run.give(event, render_lists.activity_line)
    newest = form.events[-1].position if form.events else after
    await run.stream(run.desk.feed(guest, after=newest), lambda event: run.give(event, render_lists.activity_line))
    return 0


async def verify(run: Run) -> int:
    """`tally verify`: look again; or settle what nobody knows."""
    task, settle = run.parsed.text("id"), run.parsed.text("settle")
    text = await run.text("text")
    guest = await run.guest()
    if settle:
        await run.give(await run.desk.settle_doubt(guest, task, settle, text), render_task.moved)
        return 0
    form = await run.wait(run.desk.verify(guest, task))
    await run.give(form, render_task.shown)
    return _verified(form)


def _verified(form: forms.Shown) -> int:
    if form.reason == Reason.UNVERIFIED:
        return 5
    bad = bool(form.checks) and form.checks[-1].outcome != CheckOutcome.PASSED
    return 1 if bad or any(_is_false(reference) for reference in form.references) else 0


def _is_false(reference: dict[str, Any]) -> bool:
    """Whether a look found a reference that does not hold. What lies outside is never looked at."""
    return reference.get("kind") != "external" and reference.get("verdict", "ok") != "ok"


async def why(run: Run) -> int:
    """`tally why`."""
    guest = await run.guest()
    await run.give(await run.desk.why(guest, run.parsed.text("place")), render_lists.source)
    return 0


async def export(run: Run) -> int:
    """`tally log export`: always JSON lines."""
    guest = await run.guest()
    lines = run.desk.log_export(guest, after=run.parsed.number("after") or 0)

    async def give(line: str) -> None:
        await run.call.out(line if line.endswith("\n") else f"{line}\n")

    await run.stream(lines, give)
    return 0


VERBS: tuple[Verb, ...] = (
    Verb(
        name="inbox",
        group=_TASKS,
        summary="What waits for you: whose turn is yours, and what came back.",
        example="tally inbox --json",
        run=inbox,
    ),
    Verb(
        name="show",
        group=_TASKS,
        summary="All that is known of a task: facts with witnesses, result, checks, history.",
        example="tally show 7f3a9c --follow",
        run=show,
        arguments=(ID,),
        options=(_FOLLOW,),
    ),
    Verb(
        name="board",
        group=_TASKS,
        summary="All open tasks of the workspace.",
        example="tally board --all",
        run=board,
        options=(Option("all", "Closed tasks too."),),
    ),
    Verb(
        name="trace",
        group=_TASKS,
        summary="What happened, one line an event, across agents and tasks.",
        example="tally trace 7f3a9c",
        run=trace,
        arguments=(Argument("ID", "A task or a trace.", completes="task"),),
    ),
    Verb(
        name="verify",
        group=_TASKS,
        summary="Check references and the check again; or settle a result that nobody knows.",
        example='tally verify 7f3a9c --settle done "The release is there."',
        run=verify,
        arguments=(ID, MAYBE_TEXT),
        options=(Option("settle", "What became of it, with TEXT as the reason.", "OUTCOME", choices=_OUTCOMES),),
        notes="Looking again changes nothing. Exits 1 when something does not hold, 5 while it is unverified.",
    ),
    Verb(
        name="why",
        group=_TASKS,
        summary="From a line of code to the task, session and agent that made it.",
        example="tally why src/parser.py:42",
        run=why,
        arguments=(Argument("PLACE", "PATH:LINE."),),
    ),
    Verb(
        name="failed",
        group=_TASKS,
        summary="What failed, was exhausted, or is unverified.",
        example="tally failed",
        run=failed,
    ),
    Verb(
        name="activity",
        group=_TASKS,
        summary="The newest events of the workspace.",
        example="tally activity --follow",
        run=activity,
        options=(
            _FOLLOW,
            Option("limit", "At most so many; 50 by default.", "N", kind="number"),
            Option("after", "Only what came after this position.", "N", kind="number"),
        ),
    ),
)
"""In the order of the overview."""

EXPORT = Verb(
    name="log export",
    group="Host",
    summary="The log as JSON lines.",
    example="tally log export > log.jsonl",
    run=export,
    options=(Option("after", "Only what came after this position.", "N", kind="number"),),
)
"""Belongs to the family `log`."""
