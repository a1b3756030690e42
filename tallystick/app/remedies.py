"""What whoever waited for a message does next, by how it ended: one row for each code.

May live here: the sentences, and the choice among them.
"""

from __future__ import annotations

from typing import Final

from tallystick.core.identity import short
from tallystick.core.model import Reason
from tallystick.core.state import Task

BY_CODE: Final = {
    "invalid": "Correct what was sent: the same again fails again.",
    "denied": "Its holder does not do it; the same again is refused again. Ask another one.",
    "no_route": "See who offers what with `tally routes`, and start a holder.",
    "offline": "See who is there with `tally routes`; start a holder, and send it again as a new message.",
    "timeout": "It was begun, and was stopped when its time was over: give it more time if it is sent again.",
    "canceled": "It was taken back; send a new message if it is wanted after all.",
    "unavailable": "It may go better later: send it again as a new message if it is still wanted.",
    "internal": "The host had an error of its own: `tally doctor`.",
    "failed": "Its handler raised that error, and the same again most likely raises it again; the stack trace is in "
    "the log of the spoke.",
}
"""A code that is not here is one of a handler's own."""
_ELSE: Final = "Look at what its handler says before the same is sent again."
_BEGUN_INVALID: Final = (
    "Its handler had begun. Where the message speaks of the result, the handler is what is to be corrected: see the "
    "log of the spoke. Else correct what was sent. The same again fails again."
)
_REFUTED: Final = (
    "Its result was looked at and refused: its handler is what is to be corrected, or what it is asked for. The same "
    "again is most likely refused again."
)
_EXHAUSTED: Final = "It failed, and so did what was to make it good; look at both before it is sent again."
_NOT_BEGUN: Final = "See who is there with `tally routes`; start a holder, or give it more time, and send it again."


def remedy_of(task: Task, code: str) -> str:
    """The next step after a message that ended without a result, for the code that its sender is told."""
    if task.reason is Reason.EXPIRED and not task.taken_at:
        return _NOT_BEGUN
    return f"{_said(task, code)} What happened: tally trace {short(task.task_id)}"


def _said(task: Task, code: str) -> str:
    by_reason = {Reason.EXHAUSTED: _EXHAUSTED, Reason.REFUTED: _REFUTED}
    if task.reason in by_reason:
        return by_reason[task.reason]
    if code == "invalid" and task.taken_at:  # what does not fit is refused before its handler begins
        return _BEGUN_INVALID
    return BY_CODE.get(code, _ELSE)


def remedy_of_doubt(task: Task) -> str:
    """The next step where nobody knows what became of it: never to send it again unseen."""
    return (
        "Do not send it again unseen. If its spoke is away, it may tell what came of it once it is back; else a person "
        f"looks at what it did, and says so: tally verify {short(task.task_id)} --settle done|failed|redo|cancel TEXT"
    )
