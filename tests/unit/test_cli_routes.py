"""`tally routes NAME`: the part of the table that is asked for."""

from __future__ import annotations

import pytest

from tallystick.app.desk import reach
from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.cli.verbs_routes import only
from tests.golden.desk import CANNED

TABLE: reach.Routes = CANNED["routes"]


def test_a_name_leaves_the_routes_of_that_capability_or_agent_and_their_counts() -> None:
    first = TABLE.routes[0]
    for name in (first.capability, f"cap:{first.capability}", f"@{first.spoke}", first.spoke):
        found = only(TABLE, name)
        assert first in found.routes
        assert {one.capability for one in found.stats} <= {route.capability for route in found.routes}
        bare = name.removeprefix("cap:").removeprefix("@")
        assert all(bare in (route.capability, route.spoke) for route in found.routes)


def test_a_name_that_is_not_there_is_refused_with_the_way_to_the_whole_table() -> None:
    with pytest.raises(Refused) as caught:
        only(TABLE, "Absent")
    assert (caught.value.code, "tally routes" in caught.value.remedy) == (ErrorCode.NOT_FOUND, True)
