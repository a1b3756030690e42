"""Sends a result on to the capability that its sender named beside the first: a message of its own, once.

Its key is made from the task whose result it is, so a host that stopped in the middle finds what it had sent.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.app.ports import NewId
from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.errors import ErrorCode, Refused, invalid
from tallystick.core.identity import CAPABILITY_PREFIX, HOST, Prefix
from tallystick.core.limits import Limits
from tallystick.core.model import Brief, TaskState
from tallystick.core.route import addressed, holders
from tallystick.core.state import Task, Work
from tallystick.store.interface import Store


class _Result(NamedTuple):
    """How a task ended: its words, and the position of the event that closed it."""

    body: str
    position: int


class Forwarding:
    """One for a host. The message is the requester's own, so whatever becomes of it is told there."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        gather: Gather,
        executor: Executor,
        new_id: NewId,
        limits: Limits,
        reached: Reached = unmoved,
    ) -> None:
        self._store = store
        self._heads = heads
        self._gather = gather
        self._executor = executor
        self._new_id = new_id
        self._limits = limits
        self._reached = reached

    async def forward(self, work: Work) -> None:
        """Send the result of a task on, and record that; or why that cannot be. Raises `Refused` where it may be
        otherwise in a moment."""
        task = work.task
        result = await self._result(task)
        try:
            sent = cmd.ForwardResult(task_id=task.task_id, message=await self._sent(task, result))
        except Refused as refused:
            if refused.code is ErrorCode.UNAVAILABLE:
                raise
            detail = f"{refused.message} {refused.remedy}"
            sent = cmd.ForwardResult(task_id=task.task_id, code=refused.code.value, detail=detail)
        self._reached("forwarding.after_sent")
        await self._executor.execute(sent, HOST, cause=result.position)

    async def _sent(self, task: Task, result: _Result) -> str:
        """The task that brings the result there: the one that is there already, or a new one."""
        key = f"reply/{task.task_id}"
        known = await self._gather.duplicate(task.workspace, task.requester, key)
        if known is not None and known.forwards == task.task_id:
            return known.task_id
        command = self._message(task, result.body, key)
        outcome = await self._executor.execute(command, HOST, cause=result.position)
        return outcome.work.task.task_id if outcome.work is not None else command.task_id

    def _message(self, task: Task, body: str, key: str) -> cmd.SubmitTask:
        size = len(body.encode("utf-8", "surrogatepass"))
        if size > self._limits.reach_bytes:
            raise invalid(
                f"The result has {size} bytes; a message takes {self._limits.reach_bytes}.",
                "Have it handed in as a file.",
            )
        spec = task.reply_to
        to = addressed(spec, holders(spec, task.workspace, self._heads.directory, task.domains, task.requester))
        context = msgspec.json.encode({"related": [task.task_id]}).decode()
        title = f"Result of: {task.title}"[: self._limits.title_characters]
        return cmd.SubmitTask(
            task_id=self._new_id(Prefix.TASK),
            workspace=task.workspace,
            trace=task.trace,
            delivery_id=self._new_id(Prefix.DELIVERY),
            message_id=self._new_id(Prefix.MESSAGE),
            text=ev.Text(title=title, body=body, brief=Brief(context=context)),
            assignee=to,
            capability="" if to.startswith(CAPABILITY_PREFIX) else spec,
            requester=task.requester,
            key=key,
            parent="",
            forwards=task.task_id,
            traceparent=task.traceparent,
            inputs=task.references,
            repository=task.repository,
            base_commit=task.base_commit,
            domains=task.domains or None,
        )

    async def _result(self, task: Task) -> _Result:
        """What was handed in, or what a person said who told that it was done."""
        body, closing = "", None
        for recorded in self._heads.histories.of(task.task_id) or await self._store.load(task.task_id):
            event = recorded.event
            if isinstance(event, ev.ResultHandedIn) or (isinstance(event, ev.DoubtSettled) and event.outcome == "done"):
                body = event.text.body if event.text else ""
            if closing is None or not (_completes(closing) and _completes(recorded)):
                closing = recorded
        return _Result(body, closing.position if closing is not None else 0)


def _completes(recorded: ev.Recorded) -> bool:
    return isinstance(recorded.event, ev.TaskEvent) and recorded.event.state is TaskState.COMPLETED
