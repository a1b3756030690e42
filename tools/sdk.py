"""The page of the SDK, from its docstrings."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import tallystick
from tallystick import sdk
from tallystick.sdk import channel, context, frames, outbox, tables
from tallystick.sdk.errors import KINDS
from tools.markdown import code, table

_GIVEN = (tallystick.ReachHandle, tallystick.ReachMessage, tallystick.ReachResult, sdk.Link, sdk.Reference)
"""What a program is given and never makes."""

_WIDTH = 110


def page() -> str:
    """Every public name of `tallystick`, then what `tallystick.sdk` has besides, then the numbers."""
    first = [getattr(tallystick, name) for name in tallystick.__all__]
    more = [getattr(sdk, name) for name in sdk.__all__ if name not in tallystick.__all__]
    errors = [kind for kind in first if issubclass(kind, Exception)]
    parts = [_HEAD]
    parts += [_class(kind) for kind in first if kind not in errors]
    parts += ["## Errors\n", *(f"### {kind.__name__}\n\n{_words(kind)}\n" for kind in errors), _CODES, _codes()]
    parts += ["## In `tallystick.sdk`\n", *(_class(kind, "###") for kind in more)]
    parts += ["## Numbers\n", table(("what", "value"), _numbers())]
    return "\n".join(parts)


def _class(kind: type, level: str = "##") -> str:
    parts = [f"{level} {kind.__name__}\n"]
    if kind not in _GIVEN:
        parts.append(f"```python\n{_signature(kind.__name__, kind)}\n```\n")
    parts.append(f"{_words(kind)}\n")
    for name, value in vars(kind).items():
        found = value.__func__ if isinstance(value, classmethod) else value
        if isinstance(found, FunctionType) and not name.startswith("_"):
            head = f"{level}# {kind.__name__}.{name}\n"
            parts.append(f"{head}\n```python\n{_method(name, found)}\n```\n\n{_words(found)}\n")
    return "\n".join(parts)


def _method(name: str, found: FunctionType) -> str:
    head = "await " if inspect.iscoroutinefunction(found) else ""
    back = found.__annotations__.get("return", "None")
    return f"{head}{_signature(name, found)}" + (f" -> {back}" if back != "None" else "")


def _signature(name: str, found: Any) -> str:
    """As a caller writes it: without `self`."""
    given = [one for one in inspect.signature(found).parameters.values() if one.name not in ("self", "cls")]
    shown = [_parameter(one) for one in given]
    kinds = [one.kind for one in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    whole = f"{name}({', '.join(shown)})"
    return whole if len(whole) <= _WIDTH else f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + ")"


def _parameter(one: inspect.Parameter) -> str:
    if one.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{one.name}"
    annotation = one.annotation if isinstance(one.annotation, str) else ""
    text = f"{one.name}: {annotation}" if annotation else one.name
    return text if one.default is inspect.Parameter.empty else f"{text} = {one.default!r}"


def _words(found: Any) -> str:
    return (inspect.getdoc(found) or "").strip()


def _codes() -> str:
    rows = [(code(name), code(kind.__name__)) for name, kind in KINDS.items()]
    return table(("code", "class"), [*rows, ("all others", code("ReachRefused"))])


def _numbers() -> list[tuple[str, str]]:
    return [
        ("largest payload and largest result, as JSON", f"{frames.PAYLOAD_BYTES // 1024} KiB"),
        ("largest context slice, as JSON", f"{context.SLICE_BYTES // 1024} KiB"),
        ("conclusions that `last()` keeps", str(context.LAST)),
        ("acknowledged results that a spoke's store keeps", str(tables.HOT)),
        ("before something unacknowledged is sent again", f"{outbox.ACK_SECONDS:g} s, then longer"),
        ("between attempts to reach the host", f"{channel.FIRST_PAUSE:g} s, doubled up to {channel.LONGEST_PAUSE:g} s"),
    ]


_HEAD = """# The SDK

`from tallystick import …`: for programs that offer capabilities (spokes) and programs that reach for them (clients).
Typed, asyncio, a thin client: nothing of the host is loaded. How frames travel: [reach](reach.md).
"""

_CODES = """Which class a code has. The codes are those of the [host](errors.md), and `timeout`, `unverified`,
`canceled`, `failed` (the handler raised).
"""
