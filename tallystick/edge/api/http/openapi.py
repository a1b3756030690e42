"""The OpenAPI 3.1 description, made from the table of verbs and the structs they take and give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallystick import __version__
from tallystick.app.desk import forms
from tallystick.core.errors import ErrorCode
from tallystick.edge.api.errors import ERRORS
from tallystick.edge.api.http.refusals import PROTOCOL
from tallystick.edge.api.verbs import VERBS, Nothing, Verb

Json = dict[str, Any]

REF = "#/components/schemas/{name}"


class Status(forms.Form, frozen=True, kw_only=True):
    """The running host."""

    running: bool
    pid: int
    version: str
    home: str
    uptime_seconds: float
    address: str
    """Where it listens; empty if it does not."""


class Error(forms.Form, frozen=True, kw_only=True):
    """What is refused, and the next step."""

    code: str
    message: str
    remedy: str


class Refusal(forms.Form, frozen=True, kw_only=True):
    """The body of every answer that is not a result."""

    error: Error


async def _unused(*_: Any) -> None:
    """Stands where a verb's work stands; the host itself answers `status`."""


STATUS = Verb("How the host is.", Nothing, Status, _unused)


def document(ops: Iterable[str]) -> bytes:
    """The description of these operations, as JSON."""
    return msgspec.json.encode(describe(described(ops)))


def described(ops: Iterable[str]) -> dict[str, Verb]:
    """The verbs of these operations."""
    table = {**VERBS, "status": STATUS}
    return {op: table[op] for op in ops}


def describe(verbs: Mapping[str, Verb]) -> Json:
    """The whole document."""
    kinds = {kind for verb in verbs.values() for kind in (verb.takes, verb.gives)} | {Refusal, forms.Line}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=REF)
    schemas["Error"]["properties"]["code"]["enum"] = [code.value for code in ErrorCode]
    schemas["Event"] = _event(schemas["Line"])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tallystick host API",
            "version": __version__,
            "description": "The verbs of the host over HTTP. Results may gain keys, and never lose one.",
        },
        "security": [{"token": []}],
        "paths": {
            **{f"/v1/{op}": {"post": _operation(op, verb)} for op, verb in verbs.items()},
            "/v1/events": {"get": _events()},
            "/v1/socket": {"get": _socket()},
            "/v1/openapi.json": {"get": _itself()},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {str(status): _refused(codes) for status, codes in statuses().items()},
            "schemas": schemas,
        },
    }


def statuses() -> dict[int, list[str]]:
    """Every status of a refusal, with the codes that it goes with."""
    pairs = {(shape.status, shape.code) for shape in ERRORS.values()}
    pairs |= {(status, row.code.value) for status, row in PROTOCOL.items()}
    return {status: sorted(c for s, c in pairs if s == status) for status in sorted({s for s, _ in pairs})}


def _operation(op: str, verb: Verb) -> Json:
    return {
        "operationId": op,
        "summary": verb.summary,
        "requestBody": {"required": True, "content": _content(_request(verb))},
        "responses": {"200": {"description": "Done.", "content": _content(_ref(verb.gives.__name__))}, **_refusals()},
    }


def _request(verb: Verb) -> Json:
    needs = any(field.required for field in msgspec.structs.fields(verb.takes))
    return {
        "type": "object",
        "properties": {
            "as": {"type": "string", "description": "The agent to act as, in place of the token's own identity."},
            "workspace": {"type": "string", "description": "A workspace by name, id or path; else `default`."},
            "args": _ref(verb.takes.__name__),
        },
        "required": ["args"] if needs else [],
        "additionalProperties": False,
    }


def _events() -> Json:
    texts = {
        "after": ("query", "Go on after this cursor; without it the stream begins now."),
        "as": ("query", "The agent to read as."),
        "workspace": ("query", "A workspace of the reader."),
        "Last-Event-ID": ("header", "The same as `after`, and stronger."),
    }
    parameters = [
        {"name": name, "in": place, "description": text, "schema": {"type": "string"}}
        for name, (place, text) in texts.items()
    ]
    stream = "Server-sent events: `open` first, then each `data` is an Event and each `id` the cursor behind it."
    content = {"text/event-stream": {"schema": _ref("Event")}}
    return {
        "operationId": "events",
        "summary": "What happens, as it happens, as far as the reader may see it.",
        "parameters": parameters,
        "responses": {"200": {"description": stream, "content": content}, **_refusals()},
    }


def _socket() -> Json:
    return {
        "operationId": "socket",
        "summary": "A WebSocket with the lines of the Unix socket, one per text message.",
        "security": [{"token": []}, {}],
        "responses": {"101": {"description": "The first message is the hello, with `token` if no header had it."}}
        | _refusals(),
    }


def _itself() -> Json:
    content = _content({"type": "object"})
    return {
        "operationId": "openapi",
        "summary": "This description.",
        "responses": {"200": {"description": "The document.", "content": content}, **_refusals()},
    }


def _event(line: Json) -> Json:
    """A line of the log without its position."""
    properties = {name: kind for name, kind in line["properties"].items() if name != "position"}
    required = [name for name in line["required"] if name != "position"]
    return {**line, "title": "Event", "properties": properties, "required": required}


def _refused(codes: list[str]) -> Json:
    return {"description": f"Refused: {', '.join(codes)}.", "content": _content(_ref("Refusal"))}


def _refusals() -> Json:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses()}


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}
