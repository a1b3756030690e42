"""Who is here and what may run: joining, leaving, workspaces, checks, consent, modes, permissions."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path, PurePath

import msgspec

from tallystick.app.counts import is_test_runner
from tallystick.app.desk import forms
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.members import Members
from tallystick.app.views import people
from tallystick.core import commands as cmd
from tallystick.core.clients import CLIENTS
from tallystick.core.directory import Agent, skeleton
from tallystick.core.errors import conflict, denied, invalid, not_found
from tallystick.core.identity import ActorKind, Prefix, check_alias, short
from tallystick.core.mention import nearest
from tallystick.core.model import CheckKind, CheckSpec

_UNTIL = {
    "stop": "Nothing is taken from it, and no prompt goes to it,",
    "pause": "No prompt goes to it",
    "drain": "No new task goes to it",
}
"""What it means for a session, until somebody says `tally resume`."""
_MODES = {"stop": "stopped", "pause": "paused", "resume": "running", "drain": "draining"}


class Placing(Members):
    """join, leave, rename, workspace, allow, coordinator, check, stop/pause/resume/drain, permission."""

    async def join(self, guest: Guest, form: forms.Join) -> forms.AgentShown:
        """Join an agent here, or change what is given of one that is here."""
        actor = self.writer(guest)
        alias = check_alias(form.name.removeprefix("@"))
        connection, argv = _connection(form)
        if argv is not None or connection in ("drive", "wake"):
            self.person(guest, "join an agent with a command")
        known = self._known_agent(alias)
        drive = self.s.drives.check(form.drive) if form.drive is not None else None
        environment = guest.facts.environment
        command = cmd.JoinAgent(
            agent_id=known.agent_id if known else self.s.new_id(Prefix.AGENT),
            alias=alias,
            workspace=guest.workspace,
            connection=connection,
            argv=drive.argv if drive else argv,
            client=drive.client if drive else form.client,
            strengths=form.strengths,
            capabilities=form.capabilities,
            domains=form.domains,
            provider=drive.provider if drive and form.provider is None else form.provider,
            inbound=form.inbound,
            display_name=form.display_name,
            concurrency=form.concurrency,
            seconds=form.seconds,
            network=form.network,
            search_path=environment.get("PATH", "") if argv is not None or drive else None,
            virtual_env=environment.get("VIRTUAL_ENV", "") if argv is not None or drive else None,
            model=form.model,
            required=form.required,
        )
        await self.s.executor.execute(command, actor, workspace=guest.workspace)
        return await self.s.views.agent(self.directory.agents[command.agent_id], guest.workspace)

    async def join_person(self, guest: Guest, name: str) -> forms.Done:
        """Make a further person known to this host; only a person may."""
        actor = self.person(guest, "make a person known")
        person_id = self.s.new_id(Prefix.PERSON)
        alias = check_alias(name.removeprefix("@"))
        await self.s.executor.execute(cmd.JoinPerson(person_id=person_id, alias=alias), actor)
        return forms.Done(detail=f"@{alias} is a person of this host.", id=person_id)

    def _known_agent(self, alias: str) -> Agent | None:
        name = self.directory.names.get(skeleton(alias))
        current = name is not None and name.current and name.alias == alias
        agent = self.directory.agents.get(name.party) if name is not None and current else None
        return agent if agent is not None and not agent.deleted else None

    async def agent(self, guest: Guest, name: str) -> forms.AgentShown:
        """One agent of this workspace in full."""
        return await self.s.views.agent(self.member(guest, name), guest.workspace)

    async def leave(self, guest: Guest, name: str, *, everywhere: bool = False) -> forms.Done:
        """Leave this workspace, or for good."""
        agent = self.member(guest, name)
        command = cmd.LeaveAgent(agent_id=agent.agent_id, workspace="" if everywhere else guest.workspace)
        await self.s.executor.execute(command, self.writer(guest), workspace=guest.workspace)
        gone = self.directory.agents[agent.agent_id].deleted
        detail = f"@{agent.alias} left{' for good; the name is not given out again' if gone else ' this workspace'}."
        return forms.Done(detail=detail, id=agent.agent_id)

    async def rename(self, guest: Guest, name: str, new: str) -> forms.Done:
        """Another name for the same agent."""
        agent = self.member(guest, name)
        command = cmd.RenameAgent(agent_id=agent.agent_id, alias=new.removeprefix("@"))
        outcome = await self.s.executor.execute(command, self.writer(guest), workspace=guest.workspace)
        changed = outcome.recorded is not None
        return forms.Done(detail=f"@{agent.alias} is now @{command.alias}.", id=agent.agent_id, changed=changed)

    # --- workspaces ---------------------------------------------------------------------------------------------

    async def register_workspace(self, guest: Guest, path: str) -> forms.WorkspaceShown:
        """Make a directory a workspace."""
        self.writer(guest)
        if "\0" in path:
            raise invalid(f"{path!r} contains a NUL character.", "Name an existing directory.")
        root = await asyncio.to_thread(lambda: Path(guest.directory or "/", path).resolve())
        if not await asyncio.to_thread(root.is_dir):
            raise not_found(f"{path!r} is not a directory.", "Name an existing directory.")
        place = next((w for w in self.directory.workspaces.values() if w.root == str(root)), None)
        place = place or await self.register(str(root), guest.facts.uid)
        shown = people.workspace(place, self.directory, current=place.workspace_id == guest.workspace)
        if self.sees(guest)(place.workspace_id):
            return shown
        # That it was registered before, and who is there, is nothing to an agent that is no member.
        return msgspec.structs.replace(shown, members=(), providers=(), checks=(), coordinator="", mode="running")

    async def allow(self, guest: Guest, provider: str) -> forms.Done:
        """Consent that this workspace's content goes to a model provider."""
        actor = self.person(guest, "allow a model provider")
        command = cmd.AllowProvider(workspace_id=guest.workspace, provider=provider)
        outcome = await self.s.executor.execute(command, actor, workspace=guest.workspace)
        place = self.directory.workspaces[guest.workspace]
        return forms.Done(
            detail=f"Content of workspace {place.name} may go to {provider}.",
            id=guest.workspace,
            changed=outcome.recorded is not None,
        )

    async def coordinator(self, guest: Guest, name: str) -> forms.Done:
        """Who routes what nobody was named for; `none` for nobody."""
        agent_id = "" if name == "none" else self.member(guest, name).agent_id
        command = cmd.ChooseCoordinator(workspace_id=guest.workspace, agent=agent_id)
        outcome = await self.s.executor.execute(command, self.writer(guest), workspace=guest.workspace)
        said = f"{name} coordinates here." if agent_id else "Nobody coordinates here; unassigned work comes to you."
        return forms.Done(detail=said, id=agent_id, changed=outcome.recorded is not None)

    # --- checks -------------------------------------------------------------------------------------------------

    async def add_check(self, guest: Guest, form: forms.NewCheck) -> forms.Done:
        """Register a check with the environment of the person's shell."""
        actor = self.person(guest, "register a check")
        check_alias(form.name)
        if not form.argv:
            raise invalid("The check has no command.", f"Give it after `--`: tally check add {form.name} -- pytest -q")
        if form.kind not in ("", "test", "command"):
            raise invalid(f"{form.kind!r} is no kind of check.", "Use --kind test or --kind command.")
        guessed = CheckKind.TEST if is_test_runner(form.argv) else CheckKind.COMMAND
        spec = CheckSpec(
            name=form.name,
            argv=form.argv,
            kind=CheckKind(form.kind) if form.kind else guessed,
            check_id=self.s.new_id(Prefix.CHECK),
            setup=_split("--setup", form.setup),
            protect=form.protect,
            binds=tuple(str(Path(guest.directory or "/", bind).resolve()) for bind in form.bind),  # noqa: ASYNC240
            search_path=guest.facts.environment.get("PATH", ""),
            virtual_env=guest.facts.environment.get("VIRTUAL_ENV", ""),
            network=form.network,
            seconds=form.seconds or int(self.s.limits.check_seconds),
            output_bytes=self.s.limits.check_output_bytes,
        )
        command = cmd.AddCheck(workspace_id=guest.workspace, check=spec)
        await self.s.executor.execute(command, actor, workspace=guest.workspace)
        level = self.s.runner.level()
        how = "in a sandbox (E3)" if level == "E3" else "without a sandbox: this machine has none"
        return forms.Done(detail=f"Check {form.name} ({spec.kind.value}) runs {how}.", id=spec.check_id)

    async def remove_check(self, guest: Guest, name: str) -> forms.Done:
        """No longer offer a check; tasks that name it keep theirs."""
        actor = self.person(guest, "remove a check")
        command = cmd.RemoveCheck(workspace_id=guest.workspace, name=name)
        await self.s.executor.execute(command, actor, workspace=guest.workspace)
        return forms.Done(detail=f"Check {name} is no longer offered.")

    # --- modes --------------------------------------------------------------------------------------------------

    async def set_mode(self, guest: Guest, mode: str, target: str) -> forms.Done:
        """stop, pause, resume or drain a task, a session, an agent, this workspace, or everything."""
        if mode not in _MODES:
            raise invalid(f"{mode!r} is no mode.", "Use stop, pause, resume or drain.")
        actor = self.writer(guest)
        command, what = await self._mode_command(guest, _MODES[mode], target)
        outcome = await self.s.executor.execute(command, actor, workspace=guest.workspace)
        detail = f"{what} is {_MODES[mode]}."
        if isinstance(command, cmd.SetSessionMode) and mode in _UNTIL:
            detail += f" {_UNTIL[mode]} until: tally resume {short(command.session_id)}"
        return forms.Done(detail=detail, changed=outcome.recorded is not None)

    async def _mode_command(self, guest: Guest, mode: str, target: str) -> tuple[cmd.Command, str]:
        if target == "all":
            return cmd.SetHostMode(mode=mode), "Everything"
        if target == "workspace":
            place = self.directory.workspaces[guest.workspace]
            return cmd.SetWorkspaceMode(workspace_id=guest.workspace, mode=mode), f"Workspace {place.name}"
        if target.startswith("ses_") and guest.actor.kind is ActorKind.AGENT:
            # Said before it is looked for: what runs elsewhere is nothing to an agent.
            raise denied("Only a person may stop or resume a session.", "Ask the person you work for.")
        if target.startswith("@") and target != "@last":
            agent = self.member(guest, target)
            return cmd.SetAgentMode(agent_id=agent.agent_id, mode=mode), target
        running = await self._run_of(target) if target.startswith("ses_") else ""
        if target.startswith("ses_") and not running:
            session = self._session(target)
            return cmd.SetSessionMode(session_id=session, mode=mode), f"Session {short(session)}"
        task_id = running or await self.task_id(guest, target)
        if mode == "stopped":
            return cmd.CancelTask(task_id=task_id), f"Task {short(task_id)}"
        return cmd.SetTaskMode(task_id=task_id, mode=mode), f"Task {short(task_id)}"

    async def _run_of(self, typed: str) -> str:
        """The task that a command agent runs for under this session id; empty for other sessions."""
        wanted = typed.removeprefix("ses_").upper()
        rows = await self.s.views.rows("sessioned")
        known = self.directory.sessions
        found = [r for r in rows if str(r["session"]).endswith(wanted) and r["session"] not in known]
        return str(found[0]["task_id"]) if len(found) == 1 else ""

    def _session(self, typed: str) -> str:
        wanted = typed.removeprefix("ses_").upper()
        found = [s for s in self.directory.sessions if s[4:].startswith(wanted) or s.endswith(wanted)]
        if len(wanted) < 4 or len(found) != 1:
            raise not_found(f"There is no one session {typed}.", "List them with `tally agents`.")
        return found[0]

    # --- permissions --------------------------------------------------------------------------------------------

    async def decide(self, guest: Guest, permission: str, decision: str) -> forms.Moved:
        """allow or deny a permission, or a task that an inbound policy holds."""
        actor = self.person(guest, "decide a permission")
        if decision not in ("allow", "deny"):
            raise invalid(f"{decision!r} is no decision.", "Use allow or deny.")
        command = await self._decision(guest, permission, decision)
        return self.moved(await self.s.executor.execute(command, actor))

    async def _decision(self, guest: Guest, typed: str, decision: str) -> cmd.Command:
        wanted = typed.removeprefix("prm_").removeprefix("tsk_").upper()
        shown = (await self.s.views.permissions(self.sees(guest))).permissions
        found = [
            p for p in shown if len(wanted) >= 4 and wanted in (p.permission_id[4:], p.permission_id[-len(wanted) :])
        ]
        if len(found) != 1:
            raise conflict(f"{typed!r} names no open permission.", "List them: tally permission list")
        asked = found[0]
        if asked.kind == "inbound":
            if decision == "allow":
                return cmd.AdmitTask(task_id=asked.task_id)
            return cmd.TurnAwayTask(task_id=asked.task_id)
        return cmd.DecidePermission(
            task_id=asked.task_id,
            permission_id=asked.permission_id,
            decision="allow_once" if decision == "allow" else "reject_once",
            digest=asked.digest,
        )


def _split(option: str, line: str) -> tuple[str, ...]:
    """A command line as words, as a shell would split it."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise invalid(f"The command of {option} cannot be split into words: {error}.", "Close its quotes.") from None


def _connection(form: forms.Join) -> tuple[str | None, tuple[str, ...] | None]:
    """Which connection the form asks for, and its command line."""
    given = [
        (form.run is not None, "command", form.run),
        (form.client is not None, "client", None),
        (form.drive is not None, "drive", None),
        (form.wake is not None, "wake", _split("--wake", form.wake or "")),
    ]
    chosen = [(name, argv) for is_given, name, argv in given if is_given]
    if len(chosen) > 1:
        raise invalid("More than one connection was given.", "Use one of --run, --client, --drive, --wake.")
    if not chosen:
        return None, None
    name, argv = chosen[0]
    if argv is not None and not argv:
        raise invalid("The command is empty.", 'Give it like: --run "pytest -q"')
    _refuse_shell(argv or ())
    if name == "client":
        _refuse_misspelt(form.client or "")
    return name, argv


_SHELL = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})


def _refuse_shell(argv: tuple[str, ...]) -> None:
    """No shell reads the command: what only a shell understands would be handed to the program as a word."""
    found = next((word for word in argv if word in _SHELL), "")
    if found and PurePath(argv[0]).name not in ("sh", "bash", "dash", "zsh", "ksh", "fish"):
        line = shlex.quote(" ".join(argv))
        raise invalid(f"{found!r} is a shell's, and no shell runs the command.", f"Name one: sh -c {line}")


def _refuse_misspelt(client: str) -> None:
    """Any client may be named; one that is nearly a known one is a slip."""
    close = () if client in CLIENTS or len(client) < 4 else nearest(client, CLIENTS, 1)
    if close:
        raise invalid(f"There is no client {client!r}.", f"Did you mean {close[0]}? Any other client has its own name.")
