"""All verbs together."""

from __future__ import annotations

from tallystick.app.desk.canary import Canary
from tallystick.app.desk.installing import Installing
from tallystick.app.desk.pausing import Pausing
from tallystick.app.desk.reaching import Reaching
from tallystick.app.desk.upkeep import Upkeep


class FrontDesk(Canary, Installing, Pausing, Reaching, Upkeep):
    """Implements `app.desk.interface.Desk`."""
