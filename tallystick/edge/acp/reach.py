"""What one session's client reaches over the network: everything, or what its agent's own file lists."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.edge.acp.egress import Egress
from tallystick.edge.acp.launch import Launch


class Reach:
    """Of one session: its way out is open for as long as its client runs. `told` is given a line for its turn."""

    def __init__(self) -> None:
        self.told: Callable[[str], None] = lambda _line: None
        self._egress: Egress | None = None

    async def open(self, launch: Launch) -> None:
        """Answer at its way out, where its network is limited."""
        await self.close()
        if launch.own.network is None:
            return
        diagnostics = launch.around.driving.diagnostics

        def report(what: str, fields: dict[str, object]) -> None:
            diagnostics.record(f"network {what}", session=launch.session_id, **fields)
            if what == "refused":
                self.told(f"network: {fields['endpoint']} was refused: {fields['why']}")

        self._egress = Egress(launch.own.network.endpoints, report)
        await self._egress.listen(launch.way)

    async def close(self) -> None:
        """Nothing is let through any more."""
        egress, self._egress = self._egress, None
        if egress is not None:
            await egress.close()
