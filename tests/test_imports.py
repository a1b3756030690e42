"""What the programs that start at every command may import, beyond what the interpreter itself does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

OWN = {"tallystick", "tallystick.wire"}
MCP = {"select", *(f"tallystick._mcp{part}" for part in ("", ".call", ".host", ".lines", ".server"))}
LIBRARY = {
    "__future__", "_collections_abc", "_json", "_socket", "_stat", "genericpath", "os", "os.path", "posixpath", "stat",
}  # fmt: skip


def modules(code):
    """Names of the modules that are there after some code, without those that a bare interpreter has."""
    head = f"import sys; before = set(sys.modules); sys.path.append({str(ROOT)!r})\n"
    tail = "\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", head + code + tail], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "own"),
    [
        ("import tallystick.wire", OWN),
        ("import tallystick._tally", OWN | {"tallystick._tally"}),
        ("import tallystick._hook, tallystick.wire", OWN | {"tallystick._hook"}),
        ("import tallystick._mcp", OWN | MCP),
    ],
)
def test_only_the_pinned_modules_are_imported(code, own):
    assert modules(code) <= own | LIBRARY


def test_a_whole_command_and_a_whole_hook_import_nothing_more(tmp_path):
    fake = f"""
import _socket
from tallystick import wire, _tally, _hook
class Fake(wire.Connection):
    def __init__(self): self.left = [{{"welcome": {{}}}}, {{"id": 1, "out": ""}}, {{"id": 1, "result": {{"out": ""}}}}]
    def send(self, message): wire.encode(message)
    def receive(self): return wire.decode(wire.encode(self.left.pop(0)).encode())
    def close(self): pass
wire.connect = lambda **_: Fake()
assert _tally.Tally(Fake()).run(["inbox"]) == 0
_hook.__file__ = {str(ROOT / "tallystick/_hook.py")!r}
"""
    assert modules(fake) <= OWN | LIBRARY | {"tallystick._tally", "tallystick._hook"}


def test_another_python_without_the_c_scanner_falls_back_to_the_package():
    code = """
sys.modules["_json"] = None
from tallystick import wire
value = {"a": [1, 2.5, None, True, "é\\n\\""], "b": {}}
assert wire.decode(wire.encode(value).encode()) == value
sys.modules["_json"] = sys
"""
    assert "json" in modules(code)


def test_what_is_no_json_is_told_as_that_even_without_the_package():
    code = """
from tallystick import wire
for line in (b"{{", b"{" * 3000, b"[", b"", b"5", b"{} x", b"\\xff"):
    try:
        wire.decode(line)
        raise SystemExit(f"{line} was taken")
    except wire.WireError:
        pass
"""
    assert "json" not in modules(code)


def test_the_small_encoder_says_what_the_json_package_says():
    from tallystick import wire

    values = [{}, [], {"é": "\x00\u2028\U0001f600", "n": [-1, 0, 1.5, 1e300, True, False, None]}, "x", 2**70]
    for value in values:
        assert json.loads(wire.encode(value)) == value
        assert wire.encode(value) == json.dumps(value, separators=(",", ":"))
