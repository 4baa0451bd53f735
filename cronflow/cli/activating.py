"""`cronflow jobs activate`: jobs in shadow mode take over from cron.

The rule: a job that is not in shadow mode is left alone, so repeating the command, or repeating it after it failed
halfway, activates the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import connect
from cronflow.cli.selection import Everything, Labels, Selected, Selection, Yes
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, confirm, note, show
from cronflow.domain.shadow import JobMode

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.jobs import JobSchema


def activate(
    names: Selected = None,
    label: Labels = None,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Jobs with the label host=NAME.")] = None,
    everything: Everything = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """End the shadow mode of jobs, whose fires are executed from now on, and print the crontab lines to remove."""
    labels = [*(label or ()), *([] if host is None else [f"host={host}"])]
    selection = Selection(names or (), labels, everything=everything)

    async def act(cluster: Cluster) -> list[JobSchema]:
        found = [await cluster.jobs.get(name) for name in await selection.find(cluster)]
        in_shadow = [job["name"] for job in found if job["mode"] == JobMode.SHADOW]
        if in_shadow and not selection.named:
            confirm(len(in_shadow), "activate", yes=yes, kind="job")
        return [await cluster.jobs.activate(name) for name in in_shadow]

    activated = connect.change(act)

    def view() -> None:
        from cronflow.cli.views.jobs import job_table
        from cronflow.cli.views.shadow import print_replaced

        if not activated:
            note("none of these jobs is in shadow mode")
            return
        job_table(activated, times.now())
        print_replaced(activated)

    show(output, activated, [job["name"] for job in activated], view)
