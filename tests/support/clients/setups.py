"""The files and variables with which each client starts without a dialog, without a log-in, and with our model.

`allow`: the client's tools run without asking, so that a test without permissions has none; without it the client asks
as it does by default. `mcp`: name → argv of a stdio server, set up so that the model is shown its tools at once (Claude
and Pi would else load them on demand). `hooks`: event → command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Wishes:
    """What a test wants configured."""

    mcp: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hooks: Mapping[str, str] = field(default_factory=dict)
    allow: bool = True
    rewake: frozenset[str] = frozenset()
    """Events of Claude whose hook wakes the session when it ends (asyncRewake)."""


Setup = Callable[[Path, Path, str, Wishes], dict[str, str]]
"""(home, working directory, address of the model, wishes) → variables."""


def write(path: Path, content: str | Mapping[str, Any]) -> None:
    """A file with all folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), encoding="utf-8")


def _hooks(wishes: Wishes) -> dict[str, Any]:
    """The shape that Claude, Codex and Gemini have in common."""
    return {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": 600}]}]
        for event, command in wishes.hooks.items()
    }


def _servers(wishes: Wishes, **more: Any) -> dict[str, Any]:
    return {name: {"command": argv[0], "args": [*argv[1:]], **more} for name, argv in wishes.mcp.items()}


def codex(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """Codex: config.toml, hooks.json. Hooks need trust: `--dangerously-bypass-hook-trust`, or a person's review."""
    lines = [
        'model = "fake-model"',
        'model_provider = "fake"',
        f'approval_policy = "{"never" if wishes.allow else "on-request"}"',
        f'sandbox_mode = "{"danger-full-access" if wishes.allow else "workspace-write"}"',
        "check_for_update_on_startup = false",
        "[model_providers.fake]",
        'name = "Fake"',
        f'base_url = "{url}/v1"',
        'wire_api = "responses"',
        'env_key = "FAKE_KEY"',
        "requires_openai_auth = false",
        "supports_websockets = false",
        "request_max_retries = 0",
        "stream_max_retries = 0",
        "[analytics]",
        "enabled = false",
        f"[projects.{json.dumps(str(cwd))}]",
        'trust_level = "trusted"',
    ]
    for name, argv in wishes.mcp.items():
        lines += [
            f"[mcp_servers.{name}]",
            f"command = {json.dumps(argv[0])}",
            f"args = {json.dumps([*argv[1:]], ensure_ascii=False)}",
        ]
        if wishes.allow:
            lines.append('default_tools_approval_mode = "approve"')
    write(home / ".codex" / "config.toml", "\n".join(lines) + "\n")
    if wishes.hooks:
        write(home / ".codex" / "hooks.json", {"hooks": _hooks(wishes)})
    return {"CODEX_HOME": str(home / ".codex"), "FAKE_KEY": "dummy", "NO_BROWSER": "1"}


def claude(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """Claude Code: ~/.claude.json against dialogs and for MCP, ~/.claude/settings.json for hooks and permissions."""
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    account = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy"]},
        "projects": {str(cwd): trusted},
        "mcpServers": _servers(wishes, type="stdio", alwaysLoad=True),
    }
    write(home / ".claude.json", account)
    hooks = _hooks(wishes)
    for event in wishes.rewake & set(hooks):
        hooks[event][0]["hooks"][0]["asyncRewake"] = True
    allowed = ["Bash", "Read", "Edit", "Write", *(f"mcp__{name}" for name in wishes.mcp)] if wishes.allow else []
    write(home / ".claude" / "settings.json", {"permissions": {"allow": allowed}, "hooks": hooks})
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "ANTHROPIC_SMALL_FAST_MODEL": "claude-haiku-4-5",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def gemini(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """Gemini CLI: ~/.gemini/settings.json."""
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "telemetry": {"enabled": False},
        "model": {"name": "gemini-2.5-flash"},
        "mcpServers": _servers(wishes, **({"trust": True} if wishes.allow else {})),
    }
    if wishes.hooks:
        settings |= {"hooksConfig": {"enabled": True}, "hooks": _hooks(wishes)}
        for groups in settings["hooks"].values():
            groups[0]["hooks"][0]["timeout"] = 600_000  # milliseconds here
    write(home / ".gemini" / "settings.json", settings)
    return {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def opencode(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """OpenCode: variables only, so that its own configuration files stay free for what a test installs."""
    answer = "allow" if wishes.allow else "ask"
    limits = {"limit": {"context": 128000, "output": 8000}, "cost": {"input": 1, "output": 2}}
    fake = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": {"fake-model": {"tool_call": True, **limits}},
    }
    config = {
        "model": "fake/fake-model",
        "small_model": "fake/fake-model",
        "autoupdate": False,
        "share": "disabled",
        "enabled_providers": ["fake"],
        "provider": {"fake": fake},
        "permission": {"edit": answer, "bash": answer, "webfetch": "deny"},
        "mcp": {name: {"type": "local", "command": [*argv], "enabled": True} for name, argv in wishes.mcp.items()},
    }
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), **{f"OPENCODE_DISABLE_{word}": "1" for word in switches}}


def pi(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """Pi: ~/.pi/agent: models.json, settings.json, mcp.json."""
    cost = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
    model = {
        "id": "fake-model",
        "name": "Fake",
        "contextWindow": 128000,
        "maxTokens": 8000,
        "input": ["text"],
        "reasoning": False,
        "cost": cost,
    }
    fake = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "dummy", "models": [model]}
    place = home / ".pi" / "agent"
    write(place / "models.json", {"providers": {"fake": fake}})
    write(place / "settings.json", {"defaultProvider": "fake", "defaultModel": "fake-model", "enableTelemetry": False})
    if wishes.mcp:
        write(place / "mcp.json", {"mcpServers": _servers(wishes, exposure="direct")})
    return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


def qwen(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """Qwen Code: ~/.qwen/settings.json. What asks and what does not, is a mode of its session."""
    settings = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "telemetry": {"enabled": False},
        "model": {"name": "fake-model"},
        "mcpServers": _servers(wishes),
    }
    write(home / ".qwen" / "settings.json", settings)
    return {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "fake-model"}


def vibe(home: Path, cwd: Path, url: str, wishes: Wishes) -> dict[str, str]:
    """Mistral Vibe: ~/.vibe/config.toml."""
    write(
        home / ".vibe" / "config.toml",
        f"""active_model = "fake"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
[[providers]]
name = "fake"
api_base = "{url}/v1"
api_key_env_var = "FAKE_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "fake-model"
provider = "fake"
alias = "fake"
input_price = 1.0
output_price = 2.0
""",
    )
    return {"FAKE_KEY": "dummy", "MISTRAL_API_KEY": "dummy"}


SETUPS: dict[str, Setup] = {
    "codex": codex,
    "claude": claude,
    "gemini": gemini,
    "opencode": opencode,
    "pi": pi,
    "pi-acp": pi,
    "qwen": qwen,
    "vibe": vibe,
    "codex-acp": codex,
    "claude-agent-acp": claude,
}
