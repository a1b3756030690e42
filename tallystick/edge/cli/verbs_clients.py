"""`tally install`: into coding clients and out of them."""

from __future__ import annotations

from tallystick.app.desk.installed import Install, Installation, Snippet
from tallystick.app.desk.interface import Guest
from tallystick.edge.cli import render_clients
from tallystick.edge.cli.page import Sheet
from tallystick.edge.cli.parse import Usage
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import Argument, Option, Verb


async def install(run: Run) -> int:
    """`tally install`: show the change, then do it where that was said."""
    p = run.parsed
    form = Install(clients=p.many("client"), project=p.has("project"), remove=p.has("remove"), allow=p.has("allow"))
    guest = await run.desk.guest(run.call.facts, workspace=p.workspace, register=form.project or bool(p.as_name))
    if p.has("print"):
        return await _print(run, guest, form)
    if p.as_name and (form.remove or len(form.clients) != 1):
        raise Usage("An agent is bound to one client.", "Name it: tally install CLIENT --as NAME", p.verb)
    planned = await run.desk.plan_install(guest, form)
    is_nothing = not p.as_name and not any(client.files for client in planned.clients)
    if p.has("dry-run") or is_nothing:
        await run.give(planned, render_clients.installation)
        return 0
    await run.tell(planned, render_clients.installation)
    if not await _is_wanted(run, planned):
        if run.json:
            await run.give(planned, render_clients.installation)
        return 1 if form.clients or form.remove else 0
    done = await run.desk.install(guest, form, planned.digest, p.as_name.removeprefix("@"))
    await run.give(done, render_clients.done)
    return 0


async def _is_wanted(run: Run, planned: Installation) -> bool:
    """Whether it was said: by --yes, or at the terminal."""
    if run.parsed.has("yes"):
        return True
    if run.interactive:
        return await run.confirm(_question(run, planned))
    await run.warn("nothing was written: this needs a person's yes, in a terminal.", *_again(run))
    return False


def _question(run: Run, planned: Installation) -> str:
    """What is asked, below a difference that may have scrolled away."""
    count = sum(len(client.files) for client in planned.clients)
    if not count:
        return f"Bind @{run.parsed.as_name.removeprefix('@')} to this client?"
    which = "this file" if count == 1 else f"these {count} files"
    titles = ", ".join(client.title for client in planned.clients if client.files)
    return f"Take it out of {titles}, {which}?" if planned.removal else f"Write {which}, for {titles}?"


def _again(run: Run) -> tuple[str, ...]:
    p = run.parsed
    said = [f"--{name}" for name in ("project", "remove", "allow") if p.has(name)]
    return ("install", *p.many("client"), *said, "--yes")


async def _print(run: Run, guest: Guest, form: Install) -> int:
    if len(form.clients) > 1:
        raise Usage("--print shows the snippet of one client.", "Name one, or none.", run.parsed.verb)
    snippet = await run.desk.snippet(guest, form.clients[0] if form.clients else "")

    def render(sheet: Sheet, shown: Snippet) -> None:
        for line in shown.text.splitlines():
            sheet.line(line)

    await run.give(snippet, render)
    return 0


VERBS: tuple[Verb, ...] = (
    Verb(
        name="install",
        group="Agents and places",
        summary="Put Tallystick into the coding clients of this machine, or take it out (a person only).",
        example="tally install claude --as pen",
        run=install,
        arguments=(Argument("CLIENT", "Which clients; else all that are found.", required=False, many=True),),
        options=(
            Option("project", "Into the files of this workspace instead of yours."),
            Option("remove", "Take it out: files that nobody else changed become what they were, byte for byte."),
            Option("allow", "Also let its model use our tools without asking you each time, where that can be set."),
            Option("dry-run", "Only show what would change."),
            Option("print", "Print what to paste into any other client, desktop programs included."),
            Option("yes", "Do not ask."),
        ),
        notes="With --as NAME it also binds that agent to the client here, as `tally join NAME --client` does.",
    ),
)
"""In the order of the overview."""
