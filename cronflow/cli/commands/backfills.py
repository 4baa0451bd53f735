"""`cronflow backfills …`: the progress of backfills, and cancelling them. `cronflow jobs backfill` requests one."""

from __future__ import annotations

from typing import Annotated

import typer

from cronflow.cli.completion import job_names
from cronflow.cli.connect import call, change, collect
from cronflow.cli.main import new_group
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, note, show
from cronflow.cli.views.backfills import backfill_page, backfill_table

backfills = new_group("Follow and cancel backfills of jobs.")

BackfillId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the backfill, from `cronflow backfills list`.")
]


@backfills.command("list")
def list_backfills(
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="Only of this job.", autocompletion=job_names)
    ] = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, help="The maximum number of backfills.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List backfills with their progress, newest first."""
    found = call(lambda cluster: collect(cluster.backfills.list(job=job, limit=limit)))
    show(output, found, [one["id"] or "" for one in found], lambda: backfill_table(found, times.now()))


@backfills.command("show")
def show_backfill(id: BackfillId, output: Output = Format.TABLE) -> None:  # noqa: A002
    """Show a backfill: its range, its progress, and the states of its runs."""
    found = call(lambda cluster: cluster.backfills.get(id))
    show(output, found, [id], lambda: backfill_page(found, times.now()))
    note(f"its runs: cronflow runs list --backfill {id}")


@backfills.command()
def cancel(
    id: BackfillId,  # noqa: A002
    reason: Annotated[str, typer.Option(metavar="TEXT", help="A reason to store with it and its runs.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Start no more runs of a backfill, and cancel its open runs."""
    found = change(lambda cluster: cluster.backfills.cancel(id, reason))
    show(output, found, [id], lambda: backfill_page(found, times.now()))
