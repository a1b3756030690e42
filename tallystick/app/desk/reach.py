"""What the desk takes and gives for messages to capabilities. Texts of payload and context are JSON, as they came."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from tallystick.app.desk.forms import Form
from tallystick.core.offers import Offer

LONGEST_MS: Final = 7 * 86_400_000
"""The longest that a sender may wait: so long its key is known, and a message waits for a capability."""

TraceParent = Annotated[str, msgspec.Meta(pattern=r"^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})?\Z")]
"""W3C Trace Context, version 00; empty for none."""


class Held(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a spoke that comes back still has of a delivery."""

    delivery: str
    fence: int
    state: str
    """`begun`, `running`, `done` or `failed`."""


class Anchor(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A spoke is there: who it is, what it offers, what it still holds."""

    spoke_id: str
    """Its name: `[a-z0-9][a-z0-9-]{0,62}`."""
    store: str
    """Id of its own store: with the name its lasting identity."""
    process: str
    """Which execution it is, as `PID@START`, or any other text that no other execution has."""
    capabilities: tuple[Offer, ...] | None = None
    """None: as before."""
    endpoint: str = ""
    held: tuple[Held, ...] = ()


Do = Literal["resend", "go_on", "drop"]


class Resume(Form, frozen=True, kw_only=True):
    """What a spoke does with a delivery that it held when it was last seen."""

    delivery: str
    do: Do
    """`resend` the result, `go_on` with the handler, or `drop` it: somebody else has it, or it is over."""


class Anchored(Form, frozen=True, kw_only=True):
    """A spoke is registered and connected."""

    agent: str
    session: str
    workspace: str
    heartbeat_seconds: float
    lease_seconds: float
    resume: tuple[Resume, ...] = ()


class Sail(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to a capability."""

    capability: str
    """`Name`, or `Name@1.2` for versions from 1.2 up to 2."""
    payload: str
    """JSON."""
    msg_id: str = ""
    """`msg_` and a ULID, made by the sender; without a key a repeat is known by it. Empty: the host makes one."""
    key: str = ""
    context: str = ""
    """JSON: the slice of context that goes with it."""
    timeout_ms: int | None = None
    """How long the sender waits, which is the deadline, too."""
    stall_after_ms: int = 0
    ack_timeout_ms: int = 0
    """How long each spoke may take to say that it has it, before another gets it; 0: 5 s, or a third of the timeout."""
    to: str = "one"
    """`one`, or `all` who hold it now."""
    retry: str = "retreat"
    """`retreat`: what did not begin is tried again by backoff; `none`: it fails."""
    domain: str = ""
    title: str = ""
    parent: str = ""
    """An id, `none`, or empty for the one task that the session holds."""
    group: str = ""
    """Id of the dispatch that this is a part of."""
    trace: str = ""
    on_failure: str = ""
    review_by: str = ""
    reply_to: str = ""
    """`Name` or `Name@1.2`: the capability that the result goes on to, as a message of its own; never an address."""
    traceparent: TraceParent = ""
    """The sender's span: handed on with the message, and to what is sent because of it."""
    inputs: tuple[str, ...] = ()
    at_once: bool = True
    """Refuse it as offline where no holder can be expected back."""


class Sailed(Form, frozen=True, kw_only=True):
    """What a message has become, after the commit."""

    task_id: str
    trace_id: str
    msg_id: str
    duplicate: bool
    link: str
    promise: str
    tasks: tuple[str, ...] = ()
    """With `all`: one task for each holder, `task_id` being the first."""


class Reached(Form, frozen=True, kw_only=True):
    """One thing that happened to a message. `what`: first `waits` where nothing is to be told of it yet, then `begun`,
    `progress` and `unverified`, and at last `result` or `failed`."""

    task_id: str
    what: str
    link: str
    version: int
    """Of the task when it happened."""
    spoke: str = ""
    text: str = ""
    """Of progress."""
    fraction: float | None = None
    payload: str = ""
    """JSON: the result."""
    duplicate: bool = False
    """It was there before this reader came."""
    code: str = ""
    """Of a failure: one of the codes of errors, `timeout`, `unverified` or `canceled`."""
    message: str = ""
    remedy: str = ""


ENDS: Final = ("result", "failed")
"""After these nothing more is told."""


class LinkShown(Form, frozen=True, kw_only=True):
    """Where a message is."""

    task_id: str
    link: str
    changed: bool = True


class RouteShown(Form, frozen=True, kw_only=True):
    """One holder of one capability."""

    capability: str
    version: str
    spoke: str
    endpoint: str
    weight: int
    domain: str
    load: int
    concurrency: int
    last_seen: float | None
    """Seconds ago; null where nothing was heard since the host started, or nothing has to be."""
    status: str
    workspace: str
    why: str = ""
    """Of `draining`: what people stopped, paused or drained, or that its own program wants it so; else empty."""
    first: bool = False
    """It was the first to offer this capability in this domain here."""
    pinned: bool = False
    idempotent: bool = False
    standing: bool = False


class CapabilityShown(Form, frozen=True, kw_only=True):
    """What became of the newest messages for a capability, counted from the record."""

    capability: str
    waiting: int
    asked: int
    done: int
    failed: int
    unverified: int
    open: int
    median_seconds: float | None
    """From the request to the result."""


class Routes(Form, frozen=True, kw_only=True):
    """`tally routes`."""

    routes: tuple[RouteShown, ...]
    stats: tuple[CapabilityShown, ...] = ()
    workspace: str = ""
    """The name of the one that was looked from; a route may be in `default` as well."""


class TokenMade(Form, frozen=True, kw_only=True):
    """`tally token add`: the only time that the secret is shown."""

    name: str
    domains: tuple[str, ...]
    workspace: str
    """The name of the one that it opens."""
    token: str
    replaced: bool
    """There was an older one, which opens nothing any more."""
    known: bool
    """Somebody of that name is in that workspace. A spoke makes itself known by offering; who only asks does not."""


class TokenShown(Form, frozen=True, kw_only=True):
    """The token of one spoke."""

    name: str
    domains: tuple[str, ...]
    workspace: str = ""
    """The name of the one that it opens; empty where the record does not know the token, which then opens nothing."""
    made: str
    """When."""
    fault: str = ""
    """Why it opens nothing; empty where it does."""


class Tokens(Form, frozen=True, kw_only=True):
    """`tally token list`."""

    tokens: tuple[TokenShown, ...]


def as_json(value: Any) -> str:
    """JSON text of a value."""
    return msgspec.json.encode(value).decode()
