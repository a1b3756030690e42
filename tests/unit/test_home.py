"""The default home is the one the field's library names; the wire works it out itself, because it imports nothing."""

from __future__ import annotations

import platformdirs
import pytest

from tallystick import wire


@pytest.mark.parametrize("given", ["", "/somewhere/else"])
def test_the_default_home_is_the_user_data_directory(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLY_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if given:
        monkeypatch.setenv("XDG_DATA_HOME", given)
    assert wire.home() == platformdirs.user_data_dir("tallystick", appauthor=False)
