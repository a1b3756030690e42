"""What goes wrong with a reach message, as exceptions with a code, the present state and the next step."""

from __future__ import annotations

from typing import Any


class ReachError(Exception):
    """A reach message was refused, or did not end in a result.

    `code` is one of the host's error codes (docs/reference/errors.md), or `timeout`, `unverified`, `canceled`.
    `message` says what was refused and the present state, `remedy` the next step. `msg_id`, `task_id` and `trace_id`
    are those of the message where it got so far, else empty: `tally trace` shows the rest. A message that found nobody
    has a trace without a task. `link` is the state it was
    in when this was said (IDLE PROVISIONED REACHED CONFIRMED SUNSET), empty where that is not known.
    """

    def __init__(self, code: str, message: str, remedy: str = "", **about: str) -> None:
        super().__init__(code, message, remedy)
        self.code = code
        self.message = message
        self.remedy = remedy
        self.msg_id = about.get("msg_id", "")
        self.task_id = about.get("task_id", "")
        self.trace_id = about.get("trace_id", "")
        self.link = about.get("link", "")

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class ReachNoRoute(ReachError):
    """Nobody registered offers this capability where the caller may see it (code `no_route`)."""


class ReachOffline(ReachError):
    """Somebody offers it, but the lease of every holder has lapsed (code `offline`). `tally ask cap:NAME`
    would wait."""


class ReachTimeout(ReachError):
    """The time of the message was over before there was an outcome (codes `timeout` and `expired`). Where `link` is
    REACHED the handler had begun: the same dedup key finds what came of it."""


class ReachRefused(ReachError):
    """The host, the spoke or its handler refused or failed; `code` says which kind of refusal it is."""


class ReachUnverified(ReachError):
    """The handler had begun and its outcome is not known (code `unverified`). It is not run again; it comes clear when
    the spoke returns, or when a person settles it (`tally verify ID --settle …`)."""


KINDS: dict[str, type[ReachError]] = {
    "no_route": ReachNoRoute,
    "offline": ReachOffline,
    "timeout": ReachTimeout,
    "expired": ReachTimeout,
    "unverified": ReachUnverified,
}
"""The class for each code that has one of its own; all others are `ReachRefused`."""


def reach_error(code: str, message: str, remedy: str = "", **about: str) -> ReachError:
    """The exception for a code."""
    return KINDS.get(code, ReachRefused)(code, message, remedy, **about)


def invalid(message: str, remedy: str) -> ReachRefused:
    """What was given cannot be used as it is."""
    return ReachRefused("invalid", message, remedy)


def from_body(body: dict[str, Any], **about: str) -> ReachError:
    """The exception that the body of a FAIL frame tells of."""
    told = {key: str(body[key]) for key in ("task_id", "link") if body.get(key)}
    code = str(body.get("code") or "internal")
    message = str(body.get("message") or "The host refused without a reason.")
    return reach_error(code, message, str(body.get("remedy") or ""), **{**about, **told})
