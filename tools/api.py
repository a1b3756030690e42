"""The page of the host API, from the table of verbs and the structs that they take and give."""

from __future__ import annotations

from typing import Any

from tallystick.edge.api.http.bounds import HttpBounds
from tallystick.edge.api.http.openapi import Json, describe, described
from tallystick.edge.api.http.refusals import PROTOCOL
from tallystick.edge.api.verbs import VERBS
from tools.markdown import code, table


def page() -> str:
    """The host API: the socket, HTTP, events, WebSocket, and every verb."""
    verbs = described((*VERBS, "status"))
    schemas = describe(verbs)["components"]["schemas"]
    parts = [_HEAD, _SOCKET, _http(), _EVENTS, _WEBSOCKET, "## Verbs\n"]
    parts.append(table(("verb", "for"), [(f"[`{name}`](#{name})", verb.summary) for name, verb in verbs.items()]))
    for name, verb in verbs.items():
        takes, gives = verb.takes.__name__, verb.gives.__name__
        parts.append(f"### {name}\n\n{verb.summary} Answers [`{gives}`](#result-{gives.lower()}).\n")
        parts.append(
            _fields(schemas[takes]) if takes not in _shown(verbs) else f"Takes [`{takes}`](#result-{takes.lower()}).\n"
        )
    parts.append("## Results\n\nEvery key is always there; keys may be added, and are never removed.\n")
    parts += [_result(name, schemas[name]) for name in sorted(_given(schemas, _shown(verbs)))]
    return "\n".join(parts)


def _result(name: str, schema: Json) -> str:
    return f"### Result {name}\n\n{_plain(schema)}\n\n{_fields(schema, whole=True)}"


def _shown(verbs: Any) -> set[str]:
    return {verb.gives.__name__ for verb in verbs.values()}


def _given(schemas: Json, names: set[str]) -> set[str]:
    """The results and what stands in them."""
    found, left = set[str](), {*names, "Event"}
    while left:
        name = left.pop()
        found.add(name)
        left |= {ref for kind in schemas[name]["properties"].values() if (ref := _ref(kind))} - found
    return found


def _ref(kind: Json) -> str:
    return str(kind.get("$ref") or kind.get("items", {}).get("$ref", "")).rpartition("/")[2]


def _plain(schema: Json) -> str:
    return " ".join(str(schema.get("description", "")).split())


def _fields(schema: Json, *, whole: bool = False) -> str:
    if not schema["properties"]:
        return "Takes nothing.\n"
    needed = schema.get("required", [])
    if whole:
        return table(("key", "type"), [(code(key), _kind(kind)) for key, kind in schema["properties"].items()])
    rows = [
        (code(key), _kind(kind), "" if key in needed else _default(kind)) for key, kind in schema["properties"].items()
    ]
    return table(("argument", "type", "default"), rows)


def _default(kind: Json) -> str:
    value = kind.get("default")
    return "none" if value is None else "empty" if value in ("", (), []) else code(str(value).lower())


def _kind(kind: Json) -> str:
    if "anyOf" in kind:
        return " or ".join(_kind(part) for part in kind["anyOf"])
    name = _ref(kind)
    if kind.get("type") == "array":
        items = kind.get("items", {})
        return f"list of {_kind(items)}" if items else "list"
    return f"[{name}](#result-{name.lower()})" if name else str(kind.get("type", "any"))


def _http() -> str:
    bounds = HttpBounds()
    rows = [
        (str(status), code(row.code.value), row.message.format(limit=bounds.body_bytes))
        for status, row in PROTOCOL.items()
    ]
    return "\n".join(
        [
            _HTTP,
            "Other refusals have the status that [errors](errors.md) gives for their code. A request that breaks the",
            "rules of the door itself has one of these:\n",
            table(("status", "code", "message"), rows),
            f"Bodies have at most {bounds.body_bytes} bytes, heads {bounds.head_bytes}. A connection ends whose",
            f"request is not whole after {bounds.request_seconds:g} s,",
            f"or whose answers lie unread {bounds.write_seconds:g} s.",
            f"There may be {bounds.connections} connections, {bounds.streams} streams of events among them.\n",
        ]
    )


_HEAD = """# Host API

One table of verbs, three ways to it: lines on the Unix socket for programs of this machine, HTTP and WebSocket
where a person lets the host listen. Over each of them a verb takes the same arguments and gives the same result.
What a caller says of itself is *asserted* and shown as such; the socket of a session that the host made is its
identity.
"""

_SOCKET = """## Unix socket

`TALLY_HOME/run/host.sock`; where that path is too long, `TALLY_HOME/run/socket` holds the other one. JSON objects,
one a line, UTF-8. The first is the hello, answered by a welcome or by `refused`:

```json
{"hello": {"protocol": [1, 1], "client": "mine", "version": "1"}}
{"welcome": {"protocol": 1, "host": "0.1.0", "pid": 4711}}
```

Then requests, each with a number of its own, answered in any order:

```json
{"id": 1, "op": "ask", "as": "alice", "workspace": "shop", "args": {"address": "@bob", "title": "Review it"}}
{"id": 1, "result": {"task_id": "tsk_…"}}
{"id": 2, "error": {"code": "not_found", "message": "…", "remedy": "…"}}
```

`as` is the agent to act as; `workspace`, or `cwd` (the caller's directory), where; `env` and `tty` what surrounds
the caller. `{"id": 1, "interrupt": true}` tells a running call that its caller wants no more. A line that
is no strict JSON is refused by its number, or with `"id": null` where that cannot be read, and the connection goes
on. Besides the verbs there are `status`, `down`, `hook` (for hooks) and `cli` (for `tally` itself).
"""

_HTTP = """## HTTP

`tally up --listen` listens at `127.0.0.1:8765`, `--listen ADDRESS:PORT` or `listen` in `config.toml` elsewhere; an
address that other machines reach needs `--tls-cert` and `--tls-key`. `tally status` shows the address. The person's
token is in `TALLY_HOME/token`, made once, for this user alone.

```http
POST /v1/ask HTTP/1.1
Host: 127.0.0.1:8765
Authorization: Bearer TOKEN
Content-Type: application/json
Content-Length: 79

{"as": "alice", "workspace": "shop", "args": {"address": "@bob", "title": "T"}}
```

A body has `as`, `workspace` and `args`, each only where needed. The answer is the result itself, or `{"error":
{"code": …, "message": …, "remedy": …}}`. A token says who may come in, not that a person sits there: what only a
person may do is refused over HTTP unless `person_verbs = "uid"`. A token never stands in an address. A holder of a
task sends the `fence` that `take` answered with.

`GET /v1/openapi.json` is the machine-readable description of all this.
"""

_EVENTS = """## Events

`GET /v1/events` is a stream of server-sent events: first `open`, then every [event](#result-event) that the reader
may see, as it is recorded. The `id` of each is an opaque cursor for this reader alone: `?after=CURSOR`, or the
header `Last-Event-ID`, goes on behind it, without loss and without doubling, after a restart of the host too.
Without a cursor a stream begins now. `as` and `workspace` may stand in the query as well. A comment every 15
seconds shows that it lives.
"""

_WEBSOCKET = """## WebSocket

`/v1/socket` carries the lines of the Unix socket, one per text message: hello first, then requests. The token comes
in the header, or as `token` beside `hello`, because a page cannot set headers there. `cwd`, `env` and `tty` are not
taken.
"""
