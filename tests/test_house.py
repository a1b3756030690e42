"""The house stays as it is drawn: who imports whom (with proof that a violation is caught), sizes, names."""

from __future__ import annotations

import ast
import configparser
import graphlib
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tallystick"
LIST_FIELDS = ("source_modules", "forbidden_modules", "protected_modules", "allowed_importers")


# --- who imports whom --------------------------------------------------------------------------------------------


def exists(module: str, tree: Path) -> bool:
    path = tree / Path(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def contracts(tree: Path) -> configparser.ConfigParser:
    """The contracts without the rooms that are not open yet."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / ".importlinter", encoding="utf-8")
    for section in config.sections():
        for field in LIST_FIELDS:
            names = config.get(section, field, fallback="").split()
            kept = [n for n in names if not n.startswith("tallystick") or exists(n, tree)]
            if names and not kept:
                config.remove_section(section)
                break
            if names:
                config.set(section, field, "\n" + "\n".join(kept))
    return config


def lint(tree: Path, tmp_path: Path) -> tuple[bool, str]:
    """Whether the tree keeps the contracts, and what the linter says."""
    file = tmp_path / "contracts.ini"
    with file.open("w", encoding="utf-8") as out:
        contracts(tree).write(out)
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, "--no-cache", "--no-logo", str(file)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "contract" in done.stdout.lower(), done.stdout + done.stderr
    return done.returncode == 0, done.stdout + done.stderr


def test_every_contract_is_kept(tmp_path: Path) -> None:
    kept, told = lint(ROOT, tmp_path)
    assert kept, told


VIOLATIONS = {
    "floors": ("store/interface.py", "from tallystick.app import ports"),
    "core": ("core/events/words.py", "from tallystick.core import state"),
    "pure": ("core/route.py", "import time"),
    "stores": ("store/memory/__init__.py", "import tallystick.store.sqlite"),
    "concrete": ("app/ports.py", "import tallystick.store.memory"),
    "edges": ("edge/one.py", "from tallystick.edge import two"),
    "doors": ("edge/one.py", "from tallystick.core import places"),
    "reading": ("app/views/__init__.py", "from tallystick.app import execute"),
    "wire": ("wire.py", "from tallystick.core import errors"),
    "apsw": ("app/ports.py", "import apsw"),
    "asyncpg": ("store/sqlite/__init__.py", "import asyncpg"),
    "mcp": ("edge/one.py", "import mcp.types"),
    "acp": ("edge/one.py", "from acp import schema"),
    "a2a": ("core/model.py", "import a2a"),
    "desktop": ("app/ports.py", "import desktop_notifier"),
    "uvicorn": ("edge/two.py", "import uvicorn"),
    "httpx": ("edge/one.py", "import httpx"),
    "jsonschema": ("edge/two.py", "import jsonschema"),
    "sdk": ("sdk/ids.py", "from tallystick.core import identity"),
    "otel": ("sdk/ids.py", "import opentelemetry.trace"),
}
NEEDED = (
    "store/memory",
    "store/sqlite",
    "store/interface.py",
    "app/ports.py",
    "app/views",
    "app/execute.py",
    "wire.py",
)


def copy_of_the_house(tmp_path: Path) -> Path:
    """A copy in which every room that a violation needs is open."""
    tree = tmp_path / "house"
    shutil.copytree(PACKAGE, tree / "tallystick", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*NEEDED, "edge/one.py", "edge/two.py"):
        path = tree / "tallystick" / name
        if path.exists() or path.with_suffix(".py").exists():
            continue
        if path.suffix:
            path.write_text("", encoding="utf-8")
        else:
            path.mkdir()
            (path / "__init__.py").write_text("", encoding="utf-8")
    return tree


def test_every_contract_has_a_violation_to_prove_it() -> None:
    config = configparser.ConfigParser(delimiters=("=",))
    config.read(ROOT / ".importlinter", encoding="utf-8")
    assert {s.rsplit(":", 1)[-1] for s in config.sections() if ":contract:" in s} == set(VIOLATIONS)


def sections(told: str) -> dict[str, str]:
    """What the linter says of each broken contract, by its name."""
    _, _, broken = told.partition("Broken contracts")
    parts = re.split(r"\n(.+)\n-{3,}\n", broken)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_deliberate_violation_of_each_contract_is_caught(tmp_path: Path) -> None:
    tree = copy_of_the_house(tmp_path)
    for name, line in VIOLATIONS.values():
        path = tree / "tallystick" / name
        source = path.read_text(encoding="utf-8")
        path.write_text(f"{source}\n\ndef _violation() -> None:\n    {line}\n", encoding="utf-8")
    kept, told = lint(tree, tmp_path)
    assert not kept
    broken = sections(told)
    config = contracts(tree)
    for contract, (name, _) in VIOLATIONS.items():
        module = ".".join(("tallystick", *Path(name).with_suffix("").parts)).removesuffix(".__init__")
        words = broken.get(config.get(f"importlinter:contract:{contract}", "name"), "")
        assert module in words, (contract, told)


def files(under: Path = PACKAGE) -> list[Path]:
    return sorted(path for path in under.rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[str]:
    """What a file imports at its top level; a module taken from its package counts as that module alone."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if exists(whole, ROOT) else node.module


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_core_uses_the_standard_library_and_msgspec_alone() -> None:
    for path in files(PACKAGE / "core"):
        outside = {name.partition(".")[0] for name in imports(path)} - {"tallystick", "msgspec"}
        assert outside <= sys.stdlib_module_names, path


def test_no_module_imports_itself_by_a_detour() -> None:
    modules = {module_of(path): path for path in files()}
    graph = {name: {i for i in imports(path) if i in modules and i != name} for name, path in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()


# --- sizes and names ---------------------------------------------------------------------------------------------


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(ROOT)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_file_is_above_500_lines() -> None:
    long = {str(p.relative_to(ROOT)): n for p in files() if (n := len(p.read_text("utf-8").splitlines())) > 500}
    assert not long


def test_functions_are_short() -> None:
    sizes = dict(item for path in files() for item in functions(path))
    assert statistics.median(sizes.values()) < 10
    long = {name: size for name, size in sizes.items() if size >= 50}
    assert len(long) <= len(sizes) * 0.05, long


def test_the_umask_is_set_where_a_process_begins_and_never_after() -> None:
    """It is the whole process's: what its threads make meanwhile, and what it starts, would get another mode."""
    named = {str(path.relative_to(PACKAGE)) for path in files() if "umask(" in path.read_text("utf-8")}
    assert named == {"app/home.py", "edge/process/keeper.py"}


def test_no_module_is_called_by_a_name_that_says_nothing() -> None:
    nothing = re.compile(r"utils?|helpers?|commons?|base|managers?")
    for path in [*files(), *(p for p in PACKAGE.rglob("*") if p.is_dir())]:
        assert not set(re.split(r"[_.]", path.stem)) & {m for m in re.split(r"[_.]", path.stem) if nothing.fullmatch(m)}


def test_the_package_has_at_most_twelve_public_names() -> None:
    code = "import tallystick as t; print(*(getattr(t, '__all__', None) or [n for n in dir(t) if n[0] != '_']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) <= 12


@pytest.mark.parametrize("path", files(PACKAGE / "core"), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_public_name_of_core_says_what_it_means(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), path
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name
