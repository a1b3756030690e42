"""Folding the events of a task's stream into its work: the task and its deliveries. Total and without rules."""

from __future__ import annotations

from tallystick.core import delivery, task
from tallystick.core import events as ev
from tallystick.core.state import Work


def evolve(work: Work | None, recorded: ev.Recorded) -> Work:
    """The work after one more event of its stream."""
    after = task.evolve(work.task if work else None, recorded)
    return Work(after, delivery.evolve(work.deliveries if work else (), recorded, after))
