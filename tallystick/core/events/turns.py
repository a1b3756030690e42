"""Events of turns: one prompt to a session that the host drives, what came of it, and what it used.

They stand in the stream of the task that the prompt was for, so a task's history shows what was done for it.
"""

from __future__ import annotations

from tallystick.core.events.task import TaskEvent
from tallystick.core.model import Spent


class TurnStarted(TaskEvent, frozen=True, kw_only=True):
    """A prompt is about to be sent: the write-ahead intent of this turn."""

    turn_id: str
    session: str
    delivery_id: str
    """What the prompt hands over; the assignment itself where it only reminds of it."""
    purpose: str
    """work, changes, answer, refuted, parts, reminder or resumed."""
    lost: str = ""
    """An earlier turn that the host lost sight of; it is over."""


class TurnNoted(TaskEvent, frozen=True, kw_only=True):
    """What a turn said and did since the last note; the words stand in `text`. Never one event for each update."""

    turn_id: str
    spent: Spent = Spent()
    """Of this turn so far."""
    updates: int = 0
    """How many updates of the client this sums up."""


class TurnEnded(TaskEvent, frozen=True, kw_only=True):
    """A turn is over. That says nothing about the task; the last words stand in `text`."""

    turn_id: str
    stop: str
    """The client's stop reason (`end_turn`, `cancelled`, `refusal`, `max_tokens`, …), or `lost`, `failed`, `quota`,
    `ended`, `unanswered`, `over_budget` where the host says so."""
    spent: Spent = Spent()
    detail: str = ""


TurnEvents = TurnStarted | TurnNoted | TurnEnded
