"""The sandbox by bubblewrap: which command line puts a job into it, and whether it works on this machine."""

from __future__ import annotations

import os
import platform
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from tallystick.app.jobs import Sandbox
from tallystick.edge.process.seccomp import filter_for

INSIDE_HOME: Final = "/run/job/home"
"""HOME of a sandboxed job: short, because sockets in it have a path limit, and silent about the real one."""
INSIDE_TEMPORARY: Final = "/run/job/tmp"
"""TMPDIR of a sandboxed job."""
_PROGRAMS: Final = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_TRIAL_SECONDS: Final = 20.0
_RESOLVER: Final = "/etc/resolv.conf"
_NOBODY: Final = "1000"


class Trial(msgspec.Struct, frozen=True):
    """What came of starting a sandbox once. `reason` and `remedy` are empty when it worked."""

    program: str = ""
    filtered: bool = False
    """System calls are filtered as well."""
    reason: str = ""
    remedy: str = ""


def try_out() -> Trial:
    """Start a sandbox and see: user namespaces may be off, however installed bubblewrap is. Takes about 20 ms."""
    if not sys.platform.startswith("linux"):
        return Trial(
            reason="This system has no bubblewrap.", remedy="Run the host on Linux, or allow this without a sandbox."
        )
    program = next((path for path in _PROGRAMS if os.access(path, os.X_OK)), "")
    if not program:
        return Trial(
            reason="Bubblewrap is not installed.", remedy="Install the package bubblewrap and start the host again."
        )
    program_filter = filter_for(platform.machine(), network=False, metadata=False)
    if program_filter and not _starts(program, program_filter):
        return Trial(program=program, filtered=True)
    failure = _starts(program, b"")
    if not failure:
        return Trial(program=program)
    return Trial(
        reason=f"Bubblewrap does not start here: {failure}.",
        remedy="Allow unprivileged user namespaces for bubblewrap (sysctl, AppArmor) and start the host again.",
    )


def nests(trial: Trial) -> bool:
    """Start a sandbox in a sandbox and see: some systems allow the outer one alone."""
    inner = (trial.program, "--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-net", "--")
    program_filter = filter_for(platform.machine(), network=True, metadata=True) if trial.filtered else b""
    return not trial.reason and not _starts(trial.program, program_filter, *_nameless(), "--", *inner)


def _nameless() -> tuple[str, ...]:
    """Who is root outside has to be another inside for a sandbox in there: root without rights is not mapped again."""
    return ("--uid", _NOBODY, "--gid", _NOBODY) if os.getuid() == 0 else ()


def _starts(program: str, program_filter: bytes, *more: str) -> str:
    """ "" when a sandbox starts, otherwise what was said. `more`: further options, or with "--" the command's words."""
    with tempfile.TemporaryFile() as file:
        file.write(program_filter)
        file.seek(0)
        seccomp = ["--seccomp", str(file.fileno())] if program_filter else []
        words = more if "--" in more else (*more, "--")
        argv = [program, "--ro-bind", "/", "/", *_ISOLATION, *seccomp, *words, "/bin/sh", "-c", ":"]
        try:
            done = subprocess.run(
                argv, env={}, capture_output=True, pass_fds=[file.fileno()], timeout=_TRIAL_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    said = done.stderr.decode("utf-8", "replace").strip()
    return (said or f"exit code {done.returncode}") if done.returncode else ""


_ISOLATION: Final = (
    *("--dev", "/dev", "--proc", "/proc"),
    # Someone who is root outside would keep the capability to take the masks off again.
    *("--cap-drop", "ALL"),
    *("--unshare-all", "--die-with-parent", "--new-session"),
)


def command_line(
    trial: Trial, sandbox: Sandbox, directory: str, home: Path, job: Path, masks: tuple[str, ...]
) -> list[str]:
    """The words before the command. `home` is the host's directory, `job` the job's, `masks` what else to hide.

    General masks first; then everything else by depth, so that what lies inside another is decided last: the host's own
    directories stay hidden in a bind that holds them, and a read-only path inside a writable one stays read-only.
    """
    general = _outermost([*_general_masks(), *masks, str(home)])
    words = [trial.program, "--ro-bind", "/", "/", *_ISOLATION]
    for mask in general:
        words += ["--tmpfs", mask]
    for _, _, placed in sorted(_placed(sandbox, home, masks, general)):
        words += placed
    words += ["--bind", str(job / "home"), INSIDE_HOME, "--bind", str(job / "tmp"), INSIDE_TEMPORARY]
    words += ["--setenv", "HOME", INSIDE_HOME, "--setenv", "TMPDIR", INSIDE_TEMPORARY]
    if sandbox.nests:
        words += _nameless()
    if sandbox.network:
        words += ["--share-net", "--ro-bind-try", os.path.realpath(_RESOLVER), os.path.realpath(_RESOLVER)]
    return [*words, "--chdir", landing(directory, general)]


def _placed(
    sandbox: Sandbox, home: Path, masks: tuple[str, ...], general: list[str]
) -> list[tuple[int, int, tuple[str, ...]]]:
    """Mounts after the general masks: depth, rank on the same path, words."""
    read_only = [(path, landing(path, general)) for path in sandbox.read_only]
    writable = [(path, landing(path, general)) for path in sandbox.writable]
    bound = [target for _, target in (*read_only, *writable)]
    own = [path for path in _existing([*masks, str(home)]) if any(_holds(target, path) for target in bound)]
    return [
        *((_depth(path), 0, ("--tmpfs", path)) for path in own),
        *((_depth(target), 1, ("--ro-bind-try", path, target)) for path, target in read_only),
        *((_depth(target), 2, ("--bind", path, target)) for path, target in writable),
    ]


def _general_masks() -> list[str]:
    """Where other programs keep their secrets and sockets."""
    homes = ["/home", "/root", os.environ.get("HOME", ""), pwd.getpwuid(os.getuid()).pw_dir]
    temporary = ["/tmp", "/var/tmp", tempfile.gettempdir()]  # noqa: S108
    return [*homes, *temporary, "/run", "/var/run", os.environ.get("XDG_RUNTIME_DIR", "")]


def _existing(paths: list[str]) -> list[str]:
    """Resolved, without what is no directory (nothing can be mounted on it) and without the root itself."""
    # Not `Path.is_dir`, which raises for what this user may not look into.
    found = [path for path in paths if Path(path).is_absolute() and os.path.isdir(path)]  # noqa: PTH112
    return sorted({os.path.realpath(path) for path in found} - {"/"})


def _outermost(paths: list[str]) -> list[str]:
    """Without those inside another one: mounting them would show that they exist."""
    kept: list[str] = []
    for path in _existing(paths):
        if not any(_holds(outer, path) for outer in kept):
            kept.append(path)
    return kept


def _holds(outer: str, path: str) -> bool:
    return path == outer or path.startswith(outer.rstrip("/") + "/")


def _depth(path: str) -> int:
    return len(Path(path).parts)


def landing(path: str, masks: list[str]) -> str:
    """Where to mount so that `path` leads there inside: links outside the masks still work, those in them are gone."""
    current, waiting = "/", [part for part in Path(os.path.normpath(path)).parts if part != "/"]
    for _ in range(1000):
        if not waiting:
            break
        candidate = os.path.normpath(os.path.join(current, waiting.pop(0)))  # noqa: PTH118
        hidden = any(_holds(mask, candidate) for mask in masks)
        if hidden or not Path(candidate).is_symlink():
            current = candidate
            continue
        link = Path(candidate).readlink()
        current = "/" if link.is_absolute() else current
        waiting = [*(part for part in link.parts if part != "/"), *waiting]
    return current
