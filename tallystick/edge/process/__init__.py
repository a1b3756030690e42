"""The Runner: process groups, limits, sandbox. The only folder that starts a child process for a job."""

from tallystick.edge.process.prefixes import prefixes
from tallystick.edge.process.runner import ProcessRunner

__all__ = ["ProcessRunner", "prefixes"]
