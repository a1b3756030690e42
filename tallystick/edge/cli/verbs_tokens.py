"""`tally token`: how a spoke on another machine comes in."""

from __future__ import annotations

from tallystick.edge.cli import render_places, render_routes
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import Argument, Option, Verb

_GROUP = "Agents and places"


async def tokens(run: Run) -> int:
    """`tally token list`."""
    await run.give(await run.desk.tokens(await run.guest()), render_routes.tokens)
    return 0


async def add_token(run: Run) -> int:
    """`tally token add NAME`."""
    p, guest = run.parsed, await run.guest(register=True)
    await run.give(await run.desk.add_token(guest, p.text("name"), p.many("domain")), render_routes.token_made)
    return 0


async def remove_token(run: Run) -> int:
    """`tally token remove NAME`."""
    guest = await run.guest()
    await run.give(await run.desk.remove_token(guest, run.parsed.text("name")), render_places.done)
    return 0


VERBS = (
    Verb(
        name="token list",
        group=_GROUP,
        summary="Which spokes on other machines may come in: list, add, remove (a person only).",
        example="tally token list",
        run=tokens,
        also=("token",),
        notes="Secrets are not shown: the host keeps their digests alone. FAULT says why one opens nothing: its file "
        "and the record are at odds.",
    ),
    Verb(
        name="token add",
        group=_GROUP,
        summary="Make the token of one spoke, and print it this once (a person only).",
        example="tally token add summary-01 --domain data-team",
        run=add_token,
        arguments=(Argument("NAME", "The spoke_id that it is for.", completes="token"),),
        options=(Option("domain", "The spoke offers and reaches for capabilities of it.", "DOMAIN", True),),
        notes="It opens the workspace that it is made in (`--workspace`) and no other. With domains, it offers in "
        "those only. A token that this spoke has already opens nothing from then on, and its connections are ended. "
        "Who made it, and for what, is recorded; the secret is not. A spoke makes itself known when it starts; a "
        "program that only asks comes in once NAME is joined: `tally join NAME`.",
    ),
    Verb(
        name="token remove",
        group=_GROUP,
        summary="Take the token of a spoke away; its open connections are ended (a person only).",
        example="tally token remove summary-01",
        run=remove_token,
        arguments=(Argument("NAME", "The spoke_id that it is for.", completes="token"),),
        notes="The spoke stays registered; `tally leave NAME` ends that. Who took it away is recorded; its file opens "
        "nothing any more, also if it is put back.",
    ),
)
