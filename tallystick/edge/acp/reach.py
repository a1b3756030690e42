"""What one session's client reaches over the network: everything, or what its agent's own file lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.ports import Sandbox, WayOut
from tallystick.core.errors import denied
from tallystick.edge.acp.egress import Egress
from tallystick.edge.acp.endpoints import words
from tallystick.edge.acp.settings import Network

_SUFFIX: Final = ".net"


class Reach:
    """Of one session. `told` is given a line for whoever follows its turn."""

    def __init__(self, session_id: str, sockets: Path, diagnostics: Diagnostics) -> None:
        self._session_id = session_id
        self._path = sockets / f"{session_id[-12:].lower()}{_SUFFIX}"
        self._diagnostics = diagnostics
        self._network: Network | None = None
        self._egress: Egress | None = None
        self.told: Callable[[str], None] = lambda _line: None

    def __str__(self) -> str:
        if self._network is None:
            return "network: open"
        return f"network: only {words(self._network.endpoints)}"

    async def open(self, network: Network | None, alias: str, missing: str) -> None:
        """Answer at its way out, where it is limited. `missing`: why this machine has no sandbox, if it has none; then
        it is refused: a limit that nothing keeps is none."""
        self._network = network
        if network is None:
            return
        if missing:
            raise denied(
                f"The network of @{alias} is limited, which a sandbox keeps, and this machine has none: {missing}",
                f"Install bubblewrap, or take [network] out of agents/{alias}.toml.",
            )
        await self.close()
        self._egress = Egress(network.endpoints, self._report)
        await self._egress.listen(self._path)

    async def close(self) -> None:
        """Nothing is let through any more."""
        egress, self._egress = self._egress, None
        if egress is not None:
            await egress.close()

    def of(self, sandbox: Sandbox) -> Sandbox:
        """The sandbox, with its network as it is limited."""
        if self._network is None:
            return msgspec.structs.replace(sandbox, network=True)
        doors = sorted((place.host, place.port) for place in self._network.endpoints if place.is_loopback)
        way = WayOut(str(self._path), tuple(doors))
        return msgspec.structs.replace(sandbox, network=False, way_out=way)

    def _report(self, what: str, fields: dict[str, object]) -> None:
        self._diagnostics.record(f"network {what}", session=self._session_id, **fields)
        if what == "refused":
            self.told(f"network: {fields['endpoint']} was refused: {fields['why']}")
