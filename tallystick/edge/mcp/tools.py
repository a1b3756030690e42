"""The one table of tools: what agents load, on every transport and in every version of the protocol.

All text together is bounded (a test counts it), because every agent pays for it in every conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from tallystick.app.desk.interface import Desk, Guest
from tallystick.edge.mcp import verbs
from tallystick.edge.mcp.arguments import Argument, schema
from tallystick.edge.mcp.verbs import Answer, Arguments

Run = Callable[[Desk, Guest, Arguments, str], Awaitable[Answer]]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool."""

    name: str
    help: str
    arguments: tuple[Argument, ...] = ()
    run: Run
    reads: bool = False
    """It changes nothing but what counts as seen."""
    registers: bool = False
    """It makes the repository that the caller is in a workspace."""
    goes_on: bool = False
    """Sent again because the host went away in the middle, it goes on: `begun_at` (UTC seconds) is among its arguments,
    because what it waits for may have happened meanwhile."""

    def described(self) -> dict[str, Any]:
        """As `tools/list` shows it."""
        hints = {"readOnlyHint": True} if self.reads else {"destructiveHint": False}
        return {
            "name": self.name,
            "description": self.help,
            "inputSchema": schema(self.arguments),
            "annotations": hints,
        }


def _text(name: str, help_text: str = "", *, required: bool = False, choices: tuple[str, ...] = ()) -> Argument:
    return Argument(name=name, kind="string", help=help_text, required=required, choices=choices)


def _of(kind: str, name: str, help_text: str = "", least: float | None = None, most: float | None = None) -> Argument:
    return Argument(name=name, kind=kind, help=help_text, least=least, most=most)


_TASK = _text("task", "id, 4+ end characters, or @last", required=True)
_WORDS = _text("text", required=True)

_TABLE = (
    Tool(
        name="inbox",
        help="What waits for you: tasks whose turn is yours, and notices. Look at it first and at pauses.",
        arguments=(_of("integer", "limit", "20 by default", 1, 100),),
        run=verbs.inbox,
        reads=True,
    ),
    Tool(
        name="read",
        help="All of a task: request, references, question, result, checks. Read before take and before review.",
        arguments=(_TASK, _of("boolean", "history", "also every event")),
        run=verbs.read,
        reads=True,
    ),
    Tool(
        name="ask",
        help=(
            "Hand work to another agent, e.g. when your user writes @name. Returns a receipt at once; follow with "
            "wait. Say all it needs: it sees nothing of this conversation."
        ),
        arguments=(
            _text("to", "@name, cap:Name, @coordinator or @human", required=True),
            _text("subject", "in a few words", required=True),
            _text("body", "the whole request"),
            _of("list", "inputs", "what it is about: PATH, PATH:10-80, commit, COMMIT:PATH or URL"),
            _text("expect", choices=("answer", "finding", "change")),
            _text("done_when", "name of a registered check that decides"),
            _text("review_by", "@name"),
            _text("deadline", "90s, 2h, 3d or ISO time"),
            _text("parent", "task this is part of, or none; else the one you hold"),
            _text("retry_of", "ended task to try anew"),
            _of("boolean", "wake", "wake it if it sleeps"),
            _text("session", "of a driven agent", choices=("reuse", "fresh", "fork")),
            _text("key", "asked again with it, the first task comes back"),
        ),
        run=verbs.ask,
        registers=True,
    ),
    Tool(
        name="take",
        help="Accept a task and get its whole brief; or decline it; or release one you hold (also confirms a cancel).",
        arguments=(
            _TASK,
            _text("action", "accept by default", choices=("accept", "decline", "release")),
            _text("text", "why, if you decline or release"),
        ),
        run=verbs.take,
    ),
    Tool(
        name="progress",
        help="Say how far a task you hold is. Keeps it yours.",
        arguments=(_TASK, _WORDS, _of("number", "fraction", "", 0, 1)),
        run=verbs.progress,
    ),
    Tool(
        name="question",
        help="Ask the requester of a task you hold, if you cannot go on without; the turn moves there.",
        arguments=(_TASK, _WORDS),
        run=verbs.question,
    ),
    Tool(
        name="answer",
        help="Answer the question of a task you asked for.",
        arguments=(_TASK, _WORDS),
        run=verbs.answer,
    ),
    Tool(
        name="submit",
        help=(
            "Hand in the result of a task you hold, or say that it failed. A change needs its commit; "
            "the host checks it."
        ),
        arguments=(
            _TASK,
            _text("text", "the result, or why it failed"),
            _text("outcome", "done by default", choices=("done", "failed")),
            _text("commit", "holds the change"),
            _of("list", "files", "what it rests on: PATH or PATH:10-80"),
            _of("boolean", "review", "ask for a review"),
        ),
        run=verbs.submit,
    ),
    Tool(
        name="review",
        help="Decide on a result that waits for you, after reading it: approve, ask for changes, or refuse for good.",
        arguments=(
            _TASK,
            _text("verdict", required=True, choices=("approve", "changes", "refuse")),
            _text("text", "what to change, or why"),
            _of("integer", "revision", "else the one you last read"),
        ),
        run=verbs.review,
    ),
    Tool(
        name="overview",
        help=(
            "The board of tasks, the agents with their strengths, the workspace's context, or who offers which "
            "capability."
        ),
        arguments=(
            _text("what", "board by default", choices=("board", "agents", "context", "routes")),
            _of("boolean", "all", "board: closed tasks too"),
        ),
        run=verbs.overview,
        reads=True,
    ),
    Tool(
        name="wait",
        help=(
            "Wait until a task changes, is closed or your turn, and get it; without task, until your inbox has "
            "something new. At most 40 s: call again if timed_out."
        ),
        arguments=(
            _text("task", "as for read"),
            _of("integer", "version", "newer than this one"),
            _of("number", "seconds", "", 0, 40),
        ),
        run=verbs.wait,
        reads=True,
        goes_on=True,
    ),
)

TOOLS: Final[dict[str, Tool]] = {tool.name: tool for tool in _TABLE}
"""Every tool by its name, in the order in which it is listed."""

LISTED: Final[list[dict[str, Any]]] = [tool.described() for tool in _TABLE]
"""What `tools/list` shows."""
