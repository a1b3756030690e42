"""The command line `tally`: parsing, help, completion and rendering, inside the host."""

from tallystick.edge.cli.cli import VERBS, Cli, reference
from tallystick.edge.cli.errors import ERRORS

__all__ = ["ERRORS", "VERBS", "Cli", "reference"]
