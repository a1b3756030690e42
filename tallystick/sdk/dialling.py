"""Which transport leads to a host."""

from __future__ import annotations

from tallystick.sdk.errors import invalid
from tallystick.sdk.link import Dial


def dial_for(hub_url: str | None, token: str | None, *, sender: str = "", workspace: str = "") -> Dial:
    """How to open links: over the Unix socket of this machine's host, or a WebSocket for a URL. Raises `ReachRefused`
    `invalid` for a URL that leads nowhere."""
    if hub_url is None:
        from tallystick.sdk.unix import unix_dial

        return unix_dial(sender, workspace)
    raise invalid(f"{hub_url!r} is no address of a host.", "Give None for the host of this machine.")
