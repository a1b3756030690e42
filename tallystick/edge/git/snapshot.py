"""Uncommitted work as a commit in the mirror.

No `git add`: it would run the clean filters of the repository. git only lists paths; the files are read here, without
following links, and what differs from the last commit goes to `fast-import` in the mirror. So the user's index, HEAD,
reflog and files stay as they are. Two conversions that git would do are done here because they start nothing: CRLF to
LF where the attributes ask for it, and the pointer of Git LFS. Any other filter is left out: its files are kept as
they lie in the work tree.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from tallystick.app.ports import Snapshot
from tallystick.core.errors import Refused, invalid, unavailable
from tallystick.edge.git import batch
from tallystick.edge.git.beneath import Beneath
from tallystick.edge.git.mirror import FETCH_SECONDS, PINS, SNAPSHOTS, Mirror
from tallystick.edge.git.names import is_plain_entry, readable, shown
from tallystick.edge.git.source import Attributes, Settings, Source, Tracked
from tallystick.edge.git.spawn import MEBIBYTE, quoted

MESSAGE: Final = b"snapshot of uncommitted work"
LARGEST_FILE: Final = 64 * MEBIBYTE
LARGEST_WHOLE: Final = 1024 * MEBIBYTE

_WHO: Final = b"Tallystick host <host@tallystick.invalid>"
_MAKING: Final = "refs/tally-making"
_COMMITTED_AT: Final = re.compile(rb"^committer .*> (\d{1,12}) [+-]\d{4}$", re.MULTILINE)
_LISTED: Final = re.compile(rb"([0-7]{6}) \w+ ([0-9a-f]+)\t(.+)", re.DOTALL)
_LINK, _SUBMODULE, _PLAIN, _PROGRAM = b"120000", b"160000", b"100644", b"100755"

_Tree = dict[bytes, tuple[bytes, str]]
"""Path → mode and object of a commit."""


class _Work(msgspec.Struct, frozen=True):
    """What the snapshot is made from."""

    root: Path
    before: _Tree
    tracked: dict[bytes, Tracked]
    untracked: list[bytes]
    attributes: dict[bytes, Attributes]
    settings: Settings
    algorithm: str


class _Plan(msgspec.Struct):
    """What was found: orders for fast-import are in a file, this is about them."""

    changed: list[bytes]
    left_out: set[bytes]
    written: int = 0


async def take(mirror: Mirror, source: Source, ignored: Path | None) -> Snapshot:
    """Make the snapshot; without any change it is the last commit itself. The same work gives the same commit."""
    head = await source.resolve("HEAD")
    object_format = await source.object_format()
    await mirror.fetch(source.place, head, object_format)
    async with mirror.writing() as held:
        work = await _gather(mirror, source, head, object_format, ignored)
        with mirror.room() as room:
            orders = room / "orders"
            plan = await asyncio.to_thread(_compare, work, orders, await _opening(mirror, head))
            commit = await _import(mirror, orders, held) if plan.changed else head
    return Snapshot(
        commit=commit,
        base=head,
        files=tuple(sorted(map(readable, plan.changed))),
        left_out=tuple(sorted(map(readable, plan.left_out))),
    )


async def _gather(mirror: Mirror, source: Source, head: str, object_format: str, ignored: Path | None) -> _Work:
    # One after the other: a refusal of one must not leave the others running.
    listed = await mirror.need("ls-tree", "-r", "-z", "--full-tree", head)
    tracked, untracked = await source.tracked(), await source.untracked(ignored)
    settings = await source.settings()
    attributes = await source.attributes([*tracked, *(path for path in untracked if not path.endswith(b"/"))])
    return _Work(source.place.root, dict(_tree(listed)), tracked, untracked, attributes, settings, object_format)


async def _opening(mirror: Mirror, head: str) -> bytes:
    found = await batch.read(mirror.run, [head])
    at = _COMMITTED_AT.search(found[head].data)
    who = b"%s %s +0000" % (_WHO, at[1] if at else b"0")
    return (
        b"feature done\ncommit %s\nmark :1\nauthor %s\ncommitter %s\ndata %d\n%s\nfrom %s\n"
        % (_MAKING.encode(), who, who, len(MESSAGE) + 1, MESSAGE + b"\n", head.encode())
    )  # fmt: skip


async def _import(mirror: Mirror, orders: Path, held: int) -> str:
    out = await mirror.need(
        "fast-import", "--force", "--quiet",
        stdin=orders, held=held, seconds=FETCH_SECONDS, settings={"fastimport.unpackLimit": "1"},
    )  # fmt: skip
    commit = out.decode("ascii").strip()
    refs = f"update {PINS}/{commit} {commit}\nupdate {SNAPSHOTS}/{commit} {commit}\ndelete {_MAKING}\n"
    await mirror.need("update-ref", "--no-deref", "--stdin", stdin=refs.encode(), held=held)
    return commit


def _compare(work: _Work, orders: Path, opening: bytes) -> _Plan:
    plan = _Plan([], set())
    with Beneath(work.root) as files, orders.open("wb") as out:
        out.write(opening)
        present = dict(_present(work, files, plan))
        for path in sorted(work.before.keys() - present.keys()):
            if not _kept(work, path, plan):
                plan.changed.append(path)
                out.write(b"D %s\n" % quoted(path))
        for path, mode in sorted(present.items()):
            _write_if_changed(work, files, path, mode, out, plan)
        out.write(b"get-mark :1\ndone\n")
    return plan


def _present(work: _Work, files: Beneath, plan: _Plan) -> Iterator[tuple[bytes, bytes]]:
    for path in sorted({*work.tracked, *work.untracked}):
        if not is_plain_entry(path):
            plan.left_out.add(path)
            continue
        try:
            state = files.look(path)
        except PermissionError:
            plan.left_out.add(path)
            continue
        if state is None or (path in work.tracked and work.tracked[path].mode == "160000"):
            continue
        if stat.S_ISLNK(state.st_mode):
            yield path, _LINK
        elif stat.S_ISREG(state.st_mode):
            yield path, _mode(work, path, state.st_mode)
        elif not stat.S_ISDIR(state.st_mode):
            plan.left_out.add(path)


def _mode(work: _Work, path: bytes, mode: int) -> bytes:
    if not work.settings.executable_bit:
        known = work.before.get(path, (_PLAIN, ""))[0]
        return _PROGRAM if known == _PROGRAM else _PLAIN
    return _PROGRAM if mode & stat.S_IXUSR else _PLAIN


def _kept(work: _Work, path: bytes, plan: _Plan) -> bool:
    """What the commit has and the work tree has not, and is no deletion: sparse, submodules, what cannot be read."""
    entry = work.tracked.get(path)
    if entry is not None and (entry.skipped or entry.mode == "160000"):
        return True
    return path in plan.left_out


def _write_if_changed(work: _Work, files: Beneath, path: bytes, mode: bytes, out: IO[bytes], plan: _Plan) -> None:
    data = _data(work, files, path, mode, plan)
    if data is None:
        return
    known_mode, known = work.before.get(path, (b"", ""))
    same_mode = mode == known_mode or (mode == _PLAIN and known_mode == b"100664")
    if same_mode and _name(work.algorithm, data) == known:
        return
    kept = data if mode == _LINK else _as_committed(data, path, work)
    if same_mode and _name(work.algorithm, kept) == known:
        return
    plan.written += len(kept)
    if plan.written > LARGEST_WHOLE:
        raise invalid(
            f"The uncommitted work is refused: it has more than {LARGEST_WHOLE} bytes.",
            "Add large files to .gitignore.",
        )
    plan.changed.append(path)
    out.write(b"M %s inline %s\ndata %d\n%s\n" % (mode, quoted(path), len(kept), kept))


def _data(work: _Work, files: Beneath, path: bytes, mode: bytes, plan: _Plan) -> bytes | None:
    try:
        if mode == _LINK:
            return files.link(path)
        if _is_large_file_storage(work, path) and (state := files.look(path)) and state.st_size > LARGEST_FILE:
            return _pointer_to(files, path)
        data = files.read(path, LARGEST_FILE)
    except PermissionError:
        plan.left_out.add(path)
        return None
    except OSError as failed:
        raise _moved(path) from failed
    if data is None and path in work.before:
        raise invalid(
            f"{shown(readable(path))} is refused: it has more than {LARGEST_FILE} bytes.",
            "Commit it without a snapshot, or keep it in Git LFS.",
        )
    if data is None:
        plan.left_out.add(path)
    return data


def _moved(path: bytes) -> Refused:
    return unavailable(
        f"{shown(readable(path))} changed its kind while the snapshot was taken.",
        "Try again when nothing writes there.",
    )


def _is_large_file_storage(work: _Work, path: bytes) -> bool:
    return path in work.attributes and work.attributes[path].filter == "lfs"


def _as_committed(data: bytes, path: bytes, work: _Work) -> bytes:
    said = work.attributes.get(path, Attributes())
    if said.filter == "lfs":
        already = data.startswith(b"version https://git-lfs.github.com/spec/")
        return data if already or not data else _pointer(hashlib.sha256(data).hexdigest(), len(data))
    asked = (
        said.text in {"set", "auto"} or said.eol != "unspecified" or (work.settings.line_ends and said.text != "unset")
    )
    sure = said.text == "set" or (said.text != "auto" and said.eol != "unspecified")
    if asked and said.text != "unset" and (sure or b"\0" not in data):
        return data.replace(b"\r\n", b"\n")
    return data


def _pointer(sha256: str, size: int) -> bytes:
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def _pointer_to(files: Beneath, path: bytes) -> bytes:
    digest, size = hashlib.sha256(), 0
    with files.open(path) as file:
        while chunk := file.read(MEBIBYTE):
            digest.update(chunk)
            size += len(chunk)
    return _pointer(digest.hexdigest(), size)


def _name(algorithm: str, data: bytes) -> str:
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _tree(listed: bytes) -> Iterator[tuple[bytes, tuple[bytes, str]]]:
    for entry in listed.split(b"\0"):
        if matched := _LISTED.fullmatch(entry):
            mode, name, path = matched.groups()
            yield path, (mode, name.decode())
