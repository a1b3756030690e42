"""The table of clients, and which client and which execution of it a caller comes out of."""

import pytest

from tallystick.core.clients import BY_PROCESS, CLIENTS, client_among, execution_of
from tallystick.core.model import Fact


def test_every_client_says_what_each_fact_of_it_rests_on() -> None:
    for client in CLIENTS.values():
        assert [fact for fact, _ in client.facts] == [
            Fact.CLAIMED,
            Fact.ADMITTED,
            Fact.RECORDED,
            Fact.WORKING,
            Fact.SUBMITTED,
        ]
        assert all(rests_on for _, rests_on in client.facts)


def test_recorded_rests_on_a_history_or_is_said_to_be_inferred() -> None:
    for client in CLIENTS.values():
        assert "inferred" in client.recorded


def test_no_process_name_stands_for_two_clients() -> None:
    assert len(BY_PROCESS) == sum(len(client.processes) for client in CLIENTS.values())


def test_the_nearest_client_among_the_parents_counts() -> None:
    assert client_among(("sh", "codex", "zsh", "claude")) == "codex"
    assert client_among(("sh", "zsh")) == ""


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("sh", "claude", "zsh"), "2@b"),
        (("node", "gemini", "node", "gemini", "zsh"), "4@d"),  # it runs itself again
        (("claude", "zsh", "claude"), "1@a"),  # one client in a shell of another execution
        (("zsh",), ""),
    ],
)
def test_what_one_start_of_a_client_runs_is_one_execution(names: tuple[str, ...], found: str) -> None:
    processes = ("1@a", "2@b", "3@c", "4@d", "5@e")
    client = "gemini" if "gemini" in names else "claude"
    assert execution_of(client, names, processes) == found
