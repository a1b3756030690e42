"""The rules of the tokens of spokes: who may let one in from another machine, and take that back.

One token for each name, whatever its workspace: a newer one takes the place of the older.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.errors import denied, invalid, not_found
from tallystick.core.identity import ActorKind, check_alias
from tallystick.core.offers import check_domain
from tallystick.core.state import Context

MOST_DOMAINS: Final = 64


def _make(c: cmd.MakeSpokeToken, ctx: Context) -> ev.SpokeTokenMade:
    if ctx.actor.kind is not ActorKind.PERSON:
        raise denied("Only a person may make a token.", "Ask the person you work for.")
    if c.workspace_id not in ctx.directory.workspaces:
        raise not_found("There is no such workspace.", "List them with `tally workspace`.")
    if len(c.domains) > MOST_DOMAINS:
        raise invalid(f"There are {len(c.domains)} domains; the limit is {MOST_DOMAINS}.", "Give fewer.")
    return ev.SpokeTokenMade(
        token_id=c.token_id,
        name=check_alias(c.name),
        domains=tuple(dict.fromkeys(check_domain(domain) for domain in c.domains)),
        replaced=c.name in ctx.directory.tokens,
    )


def _remove(c: cmd.RemoveSpokeToken, ctx: Context) -> ev.SpokeTokenRemoved:
    if ctx.actor.kind is ActorKind.AGENT:
        raise denied("Only a person may take a token away.", "Ask the person you work for.")
    known = ctx.directory.tokens.get(c.name)
    if known is None or known.workspace != c.workspace_id:
        raise not_found(f"There is no token of a spoke {c.name[:80]!r}.", "List them with `tally token list`.")
    return ev.SpokeTokenRemoved(name=c.name, detail=c.detail)


RULES: Final[dict[type, Callable[[Any, Context], Any]]] = {
    cmd.MakeSpokeToken: _make,
    cmd.RemoveSpokeToken: _remove,
}
"""Which rule a command of these asks; its stream is the workspace."""
