"""`cronflow cluster recovery …`: the runs that were missed in an outage, and the decision about them."""

from __future__ import annotations

from typing import Annotated

import typer

from cronflow.cli import connect
from cronflow.cli.commands.jobs import check_rate
from cronflow.cli.main import new_group
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, note, show
from cronflow.cli.views.recovery import recovery_page

recovery = new_group("Show the runs missed in an outage; approve or skip them.")

ByJob = Annotated[
    str | None,
    typer.Option(metavar="PATTERN", help="Only runs of jobs that match, such as 'billing-*'; the others keep waiting."),
]


@recovery.command("show")
def show_recovery(output: Output = Format.TABLE) -> None:
    """Show how many runs were missed, of which jobs, and how many are still held back."""
    found = connect.call(lambda cluster: cluster.cluster.recovery())
    show(output, found, [found["state"]], lambda: recovery_page(found, times.now()))
    if found["state"] == "waiting":
        note("start them: cronflow cluster recovery approve; or skip them: cronflow cluster recovery skip")


@recovery.command()
def approve(
    rate: Annotated[
        str | None,
        typer.Option(metavar="COUNT/UNIT", help="The maximum number of runs per s, m, h or d, such as 100/s."),
    ] = None,
    by_job: ByJob = None,
    output: Output = Format.TABLE,
) -> None:
    """Let missed runs start, by priority and age. Later calls may change the rate."""
    if rate is not None:
        check_rate(rate)
    found = connect.change(lambda cluster: cluster.cluster.approve_recovery(rate=rate, by_job=by_job))
    show(output, found, [found["state"]], lambda: recovery_page(found, times.now()))


@recovery.command()
def skip(
    text: Annotated[str, typer.Option("--note", metavar="TEXT", help="The reason, stored with the skipped runs.")] = "",
    by_job: ByJob = None,
    output: Output = Format.TABLE,
) -> None:
    """Record missed runs as skipped. Later fires of their jobs run."""
    found = connect.change(lambda cluster: cluster.cluster.skip_recovery(note=text, by_job=by_job))
    show(output, found, [found["state"]], lambda: recovery_page(found, times.now()))
