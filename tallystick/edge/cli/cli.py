"""The door of `tally`: parse, let the desk do it, render. Runs inside the host, once for each command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from tallystick.app.calls import Call
from tallystick.app.desk.interface import Desk
from tallystick.core.errors import Refused, invalid
from tallystick.edge.cli import (
    completion,
    verbs_clients,
    verbs_host,
    verbs_places,
    verbs_reading,
    verbs_routes,
    verbs_tasks,
    verbs_tokens,
)
from tallystick.edge.cli.errors import encode, error_data, exit_code
from tallystick.edge.cli.help import reference_of
from tallystick.edge.cli.page import page_for
from tallystick.edge.cli.parse import Parsed, Usage, parse, wants_json
from tallystick.edge.cli.render_outcome import INTERRUPTED
from tallystick.edge.cli.run import Host, Run, SomeFailed, Status, Stop, error_text
from tallystick.edge.cli.spec import Verb
from tallystick.edge.cli.wait import Interrupted

_COMPLETE = Verb(
    name="__complete",
    group="",
    summary="For the scripts of shells.",
    example="",
    run=completion.complete,
    argv="WORDS…",
)

_ORDER = "ask inbox show take question answer progress submit approve changes refuse decline release cancel reassign"


def _all_verbs() -> dict[str, Verb]:
    """Every verb by its name and its other names, tasks in the order in which they happen."""
    places = {name: number for number, name in enumerate(_ORDER.split())}
    tasks = (*verbs_tasks.VERBS, *verbs_reading.VERBS)
    ordered = sorted(tasks, key=lambda verb: places.get(verb.name, len(places)))
    places_verbs = (*verbs_places.VERBS, *verbs_routes.VERBS, *verbs_tokens.VERBS)
    verbs = (*ordered, *places_verbs, *verbs_clients.VERBS, *verbs_host.VERBS, _COMPLETE)
    return {name: verb for verb in verbs for name in (verb.name, *verb.also)}


VERBS: Final[dict[str, Verb]] = _all_verbs()
"""Everything that `tally` understands."""


def reference() -> dict[str, Any]:
    """All verbs, options and exit codes as plain data, from which the docs are generated."""
    return reference_of(VERBS)


def _local_now() -> datetime:
    return datetime.now().astimezone()


class Cli:
    """Answers the operation `cli`: `arguments["argv"]` is what was typed after `tally`; the answer is the exit code.

    `status` gives what `tally status` shows (with `pid`); `stop` begins to stop the host and returns without waiting
    for the running calls, of which this is one. `now` gives a local time, for how times are shown.
    """

    def __init__(self, desk: Desk, *, status: Status, stop: Stop, now: Callable[[], datetime] = _local_now) -> None:
        self._desk = desk
        self._host = Host(status, stop, now)

    async def __call__(self, call: Call) -> int:
        """Answer one command."""
        argv = _argv(call)
        try:
            parsed = parse(argv, VERBS)
        except Usage as error:
            return await self._misused(call, error, as_json=wants_json(argv))
        return await self._answer(Run(self._desk, self._host, VERBS, call, parsed))

    async def _answer(self, run: Run) -> int:
        try:
            return await _verb_of(run.parsed)(run)
        except (Refused, Usage) as error:
            return await run.fail(error)
        except SomeFailed as error:
            return error.code
        except Interrupted:
            return INTERRUPTED

    async def _misused(self, call: Call, error: Usage, *, as_json: bool) -> int:
        if as_json:
            await call.out(encode(error_data(error)))
        else:
            await call.err(error_text(page_for(call.facts, self._host.now(), ""), call, error))
        return exit_code(error)


def _verb_of(parsed: Parsed) -> Callable[[Run], Awaitable[int]]:
    return verbs_host.show_help if parsed.help or parsed.verb is None else parsed.verb.run


def _argv(call: Call) -> list[str]:
    try:
        return msgspec.convert(call.arguments.get("argv", []), list[str])
    except msgspec.ValidationError:
        raise invalid("`argv` must be a list of strings.", "Send what was typed after `tally`.") from None
