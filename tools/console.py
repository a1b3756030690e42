"""Runs the `console` examples of the docs for real: in a temporary home and a temporary git repository.

`python -m tools.console` writes the output of each example into its page where what stands there does not fit; the
tests compare. In an expected line `…` stands for anything, a line `…` for any lines. Ids, times and digests vary.

A command that is meant to end otherwise than with 0 says so: `$ tally show nothing  # exits 1`. A `python` block whose
line before is "`name.py`:" is written there before the page's first command, as it stands; what an example leaves
running in the background is ended with the page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tallystick.demo import CONFIG, FAULTY, TEST, tally_command

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 120
PERSON_HOME = "/home/ada"
MARK = "\x01"

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^`(\w+\.py)`[^\n`]*:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXITS = re.compile(r"\s+# exits (\d+)$")
_VARIABLE = re.compile(
    r"(?:tsk|trc|agt|ses|dlv|per|wsp|msg|prm)_[0-9a-zA-Z]+"  # ids
    r"|in a sandbox \(E3\)|without a sandbox: this machine has none|(?<=sandbox )none|\bE3\b"  # the machine's sandbox
    r"|\d\d:\d\d:\d\d|\d\d-\d\d \d\d:\d\d(?!:)"  # times of the day, or of another one
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z|\d+(?:\.\d+)?(?:ms|s|m|h)\b|[0-9a-f]{7,64}|\d+"  # times, digests
)


class Step:
    """One command of an example and the lines that it printed."""

    def __init__(self, command: str, expected: list[str]) -> None:
        exits = _EXITS.search(command)
        self.typed = command
        self.command = _EXITS.sub("", command)
        self.code = int(exits[1]) if exits else 0
        self.expected = expected

    def fits(self, actual: list[str]) -> bool:
        """Whether what was printed is what stands in the page, but for what always varies."""
        return alike(self.expected, actual)


def alike(expected: list[str], actual: list[str]) -> bool:
    """Whether lines are as expected, but for what always varies."""
    return _fits([line for line in expected if line], [line for line in actual if line])


def _fits(expected: list[str], actual: list[str]) -> bool:
    if not expected:
        return not actual
    if expected[0].strip() == "…":
        return any(_fits(expected[1:], actual[start:]) for start in range(len(actual) + 1))
    return bool(actual) and _like(expected[0], actual[0]) and _fits(expected[1:], actual[1:])


def _like(expected: str, actual: str) -> bool:
    pattern = ".*".join(map(re.escape, _plain(expected).split("…")))
    return re.fullmatch(pattern, _plain(actual)) is not None


def _plain(line: str) -> str:
    """A line without what varies: blanks too, because columns are as wide as their widest value."""
    return _VARIABLE.sub("0", re.sub(r"\s+", " ", line)).strip()


def steps(block: str) -> list[Step]:
    """The commands of a block. A command goes on in lines that begin with `> `."""
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
        elif line.startswith("> ") and found and not found[-1].expected:
            last = found.pop()
            found.append(Step(f"{last.typed}\n{line[2:]}", []))
        elif found:
            found[-1].expected.append(line)
    return found


def programs(text: str) -> dict[str, str]:
    """The Python programs of a page, by the name of their file."""
    return dict(_PROGRAM.findall(text))


def blocks(text: str) -> list[list[Step]]:
    """All examples of a page."""
    return [steps(match[1]) for match in _BLOCK.finditer(text)]


class Place:
    """A temporary home, and a repository with a fault and a test, where a page's examples run one after the other."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.repository = root, root / "tally", root / "greeter"
        self.home.mkdir(mode=0o700)
        self.repository.mkdir()
        config = self.home / "config.toml"
        config.write_text(CONFIG, encoding="utf-8")
        config.chmod(0o600)
        self._program()
        (self.repository / "greeting.py").write_text(FAULTY, encoding="utf-8")
        (self.repository / "test_greeting.py").write_text(TEST, encoding="utf-8")
        self.person = "@ada"
        self.run(["git init -q -b main", "git add .", 'git commit -q -m "A greeting, and a test that it fails"'])
        ((_, (whoami,)),) = self.run(["tally whoami --workspace default --json"])
        self.person = json.loads(whoami)["name"]

    def _program(self) -> None:
        """`tally` of this checkout as a program on PATH."""
        program = self.root / "bin" / "tally"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.join(tally_command())} "$@"\n', encoding="utf-8")
        program.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """What a person's shell has, and nothing of whoever runs this."""
        path = [str(self.root / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _ADA.items()}
        own = {"HOME": str(self.root), "TALLY_HOME": str(self.home), "LOGNAME": "ada", "USER": "ada", "LANG": "C.UTF-8"}
        return {**own, **who, "PATH": os.pathsep.join(path), "GIT_CONFIG_GLOBAL": os.devnull, "COLUMNS": "110"}

    def run(self, commands: list[str]) -> list[tuple[int, list[str]]]:
        """Run commands in one shell; the exit code and the lines of each."""
        script = "\n".join(f"{command}\nprintf '\\001%s\\001' \"$?\"" for command in commands) + "\n"
        with tempfile.TemporaryFile() as printed:  # a pipe would be held open by what runs in the background
            shell = subprocess.Popen(
                ["bash", "-c", f"exec 2>&1\n{script}"],
                cwd=self.repository,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                start_new_session=True,
            )
            try:
                shell.wait(SECONDS)
            finally:
                _end_group(shell)
            printed.seek(0)
            pieces = printed.read().decode("utf-8", "replace").split(MARK)
        answers = zip(pieces[1::2], pieces[::2], strict=False)
        return [(int(code), self._shown(text)) for code, text in answers]

    def _shown(self, text: str) -> list[str]:
        text = text.replace(self.environment()["PATH"], f"{PERSON_HOME}/bin:/usr/bin:/bin")
        shown = renamed(text.replace(str(self.home), f"{PERSON_HOME}/.local/share/tallystick"), self.person)
        return [line.rstrip() for line in shown.replace(str(self.root), PERSON_HOME).splitlines()]

    def stop(self) -> None:
        """Stop the host."""
        subprocess.run(tally_command("down"), env=self.environment(), capture_output=True, timeout=60, check=False)


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """End a shell with all that it left running. The host is in a session of its own, and stays."""
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()


def renamed(text: str, person: str) -> str:
    """The person of this machine becomes @ada, and columns stay where they were."""
    padded = "@ada" + " " * max(0, len(person) - len("@ada"))
    return text.replace(f"{person}  ", f"{padded}  ").replace(person, "@ada")


_ADA = {"NAME": "Ada", "EMAIL": "ada@example.org"}


@contextmanager
def place() -> Iterator[Place]:
    """A place that is removed afterwards."""
    root = Path(tempfile.mkdtemp(prefix="tally-docs-")).resolve()
    here = Place(root)
    try:
        yield here
    finally:
        here.stop()
        shutil.rmtree(root, ignore_errors=True)


def played(page: Path) -> list[tuple[Step, int, list[str]]]:
    """All commands of a page, run: each with its exit code and what it printed."""
    text = page.read_text(encoding="utf-8")
    todo = [step for block in blocks(text) for step in block]
    with place() as here:
        for name, program in programs(text).items():
            (here.repository / name).write_text(program, encoding="utf-8")
        answers = here.run([step.command for step in todo])
    return [(step, code, lines) for step, (code, lines) in zip(todo, answers, strict=True)]


def pages() -> list[Path]:
    """Pages with examples."""
    every = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in every if page.exists() and _BLOCK.search(page.read_text(encoding="utf-8"))]


def refresh(page: Path) -> list[str]:
    """Write what was printed into a page, where what stands there does not fit. The commands concerned."""
    answers = iter(played(page))
    stale: list[str] = []

    def write(match: re.Match[str]) -> str:
        lines: list[str] = []
        for _ in steps(match[1]):
            step, code, printed = next(answers)
            if code != step.code:
                raise SystemExit(f"{page}: `{step.command}` ended with {code}:\n" + "\n".join(printed))
            fits = step.fits(printed)
            stale.extend([] if fits else [step.command])
            first, *more = step.typed.split("\n")
            lines += [f"$ {first}", *(f"> {line}" for line in more), *(step.expected if fits else printed)]
        return "```console\n" + "\n".join(lines) + "\n```"

    text = _BLOCK.sub(write, page.read_text(encoding="utf-8"))
    if stale:
        page.write_text(text, encoding="utf-8")
    return stale


def main() -> int:
    """Refresh every page."""
    for page in pages():
        for command in refresh(page):
            sys.stdout.write(f"{page.relative_to(ROOT)}: {command}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
