"""The task machine: the table of moves, how they are decided, how their events change a task, whose turn it is."""

from tallystick.core.task.decide import decide
from tallystick.core.task.duty import Duty, DutyKind, due_duties, next_duty
from tallystick.core.task.fold import evolve, moved, with_turn
from tallystick.core.task.prompts import is_held_back, may_resume, wanted
from tallystick.core.task.table import REASONS, TRANSITIONS, Role, Transition, board_label
from tallystick.core.task.turn import turn_of

__all__ = [
    "REASONS",
    "TRANSITIONS",
    "Duty",
    "DutyKind",
    "Role",
    "Transition",
    "board_label",
    "decide",
    "due_duties",
    "evolve",
    "is_held_back",
    "may_resume",
    "moved",
    "next_duty",
    "turn_of",
    "wanted",
    "with_turn",
]
