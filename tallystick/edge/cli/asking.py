"""`ask` and `submit`: the two verbs that wait for what comes of them."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Guest
from tallystick.core.identity import short
from tallystick.core.model import Reason
from tallystick.edge.cli import render_task
from tallystick.edge.cli.errors import encode
from tallystick.edge.cli.page import Paint, Sheet
from tallystick.edge.cli.parse import seconds_of
from tallystick.edge.cli.render_outcome import (
    INTERRUPTED,
    TIMED_OUT,
    check_exit,
    checked,
    exit_of,
    is_stop,
    outcome,
)
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.wait import Interrupted, closing


async def ask(run: Run) -> int:
    """`tally ask`."""
    form = await ask_form(run)
    argv = form.done_when_argv
    if argv and not await run.confirm("Let the host run ", Paint(shlex.join(argv), "bold"), " as the check?"):
        await run.warn("Nothing was asked: the check was not confirmed.")
        return 1
    guest = await run.guest(register=True)
    receipt = await run.desk.ask(guest, form)
    if not run.parsed.has("wait"):
        await run.give(receipt, render_task.receipt)
        return 0
    await run.tell(receipt, render_task.receipt)
    return await _wait(run, guest, receipt)


async def ask_form(run: Run) -> forms.Ask:
    """What was typed, as the desk takes it."""
    p = run.parsed
    return forms.Ask(
        address=p.text("address"),
        title=p.text("title"),
        body=await run.text("body"),
        inputs=p.many("input"),
        expect=p.text("expect"),
        done_when=p.text("done-when"),
        done_when_argv=p.many("done-when-argv"),
        review_by=p.text("review-by"),
        deadline=p.text("deadline"),
        session=p.text("session"),
        budget=p.text("budget"),
        key=p.text("dedup-key"),
        parent=p.text("parent"),
        on_failure=p.text("on-failure"),
        retry_of=p.text("retry-of"),
        wake=p.has("wake"),
        intent=p.text("intent"),
        context=p.text("context"),
        known_facts=p.many("known-fact"),
        open_questions=p.many("open-question"),
    )


_OF_SESSIONS = ("prompted", "says", "turn ended", "permission")
"""How events begin that tell what a session does which the host drives."""


class _Watch:
    """The live line of a wait: rewritten on a terminal, else one line for each change."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.last: forms.Shown | None = None
        self.line = ""
        self.position = 0
        terminal = run.call.facts.terminal
        self.rewrites = terminal.stdout and run.call.facts.environment.get("TERM") != "dumb"

    async def follow(self, guest: Guest, task_id: str) -> None:
        """Until it is closed, or a person has to move it."""
        async with closing(self.run.desk.follow(guest, task_id)) as stream:
            async for shown in stream:
                self.last = shown
                await self.show(shown)
                if is_stop(shown):
                    return

    async def show(self, shown: forms.Shown) -> None:
        """What its session says and does, and the facts so far, if they changed."""
        await self._said(shown)
        sheet = Sheet(msgspec.structs.replace(self.run.page, columns=0))
        sheet.line(*render_task.facts_line(shown, self.run.page.columns))
        line = sheet.text().rstrip("\n")
        if self.run.json or line == self.line:
            return
        self.line = line
        await self._live()

    async def _said(self, shown: forms.Shown) -> None:
        """What a driven session did since the last look: its turns, its words, what it asks permission for."""
        news = [event for event in shown.history if event.position > self.position]
        self.position = news[-1].position if news else self.position
        told = [event for event in news if event.what.startswith(_OF_SESSIONS)]
        if self.run.json or not told:
            return
        sheet = Sheet(self.run.page)
        for event in told:
            sheet.line(*render_task.event_pieces(sheet, event))
        await self.run.call.out(("\r\x1b[K" if self.rewrites else "") + sheet.text())
        if self.rewrites and self.line:
            await self._live()

    async def _live(self) -> None:
        line = self.line
        await self.run.call.out(f"\r{line}\x1b[K" if self.rewrites else f"{line}\n")

    async def end(self) -> None:
        """Leave the live line standing."""
        if self.rewrites and self.line:
            await self.run.call.out("\n")


async def _wait(run: Run, guest: Guest, receipt: forms.Receipt) -> int:
    watch = _Watch(run)
    given = run.parsed.text("wait")
    try:
        await run.wait(watch.follow(guest, receipt.task_id), seconds_of(given) if given else None)
    except TimeoutError:
        return await _gave_up(run, receipt, watch, TIMED_OUT, f"No result within {given}; the task goes on.")
    except Interrupted:
        return await _gave_up(run, receipt, watch, INTERRUPTED, "No longer waiting; the task goes on.")
    await watch.end()
    if watch.last is None:
        return 1
    await run.tell(watch.last, outcome)
    await _give_json(run, receipt, watch.last, timed_out=False)
    return exit_of(watch.last.state, watch.last.reason)


async def _gave_up(run: Run, receipt: forms.Receipt, watch: _Watch, code: int, message: str) -> int:
    await watch.end()
    await run.warn(message, "show", "--follow", short(receipt.task_id))
    await _give_json(run, receipt, watch.last, timed_out=code == TIMED_OUT)
    return code


async def _give_json(run: Run, receipt: forms.Receipt, shown: forms.Shown | None, *, timed_out: bool) -> None:
    """The receipt, with where the task is by now and all that is known of it."""
    if not run.json:
        return
    data: dict[str, Any] = msgspec.to_builtins(receipt)
    if shown is not None:
        data |= {"state": shown.state, "reason": shown.reason}
    await run.call.out(encode({**data, "timed_out": timed_out, "task": shown}))


async def submit(run: Run) -> int:
    """`tally submit`: hands in, and waits for the check that this starts."""
    p = run.parsed
    form = forms.HandIn(
        task=p.text("id"),
        text=await run.text("text"),
        failed=await run.text("failed"),
        commit=p.text("commit"),
        files=p.many("file"),
        review=p.has("review"),
        fence=p.number("fence"),
    )
    guest = await run.guest()
    moved = await run.desk.submit(guest, form)
    if moved.reason != Reason.CHECKING or p.has("no-wait"):
        await run.give(moved, render_task.moved)
        return 0
    await run.tell(moved, _checking)
    try:
        shown = await run.wait(run.desk.settled_check(guest, moved.task_id))
    except Interrupted:
        await run.warn("No longer waiting; the check goes on.", "show", short(moved.task_id))
        return INTERRUPTED
    await _checked(run, moved, shown)
    return check_exit(shown)


def _checking(sheet: Sheet, form: forms.Moved) -> None:
    sheet.line(f"Handed in {short(form.task_id)}, revision {form.revision}; the host runs the check …")


async def _checked(run: Run, moved: forms.Moved, shown: forms.Shown) -> None:
    await run.tell(shown, checked)
    if run.json:
        now = {"state": shown.state, "reason": shown.reason, "turn": shown.turn, "version": shown.version}
        last = shown.checks[-1] if shown.checks else None
        await run.call.out(encode({**msgspec.to_builtins(moved), **now, "check": last}))
