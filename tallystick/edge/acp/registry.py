"""The coding clients that the host can drive over the Agent Client Protocol. A new one is an entry in this table.

What each does was measured with the version named here (`docs/how-to/drive.md` shows the table); a client that is not
in it is driven by its command line, and then nothing of it is taken for granted.
"""

from __future__ import annotations

import shlex
import shutil
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from tallystick.app.ports import Drive
from tallystick.core.errors import invalid, unavailable
from tallystick.core.model import Value
from tallystick.edge.acp.usage import REPORTS, Reports


class Asks(StrEnum):
    """When a client asks before it acts, in the mode that is set."""

    ALL = "all"
    """Before each tool that does more than read."""
    ESCALATION = "escalation"
    """Before what leaves its own sandbox, and before calls of MCP tools."""
    NEVER = "never"


class Sign(Value, frozen=True, kw_only=True):
    """One way of a client to say that its quota or its rate is used up."""

    number: int = 0
    """The number of its error."""
    field: str = ""
    """A field of what its error carries, and its value."""
    value: str = ""
    words: str = ""
    """A pattern of its last words as a whole, where its turn ends in order and only they tell."""


class OwnMcp(Value, frozen=True):
    """A client that takes MCP servers from its own settings alone: a session gets a directory of settings of its own,
    that shows the person's and names our server besides."""

    variable: str
    """Names that directory."""
    folder: str
    """Where the person's is, below the home."""
    file: str
    """The file in it that names MCP servers."""
    more: tuple[tuple[str, str], ...] = ()
    """What an entry says besides its command."""


class Driven(Value, frozen=True, kw_only=True):
    """One client, as data."""

    name: str
    title: str
    argv: tuple[str, ...]
    provider: str = "unknown"
    """Where its model's inputs go unless the agent says otherwise."""
    measured: str = ""
    """Package and version that this entry was measured with."""
    environment: tuple[tuple[str, str], ...] = ()
    """What is always set for it."""
    needs: tuple[str, ...] = ()
    """What it needs of a person's environment: keys, which the agent's own file may hold."""
    state: tuple[str, ...] = ()
    """Where in the home it keeps log-ins, settings and histories."""
    auth: str = ""
    """The method of `authenticate` to use after `initialize`."""
    mode: str = ""
    """The mode in which it asks before it acts; empty where it asks from the start."""
    asks: Asks = Asks.ALL
    model_variable: str = ""
    """The variable that names its model, where no option of the session does."""
    reports: Reports = Reports()
    """What it reports of tokens and money."""
    cancel_leaves: bool = False
    """Commands that run when a turn is canceled run on."""
    load: bool = True
    """A conversation can be gone on with after its process ended."""
    load_after: float = 0.0
    """Seconds after the beginning of a conversation before which it must not be loaded."""
    own_sandbox: bool = False
    """Its commands run in a sandbox of its own, inside of ours where this machine lets one start there."""
    own_mcp: OwnMcp | None = None
    """Where it takes MCP servers from; None where those of the session are used."""
    used_up: tuple[Sign, ...] = ()
    """How it says that its quota or its rate is used up."""
    tool: str = ""
    """What the canary asks it to use."""

    def loads_in(self, began_at: float, now: float) -> float:
        """Seconds until a conversation that began then may be loaded; 0 where it may be at once. UTC seconds."""
        return max(0.0, began_at + self.load_after - now)


_TABLE: Final = (
    Driven(
        name="codex",
        title="Codex",
        argv=("codex-acp",),
        provider="openai",
        measured="@agentclientprotocol/codex-acp 2.6.0",
        environment=(("NO_BROWSER", "1"),),
        needs=("OPENAI_API_KEY", "CODEX_API_KEY"),
        state=(".codex",),
        # In its mode `agent` a model decides in the person's place, and nothing reaches the host.
        mode="workspace-write",
        asks=Asks.ESCALATION,
        cancel_leaves=True,
        own_sandbox=True,
        reports=REPORTS["codex"],
        used_up=(
            Sign(field="codexErrorInfo", value="usageLimitExceeded"),
            Sign(words=r".*exceeded retry limit, last status: 429 Too Many Requests"),
        ),
        tool="exec_command",
    ),
    Driven(
        name="claude",
        title="Claude Code",
        argv=("claude-agent-acp",),
        provider="anthropic",
        measured="@agentclientprotocol/claude-agent-acp 0.101.0",
        environment=(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")),
        needs=("ANTHROPIC_API_KEY",),
        state=(".claude", ".claude.json"),
        mode="default",
        model_variable="ANTHROPIC_MODEL",
        reports=REPORTS["claude"],
        # A rate limit it waits for by itself, for minutes.
        used_up=(Sign(field="errorKind", value="billing_error"), Sign(field="errorKind", value="rate_limit")),
        tool="Bash",
    ),
    Driven(
        name="opencode",
        title="OpenCode",
        argv=("opencode", "acp"),
        measured="opencode-ai 1.18.33",
        environment=(
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_PERMISSION", '{"edit":"ask","bash":"ask","webfetch":"ask"}'),
        ),
        state=(".config/opencode", ".local/share/opencode", ".cache/opencode"),
        reports=REPORTS["opencode"],
        tool="bash",
    ),
    Driven(
        name="gemini",
        title="Gemini CLI",
        argv=("gemini", "--acp"),
        provider="google",
        measured="@google/gemini-cli 0.61.0",
        needs=("GEMINI_API_KEY",),
        state=(".gemini",),
        auth="gemini-api-key",
        # Loaded within the clock minute of its beginning it is not found, and its file is damaged.
        load_after=65.0,
        reports=REPORTS["gemini"],
        # A used-up day it says at once; a rate it waits for by itself, for minutes.
        used_up=(Sign(number=429),),
        tool="run_shell_command",
    ),
    Driven(
        name="pi",
        title="Pi",
        argv=("pi-acp",),
        measured="pi-acp 0.0.34",
        environment=(("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0")),
        state=(".pi",),
        asks=Asks.NEVER,
        own_mcp=OwnMcp("PI_CODING_AGENT_DIR", ".pi/agent", "mcp.json", (("exposure", "direct"),)),
        reports=REPORTS["pi"],
        tool="bash",
    ),
    Driven(
        name="qwen",
        title="Qwen Code",
        argv=("qwen", "--acp"),
        measured="@qwen-code/qwen-code 0.24.4",
        needs=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"),
        state=(".qwen",),
        # In its mode `auto` a model classifies first, and a write went unasked.
        mode="default",
        model_variable="OPENAI_MODEL",
        reports=REPORTS["qwen"],
        tool="run_shell_command",
    ),
    Driven(
        name="vibe",
        title="Mistral Vibe",
        argv=("vibe-acp",),
        provider="mistral",
        measured="mistral-vibe 3.0.2",
        needs=("MISTRAL_API_KEY",),
        state=(".vibe",),
        # It begins in `accept-edits`.
        mode="ask",
        reports=REPORTS["vibe"],
        # It tries for minutes before it says so.
        used_up=(Sign(number=-31001),),
        tool="bash",
    ),
)

DRIVEN: Final[dict[str, Driven]] = {client.name: client for client in _TABLE}
"""Every client by its name."""


def driven(named: str) -> Driven:
    """The client that `--drive` names, or one by its command line. Refused where it is neither."""
    known = DRIVEN.get(named.strip().lower())
    if known is not None:
        return known
    try:
        argv = tuple(shlex.split(named))
    except ValueError as error:
        raise invalid(f"{named!r} cannot be split into words: {error}.", "Close its quotes.") from None
    if len(argv) < 2 and "/" not in named:
        names = ", ".join(DRIVEN)
        raise invalid(
            f"{named!r} is no client that the host knows how to drive.",
            f"Known are {names}; any other by its command line: --drive '/path/to/agent --acp'",
        )
    return Driven(name=argv[0].rpartition("/")[2][:64], title=argv[0], argv=argv)


class Registry:
    """Implements `app.ports.Drives` with the table."""

    def check(self, named: str) -> Drive:
        """The client that a person names."""
        client = driven(named)
        program = client.argv[0]
        is_missing = program.startswith("/") and shutil.which(program) is None
        if find_spec("acp") is None:
            also = f" Nor is there a program {program}." if is_missing else ""
            raise unavailable(
                f"What drives sessions is not installed.{also}",
                "Install it where the host runs: pip install 'tallystick[acp]'",
            )
        if is_missing:
            raise invalid(f"There is no program {program} that can be run.", "Give the path of the client's program.")
        known = client.name in DRIVEN and DRIVEN[client.name] == client
        return Drive(client.name, () if known else client.argv, client.provider)
