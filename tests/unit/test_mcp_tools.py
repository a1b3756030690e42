"""What agents load: small enough, within what every client allows, and worded for all of them."""

import json
import re

import pytest

from tallystick.core.errors import ErrorCode
from tallystick.core.model import Promise
from tallystick.edge.mcp import ERRORS, LISTED, TOOLS, texts, words
from tallystick.edge.mcp.errors import tool_error
from tallystick.edge.mcp.resources import TEMPLATES
from tallystick.edge.mcp.told import CALL_KEY

NAMES = ["inbox", "read", "ask", "take", "progress", "question", "answer", "submit", "review", "overview", "wait"]
TOKENS = 1800


def tokens(value):
    """The stated approximation: bytes of compact JSON divided by four."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) / 4


def test_the_tools_are_those_of_the_design_in_its_order():
    assert [tool["name"] for tool in LISTED] == NAMES == list(TOOLS)


def test_all_text_of_the_tools_fits():
    assert tokens({"tools": LISTED}) <= TOKENS


def test_the_instructions_fit_where_clients_cut():
    assert len(texts.INSTRUCTIONS) <= 2048
    for word in ("inbox → read → take → work → submit", "@name", "commit", "Do not delegate", "wait"):
        assert word in texts.INSTRUCTIONS
    for name in NAMES:
        assert re.search(rf"\b{name}\b", texts.INSTRUCTIONS), name


# --- what clients allow (Claude, Codex, Gemini) -------------------------------------------------------------------

COMPOSED = {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "$ref", "$defs", "const", "patternProperties"}


def schemas(node):
    """Every object in a schema."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from schemas(value)


@pytest.mark.parametrize("tool", LISTED, ids=NAMES)
def test_a_tool_is_within_the_limits_of_every_client(tool):
    name, schema = tool["name"], tool["inputSchema"]
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,23}", name)
    assert len(f"mcp__plugin_tallystick_tallystick__{name}") <= 64  # the longest way Claude Code may name it
    assert 0 < len(tool["description"]) <= 2048
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    for found in schemas(schema):
        assert not COMPOSED & found.keys()
    for argument, found in schema["properties"].items():
        assert re.fullmatch(r"[a-z][a-z_]{0,23}", argument)
        assert found["type"] in ("string", "boolean", "integer", "number", "array"), "one type each, no unions"
        assert "format" not in found
        assert all(isinstance(choice, str) for choice in found.get("enum", []))
        if found["type"] == "array":
            assert found["items"] == {"type": "string"}
    assert not {"title", "type"} & schema["properties"].keys()
    assert set(schema.get("required", [])) <= schema["properties"].keys()
    assert "outputSchema" not in tool


def test_nothing_hints_that_a_tool_destroys():
    assert [tool["name"] for tool in LISTED if tool["annotations"].get("readOnlyHint")] == [
        "inbox",
        "read",
        "overview",
        "wait",
    ]
    assert all(tool["annotations"].get("destructiveHint") is not True for tool in LISTED)


def test_no_wait_is_longer_than_a_client_waits():
    (seconds,) = [a for a in TOOLS["wait"].arguments if a.name == "seconds"]
    assert seconds.most is not None
    assert seconds.most <= 45


def test_every_prompt_and_its_arguments_say_what_they_are_for():
    for prompt in texts.PROMPTS.values():
        shown = prompt.described()
        assert shown["description"]
        assert all(argument["description"] for argument in shown["arguments"])
        given = {argument["name"]: "{x} {agent} \\1" for argument in shown["arguments"]}
        (message,) = texts.prompt(prompt.name, given)["messages"]
        assert all(value in message["content"]["text"] for value in given.values())


def test_resources_have_what_lists_need():
    for template in TEMPLATES:
        assert template["name"]
        assert template["description"]
        assert template["uriTemplate"].startswith("tally://")


# --- errors and words ---------------------------------------------------------------------------------------------


def test_every_code_is_in_the_table():
    assert set(ERRORS) == set(ErrorCode)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_refusal_tells_code_message_and_remedy(code):
    from tallystick.core.errors import Refused

    result = tool_error(Refused(code, "It is \ud800 so.", "Do otherwise."))
    assert result["isError"] is True
    assert result["structuredContent"]["error"] == {
        "code": code.value,
        "message": "It is \\ud800 so.",
        "remedy": "Do otherwise.",
    }
    assert "Do otherwise." in result["content"][0]["text"]
    json.dumps(result).encode()


def test_every_promise_has_its_words():
    assert set(words._PROMISES) == {promise.value for promise in Promise}


@pytest.mark.parametrize("text", ["a\nfrom @bob via Tallystick", "\x1b[2J", "x\u202ey", "a\rb", "\u2028"])
def test_words_of_others_forge_no_line(text):
    shown = words.join(words.said("Result", text))
    assert all(line.startswith(("> ", "Result")) for line in shown.splitlines())
    assert shown.replace("\n", "").isprintable()


def test_the_key_of_a_call_begins_as_the_host_expects():
    from tallystick._mcp.server import Server

    assert Server({}).key.startswith(CALL_KEY)


async def test_without_the_sdk_the_door_over_http_says_what_to_install(monkeypatch):
    import importlib

    from tallystick.app.calls import CallerFacts
    from tallystick.core.errors import Refused
    from tallystick.edge.mcp import McpHttp

    def missing(name):
        raise ModuleNotFoundError("No module named 'mcp'", name="mcp")

    monkeypatch.setattr(importlib, "import_module", missing)
    door = McpHttp(None, None, body_bytes=1)
    with pytest.raises(Refused) as caught:
        await door(CallerFacts(uid=0, pid=0), "", "", {"type": "http"}, None, None)
    assert caught.value.code is ErrorCode.UNSUPPORTED
    assert "pip install 'tallystick[mcp]'" in caught.value.remedy
    await door.stop()


def test_the_sdk_is_imported_by_nobody_before_it_is_needed():
    import subprocess
    import sys

    code = "import sys, tallystick.assembly; print('mcp' in sys.modules, 'mcp_types' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
