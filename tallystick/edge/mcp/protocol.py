"""The Model Context Protocol over the one table, in both of its eras, without any SDK.

Handshake era (2024-11-05 … 2025-11-25): a client begins with `initialize`. Modern era (2026-07-28): every request
carries its version in `_meta`, results say their type, and lists how long they are good for. A request is of the modern
era where its envelope is there; so one connection may change its mind, and a client that probes first is well served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from tallystick import __version__
from tallystick.app.calls import CallerFacts
from tallystick.app.desk.interface import Desk, Guest
from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.mcp import channel, errors, resources, texts
from tallystick.edge.mcp.arguments import fit
from tallystick.edge.mcp.errors import ProtocolError
from tallystick.edge.mcp.tools import LISTED, TOOLS

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with `initialize`, oldest first."""
MODERN: Final = ("2026-07-28",)
"""Versions whose requests carry their own envelope."""

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

SERVER: Final[dict[str, Any]] = {"name": "tallystick", "title": "Tallystick", "version": __version__}
CAPABILITIES: Final[dict[str, Any]] = {
    "prompts": {"listChanged": False},
    "resources": {"subscribe": True, "listChanged": False},
    "tools": {"listChanged": False},
}
_CONSTANT_MS: Final = 3_600_000
"""How long the lists of tools, prompts and templates may be kept: they change only with the host's version."""


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a request, and what it wants to be."""

    facts: CallerFacts
    as_name: str = ""
    workspace: str = ""
    key: str = ""
    """Names this very call: sent again after a lost connection, it is done once."""
    again: bool = False
    """Whether it was sent before, to a host that went away."""
    begun_at: float = 0.0
    """When it was sent first, in UTC seconds; 0 where that is not known."""
    channel: bool = False
    """Whether its client is told in the middle of its work."""


class Reply(msgspec.Struct, frozen=True):
    """A result, and what is to be done once the reader has it."""

    result: dict[str, Any]
    seen: Callable[[], Awaitable[None]] | None = None


Answering = Callable[[Mapping[str, Any], Visitor], Awaitable[Reply]]


class Method(msgspec.Struct, frozen=True):
    """One method: who answers it, in which eras, and how long its result is good for (modern era)."""

    answer: Answering
    handshake: bool = True
    modern: bool = True
    ttl_ms: int | None = None
    scope: str = "private"


class Protocol:
    """Answers requests, whatever carried them."""

    def __init__(self, desk: Desk, diagnostics: Diagnostics) -> None:
        self.desk = desk
        self.diagnostics = diagnostics
        self.methods: dict[str, Method] = {
            "initialize": Method(self._initialize, modern=False),
            "ping": Method(_nothing, modern=False),
            "server/discover": Method(_discover, handshake=False, ttl_ms=_CONSTANT_MS, scope="public"),
            "tools/list": Method(_tools, ttl_ms=_CONSTANT_MS, scope="public"),
            "tools/call": Method(self._call),
            "resources/list": Method(self._resources, ttl_ms=0),
            "resources/templates/list": Method(_templates, ttl_ms=_CONSTANT_MS, scope="public"),
            "resources/read": Method(self._read, ttl_ms=0),
            "resources/subscribe": Method(self._subscribe, modern=False),
            "resources/unsubscribe": Method(_nothing, modern=False),
            "prompts/list": Method(_prompts, ttl_ms=_CONSTANT_MS, scope="public"),
            "prompts/get": Method(_prompt),
        }

    async def reply(self, method: str, params: Any, visitor: Visitor) -> Reply:
        """The answer to a request. Raises `ProtocolError`; a tool that refuses is an answer, not an error."""
        modern = is_modern(method, params)
        if modern:
            check_envelope(params)
        row = self.methods.get(method)
        if row is None or not (row.modern if modern else row.handshake):
            raise ProtocolError(errors.METHOD_NOT_FOUND, "Method not found", method[:100])
        given = {} if params is None else params
        if not isinstance(given, Mapping):
            raise ProtocolError(errors.INVALID_PARAMS, "The params are no object.")
        try:
            reply = await row.answer(given, visitor)
        except Refused as refused:
            raise errors.protocol_error(refused) from None
        except (ProtocolError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong inside is ours to record
            raise errors.protocol_error(self.unforeseen(f"mcp {method}", error)) from None
        return Reply(stamped(reply.result, row), reply.seen) if modern else reply

    def unforeseen(self, where: str, error: Exception) -> Refused:
        """What a caller is told of an error of ours: a reference number. The detail goes to the diagnostics."""
        reference = self.diagnostics.failure(where, error)
        return Refused(
            ErrorCode.INTERNAL,
            f"The host failed while it answered; the reference is {reference}.",
            "Tell your user: `tally status --diagnostics` shows what it was.",
        )

    async def guest(self, visitor: Visitor, *, register: bool = False) -> Guest:
        """Who it is. A client that is not known and says nothing of itself is bound to nobody, and so only reads."""
        facts = visitor.facts
        if not facts.client:
            facts = msgspec.structs.replace(facts, client=_client_of(facts))
        return await self.desk.guest(facts, as_name=visitor.as_name, workspace=visitor.workspace, register=register)

    # --- methods that need more than the tables -----------------------------------------------------------------

    async def _initialize(self, params: Mapping[str, Any], visitor: Visitor) -> Reply:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise ProtocolError(errors.INVALID_PARAMS, "initialize needs `protocolVersion`.")
        return Reply(
            {
                "protocolVersion": wanted if wanted in HANDSHAKE else HANDSHAKE[-1],
                "serverInfo": SERVER,
                **_offered(params.get("capabilities"), visitor),
            }
        )

    async def _call(self, params: Mapping[str, Any], visitor: Visitor) -> Reply:
        name = params.get("name")
        tool = TOOLS.get(name) if isinstance(name, str) else None
        if tool is None:
            raise ProtocolError(errors.INVALID_PARAMS, f"Unknown tool: {str(name)[:64]}", {"tools": list(TOOLS)})
        try:
            given = fit(tool.arguments, params.get("arguments"))
            if tool.goes_on and visitor.again:
                given["begun_at"] = visitor.begun_at
            guest = await self.guest(visitor, register=tool.registers)
            answer = await tool.run(self.desk, guest, given, visitor.key)
        except Refused as refused:
            return Reply(errors.tool_error(refused))
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong inside is ours to record
            return Reply(errors.tool_error(self.unforeseen(f"mcp tool {tool.name}", error)))
        content = [{"type": "text", "text": answer.text}]
        return Reply({"content": content, "structuredContent": answer.data, "isError": False}, answer.seen)

    async def _resources(self, params: Mapping[str, Any], visitor: Visitor) -> Reply:  # noqa: ARG002
        return Reply({"resources": await resources.listed(self.desk, await self.guest(visitor))})

    async def _read(self, params: Mapping[str, Any], visitor: Visitor) -> Reply:
        uri = params.get("uri")
        guest = await self.guest(visitor)
        try:
            text = encode(await resources.found(self.desk, guest, uri))
        except Refused as refused:
            raise errors.resource_error(refused, uri, modern=is_modern("resources/read", params)) from None
        return Reply({"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]})

    async def _subscribe(self, params: Mapping[str, Any], visitor: Visitor) -> Reply:
        uri = params.get("uri")
        guest = await self.guest(visitor)
        try:
            await resources.found(self.desk, guest, uri)
        except Refused as refused:
            raise errors.resource_error(refused, uri, modern=False) from None
        return Reply({})


def _client_of(facts: CallerFacts) -> str:
    from tallystick.core.clients import client_among

    return client_among(facts.ancestors) or "mcp"


# --- methods answered from the tables ---------------------------------------------------------------------------


async def _nothing(params: Mapping[str, Any], visitor: Visitor) -> Reply:  # noqa: ARG001
    return Reply({})


async def _discover(params: Mapping[str, Any], visitor: Visitor) -> Reply:
    told = params.get("_meta", {}).get(_CAPABILITIES_KEY)
    return Reply({"supportedVersions": list(MODERN), **_offered(told, visitor)})


def _offered(told: Any, visitor: Visitor) -> dict[str, Any]:
    """What the server can do and how to use it; the experiment only for a client that wants it."""
    if not (visitor.channel or channel.is_wanted(told)):
        return {"capabilities": CAPABILITIES, "instructions": texts.INSTRUCTIONS}
    capabilities = {**CAPABILITIES, "experimental": {channel.NAME: {}}}
    return {"capabilities": capabilities, "instructions": texts.INSTRUCTIONS + channel.INSTRUCTION}


async def _tools(params: Mapping[str, Any], visitor: Visitor) -> Reply:  # noqa: ARG001
    return Reply({"tools": LISTED})


async def _templates(params: Mapping[str, Any], visitor: Visitor) -> Reply:  # noqa: ARG001
    return Reply({"resourceTemplates": resources.TEMPLATES})


async def _prompts(params: Mapping[str, Any], visitor: Visitor) -> Reply:  # noqa: ARG001
    return Reply({"prompts": [prompt.described() for prompt in texts.PROMPTS.values()]})


async def _prompt(params: Mapping[str, Any], visitor: Visitor) -> Reply:  # noqa: ARG001
    return Reply(texts.prompt(params.get("name"), params.get("arguments")))


# --- eras -------------------------------------------------------------------------------------------------------


def is_modern(method: str, params: Any) -> bool:
    """Whether a request carries the envelope of the modern era. `initialize` does not exist there."""
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    enveloped = isinstance(meta, Mapping) and _VERSION_KEY in meta
    return enveloped and method != "initialize"


def check_envelope(params: Any) -> None:
    """The envelope is whole and of a version that is served. Raises `ProtocolError`."""
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    if not isinstance(meta, Mapping):
        raise ProtocolError(errors.INVALID_PARAMS, f"params._meta must carry {_VERSION_KEY} and {_CAPABILITIES_KEY}.")
    missing = [key for key in (_VERSION_KEY, _CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise ProtocolError(errors.INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}.")
    version = meta[_VERSION_KEY]
    if not isinstance(version, str):
        raise ProtocolError(errors.INVALID_PARAMS, f"{_VERSION_KEY} must be a text.")
    if version not in MODERN:
        data = {"supported": list(MODERN), "requested": version}
        raise ProtocolError(errors.UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def stamped(result: dict[str, Any], row: Method) -> dict[str, Any]:
    """A result as the modern era wants it."""
    good = {} if row.ttl_ms is None else {"ttlMs": row.ttl_ms, "cacheScope": row.scope}
    return {**result, "resultType": "complete", **good, "_meta": {SERVER_KEY: SERVER, **result.get("_meta", {})}}


def encode(value: Any) -> str:
    """JSON on one line. Lone surrogates, which UTF-8 cannot hold, become JSON's own escapes."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
