"""At which level a session is shown, what that rests on, and what an agent requires of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.core.directory import Agent
from tallystick.core.errors import denied
from tallystick.edge.acp.endpoints import words
from tallystick.edge.acp.launch import Launch

if TYPE_CHECKING:
    from tallystick.edge.acp.canary import Proof


def refuse_below(launch: Launch) -> None:
    """Refused where it is clear before the start that the level which its agent requires cannot be had."""
    agent, runner = launch.agent, launch.around.runner
    if launch.own.network is not None and runner.level() != "E3":  # a limit that nothing keeps is none
        raise denied(
            f"The network of @{agent.alias} is limited, by a sandbox, and this machine has none: {runner.explain()}",
            f"Install bubblewrap, or take [network] out of agents/{agent.alias}.toml.",
        )
    if agent.required != "E3":
        return
    if launch.is_apart and launch.own.sandbox is None and launch.own.network is None:
        raise denied(
            f"{launch.client.title} runs commands in a sandbox of its own, which does not start inside of ours here.",
            f"Join it with --require E2; or turn it off, and say sandbox = true in agents/{agent.alias}.toml.",
        )
    if runner.level() != "E3":
        raise denied(
            f"@{agent.alias} requires E3, and this machine has no sandbox: {runner.explain()}",
            "Install bubblewrap, or join it again with --require E2.",
        )


def shown(sandbox: str, proof: Proof, launch: Launch) -> tuple[str, str]:
    """The level of a session that has started, and what it rests on."""
    if sandbox == "E3":
        apart = "its client's own sandbox does not start in there; " if launch.is_apart else ""
        reach = f"only {words(launch.own.network.endpoints)}" if launch.own.network is not None else "open"
        return "E3", f"{launch.around.runner.explain()}; {apart}network: {reach}; {proof.detail}"
    return ("E2" if proof.enforced else "E1"), proof.detail


def refuse_shown(agent: Agent, level: str, detail: str) -> None:
    """Refused where a session is below what its agent requires."""
    if agent.required and level < agent.required:
        raise denied(
            f"@{agent.alias} requires {agent.required}, and its session is {level}: {detail}.",
            f"See docs/how-to/drive.md, or set the mode in agents/{agent.alias}.toml.",
        )
