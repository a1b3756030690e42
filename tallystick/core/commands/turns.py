"""Commands of turns: what the host says of the prompts that it sends to sessions it drives."""

from __future__ import annotations

from tallystick.core.commands.task import TaskCommand
from tallystick.core.events import Text
from tallystick.core.model import Spent


class StartTurn(TaskCommand, frozen=True, kw_only=True):
    """Write down that a prompt is about to be sent."""

    turn_id: str
    session: str
    delivery_id: str
    purpose: str
    lost: str = ""


class NoteTurn(TaskCommand, frozen=True, kw_only=True):
    """Sum up what a turn said and did since the last note."""

    turn_id: str
    text: Text
    spent: Spent = Spent()
    updates: int = 0


class EndTurn(TaskCommand, frozen=True, kw_only=True):
    """Say that a turn is over, and how."""

    turn_id: str
    stop: str
    text: Text | None = None
    spent: Spent = Spent()
    detail: str = ""


TurnCommands = StartTurn | NoteTurn | EndTurn
