"""Whatever a client's files hold: installing twice is installing once, and removing makes them what they were."""

import json
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tallystick.edge.clients import CLIENTS, jsontext
from tests.support.seats import Desk

PHASES = [Phase.explicit, Phase.generate]
"""Each example writes and flushes many files: one that fails is enough, it is not made smaller."""

KEYS = st.sampled_from(["mcpServers", "mcp", "hooks", "a", "b é", "SessionStart", "Stop", "tallystic", "//", "theme"])
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x // y", "/* */", "}", "é\u202e", "\\", '"'])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
SERVERS = st.dictionaries(KEYS, st.fixed_dictionaries({"command": st.just("x")}), max_size=2)
GROUPS = st.lists(st.just({"hooks": [{"type": "command", "command": "theirs"}]}), max_size=2)
HOOKS = st.dictionaries(st.sampled_from(["SessionStart", "Stop", "PreToolUse", "AfterAgent"]), GROUPS, max_size=3)
DOCUMENTS = st.builds(
    lambda rest, servers, mcp, hooks: {**rest, **servers, **mcp, **hooks},
    st.dictionaries(KEYS.filter(lambda k: k not in ("mcpServers", "mcp", "hooks")), VALUES, max_size=4),
    st.one_of(st.just({}), SERVERS.map(lambda s: {"mcpServers": s})),
    st.one_of(st.just({}), SERVERS.map(lambda s: {"mcp": s})),
    st.one_of(st.just({}), HOOKS.map(lambda h: {"hooks": h})),
)
GAPS = st.lists(st.sampled_from(["", " ", "\n", "\t", "// c\n", "/* } */", "\n\n    "]), min_size=1, max_size=8)


def written(value, gaps, trailing):
    """JSON text with comments, odd white space and trailing commas wherever they may stand."""
    turn = iter(range(10**9))

    def gap():
        return gaps[next(turn) % len(gaps)]

    def text(item):
        if isinstance(item, dict):
            parts = [f"{gap()}{text(k)}{gap()}:{gap()}{text(v)}{gap()}" for k, v in item.items()]
            return "{" + ",".join(parts) + ("," if trailing and parts else "") + gap() + "}"
        if isinstance(item, list):
            parts = [f"{gap()}{text(v)}{gap()}" for v in item]
            return "[" + ",".join(parts) + ("," if trailing and parts else "") + gap() + "]"
        return json.dumps(item, ensure_ascii=False)

    return gap() + text(value) + gap()


TEXTS = st.builds(written, DOCUMENTS, GAPS, st.booleans())
MANNERS = st.sampled_from(["plain", "crlf", "bom", "pretty"])


def in_manner(text, manner):
    if manner == "pretty":
        return (json.dumps(jsontext.read(text, "f").value, ensure_ascii=False, indent=3) + "\n").encode()
    plain = text.replace("\n", "\r\n") if manner == "crlf" else text
    return ("\ufeff" * (manner == "bom") + plain).encode()


@pytest.mark.parametrize("project", [False, True], ids=["user", "project"])
@pytest.mark.parametrize("client", CLIENTS)
@settings(max_examples=10, phases=PHASES)
@given(text=TEXTS, manner=MANNERS)
def test_removing_undoes_installing_byte_for_byte_and_twice_is_once(client, project, text, manner):
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        for file in desk.shared(client, project=project):
            if file.suffix in (".json", ".jsonc"):
                desk.write(file, in_manner(text, manner)).chmod(0o640)
        before = desk.tree()
        assert desk.install(client, project=project).changes
        installed = desk.tree()
        assert desk.plan(client, project=project).changes == ()
        desk.install(client, project=project)
        assert desk.tree() == installed
        desk.remove(client, project=project)
        assert desk.tree() == before
        assert desk.records() == []
        assert desk.plan(client, project=project, remove=True).changes == ()


@pytest.mark.parametrize("client", CLIENTS)
@settings(max_examples=10, phases=PHASES)
@given(text=TEXTS, manner=MANNERS, later=VALUES)
def test_what_others_wrote_since_stays_and_what_is_ours_goes(client, text, manner, later):
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        shared = [file for file in desk.shared(client) if file.suffix == ".json"]
        for file in shared:
            desk.write(file, in_manner(text, manner))
        desk.install(client)
        for file in shared:
            changed = jsontext.put(file.read_bytes().decode().removeprefix("\ufeff"), ("later",), later, "f")
            file.write_bytes(changed.encode())
        desk.install(client)
        desk.remove(client)
        meant = {**jsontext.read(text, "f").value, "later": later}
        for file in shared:
            assert jsontext.read(file.read_text(encoding="utf-8"), "f").value == meant
        assert "tallystick" not in "".join(f.read_text(encoding="utf-8") for f in shared)


TOML_LINES = st.lists(
    st.sampled_from(["", "# c", "[a]", "[b.c]  # d", "[mcp_servers.other]", '[mcp_servers."tally"]', "[[list]]"]),
    unique=True,
    max_size=7,
)


@settings(max_examples=30, phases=PHASES)
@given(lines=TOML_LINES, values=st.booleans(), end=st.sampled_from(["\n", "", "\r\n", "\n\n"]))
def test_a_toml_file_becomes_what_it_was(lines, values, end):
    more = "\nx = '''\n[mcp_servers.tallystick]\n'''"
    texts = [line + (more if values and line.startswith("[") else "") for line in lines]
    text = ("\n".join(["top = 1", *texts]) + end).encode()
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        file = desk.write(desk.home / ".codex" / "config.toml", text)
        before = tomllib.loads(text.decode())
        desk.install("codex")
        after = tomllib.loads(file.read_text())
        assert after["mcp_servers"].pop("tallystick")["args"][-1] == "codex"
        assert {**after, "mcp_servers": after["mcp_servers"]} == {"mcp_servers": {}, **before}
        desk.remove("codex")
        assert file.read_bytes() == text
