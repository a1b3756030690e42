"""What `tally doctor` gives: what was looked at, what was seen, and what to do about it."""

from __future__ import annotations

from tallystick.app.desk.forms import Form


class Finding(Form, frozen=True, kw_only=True):
    """One line of `tally doctor`: what was done, what was seen, the fix."""

    check: str
    ok: bool
    level: str
    """ok, warning or error."""
    did: str
    saw: str
    fix: str = ""


class Diagnosis(Form, frozen=True, kw_only=True):
    """`tally doctor`."""

    findings: tuple[Finding, ...]
