"""The fixtures that the public conformance suite calls by their names, beside our own tools. Tests only.

`python tests/support/mcp_fixtures.py` runs a host with them at a free port; it prints its address. The suite knows no
tokens, so here one is put on every request before the gate, which else is as always.
"""

import asyncio
import hmac
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import mcp_types as types  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def text(words):
    return {"type": "text", "text": words}


def embedded(uri, mime, words):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def said(*content):
    return {"content": list(content), "resultType": "complete"}


# --- tools that only answer ---------------------------------------------------------------------------------------

SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

PLAIN = {
    "test_simple_text": said(text("This is a simple text response for testing.")),
    "test_image_content": said(IMAGE),
    "test_audio_content": said({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
    "test_embedded_resource": said(
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": said(
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_error_handling": {
        "isError": True,
        **said(text("This tool intentionally returns an error for testing")),
    },
    "json_schema_2020_12_tool": said(text("so")),
    "test_x_mcp_header": said(text("so")),
    "test_logging_tool": said(text("nothing was logged")),
}


# --- tools that talk back -----------------------------------------------------------------------------------------


async def logging(ctx, params):
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
        await asyncio.sleep(0.05)
    return said(text("logged"))


async def progress(ctx, params):
    for part in (0, 50, 100):
        await ctx.session.report_progress(part, 100)
        await asyncio.sleep(0.05)
    return said(text("done"))


async def sampling(ctx, params):
    message = types.SamplingMessage(
        role="user", content=types.TextContent(type="text", text=(params.arguments or {})["prompt"])
    )
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return said(text(f"LLM response: {answer.content.text}"))


def asking(schema, words="What is it?", prefix="Elicitation completed"):
    async def ask(ctx, params):
        message = (params.arguments or {}).get("message", words)
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        return said(text(f"{prefix}: action={answer.action}, content={json.dumps(answer.content)}"))

    return ask


ELICITATION = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]},
        },
    },
}


async def reconnection(ctx, params):
    if ctx.close_sse_stream:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return said(text("it went on"))


async def missing_capability(ctx, params):
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(-32021, "Missing required client capability", {"requiredCapabilities": {"sampling": {}}})
    return said(text("it is there"))


# --- results in several rounds ------------------------------------------------------------------------------------


def elicit(message, name, kind="string"):
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(words, most=100):
    messages = [{"role": "user", "content": text(words)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": most}}


ROOTS = {"method": "roots/list", "params": {}}
NAME = {"user_name": elicit("What is your name?", "name")}


def wanted(requests, state=None):
    found = {"resultType": "input_required", "inputRequests": requests}
    return found | ({"requestState": sealed(state)} if state else {})


def sealed(state):
    return f"{state}.{hmac.digest(b'fixture', state.encode(), 'sha256').hex()}"


def opened(given):
    state, _, tag = (given or "").partition(".")
    if not hmac.compare_digest(sealed(state), f"{state}.{tag}"):
        raise MCPError(-32602, "requestState was tampered with")
    return state


def responses(ctx):
    found = (ctx.params or {}).get("inputResponses")
    return found if isinstance(found, dict) else {}


def content_of(ctx, key, name):
    answer = responses(ctx).get(key)
    content = answer.get("content") if isinstance(answer, dict) else None
    return content.get(name) if isinstance(content, dict) else None


def state_of(ctx):
    given = (ctx.params or {}).get("requestState")
    return opened(given) if given is not None else ""


async def rounds_name(ctx, params):
    name = content_of(ctx, "user_name", "name")
    return said(text(f"Hello, {name}!")) if isinstance(name, str) else wanted(NAME)


async def rounds_sampling(ctx, params):
    answer = responses(ctx).get("capital_question")
    if answer is None:
        return wanted({"capital_question": sample("What is the capital of France?")})
    return said(text(json.dumps(answer)))


async def rounds_roots(ctx, params):
    answer = responses(ctx).get("client_roots")
    return said(text(json.dumps(answer))) if answer else wanted({"client_roots": ROOTS})


async def rounds_state(ctx, params):
    if content_of(ctx, "confirm", "ok") is None or state_of(ctx) != "asked":
        return wanted({"confirm": elicit("Please confirm", "ok", "boolean")}, "asked")
    return said(text("state-ok"))


async def rounds_many(ctx, params):
    requests = {**NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}
    if not requests.keys() <= responses(ctx).keys() or state_of(ctx) != "asked":
        return wanted(requests, "asked")
    return said(text("all is there"))


async def rounds_steps(ctx, params):
    state = state_of(ctx)
    if state == "two" and "step2" in responses(ctx):
        return said(text("done"))
    if state == "one" and "step1" in responses(ctx):
        return wanted({"step2": elicit("Step 2: What is your favorite color?", "color")}, "two")
    return wanted({"step1": elicit("Step 1: What is your name?", "name")}, "one")


async def rounds_capabilities(ctx, params):
    capabilities = ctx.session.client_capabilities
    requests = {}
    if capabilities is not None and capabilities.sampling is not None:
        requests["sampled"] = sample("Say something")
    if capabilities is not None and capabilities.elicitation is not None:
        requests |= NAME
    return wanted(requests) if requests else said(text("nothing can be asked"))


async def streaming(ctx, params):
    await ctx.session.report_progress(1, 2)
    return await rounds_name(ctx, params)


TALKING = {
    "test_tool_with_logging": logging,
    "test_tool_with_progress": progress,
    "test_sampling": sampling,
    "test_elicitation": asking(ELICITATION, prefix="User response"),
    "test_elicitation_sep1034_defaults": asking(DEFAULTS),
    "test_elicitation_sep1330_enums": asking(ENUMS),
    "test_reconnection": reconnection,
    "test_missing_capability": missing_capability,
    "test_streaming_elicitation": streaming,
    "test_input_required_result_elicitation": rounds_name,
    "test_input_required_result_sampling": rounds_sampling,
    "test_input_required_result_list_roots": rounds_roots,
    "test_input_required_result_request_state": rounds_state,
    "test_input_required_result_multiple_inputs": rounds_many,
    "test_input_required_result_multi_round": rounds_steps,
    "test_input_required_result_tampered_state": rounds_state,
    "test_input_required_result_capabilities": rounds_capabilities,
}


def _schema(name):
    if name == "json_schema_2020_12_tool":
        return SCHEMA_2020
    if name == "test_x_mcp_header":
        return HEADER
    needed = {"test_sampling": "prompt", "test_elicitation": "message"}.get(name)
    if needed:
        return {"type": "object", "properties": {needed: {"type": "string"}}, "required": [needed]}
    return EMPTY


TOOLS = [{"name": n, "description": f"Fixture {n}", "inputSchema": _schema(n)} for n in (*PLAIN, *TALKING)]


# --- resources and prompts ----------------------------------------------------------------------------------------

RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "It is watched."},
    "test://example-resource": {"mimeType": "text/plain", "text": "An example."},
}
LISTED_RESOURCES = [
    {"uri": uri, "name": uri.partition("//")[2], "description": "A fixture", "mimeType": found["mimeType"]}
    for uri, found in RESOURCES.items()
]
TEMPLATE = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}

PROMPTS = [
    {"name": "test_simple_prompt", "description": "A fixture"},
    {
        "name": "test_prompt_with_arguments",
        "description": "A fixture",
        "arguments": [{"name": n, "description": "One", "required": True} for n in ("arg1", "arg2")],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "A fixture",
        "arguments": [{"name": "resourceUri", "description": "Which", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "A fixture"},
    {"name": "test_input_required_result_prompt", "description": "A fixture"},
]


def resource(uri):
    """What is at a fixture's address; None if it is none of them."""
    if uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.split("/")[3]
        data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        return {"mimeType": "application/json", "text": json.dumps(data, separators=(",", ":"))}
    return RESOURCES.get(uri)


def prompt(ctx, name, given):
    """The messages of a fixture."""
    if name == "test_simple_prompt":
        found = [text("This is a simple prompt for testing.")]
    elif name == "test_prompt_with_arguments":
        found = [text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")]
    elif name == "test_prompt_with_embedded_resource":
        about = embedded(given.get("resourceUri", ""), "text/plain", "Embedded resource content for testing.")
        found = [about, text("Please process the embedded resource above.")]
    elif name == "test_prompt_with_image":
        found = [IMAGE, text("Please analyze the image above.")]
    elif content_of(ctx, "user_context", "context") is None:
        return wanted({"user_context": elicit("What context should the prompt use?", "context")})
    else:
        found = [text(f"With {content_of(ctx, 'user_context', 'context')}")]
    return {"messages": [{"role": "user", "content": item} for item in found], "resultType": "complete"}


# --- beside our own -----------------------------------------------------------------------------------------------


def mount(server):  # noqa: C901 - a list of handlers
    """Put the fixtures beside what the server has."""
    server.more = {"completions": {}, "logging": {}}
    ours = {name: server.get_request_handler(name) for name in METHODS}

    async def listed(name, key, more, ctx, params):
        found = await ours[name].handler(ctx, params)
        return {**found, key: [*found[key], *more]}

    async def call(ctx, params):
        if params.name in PLAIN:
            return dict(PLAIN[params.name])
        if params.name in TALKING:
            return await TALKING[params.name](ctx, params)
        return await ours["tools/call"].handler(ctx, params)

    async def read(ctx, params):
        found = resource(str(params.uri))
        if found is None:
            return await ours["resources/read"].handler(ctx, params)
        contents = [{"uri": str(params.uri), **found}]
        return {"contents": contents, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def get(ctx, params):
        if any(row["name"] == params.name for row in PROMPTS):
            return prompt(ctx, params.name, params.arguments or {})
        return await ours["prompts/get"].handler(ctx, params)

    async def subscribe(ctx, params):
        if resource(str(params.uri)) is not None:
            return types.EmptyResult()
        return await ours["resources/subscribe"].handler(ctx, params)

    async def complete(ctx, params):
        return {"completion": {"values": [], "hasMore": False}, "resultType": "complete"}

    async def level(ctx, params):
        return types.EmptyResult()

    for name, key, more in (
        ("tools/list", "tools", TOOLS),
        ("resources/list", "resources", LISTED_RESOURCES),
        ("resources/templates/list", "resourceTemplates", [TEMPLATE]),
        ("prompts/list", "prompts", PROMPTS),
    ):
        add(server, ours, name, lambda c, p, n=name, k=key, m=more: listed(n, k, m, c, p))
    for name, handler in (
        ("tools/call", call),
        ("resources/read", read),
        ("prompts/get", get),
        ("resources/subscribe", subscribe),
    ):
        add(server, ours, name, handler)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, level)


METHODS = (
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "prompts/list",
    "prompts/get",
)


def add(server, ours, name, handler):
    server.add_request_handler(name, ours[name].params_type, handler)


def with_token(application, token):
    """The application behind a door that has the token for everybody."""

    async def door(scope, receive, send):
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + token)]}
            scope["query_string"] = b"as=alice"
        await application(scope, receive, send)

    return door


def main():
    from msgspec.structs import replace

    from tallystick import assembly, bootstrap
    from tallystick.edge.api.http import server as http

    plain = http.application

    def application(door, site, mounts, *more):
        token = (Path(bootstrap.wire.home()) / "token").read_bytes().strip()
        return with_token(plain(door, site, mounts, *more), token)

    http.application = application
    build = bootstrap.build
    bootstrap.build = lambda settings: build(settings, assembly.World(mcp=mount))
    load = bootstrap.load
    bootstrap.load = lambda home: replace(load(home), listen="127.0.0.1:0")
    return bootstrap.main(["up"])


if __name__ == "__main__":
    sys.exit(main())
