"""What follows from the end of a turn: the session is prompted once more, or the task is in other hands.

One prompt after the other; what became of the task meanwhile is read from the record each time.
"""

from __future__ import annotations

from tallystick.app.driving import Driving
from tallystick.app.ports import Receipt
from tallystick.core.errors import Refused
from tallystick.core.model import Reason, TaskState
from tallystick.core.state import Work
from tallystick.edge.acp import words
from tallystick.edge.acp.history import History
from tallystick.edge.acp.session import Session
from tallystick.edge.acp.turn import Ended, Running


class Following:
    """Prompts a session about a task until nothing more is to be said to it."""

    def __init__(self, driving: Driving, history: History) -> None:
        self._driving = driving
        self._history = history

    async def turns(self, session: Session, run: Running, purpose: str) -> Receipt | None:
        """Prompt after prompt, until the task is in other hands; None while it waits for its parts."""
        while True:
            work = await self._driving.work(run.envelope.task_id)
            if work is None or run.is_ending:
                return Receipt(outcome="ended")
            if purpose == "resumed" and not self._driving.may_go_on(work.task):
                return Receipt(outcome="unverified", detail=f"It was interrupted {work.task.resumes + 1} times.")
            over = work.task.spent.over(work.task.budget)
            if over:
                return await self._over_budget(work, over)
            run.turn_to(work, purpose)
            run.parts = await self._driving.parts(work.task.task_id)
            try:
                ended = await run.turn(purpose)
            except Refused as refusal:
                is_begun = purpose not in ("work", "changes") and not run.envelope.purpose
                waits = is_begun and self._driving.is_held_back(work.task, session.session_id)
                # What waits is gone on with once a person lets it go on: nothing has failed.
                return Receipt(outcome="told" if waits else "returned", detail=str(refusal))
            receipt = await self._after(session, run, ended)
            if receipt is not None or run.waits_for:
                return receipt
            purpose = run.next_purpose

    async def _after(self, session: Session, run: Running, ended: Ended) -> Receipt | None:
        """What follows from the end of a turn; None where the session is prompted once more."""
        work = ended.work
        if work is None or ended.stop == "ended":
            return Receipt(outcome="ended")
        if ended.over:
            return await self._over_budget(work, ended.over)
        if ended.stop == "quota":
            return await self._used_up(session, run, ended, work)
        if ended.stop == "unanswered":
            return Receipt(outcome="unverified", detail=ended.detail)
        if ended.stop == "lost" or (ended.stop == "failed" and session.can_go_on):
            return await self._broke_off(session, run, ended)
        return await self._left_open(session, run, ended, work)

    async def _over_budget(self, work: Work, over: str) -> Receipt:
        """Its budget is used up, and the host says so. A task that waits for an answer is ended once that has come."""
        await self._driving.failed(work.task.task_id, f"Its budget is used up: {over}.", Reason.BUDGET)
        return Receipt(outcome="told")

    async def _used_up(self, session: Session, run: Running, ended: Ended, work: Work) -> Receipt:
        """Its client's quota is used up: the task goes on with whom the agent's own file names, else its requester is
        told. Nothing is tried again by itself."""
        if not wanted(work, session.session_id):
            return Receipt(outcome="told")
        other, why = session.own.handover, ""
        if other:
            text = words.handed_on(session.agent.alias, ended.detail)
            why = await self._driving.handed_on(work.task.task_id, other, text)
            if not why:
                return Receipt(outcome="told")
        text = words.used_up(work.task.task_id, session.client.title, ended.detail, why)
        await self._driving.asked_back(work.task, run.envelope.delivery_id, session.session_id, text)
        return Receipt(outcome="told")

    async def _left_open(self, session: Session, run: Running, ended: Ended, work: Work) -> Receipt | None:
        """A turn ended in order. If the task is still the session's: remind it once, then ask its requester."""
        run.next_purpose = wanted(work, session.session_id)
        if not run.next_purpose:
            return Receipt(outcome="told")
        if run.next_purpose == "reminder" and work.task.state is TaskState.WORKING:
            run.waits_for = await self._driving.parts(work.task.task_id)
            if run.waits_for:
                return None
            if run.parts:  # they ended while it was at work, and nobody told it
                run.next_purpose = "parts"
                return None
        if run.next_purpose == "reminder" and work.task.reminders:
            text = words.left_open(ended.last or ended.detail)
            await self._driving.asked_back(work.task, run.envelope.delivery_id, session.session_id, text)
            return Receipt(outcome="told")
        return None

    async def _broke_off(self, session: Session, run: Running, ended: Ended) -> Receipt | None:
        """The client went away in the middle of a turn, or said that the turn failed: something below it may have gone
        away. How far it was nobody saw; another process of it looks into its own history."""
        await session.close()
        work = ended.work
        run.work = work or run.work
        if work is None or wanted(work, session.session_id) == "":
            return Receipt(outcome="told")
        if not self._driving.may_go_on(work.task):
            return await self._gave_up(session, run, ended, work)
        await self._driving.doubted(run.envelope.task_id, run.assignment_id, ended.detail)
        return await self._history.look_back(session, run)

    async def _gave_up(self, session: Session, run: Running, ended: Ended, work: Work) -> Receipt:
        """It broke off again and again. What its client said goes to the requester; of one that is silent a person has
        to find out what it did."""
        if ended.stop != "failed":
            return Receipt(outcome="unverified", detail=f"It broke off {work.task.resumes + 1} times. {ended.detail}")
        text = words.broke_off(ended.detail)
        await self._driving.asked_back(work.task, run.envelope.delivery_id, session.session_id, text)
        return Receipt(outcome="told")


def wanted(work: Work, session_id: str) -> str:
    """What a session is to be prompted for when its turn has ended; empty where the task is not its any more."""
    task, assignment = work.task, work.assignment
    if task.session != session_id or task.cancel_requested_at:
        return ""
    if task.state is TaskState.WORKING and task.reason is not Reason.CHECKING:
        return "answer" if task.reason is Reason.ANSWERED else "refuted" if task.refuted else "reminder"
    waits = task.state is TaskState.SUBMITTED and assignment is not None and assignment.in_flight
    return "reminder" if waits else ""
