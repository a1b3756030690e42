"""A person's home with the files of coding clients, without the clients: for tests of what is written into them."""

import json
import os
import stat
from pathlib import Path

from tallystick.app.clients import Surroundings
from tallystick.edge.clients import CLIENTS, ClientInstaller, Program


class Desk:
    """A home at `place`, and an installer with a home of its own beside it."""

    def __init__(self, place, environment=None):
        self.home = place / "home 家"
        self.work = place / "work"
        self.tally = place / "tally"
        for folder in (self.home, self.work, self.tally):
            folder.mkdir(parents=True, exist_ok=True)
        self.environment = environment or {}
        self.program = Program(str(self.tally), "/opt/py thon/bin/python3", "/opt/tallystick")
        self.installer = ClientInstaller(self.program, CLIENTS)

    def place(self, project=False):
        return Surroundings(
            home=str(self.home), environment=self.environment, project=str(self.work) if project else ""
        )

    def plan(self, client, *, project=False, remove=False):
        return self.installer.plan(self.place(project), client, remove=remove)

    def install(self, client, *, project=False):
        plan = self.plan(client, project=project)
        self.installer.apply(plan)
        return plan

    def remove(self, client, *, project=False):
        plan = self.plan(client, project=project, remove=True)
        self.installer.apply(plan)
        return plan

    def files(self, client, *, project=False):
        """The files that it has entries or all of, apart from the hook script."""
        place = self.place(project)
        parts = CLIENTS[client].parts(place, self.program, place.project)
        return [part.file for part in parts if not part.file.is_relative_to(self.tally)]

    def shared(self, client, *, project=False):
        """Those of them that are the client's."""
        files = self.files(client, project=project)
        return [file for file in files if "tallystick" not in str(file) and file.stem != "tally"]

    def write(self, path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def tree(self):
        """Everything under the home and the workspace: name → bytes or target, and mode."""
        found = {}
        for top in (self.home, self.work):
            for folder, names, files in os.walk(top):
                for name in (*names, *files):
                    path = Path(folder, name)
                    what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
                    found[str(path)] = (what, stat.S_IMODE(path.lstat().st_mode))
        return found

    def records(self):
        """What is still kept of files to be put back."""
        return [json.loads(path.read_text()) for path in self.tally.glob("backups/*/record.json")]
