"""What works where no host can be started: doctor says why, the log can be looked at, diagnostics can be read."""

from __future__ import annotations

import json

from tests.support.hosts import Home


def test_doctor_and_log_work_where_no_host_can_start() -> None:
    with Home() as home:
        assert home.tally("whoami")[0] == 0
        assert home.tally("down")[0] == 0
        broken = home.path / "config.toml"
        broken.write_text("unheard_of = 1\n")

        assert home.tally("board")[0] == 1
        code, out, _ = home.tally("doctor", "--json")
        found = {line["check"]: line for line in json.loads(out)["findings"]}
        assert code == 1
        assert "unheard_of" in found["settings"]["saw"]
        assert found["log"]["ok"]
        code, out, _ = home.tally("log", "verify")
        assert code == 0
        assert json.loads(out)["ok"] is True
        assert "PersonJoined" in str(home.tally("log", "export")[1])


def test_diagnostics_are_read_with_and_without_a_host() -> None:
    with Home() as home:
        assert home.tally("whoami")[0] == 0
        _, out, _ = home.tally("status", "--diagnostics", "--json")
        assert "host started" in [json.loads(line)["kind"] for line in out.splitlines()]
        assert home.tally("down")[0] == 0
        assert "host stopped" in str(home.tally("status", "--diagnostics")[1])
