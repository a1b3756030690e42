"""The verbs about running things and about the host itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tallystick import __version__
from tallystick.app.desk import forms
from tallystick.app.desk.diagnosis import Diagnosis
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import denied, unsupported
from tallystick.edge.cli import completion, render_places
from tallystick.edge.cli.errors import encode
from tallystick.edge.cli.help import overview, reference_of, verb_help
from tallystick.edge.cli.page import Sheet
from tallystick.edge.cli.parse import Usage, nearest
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import ID, Argument, Option, Verb
from tallystick.edge.cli.verbs_reading import EXPORT

_HOST = "Host"
_RUNNING = "Running things"
_CANARY_SECONDS = 60.0


def _mode(mode: str) -> Callable[[Run], Awaitable[int]]:
    async def verb(run: Run) -> int:
        guest = await run.guest()
        await run.give(await run.desk.set_mode(guest, mode, run.parsed.text("target")), render_places.done)
        return 0

    return verb


async def status(run: Run) -> int:
    """`tally status`; the diagnostics are read by the command itself, which works without a host, too."""
    if run.parsed.has("diagnostics"):
        raise unsupported("The host does not read its diagnostics.", "Put the verb first: tally status --diagnostics")
    await run.give(await run.host.status(), render_places.status)
    return 0


async def up(run: Run) -> int:
    """`tally up`, where a host answers it: there is nothing left to do."""
    if run.parsed.has("replace"):
        raise unsupported("A host cannot replace itself.", "Put the verb first: tally up --replace")
    state = await run.host.status()
    detail = f"The host already runs (pid {state.get('pid', '?')})."
    await run.give(forms.Done(detail=detail, id=str(state.get("pid", "")), changed=False), _detail)
    return 0


def _detail(sheet: Sheet, form: forms.Done) -> None:
    sheet.line(form.detail)


async def down(run: Run) -> int:
    """`tally down`: said first, because the host cannot speak afterwards."""
    facts = run.call.facts
    if facts.listener or facts.environment.get("TALLY_SESSION"):
        raise denied("A session may not stop the host.", "Ask the person to run `tally down`.")
    await run.give(forms.Done(detail="The host stops; everything is on record."), _detail)
    await run.call.flushed()
    await run.host.stop()
    return 0


async def demonstrate(_: Run) -> int:
    """`tally try` and `tally demo`, where they reached the host all the same: they need a host of their own."""
    raise Usage("A demonstration is played outside of the host.", "Type it alone: tally try, or tally demo reach")


async def serve_tools(_: Run) -> int:
    """`tally mcp`, where it reached the host all the same: the command itself is the server."""
    raise Usage("`tally mcp` is a server of its own, and not asked of the host.", "Start it first: tally mcp")


async def doctor(run: Run) -> int:
    """`tally doctor`."""
    guest = await run.guest()
    if run.parsed.text("name") and not run.parsed.has("canary"):
        raise Usage("An agent is named, and no canary is to be sent.", "Send it one: tally doctor --canary NAME")
    form = await run.wait(run.desk.doctor(guest))
    if run.parsed.has("canary"):
        seconds = run.parsed.number("seconds") or _CANARY_SECONDS
        sent = await run.wait(run.desk.send_canaries(guest, run.parsed.text("name"), seconds))
        form = Diagnosis(findings=(*form.findings, *sent.findings))
    await run.give(form, render_places.diagnosis)
    return 1 if any(not finding.ok and finding.level == "error" for finding in form.findings) else 0


async def version(run: Run) -> int:
    """`tally version`."""
    await run.give({"version": __version__}, lambda sheet, form: sheet.line(f"tally {form['version']}"))
    return 0


async def show_help(run: Run) -> int:
    """`tally help`, and `tally VERB --help`."""
    words = run.parsed.many("verb")
    verb = _named(run, " ".join(words)) if words else run.parsed.verb if run.parsed.help else None
    if run.json:
        await run.call.out(encode(reference_of({verb.name: verb} if verb else run.verbs)))
    elif verb:
        await run.tell(verb, lambda sheet, shown: verb_help(sheet, shown, run.verbs))
    else:
        await run.tell(run.verbs, overview)
    return 0


def _named(run: Run, name: str) -> Verb:
    if name in run.verbs:
        return run.verbs[name]
    raise Usage(f"There is no verb `{name}`.", nearest(name, run.verbs) or "See `tally help`.")


async def show_completion(run: Run) -> int:
    """`tally completion SHELL`."""
    await run.call.out(completion.SCRIPTS[run.parsed.text("shell")])
    return 0


LogCall = Callable[[Desk, Guest], Awaitable[dict[str, Any]]]


def _log(call: LogCall) -> Callable[[Run], Awaitable[int]]:
    async def verb(run: Run) -> int:
        guest = await run.guest()

        async def look() -> dict[str, Any]:
            return await call(run.desk, guest)

        form = await run.wait(look())
        await run.give(form, render_places.facts_of)
        return 0 if form.get("ok", True) else 1

    return verb


async def erase(run: Run) -> int:
    """`tally log erase`: the one verb that cannot be undone, so a person at a terminal is asked."""
    if not await run.confirm("Erase the texts of ", run.parsed.text("id"), " for good? The chain stays valid."):
        await run.warn("Nothing was erased.")
        return 1
    guest = await run.guest()
    await run.give(await run.desk.log_erase(guest, run.parsed.text("id")), render_places.done)
    return 0


_TARGET = Argument("TARGET", "A task, session or agent; workspace; or all.", completes="agent")


def _running(name: str, summary: str, example: str) -> Verb:
    return Verb(name=name, group=_RUNNING, summary=summary, example=example, run=_mode(name), arguments=(_TARGET,))


def _logs(name: str, summary: str, call: LogCall, **more: Any) -> Verb:
    return Verb(name=f"log {name}", group=_HOST, summary=summary, example=f"tally log {name}", run=_log(call), **more)


_CHECK = (Option("check", "Compare, and change nothing: the default and only way."),)

VERBS: tuple[Verb, ...] = (
    _running("stop", "Stop work at once: processes end, unstarted work stays.", "tally stop all"),
    _running("pause", "Start nothing new; what runs goes on.", "tally pause @tester"),
    _running("resume", "Go on after stop, pause or drain.", "tally resume all"),
    _running("drain", "Finish what runs, accept nothing new.", "tally drain workspace"),
    Verb(
        name="up",
        group=_HOST,
        summary="Run the host in the foreground (other verbs start it by themselves).",
        example="tally up",
        run=up,
        options=(
            Option("replace", "Take the place of a running host of another version (a person only)."),
            Option("listen", "Also serve HTTP there: 127.0.0.1:8765 unless given.", "ADDRESS:PORT", optional=True),
            Option("tls-cert", "The certificate (PEM) for an address that other machines reach.", "FILE"),
            Option("tls-key", "Its key (PEM).", "FILE"),
        ),
    ),
    Verb(name="down", group=_HOST, summary="Stop the host in order; nothing is lost.", example="tally down", run=down),
    Verb(
        name="status",
        group=_HOST,
        summary="Whether the host runs, with its pid; never starts one.",
        example="tally status --json",
        run=status,
        options=(Option("diagnostics", "The newest diagnostics of the host instead; put the verb first."),),
    ),
    Verb(
        name="doctor",
        group=_HOST,
        summary="Prove what is promised, and name the fix for what is not so.",
        example="tally doctor --canary @reviewer",
        run=doctor,
        arguments=(
            Argument("NAME", "To whom; to each agent of a client here unless named.", False, completes="agent"),
        ),
        options=(
            Option("canary", "Also send a real request, and see how far it gets. It costs a turn of a model."),
            Option("seconds", "How long to wait for a canary; a minute unless given.", "N", kind="number"),
        ),
    ),
    Verb(
        name="try",
        group=_HOST,
        summary="Show the main job on a real repository, in a temporary place.",
        example="tally try",
        run=demonstrate,
    ),
    Verb(
        name="demo",
        group=_HOST,
        summary="Show spokes at work: three programs make a report together, in a temporary place.",
        example="tally demo reach",
        run=demonstrate,
        arguments=(Argument("WHAT", "`reach`: spokes.", choices=("reach",)),),
    ),
    Verb(
        name="mcp",
        group=_HOST,
        summary="The MCP server that a coding client starts: the tools of an agent, on standard input and output.",
        example="tally mcp --client claude",
        run=serve_tools,
        options=(
            Option("client", "The coding client it is started by: the agent bound to it here.", "NAME"),
            Option("channel", "Tell Claude Code in the middle of its work that something waits (an experiment of it)."),
        ),
        notes="Put it into the client's configuration of MCP servers; it is not for typing.",
    ),
    _logs(
        "head",
        "The log: its tip, to pin elsewhere; also verify, replay, export, erase.",
        lambda d, g: d.log_head(g),
        also=("log",),
    ),
    _logs("verify", "Check the chain of hashes.", lambda d, g: d.log_verify(g)),
    _logs("replay", "Rebuild every view from the log and compare.", lambda d, g: d.log_replay(g), options=_CHECK),
    EXPORT,
    Verb(
        name="log erase",
        group=_HOST,
        summary="Erase the texts of a task for good; a tombstone stays (a person only).",
        example="tally log erase 7f3a9c",
        run=erase,
        arguments=(ID,),
    ),
    Verb(
        name="completion",
        group=_HOST,
        summary="Print the completion script of a shell.",
        example='eval "$(tally completion bash)"',
        run=show_completion,
        arguments=(Argument("SHELL", "bash, zsh or fish.", choices=tuple(completion.SCRIPTS)),),
    ),
    Verb(name="version", group=_HOST, summary="The version.", example="tally --version", run=version),
    Verb(
        name="help",
        group=_HOST,
        summary="What there is, or how a verb is used.",
        example="tally help ask",
        run=show_help,
        arguments=(Argument("VERB", "A verb, such as ask or check add.", False, True),),
    ),
)
"""In the order of the overview."""
