"""The delivery machine: seven facts, each said by its own witness; retry only before dispatch; doubt after it.

A delivery is part of its task's stream. Most facts follow from task events (one command, one event); only what no task
move says has an event of its own.
"""

from tallystick.core.delivery.decide import decide
from tallystick.core.delivery.fold import evolve

__all__ = ["decide", "evolve"]
