"""The verbs of those who do, review and steer the work."""

from __future__ import annotations

from tallystick.app.desk import forms
from tallystick.app.desk.evidence import Evidence
from tallystick.app.desk.ground import digest_of
from tallystick.app.desk.interface import Guest
from tallystick.app.views import show, tasks
from tallystick.core import commands as cmd
from tallystick.core.errors import Refused, conflict, invalid
from tallystick.core.events import Text
from tallystick.core.identity import ActorKind, Prefix, short
from tallystick.core.model import Reason, TaskState
from tallystick.core.state import Task


class Working(Evidence):
    """take, progress, question, answer, submit, review, release, cancel, correct, settle, verify."""

    async def take(self, guest: Guest, task: str, *, key: str = "") -> forms.Taken:
        """Start on a task: the right to work on it and the whole brief."""
        task_id = await self.task_id(guest, task)
        command = cmd.ClaimTask(task_id=task_id, session=guest.actor.session, key=key)
        outcome = await self.do(guest, command)
        if outcome.work is None:
            raise ValueError("a taken task has work")
        held = outcome.work.task
        history = await self.s.views.history(task_id)
        brief = tasks.brief(held, history[0].event.text or Text(), self.directory)
        words = tasks.newest(history)
        brief.update({k: words[k] for k in ("question", "answer", "verdict") if k in words})
        return forms.Taken(
            task_id=task_id,
            fence=held.fence,
            lease_until=show.when(held.lease_until),
            delivery_id=outcome.work.assignment.delivery_id if outcome.work.assignment else "",
            title=held.title,
            brief=brief,
        )

    async def recorded(self, guest: Guest, task_id: str, delivery_id: str) -> None:
        """The reader acknowledged the body after its own flush."""
        if not delivery_id or guest.read_only:
            return
        witness = guest.actor.session or guest.actor.id
        command = cmd.RecordDelivery(task_id=task_id, delivery_id=delivery_id, witness=witness)
        try:
            await self.do(guest, command)
        except Refused as refusal:  # an acknowledgement that comes too late changes nothing
            self.s.diagnostics.record("late acknowledgement", task=task_id, detail=str(refusal))

    async def progress(
        self, guest: Guest, task: str, text: str, *, fraction: float | None = None, fence: int | None = None
    ) -> forms.Moved:
        """Say how it goes."""
        task_id = await self.task_id(guest, task)
        command = cmd.ReportProgress(task_id=task_id, text=Text(body=text), fraction=fraction, fence=fence)
        return self.moved(await self.do(guest, command))

    async def question(self, guest: Guest, task: str, text: str, *, fence: int | None = None) -> forms.Moved:
        """Ask the requester back."""
        task_id = await self.task_id(guest, task)
        message = self.s.new_id(Prefix.MESSAGE)
        command = cmd.AskQuestion(task_id=task_id, message_id=message, text=Text(body=text), fence=fence)
        return self.moved(await self.do(guest, command))

    async def answer(self, guest: Guest, task: str, text: str) -> forms.Moved:
        """Answer the open question."""
        task_id = await self.task_id(guest, task)
        command = cmd.AnswerQuestion(
            task_id=task_id,
            message_id=self.s.new_id(Prefix.MESSAGE),
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            text=Text(body=text),
        )
        return self.moved(await self.do(guest, command))

    async def submit(self, guest: Guest, form: forms.HandIn) -> forms.Moved:
        """Hand in the result, or report failure."""
        task_id = await self.task_id(guest, form.task)
        if form.failed:
            failed = cmd.FailTask(task_id=task_id, text=Text(body=form.failed), fence=form.fence)
            return self.moved(await self.do(guest, failed))
        work = await self.s.heads.work(task_id)
        if work is None:
            raise conflict(f"Task {short(task_id)} is gone.", "List what is there with `tally board`.")
        seen = await self.look_at(guest, work.task, form.commit, form.files)
        command = cmd.HandInResult(
            task_id=task_id,
            message_id=self.s.new_id(Prefix.MESSAGE),
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            text=Text(body=form.text),
            commit=seen.commit,
            references=seen.references,
            commits=seen.commits,
            changed=seen.changed,
            blank=seen.blank,
            review_wanted=form.review,
            fence=form.fence,
        )
        return self.moved(await self.do(guest, command))

    async def settled_check(self, guest: Guest, task: str) -> forms.Shown:
        """Waits until a running check of the task has been reported, or waits for a person."""
        task_id = await self.task_id(guest, task)
        seen = await self.s.views.show(task_id)
        async for shown in self.s.views.follow(task_id, lambda s: s.reason != Reason.CHECKING.value):
            seen = shown
        return seen

    # --- review -------------------------------------------------------------------------------------------------

    async def _revision(self, guest: Guest, task_id: str, given: int | None) -> int:
        """The revision that this reader was last shown; refused if it was shown none."""
        if given is not None:
            return given
        known = self._shown_revision.get((guest.actor.id, task_id))
        if known is None:
            raise conflict(
                f"You have not looked at the result of task {short(task_id)}.",
                f"Look at it first: tally show {short(task_id)}",
            )
        return known

    async def approve(self, guest: Guest, task: str, *, revision: int | None = None, text: str = "") -> forms.Moved:
        """Accept the revision that was last shown to this reader; for a person, only by a person."""
        task_id = await self.task_id(guest, task)
        if guest.actor.kind is ActorKind.PERSON:
            self.person(guest, "approve for a person")
        seen = await self._revision(guest, task_id, revision)
        command = cmd.ApproveResult(task_id=task_id, revision=seen, text=Text(body=text) if text else None)
        return self.moved(await self.do(guest, command))

    async def changes(self, guest: Guest, task: str, text: str, *, revision: int | None = None) -> forms.Moved:
        """Ask for changes."""
        task_id = await self.task_id(guest, task)
        command = cmd.RequestChanges(
            task_id=task_id,
            revision=await self._revision(guest, task_id, revision),
            message_id=self.s.new_id(Prefix.MESSAGE),
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            text=Text(body=text),
        )
        return self.moved(await self.do(guest, command))

    async def refuse(self, guest: Guest, task: str, text: str, *, revision: int | None = None) -> forms.Moved:
        """Refuse the result for good."""
        task_id = await self.task_id(guest, task)
        seen = await self._revision(guest, task_id, revision)
        return self.moved(await self.do(guest, cmd.RefuseResult(task_id=task_id, revision=seen, text=Text(body=text))))

    # --- giving back, stopping, correcting ----------------------------------------------------------------------

    async def decline(self, guest: Guest, task: str, text: str) -> forms.Moved:
        """The assignee says no."""
        task_id = await self.task_id(guest, task)
        return self.moved(await self.do(guest, cmd.DeclineTask(task_id=task_id, text=Text(body=text))))

    async def release(self, guest: Guest, task: str, text: str, *, fence: int | None = None) -> forms.Moved:
        """Give it back."""
        task_id = await self.task_id(guest, task)
        command = cmd.ReleaseTask(
            task_id=task_id,
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            text=Text(body=text),
            note=digest_of(text),
            fence=fence,
        )
        return self.moved(await self.do(guest, command))

    async def cancel(self, guest: Guest, task: str, text: str = "") -> forms.Moved:
        """Stop it."""
        task_id = await self.task_id(guest, task)
        command = cmd.CancelTask(task_id=task_id, text=Text(body=text) if text else None)
        return self.moved(await self.do(guest, command))

    async def correct(self, guest: Guest, task: str, state: str, reason: str, text: str) -> forms.Moved:
        """Set the state by hand, with a reason that is recorded."""
        self.person(guest, "correct a state")
        task_id = await self.task_id(guest, task)
        try:
            target, why = TaskState(state), Reason(reason)
        except ValueError:
            known = ", ".join(s.value for s in TaskState)
            raise invalid(f"{state!r} {reason!r} is no state.", f"States are: {known}.") from None
        command = cmd.CorrectTask(
            task_id=task_id, state=target, reason=why, delivery_id=self.s.new_id(Prefix.DELIVERY), text=Text(body=text)
        )
        return self.moved(await self.do(guest, command))

    async def settle(self, guest: Guest, trace: str) -> forms.Moved:
        """Declare a trace finished: refused while a part is open."""
        trace_id = await self.trace_id(guest, trace)
        sees = self.sees(guest)
        parts = await self.s.views.rows("in_trace", trace=trace_id)
        if not any(sees(str(row["workspace"])) for row in parts):
            parts = []  # absent and not visible are told in the same words
        is_open = any(row["open"] for row in parts)
        moved = None
        for row in parts:
            try:
                outcome = await self.do(guest, cmd.SettleTrace(task_id=str(row["task_id"])))
            except Refused:
                if row["parent"] and not is_open:
                    continue  # a part that another asked for: settled with the rest by the host
                raise
            moved = moved or self.moved(outcome)
        if moved is None:
            raise conflict("There is nothing to settle in that trace.", "See it with `tally trace ID`.")
        return moved

    # --- doubt and verification ---------------------------------------------------------------------------------

    async def verify(self, guest: Guest, task: str) -> forms.Shown:
        """Check every reference's digest and run the named check again, without changing the task."""
        task_id = await self.task_id(guest, task)
        work = await self.s.views.work(task_id)
        found = work.task
        shown = await self.s.views.show(task_id)
        verdicts = []
        for reference in (*found.inputs, *found.references):
            verdict = await self.s.verifier.check_reference(reference)
            verdicts.append({**show.reference(reference), "verdict": verdict})
        checks = shown.checks
        if found.done_when is not None and found.commit:
            checks = (*checks, await self._run_again(found))
        return forms.verified(shown, tuple(verdicts), checks)

    async def _run_again(self, task: Task) -> forms.RunShown:
        job_id = f"verify-{self.s.new_id(Prefix.DELIVERY)}"
        seen = await self.s.verifier.run(task, job_id)
        self.s.runner.forget(job_id)
        return show.run(seen, tasks.tail(seen, self.s.blobs))

    async def settle_doubt(self, guest: Guest, task: str, outcome: str, text: str) -> forms.Moved:
        """Tell the outcome of what is unverified."""
        self.person(guest, "settle what is unverified")
        task_id = await self.task_id(guest, task)
        command = cmd.SettleDoubt(
            task_id=task_id,
            outcome=outcome,
            delivery_id=self.s.new_id(Prefix.DELIVERY),
            text=Text(body=text),
        )
        return self.moved(await self.do(guest, command))
