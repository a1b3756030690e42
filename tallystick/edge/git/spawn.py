"""Starting git: flags, environment, limits. Every git process of the host goes through `Spawn.run`.

Why each call names its GIT_DIR and the host needs no `safe.directory`: git's ownership check protects a person from
commands that a repository owned by somebody else would start. It runs only when git itself looks for a repository; we
look (`place.locate`) and name it. That is safe here because every setting and driver that starts a command is
overridden below, on the one level that beats the repository's own configuration, and because no call made in a user's
repository is one that runs filters, hooks, diff drivers or transports. `uploadpack.packObjectsHook` and its like are
read from protected configuration only (system, global, command), which is ours, and upload-pack never runs at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from tallystick.core.errors import unavailable, unsupported

_log = logging.getLogger("tallystick.git")

MEBIBYTE: Final = 1024 * 1024

_SETTINGS: Final[Mapping[str, str]] = {
    # what would start a program
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "false",
    "core.askPass": "false",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "gpg.program": "false",
    "log.showSignature": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "init.templateDir": "",
    # what would make objects or paths look different from what they are
    "core.useReplaceRefs": "false",
    "core.commitGraph": "false",
    "core.multiPackIndex": "false",
    "pack.useBitmaps": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.untrackedCache": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
}

_ENVIRONMENT: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_PROTOCOL_FROM_USER": "0",
    # A partial clone would fetch what it lacks, and `remote.NAME.uploadpack` names a program: no transport is allowed.
    "GIT_ALLOW_PROTOCOL": "none",
}

_STDERR_LIMIT: Final = 64 * 1024
_NO_SETTINGS: Final[Mapping[str, str]] = {}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """Where one git process works and how much it may take. `seconds` and `limit` (bytes of output) are hard."""

    git_dir: Path
    work_tree: Path | None = None
    directory: Path | None = None
    """Where the process starts, if not in the work tree or git directory."""
    objects: Path | None = None
    alternates: Path | None = None
    index: Path | None = None
    shallow: str | None = None
    """The file that names shallow commits; "" for none at all; None for the git directory's own."""
    stdin: bytes | Path = b""
    output: Path | None = None
    """Write standard output to this file instead of returning it."""
    limit: int = 64 * MEBIBYTE
    seconds: float = 120.0
    held: int | None = None
    """A lock's descriptor, inherited so that the lock lives as long as the process does."""
    settings: Mapping[str, str] = _NO_SETTINGS


class Done(msgspec.Struct, frozen=True):
    """How git ended."""

    code: int
    out: bytes

    @property
    def text(self) -> str:
        """Standard output as text without its last line end."""
        return self.out.decode("utf-8", "replace").removesuffix("\n")


class Spawn:
    """Starts git, hardened."""

    def __init__(self, git: str, search_path: str) -> None:
        # A relative entry would find programs in the directory that a call starts in: the hostile one.
        self._search_path = ":".join(entry for entry in search_path.split(":") if entry.startswith("/"))
        self._git = shutil.which(git, path=self._search_path) or git

    async def run(self, *arguments: str, call: Call) -> Done:
        """Run git to its end; any exit code is an answer. Refused when it cannot start or breaks a limit."""
        with _streams(call) as (stdin, stdout):
            process = await self._start(arguments, call, stdin, stdout)
            try:
                async with asyncio.timeout(call.seconds):
                    out, err, _ = await asyncio.gather(
                        _collect(process, process.stdout, call.limit),
                        _collect(process, process.stderr, _STDERR_LIMIT, keep_reading=True),
                        _feed(process, call.stdin),
                    )
                    code = await process.wait()
            except TimeoutError:
                raise unavailable(
                    f"git {arguments[0]} was ended: it took longer than {call.seconds:g} seconds.",
                    "Look whether the repository is on a slow disk or very large, then try again.",
                ) from None
            finally:
                await _settle(process)
        if out is None:
            raise unavailable(
                f"git {arguments[0]} was ended: it said more than {call.limit} bytes.", "Ask for a smaller part."
            )
        if code:
            _log.debug("git %s ended with %d: %r", arguments[0], code, err)
        return Done(code, out)

    async def need(self, *arguments: str, call: Call) -> bytes:
        """The output of a call that has no reason to fail. Refused as `unavailable` if it does."""
        done = await self.run(*arguments, call=call)
        if done.code:
            raise unavailable(
                f"git {arguments[0]} failed (exit code {done.code}).",
                "Look at the diagnostics of the host for what git said, then try again.",
            )
        return done.out

    async def _start(
        self, arguments: tuple[str, ...], call: Call, stdin: int | IO[bytes], stdout: int | IO[bytes]
    ) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                self._git,
                *arguments,
                cwd=call.directory or call.work_tree or call.git_dir,
                env=self._environment(call),
                stdin=stdin,
                stdout=stdout,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                pass_fds=() if call.held is None else (call.held,),
            )
        except OSError as failed:
            if failed.filename == self._git or isinstance(failed, PermissionError):
                raise unsupported("git cannot be started on this machine.", "Install git 2.32 or newer.") from failed
            raise unavailable(
                f"git {arguments[0]} cannot be started in {call.git_dir}.", "Look whether the directory still exists."
            ) from failed

    def _environment(self, call: Call) -> dict[str, str]:
        settings = {**_SETTINGS, **call.settings}
        places = {
            "GIT_DIR": call.git_dir,
            "GIT_WORK_TREE": call.work_tree,
            "GIT_INDEX_FILE": call.index,
            "GIT_OBJECT_DIRECTORY": call.objects,
        }
        found = {name: str(path) for name, path in places.items() if path is not None}
        if call.alternates is not None:
            found["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = quoted(os.fsencode(call.alternates)).decode(
                "utf-8", "surrogateescape"
            )
        if call.shallow is not None:
            found["GIT_SHALLOW_FILE"] = call.shallow
        for number, (key, value) in enumerate(settings.items()):
            found[f"GIT_CONFIG_KEY_{number}"] = key
            found[f"GIT_CONFIG_VALUE_{number}"] = value
        found["GIT_CONFIG_COUNT"] = str(len(settings))
        return {**_ENVIRONMENT, "PATH": self._search_path, **found}


def quoted(path: bytes) -> bytes:
    """A path in git's C-style quotes, for lists of paths and for `fast-import`."""
    middle = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + middle + b'"'


@contextlib.contextmanager
def _streams(call: Call) -> Iterator[tuple[int | IO[bytes], int | IO[bytes]]]:
    with contextlib.ExitStack() as stack:
        stdin: int | IO[bytes] = asyncio.subprocess.PIPE if call.stdin else asyncio.subprocess.DEVNULL
        if isinstance(call.stdin, Path):
            stdin = stack.enter_context(call.stdin.open("rb"))
        stdout: int | IO[bytes] = asyncio.subprocess.PIPE
        if call.output is not None:
            stdout = stack.enter_context(call.output.open("wb"))
        yield stdin, stdout


async def _collect(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None, limit: int, *, keep_reading: bool = False
) -> bytes | None:
    kept, over = bytearray(), False
    while stream is not None and (chunk := await stream.read(MEBIBYTE)):
        if len(kept) + len(chunk) <= limit:
            kept += chunk
        elif not keep_reading:
            _end(process)
            over = True
    return None if over else bytes(kept)


async def _feed(process: asyncio.subprocess.Process, stdin: bytes | Path) -> None:
    if process.stdin is None or isinstance(stdin, Path):
        return
    # A git that ends early says so by its exit code; the broken pipe tells nothing more.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _settle(process: asyncio.subprocess.Process) -> None:
    """End it if it still runs, and read its pipes out: only then does the event loop let go of it."""
    if process.returncode is None:
        _end(process)
        for stream in (process.stdout, process.stderr):
            while stream is not None and await stream.read(MEBIBYTE):
                pass
        await process.wait()


def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
