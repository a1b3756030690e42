"""Shapes of payloads, and schemas that are none."""

from __future__ import annotations

import sys

import msgspec
import pytest

from tallystick.app.shapes import DEPTH, object_of, payload_of
from tallystick.core.errors import Refused
from tallystick.core.events import Text
from tallystick.edge.spoke import schemas
from tallystick.edge.spoke.schemas import check_schemas, wrong

NEEDS = '{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"l":{"items":{"type":"string"}}}}'


def nested(depth: int) -> str:
    """That many objects and arrays in one another."""
    return '{"a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def test_a_payload_of_the_shape_is_fine_and_without_a_schema_every_one_is() -> None:
    assert wrong({"n": 1}, NEEDS) == ""
    assert wrong(object(), "") == ""


@pytest.mark.parametrize("body", ["two words", "{", "", "[" * 100_000 + "]" * 100_000, nested(DEPTH + 1)])
def test_a_body_that_is_no_json_or_too_deep_to_be_read_is_handed_over_with_its_title(body: str) -> None:
    assert msgspec.json.decode(payload_of(Text(title="t", body=body))) == {"title": "t", "body": body}


@pytest.mark.parametrize("body", [nested(DEPTH), f"[{','.join([nested(2)] * DEPTH)}]", '{"a":1.50}'])
def test_json_that_every_program_can_read_is_handed_over_byte_by_byte(body: str) -> None:
    assert payload_of(Text(title="t", body=body)) == body.encode()


@pytest.mark.parametrize("words", ["", "goal", "[1]", "null", "{", nested(DEPTH + 1), '{"a":' * 1500])
def test_words_that_are_no_object_or_too_deep_a_one_are_none(words: str) -> None:
    assert object_of(words) is None
    assert object_of(nested(2)) == {"a": []}


def test_what_is_wrong_is_told_with_its_place() -> None:
    assert wrong({"n": "x"}, NEEDS) == "$.n: 'x' is not of type 'integer'"
    assert wrong({"n": 1, "l": ["a", 2]}, NEEDS) == "$.l[1]: 2 is not of type 'string'"
    assert wrong([], NEEDS).startswith("$: ")


@pytest.mark.parametrize("schema", ["{", "[1]", '"x"', '{"type":5}', '{"pattern":"("}'])
def test_what_is_no_schema_is_refused_when_the_spoke_registers(schema: str) -> None:
    with pytest.raises(Refused) as caught:
        check_schemas(("", schema))
    assert caught.value.code.value == "invalid"


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x", "file:///etc/passwd", "#/nowhere", "#"])
def test_nothing_is_fetched_and_a_reference_that_leads_nowhere_is_told(reference: str) -> None:
    assert "cannot be applied" in wrong({"n": 1}, f'{{"$ref":"{reference}"}}')


def test_a_host_without_the_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    monkeypatch.setattr(schemas.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(Refused) as caught:
        check_schemas((NEEDS,))
    assert (caught.value.code.value, "tallystick[schema]" in caught.value.remedy) == ("unsupported", True)
    check_schemas(("", ""))
