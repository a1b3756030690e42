"""The calls that must run in the user's repository. None of them starts a program or writes; see `spawn`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from tallystick.core.errors import Refused, not_found
from tallystick.edge.git.names import check_revision, shown
from tallystick.edge.git.place import Place
from tallystick.edge.git.spawn import MEBIBYTE, Call, Done, Spawn

_EVIDENCE_SECONDS: Final = 30.0
_LISTING_SECONDS: Final = 60.0
_LISTING_BYTES: Final = 256 * MEBIBYTE
_TRACKED: Final = re.compile(rb"(\S) ([0-7]{6}) [0-9a-f]+ [0-3]\t(.+)", re.DOTALL)


class Tracked(msgspec.Struct, frozen=True):
    """An entry of the user's index. `skipped`: left out of the work tree by a sparse checkout."""

    mode: str
    skipped: bool


class Settings(msgspec.Struct, frozen=True):
    """What the repository's configuration says about how work tree files differ from their blobs."""

    executable_bit: bool = True
    line_ends: bool = False


class Attributes(msgspec.Struct, frozen=True):
    """What the attributes say about one path, as far as it concerns how its bytes are kept."""

    text: str = "unspecified"
    eol: str = "unspecified"
    filter: str = "unspecified"


class Source:
    """The user's repository seen from one of its work trees, read only."""

    def __init__(self, spawn: Spawn, place: Place) -> None:
        self._spawn = spawn
        self.place = place

    async def describe(self) -> tuple[str, bool] | None:
        """Object format (`sha1`, `sha256`) and whether it calls itself bare; None if git cannot open it."""
        done = await self._run("rev-parse", "--show-object-format", "--is-bare-repository")
        words = done.text.split()
        if done.code or len(words) != 2:
            return None
        return words[0], words[1] == "true" and not self.place.linked

    async def object_format(self) -> str:
        """`sha1` or `sha256`. Refused if git cannot open the repository."""
        described = await self.describe()
        if described is None:
            raise not_found(
                f"git cannot open the repository at {self.place.root}.",
                "Run `git status` there and follow what it says.",
            )
        return described[0]

    async def resolve(self, revision: str) -> str:
        """The full id of the commit that a revision names. Refused if there is none."""
        check_revision(revision)
        done = await self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if done.code == 0:
            return done.text
        if not (await self._run("rev-list", "--all", "--max-count=1")).out:
            raise not_found(f"The repository at {self.place.root} has no commits yet.", "Make a first commit there.")
        raise not_found(
            f"Revision {shown(revision)} cannot be resolved to a commit in {self.place.root}.",
            "Name a branch, tag or commit that exists there; in a shallow clone fetch its history first.",
        )

    async def evidence(self, object_format: str) -> str:
        """Digest over the root commits of the main work tree's HEAD and the object format; "" if they are not known."""
        if (self.place.common / "shallow").is_file():
            return ""
        call = Call(git_dir=self.place.common, seconds=_EVIDENCE_SECONDS, settings={"core.commitGraph": "true"})
        try:
            done = await self._spawn.run("rev-list", "--max-parents=0", "HEAD", "--", call=call)
        except Refused:
            return ""
        roots = sorted(done.text.split())
        if done.code or not roots:
            return ""
        return hashlib.sha256("\n".join([object_format, *roots]).encode()).hexdigest()

    async def tracked(self) -> dict[bytes, Tracked]:
        """The paths in the index."""
        out = await self._list("ls-files", "-z", "-t", "--stage", "--full-name")
        found = {}
        for entry in out.split(b"\0"):
            if matched := _TRACKED.fullmatch(entry):
                tag, mode, path = matched.groups()
                found[path] = Tracked(mode.decode(), tag == b"S")
        return found

    async def untracked(self, ignored: Path | None) -> list[bytes]:
        """The paths that are neither in the index nor ignored; a nested repository ends in `/`."""
        own = [] if ignored is None else [f"--exclude-from={ignored}"]
        out = await self._list("ls-files", "-z", "--others", "--exclude-standard", "--full-name", *own)
        return [path for path in out.split(b"\0") if path]

    async def listing(self) -> bytes:
        """The index with what it knows of each file: sizes and times, in the form that `state` reads."""
        return await self._list("ls-files", "-z", "--debug", "--cached", "--full-name")

    async def staged(self, commit: str) -> list[bytes]:
        """The paths that differ between a commit and the index."""
        out = await self._list("diff-index", "-z", "--cached", "--name-only", "--no-renames", commit, "--")
        return [path for path in out.split(b"\0") if path]

    async def settings(self) -> Settings:
        """See `Settings`; git's defaults where nothing is said."""
        done = await self._run("config", "-z", "--get-regexp", r"^core\.(filemode|autocrlf|eol)$")
        said = dict(_pair(entry) for entry in done.text.split("\0") if entry)
        return Settings(
            executable_bit=said.get("core.filemode", "true").lower() not in {"false", "0", "no", "off"},
            line_ends=said.get("core.autocrlf", "false").lower() in {"true", "input", "1", "yes", "on"},
        )

    async def attributes(self, paths: Iterable[bytes]) -> dict[bytes, Attributes]:
        """The attributes of paths that have some."""
        asked = b"".join(path + b"\0" for path in paths)
        if not asked:
            return {}
        out = await self._list("check-attr", "-z", "--stdin", "text", "eol", "filter", stdin=asked)
        fields = out.split(b"\0")
        said: dict[bytes, dict[str, str]] = {}
        for path, name, value in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
            if value != b"unspecified":
                said.setdefault(path, {})[name.decode()] = value.decode("utf-8", "replace")
        return {path: Attributes(**found) for path, found in said.items()}

    async def _run(self, *arguments: str) -> Done:
        return await self._spawn.run(*arguments, call=Call(git_dir=self.place.git_dir))

    async def _list(self, *arguments: str, **options: Any) -> bytes:
        call = Call(
            git_dir=self.place.git_dir,
            work_tree=self.place.root,
            limit=_LISTING_BYTES,
            seconds=_LISTING_SECONDS,
            **options,
        )
        return await self._spawn.need(*arguments, call=call)


def _pair(entry: str) -> tuple[str, str]:
    key, _, value = entry.partition("\n")
    return key, value or "true"
