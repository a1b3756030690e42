"""Settings of one session alone, for a client that takes MCP servers from nowhere else."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tallystick.core.errors import Refused
from tallystick.edge.acp import private
from tallystick.edge.acp.registry import DRIVEN
from tallystick.edge.acp.speech import Server

PI = DRIVEN["pi"]
OURS = Server("tally", "/python", ("mcp",), {"TALLY_SESSION": "ses_1"})


def test_the_persons_settings_are_shown_and_only_the_servers_are_another_file(tmp_path: Path) -> None:
    theirs, folder = tmp_path / "home/.pi/agent", tmp_path / "settings"
    theirs.mkdir(parents=True)
    (theirs / "auth.json").write_text("{}")
    before = json.dumps({"mcpServers": {"docs": {"url": "https://docs.example"}}, "more": 1})
    (theirs / "mcp.json").write_text(before)
    for _ in range(2):
        private.put(PI, folder, tmp_path / "home", "", OURS)
    assert (folder / "auth.json").resolve() == theirs / "auth.json"
    found = json.loads((folder / "mcp.json").read_text())
    ours = {"command": "/python", "args": ["mcp"], "env": {"TALLY_SESSION": "ses_1"}, "exposure": "direct"}
    assert found == {"mcpServers": {"docs": {"url": "https://docs.example"}, "tally": ours}, "more": 1}
    assert (theirs / "mcp.json").read_text() == before
    assert stat.S_IMODE((folder / "mcp.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private.variable(PI, folder) == {"PI_CODING_AGENT_DIR": str(folder)}


@pytest.mark.parametrize("text", ["{", "[" * 3000])
def test_settings_that_cannot_be_read_are_refused_and_not_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mcp.json").write_text(text)
    with pytest.raises(Refused) as refused:
        private.put(PI, tmp_path / "settings", tmp_path, str(tmp_path / "own"), OURS)
    assert "no JSON" in refused.value.message


def test_other_clients_get_none(tmp_path: Path) -> None:
    private.put(DRIVEN["codex"], tmp_path / "settings", tmp_path, "", OURS)
    assert not (tmp_path / "settings").exists()
    assert private.variable(DRIVEN["codex"], tmp_path) == {}
    assert private.shown(DRIVEN["codex"], tmp_path) == ()
