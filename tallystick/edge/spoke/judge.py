"""The process in which schemas are applied, apart from the host: lines of JSON in, a verdict for each out.

A schema is written by whoever offers, a payload by whoever asks; together they can keep a machine busy for years (a
pattern that backtracks, a reference that doubles itself). Each verdict has `SECONDS` of processor time; beyond that the
kernel ends this process, and the host starts another.
"""

from __future__ import annotations

import signal
import sys
from typing import Final

import msgspec

from tallystick.core.errors import Refused
from tallystick.edge.spoke.schemas import check_schemas, load, wrong

SECONDS: Final = 1.0
"""Of processor time, for one verdict. By the processor's clock, so that a busy machine changes no verdict."""


class Question(msgspec.Struct, frozen=True):
    """Whether a payload has a shape; without a payload: whether the schema is one."""

    schema: str
    payload: str | None = None
    """As JSON."""


class Verdict(msgspec.Struct, frozen=True):
    """What is wrong; empty for nothing."""

    wrong: str = ""
    remedy: str = ""


def verdict(question: Question) -> Verdict:
    """Of one question."""
    try:
        if question.payload is not None:
            return Verdict(wrong(msgspec.json.decode(question.payload), question.schema))
        check_schemas((question.schema,))
    except Refused as refused:
        return Verdict(refused.message, refused.remedy)
    except RecursionError:
        return Verdict("The schema is nested too deeply.", "Make it flatter.")
    return Verdict()


def main() -> None:
    """Until the host closes the pipe."""
    load()  # before the first question, whose time it would take
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        said = verdict(msgspec.json.decode(line, type=Question))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
        sys.stdout.buffer.flush()
