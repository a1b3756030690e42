"""`tally routes`: who holds which capability, and who alone may."""

from __future__ import annotations

from tallystick.app.desk import reach
from tallystick.core.errors import not_found
from tallystick.core.identity import CAPABILITY_PREFIX
from tallystick.edge.cli import render_routes
from tallystick.edge.cli.parse import Usage
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import Argument, Option, Verb


async def routes(run: Run) -> int:
    """`tally routes`."""
    p, guest = run.parsed, await run.guest()
    capability, name = p.text("pin"), p.text("name")
    if capability and not name:
        raise Usage("--pin takes a capability and the agent that holds it.", "tally routes --pin CAPABILITY NAME")
    if capability:
        await run.give(await run.desk.pin(guest, capability, name, p.text("domain")), render_routes.routes)
    else:
        form = await run.desk.routes(guest, stats=p.has("stats"))
        await run.give(only(form, name) if name else form, render_routes.routes)
    return 0


def only(form: reach.Routes, name: str) -> reach.Routes:
    """What is of one capability, or of one agent. Refused where there is neither."""
    bare = name.removeprefix(CAPABILITY_PREFIX).removeprefix("@")
    found = tuple(route for route in form.routes if bare in (route.capability, route.spoke))
    if not found:
        raise not_found(f"No capability or agent {bare!r} is among the routes here.", "See them all: tally routes")
    names = {route.capability for route in found}
    stats = tuple(one for one in form.stats if one.capability in names)
    return reach.Routes(routes=found, stats=stats, workspace=form.workspace)


VERBS = (
    Verb(
        name="routes",
        group="Agents and places",
        summary="Who holds which capability: version, domain, weight, load, presence.",
        example="tally routes --stats",
        run=routes,
        arguments=(
            Argument(
                "NAME",
                "Only this capability, or this agent. With --pin: the agent, or none to take it back.",
                required=False,
                completes="agent",
            ),
        ),
        options=(
            Option("stats", "Also what became of the newest messages for each, and how long they took."),
            Option("pin", "Only NAME holds this capability here.", "CAPABILITY"),
            Option("domain", "With --pin: in this domain.", "DOMAIN"),
        ),
        notes="A message for one is asked with `tally ask cap:NAME`. Who was first to offer it here is marked.",
    ),
)
