"""An answer in the words of each dialect: as a stream of events and as one object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.support.model.script import Answer

Event = tuple[str, Any]
"""A name (empty for none) and the data."""
_MADE = 1_700_000_000


def streamed(dialect: str, answer: Answer, model: str, key: str, read: int) -> Iterator[Event]:
    """The events of an answer; `key` is in all its ids, `read` the tokens of the request."""
    return _STREAMS[dialect](answer, model, key, read)


def whole(dialect: str, answer: Answer, model: str, key: str, read: int) -> Any:
    """The answer as one object."""
    return _WHOLES[dialect](answer, model, key, read)


def line(dialect: str, event: Event) -> bytes:
    """An event as bytes of an event stream."""
    name, data = event
    said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {said}\n\n".encode()


def _pieces(answer: Answer) -> list[str]:
    return re.findall(r"\S+\s*|\s+", answer.text) if answer.drip else [answer.text]


def tokens_written(answer: Answer) -> int:
    """What the model counts of an answer."""
    return max(1, len(answer.text + json.dumps(answer.args)) // 4)


# --- chat-completions -----------------------------------------------------------------------------------------------


def _chat_usage(answer: Answer, read: int) -> dict[str, int]:
    written = tokens_written(answer)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _chat_call(answer: Answer, key: str) -> dict[str, Any]:
    return {
        "id": f"call_{key}",
        "type": "function",
        "function": {"name": answer.tool, "arguments": json.dumps(answer.args, ensure_ascii=False)},
    }


def _chat_stream(answer: Answer, model: str, key: str, read: int) -> Iterator[Event]:
    def chunk(choices: list[Any], **more: Any) -> Event:
        head = {"id": f"chatcmpl-{key}", "object": "chat.completion.chunk", "created": _MADE, "model": model}
        return "", {**head, "choices": choices, **more}

    def delta(said: dict[str, Any], reason: str | None = None) -> Event:
        return chunk([{"index": 0, "delta": said, "finish_reason": reason}])

    yield delta({"role": "assistant", "content": ""})
    if answer.tool:
        yield delta({"tool_calls": [{"index": 0, **_chat_call(answer, key)}]})
    else:
        for piece in _pieces(answer):
            yield delta({"content": piece})
    yield delta({}, "tool_calls" if answer.tool else "stop")
    yield chunk([], usage=_chat_usage(answer, read))
    yield "", "[DONE]"


def _chat_whole(answer: Answer, model: str, key: str, read: int) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": None if answer.tool else answer.text}
    if answer.tool:
        message["tool_calls"] = [_chat_call(answer, key)]
    reason = "tool_calls" if answer.tool else "stop"
    return {
        "id": f"chatcmpl-{key}",
        "object": "chat.completion",
        "created": _MADE,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _chat_usage(answer, read),
    }


# --- Responses ------------------------------------------------------------------------------------------------------


def _item(answer: Answer, key: str) -> dict[str, Any]:
    """The one output item: a message, a call, or (arguments that are a text) a call of a custom tool."""
    if not answer.tool:
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        return {"type": "message", "id": f"msg_{key}", "role": "assistant", "status": "completed", "content": [part]}
    space, _, name = answer.tool.rpartition(".")
    named = {"call_id": f"call_{key}", "name": name, "status": "completed", **({"namespace": space} if space else {})}
    if isinstance(answer.args, str):
        return {"type": "custom_tool_call", "id": f"ctc_{key}", "input": answer.args, **named}
    said = json.dumps(answer.args, ensure_ascii=False)
    return {"type": "function_call", "id": f"fc_{key}", "arguments": said, **named}


def _response(answer: Answer, model: str, key: str, read: int, *output: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens_written(answer),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + tokens_written(answer),
    }
    head = {"id": f"resp_{key}", "object": "response", "created_at": _MADE, "model": model}
    state = {"status": "completed", "usage": usage} if output else {"status": "in_progress"}
    return {**head, **state, "output": list(output)}


def _responses_stream(answer: Answer, model: str, key: str, read: int) -> Iterator[Event]:
    for number, (name, data) in enumerate(_responses_events(answer, model, key, read)):
        yield name, {"type": name, "sequence_number": number, **data}


def _responses_events(answer: Answer, model: str, key: str, read: int) -> Iterator[tuple[str, dict[str, Any]]]:
    item = _item(answer, key)
    at = {"item_id": item["id"], "output_index": 0}
    begun = {**item, "status": "in_progress"}
    yield "response.created", {"response": _response(answer, model, key, read)}
    if item["type"] == "message":
        yield "response.output_item.added", {"output_index": 0, "item": {**begun, "content": []}}
        part, spot = item["content"][0], {**at, "content_index": 0}
        yield "response.content_part.added", {**spot, "part": {**part, "text": ""}}
        for piece in _pieces(answer):
            yield "response.output_text.delta", {**spot, "delta": piece}
        yield "response.output_text.done", {**spot, "text": answer.text}
        yield "response.content_part.done", {**spot, "part": part}
    else:
        field = "input" if item["type"] == "custom_tool_call" else "arguments"
        kind = "custom_tool_call_input" if field == "input" else "function_call_arguments"
        yield "response.output_item.added", {"output_index": 0, "item": {**begun, field: ""}}
        yield f"response.{kind}.delta", {**at, "delta": item[field]}
        yield f"response.{kind}.done", {**at, field: item[field]}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": _response(answer, model, key, read, item)}


def _responses_whole(answer: Answer, model: str, key: str, read: int) -> Any:
    return _response(answer, model, key, read, _item(answer, key))


# --- Anthropic Messages -----------------------------------------------------------------------------------------------


def _message(answer: Answer, model: str, key: str, read: int, *content: Any) -> dict[str, Any]:
    head = {"id": f"msg_{key}", "type": "message", "role": "assistant", "model": model, "content": list(content)}
    usage = {
        "input_tokens": read,
        "output_tokens": tokens_written(answer) if content else 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    reason = ("tool_use" if answer.tool else "end_turn") if content else None
    return {**head, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _block(answer: Answer, key: str) -> dict[str, Any]:
    if answer.tool:
        return {"type": "tool_use", "id": f"toolu_{key}", "name": answer.tool, "input": answer.args}
    return {"type": "text", "text": answer.text}


def _messages_stream(answer: Answer, model: str, key: str, read: int) -> Iterator[Event]:
    for name, data in _messages_events(answer, model, key, read):
        yield name, {"type": name, **data}


def _messages_events(answer: Answer, model: str, key: str, read: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "message_start", {"message": _message(answer, model, key, read)}
    empty = {"input": {}} if answer.tool else {"text": ""}
    yield "content_block_start", {"index": 0, "content_block": {**_block(answer, key), **empty}}
    if answer.tool:
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(answer.args, ensure_ascii=False)}]
    else:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(answer)]
    for delta in deltas:
        yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    done = {"stop_reason": "tool_use" if answer.tool else "end_turn", "stop_sequence": None}
    yield "message_delta", {"delta": done, "usage": {"output_tokens": tokens_written(answer)}}
    yield "message_stop", {}


def _messages_whole(answer: Answer, model: str, key: str, read: int) -> Any:
    return _message(answer, model, key, read, _block(answer, key))


# --- Gemini -----------------------------------------------------------------------------------------------------------


def _gemini_chunk(answer: Answer, model: str, key: str, read: int, part: Any, *, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if last:
        candidate["finishReason"] = "STOP"
    written = tokens_written(answer)
    usage = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": key}


def _gemini_stream(answer: Answer, model: str, key: str, read: int) -> Iterator[Event]:
    if answer.tool:
        parts: list[Any] = [{"functionCall": {"id": f"call_{key}", "name": answer.tool, "args": answer.args}}]
    else:
        parts = [{"text": piece} for piece in _pieces(answer)] or [{"text": ""}]
    for number, part in enumerate(parts, 1):
        yield "", _gemini_chunk(answer, model, key, read, part, last=number == len(parts))


def _gemini_whole(answer: Answer, model: str, key: str, read: int) -> Any:
    part: Any = {"functionCall": {"name": answer.tool, "args": answer.args}} if answer.tool else {"text": answer.text}
    return _gemini_chunk(answer, model, key, read, part, last=True)


_STREAMS = {
    "chat": _chat_stream,
    "responses": _responses_stream,
    "messages": _messages_stream,
    "gemini": _gemini_stream,
}
_WHOLES = {"chat": _chat_whole, "responses": _responses_whole, "messages": _messages_whole, "gemini": _gemini_whole}
