"""The scripted model that real clients are driven with: its dialects, its scripts and rules, its log."""

from __future__ import annotations

import gzip
import http.client
import json
import socket

import pytest

from tests.support.model import Model, Rule, script
from tests.support.model.script import DONE, SIDE

SECONDS = 60
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "bash"}}],
    "responses": [
        {"type": "function", "name": "exec_command"},
        {"type": "namespace", "name": "mcp__tally", "tools": [{"type": "function", "name": "take"}]},
    ],
    "messages": [{"name": "Bash"}, {"name": "mcp__tally__take"}],
    "gemini": [{"functionDeclarations": [{"name": "run_shell_command"}, {"name": "mcp_tally_take"}]}],
}
SHELL = {"chat": "bash", "responses": "exec_command", "messages": "Bash", "gemini": "run_shell_command"}
DIALECTS = [*TOOLS]


@pytest.fixture
def model():
    with Model() as server:
        yield server


# --- a client of each dialect, as small as can be ----------------------------------------------------------------


def place(dialect, stream):
    if dialect == "gemini":
        return "/v1beta/models/gemini-2.5-flash:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
    return {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[dialect]


def asked(dialect, turns, stream=False, tools=True):
    """A request: `turns` are texts of the user and, in a tuple of one, results of tools."""
    body = {"tools": TOOLS[dialect]} if tools else {}
    if dialect != "gemini":
        body |= {"model": "fake-model", "stream": stream}
    said = [_said(dialect, turn, number) for number, turn in enumerate(turns)]
    return body | {{"responses": "input", "gemini": "contents"}.get(dialect, "messages"): said}


def _said(dialect, turn, number):
    text, result = (turn, None) if isinstance(turn, str) else (None, turn[0])
    if dialect == "gemini":
        answered = {"functionResponse": {"name": "x", "response": {"output": result}}}
        return {"role": "user", "parts": [answered if text is None else {"text": text}]}
    if text is not None:
        return {"role": "user", "content": text}
    return {
        "chat": {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        "responses": {"type": "function_call_output", "call_id": f"c{number}", "output": result},
        "messages": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": f"c{number}", "content": result}],
        },
    }[dialect]


def post(model, path, body, **headers):
    """(status, body) of a request; the body is JSON unless it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    line = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=SECONDS)
    try:
        line.request("POST", path, data, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def events(raw):
    """The data of each event of a stream."""
    found = [part.partition("data: ")[2] for part in raw.decode().split("\n\n") if part]
    return [json.loads(data) for data in found if data != "[DONE]"]


def gist(dialect, answer):
    """What an answer says: its text, or (tool, arguments)."""
    if dialect == "chat":
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls")
        call = calls[0]["function"] if calls else None
        return (call["name"], json.loads(call["arguments"])) if call else message["content"]
    if dialect == "responses":
        item = answer["output"][0]
        if item["type"] == "message":
            return item["content"][0]["text"]
        return ".".join(filter(None, (item.get("namespace"), item["name"]))), json.loads(item["arguments"])
    if dialect == "messages":
        block = answer["content"][0]
        return block["text"] if block["type"] == "text" else (block["name"], block["input"])
    part = answer["candidates"][0]["content"]["parts"][0]
    return part["text"] if "text" in part else (part["functionCall"]["name"], part["functionCall"]["args"])


def streamed_gist(dialect, found):
    """The same of a stream, put together from its pieces alone."""
    if dialect == "chat":
        deltas = [event["choices"][0]["delta"] for event in found if event["choices"]]
        calls = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
        if calls:
            return calls[0]["name"], json.loads("".join(call["arguments"] for call in calls))
        return "".join(delta.get("content", "") for delta in deltas)
    if dialect == "responses":
        assert [event["sequence_number"] for event in found] == list(range(len(found)))
        assert found[0]["type"] == "response.created"
        done = gist(dialect, found[-1]["response"])
        pieces = "".join(event["delta"] for event in found if event["type"].endswith(".delta"))
        assert pieces == done if isinstance(done, str) else json.loads(pieces) == done[1]
        return done
    if dialect == "messages":
        assert [found[0]["type"], found[-1]["type"]] == ["message_start", "message_stop"]
        block = found[1]["content_block"]
        deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
        if block["type"] == "tool_use":
            return block["name"], json.loads("".join(delta["partial_json"] for delta in deltas))
        return "".join(delta["text"] for delta in deltas)
    parts = [event["candidates"][0]["content"]["parts"][0] for event in found]
    assert found[-1]["candidates"][0]["finishReason"] == "STOP"
    if "functionCall" in parts[0]:
        return parts[0]["functionCall"]["name"], parts[0]["functionCall"]["args"]
    return "".join(part["text"] for part in parts)


def turn(model, dialect, *turns, stream=False, tools=True):
    """What the model says to a conversation."""
    status, raw = post(model, place(dialect, stream), asked(dialect, turns, stream, tools))
    assert status == 200, raw
    return streamed_gist(dialect, events(raw)) if stream else gist(dialect, json.loads(raw))


# --- scripts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_number_of_results_says_which_step_is_next(model, dialect, stream):
    prompt = script({"shell": "echo 你好"}, {"text": "It said {{result}}"}, before="Please: ")
    name, args = turn(model, dialect, prompt, stream=stream)
    assert name == SHELL[dialect]
    assert "echo 你好" in args.values()
    assert turn(model, dialect, prompt, ("你好",), stream=stream) == "It said 你好"
    assert turn(model, dialect, prompt, ("你好",), ("more",), stream=stream) == DONE


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_last_script_counts_and_begins_at_its_first_step(model, dialect):
    old, new = script({"shell": "true"}, {"text": "old"}), script({"text": "new {{users}}"})
    assert turn(model, dialect, old, ("",), new) == "new "
    assert turn(model, dialect, old, ("",), new, "steered") == "new steered"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_without_tools_runs_no_step(model, dialect):
    prompt = script({"text": "a step"})
    assert turn(model, dialect, prompt, tools=False) == SIDE
    assert model.turns == []
    assert turn(model, dialect, prompt) == "a step"
    assert len(model.turns) == 1


def test_a_request_for_json_gets_an_object(model):
    body = asked("gemini", ["Who is next?"], tools=False)
    body["generationConfig"] = {"responseMimeType": "application/json"}
    _, raw = post(model, place("gemini", False), body)
    assert json.loads(gist("gemini", json.loads(raw)))["next_speaker"] == "user"


@pytest.mark.parametrize("dialect", ["responses", "messages", "gemini"])
def test_a_tool_of_an_mcp_server_is_called_by_the_clients_own_name(model, dialect):
    name, args = turn(model, dialect, script({"mcp": "tally.take", "args": {"task_id": "tsk_1"}}))
    names = {"responses": "mcp__tally.take", "messages": "mcp__tally__take", "gemini": "mcp_tally_take"}
    assert (name, args) == (names[dialect], {"task_id": "tsk_1"})
    assert "CANNOT call tally.drop" in turn(model, dialect, script({"mcp": "tally.drop"}))


def test_a_tool_that_a_client_loads_on_demand_is_looked_for_first_and_that_is_no_step(model):
    def called(*messages):
        body = {"model": "m", "tools": [{"name": "ToolSearch"}], "messages": [*messages]}
        return gist("messages", json.loads(post(model, place("messages", False), body)[1]))

    prompt = {"role": "user", "content": script({"mcp": "tally.take", "args": {"id": 1}}, {"text": "Taken."})}
    name, args = called(prompt)
    assert (name, args) == ("ToolSearch", {"query": "select:mcp__tally__take"})
    call = {"type": "tool_use", "id": "t1", "name": name, "input": args}
    found = {"type": "tool_result", "tool_use_id": "t1", "content": '<function>{"name": "mcp__tally__take"}</function>'}
    searched = (prompt, {"role": "assistant", "content": [call]}, {"role": "user", "content": [found]})
    assert called(*searched) == ("mcp__tally__take", {"id": 1})
    none = {**found, "content": "No matching tools."}
    assert "CANNOT call" in called(*searched[:2], {"role": "user", "content": [none]})
    taken = {"type": "tool_result", "tool_use_id": "t2", "content": "{}"}
    assert called(*searched, {"role": "user", "content": [taken]}) == "Taken."


def test_a_tool_behind_a_program_is_called_by_a_program(model):
    body = asked("chat", [script({"mcp": "tally.take", "args": {"id": 1}})])
    body["tools"] = [{"type": "function", "function": {"name": "codemode"}}]
    _, raw = post(model, place("chat", False), body)
    assert gist("chat", json.loads(raw)) == ("codemode", {"code": 'return await tools.mcp__tally__take({"id": 1});'})


@pytest.mark.parametrize("dialect", ["messages", "gemini"])
def test_what_a_hook_puts_to_the_end_of_a_result_is_a_text_of_its_own(model, dialect):
    model.rules.append(Rule("inbox", [{"shell": "inbox"}, {"text": "I looked."}]))
    result = "done\n\n<system-reminder>\nlook at the inbox\n</system-reminder>\n\n<hook_context>more</hook_context>"
    prompt = script({"shell": "true"}, {"text": "unheard"})
    assert turn(model, dialect, prompt, (result,))[0] == SHELL[dialect]
    assert model.requests[-1].seen.of("result") == ["done"]
    assert turn(model, dialect, prompt, (result,), ("",)) == "I looked."


def test_placeholders_reach_into_the_json_of_results_wherever_it_stands(model):
    steps = [
        {"shell": "inbox"},
        {"tool": "take", "args": {"id": "{{result.turns.0.task_id}}"}},
        {
            "tool": "submit",
            "args": {"id": "{{results.0.task_id}}", "fence": "{{result.fence}}", "text": "n={{result.fence}}"},
        },
        {"text": "{{result.absent}}"},
    ]
    prompt = script(*steps)
    inbox = 'Wall time: 0.1\nOutput: [{"type": "text", "text": "{\\"turns\\": [{\\"task_id\\": \\"tsk_9\\"}]}"}]'
    assert turn(model, "chat", prompt, (inbox,)) == ("take", {"id": "tsk_9"})
    taken = json.dumps({"content": [{"text": json.dumps({"fence": 3})}]})
    assert turn(model, "chat", prompt, (inbox,), (taken,)) == ("submit", {"id": "tsk_9", "fence": 3, "text": "n=3"})
    assert "CANNOT fill {{result.absent}}" in turn(model, "chat", prompt, (inbox,), (taken,), ("{}",))


def test_a_script_that_is_no_json_says_so(model):
    assert "BAD SCRIPT" in turn(model, "chat", "@@SCRIPT [nothing] @@END")


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rule_answers_the_newest_text_that_it_matches(model, dialect):
    steps = [{"shell": "inbox {{match.1}}"}, {"text": "Read: {{result}}"}]
    model.rules += [Rule(r"look at the inbox of (\w+)", steps), Rule("hello", [{"text": "Hello."}])]
    assert turn(model, dialect, "hello") == "Hello."
    name, args = turn(model, dialect, "hello", "Please look at the inbox of alice")
    assert name == SHELL[dialect]
    assert "inbox alice" in args.values()
    assert turn(model, dialect, "hello", "look at the inbox of alice", ("empty",)) == "Read: empty"
    assert turn(model, dialect, "nothing of that") == DONE


def test_what_comes_in_the_middle_of_a_script_goes_first(model):
    model.rules.append(Rule("inbox", [{"text": "I look."}]))
    prompt = script({"shell": "true"}, {"text": "unheard"})
    assert turn(model, "messages", prompt, ("done",), "<system-reminder>your inbox</system-reminder>") == "I look."


def test_a_rule_does_not_look_at_results_unless_it_is_told_to(model):
    model.rules.append(Rule("inbox", [{"text": "from a text"}]))
    assert turn(model, "chat", "go", ("the inbox",)) == DONE
    model.rules.append(Rule("inbox", [{"text": "from a result"}], on=("result",)))
    assert turn(model, "chat", "go", ("the inbox",)) == "from a result"


def test_the_steps_of_a_rule_may_be_a_function(model):
    model.rules.append(Rule("count", lambda seen, number: {"text": f"{number} of {len(seen.items)}"}))
    assert turn(model, "chat", "count", ("a",), ("b",)) == "2 of 3"


# --- the server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_no_request_is_refused_and_logged(model, dialect):
    for body in (
        b"{",
        b"[]",
        b'{"messages": 1, "input": 1, "contents": 1}',
        b'{"messages": [{}], "input": [{}], "contents": [{}]}',
    ):
        status, raw = post(model, place(dialect, False), body)
        assert status == 400
        assert "malformed" in json.loads(raw)["error"]["message"]
    assert len(model.requests) == 4
    assert post(model, "/v1/nothing", {})[0] == 404


def test_bodies_may_be_chunked_and_compressed(model):
    body = json.dumps(asked("chat", [script({"text": "heard"})])).encode()
    status, raw = post(model, place("chat", False), gzip.compress(body), content_encoding="gzip")
    assert (status, gist("chat", json.loads(raw))) == (200, "heard")
    line = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=SECONDS)
    try:
        pieces = (body[at : at + 50] for at in range(0, len(body), 50))
        line.request("POST", place("chat", False), pieces, {"transfer-encoding": "chunked"}, encode_chunked=True)
        assert gist("chat", json.loads(line.getresponse().read())) == "heard"
        line.request("GET", "/v1/models")  # the same connection goes on
        assert json.loads(line.getresponse().read())["data"]
        line.request("HEAD", "/")
        assert line.getresponse().status == 200
    finally:
        line.close()
    assert post(model, place("chat", False), b"no gzip", content_encoding="gzip")[0] == 400


def test_tokens_are_counted_without_running_a_step(model):
    _, raw = post(model, "/v1/messages/count_tokens", asked("messages", [script({"text": "x"})]))
    assert json.loads(raw)["input_tokens"] > 0
    inner = asked("gemini", ["hello"])
    for body in (inner, {"generateContentRequest": inner}):
        _, raw = post(model, "/v1beta/models/gemini-2.5-flash:countTokens", body)
        assert json.loads(raw)["totalTokens"] > 0
    assert model.turns == []


def test_a_step_may_fail_as_a_server_does(model):
    status, raw = post(model, place("messages", True), asked("messages", [script({"status": 529})], stream=True))
    assert (status, json.loads(raw)["type"]) == (529, "error")


@pytest.mark.parametrize("step", [{"text": "never", "gate": "shut"}, {"text": "never", "delay": 3600}])
def test_a_client_that_goes_away_ends_its_request(model, step):
    body = json.dumps(asked("chat", [script(step)], stream=True)).encode()
    with socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])), SECONDS) as line:
        line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        came = model.wait_for(lambda request: request.asks)
        assert came.outcome == ""
    assert model.wait_for(lambda request: request.outcome).outcome == "closed"


def test_a_gate_holds_an_answer_until_the_test_opens_it(model):
    body = json.dumps(asked("chat", [script({"text": "a b c", "gate": "g", "drip": 0.01})], stream=True)).encode()
    line = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=SECONDS)
    try:
        line.request("POST", place("chat", True), body)
        assert model.wait_for(lambda request: request.asks).outcome == ""
        model.open("g")
        found = events(line.getresponse().read())
    finally:
        line.close()
    assert streamed_gist("chat", found) == "a b c"
    assert len([event for event in found if event["choices"] and event["choices"][0]["delta"].get("content")]) == 3
    model.wait_for(lambda request: request.outcome == "sent")
    assert turn(model, "chat", script({"text": "open", "gate": "g"})) == "open"


def test_a_stream_may_be_cut(model):
    with pytest.raises(http.client.IncompleteRead):
        post(model, place("chat", True), asked("chat", [script({"text": "a", "cut": True})], stream=True))


def test_a_wait_for_what_does_not_come_shows_what_came(model):
    turn(model, "chat", "hello")
    with pytest.raises(AssertionError, match="hello"):
        model.wait_for(lambda request: request.number > 0, seconds=0.01)
