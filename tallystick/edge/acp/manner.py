"""How a session behaves from its start: the client's mode in which it asks, and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.acp.launch import Launch

if TYPE_CHECKING:
    from tallystick.edge.acp.speech import Begun, Speech


async def set_up(speech: Speech, begun: Begun, launch: Launch) -> str:
    """The mode in which it asks, and its model. Refused where it does not have them: nothing is left to chance."""
    mode = launch.own.mode or launch.client.mode
    if mode and begun.modes and mode not in begun.modes:
        raise Refused(
            ErrorCode.UNSUPPORTED,
            f"{launch.client.title} has no mode {mode!r}; it has {', '.join(begun.modes)}.",
            f"Name one in which it asks: mode = … in agents/{launch.agent.alias}.toml",
        )
    if mode and begun.modes and mode != begun.mode:
        await speech.set_mode(begun.session_id, mode)
    await _set_model(speech, begun, launch)
    return mode or begun.mode


async def _set_model(speech: Speech, begun: Begun, launch: Launch) -> None:
    wanted = launch.agent.model
    if not wanted or launch.client.model_variable:
        return
    for option, values in begun.models.items():
        if wanted in values or not values:
            await speech.set_option(begun.session_id, option, wanted)
            return
    offered = ", ".join(value for values in begun.models.values() for value in values)[:300] or "no choice"
    raise Refused(
        ErrorCode.UNSUPPORTED,
        f"{launch.client.title} does not offer the model {wanted!r}; it offers {offered}.",
        "Join it again with another --model.",
    )
