"""Pages a newcomer reads: links lead somewhere, examples run, both READMEs say the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tallystick.core.errors import ErrorCode
from tallystick.edge.cli import VERBS
from tools import console, transcript
from tools.console import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), f"{named(page)} links to {target}"
            assert not anchor or anchor in anchors(found), f"{named(page)} links to {target}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / to).resolve() for to in re.findall(r"\]\(([^)\s#]+)\)", index.read_text("utf-8"))}
    missing = {page for page in PAGES if page.parent != ROOT and page != index} - linked
    assert {named(page) for page in missing} == set()


WITHOUT_SANDBOX = shutil.which("bwrap") is None


@pytest.mark.parametrize("page", console.pages(), ids=named)
def test_examples_print_what_the_page_shows(page: Path) -> None:
    if WITHOUT_SANDBOX and page.stem == "command-agent":
        pytest.skip("THE EXAMPLES ABOUT COMMAND AGENTS WERE NOT RUN: install bubblewrap, they need a sandbox")
    for step, code, printed in console.played(page):
        told = "\n".join(printed)
        assert code == step.code, f"`{step.command}` ended with {code}:\n{told}"
        assert step.fits(printed), f"`{step.command}` printed:\n{told}\n(`make docs` writes it into the page)"


def test_the_transcript_is_what_the_product_prints_in_both_readmes() -> None:
    printed = transcript.transcript()
    for readme in transcript.READMES:
        shown = transcript.part(readme.read_text(encoding="utf-8"))
        assert transcript.fits(shown, printed), "run `make docs`; it printed:\n" + "\n".join(printed)


def shell(page: Path) -> list[str]:
    """The commands of `sh` fences, without their comments."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    lines = [line for kind, body in found if kind == "sh" for line in body.splitlines()]
    return [command for line in lines if (command := line.split("  #")[0].strip())]


def test_both_readmes_show_the_same_commands() -> None:
    english, chinese = transcript.READMES
    assert shell(english) == shell(chinese)
    assert len(shell(english)) == 5


def targets(page: Path) -> list[str]:
    """Links of a README without the words around them."""
    return re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))


def test_both_readmes_lead_to_the_same_pages() -> None:
    english, chinese = map(targets, transcript.READMES)
    assert {*english} ^ {*chinese} == {"README.md", "README.zh-CN.md"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_make_targets_that_pages_name_exist(page: Path) -> None:
    for target in set(re.findall(r"(?:`|^)make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE)):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_verbs_that_pages_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for words in re.findall(r"`tally ((?:--as \w+ )?[a-z]+(?: [a-z]+)?)", text):
        first, *more = words.removeprefix("--as ").split()[1 if words.startswith("--as") else 0 :]
        assert first in VERBS or f"{first} {''.join(more)}" in VERBS, f"{named(page)}: tally {words}"


def test_exit_codes_in_the_pages_are_those_of_the_reference() -> None:
    text = (ROOT / "docs/how-to/script.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE):
        assert f"| `{code}` | {meaning} |" in reference


def test_the_page_for_agents_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_the_extras_are_the_dependency_groups() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    assert {name: extras[name] for name in groups} == groups


def test_the_changelog_has_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_pages_speak_of_codes_that_exist() -> None:
    known = {code.value for code in ErrorCode}
    text = (ROOT / "docs/how-to/script.md").read_text(encoding="utf-8")
    assert set(re.findall(r'"code":"(\w+)"', text)) <= known


def test_the_entry_for_registries_is_of_this_version_and_names_a_command_that_is_there() -> None:
    entry = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == project["version"]
    assert package["identifier"] == project["name"]
    assert package["packageArguments"][0]["value"] in VERBS
    assert len(entry["description"]) <= 100
    assert f"<!-- mcp-name: {entry['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")
