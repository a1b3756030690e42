"""Arguments of tools: loosely written ones are taken for what they say, wrong ones are refused by their name."""

import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.mcp.arguments import Argument, fit, schema

TABLE = (
    Argument(name="task", kind="string", required=True, help="id"),
    Argument(name="review", kind="boolean"),
    Argument(name="limit", kind="integer", least=1, most=100),
    Argument(name="fraction", kind="number", least=0, most=1),
    Argument(name="inputs", kind="list"),
    Argument(name="action", kind="string", choices=("accept", "decline")),
)

TAKEN = [
    ({}, {}),
    ({"review": True}, {"review": True}),
    ({"review": "true"}, {"review": True}),
    ({"review": "false"}, {"review": False}),
    ({"limit": 5}, {"limit": 5}),
    ({"limit": "5"}, {"limit": 5}),
    ({"limit": 5.0}, {"limit": 5}),
    ({"fraction": 1}, {"fraction": 1.0}),
    ({"fraction": "0.5"}, {"fraction": 0.5}),
    ({"inputs": ["a", "b"]}, {"inputs": ("a", "b")}),
    ({"inputs": '["a", "b"]'}, {"inputs": ("a", "b")}),
    ({"inputs": "[]"}, {"inputs": ()}),
    ({"review": None, "inputs": None}, {}),
    ({"action": "decline"}, {"action": "decline"}),
]
STRINGS = ['{"a":1}', "[1]", "null", "true", "false", "5", '"x"', "", " ", "\n"]


@pytest.mark.parametrize(("given", "found"), TAKEN)
def test_what_is_meant_is_taken(given, found):
    assert fit(TABLE, {"task": "x", **given}) == {"task": "x", **found}


@pytest.mark.parametrize("text", STRINGS)
def test_a_text_that_looks_like_json_stays_a_text(text):
    assert fit(TABLE, {"task": text}) == {"task": text}


WRONG = [
    {"task": 5},
    {"task": True},
    {"task": ["x"]},
    {"task": {"id": "x"}},
    {"review": "True"},
    {"review": "yes"},
    {"review": 1},
    {"review": 0},
    {"review": ""},
    {"limit": True},
    {"limit": "5.5"},
    {"limit": 5.5},
    {"limit": "five"},
    {"limit": "0x5"},
    {"limit": " 5"},
    {"limit": "٥"},
    {"limit": 0},
    {"limit": 101},
    {"limit": [5]},
    {"fraction": True},
    {"fraction": "half"},
    {"fraction": "1e-1"},
    {"fraction": 1.01},
    {"fraction": -0.1},
    {"inputs": "a.py"},
    {"inputs": '"a.py"'},
    {"inputs": '{"a": 1}'},
    {"inputs": [1]},
    {"inputs": ["a", None]},
    {"inputs": "[" * 5000},
    {"action": "eat"},
    {"action": ""},
    {"action": "Accept"},
    {"tasks": "x"},
    {"Task": "x"},
    {"": "x"},
]


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_what_is_wrong_is_refused_by_its_name(given):
    (name,) = given
    with pytest.raises(Refused) as caught:
        fit(TABLE, {"task": "x", **given})
    assert caught.value.code is ErrorCode.INVALID
    assert name in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("given", [None, {}, {"task": None}])
def test_what_is_needed_is_asked_for(given):
    with pytest.raises(Refused, match="`task` is missing"):
        fit(TABLE, given)


@pytest.mark.parametrize("given", [[], "x", 5, [["task", "x"]]])
def test_arguments_are_an_object(given):
    with pytest.raises(Refused, match="no object"):
        fit(TABLE, given)


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(Refused) as caught:
        fit(TABLE, {"task": "x", "input": ["a"]})
    assert caught.value.remedy == "Did you mean `inputs`?"


def test_the_schema_says_all_of_it():
    found = schema(TABLE)
    assert found["required"] == ["task"]
    assert found["additionalProperties"] is False
    assert list(found["properties"]) == [row.name for row in TABLE]
    assert found["properties"]["limit"] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert found["properties"]["inputs"] == {"type": "array", "items": {"type": "string"}}
