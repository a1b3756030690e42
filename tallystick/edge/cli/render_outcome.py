"""How something that was waited for ended: in words, and as an exit code."""

from __future__ import annotations

import msgspec

from tallystick.app.desk import forms
from tallystick.core.identity import short
from tallystick.core.model import FINAL_STATES, CheckOutcome, Reason, TaskState
from tallystick.edge.cli import render_task
from tallystick.edge.cli.page import Paint, Sheet

TIMED_OUT = 124
INTERRUPTED = 130


def exit_of(state: str, reason: str) -> int:
    """The exit code of a wait that ended with a task there."""
    if state == TaskState.COMPLETED:
        return 0
    if reason == Reason.UNVERIFIED:
        return 5
    return 1 if state in FINAL_STATES else 4


def is_stop(shown: forms.Shown) -> bool:
    """Whether only a person can move it now. For whom else it waits, the desk's `follow` knows."""
    return shown.state == TaskState.AUTH_REQUIRED or shown.reason in (Reason.UNVERIFIED, Reason.FROZEN)


def outcome(sheet: Sheet, form: forms.Shown) -> None:
    """How a wait ended: the state, the result, and its evidence."""
    turn = f", {form.turn} is next" if form.turn else ""
    sheet.line(Paint(form.title, "bold"), "  ", render_task.state_piece(form.state, form.reason, form.label), turn)
    if form.question and form.reason == Reason.QUESTION:
        sheet.body(form.question)
        sheet.command("answer", short(form.task_id), "TEXT")
    if form.reason == Reason.UNVERIFIED:
        sheet.field("doubt", form.doubt)
        sheet.command("verify", short(form.task_id), "--settle", "done|failed|redo|cancel", "TEXT")
    render_task.result(sheet, form)
    _evidence(sheet, form)
    if form.reason == Reason.REVIEW:
        sheet.command("approve", short(form.task_id))
        sheet.command("changes", short(form.task_id), "TEXT")


def _evidence(sheet: Sheet, form: forms.Shown) -> None:
    if form.checks:
        render_task.check_run(sheet, form.checks[-1])
    elif form.facts:
        last = form.facts[-1]
        sheet.field(
            "evidence", f"{last.fact}, witnessed by {last.witness}", f": {last.evidence}" if last.evidence else ""
        )


def check_exit(shown: forms.Shown) -> int:
    """0 where the result stands: completed, or before its reviewer. A refuted one is 1. Could the check not be run, a
    person decides: 4."""
    if shown.reason == Reason.UNVERIFIED:
        return 5
    if shown.reason == Reason.REVIEW and shown.checks and shown.checks[-1].outcome == CheckOutcome.ERROR:
        return 4
    return 0 if shown.state == TaskState.COMPLETED or shown.reason == Reason.REVIEW else 1


def checked(sheet: Sheet, form: forms.Shown) -> None:
    """What the check of a hand-in led to, with the reason and the end of its output where it was refuted."""
    words = {0: "The result stands", 4: "The check could not be run", 5: "What happened is not known"}
    sheet.line(
        words.get(check_exit(form), "The check refuted the result"),
        ": ",
        render_task.state_piece(form.state, form.reason, form.label),
        f", {form.turn} is next" if form.turn else "",
    )
    if form.checks:
        run = form.checks[-1]
        passed = run.outcome == CheckOutcome.PASSED
        render_task.check_run(sheet, msgspec.structs.replace(run, output_tail="") if passed else run)
    if check_exit(form) == 1 and form.state == TaskState.WORKING:
        sheet.line("Still yours: mend it and hand it in again.")
        sheet.command("submit", short(form.task_id), "--commit", "HEAD")


def followed(sheet: Sheet, form: tuple[forms.Shown, tuple[forms.Line, ...]]) -> None:
    """What changed since the last look: the facts, the events that came, and at the end the result."""
    task, events = form
    sheet.line(*render_task.facts_line(task, sheet.page.columns))
    for event in events:
        sheet.line(*render_task.event_pieces(sheet, event), indent=2)
    if task.state in FINAL_STATES:
        outcome(sheet, task)
