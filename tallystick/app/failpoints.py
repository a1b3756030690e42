"""The places in the host where a crash must do no harm, by name: a test has a process killed at each of them.

A host gets `unmoved`; only a test's own program puts something else in its place. No setting leads here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tallystick.core.task import DutyKind

Reached = Callable[[str], None]
"""Told the name of each place as it is reached."""

FAILPOINTS: Final = (
    "executor.before_append",
    "executor.after_append",
    "custody.after_start",
    "custody.mid_recovery",
    "custody.after_recovery",
    "deliver.mid_recovery",
    "deliver.before_lease",
    "deliver.after_lease",
    "deliver.before_begin",
    "deliver.after_begin",
    "deliver.before_report",
    "deliver.after_report",
    "wakes.before_intent",
    "wakes.after_intent",
    "wakes.before_report",
    "wakes.after_report",
    "command.prepared",
    "process.before_launch",
    "process.after_launch",
    "verify.before_run",
    "verify.before_report",
    "verify.after_report",
    "forwarding.after_sent",
    *(f"duties.before_{kind.value}" for kind in DutyKind),
)
"""Every place of the host itself. The store has its own list."""


def unmoved(_place: str) -> None:
    """Nothing happens."""
