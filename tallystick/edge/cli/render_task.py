"""One task on a sheet: the receipt of an ask, what was taken, where a verb left it, and all that is known of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from tallystick.app.desk import forms
from tallystick.core.identity import is_id, short
from tallystick.core.model import FINAL_STATES, Fact, Promise, TaskState
from tallystick.edge.cli.page import Paint, Sheet, age, id_piece, place, took
from tallystick.edge.cli.width import clip

PROMISES: Final[dict[str, str]] = {
    Promise.LIVE: "live: {to} can be reached and is told now",
    Promise.NEXT_TURN: "next turn: {to} sees it when its present turn has ended",
    Promise.MAILBOX: "mailbox: it is stored; {to} sees it when it next looks",
    Promise.OFFLINE: "offline: it is stored, but nothing of {to} is connected now",
}
"""What is promised at send time, in words."""

PROMISED: Final[dict[str, str]] = {
    Promise.LIVE: "live: {to} could be reached when it was asked",
    Promise.NEXT_TURN: "next turn: {to} was in a turn when it was asked, and sees it when that has ended",
    Promise.MAILBOX: "mailbox: it is stored; {to} sees it when it next looks",
    Promise.OFFLINE: "offline: it is stored, but nothing of {to} was connected when it was asked",
}
"""The same later: how it is by then is told by other lines."""

_SEVEN: Final = tuple(fact.value for fact in Fact if fact is not Fact.UNVERIFIED)
_LONGEST = 200
"""What a line about an event shows of its text: the whole stands elsewhere on the page."""
_STYLES = {
    "completed": "green",
    "failed": "red",
    "rejected": "red",
    "canceled": "dim",
    "input_required": "yellow",
    "auth_required": "yellow",
}


def state_piece(state: str, reason: str, label: str = "") -> Paint:
    """A state in its colour, by its label if there is one."""
    return Paint(label or place(state, reason), _STYLES.get(state, ""))


def receipt(sheet: Sheet, form: forms.Receipt) -> None:
    """What `ask` prints at once."""
    said = "is already there: the same was asked before" if form.duplicate else f"asked of {form.to}"
    sheet.line(id_piece(form.task_id), " ", said, f" in {form.workspace}", f"  {place(form.state, form.reason)}")
    promises = PROMISED if form.duplicate else PROMISES
    sheet.field("promise", promises.get(form.promise, form.promise).replace("{to}", form.to))
    sheet.field("provider", _provider(form.provider, form.level))
    sheet.field("registered", form.registered and f"{form.registered} as a workspace")
    if form.unresolved:
        sheet.field("note", f"{', '.join(form.unresolved)} in the text leads to nobody")
    sheet.field("follow", Paint(sheet.page.command("show", "--follow", short(form.task_id)), "cyan"))


def _provider(provider: str, level: str) -> str:
    sent = f"{provider} gets the inputs" if provider and provider != "none" else "none: it stays on this machine"
    return f"{sent} (enforcement {level})" if level else sent


def facts_line(shown: forms.Shown, columns: int = 0) -> list[str | Paint]:
    """The seven facts on one line, those witnessed with a mark; where that is too wide, only the last of them."""
    seen = {fact.fact for fact in shown.facts}
    marked = [Paint(f"{fact}✓", "green") if fact in seen else Paint(f"{fact}·", "dim") for fact in _SEVEN]
    doubt = [Paint("unverified!", "yellow")] if shown.unverified or Fact.UNVERIFIED.value in seen else []
    ends = [*doubt, state_piece(shown.state, shown.reason)]
    wide: list[Paint] = [id_piece(shown.task_id), *marked, *ends]
    if columns and sum(len(piece.text) + 1 for piece in wide) > columns:
        wide = [id_piece(shown.task_id), *[piece for piece in marked if piece.style == "green"][-1:], *ends]
    return [piece for part in wide for piece in (part, " ")][:-1]


def taken(sheet: Sheet, form: forms.Taken) -> None:
    """What `take` prints: the whole work."""
    sheet.line(id_piece(form.task_id), " ", Paint("taken", "green"), "  ", form.title)
    until = f", yours until {sheet.page.when(form.lease_until)}" if form.lease_until else ""
    sheet.field("fence", f"{form.fence}{until}")
    brief(sheet, form.brief)
    commit = ("--commit", "HEAD") if form.brief.get("expects") == "change" else ()
    sheet.field("next", Paint(sheet.page.command("submit", short(form.task_id), *commit, "--text", "RESULT"), "cyan"))
    sheet.field("", Paint(sheet.page.command("question", short(form.task_id), "TEXT"), "cyan"))


def moved(sheet: Sheet, form: forms.Moved) -> None:
    """Where a verb left a task."""
    if form.cancel_requested:
        sheet.line(id_piece(form.task_id), " is asked to stop; it is canceled once nothing of it runs any more")
        sheet.command("show", "--follow", short(form.task_id))
        return
    now = "is now" if form.changed else "already was"
    turn = f", {form.turn} is next" if form.turn else ""
    sheet.line(id_piece(form.task_id), f" {now} ", state_piece(form.state, form.reason), turn)


def brief(sheet: Sheet, form: dict[str, Any]) -> None:
    """A brief: short values beside their name, long ones as a marked body under it. Its title stands above."""
    for name, value in form.items():
        if name == "inputs":
            _listed(sheet, "inputs", value)
        elif name == "done_when" and isinstance(value, dict):
            command = " ".join(map(as_text, value.get("argv", ())))
            sheet.field(
                "done when", f"{value.get('check') or value.get('name', '')}  {command}", f"  ({value.get('kind')})"
            )
        elif name != "title":
            named(sheet, name.replace("_", " "), value)


def named(sheet: Sheet, name: str, value: Any) -> None:
    """One named value of any shape; empty ones are left out."""
    if value in ("", None, [], (), {}, False):
        return
    text = as_text(value)
    if "\n" not in text and len(text) <= 72:
        sheet.field(name, text)
    else:
        sheet.line(Paint(name, "dim"), indent=2)
        sheet.body(text, indent=4)


def as_text(value: Any) -> str:
    """Any value of a form in words."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return "\n".join(map(as_text, value))
    if isinstance(value, dict):
        return reference(value) if is_reference(value) else json.dumps(value, ensure_ascii=False)
    return str(value)


def is_reference(value: dict[str, Any]) -> bool:
    """Whether a plain value is a reference."""
    return (value.get("kind") or value.get("type")) in ("git", "blob", "external")


def reference(value: dict[str, Any]) -> str:
    """A reference in one line: what it is, where it is found, what authorises it."""
    kind = str(value.get("kind") or value.get("type"))
    name = str(value.get("path") or value.get("name") or value.get("target") or "")
    span = value.get("lines")
    lines = f":{span[0]}-{span[1]}" if isinstance(span, (list, tuple)) and len(span) == 2 else ""
    parts = [f"{kind} {name}{lines}".strip()]
    parts += [f"@{str(value['commit'])[:12]}"] if value.get("commit") else []
    parts += [f"sha256 {str(value['sha256'])[:12]}, {value.get('size', 0)} bytes"] if value.get("sha256") else []
    parts += ["(not checked)"] if value.get("checked") is False else []
    return "  ".join([*parts, *([f"verified: {value['verdict']}"] if value.get("verdict") else [])])


def _short_value(value: Any) -> str:
    text = as_text(value) if not isinstance(value, (list, tuple)) else " ".join(map(as_text, value))
    if is_id(text):
        return short(text)
    hexadecimal = len(text) >= 40 and all(character in "0123456789abcdef" for character in text)
    return text[:12] if hexadecimal else text


def _short_words(text: str) -> str:
    """Text with each whole id in it in its short form."""
    return " ".join(short(word) if is_id(word) else word for word in text.split(" "))


def shown(sheet: Sheet, form: forms.Shown) -> None:
    """All of `tally show`."""
    _header(sheet, form)
    sheet.heading("Brief")
    brief(sheet, {"inputs": form.inputs, **form.brief})
    _facts(sheet, form.facts)
    _talk(sheet, form)
    _result(sheet, form)
    for run in form.checks:
        check_run(sheet, run)
    _plain_rows(sheet, "Permissions", form.permissions)
    _attempts(sheet, form.attempts)
    if form.history:
        sheet.heading("History")
        lines(sheet, form.history)


def _header(sheet: Sheet, form: forms.Shown) -> None:
    sheet.line(id_piece(form.task_id), "  ", Paint(form.title, "bold"))
    turn = f"  {form.turn} is next" if form.turn else ""
    asked = "  cancel asked" if form.cancel_requested else ""
    state = state_piece(form.state, form.reason, form.label)
    exact = place(form.state, form.reason)
    sheet.field(
        "state", state, f" ({exact})" if form.label != exact else "", turn, asked, f"  {form.mode}" if form.mode else ""
    )
    suspected = Paint("  suspected: no progress for long", "yellow") if form.suspected else ""
    sheet.field("link", form.link and f"{form.link}  cap:{form.capability}", suspected)
    is_open = TaskState(form.state) not in FINAL_STATES
    sheet.field("silent", age(form.silent_seconds) if is_open and form.silent_seconds >= 1 else "")
    if form.woken:
        sheet.field("woken", f"{form.woken['outcome']} {age(form.woken['seconds_ago'])} ago")
    sheet.field("doubt", Paint(form.doubt, "yellow"))
    sheet.field(
        "from → to", f"{form.requester} → {form.assignee}", f", review by {form.reviewer}" if form.reviewer else ""
    )
    held = f"{form.holder} {short(form.session)}".strip() if form.holder else ""
    until = f" until {sheet.page.when(form.lease_until)}" if form.lease_until and held else ""
    sheet.field("held by", held and f"{held}{until} (fence {form.fence}, attempt {form.attempt})")
    sheet.field("waits for", Paint(form.waits_for, "yellow"))
    if is_open:
        sheet.field("promise", PROMISED.get(form.promise, form.promise).replace("{to}", form.assignee))
    sheet.field("provider", _provider(form.provider, form.level) if form.provider else "")
    sheet.field("deadline", form.deadline_at and sheet.page.when(form.deadline_at))
    sheet.field("waiting on", " ".join(map(short, form.waiting_on)))
    sheet.field("parent", form.parent and short(form.parent))
    sheet.field("key", form.key)
    sheet.field("in", form.workspace, f"  trace {form.trace}" if form.trace else "")


def _facts(sheet: Sheet, facts: Sequence[forms.FactShown]) -> None:
    if facts:
        sheet.heading("Facts")
        rows = [
            (
                Paint(f.fact, _fact_style(f.fact)),
                sheet.page.when(f.at),
                _short_words(f.witness),
                _short_words(f.evidence),
            )
            for f in facts
        ]
        sheet.table(("FACT", "AT", "WITNESS", "EVIDENCE"), rows)


def _fact_style(fact: str) -> str:
    return "yellow" if fact == Fact.UNVERIFIED.value else "green" if fact in _SEVEN else "red"


def _talk(sheet: Sheet, form: forms.Shown) -> None:
    for title, text in (("Question", form.question), ("Answer", form.answer)):
        if text:
            sheet.heading(title)
            sheet.body(text)


def _result(sheet: Sheet, form: forms.Shown) -> None:
    if form.result or form.commit or form.references or form.artifacts:
        sheet.heading(f"Result (revision {form.revision})")
        result(sheet, form)


def result(sheet: Sheet, form: forms.Shown) -> None:
    """What was handed in: text, commit, references, artifacts."""
    if form.result:
        sheet.body(form.result)
    sheet.field("commit", form.commit)
    _listed(sheet, "references", form.references)
    for artifact in form.artifacts:
        _artifact(sheet, artifact)


def _listed(sheet: Sheet, name: str, values: Sequence[dict[str, Any]]) -> None:
    for number, value in enumerate(values):
        sheet.field(name if number == 0 else "", reference(value) if is_reference(value) else _pairs(value))


def _artifact(sheet: Sheet, value: dict[str, Any]) -> None:
    """What was made, who saw it made, and its parts."""
    seen = "host" if value.get("observer") == "host" else "agent, not verified"
    sheet.field("artifact", f"{value.get('name', '')}  by {value.get('producer', '')}  (seen by {seen})")
    for part in value.get("parts", ()):
        if part.get("text"):
            sheet.body(as_text(part["text"]), indent=4)
        if part.get("reference"):
            sheet.field("", reference(part["reference"]))


def _pairs(value: dict[str, Any]) -> str:
    return "  ".join(f"{key}={_short_value(item)}" for key, item in value.items() if item not in ("", None, [], ()))


def _plain_rows(sheet: Sheet, title: str, values: Sequence[dict[str, Any]]) -> None:
    if values:
        sheet.heading(title)
        for value in values:
            sheet.line(_pairs(value), indent=2)


def _attempts(sheet: Sheet, values: Sequence[dict[str, Any]]) -> None:
    """Each delivery and how far it got. A single one that needed no retry says nothing that the facts do not."""
    if len(values) < 2 and not any(value.get("retries") or value.get("ended") for value in values):
        return
    sheet.heading("Deliveries")
    heads = ("DELIVERY", "OF", "TO", "SESSION", "FACT", "ENDED", "RETRIES", "AT")
    sheet.table(heads, [_attempt(sheet, value) for value in values])


def _attempt(sheet: Sheet, value: dict[str, Any]) -> tuple[str, ...]:
    texts = {name: as_text(item) for name, item in value.items()}
    of = f"{texts.get('kind', '')}, attempt {texts.get('attempt', '')}"
    ids = (short(texts.get("delivery_id", "")), of, texts.get("to", ""), short(texts.get("session", "")))
    retries = texts.get("retries", "").removeprefix("0")
    return (*ids, texts.get("fact", ""), texts.get("ended", ""), retries, sheet.page.when(texts.get("at", "")))


def check_run(sheet: Sheet, run: forms.RunShown) -> None:
    """What the host saw when it ran something."""
    sheet.heading(f"Check {run.check}")
    style = "green" if run.outcome == "passed" else "red"
    sheet.field("outcome", Paint(run.outcome, style), _ended(run))
    sheet.field("command", " ".join(run.argv))
    sheet.field("commit", run.commit)
    sheet.field("sandbox", run.sandbox)
    streams = (("stdout", run.stdout_bytes, run.stdout_sha256), ("stderr", run.stderr_bytes, run.stderr_sha256))
    kept = [f"{name} {size} bytes sha256 {digest[:12]}" for name, size, digest in streams if digest]
    sheet.field("output", ", ".join(kept))
    sheet.field("environ", run.environment_sha256 and f"sha256 {run.environment_sha256[:12]}")
    sheet.field("protected", Paint(" ".join(run.protected_changed), "yellow"))
    sheet.field("detail", run.detail)
    if run.output_tail:
        sheet.body(run.output_tail)


def _ended(run: forms.RunShown) -> str:
    """How its process ended; nothing where there was none."""
    if run.exit_code is None and run.signal is None:
        return ""
    how = f"exit {run.exit_code}" if run.signal is None else f"signal {run.signal}"
    return f" ({how}{f', {run.tests}' if run.tests else ''}) in {took(run.seconds)}"


def lines(sheet: Sheet, events: Sequence[forms.Line], *, tasks: bool = False) -> None:
    """Events, one line each; who is only asserted to have acted carries a `~`."""
    links = any(event.link for event in events)
    link = ("LINK",) if links else ()
    heads = ("AT", "WHO", *(("TASK",) if tasks else ()), "WHAT", "BEFORE → AFTER", *link, "TOOK", "TEXT")
    sheet.table(heads, [_event(sheet, event, tasks, links) for event in events])
    if any(event.asserted for event in events):
        sheet.line(Paint("~ said so itself on the shared socket", "dim"))


def change(event: forms.Line) -> str:
    """The states before and after an event."""
    return f"{event.before} → {event.after}" if event.before and event.before != event.after else event.after


def _event(sheet: Sheet, event: forms.Line, tasks: bool, links: bool) -> Sequence[str | Paint]:
    words = clip(f"{event.error}  {event.text}".strip(), _LONGEST)
    text = Paint(words, "red" if event.error else "")
    task = (short(event.task_id or event.trace),) if tasks else ()
    who = f"{event.who}~" if event.asserted else event.who
    link = (event.link,) if links else ()
    return (sheet.page.when(event.at), who, *task, event.what, change(event), *link, took(event.seconds), text)


def event_pieces(sheet: Sheet, event: forms.Line) -> list[str | Paint]:
    """One event as it comes: no table, because the next one is not known yet."""
    who = f"{event.who}~" if event.asserted else event.who
    moved = change(event)
    error = Paint(f"  {event.error}" if event.error else "", "red")
    words = f"  {clip(event.text, _LONGEST)}" if event.text else ""
    return [sheet.page.when(event.at), f"  {who}  {event.what}", f"  {moved}" if moved else "", error, words]
