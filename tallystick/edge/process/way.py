"""A sandboxed job whose network is its own, started with what carries its connections to the host's proxy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from tallystick.app.jobs import Job
from tallystick.edge.process import forwarder
from tallystick.edge.process.prefixes import prefixes


def led_out(job: Job) -> Job:
    """The job with the forwarder before its command, and what that needs in the sandbox; as it is where it has no way
    out."""
    sandbox = job.sandbox
    if sandbox is None or sandbox.way_out is None:
        return job
    about = json.dumps({"socket": sandbox.way_out.socket, "doors": sandbox.way_out.doors})
    program = str(Path(forwarder.__file__))
    seen = (*sandbox.read_only, *prefixes(sys.executable, "", ""), program)
    return msgspec.structs.replace(
        job,
        argv=(sys.executable, "-I", "-S", program, about, *job.argv),
        sandbox=msgspec.structs.replace(
            sandbox, read_only=seen, writable=(*sandbox.writable, sandbox.way_out.socket), network=False
        ),
    )
