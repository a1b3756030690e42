"""What is kept of a job: one directory per job, written by the host and its keeper, read by any later host.

job.json     what a later host must know: label, boot, sandbox level. No secret.
spec.json    what to run; the keeper takes it away as soon as it has read it
lock         locked for as long as the keeper lives
keeper.json  which process keeps the job, and which is the job; written before the command is started
stdout, stderr, result.json
home, tmp    HOME and TMPDIR of a sandboxed job
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from tallystick.app.jobs import Job, JobResult
from tallystick.core.errors import Refused, conflict, invalid, not_found, unavailable
from tallystick.core.model import Output
from tallystick.edge.process import keeper

_T = TypeVar("_T")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class About(msgspec.Struct, frozen=True):
    """What the host notes of a job before it starts its keeper."""

    label: str
    level: str
    boot_id: str
    asked_at: float
    grace_seconds: float
    seconds: float = 0.0
    """Its time limit."""
    gated: bool = False


class Kept(msgspec.Struct, frozen=True):
    """What the keeper notes: two processes by pid and start time. `main` is 0 before the command runs."""

    pid: int
    start: str
    main: int
    main_start: str
    started_at: float


def is_job_id(text: str) -> bool:
    """Whether it may name a job: it becomes the name of a directory."""
    return _NAME.fullmatch(text) is not None


class Folder:
    """The directory of one job."""

    def __init__(self, jobs: Path, job_id: str) -> None:
        if not is_job_id(job_id):
            raise invalid(
                f"{job_id[:100]!r} is not the id of a job.", "Use letters, digits, hyphen and underscore, at most 100."
            )
        self.job_id = job_id
        self.path = jobs / job_id

    def make(self) -> None:
        """Create it. Refused if there is a job of this id."""
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            raise conflict(
                f"Job {self.job_id} was started before.", "Adopt that one, or forget it after it has ended."
            ) from None
        except OSError as error:
            raise _disk(error) from error

    def fill(
        self,
        job: Job,
        about: About,
        sandbox: list[str],
        program_filter: bytes,
        pipes: dict[str, int] | None = None,
    ) -> None:
        """Write down what to run; `pipes` are descriptors that the keeper gets, for a job that is spoken with."""
        spec = {
            "argv": list(job.argv),
            "directory": job.directory,
            "environment": job.environment,
            "seconds": job.seconds,
            "grace_seconds": job.grace_seconds,
            "output_bytes": job.output_bytes,
            "sandboxed": bool(sandbox),
            "sandbox": sandbox,
            "filter": bool(program_filter),
            "pipes": pipes or {},
            "log": job.log,
            "gated": job.gated,
        }
        try:
            self._write("job.json", msgspec.json.encode(about))
            self._write("stdin", job.stdin)
            self._write("filter.bpf", program_filter)
            for inner in ("home", "tmp"):
                (self.path / inner).mkdir(mode=0o700)
            self._write("spec.json", json.dumps(spec).encode("ascii"))
        except OSError as error:
            raise _disk(error) from error

    def _write(self, name: str, content: bytes) -> None:
        descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)

    def launch(self, passed: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        """Start the keeper. It gets the locked file as its standard input, and nothing else but what is `passed`."""
        self._write("lock", b"")
        with (self.path / "lock").open("rb") as lock, (self.path / "keeper.log").open("wb") as log:
            (self.path / "keeper.log").chmod(0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                return subprocess.Popen(
                    [sys.executable, "-I", "-S", keeper.__file__, str(self.path)],
                    stdin=lock,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    env={},
                    cwd="/",
                    start_new_session=True,
                    pass_fds=passed,
                )
            except OSError as error:
                raise unavailable(
                    f"The keeper of job {self.job_id} could not be started: {error.strerror}.", "Try again later."
                ) from error

    def is_kept(self) -> bool:
        """Whether its keeper lives. The kernel lets go of the lock when the last holder dies, however it dies."""
        try:
            with (self.path / "lock").open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def about(self) -> About | None:
        """The host's note; None if the host stopped before it was written."""
        return self._read("job.json", About)

    def kept(self) -> Kept | None:
        """The keeper's note; None if nothing was started."""
        return self._read("keeper.json", Kept)

    def _read(self, name: str, kind: type[_T]) -> _T | None:
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return None

    def result(self) -> JobResult | None:
        """How it ended; None as long as that is not final."""
        try:
            raw: dict[str, Any] = json.loads((self.path / "result.json").read_bytes())
            stdout, stderr = (self._output(name) for name in ("stdout", "stderr"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise unavailable(
                f"The result of job {self.job_id} cannot be read.", "Look at the disk of the host."
            ) from error
        about = self.about()
        if raw["not_started"]:
            said = stderr.decode("utf-8", "replace").strip().splitlines()
            reason = ": ".join([raw["not_started"], *said[:1]]) + "."
            return JobResult(self.job_id, canceled=raw["canceled"], not_started=reason)
        return JobResult(
            job_id=self.job_id,
            exit_code=raw["exit_code"],
            signal=raw["signal"],
            started_at=raw["started_at"],
            ended_at=raw["ended_at"],
            stdout=stdout,
            stderr=stderr,
            stdout_info=msgspec.convert(raw["stdout"], Output),
            stderr_info=msgspec.convert(raw["stderr"], Output),
            level=about.level if about else "none",
            seconds=about.seconds if about else 0.0,
            timed_out=raw["timed_out"],
            canceled=raw["canceled"],
        )

    def _output(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:  # of a job that was spoken with
            return b""

    def remove(self) -> None:
        """Take it away with all that the job left in it."""
        try:
            shutil.rmtree(self.path)
        except (OSError, RecursionError):
            # A job may leave directories that nobody may write, or nested deeper than Python follows.
            subprocess.run(["/bin/chmod", "-R", "u+rwX", str(self.path)], capture_output=True, check=False)
            subprocess.run(["/bin/rm", "-rf", "--", str(self.path)], capture_output=True, check=False)
        if self.path.exists():
            raise unavailable(
                f"What job {self.job_id} left cannot be removed.",
                "Look at the permissions below the host's jobs directory.",
            )


def missing(job_id: str) -> Refused:
    """There is no such job here."""
    return not_found(f"There is no job {job_id}.", "Only jobs that were started and not forgotten can be collected.")


def _disk(error: OSError) -> Refused:
    return unavailable(
        f"The job cannot be written down: {error.strerror}.", "Make room or look at the permissions, then try again."
    )
