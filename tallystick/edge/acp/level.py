"""At which level a session is shown, what that rests on, and what an agent requires of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.app.ports import Runner
from tallystick.core.directory import Agent
from tallystick.core.errors import denied
from tallystick.edge.acp.launch import Launch

if TYPE_CHECKING:
    from tallystick.edge.acp.canary import Proof


def refuse_below(launch: Launch) -> None:
    """Refused where it is clear before the start that the level which its agent requires cannot be had."""
    agent, client, runner = launch.agent, launch.client, launch.around.runner
    if agent.required != "E3":
        return
    if client.own_sandbox and launch.own.sandbox is None:
        raise denied(
            f"{client.title} runs commands in a sandbox of its own, which does not start inside of ours.",
            f"Join it with --require E2; or turn it off, and say sandbox = true in agents/{agent.alias}.toml.",
        )
    if runner.level() != "E3":
        raise denied(
            f"@{agent.alias} requires E3, and this machine has no sandbox: {runner.explain()}",
            "Install bubblewrap, or join it again with --require E2.",
        )


def shown(sandbox: str, proof: Proof, runner: Runner) -> tuple[str, str]:
    """The level of a session that has started, and what it rests on."""
    if sandbox == "E3":
        return "E3", f"{runner.explain()}; {proof.detail}"
    return ("E2" if proof.enforced else "E1"), proof.detail


def refuse_shown(agent: Agent, level: str, detail: str) -> None:
    """Refused where a session is below what its agent requires."""
    if agent.required and level < agent.required:
        raise denied(
            f"@{agent.alias} requires {agent.required}, and its session is {level}: {detail}.",
            f"See docs/how-to/drive.md, or set the mode in agents/{agent.alias}.toml.",
        )
