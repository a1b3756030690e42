"""All verbs together."""

from __future__ import annotations

from tallystick.app.desk.asking import Asking
from tallystick.app.desk.placing import Placing
from tallystick.app.desk.reading import Reading
from tallystick.app.desk.upkeep import Upkeep
from tallystick.app.desk.waking import Waking
from tallystick.app.desk.working import Working


class FrontDesk(Asking, Working, Reading, Placing, Waking, Upkeep):
    """Implements `app.desk.interface.Desk`."""
