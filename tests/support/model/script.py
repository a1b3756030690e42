"""What the scripted model answers: nothing but what stands in the conversation decides, the server keeps no state.

A **script** is written into a prompt: `@@SCRIPT [steps] @@END`. The last text of a user that holds one counts; the
number of results of tools after it says which step is next. A **rule** is set in the server by a test, for sessions
that are woken by a text which is none of the test's: a pattern for the text, and steps. The newest text that a rule
matches or that holds a script counts; so what comes in the middle of a script goes first. After the last step the
answer is `DONE`. A request without tools never runs a step (titles, summaries), nor do the other side calls.

A step is an object. One of:

- `{"text": "…"}`: the model says it, and its turn ends.
- `{"tool": "name", "args": {…}}`: a call, by the client's own name (`namespace.name` where it has namespaces).
- `{"shell": "command"}`: a call of the shell tool, whatever this client calls it.
- `{"mcp": "server.tool", "args": {…}}`: a call of a tool of an MCP server, whatever this client calls it; where the
  client loads such tools on demand (`ToolSearch` of Claude), it is looked for first, and that is no step of its own;
  where they are behind a program (`codemode` of Pi, `run_typescript` of Vibe) or another tool (`tool_call` of Qwen),
  that calls it.
- `{"status": 529}`: the request fails so; `"error": {…}`, the fields of its body, where a client looks at them.

and besides: `"delay"`, seconds before the first byte; `"gate": "name"`, nothing is sent before the test says
`model.open("name")`; `"drip"`, seconds between the words of a text; `"cut": true`, the connection ends half-way.

In its texts, at any depth: `{{result}}` the last result; `{{result.turns.0.task_id}}` a value in the JSON of it, where
the path may begin anywhere below the root; `{{results.0.fence}}` the same of the first result since the script or the
matching text; `{{users}}` what users said since; `{{match.1}}` a group of the rule's pattern. A text that is nothing
but a placeholder keeps the type of the value (a number stays one).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.model.conversation import CALL, DEVELOPER, LOADERS, RESULT, USER, Conversation

DONE = "The script is done."
SIDE = "Scripted side answer"
SIDE_JSON = {
    "title": SIDE,
    "next_speaker": "user",
    "reasoning": SIDE,
    "complexity_score": 1,
    "complexity_reasoning": SIDE,
    "model_choice": "flash",
}
SHELLS = {
    "Bash": "command",
    "bash": "command",
    "exec_command": "cmd",
    "run_shell_command": "command",
    "shell_command": "command",
}
_SCRIPT = re.compile(r"@@SCRIPT\s*(\[.*?\])\s*@@END", re.DOTALL)
_PLACE = re.compile(r"\{\{\s*(results?|users|match)((?:\.[\w-]+)*)\s*\}\}")
_SIDE_CALLS = re.compile(r"^\[SUGGESTION MODE|^Based on the conversation above, .*title", re.DOTALL)

Step = dict[str, Any]
Steps = Sequence[Step] | Callable[[Conversation, int], Step]


def script(*steps: Step, before: str = "Do this: ", after: str = "") -> str:
    """A prompt with a script in it, on one line. (Some clients take a prompt that begins with @ for a file.)"""
    return f"{before}@@SCRIPT {json.dumps(list(steps), ensure_ascii=False)} @@END{after}"


@dataclass(frozen=True)
class Rule:
    """Steps for a text that matches the pattern; or a function of the conversation and the number of the step."""

    pattern: str
    steps: Steps
    on: tuple[str, ...] = (USER, DEVELOPER)
    """In which kinds of text it is looked for. With `result`, beware of steps whose own results match again."""


@dataclass
class Answer:
    """What goes back."""

    text: str = ""
    tool: str = ""
    args: Any = None
    delay: float = 0
    gate: str = ""
    drip: float = 0
    cut: bool = False
    status: int = 200
    error: Any = None
    """The body of a failure, in place of one of our own."""
    side: bool = False
    """No step was run."""
    step: int = -1
    """Which step of its script or rule this is."""


def choose(seen: Conversation, rules: Sequence[Rule] = ()) -> Answer:
    """The answer to a conversation."""
    if not seen.tools or seen.json_wanted or seen.tools == ["respond_in_schema"] or _SIDE_CALLS.match(seen.user):
        return Answer(json.dumps(SIDE_JSON) if seen.json_wanted else SIDE, side=True)
    for at in range(len(seen.items) - 1, -1, -1):
        item = seen.items[at]
        found = _SCRIPT.findall(item.text) if item.kind == USER else []
        if found:
            try:
                return _step(seen, at, json.loads(found[-1]), None)
            except ValueError as error:
                return Answer(f"BAD SCRIPT {error}: {found[-1]}")
        for rule in rules:
            match = re.search(rule.pattern, item.text, re.DOTALL) if item.kind in rule.on else None
            if match:
                return _step(seen, at, rule.steps, match)
    return Answer(DONE)


def _step(seen: Conversation, at: int, steps: Steps, match: re.Match[str] | None) -> Answer:
    known = _Known([item.text for item in seen.results(at + 1)], seen, at, match)
    number = len(known.results)
    if callable(steps):
        step = steps(seen, number)
    elif number < len(steps):
        step = steps[number]
    else:
        return Answer(DONE, step=number)
    try:
        answer = _made(known.filled(step), seen)
    except LookupError as error:
        answer = Answer(f"CANNOT {error.args[0]}")
    answer.step = number
    return answer


def _made(step: Step, seen: Conversation) -> Answer:
    around = {name: step[name] for name in ("delay", "gate", "drip", "cut", "status", "error") if name in step}
    if "shell" in step:
        name = next((name for name in SHELLS if name in seen.tools), None)
        if name is None:
            raise LookupError(f"run a shell: no known one in {seen.tools}")
        args = {SHELLS[name]: step["shell"], **step.get("args", {})}
        if name in ("Bash", "bash", "run_shell_command") and "run_typescript" not in seen.tools:
            args.setdefault("description", "Scripted")
        return Answer(tool=name, args=args, **around)
    if "mcp" in step:
        behind = _behind(step["mcp"], step.get("args", {}), seen)
        if behind is not None:
            return Answer(tool=behind[0], args=behind[1], **around)
        name = tool_of(step["mcp"], seen)
        if name in seen.tools or _loaded(name, seen):
            return Answer(tool=name, args=step.get("args", {}), **around)
        return Answer(tool="ToolSearch", args={"query": f"select:{name}"})
    if "tool" in step:
        return Answer(tool=step["tool"], args=step.get("args", {}), **around)
    return Answer(str(step.get("text", "")), **around)


def tool_of(name: str, seen: Conversation) -> str:
    """The client's own name of `server.tool`: among the tools, or among those that it loads on demand."""
    server, _, tool = name.partition(".")
    found = _declared(name, seen)
    if found is None and "ToolSearch" in seen.tools:
        guess = f"mcp__{server}__{tool}"
        searched = any(item.kind == CALL and item.name in LOADERS and guess in item.text for item in seen.items)
        found = guess if not searched or _loaded(guess, seen) else None
    if found is None:
        raise LookupError(f"call {name}: it is not among {seen.tools}")
    return found


def _behind(name: str, args: dict[str, Any], seen: Conversation) -> tuple[str, dict[str, Any]] | None:
    """The tool by which a client has the tools of MCP servers called, and its arguments; None where it needs none."""
    if _declared(name, seen) is not None:
        return None
    said = json.dumps(args, ensure_ascii=False)
    plain = f"mcp__{name.replace('.', '__', 1)}"
    if "codemode" in seen.tools:
        return "codemode", {"code": f"return await tools.{plain}({said});"}
    if "run_typescript" in seen.tools:
        return "run_typescript", {"code": f"async function main() {{ return await tools.mcp_{name}({said}); }}"}
    return ("tool_call", {"name": plain, "arguments": args}) if "tool_call" in seen.tools else None


def _declared(name: str, seen: Conversation) -> str | None:
    server, _, tool = name.partition(".")
    own = re.compile(rf"(mcp_+)?{re.escape(server)}[_.]+{re.escape(tool)}")
    return next((given for given in seen.tools if own.fullmatch(given)), None)


def _loaded(name: str, seen: Conversation) -> bool:
    """Whether an earlier search has brought the tool."""
    return any(f'"{name}"' in text for text in seen.of(RESULT))


@dataclass
class _Known:
    """What placeholders can name."""

    results: list[str]
    seen: Conversation
    at: int
    match: re.Match[str] | None

    def filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        if not isinstance(value, str):
            return value
        whole = _PLACE.fullmatch(value)
        return self._value(whole) if whole else _PLACE.sub(lambda found: _shown(self._value(found)), value)

    def _value(self, found: re.Match[str]) -> Any:
        kind, path = found[1], found[2].split(".")[1:]
        if kind == "users":
            return "\n".join(item.text for item in self.seen.items[self.at + 1 :] if item.kind == USER)
        if kind == "match":
            if self.match is None:
                raise LookupError(f"fill {found[0]}: no rule matched")
            group = path[0] if path else "0"
            return self.match[int(group) if group.isdigit() else group]
        texts = self.results or [item.text for item in self.seen.results()]
        if kind == "results" and path:
            texts = texts[int(path[0]) :][:1]
            path = path[1:]
        if not texts:
            raise LookupError(f"fill {found[0]}: there is no such result")
        return _lookup(texts[-1], path, found[0]) if path else texts[-1]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _lookup(text: str, path: list[str], asked: str) -> Any:
    """The value at a path in the JSON that a text holds somewhere; a text in it that is JSON is looked into as well."""
    for root in _objects(text):
        for node in _nodes(root):
            value = _at(node, path)
            if value is not None:
                return value
    raise LookupError(f"fill {asked}: the result is {text}")


def _objects(text: str) -> Iterator[Any]:
    at, decoder = 0, json.JSONDecoder()
    while found := re.compile(r"[\[{]").search(text, at):
        try:
            value, at = decoder.raw_decode(text, found.start())
        except ValueError:
            at = found.end()
        else:
            yield value


def _nodes(value: Any) -> Iterator[Any]:
    """A value and all below it, the upper ones first."""
    level = [value]
    while level:
        yield from level
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below += node.values()
            elif isinstance(node, list):
                below += node
            elif isinstance(node, str):
                below += _objects(node)
        level = below


def _at(node: Any, path: list[str]) -> Any:
    for name in path:
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node
