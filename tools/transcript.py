"""`python -m tools.transcript`: what `tally try` prints, into both READMEs; then the examples of all pages (`console`).

The transcript is the real one, with what a reader can do without replaced by `…`; names of this machine are not in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tools import console

ROOT = console.ROOT
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
_PART = re.compile(r"(<!-- what `tally try` prints -->\n```text\n).*?(```\n)", re.DOTALL)
_QUIET = ("$ tally join", "$ tally --as checker take")
"""Commands whose output is left out."""


def transcript() -> list[str]:
    """The lines of one real run, cut."""
    done = subprocess.run(
        [sys.executable, "-m", "tallystick", "try"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    person = re.search(r"owner +(@\S+)", done.stdout)
    text = console.renamed(done.stdout, person[1]) if person else done.stdout
    return cut(re.sub(r"/\S*/tally-try-[^/ ]+", "/tmp/tally-try", text).splitlines())  # noqa: S108 - shown, not used


def cut(lines: list[str]) -> list[str]:
    """Without what a reader can do without."""
    kept: list[str] = []
    quiet, quoted = False, 0
    for line in lines:
        if line.startswith(("$ ", "# ")) or line[:1].isdigit():
            quiet = line.startswith(_QUIET)
        quoted = quoted + 1 if line.lstrip().startswith("│") else 0
        silent = quiet and line.startswith("  ") and "✓" not in line
        left_out = silent or (quoted > 3 and "Error" not in line)
        kept += ([] if kept[-1:] == ["  …"] else ["  …"]) if left_out else [line]
    return kept


def part(text: str) -> list[str]:
    """The transcript as it stands in a README."""
    found = _PART.search(text)
    return found[0].splitlines()[2:-1] if found else []


def put(text: str, lines: list[str]) -> str:
    """A README with this transcript."""
    return _PART.sub(lambda found: "\n".join([found[1].rstrip(), *lines, found[2]]), text)


def fits(expected: list[str], actual: list[str]) -> bool:
    """Whether two transcripts differ only in ids, times, digests and the like."""
    return console.alike(expected, actual)


def main() -> int:
    """Write it where what stands there does not fit."""
    lines = transcript()
    for path in READMES:
        text = path.read_text(encoding="utf-8")
        if not fits(part(text), lines):
            path.write_text(put(text, lines), encoding="utf-8")
            sys.stdout.write(f"{path.name}: transcript written\n")
    return console.main()


if __name__ == "__main__":
    sys.exit(main())
