"""The verbs about agents, workspaces, checks and permissions."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Desk, Guest
from tallystick.edge.cli import render_places, render_task
from tallystick.edge.cli.page import Sheet
from tallystick.edge.cli.parse import Usage
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import Argument, Option, Verb

_GROUP = "Agents and places"
_NAME = Argument("NAME", "The agent's name, with or without @.", completes="agent")


async def join(run: Run) -> int:
    """`tally join`: only what is given changes where the name is known already."""
    p = run.parsed
    if p.has("person"):
        done = await run.desk.join_person(await run.guest(), p.text("name"))
        await run.give(done, render_places.done)
        return 0
    form = forms.Join(
        name=p.text("name").removeprefix("@"),
        run=_command(p.many("run-argv"), p.maybe("run")),
        client=p.maybe("client"),
        drive=p.maybe("drive"),
        wake=p.maybe("wake"),
        strengths=p.maybe("strengths"),
        capabilities=p.many("capability") if p.has("capability") else None,
        domains=p.many("domain") if p.has("domain") else None,
        provider=p.maybe("provider"),
        inbound=p.maybe("inbound"),
        display_name=p.maybe("display-name"),
        concurrency=p.number("concurrency"),
        seconds=p.number("seconds"),
        network=True if p.has("network") else None,
        model=p.maybe("model"),
        required=p.maybe("require"),
    )
    guest = await run.guest(register=True)
    shown = await run.desk.join(guest, form)

    def render(sheet: Sheet, agent: forms.AgentShown) -> None:
        render_places.agent(sheet, agent)
        sheet.field("registered", guest.registered and f"{guest.registered} as a workspace")

    await run.give(shown, render)
    return 0


def _command(argv: tuple[str, ...], line: str | None) -> tuple[str, ...] | None:
    """A command as words, or a line that is split as a shell would, though no shell ever runs it."""
    if argv or line is None:
        return argv or None
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise Usage(f"The command of --run cannot be split into words: {error}.", "Use --run -- ARGV…") from None
    if not words:
        raise Usage("The command of --run is empty.", "Name a program: --run 'pytest -q'")
    return words


def _doer(act: Callable[[Desk, Guest, Run], Awaitable[forms.Done]]) -> Callable[[Run], Awaitable[int]]:
    """A verb whose answer is that something was done."""

    async def verb(run: Run) -> int:
        guest = await run.guest()
        await run.give(await act(run.desk, guest, run), render_places.done)
        return 0

    return verb


async def agents(run: Run) -> int:
    """`tally agents`."""
    guest = await run.guest()
    name = run.parsed.text("name")
    if name:
        await run.give(await run.desk.agent(guest, name), render_places.agent_in_full)
    else:
        await run.give(await run.desk.agents(guest), render_places.agents)
    return 0


async def whoami(run: Run) -> int:
    """`tally whoami`."""
    guest = await run.guest()
    await run.give(await run.desk.whoami(guest), render_places.whoami)
    return 0


async def workspaces(run: Run) -> int:
    """`tally workspace`."""
    guest = await run.guest()
    await run.give(await run.desk.workspaces(guest), render_places.workspaces)
    return 0


async def register(run: Run) -> int:
    """`tally workspace add`."""
    guest = await run.guest()
    await run.give(await run.desk.register_workspace(guest, run.parsed.text("path")), render_places.workspace)
    return 0


async def checks(run: Run) -> int:
    """`tally check list`."""
    guest = await run.guest()
    await run.give(await run.desk.checks(guest), render_places.checks)
    return 0


async def add_check(run: Run) -> int:
    """`tally check add NAME -- ARGV…`."""
    p = run.parsed
    if not p.many("argv"):
        raise Usage("The check has no command.", "Give it after --, as in the usage.", p.verb)
    form = forms.NewCheck(
        name=p.text("name"),
        argv=p.many("argv"),
        kind=p.text("kind"),
        setup=p.text("setup"),
        protect=p.many("protect"),
        bind=p.many("bind"),
        network=p.has("network"),
        seconds=p.number("seconds") or 0,
    )
    guest = await run.guest()
    await run.give(await run.desk.add_check(guest, form), render_places.done)
    return 0


async def permissions(run: Run) -> int:
    """`tally permission list`."""
    guest = await run.guest()
    await run.give(await run.desk.permissions(guest), render_places.permissions)
    return 0


def _decide(decision: str) -> Callable[[Run], Awaitable[int]]:
    async def verb(run: Run) -> int:
        guest = await run.guest()
        await run.give(await run.desk.decide(guest, run.parsed.text("id"), decision), render_task.moved)
        return 0

    return verb


async def watch(run: Run) -> int:
    """`tally watch add`."""
    p = run.parsed
    form = forms.Watch(
        agent=p.text("name"), file=p.text("file"), ref=p.text("ref"), repo=p.text("repo"), inbox=p.has("inbox")
    )
    guest = await run.guest()
    await run.give(await run.desk.watch(guest, form), render_places.done)
    return 0


async def watches(run: Run) -> int:
    """`tally watch list`."""
    guest = await run.guest()
    await run.give(await run.desk.watches(guest), render_places.watches)
    return 0


_NETWORK = Option("network", "It may use the network.")
_SECONDS = Option("seconds", "Its time limit.", "N", kind="number")
_PERMISSION = Argument("ID", "A permission, or the task that is held.", completes="permission")

VERBS: tuple[Verb, ...] = (
    Verb(
        name="join",
        group=_GROUP,
        summary="Register an agent by name, or change what is given of it.",
        example='tally join tester --run "pytest -q" --strengths "runs the tests"',
        run=join,
        arguments=(_NAME,),
        options=(
            Option("run", "It is this command; the host runs it for each task (a person only).", "CMD", argv=True),
            Option("person", "It is a person, not an agent (a person only)."),
            Option("client", "It is a session that you open in this client.", "CLIENT"),
            Option("drive", "The host starts sessions of this client (a person only).", "CLIENT"),
            Option("model", "Which model a driven client uses.", "M"),
            Option("require", "Start no session below this level.", "LEVEL", choices=("E2", "E3")),
            Option("wake", "A command that wakes it, run without a shell (a person only).", "CMD"),
            Option("strengths", "What it is good at.", "T"),
            Option("capability", "What it can be reached by as cap:NAME.", "C", True),
            Option("domain", "Whose capabilities it may see, beside those without a domain.", "D", True),
            Option("provider", "Whose model it uses: gets the inputs of its tasks.", "P"),
            Option("inbound", "What happens to work from others.", "POLICY", choices=("accept", "hold", "refuse")),
            Option("display-name", "A name for people.", "T"),
            Option("concurrency", "How many tasks at once.", "N", kind="number"),
            _SECONDS,
            _NETWORK,
        ),
        notes="Without --run, --client, --drive or --wake it is a mailbox.",
    ),
    Verb(
        name="leave",
        group=_GROUP,
        summary="Take an agent out of the workspace.",
        example="tally leave tester",
        run=_doer(lambda d, g, run: d.leave(g, run.parsed.text("name"), everywhere=run.parsed.has("everywhere"))),
        arguments=(_NAME,),
        options=(Option("everywhere", "Out of all workspaces: its name is never given out again there."),),
    ),
    Verb(
        name="rename",
        group=_GROUP,
        summary="Give an agent another name; it stays the same agent.",
        example="tally rename tester qa",
        run=_doer(lambda d, g, run: d.rename(g, run.parsed.text("name"), run.parsed.text("new"))),
        arguments=(_NAME, Argument("NEW", "The new name.")),
    ),
    Verb(
        name="agents",
        group=_GROUP,
        summary="Who can be asked: strengths, presence, track record, and CONTEXT.md; or one of them in full.",
        example="tally agents tester",
        run=agents,
        arguments=(Argument("NAME", "One agent: also what each delivery fact rests on.", False, completes="agent"),),
    ),
    Verb(
        name="whoami",
        group=_GROUP,
        summary="Who the host takes you for, and why.",
        example="tally whoami",
        run=whoami,
    ),
    Verb(
        name="watch list",
        group=_GROUP,
        summary="What wakes agents besides work for them: list, add, remove.",
        example="tally watch list",
        run=watches,
        also=("watch",),
    ),
    Verb(
        name="watch add",
        group=_GROUP,
        summary="Wake an agent when a file, a git reference or anything in its inbox changes.",
        example="tally watch add @reviewer --ref main",
        run=watch,
        arguments=(_NAME,),
        options=(
            Option("file", "A file, or a pattern in quotes.", "PATH"),
            Option("ref", "A branch or tag.", "NAME"),
            Option("repo", "The directory whose repository it is in.", "DIR"),
            Option("inbox", "Also for notices that else wait until it looks."),
        ),
        notes="The wake says that it changed, not what is in it. Only who can be woken is: see `tally agents NAME`.",
    ),
    Verb(
        name="watch remove",
        group=_GROUP,
        summary="Watch it no longer.",
        example="tally watch remove wch_7f3a9c",
        run=_doer(lambda d, g, run: d.unwatch(g, run.parsed.text("id"))),
        arguments=(Argument("ID", "As `tally watch list` shows it."),),
    ),
    Verb(
        name="workspace list",
        group=_GROUP,
        summary="The workspaces: list, add, allow a provider, set the coordinator.",
        example="tally workspace list",
        run=workspaces,
        also=("workspace",),
    ),
    Verb(
        name="workspace add",
        group=_GROUP,
        summary="Register a directory as a workspace.",
        example="tally workspace add .",
        run=register,
        arguments=(Argument("PATH", "The directory."),),
    ),
    Verb(
        name="workspace allow",
        group=_GROUP,
        summary="Consent that inputs of this workspace go to a model provider (a person only).",
        example="tally workspace allow anthropic",
        run=_doer(lambda d, g, run: d.allow(g, run.parsed.text("provider"))),
        arguments=(Argument("PROVIDER", "The provider, as `tally agents` shows it."),),
    ),
    Verb(
        name="workspace coordinator",
        group=_GROUP,
        summary="Say who routes work that is for nobody in particular (a person only).",
        example="tally workspace coordinator lead",
        run=_doer(lambda d, g, run: d.coordinator(g, run.parsed.text("name"))),
        arguments=(_NAME,),
    ),
    Verb(
        name="check list",
        group=_GROUP,
        summary="The checks that decide what is done: list, add, remove.",
        example="tally check list",
        run=checks,
        also=("check",),
    ),
    Verb(
        name="check add",
        group=_GROUP,
        summary="Register a check with this shell's PATH and VIRTUAL_ENV (a person only).",
        example="tally check add tests --protect tests -- pytest -q",
        run=add_check,
        arguments=(Argument("NAME", "Its name, for --done-when.", completes="check"),),
        options=(
            Option(
                "kind", "test wants a test that ran; command only its exit code.", "KIND", choices=("test", "command")
            ),
            Option("setup", "A command to run before, its result kept.", "CMD"),
            Option("protect", "Taken from the base, so that weakened tests show.", "PATH", True),
            Option("bind", "Readable inside the sandbox.", "PATH", True),
            _NETWORK,
            _SECONDS,
        ),
        argv="ARGV…",
    ),
    Verb(
        name="check remove",
        group=_GROUP,
        summary="Take a check away; tasks that name it keep theirs (a person only).",
        example="tally check remove tests",
        run=_doer(lambda d, g, run: d.remove_check(g, run.parsed.text("name"))),
        arguments=(Argument("NAME", "Its name.", completes="check"),),
    ),
    Verb(
        name="permission list",
        group=_GROUP,
        summary="What waits for a person's yes or no: list, allow, deny.",
        example="tally permission list",
        run=permissions,
        also=("permission",),
    ),
    Verb(
        name="permission allow",
        group=_GROUP,
        summary="Allow exactly this, once (a person only).",
        example="tally permission allow prm_7f3a9c",
        run=_decide("allow"),
        arguments=(_PERMISSION,),
    ),
    Verb(
        name="permission deny",
        group=_GROUP,
        summary="Deny it (a person only).",
        example="tally permission deny prm_7f3a9c",
        run=_decide("deny"),
        arguments=(_PERMISSION,),
    ),
)
"""In the order of the overview."""
