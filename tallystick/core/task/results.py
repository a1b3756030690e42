"""Results: handing in, checking, reviewing, failing. Done is checked, not believed."""

from __future__ import annotations

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import PASSIVE
from tallystick.core.errors import conflict, denied
from tallystick.core.failure import failing, would_fail
from tallystick.core.identity import ActorKind, short
from tallystick.core.model import CheckOutcome, CheckRun, Expects
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.state import Context, Task, Work
from tallystick.core.task.ground import check_said, name_of, pull_lease, session_alive
from tallystick.core.task.submit import check_body


def hand_in(work: Work, c: cmd.HandInResult, ctx: Context) -> ev.TaskEvent:
    """The result, if it shows what was asked for; else a refusal that says what is missing."""
    task = work.task
    if task.reason is R.UNVERIFIED:
        _check_reconciles(work, ctx)
    check_body(c.text, ctx)
    check_children(ctx, "handed in")
    if c.run is not None and _ended_badly(task, c.run):
        return failing(task, R.ERROR, ctx, text=c.text, run=c.run)
    _check_evidence(task, c)
    state, reason = _after_hand_in(task, c)
    retaken = not task.holder
    return ev.ResultHandedIn(
        state=state,
        reason=reason,
        text=c.text,
        message_id=c.message_id,
        revision=task.revision + 1,
        commit=c.commit,
        references=c.references,
        artifacts=c.artifacts,
        commits=c.commits,
        holder=ctx.actor.id,
        session=ctx.actor.session if ctx.actor.kind is ActorKind.AGENT else "",
        fence=task.fence + 1 if retaken else task.fence,
        review_wanted=c.review_wanted,
        run=c.run,
    )


def _check_reconciles(work: Work, ctx: Context) -> None:
    """Once a person was asked what became of it, only the spoke that began it can still tell: it kept what it did."""
    assignment = work.assignment
    begun = assignment is not None and assignment.unverified and assignment.session == ctx.actor.session
    if not (begun and ctx.actor.door == "spoke"):
        raise conflict(
            f"What became of task {name_of(work.task)} is not known, so its result is not taken: a person decides.",
            f"Tell them what you did; they settle it with `tally verify {name_of(work.task)} --settle`.",
        )


def _ended_badly(task: Task, run: CheckRun) -> bool:
    """Any own exit is a result, except that a change needs 0; killed or timed out is none."""
    if run.exit_code is None or run.outcome is CheckOutcome.TIMED_OUT:
        return True
    return task.expects is Expects.CHANGE and run.exit_code != 0


def _after_hand_in(task: Task, c: cmd.HandInResult) -> tuple[S, R]:
    if task.done_when is not None:
        return S.WORKING, R.CHECKING
    if c.review_wanted or task.review_wanted or task.reviewer:
        return S.INPUT_REQUIRED, R.REVIEW
    return S.COMPLETED, R.UNREVIEWED


def _check_evidence(task: Task, c: cmd.HandInResult) -> None:
    """Refuse a `done` that does not show what was asked for, and say what is missing."""
    if c.blank:
        names = ", ".join(c.blank[:5])
        raise conflict(f"Not handed in: {names} is empty or white space only.", "Fill it, commit, and hand in again.")
    if task.expects is Expects.CHANGE and not c.commit:
        raise conflict(
            f"Not handed in: task {name_of(task)} asks for a change, and no commit was named.",
            "Commit the work and name it: --commit HEAD",
        )
    if task.expects is Expects.CHANGE and not c.changed:
        raise conflict(
            f"Not handed in: task {name_of(task)} asks for a change, and {c.commit[:12]} changes nothing since "
            f"its base {task.base_commit[:12]}.",
            "Do the work, commit it, and name that commit; or hand it back with `tally decline`.",
        )
    if task.expects is Expects.FINDING and not (c.references or c.artifacts):
        raise conflict(
            f"Not handed in: task {name_of(task)} asks for a finding, and nothing was referred to.",
            "Name what it rests on: --file PATH (or PATH:10-20), or --commit REF.",
        )
    if not (c.text.body.strip() or c.references or c.artifacts or c.commit):
        raise conflict("Not handed in: there is no text, commit or file.", "Say the result: --text T, or --file PATH.")


def check_children(ctx: Context, what: str) -> None:
    """Nothing is completed over open children."""
    if ctx.open_children:
        names = ", ".join(short(t) for t in ctx.open_children[:5])
        raise conflict(f"It cannot be {what} while children are open: {names}.", "Finish or cancel them first.")


def report_check(work: Work, c: cmd.ReportCheck, ctx: Context) -> ev.TaskEvent:
    """What the host's own run of the check leads to."""
    task = work.task
    if c.revision != task.revision:
        raise conflict(f"That check was of revision {c.revision}; {task.revision} is there now.", "Check the new one.")
    outcome = c.run.outcome
    # Children may have been asked for while the check ran: nothing is completed over them.
    review = task.review_wanted or task.reviewer or c.run.protected_changed or ctx.open_children
    if outcome is CheckOutcome.PASSED and not review:
        return ev.CheckReported(state=S.COMPLETED, reason=R.VERIFIED, run=c.run)
    if outcome in (CheckOutcome.PASSED, CheckOutcome.ERROR):
        return ev.CheckReported(state=S.INPUT_REQUIRED, reason=R.REVIEW, run=c.run)
    if _can_rework(task, ctx):
        return ev.CheckReported(state=S.WORKING, run=c.run, lease_until=pull_lease(task, ctx))
    state, reason, round_ = would_fail(task, R.REFUTED, ctx)
    return ev.CheckReported(state=state, reason=reason, run=c.run, round=round_)


def _can_rework(task: Task, ctx: Context) -> bool:
    agent = ctx.directory.agents.get(task.holder)
    return session_alive(task, ctx) and not (agent and agent.connection in PASSIVE)


def _check_revision(task: Task, revision: int, ctx: Context) -> None:
    if ctx.actor.id == task.assignee:
        raise denied("The assignee cannot review its own work.", "Leave it to the reviewer.")
    if revision != task.revision:
        raise conflict(
            f"Stale: you saw revision {revision} of task {name_of(task)}, and {task.revision} is there now.",
            f"Look at it again: tally show {name_of(task)}",
        )


def approve(work: Work, c: cmd.ApproveResult, ctx: Context) -> ev.ResultApproved:
    """The reviewer accepts this very revision."""
    _check_revision(work.task, c.revision, ctx)
    check_children(ctx, "approved")
    return ev.ResultApproved(state=S.COMPLETED, reason=R.APPROVED, revision=c.revision, text=c.text)


def request_changes(work: Work, c: cmd.RequestChanges, ctx: Context) -> ev.ChangesRequested:
    """The reviewer sends it back with words."""
    check_said(c.text, ctx)
    _check_revision(work.task, c.revision, ctx)
    return ev.ChangesRequested(
        state=S.SUBMITTED,
        reason=R.REWORK,
        message_id=c.message_id,
        delivery_id=c.delivery_id,
        revision=c.revision,
        text=c.text,
    )


def refuse(work: Work, c: cmd.RefuseResult, ctx: Context) -> ev.ResultRefused:
    """The reviewer refuses it for good."""
    check_said(c.text, ctx)
    _check_revision(work.task, c.revision, ctx)
    state, reason, round_ = would_fail(work.task, R.REFUTED, ctx)
    return ev.ResultRefused(state=state, reason=reason, revision=c.revision, round=round_, text=c.text)


def decline(_work: Work, c: cmd.DeclineTask, ctx: Context) -> ev.TaskDeclined:
    """The assignee does not take it on, and says why."""
    check_said(c.text, ctx)
    reason = R.BY_PERSON if ctx.actor.kind is ActorKind.PERSON else R.BY_AGENT
    return ev.TaskDeclined(state=S.REJECTED, reason=reason, text=c.text)


_HOST_FAILURES = (R.ERROR, R.BUDGET, R.NO_ROUTE, R.OFFLINE)


def fail(work: Work, c: cmd.FailTask, ctx: Context) -> ev.TaskFailed:
    """Failure as the holder or the host reports it."""
    if c.why is not R.ERROR and (ctx.actor.kind is not ActorKind.HOST or c.why not in _HOST_FAILURES):
        raise denied("A holder can only report an error.", "Use `tally submit ID --failed TEXT`.")
    check_said(c.text, ctx)
    return failing(work.task, c.why, ctx, text=c.text, run=c.run, code=c.code)
