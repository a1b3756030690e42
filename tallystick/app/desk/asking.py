"""Asking for work, and giving it to somebody else."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime

from msgspec.structs import replace

from tallystick.app.counts import is_test_runner
from tallystick.app.desk import forms
from tallystick.app.desk.evidence import Evidence
from tallystick.app.desk.ground import digest_of
from tallystick.app.desk.interface import Guest
from tallystick.app.driving import DOOR
from tallystick.app.execute import Outcome
from tallystick.app.shapes import canonical
from tallystick.app.views.people import level
from tallystick.core import commands as cmd
from tallystick.core.errors import Refused, invalid, not_found
from tallystick.core.events import Text
from tallystick.core.identity import CAPABILITY_PREFIX, ActorKind, Prefix
from tallystick.core.mention import Known, resolve
from tallystick.core.model import Brief, Budget, CheckKind, CheckSpec, Expects

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)\Z")
_MENTIONS_IN = 64 * 1024
"""How many characters are searched for names: a longer text is a document, not an address."""
_MOST = 10**12
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


class Asking(Evidence):
    """`ask`, `reassign`."""

    async def ask(self, guest: Guest, form: forms.Ask) -> forms.Receipt:
        """Submit a task and tell what can be promised."""
        actor = self.writer(guest)
        party, session = self.party(guest, form.address)
        session, fork_of = self._start_from(guest, form, party, session)
        text = Text(title=form.title.strip(), body=form.body, brief=_brief(form))
        inputs = tuple([await self.reference(guest, typed) for typed in form.inputs])
        for found in inputs:
            await self.readable(found, guest.workspace)
        repository, base = await self.base(guest)
        spec = self._done_when(guest, form)
        command = cmd.SubmitTask(
            task_id=self.s.new_id(Prefix.TASK),
            workspace=guest.workspace,
            trace=await self._trace(guest, form),
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            message_id=form.message_id or self.s.new_id(Prefix.MESSAGE),
            text=text,
            assignee=party,
            session=session,
            fresh=form.session == "fresh",
            fork_of=fork_of,
            expects=_expects(form.expect, spec),
            done_when=spec,
            reviewer=self.party(guest, form.review_by)[0] if form.review_by else "",
            deadline_at=self.deadline(form.deadline),
            budget=_budget(form.budget),
            key=form.key,
            digest=digest_of(party, session or fork_of, _compared(party, text), inputs, spec, _conditions(form)),
            parent=await self._parent(guest, form),
            retry_of=await self.task_id(guest, form.retry_of) if form.retry_of else "",
            on_failure=self.party(guest, form.on_failure)[0] if form.on_failure else "",
            inputs=inputs,
            repository=repository if base else "",
            base_commit=base,
            wake=form.wake,
            level=self._level(party, guest.workspace),
        )
        outcome = await self.s.executor.execute(command, actor)
        await self._first_coordinator(guest)
        return self._receipt(guest, outcome, self._unresolved(guest, form))

    def _receipt(self, guest: Guest, outcome: Outcome, unresolved: tuple[str, ...]) -> forms.Receipt:
        if outcome.work is None:
            raise ValueError("a submitted task has work")
        task = outcome.work.task
        self.remember(guest, task.task_id)
        return forms.Receipt(
            task_id=task.task_id,
            trace=task.trace,
            promise=task.promise,
            provider=task.provider,
            level=task.level,
            duplicate=outcome.duplicate,
            state=str(task.state),
            reason=str(task.reason),
            to=self.directory.alias_of(task.assignee) if task.assignee else "@coordinator",
            workspace=self.directory.workspaces[task.workspace].name,
            registered=guest.registered,
            unresolved=unresolved,
        )

    def _start_from(self, guest: Guest, form: forms.Ask, party: str, session: str) -> tuple[str, str]:
        """The session that is meant, and the one that is to be forked: the one named, else the newest one here."""
        if form.session not in ("", "reuse", "fresh", "fork"):
            raise invalid(f"{form.session!r} is no way to choose a session.", "Use reuse, fresh or fork.")
        if form.session != "fork":
            return session, ""
        mine = [self.directory.sessions[s] for s in self.directory.open_sessions.get(party, ())]
        begun = [s.session_id for s in mine if s.workspace == guest.workspace and s.door == DOOR and s.history]
        if not session and not begun:
            who = self.directory.alias_of(party) or "@coordinator"
            raise not_found(f"The host drives no session of {who} here that could be forked.", "Leave the session out.")
        return "", session or begun[-1]

    async def _trace(self, guest: Guest, form: forms.Ask) -> str:
        """The trace of the parent or of what it retries, or a new one."""
        related = form.retry_of or (form.parent if form.parent not in ("", "none") else "")
        if related:
            return (await self.s.views.work(await self.task_id(guest, related))).task.trace
        if not form.parent and guest.actor.session:
            held = await self.s.heads.held.of(guest.actor.session)
            work = await self.s.heads.work(held[0]) if len(held) == 1 else None
            if work is not None:
                return work.task.trace
        return self.s.new_id(Prefix.TRACE)

    async def _parent(self, guest: Guest, form: forms.Ask) -> str | None:
        if form.parent == "none":
            return ""
        return await self.task_id(guest, form.parent) if form.parent else None

    def deadline(self, typed: str) -> float:
        """A duration from now or an ISO time (UTC where it names no zone), as UTC seconds; 0 for none."""
        if not typed:
            return 0.0
        seconds = duration(typed)
        if seconds is not None:
            return self.s.clock.now() + seconds
        try:
            at = datetime.fromisoformat(typed)
        except ValueError:
            raise invalid(f"{typed!r} is no deadline.", "Use 90s, 30m, 2h, 3d, or 2030-01-31T12:00Z.") from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

    def _done_when(self, guest: Guest, form: forms.Ask) -> CheckSpec | None:
        if form.done_when_argv:
            argv = form.done_when_argv
            if any("\0" in word for word in argv):
                raise invalid("A command cannot contain a NUL character.", "Give it as it is typed in a shell.")
            by_person = guest.actor.kind is ActorKind.PERSON
            environment = guest.facts.environment if by_person else {}  # an agent names no directories to be shown
            return CheckSpec(
                name=" ".join(argv)[:80],
                argv=argv,
                kind=CheckKind.TEST if is_test_runner(argv) else CheckKind.COMMAND,
                search_path=environment.get("PATH", ""),
                virtual_env=environment.get("VIRTUAL_ENV", ""),
                seconds=int(self.s.limits.check_seconds),
                output_bytes=self.s.limits.check_output_bytes,
            )
        if not form.done_when:
            return None
        place = self.directory.workspaces[guest.workspace]
        found = place.check(form.done_when)
        if found is None:
            known = ", ".join(name for name, _ in place.checks) or "none yet"
            raise not_found(
                f"There is no check {form.done_when!r} here (known: {known}).",
                f"A person registers it: tally check add {form.done_when} -- COMMAND",
            )
        return found

    def _level(self, party: str, workspace: str) -> str:
        agent = self.directory.agents.get(party)
        if agent is None:
            return "E0"
        if agent.connection == "drive":
            return level(agent, self.directory, self.s.runner.level(), workspace)
        return self.s.runner.level() if agent.connection == "command" else "E1" if agent.client else "E0"

    async def _first_coordinator(self, guest: Guest) -> None:
        """The first agent that asks in a workspace, and can, coordinates it until a person says otherwise. What it
        asked for stands already, so nothing is refused here: somebody else may have been first."""
        place = self.directory.workspaces[guest.workspace]
        agent = self.directory.agents.get(guest.actor.id)
        if agent is not None and not place.coordinator and agent.judges_in(place.workspace_id):
            command = cmd.ChooseCoordinator(workspace_id=place.workspace_id, agent=agent.agent_id)
            with suppress(Refused):
                await self.s.executor.execute(command, guest.actor, workspace=place.workspace_id)

    def _unresolved(self, guest: Guest, form: forms.Ask) -> tuple[str, ...]:
        """Names in the text that lead to nobody: told to the sender, never a new mailbox."""
        if "@" not in form.title and "@" not in form.body:
            return ()
        text = f"{form.title}\n\n{form.body}"[:_MENTIONS_IN]
        members = self.directory.members(guest.workspace)
        known = Known(
            aliases={a.alias: a.agent_id for a in members}
            | {p.alias: p.person_id for p in self.directory.persons.values()},
            displayed={a.display_name: frozenset({a.agent_id}) for a in members if a.display_name},
        )
        return tuple(m.name for m in resolve(text, known).unresolved)

    async def reassign(self, guest: Guest, task: str, address: str, text: str = "") -> forms.Moved:
        """Give a task to another assignee."""
        task_id = await self.task_id(guest, task)
        party, session = self.party(guest, address)
        command = cmd.ReassignTask(
            task_id=task_id,
            assignee=party,
            session=session,
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            text=Text(body=text) if text else None,
        )
        return self.moved(await self.do(guest, command))


def duration(typed: str) -> float | None:
    """Seconds of `90s`, `30m`, `2h`, `3d`, `1w`; None for anything else."""
    found = _DURATION.match(typed.strip().lower())
    return float(found.group(1)) * _UNITS[found.group(2)] if found else None


def _conditions(form: forms.Ask) -> tuple[str, ...]:
    """What an ask says besides the work itself, as typed: part of what makes it the same request."""
    told = [word for word in (form.budget, form.session.replace("reuse", "")) if word]
    return form.expect, form.deadline, *told, form.review_by, form.parent, form.on_failure, form.retry_of


def _compared(party: str, text: Text) -> Text:
    """The words as they make it the same request: of a capability the body is a payload, and that may be JSON."""
    return replace(text, body=canonical(text.body)) if party.startswith(CAPABILITY_PREFIX) else text


def _budget(typed: str) -> Budget:
    """`tokens=N,cents=N,seconds=N`, in any order; none of them for empty."""
    if not typed:
        return Budget()
    found: dict[str, int] = {}
    for part in filter(None, typed.replace(" ", "").split(",")):
        name, _, number = part.partition("=")
        if name not in Budget.__struct_fields__ or not number.isdecimal() or not 0 < int(number) <= _MOST:
            raise invalid(f"{part!r} is no part of a budget.", "Write it like tokens=200000,cents=50,seconds=900.")
        found[name] = int(number)
    return Budget(**found)


def _brief(form: forms.Ask) -> Brief:
    return Brief(
        intent=form.intent,
        action_required=form.action_required,
        known_facts=form.known_facts,
        open_questions=form.open_questions,
        context=form.context,
    )


def _expects(typed: str, spec: CheckSpec | None) -> Expects:
    if not typed:
        return Expects.CHANGE if spec is not None else Expects.ANSWER
    try:
        return Expects(typed)
    except ValueError:
        raise invalid(f"{typed!r} is nothing to expect.", "Use --expect change, finding or answer.") from None
