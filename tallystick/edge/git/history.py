"""What lies between commits of the mirror: changes, ancestry, tasks named in messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tallystick.app.ports import Change
from tallystick.core.errors import not_found
from tallystick.core.identity import Prefix, is_id
from tallystick.edge.git import batch, shallow
from tallystick.edge.git.mirror import Mirror
from tallystick.edge.git.names import check_object, readable
from tallystick.edge.git.spawn import MEBIBYTE

TRAILER: Final = "Tally-Task"
"""The trailer of a commit message that names the task it was made under."""

_BLANK_AT_MOST: Final = MEBIBYTE
_READ_AT_ONCE: Final = 64 * MEBIBYTE
_WHITE: Final = b" \t\r\n\v\f"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_Raw = tuple[str, str, str, bytes]
"""Mode, object, status and path of the newer side."""


async def changes(mirror: Mirror, earlier: str, later: str) -> list[Change]:
    """The paths that differ, without renames. Size and blankness are those of the newer side; nothing there: 0."""
    await mirror.require(earlier)
    await mirror.require(later)
    out = await mirror.need(
        "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--ignore-submodules=none", earlier, later, "--",
    )  # fmt: skip
    raw = list(_raw(out))
    sizes = await batch.look(mirror.run, (name for mode, name, _, _ in raw if _is_blob(mode)))
    blank = await _blank(mirror, sizes)
    return [
        Change(
            path=readable(path),
            status=status,
            size=sizes[name].size if name in sizes and _is_blob(mode) else 0,
            blank=name in blank and mode != "120000",
        )
        for mode, name, status, path in raw
    ]


async def is_ancestor(mirror: Mirror, ancestor: str, commit: str) -> bool:
    """Whether `commit` descends from `ancestor` or is it. Refused where a shallow history cannot tell."""
    await mirror.require(ancestor)
    await mirror.require(commit)
    done = await mirror.run("merge-base", "--is-ancestor", ancestor, commit)
    if done.code == 1:
        await _refuse_if_cut(mirror, ancestor, commit)
    return done.code == 0


async def log_between(mirror: Mirror, earlier: str, later: str) -> list[str]:
    """The commits reachable from `later` and not from `earlier`, oldest first."""
    await mirror.require(earlier)
    await mirror.require(later)
    out = await mirror.need("rev-list", "--reverse", "--topo-order", later, f"^{earlier}", "--")
    return out.decode("ascii").split()


async def trailers(mirror: Mirror, commits: Iterable[str]) -> dict[str, str]:
    """The task that each commit names in a `Tally-Task:` trailer (the last one, if several); others are left out.

    A trailer is a claim of whoever wrote the commit: look it up before showing it as a fact.
    """
    wanted = [check_object(commit) for commit in commits]
    if not wanted:
        return {}
    form = f"--format=%H%x09%(trailers:key={TRAILER},valueonly,unfold,separator=%x20)"
    present = await batch.look(mirror.run, wanted)
    asked = "".join(f"{commit}\n" for commit, found in present.items() if found.kind == "commit")
    out = (
        await mirror.need(
            "log", "--no-walk=unsorted", "-z", "--no-ext-diff", "--no-textconv", form, "--stdin", stdin=asked.encode()
        )
        if asked
        else b""
    )
    named = {}
    for line in filter(None, out.decode("utf-8", "replace").split("\0")):
        commit, _, values = line.partition("\t")
        tasks = [value for value in values.split() if is_id(value, Prefix.TASK)]
        if tasks:
            named[commit] = tasks[-1]
    return named


def _raw(out: bytes) -> Iterator[_Raw]:
    fields = iter(out.split(b"\0"))
    for head in fields:
        if head:
            _, mode, _, name, status = head.decode("ascii").removeprefix(":").split()
            yield mode, name, status[0], next(fields)


def _is_blob(mode: str) -> bool:
    return mode not in {"000000", "160000"}


async def _blank(mirror: Mirror, found: dict[str, batch.Object]) -> set[str]:
    blank: set[str] = set()
    small = [name for name, known in found.items() if known.kind == "blob" and known.size <= _BLANK_AT_MOST]
    for several in _portions(small, found):
        contents = await batch.read(mirror.run, several)
        blank.update(name for name, known in contents.items() if _is_white(known.data))
    return blank


def _is_white(data: bytes) -> bool:
    return not data.removeprefix(_BYTE_ORDER_MARK).strip(_WHITE)


def _portions(names: list[str], found: dict[str, batch.Object]) -> Iterator[list[str]]:
    portion: list[str] = []
    weight = 0
    for name in names:
        portion.append(name)
        weight += found[name].size
        if weight > _READ_AT_ONCE:
            yield portion
            portion, weight = [], 0
    yield portion


async def _refuse_if_cut(mirror: Mirror, ancestor: str, commit: str) -> None:
    horizon = shallow.read(mirror.path)
    if not horizon:
        return
    out = await mirror.need("rev-list", commit, f"^{ancestor}", "--")
    if horizon.intersection(out.decode("ascii").split()):
        raise not_found(
            f"Whether {commit} descends from {ancestor} cannot be resolved: the history known here is shallow.",
            "Run `git fetch --unshallow` in the work tree and bring the commit in again.",
        )
