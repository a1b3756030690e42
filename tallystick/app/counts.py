"""How many tests ran: from a JUnit file, else from a known runner's closing line. Unknown output counts as none."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

from tallystick.core.model import TestCounts

_KNOWN_RUNNERS = ("pytest", "py.test", "unittest", "tox", "nox", "jest", "vitest", "mocha", "ctest")


def is_test_runner(argv: tuple[str, ...]) -> bool:
    """Whether a command line names a runner whose closing line is known, so that `test` is its kind."""
    words = [word.rsplit("/", 1)[-1] for word in argv]
    if words[:1] == ["cargo"] or words[:1] == ["go"]:
        return "test" in words
    if words[:2] == ["node", "--test"]:
        return True
    return any(word in _KNOWN_RUNNERS for word in words[:4])


def counted(stdout: bytes, stderr: bytes, junit: bytes = b"") -> TestCounts:
    """What a run counted. JUnit first; then the last closing line that a known runner prints."""
    from_junit = _junit(junit) if junit else None
    if from_junit is not None:
        return from_junit
    text = "\n".join(_last_lines(stream) for stream in (stdout, stderr))
    for name, find in _RUNNERS:
        counts = find(text)
        if counts is not None:
            return TestCounts(*counts, source=name)
    return TestCounts()


def _last_lines(stream: bytes, bytes_: int = 64 * 1024) -> str:
    text = stream[-bytes_:].decode("utf-8", "replace")
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _junit(data: bytes) -> TestCounts | None:
    """Entities and document types are refused before the parser sees them: results come from agents."""
    head = data[:4096].upper() if b"<!" not in data else data.upper()
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        return None
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - no document type, so no entities
    except ElementTree.ParseError:
        return None
    cases = list(root.iter("testcase"))
    failed = sum(1 for c in cases if c.find("failure") is not None or c.find("error") is not None)
    skipped = sum(1 for c in cases if c.find("skipped") is not None)
    return TestCounts(ran=len(cases) - skipped, failed=failed, skipped=skipped, source="junit")


def _number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def _pytest(text: str) -> tuple[int, int, int] | None:
    lines = re.findall(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+\s?s.*$", text, re.MULTILINE)
    if not lines:
        return (0, 0, 0) if re.search(r"no tests ran in", text) else None
    line = lines[-1]
    failed = _number(r"(\d+) failed", line) + _number(r"(\d+) errors?", line)
    passed = _number(r"(\d+) passed", line) + _number(r"(\d+) xfailed", line) + _number(r"(\d+) xpassed", line)
    return passed + failed, failed, _number(r"(\d+) skipped", line)


def _unittest(text: str) -> tuple[int, int, int] | None:
    found = re.findall(r"^Ran (\d+) tests? in", text, re.MULTILINE)
    if not found:
        return None
    failed = _number(r"failures=(\d+)", text) + _number(r"errors=(\d+)", text)
    skipped = _number(r"skipped=(\d+)", text)
    return int(found[-1]) - skipped, failed, skipped


def _cargo(text: str) -> tuple[int, int, int] | None:
    rows = re.findall(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", text)
    if not rows:
        return None
    passed, failed, ignored = (sum(int(row[i]) for row in rows) for i in range(3))
    return passed + failed, failed, ignored


def _go(text: str) -> tuple[int, int, int] | None:
    passed = len(re.findall(r"^\s*--- PASS:|^ok\s+\S+\s+[\d.]+s", text, re.MULTILINE))
    failed = len(re.findall(r"^\s*--- FAIL:|^FAIL\s+\S+\s+[\d.]+s", text, re.MULTILINE))
    return (passed + failed, failed, 0) if passed or failed else None


def _node(text: str) -> tuple[int, int, int] | None:
    if not re.search(r"^[#ℹ] tests \d+", text, re.MULTILINE):
        return None
    ran, failed = _number(r"[#ℹ] tests (\d+)", text), _number(r"[#ℹ] fail (\d+)", text)
    skipped = _number(r"[#ℹ] skipped (\d+)", text)
    return ran - skipped, failed, skipped


def _jest(text: str) -> tuple[int, int, int] | None:
    lines = re.findall(r"^\s*Tests:?\s+(.*)$", text, re.MULTILINE)
    if not lines or not re.search(r"\d+ (passed|failed)", lines[-1]):
        return None
    failed = _number(r"(\d+) failed", lines[-1])
    return _number(r"(\d+) passed", lines[-1]) + failed, failed, _number(r"(\d+) skipped", lines[-1])


def _ctest(text: str) -> tuple[int, int, int] | None:
    found = re.findall(r"\d+% tests passed, (\d+) tests? failed out of (\d+)", text)
    return (int(found[-1][1]), int(found[-1][0]), 0) if found else None


def _tap(text: str) -> tuple[int, int, int] | None:
    passed, failed = (len(re.findall(p, text, re.MULTILINE)) for p in (r"^ok \d+", r"^not ok \d+"))
    return (passed + failed, failed, 0) if passed or failed else None


_RUNNERS: tuple[tuple[str, Callable[[str], tuple[int, int, int] | None]], ...] = (
    ("pytest", _pytest),
    ("unittest", _unittest),
    ("cargo", _cargo),
    ("node", _node),
    ("jest", _jest),
    ("ctest", _ctest),
    ("go", _go),
    ("tap", _tap),
)
