"""What a run of a check shows: how it ended, what it reported, and how that is said."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tallystick.app.jobs import JobResult
from tallystick.core.model import CheckKind, CheckOutcome, CheckRun, CheckSpec
from tallystick.core.state import Task

_REPORT_BYTES = 5 * 1024 * 1024


def outcome_of(spec: CheckSpec, result: JobResult, ran: int) -> CheckOutcome:
    """What a run shows, of which so many tests ran."""
    if result.not_started or result.canceled:
        return CheckOutcome.ERROR
    if result.timed_out:
        return CheckOutcome.TIMED_OUT
    none_ran = spec.kind is CheckKind.TEST and ran == 0
    if none_ran and result.exit_code in (0, 5):
        return CheckOutcome.NO_TESTS
    return CheckOutcome.PASSED if result.exit_code == 0 else CheckOutcome.FAILED


def not_run(task: Task, spec: CheckSpec, commit: str, detail: str) -> CheckRun:
    """A check that could not be run, and why: it says nothing about the work."""
    return CheckRun(
        check=spec.name,
        argv=spec.argv,
        outcome=CheckOutcome.ERROR,
        commit=commit,
        repository=task.repository,
        detail=detail,
    )


def ended(result: JobResult) -> str:
    """How a run that did not go well ended, in words."""
    if result.not_started:
        return result.not_started
    if result.timed_out:
        return f"it took longer than {result.seconds:g} seconds"
    return f"exit {result.exit_code}" if result.signal is None else f"signal {result.signal}"


def last_words(result: JobResult) -> str:
    """The last lines that it said."""
    lines = (result.stderr or result.stdout).decode("utf-8", "replace").strip().splitlines()
    return " / ".join(lines[-3:])[:500]


def is_under(path: str, guarded: str) -> bool:
    """Whether a path is that one, or below it."""
    guarded = guarded.rstrip("/")
    return path == guarded or path.startswith(f"{guarded}/")


def drop_report(path: Path) -> None:
    """Take away a report that was handed in with the work: only what this run writes may count."""
    with suppress(OSError):
        path.unlink()


def read_report(path: Path) -> bytes:
    """What a run reported in that file; empty where there is none, or more than is read."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _REPORT_BYTES:
            return b""
        return path.read_bytes()
    except OSError:
        return b""
