"""Where a line of a file in a work tree comes from, asked in a git directory of our own made for the question.

`git blame` would run the clean filter of the user's repository on the file; here there is no configuration to name one.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec

from tallystick.app.ports import Line
from tallystick.core.errors import invalid, not_found
from tallystick.edge.git import shallow
from tallystick.edge.git.beneath import Beneath
from tallystick.edge.git.names import check_path, shown
from tallystick.edge.git.place import Place
from tallystick.edge.git.references import LARGEST, cut
from tallystick.edge.git.spawn import Call, Spawn


async def trace_line(spawn: Spawn, rooms: Path, place: Place, head: str, path: str, line: int) -> Line:
    """The commit, path and line number that a line comes from; a line that was never committed says so."""
    check_path(path)
    data = await asyncio.to_thread(_read, place.root, path)
    text = cut(data, (line, line), path).rstrip(b"\r\n").decode("utf-8", "replace")
    with tempfile.TemporaryDirectory(dir=rooms, prefix="blame-") as room:
        call = Call(
            git_dir=await asyncio.to_thread(_blind_git_directory, Path(room), head),
            work_tree=place.root,
            objects=place.objects,
            shallow=str(place.common / "shallow") if (place.common / "shallow").is_file() else "",
        )
        return await _ask(spawn, call, _Question(place, head, path, line, text, data))


class _Question(msgspec.Struct, frozen=True):
    place: Place
    head: str
    path: str
    line: int
    text: str
    data: bytes

    @property
    def uncommitted(self) -> Line:
        return Line("0" * len(self.head), self.path, self.line, self.text, uncommitted=True)


async def _ask(spawn: Spawn, call: Call, question: _Question) -> Line:
    listed = await spawn.need(
        "ls-tree", "-z", "--name-only", "--full-tree", question.head, "--", question.path, call=call
    )
    if listed.removesuffix(b"\0") != question.path.encode():
        return question.uncommitted
    asked = msgspec.structs.replace(call, stdin=question.data)
    numbers = f"{question.line},{question.line}"
    out = await spawn.need(
        "blame", "--porcelain", "--no-textconv", "-L", numbers, "--contents", "-", "--", question.path, call=asked
    )
    commit, original = _parse(out)
    if not commit.strip("0"):
        return question.uncommitted
    if commit in shallow.read(question.place.common):
        raise not_found(
            f"Line {question.line} of {shown(question.path)} cannot be resolved: it is older than this history.",
            "Run `git fetch --unshallow` in the work tree, then try again.",
        )
    return Line(commit, original[1], original[0], question.text, uncommitted=False)


def _parse(out: bytes) -> tuple[str, tuple[int, str]]:
    lines = out.split(b"\n")
    commit, number = lines[0].decode("ascii").split()[:2]
    names = [line.removeprefix(b"filename ") for line in lines if line.startswith(b"filename ")]
    return commit, (int(number), names[0].decode("utf-8", "replace") if names else "")


def _read(root: Path, path: str) -> bytes:
    try:
        with Beneath(root) as files:
            data = files.read(path.encode(), LARGEST)
    except OSError as failed:
        raise not_found(
            f"{shown(path)} cannot be read as a plain file of this work tree.",
            "Name a file that is there; links are not followed.",
        ) from failed
    if data is None:
        raise invalid(f"{shown(path)} is refused: it has more than {LARGEST} bytes.", "Ask about a smaller file.")
    return data


def _blind_git_directory(room: Path, head: str) -> Path:
    """The least that git takes for a git directory: no configuration of anybody's, HEAD at the commit."""
    (room / "refs").mkdir()
    (room / "objects").mkdir()
    (room / "HEAD").write_text(f"{head}\n")
    sha256 = "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
    (room / "config").write_text("[core]\n" + (sha256 if len(head) == 64 else "\trepositoryformatversion = 0\n"))
    return room
