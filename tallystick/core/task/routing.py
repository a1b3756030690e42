"""Asking for a capability: who may be asked, in which domains, and what can be promised.

Whoever may not see a holder is told the same as where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tallystick.core import commands as cmd
from tallystick.core.directory import Agent
from tallystick.core.errors import ErrorCode, Refused, invalid
from tallystick.core.identity import CAPABILITY_PREFIX, HOST, ActorKind
from tallystick.core.model import Promise
from tallystick.core.route import Holder, domains_of, held_by, holders, promise_to
from tallystick.core.state import Context, Task

RETRIES: Final = ("", "none")


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A capability that is asked for, and from whom it may come."""

    spec: str
    workspace: str
    domains: tuple[str, ...]
    requester: str
    found: Sequence[Holder]
    """Who holds it for this requester."""
    at_once: bool = False


def _asked(
    spec: str, workspace: str, domains: tuple[str, ...], requester: str, ctx: Context, *, at_once: bool = False
) -> Asked:
    found = holders(spec, workspace, ctx.directory, domains, requester)
    return Asked(spec, workspace, domains, requester, found, at_once)


def asked(c: cmd.SubmitTask, requester: str, ctx: Context) -> Asked | None:
    """What capability a request is for; None where it is for a party by its name."""
    if c.retry not in RETRIES:
        raise invalid(f"{c.retry!r} is no way to try again.", "Use none, or leave it out to try again by backoff.")
    routed = c.assignee.startswith(CAPABILITY_PREFIX)
    spec = c.assignee.removeprefix(CAPABILITY_PREFIX) if routed else c.capability
    if not spec:
        return None
    seen = (
        ()
        if ctx.actor.kind is ActorKind.HOST and c.domains is None
        else domains_of(requester, c.domains, ctx.directory)
    )
    if c.domain and seen and c.domain not in seen:
        raise no_route(spec)
    return _asked(spec, c.workspace, (c.domain,) if c.domain else seen, requester, ctx, at_once=c.at_once)


def check_remedy(target: str, workspace: str, asked: Asked | None, ctx: Context) -> None:
    """Refuse a capability for the case of failure that nobody offers: the notice of a failure would reach nobody. It is
    sent by the host, in the domains that the request itself is for."""
    if not target.startswith(CAPABILITY_PREFIX):
        return
    spec = target.removeprefix(CAPABILITY_PREFIX)
    if not holders(spec, workspace, ctx.directory, asked.domains if asked else (), HOST.id):
        raise no_route(spec)


def again(task: Task, assignee: str, ctx: Context) -> Asked | None:
    """What capability a task is given to somebody else for: another one, or the same of a named spoke."""
    if assignee.startswith(CAPABILITY_PREFIX):
        return _asked(assignee.removeprefix(CAPABILITY_PREFIX), task.workspace, task.domains, task.requester, ctx)
    agent = ctx.directory.agents.get(assignee)
    if not task.capability or agent is None or agent.connection != "spoke":
        return None
    return _asked(task.capability, task.workspace, task.domains, task.requester, ctx)


def check_holder(assignee: str, wanted: Asked, ctx: Context) -> Agent | None:
    """The named agent, if it holds what is asked for; None where the host is to choose and may."""
    found = wanted.found
    if not assignee.startswith(CAPABILITY_PREFIX):
        named = held_by(assignee, found)
        if named is None:
            raise no_route(wanted.spec)
        return named.agent
    if not found:
        name, _, version = wanted.spec.partition("@")
        others = holders(name, wanted.workspace, ctx.directory, wanted.domains, wanted.requester) if version else []
        raise no_route(wanted.spec, sorted({holder.offer.version for holder in others}))
    away = not any(holder.agent.agent_id in ctx.live or holder.offer.standing for holder in found)
    if wanted.at_once and away:
        names = ", ".join(f"@{holder.agent.alias}" for holder in found[:5])
        raise Refused(
            ErrorCode.OFFLINE,
            f"Every holder of {wanted.spec!r} is offline: {names}.",
            f"Start one of them, or let it wait: tally ask cap:{wanted.spec} TITLE",
        )
    return None


def no_route(spec: str, versions: Sequence[str] = ()) -> Refused:
    """Nobody offers it, or nobody that this caller may see: the same words for both. `versions`: those that it may see
    of the same name."""
    instead = f" It is offered here as version {', '.join(versions[:5])}." if versions else ""
    return Refused(
        ErrorCode.NO_ROUTE,
        f"Nobody here offers {spec!r}.{instead}",
        "See who offers what with `tally routes`, or join one with --capability.",
    )


def promise(wanted: Asked, ctx: Context) -> Promise:
    """What is promised where the host chooses: as good as the best of the holders. It is stored in any case, and one
    that is expected back gets it then."""
    there, directory = ctx.reachable, ctx.directory
    promised = [promise_to(h.agent, directory, live=False, reachable=h.agent.agent_id in there) for h in wanted.found]
    if Promise.LIVE in promised:
        return Promise.LIVE
    is_expected = any(holder.offer.standing or holder.agent.agent_id in ctx.live for holder in wanted.found)
    return Promise.MAILBOX if is_expected else Promise.OFFLINE


def patience(c: cmd.SubmitTask, ctx: Context) -> float:
    """The deadline of a message for a capability that was given none: it does not wait for ever."""
    return ctx.now + ctx.limits.anchor_seconds if c.assignee.startswith(CAPABILITY_PREFIX) else 0.0
