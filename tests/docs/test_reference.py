"""The reference says what the code says: current, and nothing left out."""

from __future__ import annotations

import inspect
import re
import tomllib

import msgspec
import pytest

from tallystick.config import Settings
from tallystick.core import events
from tallystick.core.errors import ErrorCode
from tallystick.core.limits import Limits
from tallystick.core.model import Fact, Reason, TaskState, place
from tallystick.core.task.table import REASONS, TRANSITIONS
from tallystick.edge.api import ERRORS as WIRE_ERRORS
from tallystick.edge.cli import ERRORS as CLI_ERRORS
from tallystick.edge.cli import VERBS
from tools import reference
from tools.console import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert page(name) == reference.HEAD + reference.PAGES[name]().rstrip() + "\n", "run `make docs`"


def test_every_page_of_the_reference_is_generated() -> None:
    assert {path.stem for path in (ROOT / "docs" / "reference").iterdir()} == set(reference.PAGES)


def test_every_verb_and_option_is_documented() -> None:
    text = page("commands")
    for verb in VERBS.values():
        if not verb.name.startswith("__"):
            assert f"### tally {verb.name}\n" in text
            for option in verb.options:
                assert f"`--{option.name}" in text.split(f"### tally {verb.name}\n")[1].split("\n### ")[0]


def test_every_code_is_in_every_table_and_in_the_docs() -> None:
    for code in ErrorCode:
        assert code in CLI_ERRORS
        assert code in WIRE_ERRORS
        assert f"| `{code.value}` |" in page("errors")


def test_every_event_and_field_is_documented_and_says_what_it_means() -> None:
    text = page("events")
    for name, kind in events.event_types().items():
        section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert len(inspect.getdoc(kind) or "") > 10
        shared = {"text", "state", "reason", "turn"}
        assert all(f"`{f.name}`" in section for f in msgspec.structs.fields(kind) if f.name not in shared)


def test_every_setting_is_documented_and_says_what_it_means() -> None:
    text = page("settings")
    keys = {field.name for field in msgspec.structs.fields(Settings)} - {"home", "limits"}
    assert all(f"| `{key}` |" in text for key in keys)
    for field in msgspec.structs.fields(Limits):
        (row,) = re.findall(rf"^\| `{field.name}` \| (.+) \| (.+) \|$", text, re.MULTILINE)
        assert len(row[1]) > 10


def test_the_settings_shown_are_ones_that_can_be_set() -> None:
    for example in re.findall(r"```toml\n(.*?)```", page("settings"), re.DOTALL):
        msgspec.convert(tomllib.loads(example)["limits"], Limits)


def test_every_state_reason_move_and_fact_is_documented() -> None:
    text = page("states")
    rows = {tuple(row) for row in re.findall(r"^\| `(\w+)` \| (?:`(\w+)`|–) \|", text, re.MULTILINE)}
    assert rows == {(state.value, reason.value) for state, reasons in REASONS.items() for reason in reasons}
    assert all(f"| {row.move} | `{row.command.__name__}` |" in text for row in TRANSITIONS)
    assert all(f"| `{fact.value}` |" in page("facts") for fact in Fact)


def test_the_diagram_has_every_state() -> None:
    drawn = re.search(r"```mermaid\n(.*?)```", page("states"), re.DOTALL)
    assert drawn
    assert all(re.search(rf"--> {state.value}\b|^ +{state.value} -->", drawn[1], re.MULTILINE) for state in TaskState)
    assert place(TaskState.WORKING, Reason.NONE) == "working"
