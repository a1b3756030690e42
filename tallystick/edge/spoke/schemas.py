"""JSON schemas, applied. It happens beside the host (see `judge`). The library comes with the extra `schema`; without
it a spoke that wants a shape checked is refused, and nothing of it is imported where none is."""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from typing import Any, Final

import msgspec

from tallystick.core.errors import Refused, invalid, unsupported

REMEDY: Final = "pip install 'tallystick[schema]', then start the host again."
_PLACE_CHARACTERS, _WHY_CHARACTERS = 200, 300


def check_schemas(schemas: tuple[str, ...]) -> None:
    """Refuse what cannot be checked with: `unsupported` without the library, `invalid` for no schema."""
    given = [schema for schema in schemas if schema]
    if given and not is_installed():
        raise unsupported("This host cannot check payloads against a JSON schema.", REMEDY)
    for schema in given:
        _validator(schema)


def is_installed() -> bool:
    """Whether the extra is there; found out without loading it."""
    return importlib.util.find_spec("jsonschema") is not None


def load() -> None:
    """Import the library now rather than with the first schema."""
    importlib.import_module("jsonschema.validators")
    importlib.import_module("referencing")


def wrong(payload: Any, schema: str) -> str:
    """What is wrong with a payload, with the place; empty for nothing, or where nothing is asked for."""
    if not schema:
        return ""
    try:
        error = next(iter(_validator(schema).iter_errors(payload)), None)
    except Refused as refused:
        return refused.message
    except Exception as failure:  # noqa: BLE001 - a reference that leads nowhere, or to itself: the library raises many kinds
        return f"the schema cannot be applied: {type(failure).__name__}"
    if error is None:
        return ""
    return f"{str(error.json_path)[:_PLACE_CHARACTERS]}: {str(error.message)[:_WHY_CHARACTERS]}"


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    """Made once for each text. Only references within the schema itself are followed: nothing is fetched."""
    try:
        parsed = msgspec.json.decode(schema)
    except msgspec.DecodeError as error:
        raise invalid(f"The schema is no JSON: {error}.", "Give a JSON schema as text.") from None
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    try:
        kind = validator_for(parsed)
        kind.check_schema(parsed)
    except (SchemaError, TypeError, AttributeError) as error:
        said = getattr(error, "message", str(error))
        raise invalid(f"The schema is no JSON schema: {str(said)[:_WHY_CHARACTERS]}.", "Correct it.") from None
    return kind(parsed, registry=Registry())
