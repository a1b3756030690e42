"""All verbs together."""

from __future__ import annotations

from tallystick.app.desk.asking import Asking
from tallystick.app.desk.installing import Installing
from tallystick.app.desk.pausing import Pausing
from tallystick.app.desk.reading import Reading
from tallystick.app.desk.upkeep import Upkeep
from tallystick.app.desk.working import Working


class FrontDesk(Asking, Working, Reading, Installing, Pausing, Upkeep):
    """Implements `app.desk.interface.Desk`."""
