"""Several tasks on a sheet: inbox, board, trace, activity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallystick.app.desk import forms
from tallystick.core.identity import short
from tallystick.edge.cli.page import Paint, Sheet, age, id_piece, place
from tallystick.edge.cli.render_task import as_text, event_pieces, lines, state_piece


def inbox(sheet: Sheet, form: forms.Inbox) -> None:
    """Whose turn it is: turns, then notices, each with what to do as a command line."""
    if not form.turns and not form.notices:
        sheet.line("Nothing is waiting for you.")
    if form.turns:
        sheet.heading(f"Your turn ({len(form.turns)})")
        for item in form.turns:
            _item(sheet, item)
    if form.notices:
        sheet.heading(f"Notices ({len(form.notices)})")
        for item in form.notices:
            _item(sheet, item)


def _item(sheet: Sheet, item: forms.InboxItem) -> None:
    mark = Paint("● ", "yellow") if item.new else "  "
    late = Paint("  overdue", "red") if item.overdue else ""
    state = state_piece(item.state, item.reason)
    kind = f"  {item.kind}" if item.kind != item.reason else ""
    sheet.line(mark, id_piece(item.task_id), "  ", Paint(item.title, "bold"))
    sheet.line(state, f"{kind}  asked by {item.from_}  {age(item.age)}  in {item.workspace}", late, indent=4)
    for name, text in (
        ("asks", item.asks),
        ("question", item.question),
        ("answer", item.answer),
        ("result", item.result),
    ):
        if text and text != item.title:
            sheet.line(Paint(name, "dim"), indent=4)
            sheet.body(text, indent=4)
    for reference in item.references:
        sheet.line(Paint("refers to ", "dim"), as_text(reference), indent=4)
    for command in todo(item):
        sheet.command(*command)


_TODO: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "submitted/new": (("take", "ID"),),
    "submitted/rework": (("take", "ID"),),
    "submitted/unassigned": (("show", "ID"), ("reassign", "ID", "ADDRESS")),
    "working": (("submit", "ID", "--text", "RESULT"), ("question", "ID", "TEXT")),
    "working/answered": (("submit", "ID", "--text", "RESULT"), ("question", "ID", "TEXT")),
    "input_required/question": (("answer", "ID", "TEXT"),),
    "input_required/review": (("show", "ID"), ("approve", "ID"), ("changes", "ID", "TEXT"), ("refuse", "ID", "TEXT")),
    "input_required/frozen": (("show", "ID"), ("answer", "ID", "TEXT")),
    "input_required/unverified": (("show", "ID"), ("verify", "ID", "--settle", "done|failed|redo|cancel", "TEXT")),
    "auth_required/permission": (("show", "ID"), ("permission", "list")),
    "auth_required/grant": (("show", "ID"), ("permission", "list")),
    "auth_required/inbound": (("permission", "allow", "ID"), ("permission", "deny", "ID")),
}
"""What to do about a task whose turn is the reader's. Elsewhere there is nothing to do but look."""


_WHY = 160
"""What a line shows of why something failed; `tally show` has the whole."""


def todo(item: forms.InboxItem) -> Sequence[tuple[str, ...]]:
    """What to do about an item, as words after `tally`."""
    task = short(item.task_id)
    steps = _TODO.get(place(item.state, item.reason), (("show", "ID"),))
    return [tuple(task if word == "ID" else word for word in step) for step in steps]


def board(sheet: Sheet, form: forms.Board) -> None:
    """The board: one line a task."""
    if not form.tasks:
        sheet.line("The board is empty.")
        return
    several = len({task.workspace for task in form.tasks}) > 1
    heads = ("ID", "STATE", "TURN", "FROM", "TO", "AGE", *(("IN",) if several else ()), "TITLE")
    sheet.table(heads, [_row(task, several) for task in form.tasks])


def failed(sheet: Sheet, form: forms.Board) -> None:
    """What failed or is unverified: a board, or good news."""
    if form.tasks:
        heads = ("ID", "STATE", "FROM", "TO", "AGE", "TITLE", "WHY")
        sheet.table(heads, [_why(task) for task in form.tasks])
    else:
        sheet.line("Nothing failed, and nothing is unverified.")


def _why(task: forms.BoardTask) -> Sequence[str | Paint]:
    state = state_piece(task.state, task.reason, place(task.state, task.reason))
    why = " ".join(task.why.split())[:_WHY]
    return (id_piece(task.task_id), state, task.from_, task.assignee, age(task.age), task.title, why)


def _row(task: forms.BoardTask, several: bool) -> Sequence[str | Paint]:
    where = (task.workspace,) if several else ()
    state = state_piece(task.state, task.reason, task.label)
    return (id_piece(task.task_id), state, task.turn, task.from_, task.assignee, age(task.age), *where, task.title)


def trace(sheet: Sheet, form: forms.Lines) -> None:
    """Events across agents and tasks, one line each."""
    if form.events:
        lines(sheet, form.events, tasks=True)
        for told in form.waiting:
            sheet.line(Paint(told, "yellow"))
    else:
        sheet.line("Nothing has happened.")


def activity_line(sheet: Sheet, event: forms.Line) -> None:
    """One event as it comes."""
    when, *rest = event_pieces(sheet, event)
    sheet.line(when, "  ", id_piece(event.task_id or event.trace), *rest)


def source(sheet: Sheet, form: forms.Source) -> None:
    """`tally why`: from a line of code to the tasks that made it."""
    sheet.line(f"{form.path}:{form.line}  ", Paint(form.commit[:12] or "not committed", "cyan"))
    sheet.body(form.text)
    if form.uncommitted:
        sheet.line("This line has changes that are not committed.", indent=2)
    for task in form.tasks:
        _origin(sheet, task)
    if not form.tasks:
        sheet.line("No task made it.", indent=2)


def _origin(sheet: Sheet, task: dict[str, object]) -> None:
    def of(key: str) -> str:
        return as_text(task.get(key) or "")

    sheet.heading(f"{short(of('task_id'))}  {of('title')}")
    sheet.field("by", of("agent"), f" {short(of('session'))}" if of("session") else "")
    sheet.field("asked by", of("requester"))
    if of("result"):
        sheet.body(of("result"))
    sheet.field("ask it", Paint(of("ask"), "cyan"))
