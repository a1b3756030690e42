"""The port `app.ports.Installer`: from what is ours in which file to what becomes of each file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tallystick.app.clients import Doubt, FileChange, Found, InstallPlan, Surroundings
from tallystick.core.errors import Refused, denied, invalid, not_found, unavailable
from tallystick.edge.clients import files, jsontext, tomltext, trial
from tallystick.edge.clients.kept import Kept, Record, digest
from tallystick.edge.clients.shape import KEY, Client, Entries, Part, Program, Whole


class ClientInstaller:
    """Implements `Installer` over a table of clients."""

    def __init__(self, program: Program, clients: Mapping[str, Client]) -> None:
        self._program = program
        self._clients = clients
        self._kept = Kept(Path(program.home))

    def names(self) -> tuple[str, ...]:
        """The clients it knows."""
        return tuple(self._clients)

    def look(self, place: Surroundings, client: str) -> Found | None:
        """A client on this machine, or None."""
        return self._clients[client].detect(place)

    def plan(self, place: Surroundings, client: str, *, remove: bool) -> InstallPlan:
        """What would change. Reads only."""
        found = self._client(client)
        _check_place(place)
        if place.project and not found.has_project and not remove:
            raise invalid(f"{client} reads no files of a workspace.", f"Install it for you: tally install {client}")
        parts = found.parts(place, self._program, place.project)
        known = {str(part.file) for part in parts}
        if remove and self._is_elsewhere(client, place.project):
            parts = tuple(part for part in parts if str(part.file) != self._program.hook_file(client))
        for part in parts if place.project else ():
            _check_inside(part.file, place.project)
        plan = [self._change(part, remove=remove) for part in parts]
        if remove:
            plan += self._left_behind(client, place.project, known)
        changes = tuple(change for change in plan if change is not None)
        notes = () if remove else (*found.notes(place.project), *self._asking(found, client, place, changes))
        return InstallPlan(client=client, changes=changes, is_removal=remove, project=place.project, notes=notes)

    def _asking(
        self, found: Client, client: str, place: Surroundings, changes: tuple[FileChange, ...]
    ) -> tuple[str, ...]:
        """That its model will ask for each of our tools, where a person could have allowed them and has not."""
        if place.allow:
            return ()
        allowing = found.parts(msgspec.structs.replace(place, allow=True), self._program, place.project)
        allowed = tuple(change for part in allowing if (change := self._change(part, remove=False)) is not None)
        if allowed == changes:
            return ()
        words = f"tally install {client}{' --project' if place.project else ''} --allow"
        return (f"It asks you before it uses our tools, also when it was woken; {words} lets it.",)

    def apply(self, plan: InstallPlan) -> None:
        """All files or none. What was there is on the disk before the first of them changes."""
        try:
            for change in plan.changes:
                self._keep(plan, change)
        except OSError as error:
            raise unavailable(
                f"The backup could not be written ({error.strerror}). No file was changed.",
                "Make room in the host's home, then repeat the command.",
            ) from None
        files.write(list(plan.changes))
        if plan.is_removal:
            for change in plan.changes:
                self._kept.forget(change.path)
                _clear(Path(change.path))

    def prove(self, place: Surroundings, client: str) -> list[Doubt]:
        """Start its server and its hook; ask the client's own folder what it knows besides."""
        program = self._program
        started = [*trial.server(place, program, client), *trial.hook(place, program, client)]
        return [*started, *self._clients[client].doubts(place)]

    def snippet(self, client: str) -> str:
        """The MCP entry as most clients take it."""
        words = self._program.server(client or "CLIENT")
        server = {"command": words[0], "args": words[1:], "env": self._program.environment()}
        return json.dumps({"mcpServers": {KEY: server}}, ensure_ascii=False, indent=2) + "\n"

    def _client(self, client: str) -> Client:
        if client not in self._clients:
            known = ", ".join(self._clients)
            raise not_found(
                f"{client!r} is no client that can be installed into; known are {known}.",
                "For any other one: tally install --print, and paste what it shows.",
            )
        return self._clients[client]

    def _is_elsewhere(self, client: str, project: str) -> bool:
        """Whether a client is also installed into in another place, which needs the same hook script."""
        shared = self._program.hook_file(client)
        records = (record for record in self._kept.all() if record.path != shared)
        return any(record.client == client and record.project != project for record in records)

    # --- one file -------------------------------------------------------------------------------------------------

    def _change(self, part: Part, *, remove: bool) -> FileChange | None:
        seen = files.look(part.file)
        record = self._kept.record(str(part.file))
        if remove:
            return self._removal(part, seen, record)
        after = part.text.encode() if isinstance(part, Whole) else _with_ours(part, seen)
        if after == seen.data:
            return None
        kept, kept_mode = self._without_us(part, seen, record)
        return FileChange(
            path=str(part.file),
            real=str(seen.path),
            before=seen.data,
            after=after,
            mode=part.mode if isinstance(part, Whole) else seen.mode,
            kept=kept,
            kept_mode=kept_mode,
        )

    def _without_us(self, part: Part, seen: files.Seen, record: Record | None) -> tuple[bytes | None, int]:
        """What the backup has to hold: what was there before us, with what others wrote since."""
        if record is not None and (isinstance(part, Whole) or digest(seen.data) == record.after):
            return self._kept.before(record), record.mode
        if record is None or isinstance(part, Whole) or seen.data is None:
            return seen.data, seen.mode
        return _without_ours(part, seen, self._kept.before(record)), seen.mode

    def _removal(self, part: Part, seen: files.Seen, record: Record | None) -> FileChange | None:
        """What was before, if nobody else wrote since; else the file without what is ours."""
        if seen.data is None:
            return None
        if record is not None and digest(seen.data) == record.after:
            return self._restored(seen, record)
        if isinstance(part, Whole):
            after = None
        else:
            before = self._kept.before(record) if record else None
            after = _without_ours(part, seen, before)
            if record is not None and not record.existed and _is_empty(part, after):
                after = None
        if after == seen.data:
            return None
        return FileChange(path=str(part.file), real=str(seen.path), before=seen.data, after=after, mode=seen.mode)

    def _restored(self, seen: files.Seen, record: Record) -> FileChange:
        return FileChange(
            path=record.path,
            real=str(seen.path),
            before=seen.data,
            after=self._kept.before(record),
            mode=record.mode if record.existed else seen.mode,
            is_restored=True,
        )

    def _left_behind(self, client: str, project: str, known: set[str]) -> list[FileChange | None]:
        """Files of an earlier version, or of another place that the client was configured to, that are as written."""
        found = []
        for record in self._kept.all():
            if (record.client, record.project) == (client, project) and record.path not in known:
                seen = files.look(Path(record.path))
                is_ours = seen.data is not None and digest(seen.data) == record.after
                found.append(self._restored(seen, record) if is_ours else None)
        return found

    def _keep(self, plan: InstallPlan, change: FileChange) -> None:
        if plan.is_removal:
            self._kept.copy(change)
        else:
            self._kept.keep(plan.client, plan.project, change)


def _clear(path: Path) -> None:
    """Remove the folders that bear our name above a file that went, if nothing is left in them."""
    for folder in path.parents:
        if KEY not in folder.parts:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def _check_inside(file: Path, project: str) -> None:
    """A workspace may come from strangers: a link in it must not lead our words out of it."""
    real, root = os.path.realpath(file), os.path.realpath(project)
    if file.is_relative_to(project) and not Path(real).is_relative_to(root):
        raise denied(
            f"{file} is a link that leads out of the workspace, to {real}. Nothing was changed.",
            "Remove the link, or install for yourself, without --project.",
        )


def _check_place(place: Surroundings) -> None:
    if not place.home.startswith("/"):
        raise denied("Where your own files are is not known: HOME is not set.", "Set HOME, then repeat the command.")


# --- entries ------------------------------------------------------------------------------------------------------


def _with_ours(part: Entries, seen: files.Seen) -> bytes:
    name = str(part.file)
    text = files.text_of(seen, name)
    if part.file.suffix == ".toml":
        return _toml_with(part, text, name).encode()
    mark, text = (files.BOM, text[1:]) if text.startswith(files.BOM) else ("", text)
    return (mark + _json_with(part, text, name)).encode()


def _toml_with(part: Entries, text: str, name: str) -> str:
    mark, text = (files.BOM, text[1:]) if text.startswith(files.BOM) else ("", text)
    for table in part.tables:
        known = tomltext.find(text, table.path, name)
        wanted = {**known, **table.value} if isinstance(known, dict) else table.value
        if wanted != known:
            text = tomltext.put(text, table.path, wanted, name)
    return mark + text


def _json_with(part: Entries, text: str, name: str) -> str:
    if jsontext.read(text, name).value == {}:
        for table in part.first:
            text = jsontext.put(text, table.path, table.value, name)
    for table in part.tables:
        found = jsontext.find(jsontext.read(text, name), table.path)
        known = found.value if found else None
        wanted = {**known, **table.value} if isinstance(known, dict) else table.value
        text = jsontext.put(text, table.path, wanted, name)
    for path in (*part.lists, *part.granted):
        text = _json_list(part, path, text, name)
    return text


def _json_list(part: Entries, path: tuple[str, ...], text: str, name: str) -> str:
    """A list with exactly our items of this version among the others."""
    wanted = [item.value for item in part.items if item.path == path]
    groups = _groups(text, path, name)
    there = [group for group in groups if any(map(part.is_ours, _hooks(group)))]
    if there == wanted or (not wanted and path in part.granted):
        return text
    text = _without_items(part, path, text, name)
    for value in wanted:
        text = jsontext.add(text, path, value, name)
    return text


def _groups(text: str, path: tuple[str, ...], name: str) -> list[Any]:
    found = jsontext.find(jsontext.read(text, name), path)
    return found.value if found is not None and isinstance(found.value, list) else []


def _hooks(group: Any) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else [group] if isinstance(group, str) else None
    return hooks if isinstance(hooks, list) else []


def _without_items(part: Entries, path: tuple[str, ...], text: str, name: str) -> str:
    """A list without the groups that are ours, and without our hooks in groups that others keep theirs in."""

    def is_whole(group: Any) -> bool:
        return bool(_hooks(group)) and all(map(part.is_ours, _hooks(group)))

    text = jsontext.drop_items(text, path, is_whole, name)
    for at in range(len(_groups(text, path, name))):
        text = jsontext.drop_items(text, (*path, at, "hooks"), part.is_ours, name)
    return text


def _without_ours(part: Entries, seen: files.Seen, before: bytes | None) -> bytes:
    """The file without our entries, and without what was made only to hold them."""
    name = str(part.file)
    text = files.text_of(seen, name)
    mark, text = (files.BOM, text[1:]) if text.startswith(files.BOM) else ("", text)
    if part.file.suffix == ".toml":
        for table in part.tables:
            text = tomltext.drop(text, table.path, name)
        return (mark + text).encode()
    old = _meaning(before, name)
    for table in part.tables:
        left = jsontext.drop(text, table.path, name)
        text = _pruned(left, table.path[:-1], old, name) if left != text else text
    for path in (*part.lists, *part.granted):
        left = _without_items(part, path, text, name)
        text = _pruned(left, path, old, name) if left != text else text
    return (mark + text).encode()


def _meaning(before: bytes | None, name: str) -> Any:
    if before is None:
        return {}
    try:
        return jsontext.read(before.decode().removeprefix(files.BOM), name).value
    except (Refused, UnicodeDecodeError):
        return {}


def _pruned(text: str, path: tuple[str, ...], old: Any, name: str) -> str:
    """The text without containers on this path that are empty now and were not there before us."""
    while path:
        found = jsontext.find(jsontext.read(text, name), path)
        if found is None or found.value not in ({}, []) or _was_there(old, path):
            return text
        text = jsontext.drop(text, path, name)
        path = path[:-1]
    return text


def _was_there(old: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if not isinstance(old, dict) or key not in old:
            return False
        old = old[key]
    return True


def _is_empty(part: Entries, data: bytes | None) -> bool:
    """Whether nothing is left in a file that was not there before us but what we began it with."""
    text = (data or b"").decode("utf-8", "replace").removeprefix(files.BOM).strip()
    if part.file.suffix == ".toml":
        return not text
    begun = {table.path[0]: table.value for table in part.first}
    try:
        return jsontext.read(text, "").value in ({}, begun)
    except Refused:
        return False
