"""How the hooks of each client speak: what they say on standard input, what they read on standard output.

Measured with the real clients where a test drives them. Most speak like the first that had hooks.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from tallystick.app.desk.pauses import Noticed, Pause


class Speech(NamedTuple):
    """One client's manner of speaking."""

    names: dict[str, str]
    """Its own name of each pause."""
    history: str = "session_id"
    transcript: str = "transcript_path"
    prompt: str = "prompt"
    again: str = "stop_hook_active"
    """What says that it goes on only because a hook of ours held it."""

    def read(self, event: str, said: dict[str, Any]) -> Pause:
        """A pause, from what the client said."""
        return Pause(
            event=event,
            history=_text(said, self.history),
            transcript=_text(said, self.transcript),
            directory=_text(said, "cwd"),
            prompt=_typed(_text(said, self.prompt)) if event == "prompt" else "",
            is_held=said.get(self.again) is True,
        )

    def write(self, event: str, noticed: Noticed) -> str:
        """What the client reads; nothing where there is nothing to say."""
        if not noticed.text:
            return ""
        if event == "stop":
            return _line({"decision": "block", "reason": noticed.text}) if noticed.holds else ""
        name = self.names.get(event, "")
        return _line({"hookSpecificOutput": {"hookEventName": name, "additionalContext": noticed.text}}) if name else ""


def _typed(prompt: str) -> str:
    """What a person typed: a wake comes by the same hook, and its words are not the user's."""
    return "" if prompt.lstrip().startswith(_NOT_TYPED) else prompt


def _text(said: dict[str, Any], field: str) -> str:
    value = said.get(field)
    return value if isinstance(value, str) else ""


def _line(value: dict[str, Any]) -> str:
    """In ASCII: a client may read it in the locale's encoding."""
    return json.dumps(value) + "\n"


_NOT_TYPED = ("<task-notification>", "<system-reminder>", "Tallystick: ")
"""How prompts begin that wake a session: with words of its client, or with ours."""

_FIRST = {"session": "SessionStart", "prompt": "UserPromptSubmit", "tool": "PostToolUse", "stop": "Stop"}
_GEMINI = {"session": "SessionStart", "prompt": "BeforeAgent", "tool": "AfterTool", "stop": "AfterAgent"}

SPEAKS: Final[dict[str, Speech]] = {
    "claude": Speech(_FIRST),
    "codex": Speech(_FIRST),
    "qwen": Speech(_FIRST),
    "gemini": Speech(_GEMINI),
    "opencode": Speech(_FIRST),
    "pi": Speech(_FIRST),
}
"""By client. Our own plugins and extensions speak like the first."""
