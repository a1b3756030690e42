"""The one door to the library jsonschema (the extra `tallystick[schema]`)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from jsonschema.exceptions import best_match

from tallystick.sdk.errors import invalid

_CHARACTERS = 600


class JsonSchema:
    """Checks values against one JSON schema. References to other documents are not fetched."""

    def __init__(self, text: str) -> None:
        schema = json.loads(text)
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise invalid(
                f"The JSON schema is none: {error.message} at {error.json_path}.", "Correct it there."
            ) from None
        self._validator = kind(schema)

    def worst(self, value: Any) -> str:
        """What is wrong with a value, and where; empty where nothing is."""
        error = best_match(self._validator.iter_errors(value))
        return f"{_short(error.message)} at {_short(error.json_path)}" if error else ""


def _short(text: str) -> str:
    """Without its middle where it is long: it quotes the value, which may be all of a payload."""
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS // 2]} … {text[-_CHARACTERS // 2 :]}"
