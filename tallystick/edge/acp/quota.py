"""Whether a client says that its quota or its rate is used up: each says it in its own way, as the table has it.

A number or a field of the error comes first. Words count only where nothing else tells, as a whole and at the version
that was measured: a model that happens to say the like ends its turn early, and no more.
"""

from __future__ import annotations

import re

from tallystick.edge.acp.errors import ClientError
from tallystick.edge.acp.registry import Driven, Sign


def in_error(client: Driven, error: ClientError) -> bool:
    """Whether an error says so."""
    return any(_is(sign, error) for sign in client.used_up)


def _is(sign: Sign, error: ClientError) -> bool:
    if sign.number:
        return error.number == sign.number
    return bool(sign.field) and error.fields.get(sign.field) == sign.value


def in_words(client: Driven, last: str) -> bool:
    """Whether the last words of a turn that ended in order say so."""
    return any(sign.words and re.fullmatch(sign.words, last.strip(), re.DOTALL) for sign in client.used_up)
