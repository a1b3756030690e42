"""Which clients the host can drive: what is said of one that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tallystick.core.errors import Refused
from tallystick.edge.acp import registry

MISSING = "/no/such/agent --acp"


def refused(named: str) -> Refused:
    with pytest.raises(Refused) as caught:
        registry.Registry().check(named)
    return caught.value


def test_a_program_that_is_not_there_is_refused_when_its_agent_joins(tmp_path: Path) -> None:
    assert "There is no program /no/such/agent" in refused(MISSING).message
    plain = tmp_path / "agent"
    plain.write_text("not to be run", encoding="utf-8")
    assert f"There is no program {plain}" in refused(f"{plain} --acp").message
    assert registry.Registry().check(f"{sys.executable} --acp").argv == (sys.executable, "--acp")


def test_without_the_extra_the_missing_program_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    found = refused(MISSING)
    assert found.message == "What drives sessions is not installed. Nor is there a program /no/such/agent."
    assert "tallystick[acp]" in found.remedy
    assert refused("codex").message == "What drives sessions is not installed."


def test_gemini_loads_no_conversation_within_the_clock_minute_of_its_beginning() -> None:
    """It would not find it, and damage its file."""
    gemini = registry.DRIVEN["gemini"]
    began_at = 1_800_000_059.0  # the last second of a clock minute
    assert gemini.loads_in(began_at, began_at + 2.0) == 63.0
    assert gemini.loads_in(began_at, began_at + 65.0) == 0.0
    assert all(other.loads_in(began_at, began_at) == 0.0 for name, other in registry.DRIVEN.items() if name != "gemini")
