"""The page of REACH-RPC, from the tables of frames."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Any

import msgspec

from tallystick.core.errors import ErrorCode
from tallystick.edge.spoke import ENDS, ERRORS, frames
from tallystick.edge.spoke.callback import SIGNATURE
from tools.markdown import code, codes, table


def page() -> str:
    """Header, frames of both directions, how frames travel, codes."""
    parts = [_HEAD, "## Header\n", _table(frames.Header), "## To the host\n"]
    parts += [_frame(kind, (shape,)) for kind, shape in frames.TO_HOST.items()]
    parts.append("## From the host\n")
    parts += [_frame(kind, shapes) for kind, shapes in frames.FROM_HOST.items()]
    nested = (frames.Offered, frames.Held, frames.Load, frames.Resume, frames.Referred)
    parts += ["## Parts of frames\n", *(f"### {kind.__name__}\n\n{_words(kind)}\n\n{_table(kind)}" for kind in nested)]
    parts += ["## How frames travel\n", _TRAVEL, "## Codes\n", f"Of refusals: {codes(ERRORS[c] for c in ErrorCode)}"]
    parts += ["(see [errors](errors.md)). Of messages that were taken and end otherwise than with a result:\n"]
    parts.append(table(("code", "meaning"), [(code(name), words) for name, words in ENDS.items()]))
    return "\n".join(parts)


def _frame(kind: str, shapes: tuple[type[frames.Shape], ...]) -> str:
    bodies = [f"{_words(shape)}\n\n{_table(shape)}" for shape in shapes]
    return "\n".join([f"### {kind}\n", *bodies])


def _words(kind: type) -> str:
    return (inspect.getdoc(kind) or "").strip()


def _table(kind: type[Any]) -> str:
    """The fields of a shape, with what stands beneath each in the code."""
    fields = msgspec.structs.fields(kind)
    if not fields:
        return "No fields.\n"
    notes = _notes(kind)
    rows = [
        (code(field.name), "yes" if field.required else "", _default(field), notes.get(field.name, ""))
        for field in fields
    ]
    return table(("field", "needed", "else", ""), rows)


def _default(field: Any) -> str:
    if field.required or field.default in ("", 0, 0.0, None, False, ()) or field.default is msgspec.NODEFAULT:
        return ""
    return code(msgspec.json.encode(field.default).decode())


def _notes(kind: type) -> dict[str, str]:
    (node,) = [n for n in ast.parse(inspect.getsource(frames)).body if getattr(n, "name", "") == kind.__name__]
    found: dict[str, str] = {}
    body = getattr(node, "body", [])
    for item, after in pairwise(body):
        says = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and str(after.value.value)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and says:
            found[item.target.id] = says
    return found


_HEAD = f"""# REACH-RPC {frames.VERSION}

What the host, spokes and clients send each other. One frame is one JSON object, `{{"header": {{…}}, "body": {{…}}}}`. A
key that stands twice, a field that is not known, a value of another type: refused with `FAIL` and the place. An unknown
kind of frame is refused and the connection lives on; another version ends it. What is not said is left out. A frame
that is no strict JSON (nested deeper than 64, say) is refused with the `msg_id` that can still be read of it, and the
connection lives on; a line of the Unix socket that does not even tell its call is answered by `"id": null`.

`msg_id` names the message that a frame is about: an answer carries the one of what it answers, and says in `of` which
kind of frame that was. ANCHOR, HEARTBEAT, FETCH, DRAIN and SETTLE have ids of their own.

A handler runs after the ACK of its BEGIN, never before; the host gives that ACK after BEGIN is in its log. Without a
recorded BEGIN nothing has run. RESULT and FAIL are sent again until they are acknowledged or refused.

A spoke that sends DRAIN takes nothing new until it is anchored again; one that frames are posted to is offline as soon
as it has nothing left, because no connection tells when it goes. The host sends DRAIN where people stop, pause or
drain the spoke, its session, its workspace or everything: the spoke acknowledges, refuses what still comes with
`unavailable`, and finishes what it has; what that is may be taken back by RETREAT. Once people resume it, the host
sends the ACK of its ANCHOR once more, without `resume` and `secret`: from then on it takes work again. A spoke that
anchors anew meanwhile gets the ACK, then DRAIN.
"""

_TRAVEL = f"""\
- **Unix socket**: the line protocol, one call `reach`; then `{{"id": 1, "frame": {{…}}}}` both ways.
- **WebSocket** `/reach/v1`, where the host listens: `Authorization: Bearer TOKEN`, one frame in a text message.
- **HTTP**: a spoke posts its frames to `/reach/v1/frames`, ANCHOR with an `endpoint`; what answers a frame is in the
  response (202: nothing does). All else the host posts to that endpoint, with the header `{SIGNATURE}:
  t=SECONDS,v1=HEX`, the HMAC-SHA256 over `SECONDS.` and the body, keyed with the `secret` of the ACK of ANCHOR. The
  endpoint is https at a public address, or one that `callbacks` of [config.toml](settings.md) names; redirects are not
  followed, and the address that was looked at is the one that is connected to.
- **Inside a process**: a pair of links.
"""
