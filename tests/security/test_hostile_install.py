"""Installing into coding clients reads and writes a person's own files: nobody else may have that done, or seen."""

from __future__ import annotations

import pytest

from tallystick.edge.clients import CLIENTS, Program
from tallystick.edge.clients.shape import Whole
from tests.support.seats import Desk
from tests.support.town import Town


@pytest.mark.parametrize("client", CLIENTS)
def test_an_agent_cannot_have_a_file_shown_by_a_link_in_a_home_of_its_own_making(client, tmp_path) -> None:
    with Town() as town:
        name = town.agent("pen")
        secret = town.place / "secret"
        secret.write_text("a word that the agent cannot read\n")
        desk = Desk(tmp_path)
        parts = CLIENTS[client].parts(desk.place(), Program(str(town.path), "/p", "/q"), "")
        for part in parts:
            if isinstance(part, Whole) and part.file.is_relative_to(desk.home):
                part.file.parent.mkdir(parents=True, exist_ok=True)
                part.file.symlink_to(secret)
        for words in (["--dry-run"], ["--remove", "--dry-run"], ["--yes"], []):
            for env in ({"TALLY_AGENT": name}, {"TALLY_AGENT": name, "TALLY_SESSION": ""}):
                code, out, err = town.run_tally("install", client, *words, env={"HOME": str(desk.home), **env})
                assert code == 1, out + err
                assert "for persons" in err
                assert "a word that" not in out + err


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_a_file_of_nothing_but_spaces_does_not_grow_beyond_what_can_be_taken_out_again(client, tmp_path) -> None:
    desk = Desk(tmp_path)
    files = [file for file in desk.shared(client) if file.suffix == ".json"]
    for file in files:
        desk.write(file, " " * 1_000_000)
    desk.install(client)
    for file in files:
        assert file.stat().st_size < 1_100_000
    desk.remove(client)
    assert {file.read_bytes() for file in files} == {b" " * 1_000_000}
