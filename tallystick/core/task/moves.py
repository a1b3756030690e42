"""The moves of a task that is there: what each command makes of it once the table allows it.

Each function takes the work, the command and the context and gives the event; `turn` is filled in by `core.decide`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import PASSIVE, Agent
from tallystick.core.errors import conflict, denied, invalid
from tallystick.core.failure import would_fail
from tallystick.core.identity import ActorKind, short
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.route import agent_mode
from tallystick.core.state import Context, Task, Unchanged, Work, same_place
from tallystick.core.task import handover, prompts, results
from tallystick.core.task.ground import (
    canceled_by,
    check_may_start,
    check_not_frozen,
    check_said,
    name_of,
    pull_lease,
    session_alive,
)
from tallystick.core.task.submit import check_body
from tallystick.core.task.table import REASONS
from tallystick.core.task.turn import turn_of

# --- take, progress, questions ----------------------------------------------------------------------------------


def _claim(work: Work, c: cmd.ClaimTask, ctx: Context) -> ev.TaskClaimed | ev.HolderReturned:
    task = work.task
    if task.state is S.WORKING:
        return _claim_held(work, c, ctx)
    agent = ctx.directory.agents.get(ctx.actor.id)
    if agent is not None and agent.connection in PASSIVE:
        raise denied(
            f"@{agent.alias} is a {agent.connection}; the host hands it its work.",
            f"Follow it: tally show {name_of(task)} --follow",
        )
    if agent is not None and agent.connection == "drive" and c.session != task.session:
        raise conflict(
            f"The host hands @{agent.alias} its tasks, and {name_of(task)} is not with this session.",
            f"Follow it: tally show {name_of(task)} --follow",
        )
    if task.session_wanted and task.session_wanted != c.session:
        raise conflict(
            f"Task {name_of(task)} is for the session {short(task.session_wanted)} alone.",
            "Leave it to that session, or ask its requester to reassign it.",
        )
    if agent is not None and c.session != ctx.actor.session:
        raise denied("A session takes work only for itself.", "Take it in the session that will do it.")
    check_may_start(task, _mode_for(task, agent, ctx), ctx)
    assignment = work.assignment
    lease = 0.0 if agent is None else ctx.now + _lease_of(task, agent, ctx)
    return ev.TaskClaimed(
        state=S.WORKING,
        delivery_id=assignment.delivery_id if assignment and assignment.open else "",
        holder=ctx.actor.id,
        session=c.session if agent else "",
        fence=task.fence + 1,
        lease_until=lease,
        rule=task.rule or "member",
    )


def _lease_of(task: Task, agent: Agent, ctx: Context) -> float:
    """Of a session that the host drives: as it was leased, because its process is watched."""
    return task.lease_seconds if agent.connection == "drive" else ctx.limits.pull_lease_seconds


def _claim_held(work: Work, c: cmd.ClaimTask, ctx: Context) -> ev.HolderReturned:
    task = work.task
    mine = task.holder == ctx.actor.id and task.session == c.session
    if mine and (task.fence_before or _comes_clear(work, ctx)):
        return ev.HolderReturned(**same_place(task), fence=task.fence, lease_until=pull_lease(task, ctx))
    who = "you already hold it" if mine else f"{ctx.directory.alias_of(task.holder)} has taken it"
    raise conflict(
        f"Task {name_of(task)} cannot be taken: {who} (fence {task.fence}).",
        f"See how far it is: tally show {name_of(task)}"
        if not mine
        else f"Go on with it, and hand in: tally submit {name_of(task)}",
    )


def _comes_clear(work: Work, ctx: Context) -> bool:
    """Whether a spoke that was lost is back, and says that it still has what it began."""
    agent, assignment = ctx.directory.agents.get(work.task.holder), work.assignment
    in_doubt = assignment is not None and assignment.open and assignment.unverified
    return in_doubt and agent is not None and agent.connection == "spoke"


def _mode_for(task: Task, agent: Any, ctx: Context) -> str:
    return agent_mode(agent, ctx.directory, task.workspace, ctx.actor.session) if agent else ctx.directory.mode


def _claim_again(task: Task, c: cmd.ClaimTask, ctx: Context) -> Unchanged | None:
    same = c.key and c.key == task.claim_key and c.session == task.session and task.holder == ctx.actor.id
    return Unchanged(task.task_id, duplicate=True) if same else None


def _progress(work: Work, c: cmd.ReportProgress, ctx: Context) -> ev.TaskProgressed:
    check_body(c.text, ctx)
    if c.fraction is not None and not 0.0 <= c.fraction <= 1.0:
        raise invalid("The fraction must be between 0 and 1.", "Leave it out if it is not known.")
    return ev.TaskProgressed(**same_place(work.task), text=c.text, fraction=c.fraction)


def _check_rounds(task: Task, ctx: Context) -> None:
    if ctx.actor.kind is ActorKind.AGENT and task.rounds >= ctx.limits.rounds:
        raise conflict(
            f"Task {name_of(task)} has had {task.rounds} messages without a result, a check or human input.",
            "Hand in what there is, or wait for a person.",
        )


def _ask(work: Work, c: cmd.AskQuestion, ctx: Context) -> ev.QuestionAsked:
    check_said(c.text, ctx)
    _check_rounds(work.task, ctx)
    return ev.QuestionAsked(state=S.INPUT_REQUIRED, reason=R.QUESTION, message_id=c.message_id, text=c.text)


def _answer(work: Work, c: cmd.AnswerQuestion, ctx: Context) -> ev.QuestionAnswered:
    task = work.task
    check_said(c.text, ctx)
    check_not_frozen(task, ctx)
    if task.reason is R.QUESTION:
        _check_rounds(task, ctx)
    alive = session_alive(task, ctx)
    if not alive and work.is_in_doubt and ctx.actor.kind is not ActorKind.PERSON:
        raise conflict(
            f"The session that asked is gone, and what it did of task {name_of(task)} is not known.",
            f"A person's answer has it begun anew: tally answer {name_of(task)} TEXT",
        )
    return ev.QuestionAnswered(
        state=S.WORKING if alive else S.SUBMITTED,
        reason=R.ANSWERED if alive else R.REWORK,
        message_id=c.message_id,
        delivery_id=c.delivery_id,
        lease_until=pull_lease(task, ctx) if alive else 0.0,
        text=c.text,
    )


# --- permission -------------------------------------------------------------------------------------------------


def _admit(_work: Work, _c: cmd.AdmitTask, _ctx: Context) -> ev.TaskAdmitted:
    return ev.TaskAdmitted(state=S.SUBMITTED, reason=R.NEW)


def _turn_away(_work: Work, c: cmd.TurnAwayTask, ctx: Context) -> ev.TaskTurnedAway:
    person = ctx.actor.kind is ActorKind.PERSON
    return ev.TaskTurnedAway(state=S.REJECTED, reason=R.BY_PERSON if person else R.BY_POLICY, text=c.text)


def _request_permission(_work: Work, c: cmd.RequestPermission, _ctx: Context) -> ev.PermissionRequested:
    return ev.PermissionRequested(
        state=S.AUTH_REQUIRED,
        reason=R.PERMISSION,
        permission_id=c.permission_id,
        action=c.action,
        digest=c.digest,
        options=c.options,
    )


def _decide_permission(work: Work, c: cmd.DecidePermission, ctx: Context) -> ev.PermissionDecided:
    task = work.task
    asked = next((p for p in task.permissions if p.permission_id == c.permission_id), None)
    if asked is None or asked.decision:
        raise conflict("That permission is not open.", "List the open ones: tally permission list")
    if c.digest and c.digest != asked.digest:
        raise conflict("The action is not the one you saw.", "Look at it again: tally permission list")
    if c.decision not in ("allow_once", "reject_once"):
        raise invalid(f"{c.decision!r} is no decision here.", "Use allow_once or reject_once.")
    if ctx.actor.kind is ActorKind.HOST and c.decision != "reject_once":
        raise denied("The host never allows on its own.", "A person decides: tally permission allow ID")
    state, reason = _after_permission(task, c)
    lease = pull_lease(task, ctx) if state is S.WORKING and reason is not R.CHECKING else 0.0
    if work.in_flight and state is not S.AUTH_REQUIRED:  # the host runs it: somebody must look at it again
        lease = ctx.now + (task.lease_seconds or ctx.limits.pull_lease_seconds)
    return ev.PermissionDecided(
        state=state, reason=reason, permission_id=c.permission_id, decision=c.decision, lease_until=lease
    )


def _after_permission(task: Task, c: cmd.DecidePermission) -> tuple[S, R]:
    others = [p for p in task.permissions if not p.decision and p.permission_id != c.permission_id]
    if others or task.resume_state is None:
        return task.state, task.reason
    if task.resume_reason is R.CHECKING and c.decision == "reject_once":
        return S.INPUT_REQUIRED, R.REVIEW
    return task.resume_state, task.resume_reason


# --- cancel ----------------------------------------------------------------------------------------------------


def _in_hand(work: Work) -> bool:
    """Whether something of it may be running now."""
    task = work.task
    return task.state is S.WORKING or work.in_flight or (task.state is S.AUTH_REQUIRED and bool(task.holder))


def _cancel(work: Work, c: cmd.CancelTask, ctx: Context) -> ev.CancelRequested | ev.TaskCanceled:
    if _in_hand(work):
        return ev.CancelRequested(**same_place(work.task), text=c.text, cascade=ctx.open_children)
    reason = canceled_by(ctx, work.task)
    return ev.TaskCanceled(state=S.CANCELED, reason=reason, text=c.text, cascade=ctx.open_children)


def _cancel_again(task: Task, _c: cmd.CancelTask, _ctx: Context) -> Unchanged | None:
    """Whoever lost the answer may ask again, whether the first has come to its end meanwhile or not."""
    asked = task.open and task.cancel_requested_at
    return Unchanged(task.task_id) if asked or task.state is S.CANCELED else None


def _confirm_cancel(work: Work, _c: cmd.ConfirmCancel, ctx: Context) -> ev.TaskCanceled:
    task = work.task
    if not task.cancel_requested_at:
        raise conflict(f"Nobody asked to cancel task {name_of(task)}.", "Nothing is to be confirmed.")
    return ev.TaskCanceled(state=S.CANCELED, reason=canceled_by(ctx, task), cascade=task.cascade)


def _finish_cascade(work: Work, _c: cmd.FinishCascade, _ctx: Context) -> ev.CascadeFinished:
    return ev.CascadeFinished(**same_place(work.task))


def _cascade_again(task: Task, _c: cmd.FinishCascade, _ctx: Context) -> Unchanged | None:
    return None if task.cascade else Unchanged(task.task_id)


def _forward(work: Work, c: cmd.ForwardResult, _ctx: Context) -> ev.ResultForwarded:
    if not work.task.reply_to:
        raise conflict(f"The result of task {name_of(work.task)} goes nowhere else.", "Nothing is to be done.")
    return ev.ResultForwarded(**same_place(work.task), message=c.message, code=c.code, detail=c.detail)


def _forward_again(task: Task, _c: cmd.ForwardResult, _ctx: Context) -> Unchanged | None:
    return Unchanged(task.task_id) if task.forwarded else None


# --- the host's own moves ---------------------------------------------------------------------------------------


def _lapse(work: Work, c: cmd.LapseLease, ctx: Context) -> ev.LeaseLapsed | ev.TaskCanceled:
    task = work.task
    until = max(task.lease_until, ctx.lease_until)
    session = ctx.directory.sessions.get(task.session)
    over = ctx.now >= until or (session is not None and session.ended)
    if c.fence != task.fence or not task.lease_until or not over:
        raise conflict(f"The lease of task {name_of(task)} is not over.", "Nothing is to be done.")
    if work.in_flight:
        raise conflict(
            f"Task {name_of(task)} was pushed to its holder, and what became of it is not known.",
            "A person or a reconciler has to tell before it is tried again.",
        )
    if task.cancel_requested_at:
        return ev.TaskCanceled(state=S.CANCELED, reason=canceled_by(ctx, task), cascade=task.cascade)
    return ev.LeaseLapsed(
        state=S.SUBMITTED, reason=R.NEW, delivery_id=c.delivery_id, previous=task.holder, detail=c.detail
    )


def _recover(work: Work, _c: cmd.RecoverLease, ctx: Context) -> ev.LeaseRecovered:
    task = work.task
    leased = bool(task.session) and task.state is S.WORKING and task.reason is not R.CHECKING
    until = pull_lease(task, ctx) if leased else 0.0
    if task.state is S.SUBMITTED:  # handed over, and not taken yet
        until = ctx.now + task.lease_seconds
    return ev.LeaseRecovered(**same_place(task), fence=task.fence + 1, lease_until=until)


def _nothing_leased(task: Task, _c: cmd.RecoverLease, _ctx: Context) -> Unchanged | None:
    waits = task.state is S.SUBMITTED and task.reason in (R.NEW, R.REWORK)
    return Unchanged(task.task_id) if waits and not task.session else None


def _doubt(work: Work, c: cmd.DoubtTask, _ctx: Context) -> ev.TaskDoubted:
    if not work.in_flight and work.task.reason is not R.CHECKING:
        raise conflict(f"Nothing of task {name_of(work.task)} is being done by the host.", "Nothing is to be doubted.")
    return ev.TaskDoubted(state=S.INPUT_REQUIRED, reason=R.UNVERIFIED, detail=c.detail)


def _settle_doubt(work: Work, c: cmd.SettleDoubt, ctx: Context) -> ev.DoubtSettled:
    check_said(c.text, ctx)
    ends: dict[str, tuple[S, R]] = {
        "done": (S.COMPLETED, R.APPROVED),
        "redo": (S.SUBMITTED, R.REWORK),
        "cancel": (S.CANCELED, R.BY_PERSON),
    }
    if c.outcome == "failed":
        state, reason, _ = would_fail(work.task, R.ERROR, ctx)
    elif c.outcome in ends:
        state, reason = ends[c.outcome]
    else:
        raise invalid(f"{c.outcome!r} is no outcome.", "Use --settle done, failed, redo or cancel.")
    if ctx.actor.kind is ActorKind.HOST and c.outcome != "failed":
        raise conflict(
            f"Task {name_of(work.task)} is settled as {c.outcome} by a person alone.",
            "A result is handed in by whoever has it, so that its check and its review follow.",
        )
    if c.outcome == "redo" and 0 < work.task.deadline_at <= ctx.now:
        raise conflict(
            f"The time of task {name_of(work.task)} is over: it would expire before anybody could do it again.",
            "Settle it as failed or cancel, then send it again with more time.",
        )
    if state is S.COMPLETED:
        results.check_children(ctx, "settled as done")
    return ev.DoubtSettled(state=state, reason=reason, outcome=c.outcome, delivery_id=c.delivery_id, text=c.text)


def _expire(work: Work, c: cmd.ExpireTask, ctx: Context) -> ev.TaskExpired:
    task = work.task
    if not task.deadline_at or ctx.now < task.deadline_at or task.handed_in_at:
        raise conflict(f"The deadline of task {name_of(task)} does not end it now.", "Nothing is to be done.")
    if work.in_flight and (not c.ended or work.is_in_doubt):  # that nothing runs any more does not tell what was done
        return ev.TaskExpired(state=S.INPUT_REQUIRED, reason=R.UNVERIFIED, detail=c.detail)
    return ev.TaskExpired(state=S.FAILED, reason=R.EXPIRED, detail=c.detail)


def _restart(work: Work, c: cmd.RestartTask, ctx: Context) -> ev.TaskRestarted:
    task = work.task
    if c.done:
        return ev.TaskRestarted(state=S.SUBMITTED, reason=R.NEW, delivery_id=c.delivery_id)
    if c.why_none or task.failures >= ctx.limits.compensation_rounds:
        return ev.TaskRestarted(state=S.FAILED, reason=R.EXHAUSTED, delivery_id="", detail=c.why_none)
    return ev.TaskRestarted(state=S.SUBMITTED, reason=R.COMPENSATING, delivery_id="")


def _freeze(work: Work, _c: cmd.FreezeTask, ctx: Context) -> ev.TaskFrozen:
    task = work.task
    if task.rounds < ctx.limits.rounds:
        raise conflict(f"Task {name_of(task)} is within its rounds.", "Nothing is to be done.")
    return ev.TaskFrozen(state=S.INPUT_REQUIRED, reason=R.FROZEN, messages=task.rounds)


def _correct(work: Work, c: cmd.CorrectTask, ctx: Context) -> ev.TaskCorrected:
    check_said(c.text, ctx)
    if c.reason not in REASONS[c.state]:
        known = ", ".join(r.value or "-" for r in REASONS[c.state])
        raise invalid(f"{c.state.value} has no reason {c.reason.value!r}.", f"Use one of: {known}")
    if c.state is S.WORKING and not work.task.holder:
        raise conflict("Nobody holds it, so it cannot be working.", "Correct it to submitted/new and let it be taken.")
    assignment = work.assignment
    waits = assignment is not None and assignment.open and not assignment.in_flight
    again = c.state is S.SUBMITTED and c.reason is not R.COMPENSATING and not waits
    leased = c.state is S.WORKING and c.reason is not R.CHECKING
    return ev.TaskCorrected(
        state=c.state,
        reason=c.reason,
        delivery_id=c.delivery_id if again else "",
        lease_until=pull_lease(work.task, ctx) if leased else 0.0,
        text=c.text,
    )


def _settle(work: Work, _c: cmd.SettleTrace, ctx: Context) -> ev.TraceSettled:
    if ctx.open_parts:
        names = ", ".join(short(t) for t in ctx.open_parts[:5])
        raise conflict(f"Parts of this trace are still open: {names}.", "Finish or cancel them first.")
    return ev.TraceSettled(**same_place(work.task))


def _settle_again(task: Task, _c: cmd.SettleTrace, _ctx: Context) -> Unchanged | None:
    return Unchanged(task.task_id) if task.settled else None


def _erase(work: Work, _c: cmd.EraseTexts, _ctx: Context) -> ev.TextsErased:
    return ev.TextsErased(**same_place(work.task))


def _same_turn(task: Task, _c: cmd.MoveTurn, ctx: Context) -> Unchanged | None:
    return Unchanged(task.task_id) if not task.open or turn_of(task, ctx.directory) == task.turn else None


def _move_turn(work: Work, _c: cmd.MoveTurn, _ctx: Context) -> ev.TurnMoved:
    return ev.TurnMoved(**same_place(work.task))


def _mode(work: Work, c: cmd.SetTaskMode, _ctx: Context) -> ev.TaskModeChanged:
    if c.mode not in ("paused", "running"):
        raise invalid(f"A task cannot be {c.mode}.", "Use pause or resume; `tally cancel` ends it.")
    return ev.TaskModeChanged(**same_place(work.task), mode=c.mode)


MOVES: dict[type, Callable[[Work, Any, Context], ev.TaskEvent]] = {
    cmd.ClaimTask: _claim,
    cmd.ReportProgress: _progress,
    cmd.AskQuestion: _ask,
    cmd.AnswerQuestion: _answer,
    cmd.HandInResult: results.hand_in,
    cmd.ReportCheck: results.report_check,
    cmd.ApproveResult: results.approve,
    cmd.RequestChanges: results.request_changes,
    cmd.RefuseResult: results.refuse,
    cmd.DeclineTask: results.decline,
    cmd.FailTask: results.fail,
    cmd.AdmitTask: _admit,
    cmd.TurnAwayTask: _turn_away,
    cmd.RequestPermission: _request_permission,
    cmd.DecidePermission: _decide_permission,
    cmd.CancelTask: _cancel,
    cmd.ConfirmCancel: _confirm_cancel,
    cmd.FinishCascade: _finish_cascade,
    cmd.ForwardResult: _forward,
    cmd.ReassignTask: handover.reassign,
    cmd.ReleaseTask: handover.release,
    cmd.LapseLease: _lapse,
    cmd.RecoverLease: _recover,
    cmd.DoubtTask: _doubt,
    cmd.SettleDoubt: _settle_doubt,
    cmd.ExpireTask: _expire,
    cmd.RestartTask: _restart,
    cmd.FreezeTask: _freeze,
    cmd.CorrectTask: _correct,
    cmd.SettleTrace: _settle,
    cmd.EraseTexts: _erase,
    cmd.MoveTurn: _move_turn,
    cmd.SetTaskMode: _mode,
    cmd.StartTurn: prompts.start,
    cmd.NoteTurn: prompts.note,
    cmd.EndTurn: prompts.end,
}

REPLAYS: dict[type, Callable[[Task, Any, Context], Unchanged | None]] = {
    cmd.ClaimTask: _claim_again,
    cmd.CancelTask: _cancel_again,
    cmd.FinishCascade: _cascade_again,
    cmd.ForwardResult: _forward_again,
    cmd.MoveTurn: _same_turn,
    cmd.ReleaseTask: handover.release_again,
    cmd.SettleTrace: _settle_again,
    cmd.RecoverLease: _nothing_leased,
    cmd.NoteTurn: prompts.too_late,
    cmd.EndTurn: prompts.too_late,
}
"""Commands that may come again: recognised before anything but the actor is checked."""
