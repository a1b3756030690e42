"""REACH-RPC version 1: the frames, as they travel between the host, its spokes and whoever reaches for a capability.

One frame is one JSON object `{"header": {…}, "body": {…}}`. `msg_id` names the message that a frame is about, so an
answer carries the one of what it answers. May live here: shapes and the two tables of who sends what; no behaviour.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from tallystick.app.desk.reach import LONGEST_MS, TraceParent

VERSION: Final = 1
"""Of the frames; carried by each, in `proto_version`."""

NAME_CHARACTERS: Final = 200
TEXT_CHARACTERS: Final = 64 * 1024
REFERENCES: Final = 64
"""Of one message."""
REFERENCE_CHARACTERS: Final = 2000
PART_BYTES: Final = 256 * 1024
"""What one ACK of FETCH carries at most; larger content takes several."""
HELD: Final = 10_000
"""Deliveries that a spoke may tell of when it registers."""

_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARACTERS)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARACTERS)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
References = Annotated[
    tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=REFERENCE_CHARACTERS)], ...],
    msgspec.Meta(max_length=REFERENCES),
]
"""What a message rests on, as `tally ask --input` takes it."""
_Bytes = bytes
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A part of a frame: what it does not know is refused, what is not said is left out."""


class Header(Shape, frozen=True):
    """What every frame begins with. The first three are always there."""

    proto_version: Literal[1]
    msg_id: _Name
    """The message that the frame is about; empty only where the answered frame's own could not be read."""
    msg_type: _Id
    source_spoke: _Name = ""
    target_capability: _Name = ""
    """`Name`, or `Name@1.2` for a compatible version."""
    reply_to: _Name = ""
    """A capability that the result is sent on to; never an address."""
    dedup_key: _Name = ""
    timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_MS)] = 0
    """The caller's wait, and the deadline of the work; 0: as the host has it set."""
    trace_id: _Name = ""
    traceparent: TraceParent = ""
    """The span that the message was sent in (W3C Trace Context, version 00); the host hands it on."""


# --- from a spoke -----------------------------------------------------------------------------------------------


class Offered(Shape, frozen=True):
    """One capability as a spoke offers it."""

    name: _Id
    version: _Id = "1.0"
    domain: _Name = ""
    weight: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    idempotent: bool = False
    schema: _Text = ""
    """JSON schema of what it takes, as text; empty: anything."""
    result_schema: _Text = ""
    standing: bool = False
    """Messages wait for it while it is away."""


class Held(Shape, frozen=True):
    """A delivery that a returning spoke still knows of."""

    delivery: _Id
    fence: _Count
    state: Literal["begun", "running", "done", "failed"]


class Anchor(Shape, frozen=True):
    """ANCHOR: a spoke registers, or comes back."""

    spoke_id: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]
    store: _Id
    """Id of its own store: with `spoke_id` who it is, whichever process it runs in."""
    incarnation: _Id
    """The process that it runs in, as `PID@START`."""
    capabilities: Annotated[tuple[Offered, ...], msgspec.Meta(max_length=64)]
    endpoint: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    """Where it takes frames over HTTP; empty: on the connection that this came by."""
    held: Annotated[tuple[Held, ...], msgspec.Meta(max_length=HELD)] = ()
    workspace: _Name = ""


class Load(Shape, frozen=True):
    """How busy one capability is."""

    running: _Count = 0
    queued: _Count = 0


class Heartbeat(Shape, frozen=True):
    """HEARTBEAT: the spoke lives, and how busy it is."""

    load: Annotated[dict[_Id, Load], msgspec.Meta(max_length=64)] = {}


class Begin(Shape, frozen=True):
    """BEGIN: it is stored, and runs as soon as this is acknowledged."""

    delivery: _Id
    fence: _Count


class Progress(Shape, frozen=True):
    """PROGRESS of a spoke: how far it is. Never answered."""

    delivery: _Id
    fence: _Count
    text: _Text = ""
    fraction: _Share | None = None


class Result(Shape, frozen=True):
    """RESULT: what came out, already stored by the spoke; sent again until it is acknowledged."""

    delivery: _Id
    fence: _Count
    payload: Any
    digest: _Name = ""
    """sha256 over the payload as the spoke stored it; compared by the spoke alone."""


class Fetch(Shape, frozen=True):
    """FETCH: the bytes of a reference of a message in hand, from `offset` on."""

    delivery: _Id
    index: _Count
    """Its place among the references of SAIL, from 0."""
    offset: _Count = 0


class Failure(Shape, frozen=True):
    """FAIL of a spoke: it does not take it (`of`), or it went wrong."""

    delivery: _Id
    code: _Id
    message: _Text = ""
    remedy: _Text = ""
    fence: _Count = 0
    began: bool = False
    """Whether the handler was started."""
    of: _Name = ""


# --- from a client ----------------------------------------------------------------------------------------------


class Sail(Shape, frozen=True):
    """SAIL of a client: have this done by whoever offers the capability."""

    payload: Any = None
    context: dict[str, Any] = {}
    """What the other side should know besides: a slice made by the sender. The texts under `references` name what the
    message rests on, as `tally ask --input` takes it (`PATH`, `REV:PATH`, `blob:SHA256`, a URL); the host finds it now,
    keeps it, and tells the spoke of it in `references` of its SAIL."""
    to: Literal["one", "all"] = "one"
    retry: Literal["retreat", "none"] = "retreat"
    domain: _Name = ""
    parent: _Name = ""
    group: _Name = ""
    """The dispatch that this is a part of."""
    title: _Name = ""
    on_failure: _Name = ""
    review_by: _Name = ""
    stall_after_ms: _Count = 0
    """How long it may run without progress until it is shown as suspected; 0: as long as the sender waits."""
    ack_timeout_ms: _Count = 0
    """How long each spoke that it is handed to may take to say that it has it; then it is taken back, and goes to
    another, or to the same one later. 0: 5 s, or a third of the timeout where that is less."""


class Nothing(Shape, frozen=True):
    """The body of a frame whose header says it all."""


# --- from the host ----------------------------------------------------------------------------------------------


class Resume(Shape, frozen=True):
    """What a returning spoke does with something it held."""

    delivery: str
    do: Literal["resend", "go_on", "drop"]


class Ack(Shape, frozen=True):
    """ACK: `of` is what is acknowledged. The rest stands where it means something, as the table of frames says."""

    of: _Name
    delivery: _Name = ""
    agent: str = ""
    session: str = ""
    workspace: str = ""
    heartbeat_seconds: float = 0.0
    lease_seconds: float = 0.0
    resume: tuple[Resume, ...] = ()
    secret: str = ""
    """To check what is posted to the endpoint of ANCHOR with."""
    task_id: str = ""
    trace_id: str = ""
    duplicate: bool = False
    link: str = ""
    promise: str = ""
    tasks: tuple[str, ...] = ()
    bytes: _Bytes = b""
    """Of FETCH, as base64."""
    size: int = 0
    """Of the whole reference, in bytes; its digest is `sha256`."""
    sha256: str = ""
    more: bool = False
    """There is more after these bytes."""


class Referred(Shape, frozen=True):
    """What a message rests on. Its place in the list is its `index`."""

    kind: Literal["git", "blob", "external"]
    """`external` is outside: the host neither reads nor checks it."""
    text: str
    """As it may be handed on: `COMMIT:PATH`, `COMMIT:PATH:10-20`, `blob:SHA256`, a URL."""
    name: str = ""
    """The path or file name that it had."""
    sha256: str = ""
    size: int | None = None
    """In bytes; of lines of a file it is known when they are read."""


class Deliver(Shape, frozen=True):
    """SAIL to a spoke: one attempt of one message."""

    delivery: str
    task_id: str
    fence: int
    attempt: int
    """1, then one more each time that it is handed over anew."""
    payload: Any
    revision: int = 0
    """How many results of it the host has: those attempts are over, and this is one more."""
    changes: str = ""
    """What is to be otherwise this time, in the newest words: of a reviewer, or an answer; empty: nothing."""
    context: dict[str, Any] = {}
    references: tuple[Referred, ...] = ()
    deadline_at: float = 0.0
    """UTC seconds; 0: none."""
    caller: str = ""
    """Who asks, as `@name`."""
    workspace: str = ""
    """Id of where it was sent: the keys of its senders count there."""


class Retreat(Shape, frozen=True):
    """RETREAT to a spoke: stop that delivery."""

    delivery: str
    why: str = ""


class Begun(Shape, frozen=True):
    """BEGIN to a client: the handler runs."""

    task_id: str


class Told(Shape, frozen=True):
    """PROGRESS to a client."""

    task_id: str
    text: str = ""
    fraction: float | None = None


class Outcome(Shape, frozen=True):
    """RESULT to a client."""

    task_id: str
    payload: Any
    duplicate: bool = False
    spoke: str = ""


class Refusal(Shape, frozen=True):
    """FAIL to anybody: why not, and what to do next."""

    code: str
    message: str
    remedy: str = ""
    of: str = ""
    """The kind of frame that is refused; empty where a message that was taken came to this end."""
    delivery: str = ""
    task_id: str = ""
    link: str = ""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame that was read, or is to be sent."""

    header: Header
    body: Shape


TO_HOST: Final[dict[str, type[Shape]]] = {
    "ANCHOR": Anchor,
    "HEARTBEAT": Heartbeat,
    "ACK": Ack,
    "BEGIN": Begin,
    "PROGRESS": Progress,
    "FETCH": Fetch,
    "RESULT": Result,
    "FAIL": Failure,
    "DRAIN": Nothing,
    "SAIL": Sail,
    "RETREAT": Nothing,
    "SETTLE": Nothing,
}
"""Every kind of frame that the host takes, and what its body is."""

OF_DELIVERIES: Final = (Ack, Begin, Progress, Result, Failure)
"""What a spoke says of a delivery."""
OUTCOMES: Final = (Result, Failure)
"""The two of these that end it."""
UNANSWERED: Final = (Ack, Progress)
"""The two of these that no answer is waited for."""

FROM_HOST: Final[dict[str, tuple[type[Shape], ...]]] = {
    "ACK": (Ack,),
    "FAIL": (Refusal,),
    "SAIL": (Deliver,),
    "RETREAT": (Retreat,),
    "DRAIN": (Nothing,),
    "BEGIN": (Begun,),
    "PROGRESS": (Told,),
    "RESULT": (Outcome,),
}
"""Every kind of frame that the host sends."""


def frame(msg_type: str, msg_id: str, body: Shape, **header: Any) -> Frame:
    """A frame of this version."""
    return Frame(Header(proto_version=VERSION, msg_id=msg_id, msg_type=msg_type, **header), body)
