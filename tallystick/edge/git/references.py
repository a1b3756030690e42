"""References: made and read from the mirror. The git ids find the bytes, sha256 and size authorise them."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from tallystick.core.errors import Refused, conflict, invalid, not_found
from tallystick.core.model import GitReference
from tallystick.edge.git.mirror import SNAPSHOTS, Mirror
from tallystick.edge.git.names import check_digest, check_object, check_path, shown
from tallystick.edge.git.spawn import MEBIBYTE

LARGEST: Final = 64 * MEBIBYTE

_FILES: Final = frozenset({"100644", "100755", "100664"})
_KINDS: Final = {"120000": "a symbolic link", "160000": "a submodule", "040000": "a directory"}
_TREE: Final = "040000"


class _Entry(msgspec.Struct, frozen=True):
    mode: str
    name: str
    size: int


async def refer(mirror: Mirror, commit: str, path: str, lines: tuple[int, int] | None) -> GitReference:
    """A reference to a file of a commit, to lines of it, or (path "") to the whole tree."""
    if path:
        check_path(path)
    elif lines is not None:
        raise invalid("Lines of a whole tree cannot be referred to.", "Name a file.")
    await mirror.require(commit)
    entry = await _entry(mirror, commit, path)
    data = await _bytes(mirror, commit, path, entry)
    made = GitReference(
        repository=mirror.repository,
        commit=commit,
        path=path,
        object=entry.name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        mode=entry.mode,
        snapshot_of=await _snapshot_of(mirror, commit),
    )
    if lines is None:
        return made
    digest = hashlib.sha256(cut(data, lines, path)).hexdigest()
    return msgspec.structs.replace(made, lines=lines, lines_sha256=digest)


async def read(mirror: Mirror, reference: GitReference) -> bytes:
    """The bytes of a reference (of its lines, if it has some), read once: those that were hashed are those returned."""
    _check(reference)
    await mirror.require(reference.commit)
    entry = await _entry(mirror, reference.commit, reference.path)
    if (entry.name, entry.mode) != (reference.object, reference.mode):
        raise _differs(reference, "another object stands at that path of the commit")
    data = await _bytes(mirror, reference.commit, reference.path, entry)
    if len(data) != reference.size or hashlib.sha256(data).hexdigest() != reference.sha256:
        raise _differs(reference, "size or sha256 are others")
    if reference.lines is None:
        return data
    part = cut(data, reference.lines, reference.path)
    if hashlib.sha256(part).hexdigest() != reference.lines_sha256:
        raise _differs(reference, "the lines have another sha256")
    return part


def cut(data: bytes, lines: tuple[int, int], path: str) -> bytes:
    """Lines first to last, counted from 1, by bytes: a line ends after its LF, a CR before that belongs to it."""
    first, last = lines
    parts = data.split(b"\n")
    count = len(parts) - (parts[-1] == b"")
    if type(first) is not int or type(last) is not int or not 1 <= first <= last <= count:
        raise invalid(
            f"Lines {first} to {last} of {shown(path)} are refused: it has {count} at this commit.",
            f"Name lines between 1 and {count}, the smaller number first." if count else "Refer to the whole file.",
        )
    part = b"\n".join(parts[first - 1 : last])
    return part + b"\n" if last < len(parts) else part


def _check(reference: GitReference) -> None:
    if reference.path:
        check_path(reference.path)
    check_object(reference.commit)
    check_object(reference.object)
    check_digest(reference.sha256)
    if reference.lines is not None:
        check_digest(reference.lines_sha256)
    if type(reference.size) is not int or not 0 <= reference.size <= LARGEST:
        raise _too_large(reference.path, reference.size)


async def _entry(mirror: Mirror, commit: str, path: str) -> _Entry:
    if not path:
        tree = (await mirror.need("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")).decode().strip()
        return _Entry(_TREE, tree, 0)
    out = await mirror.need("ls-tree", "-z", "-l", "--full-tree", commit, "--", path)
    head, _, name = out.removesuffix(b"\0").partition(b"\t")
    if name != path.encode():
        raise not_found(
            f"{shown(path)} is not in commit {commit}.", "Look at the files of that commit and name one of them."
        )
    mode, _, identity, size = head.decode().split()
    if mode not in _FILES:
        kind = _KINDS.get(mode, "no plain file")
        raise invalid(f"{shown(path)} is refused: it is {kind}.", "Name a plain file, or refer to the whole tree.")
    return _Entry(mode, identity, int(size))


async def _bytes(mirror: Mirror, commit: str, path: str, entry: _Entry) -> bytes:
    if not path:
        return await mirror.need("ls-tree", "-r", "-z", "--full-tree", commit, limit=LARGEST)
    if entry.size > LARGEST:
        raise _too_large(path, entry.size)
    return await mirror.need("cat-file", "blob", entry.name, limit=LARGEST)


async def _snapshot_of(mirror: Mirror, commit: str) -> str:
    done = await mirror.run("for-each-ref", "--format=%(parent)", f"{SNAPSHOTS}/{commit}")
    return done.text.strip()


def _too_large(path: str, size: int) -> Refused:
    return invalid(f"{shown(path)} is refused: {size} bytes are more than {LARGEST}.", "Refer to a smaller file.")


def _differs(reference: GitReference, how: str) -> Refused:
    return conflict(
        f"The reference to {shown(reference.path)} at {reference.commit} does not match: {how}.",
        "Ask its sender for a reference made from the commit that is meant.",
    )
