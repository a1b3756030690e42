"""The route table on a sheet."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.app.desk import reach
from tallystick.edge.cli.page import Paint, Sheet, age, took

_COLOURS = {"online": "green", "suspect": "yellow", "returning": "yellow", "draining": "yellow", "offline": "red"}


def routes(sheet: Sheet, form: reach.Routes) -> None:
    """Who holds what, and with `--stats` what became of it."""
    if not form.routes:
        sheet.line("Nobody offers a capability here.")
        sheet.command("join", "NAME", "--capability", "NAME")
        return
    heads = ("CAPABILITY", "VERSION", "NAME", "STATUS", "LOAD", "WEIGHT", "DOMAIN", "SEEN", "ENDPOINT")
    sheet.table(heads, [_row(route, form.workspace) for route in form.routes])
    if form.stats:
        sheet.blank()
        counts = ("CAPABILITY", "ASKED", "DONE", "FAILED", "UNVERIFIED", "OPEN", "WAITING", "MEDIAN")
        sheet.table(counts, [_counts(counted) for counted in form.stats])


def _row(route: reach.RouteShown, here: str) -> Sequence[str | Paint]:
    seen = "" if route.last_seen is None else f"{age(route.last_seen)} ago"
    marks = [word for word, holds in (("pinned", route.pinned), ("first", route.first)) if holds]
    if route.workspace != here:
        marks.append(f"in {route.workspace}")
    name = f"@{route.spoke}" + (f" ({', '.join(marks)})" if marks else "")
    return (
        route.capability,
        route.version,
        name,
        Paint(route.status + (f" ({route.why})" if route.why else ""), _COLOURS.get(route.status, "")),
        f"{route.load}/{route.concurrency}",
        str(route.weight),
        route.domain,
        seen,
        route.endpoint,
    )


def _counts(counted: reach.CapabilityShown) -> Sequence[str]:
    numbers = (counted.asked, counted.done, counted.failed, counted.unverified, counted.open, counted.waiting)
    return (counted.capability, *map(str, numbers), took(counted.median_seconds))


def token_made(sheet: Sheet, form: reach.TokenMade) -> None:
    """The secret, alone on its line, and what it opens."""
    sheet.line(form.token)
    where = f"in domain {', '.join(form.domains)}" if form.domains else "in no domain"
    sheet.line(f"This is the token of {form.name} in the workspace {form.workspace}, {where}. It is not shown again.")
    if form.replaced:
        sheet.line("The one that it had opens nothing any more; its connections were ended.")
    sheet.line("Give it by the environment or a file, never on a command line.")
    if not form.known:
        sheet.line(
            f"Nobody in {form.workspace} is called {form.name} yet. A spoke makes itself known when it starts; a "
            "program that only asks is made known here:"
        )
        sheet.command("join", form.name, "--workspace", form.workspace)


def tokens(sheet: Sheet, form: reach.Tokens) -> None:
    """Who has a token."""
    if not form.tokens:
        sheet.line("No spoke has a token.")
        sheet.command("token add", "NAME", "--domain", "DOMAIN")
        return
    rows = [(t.name, t.workspace, ", ".join(t.domains), sheet.page.when(t.made), t.fault) for t in form.tokens]
    sheet.table(("NAME", "WORKSPACE", "DOMAINS", "MADE", "FAULT"), rows)
