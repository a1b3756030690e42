"""Further prompts to a driven session that could not be sent (its client does not start): each is tried again as a
delivery is, and after the last time the task's requester is asked, so that nothing waits unseen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tallystick.app.clock import HighWater
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.outcomes import Outcomes
from tallystick.core.directory import Agent
from tallystick.core.limits import Limits
from tallystick.core.state import Task, Work

AskBack = Callable[[Task, str, str, str], Awaitable[bool]]
"""See `app.driving.Driving.asked_back`."""


async def _nobody_asks(_task: Task, _delivery_id: str, _session: str, _text: str) -> bool:
    return False


class FurtherPrompts:
    """Remembers what could not be sent, for as long as this host lives: the next one begins to try anew."""

    def __init__(self, outcomes: Outcomes, clock: HighWater, limits: Limits, diagnostics: Diagnostics) -> None:
        self._outcomes = outcomes
        self._clock = clock
        self._limits = limits
        self._diagnostics = diagnostics
        self._tries: dict[str, int] = {}
        """By task: how often its next prompt could not be sent."""
        self._not_before: dict[str, float] = {}
        """By task: when it is tried again, on boot time."""
        self.ask_back: AskBack = _nobody_asks

    def waits(self, task_id: str) -> bool:
        """Whether it is not yet time to try again."""
        return self._not_before.get(task_id, 0.0) > self._clock.clock.boot()

    def sent(self, task_id: str) -> None:
        """It could be sent, or need not be any more."""
        self._tries.pop(task_id, None)
        self._not_before.pop(task_id, None)

    async def returned(self, agent: Agent, work: Work, delivery_id: str, detail: str) -> None:
        """It could not be sent, and nothing of it was."""
        task_id = work.task.task_id
        tries, waits = self._tries.get(task_id, 0), self._limits.retry_seconds
        self._diagnostics.record("prompt returned", task=task_id, agent=agent.agent_id, tries=tries + 1, detail=detail)
        if tries < len(waits):
            self._tries[task_id] = tries + 1
            self._not_before[task_id] = self._clock.clock.boot() + waits[tries]
            return
        self.sent(task_id)
        if not await self.ask_back(work.task, delivery_id, work.task.session, _question(agent, detail)):
            await self._outcomes.unknown(task_id, delivery_id, detail)  # a person has to look


def _question(agent: Agent, detail: str) -> str:
    return (
        f"The session of @{agent.alias} that has this could not be gone on with: {detail}\n"
        "Answer to have it tried again, or give the task to somebody else with `tally reassign`."
    )
