"""A natural pause of a coding client, and what its agent is told there."""

from __future__ import annotations

import msgspec


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A client at a pause, in our words."""

    event: str
    """session, prompt, tool, stop, wait."""
    history: str = ""
    """The client's own id of the conversation."""
    transcript: str = ""
    directory: str = ""
    prompt: str = ""
    is_held: bool = False
    """It is at the end of a turn that only goes on because we held it."""


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """What it is told. `holds`: it should look before it ends its turn."""

    text: str = ""
    holds: bool = False
