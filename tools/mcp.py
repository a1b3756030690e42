"""The page of the MCP door, from the table of tools."""

from __future__ import annotations

from tallystick.edge.mcp import TOOLS, texts
from tallystick.edge.mcp.protocol import HANDSHAKE, MODERN
from tallystick.edge.mcp.resources import TEMPLATES
from tallystick.edge.mcp.tools import Tool
from tools.markdown import code, codes, table


def page() -> str:
    """Tools, resources, prompts and instructions, on both transports."""
    parts = [_HEAD, _versions(), "## Tools\n"]
    parts.append(table(("tool", "for"), [(f"[`{tool.name}`](#{tool.name})", tool.help) for tool in TOOLS.values()]))
    parts += [_tool(tool) for tool in TOOLS.values()]
    parts += ["## Arguments that are written loosely\n", _TOLERANCE]
    parts += ["## Resources\n", _RESOURCES]
    addresses = [(code(row["uriTemplate"]), str(row["description"])) for row in TEMPLATES]
    parts += [table(("address", "what is there"), addresses), "## Prompts\n"]
    prompts = [(code(p.name), codes(n for n, _, _ in p.arguments) or "–", p.help) for p in texts.PROMPTS.values()]
    parts += [table(("prompt", "arguments", "for"), prompts), "## Instructions\n", _INSTRUCTIONS]
    quoted = "\n".join(f"> {line}".rstrip() for line in texts.INSTRUCTIONS.splitlines())
    return "\n".join([*parts, quoted])


def _versions() -> str:
    older, newer = codes(HANDSHAKE), codes(MODERN)
    return f"Versions: {older} (they begin with `initialize`) and {newer} (each request says its own).\n"


def _tool(tool: Tool) -> str:
    heads = [f"### {tool.name}\n", f"{tool.help}{' It only reads.' if tool.reads else ''}\n"]
    rows = [
        (code(a.name), a.kind, "yes" if a.required else "", f"{codes(a.choices)} {a.help}".strip())
        for a in tool.arguments
    ]
    return "\n".join([*heads, table(("argument", "type", "needed", ""), rows)])


_HEAD = """# MCP

The tools that agents load. A coding client starts `tally mcp` ([how to](../how-to/mcp.md)); where a host listens
(`tally up --listen`), the same is at `/mcp`, with the token of the [host API](api.md). Behind both is one table.

A result has the JSON of `tally VERB --json` as its structured content, and the same in words. A refusal is a tool's
error with `code`, `message` and `remedy` ([errors](errors.md)). What was given counts as read once the client has it:
`tally mcp` acknowledges it after its own write, over HTTP it is when the bytes were handed over.
"""

_TOLERANCE = """\
`"true"` and `"false"` are taken for booleans, `"5"` for a number, a JSON list in a text for a list; `null` for left
away. A text stays what it is, also where it looks like JSON. Anything else is refused by the name of the argument.
"""

_RESOURCES = """\
Each is JSON, and each has a tool that shows the same. Changes are told where they are subscribed to:
`resources/subscribe` in the older versions, `subscriptions/listen` in the newest; after a restart of the host once for
all of them, since something may have been missed. Reading a resource does not count as read.
"""

_INSTRUCTIONS = "What the server tells a model at the beginning, whole:\n"
