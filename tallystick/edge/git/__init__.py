"""Git, hardened: the only place that spawns git. References, snapshots, clean work trees, where a line comes from.

What the user's repository says about itself (its configuration, attributes, hooks) is hostile. So:
- objects move with plumbing that runs in OUR mirror and sees the user's objects as an alternate, so that the user's
  configuration is never read for it and no upload-pack or transport starts;
- the few calls that must run in the user's repository (`rev-parse`, `rev-list`, `ls-files`, `check-attr`, `config`)
  start nothing by themselves, and run with every setting that could start something overridden;
- files of a work tree are read by us, without following links, never by git.
"""

from tallystick.edge.git.commands import GitCommands

__all__ = ["GitCommands"]
