"""Agents, workspaces, checks, permissions and the host on a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallystick.app.desk import forms
from tallystick.app.desk.diagnosis import Diagnosis
from tallystick.core.identity import short
from tallystick.edge.cli.page import Paint, Sheet, age, id_piece
from tallystick.edge.cli.render_task import as_text, named


def agents(sheet: Sheet, form: forms.Agents) -> None:
    """All agents of a workspace, with strengths and track record, and its CONTEXT.md."""
    if form.agents:
        heads = ("NAME", "BY", "PRESENCE", "PROMISE", "OPEN", "RECORD", "STRENGTHS")
        sheet.table(heads, [_agent_row(agent) for agent in form.agents])
    else:
        sheet.line("No agent has joined.")
        sheet.command("join", "NAME", "--strengths", "TEXT")
    if form.context:
        sheet.heading("CONTEXT.md")
        sheet.body(form.context)


def _agent_row(agent: forms.AgentShown) -> Sequence[str | Paint]:
    name = f"{agent.name} (coordinator)" if agent.coordinator else agent.name
    presence = Paint(f"{_seen(agent)} {_mode(agent)}".strip(), "green" if agent.presence == "live" else "")
    return (name, _by(agent), presence, agent.promise, str(agent.open_tasks), _record(agent), agent.strengths)


def _seen(agent: forms.AgentShown) -> str:
    """Its presence in words."""
    return "not seen yet" if agent.presence == "unknown" else agent.presence


def _mode(agent: forms.AgentShown) -> str:
    """What keeps it from working, if anything does."""
    return "" if agent.mode == "running" else agent.mode


def _by(agent: forms.AgentShown) -> str:
    return f"{agent.connection} {agent.client}".strip()


def _record(agent: forms.AgentShown) -> str:
    counts = [f"{value} {name}" for name, value in agent.track_record.items() if _is_count(name, value)]
    median = agent.track_record.get("median_seconds")
    return ", ".join([*counts, *([f"median {age(median)}"] if isinstance(median, (int, float)) else [])])


def _is_count(name: str, value: Any) -> bool:
    return isinstance(value, int) and value > 0 and name != "median_seconds"


def agent(sheet: Sheet, form: forms.AgentShown) -> None:
    """One agent, as `join` leaves it."""
    display = f"  {form.display_name}" if form.display_name else ""
    sheet.line(Paint(form.name, "bold"), display, "  ", id_piece(form.agent_id))
    sheet.field("by", _by(form), f"  {' '.join(form.command)}" if form.command else "")
    sheet.field("promise", form.promise)
    sheet.field("presence", _seen(form) if form.promise and form.presence != form.promise else "")
    sheet.field("strengths", form.strengths)
    sheet.field("capable of", ", ".join(form.capabilities))
    sheet.field("provider", form.provider)
    sheet.field("inbound", form.inbound)
    sheet.field("model", form.model)
    sheet.field("level", form.level, f"  ({form.required} required)" if form.required else "")
    for session in form.driven:
        rests = f"  {session['rests_on']}" if session["rests_on"] else ""
        fork = f" (fork of {short(session['fork_of'])})" if "fork_of" in session else ""
        mode = f"  {session['mode']}" if "mode" in session else ""
        name = f"{short(session['session_id'])}{fork}{mode}"
        sheet.field("session", f"{name}  {session['client']}  {session['level']}{rests}")
    sheet.field("mode", _mode(form))
    sheet.field("in", ", ".join(form.workspaces))
    sheet.field("owner", form.owner)
    sheet.field("record", _record(form))


def agent_in_full(sheet: Sheet, form: forms.AgentShown) -> None:
    """One agent with what its delivery facts rest on."""
    agent(sheet, form)
    sheet.field("woken by", form.wake)
    if form.facts:
        sheet.heading("Facts")
        sheet.table(("FACT", "RESTS ON"), [(row["fact"], row["rests_on"]) for row in form.facts])


def whoami(sheet: Sheet, form: forms.WhoAmI) -> None:
    """Who the host takes the caller for, and why."""
    sheet.line(Paint(form.name, "bold"), f"  {form.kind} ", id_piece(form.id), "  read only" if form.read_only else "")
    sheet.field("because", form.because)
    sheet.field("in", form.workspace, f" {short(form.workspace_id)}")
    sheet.field("session", form.session and short(form.session))
    sheet.field("known by", form.assertion)


def workspaces(sheet: Sheet, form: forms.Workspaces) -> None:
    """All workspaces, the present one marked."""
    rows = [
        ("*" if w.current else "", w.name, w.coordinator, ", ".join(w.providers), str(len(w.members)), w.mode, w.root)
        for w in form.workspaces
    ]
    sheet.table(("", "NAME", "COORDINATOR", "PROVIDERS", "MEMBERS", "MODE", "ROOT"), rows)


def workspace(sheet: Sheet, form: forms.WorkspaceShown) -> None:
    """One workspace."""
    sheet.line(Paint(form.name, "bold"), "  ", id_piece(form.workspace_id), "  current" if form.current else "")
    sheet.field("root", form.root)
    sheet.field("coordinator", form.coordinator)
    sheet.field("providers", ", ".join(form.providers))
    sheet.field("checks", ", ".join(form.checks))
    sheet.field("members", ", ".join(form.members))
    sheet.field("mode", form.mode)


def checks(sheet: Sheet, form: forms.Checks) -> None:
    """The checks of a workspace."""
    if not form.checks:
        sheet.line("There is no check yet.")
        sheet.command("check", "add", "NAME", "--", "ARGV…")
    for number, check in enumerate(form.checks):
        if number:
            sheet.blank()
        sheet.line(Paint(as_text(check.get("name", "")), "bold"), f"  {as_text(check.get('kind', ''))}")
        argv = check.get("argv", ())
        sheet.field("command", " ".join(map(as_text, argv)))
        for name, value in check.items():
            if name not in ("name", "kind", "argv"):
                named(sheet, name.replace("_", " "), value)


def permissions(sheet: Sheet, form: forms.Permissions) -> None:
    """What waits for a person's yes or no, each with the command."""
    if not form.permissions:
        sheet.line("No permission is waiting.")
    for item in form.permissions:
        target = item.permission_id or item.task_id
        sheet.line(id_piece(target), "  ", item.kind, f"  {age(item.age)}  ", id_piece(item.task_id), f" {item.title}")
        sheet.body(item.action)
        sheet.field("digest", item.digest)
        sheet.command("permission", "allow", short(target))
        sheet.command("permission", "deny", short(target))


def watches(sheet: Sheet, form: forms.Watched) -> None:
    """What is watched, and for whom."""
    if not form.watches:
        sheet.line("Nothing is watched.")
        sheet.command("watch", "add", "NAME", "--file", "PATH")
        return
    rows = [
        (short(as_text(w["watch_id"])), *(as_text(w[key]) for key in ("agent", "what")), _since(w), as_text(w["by"]))
        for w in form.watches
    ]
    sheet.table(("ID", "AGENT", "WATCHES", "", "BY"), rows)


def _since(watch: dict[str, Any]) -> str:
    return "changed" if watch["changed"] else ""


def done(sheet: Sheet, form: forms.Done) -> None:
    """Something without a task."""
    sheet.line(form.detail, "" if form.changed else " (it was so already)")


def diagnosis(sheet: Sheet, form: Diagnosis) -> None:
    """What doctor did and saw, and the fix where something is wrong."""
    marks = {"ok": Paint("ok     ", "green"), "warning": Paint("warning", "yellow"), "error": Paint("error  ", "red")}
    for finding in form.findings:
        mark = marks.get("ok" if finding.ok else finding.level, Paint(finding.level, ""))
        sheet.line(mark, "  ", Paint(finding.check, "bold"), f"  {finding.saw}")
        if not finding.ok:
            sheet.field("did", finding.did)
            sheet.field("fix", finding.fix)


def status(sheet: Sheet, form: dict[str, Any]) -> None:
    """The host, in the words of `tally status` where none runs."""
    version, seconds = form.get("version", ""), form.get("uptime_seconds")
    sheet.line(Paint("host", "bold"), f"     {f'{version}, ' if version else ''}process {form['pid']}")
    sheet.line(Paint("home", "bold"), f"     {form['home']}")
    if seconds is not None:
        sheet.line(Paint("uptime", "bold"), f"   {age(seconds)}")
    sheet.line(Paint("address", "bold"), f"  {form.get('address') or 'none: it does not listen'}")


def facts_of(sheet: Sheet, form: dict[str, Any]) -> None:
    """Plain data: a name and a value in each line."""
    for name, value in form.items():
        shown = value if value not in (False, None) else "no" if value is False else ""
        named(sheet, name.replace("_", " "), "yes" if shown is True else shown)
