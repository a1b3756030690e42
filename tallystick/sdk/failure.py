"""What is told of a handler that raised: a code and a text that every host takes."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Final

from tallystick.sdk.errors import ReachError
from tallystick.sdk.tables import Outcome

TEXT: Final = 4000
"""Characters of a text that is told; of a longer one the middle is left out."""

_OWN: Final = frozenset(
    "invalid unauthenticated denied not_found conflict unsupported unavailable internal failed".split()
)
"""Codes that a handler may refuse with. The others say how a message went; of its own the host alone knows that."""


class Thrown(Exception):
    """What a thread raised, on its way to the loop: some exceptions would end the loop, or never arrive."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


def failure_of(error: BaseException, msg_id: str) -> Outcome:
    """What is told of an exception that the handler of a message raised. A refusal keeps its code where it is the
    handler's own; that of another message, which the handler had sent, is a failure of this one."""
    if isinstance(error, ReachError) and error.msg_id in ("", msg_id) and _may_tell(error.code):
        return Outcome(code=error.code, message=text_of(error.message))
    words = error.message if isinstance(error, ReachError) else said(error)
    return Outcome(code="failed", message=text_of(f"{type(error).__name__}: {words}".removesuffix(": ")))


def text_of(given: object) -> str:
    """A text of at most `TEXT` characters that can be written as UTF-8; what cannot is a question mark."""
    text = str(given).encode("utf-8", "replace").decode()
    if len(text) <= TEXT:
        return text
    return f"{text[: TEXT - 500]} … {text[3 - 500 :]}"


def _may_tell(code: object) -> bool:
    return isinstance(code, str) and code in _OWN


def said(error: BaseException) -> str:
    """What an exception says of itself; empty where it cannot."""
    if isinstance(error, CancelledError) and not error.args:
        return "the handler raised it, or awaited what was cancelled; nobody cancelled the message"
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception that cannot say what it is is still a failure
        return ""
