"""`cronflow rehearse`: what the cluster's jobs would do in a period, as the real planner decides it on virtual time.

The rule: it reads the cluster and changes nothing, and no command, request or function of a job is executed. It is a
forecast, so it exits with 0 whatever it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import connect
from cronflow.cli.rehearsal_inputs import Durations
from cronflow.cli.rehearsing import Flags, Rehearsing
from cronflow.cli.target import settings
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, show
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.usecases.search import labels_of

if TYPE_CHECKING:
    from cronflow.domain.job import Job


def rehearse(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "-f", "--file", metavar="FILE", help="Rehearse the jobs as they would be after applying this file."
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Rehearse only the jobs of the files, without a cluster.")
    ] = False,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="The hour before and the hour after this instant.")
    ] = None,
    dst: Annotated[
        bool, typer.Option("--dst", help="The night of the next clock change in the time zones that the jobs use.")
    ] = False,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="With --dst: the next clock change of this time zone.")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="2h|INSTANT", help="The beginning: an instant, or a time from now.  [now]"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="2d|INSTANT", help="The end.  [24 hours after the beginning]")
    ] = None,
    outage: Annotated[
        str | None,
        typer.Option(metavar="6h", help="How long all nodes are down, from --at or one hour after the beginning."),
    ] = None,
    kill_leader: Annotated[
        str | None,
        typer.Option(metavar="10m|INSTANT", help="Kill the leader at this instant, or this long after the beginning."),
    ] = None,
    tzdata: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Compare with the time zone data in this folder, as compiled by zic."),
    ] = None,
    job: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only jobs whose names match; repeatable.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY[=VALUE]", help="Only jobs with this label; repeatable.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=100, help="The number of nodes.  [those that are up]")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=10_000, help="The slots of each node.  [those of the node]")
    ] = None,
    durations: Annotated[
        Durations, typer.Option(help="How long jobs run: the median of their latest runs, or the 95th percentile.")
    ] = Durations.P50,
    duration: Annotated[
        str, typer.Option(metavar="5m", help="How long a job runs that has no successful run yet.")
    ] = "1s",
    output: Output = Format.TABLE,
) -> None:
    """Show what the jobs would do: what runs when, and what is late, missed, skipped or overlapping. The real planner
    runs on virtual time. Nothing is executed, and the cluster is not changed.
    """
    from cronflow.cli.views.rehearsal import rehearsal_page
    from cronflow.cli.views.rehearsal_json import rehearsal_document

    if output not in (Format.TABLE, Format.JSON):
        raise InvalidInput(Problem("--output", f"{output.value!r} is not supported here", "use table or json"))
    flags = Flags(at, dst, zone, first, until, outage, kill_leader, tzdata)
    flags.check()
    changes = _read_files(files or ())
    rehearsing = Rehearsing(
        flags=flags,
        now=times.now().replace(microsecond=0),
        changes=changes,
        patterns=job or (),
        labels=labels_of(label or ()),
        nodes=nodes,
        slots=slots,
        durations=durations,
        duration=times.length_of(duration, "--duration"),
    )
    if offline or (changes and _no_cluster()):
        if not changes:
            raise InvalidInput(Problem("--offline", "there are no jobs without a cluster", "add -f jobs.yaml"))
        result = rehearsing.without_cluster()
    else:
        # The cluster is closed before the rehearsal, which has an event loop of its own.
        result = rehearsing.with_cluster(connect.call(rehearsing.read))
    show(output, rehearsal_document(result), [], lambda: rehearsal_page(result))


def _no_cluster() -> bool:
    """Whether no cluster is configured."""
    read = settings()
    return connect.current_login() is None and read.redis_url is None and read.mongo_url is None


def _read_files(files: Sequence[Path]) -> list[Job]:
    from cronflow.files.jobs import read_jobs

    if not files:
        return []
    paths = [Path("/dev/stdin") if str(path) == "-" else path for path in files]
    # Importing the modules of Python targets would execute code of users.
    return read_jobs(paths, check_python=False, retry=settings().retry).jobs
