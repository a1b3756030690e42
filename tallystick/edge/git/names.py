"""Names that reach git: ids, revisions, paths. Checked here, before git sees them. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tallystick.core.errors import invalid
from tallystick.core.identity import Prefix, is_id

_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_ENCODED: Final = re.compile(r"%(?:2e|2f|5c|00)", re.IGNORECASE)
_MEANS_GIT: Final = re.compile(r"(?:\.git|git~[0-9]+)[ .]*(?::.*)?", re.DOTALL)
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_IN_REVISIONS: Final = frozenset(" :?*[\\\"'`$;|&<>()")

_LONGEST_REVISION: Final = 250
_LONGEST_PATH: Final = 4096
_LONGEST_SEGMENT: Final = 255

_PATH_REMEDY: Final = "Give a path relative to the top of the repository, with '/' between its parts, like src/app.py."
_REVISION_REMEDY: Final = "Name a branch, a tag, HEAD or a commit id."


def check_repository(repository: str) -> str:
    """The host's id of a repository, or a refusal: it becomes a directory name."""
    if not is_id(repository, Prefix.REPOSITORY):
        raise invalid(f"{shown(repository)} is not the id of a repository.", "Ids of repositories look like rep_….")
    return repository


def check_object(name: str) -> str:
    """A full object id, 40 or 64 lower-case hexadecimal digits, or a refusal."""
    if _OBJECT.fullmatch(name) is None:
        raise invalid(f"{shown(name)} is not a full object id.", "Give all 40 (or 64) hexadecimal digits.")
    return name


def check_digest(digest: str) -> str:
    """A sha256 in 64 lower-case hexadecimal digits, or a refusal (a SHA-1 id is none)."""
    if _DIGEST.fullmatch(digest) is None:
        raise invalid(f"{shown(digest)} is not a sha256.", "Give the 64 hexadecimal digits of the sha256 of the bytes.")
    return digest


def check_revision(revision: str) -> str:
    """A revision that can only name a commit: no option, no `REV:PATH`, no range, no search through history."""
    if (
        not 0 < len(revision.encode("utf-8", "surrogatepass")) <= _LONGEST_REVISION
        or revision.startswith(("-", "^"))
        or ".." in revision
        or "{/" in revision
        or any(letter in _NOT_IN_REVISIONS or unicodedata.category(letter) in _UNSEEN for letter in revision)
    ):
        raise invalid(f"{shown(revision)} is not a revision that can be used here.", _REVISION_REMEDY)
    return revision


def check_path(path: str) -> str:
    """A path inside a repository as segments, or a refusal. Nothing is normalised: what is odd is refused."""
    fault = _fault(path)
    if fault:
        raise invalid(f"The path {shown(path)} is refused: {fault}.", _PATH_REMEDY)
    return path


def is_plain_entry(path: bytes) -> bool:
    """Whether a path out of a listing stays inside the tree and outside `.git`.

    Weaker than `check_path`: files with odd names exist and belong into a snapshot.
    """
    text = path.decode("utf-8", "surrogateescape")
    return all(part not in {"", ".", ".."} and not _means_git(part) for part in text.split("/")) and b"\0" not in path


def shown(text: str) -> str:
    """`text` for a message: quoted, bounded, with everything unseen escaped."""
    cut = text if len(text) <= 120 else f"{text[:119]}…"
    return "'" + "".join(_escaped(letter) for letter in cut) + "'"


def readable(path: bytes) -> str:
    """A path of git as text; bytes that are not UTF-8 are shown as escapes (and then name no file)."""
    return path.decode("utf-8", "backslashreplace")


def _fault(path: str) -> str:
    checks = (
        (not path, "it is empty"),
        ("\0" in path, "it has a NUL"),
        (any(unicodedata.category(letter) in _UNSEEN for letter in path), "it has control or format characters"),
        ("\\" in path, "it has a backslash"),
        (path.startswith("/"), "it is absolute"),
        (_DRIVE.match(path) is not None, "it has a drive letter"),
        (_ENCODED.search(path) is not None, "it is percent-encoded"),
        (not unicodedata.is_normalized("NFC", path), "its characters are not in Unicode normal form C"),
        (len(path.encode("utf-8", "replace")) > _LONGEST_PATH, "it is too long"),
    )
    found = next((fault for failed, fault in checks if failed), "")
    return found or next(filter(None, map(_segment_fault, path.split("/"))), "")


def _segment_fault(segment: str) -> str:
    if segment in {"", ".", ".."}:
        return "it has an empty, '.' or '..' part"
    if _means_git(segment):
        return "it leads into git's own directory"
    return "a part of it is too long" if len(segment.encode()) > _LONGEST_SEGMENT else ""


def _means_git(segment: str) -> bool:
    # Case, ignorable characters, trailing dots and spaces, streams and short names all open `.git` on some file system.
    seen = "".join(letter for letter in segment if unicodedata.category(letter) != "Cf")
    return _MEANS_GIT.fullmatch(unicodedata.normalize("NFKC", seen).casefold()) is not None


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in _UNSEEN or letter in "'\\":
        return letter.encode("unicode_escape", "surrogatepass").decode() if letter not in "'\\" else f"\\{letter}"
    return letter
