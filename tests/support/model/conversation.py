"""What a client sent to its model, in one shape for all dialects: a list of items, oldest first, and the tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

USER, DEVELOPER, SYSTEM, ASSISTANT, CALL, RESULT = "user", "developer", "system", "assistant", "call", "result"

LOADERS = ("ToolSearch",)
"""Tools by which a client loads others on demand."""
_REMINDERS = re.compile(r"\n\n(?=<(?:system-reminder|hook_context)>)")
"""Claude and Gemini put what a hook says at the end of a result."""


class Malformed(Exception):
    """A request that is not of its dialect."""


@dataclass(frozen=True)
class Item:
    """One text of a conversation: what somebody said, a call of a tool (its arguments), or a result."""

    kind: str
    text: str
    name: str = ""
    id: str = ""
    """What a call and its result have in common, where the dialect has that."""


@dataclass(frozen=True)
class Conversation:
    """What a model sees."""

    items: list[Item] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    """Names; a tool in a namespace is `namespace.name`."""
    json_wanted: bool = False
    """The answer has to be a JSON object."""

    def results(self, since: int = 0) -> list[Item]:
        """What tools gave back from that item on; looking for a tool to load is no step and not here."""
        looked = {item.id for item in self.items if item.kind == CALL and item.name in LOADERS and item.id}
        return [item for item in self.items[since:] if item.kind == RESULT and item.id not in looked]

    def of(self, *kinds: str) -> list[str]:
        """The texts of these kinds."""
        return [item.text for item in self.items if item.kind in kinds]

    @property
    def user(self) -> str:
        """The newest text of a user, or of who speaks as one; empty if there is none."""
        return next(iter(reversed(self.of(USER))), "")

    @property
    def text(self) -> str:
        """Everything."""
        return "\n".join(item.text for item in self.items)


def read(dialect: str, body: Any) -> Conversation:
    """The conversation in a request of a dialect; `Malformed` if it has none."""
    if not isinstance(body, dict):
        raise Malformed("the body is no object")
    try:
        return _READERS[dialect](body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Malformed(f"not a request of the dialect {dialect}: {type(error).__name__}: {error}") from None


def _texts(content: Any) -> Iterator[str]:
    """The texts of a content: itself, or those of its parts; other parts as JSON, so that nothing is lost."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, str):
                yield part
            elif isinstance(part.get("text"), str):
                yield part["text"]
            else:
                yield json.dumps(part)
    elif content is not None:
        yield json.dumps(content)


def _joined(content: Any) -> str:
    return "\n".join(_texts(content))


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is needed")
    return value


def _chat(body: dict[str, Any]) -> Conversation:
    items: list[Item] = []
    for message in _listed(body["messages"]):
        role = message["role"]
        if role == "tool":
            items.append(Item(RESULT, _joined(message.get("content")), id=message.get("tool_call_id", "")))
            continue
        # One system prompt stands first; what comes later in that role was put in by a client or a hook.
        kind = DEVELOPER if role in ("system", "developer") and items else role
        items += [Item(kind, text) for text in _texts(message.get("content"))]
        for call in message.get("tool_calls") or []:
            items.append(Item(CALL, call["function"]["arguments"], call["function"]["name"], call.get("id", "")))
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    form = (body.get("response_format") or {}).get("type", "")
    return Conversation(items, tools, form.startswith("json"))


def _responses(body: dict[str, Any]) -> Conversation:
    given = body["input"]
    items = [Item(SYSTEM, body["instructions"])] if body.get("instructions") else []
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    for entry in _listed(given):
        kind = entry.get("type", "message")
        if kind == "message":
            items += [Item(entry["role"], text) for text in _texts(entry["content"])]
        elif kind.endswith("_output"):
            items.append(Item(RESULT, _joined(entry.get("output", entry.get("tools"))), id=entry.get("call_id", "")))
        elif kind.endswith("_call"):
            said = entry.get("arguments", entry.get("input", entry.get("action", "")))
            said = said if isinstance(said, str) else json.dumps(said)
            items.append(Item(CALL, said, entry.get("name", kind), entry.get("call_id", "")))
    tools: list[str] = []
    for tool in body.get("tools") or []:
        name = tool.get("name", tool["type"])
        tools += [f"{name}.{inner['name']}" for inner in tool["tools"]] if tool["type"] == "namespace" else [name]
    form = ((body.get("text") or {}).get("format") or {}).get("type", "")
    return Conversation(items, tools, form.startswith("json"))


def _messages(body: dict[str, Any]) -> Conversation:
    items = [Item(SYSTEM, text) for text in _texts(body.get("system"))]
    for message in _listed(body["messages"]):
        content, role = message["content"], message["role"]
        role = DEVELOPER if role == "system" else role
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else _listed(content):
            if part["type"] == "text":
                items.append(Item(role, part["text"]))
            elif part["type"] == "tool_result":
                items += _result(_joined(part.get("content")), id=part["tool_use_id"])
            elif part["type"] == "tool_use":
                items.append(Item(CALL, json.dumps(part["input"]), part["name"], part["id"]))
    tools = [tool["name"] for tool in body.get("tools") or []]
    form = ((body.get("output_config") or {}).get("format") or body.get("output_format") or {}).get("type", "")
    return Conversation(items, tools, form.startswith("json"))


def _gemini(body: dict[str, Any]) -> Conversation:
    system = (body.get("systemInstruction") or {}).get("parts")
    items = [Item(SYSTEM, text) for text in _texts(system)]
    for content in _listed(body["contents"]):
        role = ASSISTANT if content.get("role") == "model" else USER
        for part in content["parts"]:
            if "functionResponse" in part:
                items += _answered(part["functionResponse"])
            elif "functionCall" in part:
                call = part["functionCall"]
                items.append(Item(CALL, json.dumps(call.get("args", {})), call["name"]))
            elif "text" in part:
                items.append(Item(role, part["text"]))
    tools = [item["name"] for tool in body.get("tools") or [] for item in tool.get("functionDeclarations") or []]
    form = (body.get("generationConfig") or {}).get("responseMimeType", "")
    return Conversation(items, tools, form == "application/json")


def _result(text: str, **more: str) -> list[Item]:
    """A result, and what was put to its end."""
    own, *reminders = _REMINDERS.split(text)
    return [Item(RESULT, own, **more), *(Item(DEVELOPER, reminder) for reminder in reminders)]


def _answered(said: dict[str, Any]) -> list[Item]:
    response = said.get("response")
    only = next(iter(response.values())) if isinstance(response, dict) and len(response) == 1 else None
    return _result(only if isinstance(only, str) else json.dumps(response), name=said.get("name", ""))


_READERS: dict[str, Callable[[dict[str, Any]], Conversation]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "gemini": _gemini,
}
