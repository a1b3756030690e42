"""How properties are tested: the same examples every time, so that a failure is never a matter of luck.

`HYPOTHESIS_PROFILE=explore` looks further, with chance.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    # That it fails is enough: nothing is made smaller.
    "mutants",
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
