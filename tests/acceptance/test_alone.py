"""What works where no host can be started: doctor says why, the log can be looked at, diagnostics can be read."""

from __future__ import annotations

import json

from tests.support.hosts import Home


def test_doctor_and_log_work_where_no_host_can_start() -> None:
    with Home() as home:
        assert home.tally("whoami").returncode == 0
        assert home.tally("down").returncode == 0
        broken = home.path / "config.toml"
        broken.write_text("unheard_of = 1\n")

        assert home.tally("board").returncode == 1
        examined = home.tally("doctor", "--json")
        found = {line["check"]: line for line in json.loads(examined.stdout)["findings"]}
        assert examined.returncode == 1
        assert "unheard_of" in found["settings"]["saw"]
        assert found["log"]["ok"]
        verified = home.tally("log", "verify")
        assert verified.returncode == 0
        assert json.loads(verified.stdout)["ok"] is True
        assert b"PersonJoined" in home.tally("log", "export").stdout


def test_diagnostics_are_read_with_and_without_a_host() -> None:
    with Home() as home:
        assert home.tally("whoami").returncode == 0
        running = home.tally("status", "--diagnostics", "--json")
        assert "host started" in [json.loads(line)["kind"] for line in running.stdout.splitlines()]
        assert home.tally("down").returncode == 0
        assert b"host stopped" in home.tally("status", "--diagnostics").stdout
