"""The home directory of a host: this user's alone, on a disk of this machine, held by one host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tallystick.app.lock import HomeLock
from tallystick.core.errors import Refused, denied, unsupported

NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "lustre", "ncpfs"),
        *("nfs", "nfs4", "ocfs2", "pvfs2", "smb3", "smbfs", "webdav"),
        *("fuse.davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs"),
    )
)
"""Types of file systems whose locks or writes other machines share: a record there can be corrupted."""

PLACES = ("log", "run", "hints")
"""Directories of the host's own machinery; stores and agents add theirs."""


class HomeGuard:
    """Makes a home safe to use, and holds it."""

    def __init__(self, home: Path, *, mounts: str | None = None) -> None:
        self.home = home
        self.lock = HomeLock(home)
        self._mounts = mounts

    def prepare(self) -> None:
        """Create or check the home. Refuses somebody else's, and network file systems. Sets the process's umask."""
        os.umask(0o077)
        try:
            self._refuse_network()
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            _tighten(self.home)
            for name in PLACES:
                (self.home / name).mkdir(mode=0o700, exist_ok=True)
                _tighten(self.home / name)
        except OSError as error:
            raise denied(
                f"The home {self.home} cannot be used: {error.strerror or error}.",
                "Set TALLY_HOME to a directory that you may write.",
            ) from None

    def _refuse_network(self) -> None:
        kind = file_system(self.home, self._mounts)
        if kind in NETWORK:
            raise unsupported(
                f"The home {self.home} lies on a network file system ({kind}), where the record could be damaged.",
                "Set TALLY_HOME to a directory on a disk of this machine.",
            )


def _tighten(directory: Path) -> None:
    """Our own directory that others may enter is closed to them; anybody else's is refused."""
    status = directory.lstat()
    if status.st_mode & 0o170000 != 0o040000:
        raise denied(f"{directory} is no directory of its own (a link or a file).", "Set TALLY_HOME to a directory.")
    if status.st_uid != os.getuid():
        raise _foreign(directory, status.st_uid)
    if status.st_mode & 0o077:
        directory.chmod(0o700)


def _foreign(directory: Path, uid: int) -> Refused:
    return denied(f"{directory} belongs to another user (uid {uid}).", "Set TALLY_HOME to a directory of your own.")


def file_system(path: Path, mounts: str | None = None) -> str:
    """The type of the file system a path (or its nearest existing parent) is on; empty where it cannot be told.

    `mounts` is the text of /proc/self/mountinfo. Elsewhere than on Linux nothing is known without calling a compiled
    library, so nothing is claimed: `doctor` says so."""
    if mounts is None:
        if sys.platform != "linux":
            return ""
        try:
            mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:
            return ""
    where = path.resolve()
    best, kind = 0, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _unescape(fields[4])
        # Of two mounts at one point the later one is what is seen, so an equal length wins too.
        if len(point) >= best and where.is_relative_to(point):
            best, kind = len(point), after.split(" ")[0]
    return kind


def _unescape(point: str) -> str:
    """The kernel writes space, tab, newline and backslash as octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point
