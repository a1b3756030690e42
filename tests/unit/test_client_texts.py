"""Other people's JSON and TOML: what is not ours keeps its bytes, what cannot be changed safely is refused by line."""

import json
import tomllib

import pytest

from tallystick.core.errors import Refused
from tallystick.edge.clients import jsontext, tomltext

OURS = {"command": "/opt/py thon", "args": ["-I", "x"], "env": {"TALLY_HOME": "/家"}}
PATH = ("mcpServers", "tallystick")
TABLE = ("mcp_servers", "tallystick")

JSON = {
    "nothing": "",
    "only white": "\n  \n",
    "empty": "{}",
    "empty with space": "{ }\n",
    "empty over lines": "{\n}\n",
    "one line": '{"a": 1}',
    "one line, nested": '{"mcpServers": {"other": {"command": "x"}}, "z": [1, 2]}\n',
    "tabs": '{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n',
    "four spaces": '{\n    "a": 1\n}\n',
    "no newline at the end": '{\n  "a": 1\n}',
    "CRLF": '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "o": {}\r\n  }\r\n}\r\n',
    "comments": '// top\n{\n  // mine\n  "a": 1, // why\n  /* "mcpServers": { */\n'
    '  "b": "// no comment, /* neither"\n  // last\n}\n// end\n',
    "trailing commas": '{\n  "a": [1, 2,],\n  "mcpServers": {\n    "o": {"x": 1,},\n  },\n}\n',
    "comment before the brace": '{\n  "a": 1 // one\n  /* two */ }\n',
    "comma on its own line": '{\n  "a": 1\n  , "b": 2\n}\n',
    "empty servers": '{\n  "mcpServers": {},\n  "a": 1\n}\n',
    "empty servers with a comment": '{\n  "mcpServers": { /* none yet */ }\n}\n',
    "unicode": '{\n  "名前": "\\ud83d\\ude00 é ﬁ\u202e",\n  "\\u0061": 1\n}\n',
    "numbers": '{"a": -0.0, "b": 1e400, "c": 12345678901234567890, "d": 1.50}\n',
    "deep": '{"a": ' + "[" * 150 + "]" * 150 + "}\n",
}

BROKEN = {
    "no JSON": ("hello", 1),
    "an array ends too early": ('{\n  "a": [1,\n', 3),
    "a duplicate key": ('{\n  "a": 1,\n  "a": 2\n}', 3),
    "a duplicate key in other letters": ('{\n  "a": 1,\n  "\\u0061": 2\n}', 3),
    "a missing comma": ('{\n  "a": 1\n  "b": 2\n}', 3),
    "two commas": ('{\n  "a": 1,,\n}', 2),
    "something after the end": ("{}\n{}", 2),
    "a comment that does not end": ("{\n}\n/* x", 3),
    "single quotes": ("{\n 'a': 1}", 2),
    "a bare key": ("{\n a: 1}", 2),
    "a bad escape": ('{\n "a": "\\x"}', 2),
    "a raw newline in a string": ('{\n "a": "x\ny"}', 2),
    "NaN": ('{\n\n "a": NaN}', 3),
    "far too deep": ('{"a": ' + "[" * 100_000, 1),
}


@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
def test_an_entry_is_put_into_json_and_taken_out_again(text):
    changed = jsontext.put(text, PATH, OURS, "f")
    before = jsontext.read(text, "f").value
    after = jsontext.read(changed, "f").value
    assert after["mcpServers"]["tallystick"] == OURS
    assert jsontext.put(changed, PATH, OURS, "f") == changed
    kept = jsontext.drop(changed, PATH, "f")
    meant = {**before, "mcpServers": before.get("mcpServers", {})}
    assert jsontext.read(kept, "f").value == meant
    if "\r\n" in text:
        assert changed.count("\n") == changed.count("\r\n")


def without_a_comma(line):
    """A line in all the ways it can have been before one comma came to it."""
    return {line, *(line[:at] + line[at + 1 :] for at, c in enumerate(line) if c == ",")}


OVER_LINES = [name for name, text in JSON.items() if '": 1' in text and "\n " in text and name != "empty servers"]


@pytest.mark.parametrize("name", OVER_LINES)
def test_what_stood_there_keeps_its_bytes_but_for_a_comma(name):
    lines = JSON[name].splitlines()
    changed = jsontext.put(JSON[name], PATH, OURS, "f")
    there = {before for line in changed.splitlines() for before in without_a_comma(line)}
    assert [line for line in lines if line not in there and not line.endswith("}")] == []
    if '"mcpServers": {\n' in JSON[name].replace("\r", ""):
        assert jsontext.drop(changed, PATH, "f") == JSON[name]


@pytest.mark.parametrize(("text", "line"), BROKEN.values(), ids=BROKEN)
def test_broken_json_is_refused_with_its_line(text, line):
    with pytest.raises(Refused) as caught:
        jsontext.put(text, PATH, OURS, "settings.json")
    assert f"settings.json, line {line}:" in caught.value.message
    assert "Nothing was changed" in caught.value.message


@pytest.mark.parametrize("text", ['{"mcpServers": []}', '{"mcpServers": null}', "[]", '"x"', '{"mcpServers": 3}'])
def test_json_of_another_shape_is_refused(text):
    with pytest.raises(Refused):
        jsontext.put(text, PATH, OURS, "f")


def test_items_are_added_to_lists_of_others_and_only_ours_are_dropped():
    text = '{"hooks": {"Stop": [{"hooks": [{"command": "theirs"}]}, /* keep */ {"hooks": [{"command": "ours"}]}]}}'
    path = ("hooks", "Stop")
    grown = jsontext.add(text, path, {"hooks": [{"command": "ours"}]}, "f")
    assert len(jsontext.find(jsontext.read(grown, "f"), path).value) == 3
    ours = [{"hooks": [{"command": "ours"}]}]
    left = jsontext.drop_items(grown, path, lambda item: item in ours, "f")
    assert jsontext.find(jsontext.read(left, "f"), path).value == [{"hooks": [{"command": "theirs"}]}]
    assert "/* keep */" in left


TOML = {
    "nothing": "",
    "plain": 'model = "x"\n',
    "no newline at the end": 'model = "x"',
    "CRLF": 'model = "x"\r\n\r\n[a]\r\nb = 1\r\n',
    "other servers": '[mcp_servers.other]\ncommand = "x" # why\n\n# the next\n[profiles.a]\nb = [\n  1, # one\n]\n',
    "a string like a header": "s = \"\"\"\n[mcp_servers.tallystick]\n\"\"\"\nt = '''\n[x]\n'''\n",
    "quotes in strings": 'a = "\\"\\"\\"" # """\nb = \'"""\'\n[c]\nd = """x""" # [mcp_servers.tallystick]\n',
    "dotted": 'mcp_servers.other.command = "x"\n',
    "arrays of tables": "[[a]]\nb = 1\n[[a]]\nb = 2\n",
    "dates and floats": "a = 1979-05-27T07:32:00Z\nb = 1e3\nc = inf\n",
    "unicode": '"名 前" = "é"\n["x.y".z]\n',
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_a_table_is_put_into_toml_and_taken_out_again(text):
    changed = tomltext.put(text, TABLE, OURS, "f")
    assert tomllib.loads(changed)["mcp_servers"]["tallystick"] == OURS
    assert changed.startswith(text.rstrip("\n"))
    assert tomltext.put(changed, TABLE, OURS, "f") == changed
    kept = tomltext.drop(changed, TABLE, "f")
    assert kept.rstrip() == text.rstrip()
    if "\r\n" in text:
        assert changed.count("\n") == changed.count("\r\n")


def test_a_table_in_the_middle_is_taken_out_and_what_is_written_above_the_next_stays():
    ours = '[mcp_servers.tallystick]\ncommand = "x"\n# ours too\nargs = []\n\n[mcp_servers."tallystick".env]\nA = "b"\n'
    text = f"a = 1\n\n{ours}\n# about b\n[b]\nc = 2\n"
    assert tomltext.drop(text, TABLE, "f") == "a = 1\n\n# about b\n[b]\nc = 2\n"


@pytest.mark.parametrize(
    "text", ["mcp_servers = { other = { command = 'x' } }\n", "mcp_servers = 3\n", "[[mcp_servers]]\na = 1\n"]
)
def test_toml_that_our_table_cannot_stand_beside_is_refused(text):
    with pytest.raises(Refused) as caught:
        tomltext.put(text, TABLE, OURS, "config.toml")
    assert "Nothing was changed" in caught.value.message


@pytest.mark.parametrize(("text", "line"), [("a = \n", 1), ("a = 1\nb b = 2\n", 2), ("[a]\nb = 1\n[a]\n", 3)])
def test_broken_toml_is_refused_with_its_line(text, line):
    with pytest.raises(Refused) as caught:
        tomltext.put(text, TABLE, OURS, "config.toml")
    assert f"line {line}" in caught.value.message


def test_names_and_values_of_any_kind_are_written_as_toml_reads_them():
    value = {"command": 'a"b\\c\n\x7f\x01', "n": 3, "b": True, "sub key": {"x.y": "é"}}
    changed = tomltext.put("", ("a b", "c"), value, "f")
    assert tomllib.loads(changed) == {"a b": {"c": value}}
    assert json.loads(json.dumps(value)) == value
