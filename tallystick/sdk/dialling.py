"""Which transport leads to a host. Each is loaded when it is used."""

from __future__ import annotations

from tallystick.sdk.address import address_of
from tallystick.sdk.link import Dial


def dial_for(hub_url: str | None, token: str | None, *, sender: str = "", workspace: str = "") -> Dial:
    """How to open links: over the Unix socket of this machine's host, or a WebSocket for a URL. Raises `ReachRefused`
    for a URL that leads nowhere; see `address_of`."""
    if hub_url is None:
        from tallystick.sdk.unix import unix_dial

        return unix_dial(sender, workspace)
    address = address_of(hub_url, token)
    from tallystick.sdk.websocket import websocket_dial

    return websocket_dial(address, sender, workspace)
