"""The little Markdown that the generated pages need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def code(text: str) -> str:
    """Text as code; nothing where there is none."""
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    """Several, in order."""
    return ", ".join(code(text) for text in texts)
