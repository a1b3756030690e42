"""`python -m tools.reference`: writes docs/reference/ from the tables of the code. `--check` only compares.

One function per page; each reads what the product itself reads, so that a page cannot say anything else.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec

from tallystick import config
from tallystick.core import events
from tallystick.core.errors import ErrorCode
from tallystick.core.events import places as place_events
from tallystick.core.events import task as task_events
from tallystick.core.events import turns as turn_events
from tallystick.core.events import waking as waking_events
from tallystick.core.facts import FACTS, FactRow
from tallystick.core.limits import Limits
from tallystick.core.link import LINKS
from tallystick.core.model import FINAL_STATES, Promise, TaskState, place
from tallystick.core.task.table import REASONS, TRANSITIONS, Transition, board_label
from tallystick.core.wake import WAKES
from tallystick.edge.api import ERRORS as WIRE_ERRORS
from tallystick.edge.cli import ERRORS as CLI_ERRORS
from tallystick.edge.cli import reference
from tallystick.edge.cli.help import EXIT_CODES
from tallystick.store import codec
from tools import api, clients, mcp, reach, sdk
from tools.markdown import code, codes, table

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "docs" / "reference"
HEAD = "<!-- Written by `make docs` from the code. Do not edit by hand. -->\n"


# --- commands -----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every verb of `tally`."""
    data = reference()
    parts = ["# Commands\n", "Every verb of `tally`, as `tally help VERB` shows it.\n", _overview(data["verbs"])]
    group = ""
    for verb in data["verbs"]:
        if verb["group"] != group:
            group = verb["group"]
            parts.append(f"## {group}\n")
        parts.append(_verb(verb))
    parts += ["## With every verb\n", _options(data["options"]), "## Exit codes\n"]
    parts.append(table(("code", "meaning"), [(code(str(number)), words) for number, words in EXIT_CODES.items()]))
    return "\n".join(parts)


def _overview(verbs: list[dict[str, Any]]) -> str:
    rows = [(f"[`{verb['name']}`](#{_anchor(verb)})", verb["summary"]) for verb in verbs]
    return table(("verb", "what it does"), rows)


def _anchor(verb: dict[str, Any]) -> str:
    return f"tally-{verb['name'].replace(' ', '-')}"


def _verb(verb: dict[str, Any]) -> str:
    parts = [f"### tally {verb['name']}\n", f"{verb['summary']}\n", f"```text\n{verb['usage']}\n```\n"]
    if verb["also"]:
        parts.append(f"Also: {codes('tally ' + name for name in verb['also'])}.\n")
    if verb["notes"]:
        parts.append(f"{verb['notes']}\n")
    if verb["arguments"]:
        parts.append(table(("argument", "meaning"), [(code(item["name"]), item["help"]) for item in verb["arguments"]]))
    if verb["options"]:
        parts.append(_options(verb["options"]))
    parts.append(f"Example: `{verb['example']}`\n")
    return "\n".join(parts)


def _options(options: list[dict[str, Any]]) -> str:
    return table(("option", "meaning"), [(code(item["form"]), item["help"]) for item in options])


# --- states -------------------------------------------------------------------------------------------------------


def states() -> str:
    """The task machine: states, moves, and a diagram of them."""
    rows = [
        (code(state), code(reason) if reason else "–", board_label(state, reason), _closed(state))
        for state, reasons in REASONS.items()
        for reason in reasons
    ]
    return "\n".join(
        [
            "# States of a task\n",
            "A state is one of A2A's, with a reason from a closed list. A move that is not in the table is refused.\n",
            "## Diagram\n",
            "States only, without their reasons and without the moves that lead from any open state to a closed one",
            "(`cancel`, `expire`, `correct`), which would hide all others.\n",
            f"```mermaid\nstateDiagram-v2\n{_diagram()}\n```\n",
            "The same as text:\n",
            f"```text\n{_drawing()}\n```\n",
            "## States and reasons\n",
            table(("state", "reason", "on the board", ""), rows),
            "## Moves\n",
            "`=` leaves the state as it is. *Fence*: the caller must hold the present fence of the task.\n",
            table(
                ("move", "command", "by", "from", "to", "witness", "fence"),
                [_move(row) for row in TRANSITIONS],
            ),
        ]
    )


def _closed(state: TaskState) -> str:
    return "closed" if state in FINAL_STATES else "open"


def _move(row: Transition) -> tuple[str, ...]:
    return (
        row.move,
        code(row.command.__name__),
        ", ".join(role.value.replace("_", " ") for role in row.by),
        _places(row.sources),
        _places(row.targets),
        row.witness,
        "yes" if row.fenced else "",
    )


def _places(found: frozenset[str]) -> str:
    """Places in the order of the table; a state with all its reasons by its name and `*`."""
    shown: list[str] = ["="] if "=" in found else []
    for state, reasons in REASONS.items():
        here = [place(state, reason) for reason in reasons]
        held = [name for name in here if name in found]
        shown += [f"{state.value}/*"] if held == here and len(here) > 1 else held
    return codes(shown) or "–"


def _edges() -> dict[tuple[str, str], list[str]]:
    """From state to state, with the moves that lead there; without what can happen anywhere."""
    everywhere = {"cancel", "confirm cancel", "expire", "correct", "freeze", "reassign"}
    found: dict[tuple[str, str], list[str]] = {}
    for row in TRANSITIONS:
        sources = sorted({name.split("/")[0] for name in row.sources}) or ["[*]"]
        targets = sorted({name.split("/")[0] for name in row.targets - {"="}})
        for pair in ((source, target) for source in sources for target in targets if row.move not in everywhere):
            if pair[0] != pair[1]:
                found.setdefault(pair, []).append(row.move)
    return found


def _diagram() -> str:
    lines = [f"    {source} --> {target}: {', '.join(moves)}" for (source, target), moves in _edges().items()]
    return "\n".join([*lines, *(f"    {state.value} --> [*]" for state in REASONS if state in FINAL_STATES)])


def _drawing() -> str:
    edges = _edges()
    wide = max(len(source) for source, _ in edges)
    lines: list[str] = []
    for name in ["[*]", *(state.value for state in REASONS)]:
        here = [(target, moves) for (source, target), moves in edges.items() if source == name]
        for number, (target, moves) in enumerate(here):
            start = "(asked)" if name == "[*]" else name
            lines.append(f"{(start if number == 0 else '').ljust(wide)} ──▶ {target.ljust(wide)}  {', '.join(moves)}")
    return "\n".join(line.rstrip() for line in lines)


# --- facts, errors ------------------------------------------------------------------------------------------------


_FACT_HEADS = ("fact", "who may say so", "pull", "command agent", "driven session", "spoke", "may also end as")


def _witnesses(row: FactRow) -> tuple[str, ...]:
    return (code(row.fact), row.witness, row.pull, row.command, row.drive, row.spoke)


def links() -> str:
    """How far a message to a capability has come."""
    rows = [(code(row.link), row.meaning, codes(link.value for link in row.next) or "–") for row in LINKS]
    return "\n".join(
        [
            "# Links of a message\n",
            "A message to a capability is a task, and how far it has come between its sender and its holder has one of",
            "five names. They are derived from the task and its deliveries, at every moment, and are the same in the",
            "SDK, in `tally trace` and in `tally show`.\n",
            table(("link", "meaning", "what may come after it"), rows),
            "A person's correction may lead anywhere. REACHED without progress for as long as the sender waits (or its",
            "`stall_after`) is shown as *suspected*, beside the link, whatever the holder's heartbeat says. How",
            "a holder is chosen: [routes](../discussions/routes.md).\n",
        ]
    )


def facts() -> str:
    """The facts of a delivery."""
    rows = [(*_witnesses(row), ", ".join(row.may_end) or "– (terminal)") for row in FACTS]
    return "\n".join(
        [
            "# Facts of a delivery\n",
            "A delivery is one attempt to hand one message of a task to one recipient. Seven facts tell how far it",
            "got, each said only by its own witness, and `unverified` where nobody can say. The third column is for",
            "agents that look by themselves (command line), the fourth for those that are a command the host runs, the",
            "fifth for sessions that the host drives, the sixth for spokes.\n",
            table(_FACT_HEADS, rows),
            "`inferred` is written beside a fact that was concluded and not proven; `auto` beside one that the kind of",
            "connection implies. What it means for a sender: [delivered, but how far?](../discussions/delivered.md)\n",
            "## Promises\n",
            "Before any of this, the receipt of `tally ask` says what can be promised for this recipient:",
            codes(promise.value for promise in Promise) + ".\n",
        ]
    )


_THEN = {
    "open": "waited for",
    "done": "the cursor moves",
    "free": "tried again after `wake_busy_seconds`; costs no attempt",
    "attempt": "tried again after growing waits (`wake_retry_seconds`), then only when something newer comes",
}


def wakes() -> str:
    """What can become of a wake."""
    rows = [(code(row.outcome), codes(row.after), row.witness, _THEN[row.then]) for row in WAKES]
    return "\n".join(
        [
            "# Wakes\n",
            "A wake tells a sleeping session to look at its inbox again, by a formal entry of its client. It is",
            "written down as `intended` before anything is said, and then reported:\n",
            table(("outcome", "after", "on whose word", "then"), rows),
            "A session has one open wake at most. The cursor (what was delivered, for each session that is meant",
            "itself and for each workspace) moves only with `completed`, and only for exactly the turn that the wake",
            "started.",
            "Why: [waking](../discussions/waking.md)\n",
        ]
    )


_MEANINGS: dict[ErrorCode, str] = {
    ErrorCode.INVALID: "What was sent cannot be understood or breaks a stated limit.",
    ErrorCode.UNAUTHENTICATED: "Nobody knows who asks.",
    ErrorCode.DENIED: "The caller may not do this.",
    ErrorCode.NOT_FOUND: "Absent, or not the caller's to see: the same words for both.",
    ErrorCode.NO_ROUTE: "Nobody offers the capability that was asked for.",
    ErrorCode.OFFLINE: "Every one that offers it is away.",
    ErrorCode.CONFLICT: "The present state does not allow it; somebody was faster, or it is done already.",
    ErrorCode.EXPIRED: "A deadline, a lease or a key is over.",
    ErrorCode.UNSUPPORTED: "This version or this machine does not have what was asked for.",
    ErrorCode.UNAVAILABLE: "The host or something it needs cannot serve this now; trying again later may work.",
    ErrorCode.INTERNAL: "Unforeseen. The caller gets a number, the diagnostics have the detail.",
}


def errors() -> str:
    """The codes of refusals."""
    rows = [
        (code(item), _MEANINGS[item], code(str(CLI_ERRORS[item][0])), str(WIRE_ERRORS[item].status))
        for item in ErrorCode
    ]
    return "\n".join(
        [
            "# Errors\n",
            "A refusal changes nothing. It has a code from this closed list, a message (what was refused, and the",
            "present state) and a remedy (the next step). With `--json` it is",
            '`{"error": {"code": …, "message": …, "remedy": …}}` on standard output, else text on standard error.\n',
            table(("code", "meaning", "exit code of `tally`", "HTTP status"), rows),
            "Other exit codes are in [commands](commands.md#exit-codes).\n",
        ]
    )


# --- events -------------------------------------------------------------------------------------------------------


def event_page() -> str:
    """Every event of the log."""
    documented = {**_classes(task_events), **_classes(turn_events), **_classes(place_events), **_classes(waking_events)}
    parts = [
        "# Events\n",
        "What can stand in the log. One command makes one event; facts of a delivery and whose turn it is are derived",
        "from it. Each also has the envelope described in [log](log.md). Fields at their default are left out.\n",
        "Events of a task all carry `state`, `reason` and `turn`: where the task then is and whose turn it then is.",
        "The words of people and agents stand apart, in `text` (`title`, `body`, `brief`), which can be erased.\n",
    ]
    for name, kind in events.event_types().items():
        parts.append(f"## {name}\n\n{_sentence(kind)}\n")
        rows = _fields(kind, documented.get(name, {}))
        parts.append(table(("field", "type", "meaning"), rows) if rows else "No fields of its own.\n")
    return "\n".join(parts)


def _sentence(kind: type) -> str:
    return (inspect.getdoc(kind) or "").strip()


def _fields(kind: type[Any], documented: dict[str, tuple[str, str]]) -> list[tuple[str, str, str]]:
    shared = {"state", "reason", "turn", "text"} if issubclass(kind, events.TaskEvent) else {"text"}
    names = [field.name for field in msgspec.structs.fields(kind) if field.name not in shared]
    return [(code(name), code(documented[name][0]), documented[name][1]) for name in names]


def _classes(module: ModuleType) -> dict[str, dict[str, tuple[str, str]]]:
    """Annotations and attribute docstrings of the classes of a module, as they are written."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    return {node.name: _attributes(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _attributes(node: ast.ClassDef) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            says = after.value if isinstance(after, ast.Expr) else None
            words = says.value if isinstance(says, ast.Constant) and isinstance(says.value, str) else ""
            found[item.target.id] = (ast.unparse(item.annotation), words)
    return found


# --- settings -----------------------------------------------------------------------------------------------------


def settings() -> str:
    """What a person may set."""
    default = config.Settings(home=Path())
    rows = [
        ("`person_verbs`", codes(get_args(config.PersonVerbs)), code(default.person_verbs), _PERSON_VERBS),
        ("`listen`", "`ADDRESS:PORT` or empty", "empty", "Where HTTP is served; empty: nowhere."),
        ("`tls_cert`", "path", "empty", "PEM file of the certificate; with `tls_key` HTTP is TLS."),
        ("`tls_key`", "path", "empty", "PEM file of its key. Both paths are taken from the home."),
        ("`callbacks`", "list of addresses", "empty", _CALLBACKS),
        ("`desktop`", "`true` or `false`", "`true`", "Notices on this desktop, with the extra `tallystick[desktop]`."),
        ("`[limits]`", "table", "below", "Limits and times."),
    ]
    return "\n".join(
        [
            "# Settings\n",
            "A host reads `config.toml` in its home (`TALLY_HOME`, else the platform's place for data) once, at its",
            "start. An unknown key or a wrong value is refused with the reason, never ignored.\n",
            table(("key", "values", "default", "meaning"), rows),
            "## Limits\n",
            "Under `[limits]`. Durations are in seconds, sizes in bytes.\n",
            "```toml\n[limits]\npull_lease_seconds = 3600\n```\n",
            table(("key", "default", "meaning"), [_limit(field) for field in msgspec.structs.fields(Limits)]),
            "## Environment\n",
            table(("variable", "meaning"), [(code(name), words) for name, words in _ENVIRONMENT.items()]),
        ]
    )


_PERSON_VERBS = (
    "What shows that a person acts: a `terminal`, the `page`, or the user id alone (`uid`: scripts, tests and CI of a "
    "person; it lifts the checks of terminal and ancestors, never those of a session)."
)

_CALLBACKS = (
    "Where spokes may be posted to although the address is not public or not https, as `http://127.0.0.1:9000`: these "
    "and no others."
)

_ENVIRONMENT = {
    "TALLY_HOME": "The home of the host: its log, its socket, its settings. Default: the platform's data directory.",
    "TALLY_AGENT": "Who this shell acts as, like `--as` with every command.",
    "TALLY_SESSION": "Set by the host for the sessions it makes; such a caller never counts as a person.",
    "TALLY_SOCKET": "Set by the host for the sessions it makes: their own socket.",
    "NO_COLOR": "Any value: no colours.",
}


def _limit(field: Any) -> tuple[str, str, str]:
    default = field.default
    shown = " + ".join(f"{item:g}" for item in default) if isinstance(default, tuple) else f"{default:,.12g}"
    return code(field.name), shown.replace(",", " "), _meaning(field.type)


def _meaning(kind: Any) -> str:
    return next((item.description or "" for item in get_args(kind) if isinstance(item, msgspec.Meta)), "")


# --- the log ------------------------------------------------------------------------------------------------------


def log() -> str:
    """The format of the log."""
    envelope = _classes(events)["Recorded"]
    rows = [(code(name), code(kind), words) for name, (kind, words) in envelope.items()]
    covered = codes(_covered())
    return "\n".join(
        [
            "# The log\n",
            "An append-only sequence of events in `TALLY_HOME/tally.db` (SQLite; write-ahead log, full fsync). Board,",
            "inbox, receipts and facts are views of it, written in the same transaction, and can be rebuilt from it:",
            "`tally log replay --check` compares. Nobody but the host writes it.\n",
            "## Envelope\n",
            table(("field", "type", "meaning"), rows),
            "## Words apart\n",
            "The words of people and agents (`text`) do not stand in the record itself. They are a *body*:",
            f"{codec.SALT_BYTES} random bytes of salt, then JSON. The record holds sha256(salt‖body). Erasing removes",
            "body and salt; the digest stays, tells nothing, and the chain stays valid.\n",
            "## Chain\n",
            f"The previous hash of event 1 is {len(codec.GENESIS)} zero bytes. Then, for every event:\n",
            "```text\nhash = sha256(previous hash ‖ position as 8 bytes, big-endian ‖ canonical)\n```\n",
            f"*canonical* is one compact JSON array, in UTF-8, of {covered}; the digest in hexadecimal, empty for an",
            "event without words. `data` is the event as JSON text, without its words.\n",
            "`tally log verify` walks the chain and compares every body with its digest. It finds damage and partial",
            "edits. Whoever rewrites the whole file can make a new chain: pin its tip elsewhere (`tally log head`).\n",
            "## Export\n",
            "`tally log export` writes one JSON object a line, words included where they were not erased.\n",
            "## Schema\n",
            "Each record names its event type and the schema version of its data. Older versions are read through",
            "upcasters; a file of a newer schema than the program knows is refused, never guessed at.\n",
        ]
    )


def _covered() -> list[str]:
    """What the hash covers, in order, as `canonical` says it."""
    tree = ast.parse(inspect.getsource(codec.canonical))
    return [
        node.attr
        for inner in ast.walk(tree)
        if isinstance(inner, ast.Tuple)
        for node in map(_attribute, inner.elts)
        if node is not None
    ]


def _attribute(node: ast.expr) -> ast.Attribute | None:
    """`sealed.digest` of `sealed.digest.hex()`."""
    if isinstance(node, ast.Call):
        return _attribute(node.func.value) if isinstance(node.func, ast.Attribute) else None
    return node if isinstance(node, ast.Attribute) else None


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "states": states,
    "facts": facts,
    "links": links,
    "wakes": wakes,
    "errors": errors,
    "events": event_page,
    "settings": settings,
    "log": log,
    "clients": clients.page,
    "api": api.page,
    "mcp": mcp.page,
    "reach": reach.page,
    "sdk": sdk.page,
}
"""Every generated page by its name."""


def main(argv: list[str]) -> int:
    """Write all pages, or say which are not current."""
    stale = []
    for name, page in PAGES.items():
        path, text = PLACE / f"{name}.md", HEAD + page().rstrip() + "\n"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in argv:
            path.write_text(text, encoding="utf-8")
    done = "differs" if "--check" in argv else "written"
    sys.stdout.write(f"docs/reference: {', '.join(stale) or 'nothing'} {done}\n")
    return 1 if stale and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
