"""Who a caller is, and whether it may use a person's verbs: rules over facts that the door collected.

On the shared socket an identity is only asserted, and shown as asserted; a session's own socket is its identity.
"""

from __future__ import annotations

import msgspec


class CallerClaim(msgspec.Struct, frozen=True, kw_only=True):
    """What a call says and shows of its origin."""

    as_name: str = ""
    listener: str = ""
    session: str = ""
    """TALLY_SESSION."""
    agent: str = ""
    """TALLY_AGENT."""
    client: str = ""
    """The coding client it came out of: what its server or hook was installed for, else the nearest one among the
    ancestors."""
    bound_agent: str = ""
    """The agent that this client is bound to in the workspace."""
    terminal: bool = False
    setting: str = "terminal"
    """`person_verbs`: terminal, page or uid."""


class Verdict(msgspec.Struct, frozen=True):
    """Who it is taken for, by what, and what a person's verb would be told."""

    kind: str
    """listener, session, agent, client, unbound or person."""
    name: str
    because: str
    read_only: bool = False


def identify(claim: CallerClaim) -> Verdict:
    """Who a caller is taken for: the first of these that is there."""
    if claim.listener:
        return Verdict("listener", claim.listener, "the session's own socket")
    if claim.as_name:
        return Verdict("agent", claim.as_name, "--as")
    if claim.session:
        return Verdict("session", claim.session, "TALLY_SESSION")
    if claim.agent:
        return Verdict("agent", claim.agent, "TALLY_AGENT")
    if claim.client and claim.bound_agent:
        return Verdict("agent", claim.bound_agent, f"this workspace binds {claim.client} to it")
    if claim.client and claim.setting != "uid":
        return Verdict("unbound", claim.client, f"called from {claim.client}, which is bound to no agent here", True)
    return Verdict("person", "", "the user of this machine")


def person_by_name(claim: CallerClaim) -> str:
    """Why a caller may not call itself a person, in `--as` or TALLY_AGENT; empty where it may."""
    if claim.listener or claim.session:
        return "it came from a session"
    return f"it came from {claim.client}, a coding client" if claim.client and claim.setting != "uid" else ""


def person_way(claim: CallerClaim) -> str:
    """How a person is known to act, for the record; or, after `!`, why a person's verb is refused."""
    denied = person_by_name(claim)
    if denied:
        return f"!{denied}"
    if claim.setting == "uid":
        return "uid"
    if claim.setting == "page":
        return "!this host takes a person's decisions on its page only"
    return "terminal" if claim.terminal else "!it did not come from a terminal"
