"""The rules of waking: when a sleeping session may be told to look again, and what may be said of it afterwards.

At most one open wake for each session and each target. Only the host wakes and reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused, conflict, denied, invalid, not_found
from tallystick.core.identity import ActorKind, short
from tallystick.core.route import agent_mode, strictest
from tallystick.core.state import Context, Unchanged
from tallystick.core.wake import BY_OUTCOME, WATCHED, Wake, not_before

_DETAIL = 500


def _host_only(ctx: Context) -> None:
    if ctx.actor.kind is not ActorKind.HOST:
        raise denied("Only the host wakes a session.", "Ask for the work; whoever sleeps is woken for it.")


def _intend(c: cmd.IntendWake, ctx: Context) -> ev.WakeIntended | Unchanged:
    _host_only(ctx)
    agent = ctx.directory.agent(c.agent_id)
    _check_mode(agent, c, ctx)
    waking = agent.waking
    _check_none_open(agent, c.target, c.session)
    if c.until <= waking.cursors.get(c.target, 0):
        return Unchanged(c.agent_id)
    at = not_before(waking.wakes.get(c.target), c.until, ctx.limits)
    if at is None or at > ctx.now:
        raise conflict(
            f"@{agent.alias} was woken for this {waking.wakes[c.target].tries} times in vain.",
            "It is tried again later, or when something newer comes.",
        )
    return ev.WakeIntended(
        wake_id=c.wake_id, target=c.target, session=c.session, entry=c.entry, until=c.until, items=c.items
    )


def _check_mode(agent: Agent, c: cmd.IntendWake, ctx: Context) -> None:
    session = ctx.directory.sessions.get(c.session)
    if c.session and (session is None or session.ended or session.agent != c.agent_id):
        raise conflict(f"The session {short(c.session)} is not there any more.", "Nothing is to be done.")
    workspace = session.workspace if session else c.target
    mode = strictest(agent_mode(agent, ctx.directory, workspace), session.mode if session else "running")
    if mode != "running":
        raise conflict(
            f"@{agent.alias} cannot be woken now: a person has set this to {mode}.",
            "Wait until a person says `tally resume`.",
        )


def _check_none_open(agent: Agent, target: str, session: str) -> None:
    for wake in agent.waking.wakes.values():
        if wake.open and (wake.target == target or (session and wake.session == session)):
            raise conflict(
                f"The wake {short(wake.wake_id)} of @{agent.alias} is {wake.outcome}; there is one at a time.",
                "It is told of what comes when that one is over.",
            )


def _report(c: cmd.ReportWake, ctx: Context) -> ev.WakeReported | Unchanged:
    _host_only(ctx)
    agent = ctx.directory.agent(c.agent_id)
    wake = agent.waking.wake(c.wake_id)
    if wake is None:
        raise conflict(f"There is no wake {short(c.wake_id)} of @{agent.alias} any more.", "Nothing is to be done.")
    row = BY_OUTCOME.get(c.outcome)
    if row is None:
        raise invalid(f"{c.outcome!r} is nothing that can become of a wake.", "See docs/reference/wakes.md.")
    if wake.outcome == c.outcome and c.turn in ("", wake.turn):
        return Unchanged(c.agent_id)
    if wake.outcome not in row.after:
        raise _out_of_order(wake, c.outcome)
    if not wake.open and row.then == "open":  # a doubt is settled late, and another may be open meanwhile
        _check_none_open(agent, wake.target, wake.session)
    if wake.turn and c.turn and c.turn != wake.turn:
        raise conflict(
            f"The wake {short(wake.wake_id)} started turn {wake.turn}, not {c.turn}.", "Only its own turn counts."
        )
    if row.then == "done" and not (c.turn or wake.turn):
        raise conflict(f"Which turn of {short(wake.wake_id)} completed is not known.", "It stays as it is.")
    return ev.WakeReported(wake_id=c.wake_id, outcome=c.outcome, turn=c.turn, detail=c.detail[:_DETAIL])


def _out_of_order(wake: Wake, outcome: str) -> Refused:
    return conflict(f"The wake {short(wake.wake_id)} is {wake.outcome}; it cannot be {outcome}.", "It stays as it is.")


def _itself(c: Any, ctx: Context) -> Agent:
    agent = ctx.directory.agent(c.agent_id)
    if ctx.actor.kind is ActorKind.AGENT and ctx.actor.id != agent.agent_id:
        raise denied("An agent lets only itself be woken.", "Ask the person you work for.")
    return agent


def _add_watch(c: cmd.AddWatch, ctx: Context) -> ev.WatchAdded:
    agent = _itself(c, ctx)
    if c.kind not in WATCHED:
        raise invalid(f"{c.kind!r} cannot be watched.", "Watch --inbox, a --file or a --ref.")
    if c.workspace not in agent.workspaces:
        raise conflict(f"@{agent.alias} is not a member there.", "See `tally agents`.")
    if len(agent.waking.watches) >= ctx.limits.watches:
        raise conflict(
            f"@{agent.alias} watches {len(agent.waking.watches)} sources; the limit is {ctx.limits.watches}.",
            "Remove one: tally watch list",
        )
    what = (c.workspace, c.kind, c.path, c.ref)
    for watch in agent.waking.watches.values():
        if (watch.workspace, watch.kind, watch.path, watch.ref) == what:
            raise conflict(f"@{agent.alias} watches this already ({short(watch.watch_id)}).", "See `tally watch list`.")
    return ev.WatchAdded(
        watch_id=c.watch_id, workspace=c.workspace, kind=c.kind, path=c.path, ref=c.ref, digest=c.digest
    )


def _remove_watch(c: cmd.RemoveWatch, ctx: Context) -> ev.WatchRemoved:
    agent = _itself(c, ctx)
    if c.watch_id not in agent.waking.watches:
        raise not_found(f"@{agent.alias} has no watch {short(c.watch_id)}.", "List them with `tally watch list`.")
    return ev.WatchRemoved(watch_id=c.watch_id)


def _note_watched(c: cmd.NoteWatched, ctx: Context) -> ev.WatchNoticed | Unchanged:
    _host_only(ctx)
    watch = ctx.directory.agent(c.agent_id).waking.watches.get(c.watch_id)
    if watch is None or watch.digest == c.digest:
        return Unchanged(c.agent_id)
    return ev.WatchNoticed(watch_id=c.watch_id, digest=c.digest)


RULES: Final[dict[type, Callable[[Any, Context], Any]]] = {
    cmd.IntendWake: _intend,
    cmd.ReportWake: _report,
    cmd.AddWatch: _add_watch,
    cmd.RemoveWatch: _remove_watch,
    cmd.NoteWatched: _note_watched,
}
"""All of them write the stream of the agent."""
