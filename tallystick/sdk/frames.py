"""REACH-RPC 1: the frames, as this side writes and reads them. One frame is one JSON object `{"header", "body"}`."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tallystick.sdk.errors import ReachError, ReachRefused, invalid
from tallystick.sdk.ids import new_id

VERSION = 1
"""The one version of the protocol that this SDK speaks."""

TYPES = frozenset("ANCHOR HEARTBEAT SAIL ACK BEGIN PROGRESS FETCH RESULT FAIL RETREAT SETTLE DRAIN".split())
"""All types of frames."""

PAYLOAD_BYTES = 256 * 1024
"""The largest payload of a message or a result, as JSON."""

Frame: TypeAlias = dict[str, Any]
"""A frame as it travels over a `Link`: plain values under `header` and `body`."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The header of a frame. What does not apply is empty and left out."""

    proto_version: int
    msg_id: str
    """The message that the frame is about; answers carry that of what they answer."""
    msg_type: str
    source_spoke: str = ""
    target_capability: str = ""
    reply_to: str = ""
    """Another capability, to which the host sails the result too."""
    dedup_key: str = ""
    timeout_ms: int = 0
    trace_id: str = ""
    """The trace of the host's record, `trc_…`."""
    traceparent: str = ""
    """The trace context of OpenTelemetry (W3C), carried through."""


class Referred(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One reference of a SAIL that reaches a spoke; its place in the list is its index."""

    kind: str
    text: str
    name: str = ""
    sha256: str = ""
    size: int | None = None


class Sail(msgspec.Struct, frozen=True, kw_only=True):
    """Body of a SAIL that reaches a spoke."""

    delivery: str
    task_id: str
    fence: int
    attempt: int = 1
    revision: int = 0
    changes: str = ""
    payload: Any = None
    context: dict[str, Any] = {}
    references: tuple[Referred, ...] = ()
    deadline_at: float | str | None = None
    caller: Any = None
    workspace: str = ""
    """Where it was sent: the keys of its senders count there. Empty from a host that does not tell."""


class Heard(msgspec.Struct, frozen=True):
    """A frame that was read: its parts are there and its type is known; the body is still plain."""

    header: Header
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """The type of the frame."""
        return self.header.msg_type

    @property
    def msg_id(self) -> str:
        """The message that it is about."""
        return self.header.msg_id


def frame(msg_type: str, body: dict[str, Any], *, msg_id: str = "", **header: Any) -> Frame:
    """A frame to send; one without a message gets an id of its own. Empty fields of the header are left out."""
    head: dict[str, Any] = {"proto_version": VERSION, "msg_id": msg_id or new_id("msg"), "msg_type": msg_type}
    head.update((key, value) for key, value in header.items() if value)
    return {"header": head, "body": body}


def read(raw: Frame) -> Heard:
    """A frame that came in. Raises `ReachRefused` with what is wrong about it: code `unsupported` for a type or
    version that is not known, else `invalid`."""
    header = raw.get("header")
    version = header.get("proto_version") if isinstance(header, dict) else None
    if type(version) is int and version != VERSION:
        raise WrongVersion(
            "unsupported", f"This side speaks version {VERSION} of REACH-RPC, not {version}.", "Use one version."
        )
    try:
        heard = msgspec.convert(raw, Heard)
    except msgspec.ValidationError as error:
        raise invalid(
            f"The frame is none of REACH-RPC {VERSION}: {error}.", "Send the fields of the reference."
        ) from None
    if heard.kind not in TYPES:
        raise ReachRefused(
            "unsupported",
            f"There is no frame {heard.kind[:40]!r} in REACH-RPC {VERSION}.",
            "Send one of the reference.",
        )
    return heard


class WrongVersion(ReachRefused):
    """The other side speaks another version: the connection ends."""


def refusal(about: Heard | None, error: ReachError, msg_id: str = "") -> Frame:
    """The FAIL that answers a frame which cannot be taken."""
    body: dict[str, Any] = {"code": error.code, "message": error.message, "remedy": error.remedy}
    if about is not None:
        body["of"] = about.kind
        if "delivery" in about.body:
            body["delivery"] = about.body["delivery"]
    return frame("FAIL", body, msg_id=about.msg_id if about else msg_id)
