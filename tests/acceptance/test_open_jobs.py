"""Jobs that the host speaks with: lines of any length, errors to a log, and an end that comes with the host's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tallystick.app.clock import SystemClock
from tallystick.app.jobs import Job
from tallystick.core.errors import Refused
from tallystick.edge.process import ProcessRunner, prefixes
from tests.support.hosts import ROOT, eventually


def job(home: Path, *argv: str, **given: object) -> Job:
    fields: dict[str, object] = {"directory": str(home), "environment": {"PATH": os.environ["PATH"]}, **given}
    return Job(job_id="a", argv=argv, log=str(home / "log"), **fields)  # type: ignore[arg-type]


async def test_lines_of_any_length_go_both_ways_and_errors_go_to_the_log(tmp_path: Path) -> None:
    runner = ProcessRunner(tmp_path, SystemClock())
    pipes = await runner.open(job(tmp_path, "/bin/sh", "-c", "echo oops >&2; exec cat", seconds=30 * 86400.0))
    long = b"x" * 3_000_000 + b"\n"
    pipes.writer.write(long)
    assert await pipes.reader.readuntil(b"\n") == long
    assert (tmp_path / "log").read_text() == "oops\n"
    assert await runner.end("a")
    assert not Path(f"/proc/{pipes.pid}").exists()  # noqa: ASYNC240
    runner.forget("a")


async def test_what_cannot_be_started_is_refused_or_seen_to_end(tmp_path: Path) -> None:
    runner = ProcessRunner(tmp_path, SystemClock())
    with pytest.raises(Refused) as refused:
        await runner.open(job(tmp_path, "/no/such/program"))
    assert "/no/such/program" in refused.value.message


HOST = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tallystick.app.clock import SystemClock
from tallystick.app.jobs import Job
from tallystick.edge.process import ProcessRunner
async def main():
    runner = ProcessRunner(Path({home!r}), SystemClock())
    words = ("/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    job = Job(job_id="a", argv=words, directory={home!r}, environment={{}}, grace_seconds=0.2, log={home!r} + "/log")
    print((await runner.open(job)).pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_it_ends_with_a_host_that_is_killed_however_deaf_it_is(tmp_path: Path) -> None:
    code = HOST.format(root=str(ROOT), home=str(tmp_path))
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    host.kill()
    host.wait()
    begun = time.monotonic()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "its end")
    assert time.monotonic() >= begun


def test_a_program_of_npm_is_seen_with_what_lies_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    modules = home / "tools" / "node_modules"
    script = modules / "agent" / "dist" / "index.js"
    for folder in (script.parent, modules / ".bin", modules / "needed"):
        folder.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (modules / ".bin" / "agent").symlink_to("../agent/dist/index.js")
    found = prefixes("agent", str(modules / ".bin"), "", str(home))
    assert str(modules) in found
