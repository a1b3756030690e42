"""`tally routes`: who holds which capability, and who alone may."""

from __future__ import annotations

from tallystick.edge.cli import render_routes
from tallystick.edge.cli.parse import Usage
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import Argument, Option, Verb


async def routes(run: Run) -> int:
    """`tally routes`."""
    p, guest = run.parsed, await run.guest()
    capability, name = p.text("pin"), p.text("name")
    if bool(capability) != bool(name):
        raise Usage("--pin takes a capability and the agent that holds it.", "tally routes --pin CAPABILITY NAME")
    if capability:
        await run.give(await run.desk.pin(guest, capability, name, p.text("domain")), render_routes.routes)
    else:
        await run.give(await run.desk.routes(guest, stats=p.has("stats")), render_routes.routes)
    return 0


VERBS = (
    Verb(
        name="routes",
        group="Agents and places",
        summary="Who holds which capability: version, domain, weight, load, presence.",
        example="tally routes --stats",
        run=routes,
        arguments=(
            Argument("NAME", "With --pin: the agent, or none to take it back.", required=False, completes="agent"),
        ),
        options=(
            Option("stats", "Also what became of the newest messages for each, and how long they took."),
            Option("pin", "Only NAME holds this capability here.", "CAPABILITY"),
            Option("domain", "With --pin: in this domain.", "DOMAIN"),
        ),
        notes="A message for one is asked with `tally ask cap:NAME`. Who was first to offer it here is marked.",
    ),
)
