"""`cronflow jobs load` and `cronflow jobs spread`: when jobs start together, and moving them apart.

The rule: a plan is shown before it is applied, and exactly the plan that was shown is applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import connect
from cronflow.cli.completion import job_names
from cronflow.cli.selection import Labels, Yes
from cronflow.cli.terminal.output import Format, Output, confirm, interactive, note, show
from cronflow.domain.spread import SpreadBy

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.schedule_load import SpreadSchema

Pattern = Annotated[
    str | None,
    typer.Argument(metavar="PATTERN", help="Only jobs whose name matches, such as 'etl-*'.", autocompletion=job_names),
]


def load(
    pattern: Pattern = None,
    label: Labels = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also count jobs that start more often than every 5 minutes.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show how many jobs start in each minute of the next 7 days, and which jobs start in the busiest minutes."""
    found = connect.call(lambda cluster: cluster.jobs.load(pattern, label=label or (), frequent=everything))
    from cronflow.cli.views.schedule_load import load_page

    show(output, found, [one["at"] for one in found["busiest"]], lambda: load_page(found))


def spread(
    pattern: Pattern = None,
    label: Labels = None,
    by: Annotated[
        SpreadBy,
        typer.Option(
            metavar="shift|hash",
            help="shift: to the quietest minute of the same hours; hash: write H, a minute that follows from the name.",
        ),
    ] = SpreadBy.SHIFT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Move jobs that start in the same minute to quieter minutes, all in one change. Only cron schedules at one fixed
    minute move; hours, days and time zones stay.
    """
    from cronflow.cli.views.schedule_load import spread_page

    async def plan(cluster: Cluster) -> SpreadSchema:
        name = pattern if pattern or label else "*"
        return await cluster.jobs.spread(name, label=label or (), by=by.value, dry_run=True)

    async def act(cluster: Cluster) -> SpreadSchema:
        found = await plan(cluster)
        if not found["moves"]:
            return found
        if output is Format.TABLE and (yes or interactive()):
            spread_page(found)
        confirm(len(found["moves"]), "move", yes=yes, kind="job")
        return {**found, "applied": True, "moves": [*await cluster.jobs.move(found["moves"])]}

    found = connect.call(plan) if dry_run else connect.change(act)
    names = [move["job"] for move in found["moves"]]
    if found["applied"] and output is Format.TABLE:
        note(f"{len(names)} moved; see the new load: cronflow jobs load")
        return
    show(output, found, names, lambda: spread_page(found))
    if dry_run and found["moves"]:
        note("nothing was changed; run the command without --dry-run to move the jobs")
