"""What a turn says and does, summed up: never one record for each update, and never more than fits."""

from __future__ import annotations

import re
from typing import Any, Final

from tallystick.edge.acp.registry import Driven
from tallystick.edge.acp.usage import Meter, Sums

_NOTE: Final = 4000
"""Characters of one note."""
_LAST: Final = 4000
"""Characters of the last words that are kept."""
_TITLE: Final = 200
_INTENT: Final = re.compile(r"int_[0-9A-Z]{26}")
_OF_A_TURN: Final = (
    *("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call", "tool_call_update", "plan"),
)
_TOLD: Final = ("title", "kind", "rawInput", "locations", "_meta")
_KEPT: Final = 64 * 1024
"""Of what a client says of one call, for a request that names the call alone."""
_OVERLAP: Final = 30
"""The end of a chunk that may be the beginning of an id."""


class Replay:
    """What comes between the request to load a conversation and its answer: history, never new work."""

    def __init__(self) -> None:
        self.intents: set[str] = set()
        """Prompts of ours that the client's own history has."""
        self.updates = 0
        self.usage: dict[str, Any] = {}
        """The newest that the client said of what the conversation used."""
        self._end = ""

    def take(self, update: dict[str, Any]) -> None:
        """One update of the history."""
        self.updates += 1
        if update.get("sessionUpdate") == "usage_update":
            self.usage = update
        if update.get("sessionUpdate") == "user_message_chunk":
            text = self._end + _text(update)
            self.intents.update(_INTENT.findall(text))
            self._end = text[-_OVERLAP:]


class Turn:
    """One turn: its words, its tools, what it used. `before`: what its session had reported when it began."""

    def __init__(self, client: Driven, before: Sums) -> None:
        self.meter = Meter(client.reports, before)
        """What it used."""
        self.updates = 0
        self.words = 0
        """Updates that only a turn can bring."""
        self.own_id = ""
        """The client's own id of the prompt, where it gives one."""
        self._noted = 0
        self._new: list[str] = []
        self._room = _NOTE
        self._dropped = 0
        self.last = ""
        """The words since the last tool, as far as they fit."""
        self._tools: dict[str, tuple[str, str]] = {}
        self._told: dict[str, dict[str, Any]] = {}

    def take(self, update: dict[str, Any]) -> None:
        """One update."""
        self.updates += 1
        kind = update.get("sessionUpdate")
        self.words += kind in _OF_A_TURN
        self.meter.take(update)
        if kind == "agent_message_chunk":
            self._said(_text(update))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "user_message_chunk":
            self.own_id = str(update.get("messageId") or self.own_id)[:100]

    def _said(self, text: str) -> None:
        self.last = (self.last + text)[-_LAST:]
        self._add(text)

    def _add(self, text: str) -> None:
        kept = text[: self._room]
        self._room -= len(kept)
        self._dropped += len(text) - len(kept)
        if kept:
            self._new.append(kept)

    def _tool(self, update: dict[str, Any]) -> None:
        call = str(update.get("toolCallId", ""))
        title, status = self._tools.get(call, ("", ""))
        title = str(update.get("title") or title or "a tool")[:_TITLE]
        now = str(update.get("status") or status or "pending")
        if call not in self._tools and len(self._tools) >= 1000:
            return
        told = {key: update[key] for key in _TOLD if update.get(key) not in (None, "", [], {})}
        if len(repr(told)) <= _KEPT:
            self._told[call] = {**self._told.get(call, {}), **told}
        self._tools[call] = (title, now)
        if now != status:
            self.last = ""
            self._add(f"\n[{now}] {' '.join(title.split())}\n")

    def call(self, call_id: str) -> dict[str, Any]:
        """What was told of a call so far."""
        return self._told.get(call_id, {})

    def line(self, text: str) -> None:
        """A line of the host's own: what was decided about a tool."""
        self._add(f"\n[{text}]\n")

    # --- notes ---

    def news(self) -> tuple[str, int]:
        """What is to be noted since the last note, and how many updates it sums up; nothing if there were none."""
        text = "".join(self._new).strip()
        if self._dropped:
            text += f"\n[… {self._dropped} characters more]"
        count = self.updates - self._noted
        self._new, self._room, self._dropped, self._noted = [], _NOTE, 0, self.updates
        return text, count

    @property
    def has_news(self) -> bool:
        """Whether there is something to note."""
        return bool(self._new)


def _text(update: dict[str, Any]) -> str:
    content = update.get("content")
    if isinstance(content, dict) and content.get("type") == "text":
        return str(content.get("text") or "")
    return ""
