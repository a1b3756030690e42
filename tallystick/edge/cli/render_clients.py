"""Coding clients, and what is changed in their files."""

from __future__ import annotations

from tallystick.app.desk.installed import ClientShown, FileShown, Installation
from tallystick.edge.cli.page import Paint, Sheet

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def installation(sheet: Sheet, form: Installation) -> None:
    """What was found, with the whole difference of each file."""
    if not form.clients:
        sheet.line("No coding client was found.")
        sheet.command("install", "--print")
    for client in form.clients:
        _client(sheet, client, form)
        for file in client.files:
            sheet.blank()
            _difference(sheet, file)
        sheet.blank()


def _client(sheet: Sheet, client: ClientShown, form: Installation) -> None:
    where = client.program or client.config or "not found on this machine"
    version = f" {client.version}" if client.version else ""
    sheet.line(Paint(client.title, "bold"), f"{version}  {where}  ", _state(client, form))
    sheet.field("refused", client.refused)
    sheet.field("fix", client.remedy)


def _state(client: ClientShown, form: Installation) -> Paint:
    if client.refused:
        return Paint("cannot be changed", "yellow")
    if client.files:
        return Paint(f"{_count(client.files)} to change", "cyan")
    return Paint("nothing of ours is there" if form.removal else "installed", "green")


def _count(files: tuple[FileShown, ...]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _difference(sheet: Sheet, file: FileShown) -> None:
    sheet.line(Paint(f"{file.change} {file.path}", "bold"), indent=2)
    for line in file.diff.split("\n")[2:]:
        sheet.line(Paint(line, _STYLES.get(line[:1], "")), indent=2)


def done(sheet: Sheet, form: Installation) -> None:
    """What was written, and what a person has to do besides."""
    for client in form.clients:
        if client.files:
            verb = "taken out of" if form.removal else "installed into"
            sheet.line(f"{verb} ", Paint(client.title, "bold"), f" ({_count(client.files)})")
            for note in client.notes:
                sheet.line(note, indent=2)
    if form.agent:
        sheet.line(Paint(form.agent, "bold"), " is the agent of this client in this workspace.")
    elif not form.removal:
        _unbound(sheet, [client for client in form.clients if client.files and not client.agent])


def _unbound(sheet: Sheet, clients: list[ClientShown]) -> None:
    """Those that may look here and do nothing until they are somebody."""
    if clients:
        sheet.line("Say which agent each is here:" if len(clients) > 1 else "Say which agent it is here:")
    for client in clients:
        sheet.command("join", "NAME", "--client", client.client)
