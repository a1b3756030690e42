"""One call to the host on behalf of the client, and what may become of it."""

from __future__ import annotations

import time

from tallystick import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPEATABLE = ("inbox", "read", "ask", "take", "overview", "wait")
"""Tools that may be called again when the host went away in the middle: they only read, or the host knows the call by
its key. (`take` only where it accepts.)"""

LISTEN = "subscriptions/listen"
PATIENCE = 60.0
"""Seconds that a host has for an answer; no call takes longer than 45."""
FIRST_PATIENCE = 20.0
"""The same for `initialize` and whatever else needs no waiting."""
BROKEN = 6.0
"""Seconds after which a call that the host broke off is told as that, if the connection stays."""


class Call:
    """One call to the host: a request of the client, or the watch."""

    def __init__(self, message: dict[str, Any], text: str = "", key: str = "") -> None:
        self.message = message
        self.text = text
        self.key = key
        self.parts: list[str] = []
        """Output of the host that has no end of line yet."""
        self.sent = False
        self.again = False
        """Whether it was begun with an earlier host."""
        self.canceled = False
        self.answered = False
        self.broken: wire.WireError | None = None
        """What the host said when it broke it off."""
        self.since = time.monotonic()
        self.begun_at = time.time()
        """UTC seconds: for the next host, if this one goes away in the middle."""

    @property
    def id(self) -> Any:
        """The client's own id of it."""
        return self.message.get("id")

    @property
    def method(self) -> str:
        """What is asked; empty for the watch."""
        return str(self.message.get("method", ""))

    def params(self) -> dict[str, Any]:
        """Its parameters, if they are an object."""
        found = self.message.get("params")
        return found if isinstance(found, dict) else {}

    def may_repeat(self) -> bool:
        """Whether it can be sent again without being done twice."""
        if self.method != "tools/call":
            return True
        arguments = self.params().get("arguments")
        action = arguments.get("action", "accept") if isinstance(arguments, dict) else "accept"
        name = self.params().get("name")
        return name in REPEATABLE and (name != "take" or action == "accept")

    def patience(self) -> float:
        """How long its answer may take; 0 without end."""
        if self.method in (LISTEN, ""):
            return 0.0
        if self.broken is not None:
            return BROKEN
        return PATIENCE if self.method == "tools/call" else FIRST_PATIENCE

    def is_modern(self) -> bool:
        """Whether it carries the envelope of the modern era."""
        meta = self.params().get("_meta")
        return isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta


def unknown(tool: str) -> wire.WireError:
    return wire.WireError(
        "unavailable",
        f"The connection to the host was lost before it answered {tool}; whether it was done is not known.",
        "Look with the tool read, and call it again if it was not done.",
    )
