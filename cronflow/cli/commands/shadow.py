"""`cronflow shadow …`: compare jobs in shadow mode with what cron started.

The rule: the log is read on this machine and not sent anywhere, and only the time that it covers is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.connect import call
from cronflow.cli.errors import FAILED
from cronflow.cli.main import new_group
from cronflow.cli.selection import Labels
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, show
from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zones import find_zone
from cronflow.domain.shadow import SHADOWED, ReplacedLine
from cronflow.domain.shadow_report import ShadowJob, SkippedRange, compare_with_log

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.files.cron_log import CronLog
    from cronflow.schemas.jobs import JobSchema
    from cronflow.schemas.runs import RunSchema

shadow = new_group("Compare jobs in shadow mode with what cron starts.")


@shadow.command()
def report(
    log: Annotated[
        list[Path],
        typer.Argument(metavar="LOG", help="Log files of cron's host, from syslog or journalctl; - is stdin."),
    ],
    label: Labels = None,
    host: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only jobs with the label host=NAME, and lines of this host.")
    ] = None,
    tz: Annotated[
        str | None, typer.Option(metavar="ZONE", help="The time zone of the log's times; this machine's if left out.")
    ] = None,
    tolerance: Annotated[
        str, typer.Option(metavar="DURATION", help="How far apart a planned start and one of cron may be.")
    ] = "30s",
    output: Output = Format.TABLE,
) -> None:
    """Compare the jobs in shadow mode with the commands that cron executed, by its log. Exit code 1: they differ."""
    from cronflow.cli.views.shadow import report_page
    from cronflow.schemas.shadow import shadow_report_schema

    apart = times.length_of(tolerance, "--tolerance")
    now = times.now()
    found = _read(log, now, tz)
    executions = [one for one in found.executions if host in (None, one.host)]
    labels = [*(label or ()), *([] if host is None else [f"host={host}"])]
    if found.first is None or found.last is None:
        remedy = "give the log of the host whose cron runs them, such as /var/log/syslog, or journalctl -u cron"
        raise InvalidInput(Problem(", ".join(map(str, log)), "has no lines of cron", remedy))
    first, last = found.first, min(found.last + apart, now)
    jobs = call(lambda cluster: _shadow_jobs(cluster, labels, first, last))
    if not jobs:
        remedy = "import them with: cronflow import crontab --shadow FILE"
        raise InvalidInput(Problem("", "no job is in shadow mode and names the crontab line that it replaces", remedy))
    compared = compare_with_log(jobs, executions, first, last, apart)
    different = [name for line in compared.lines if not line.is_equal for name in line.jobs]
    show(output, shadow_report_schema(compared), different, lambda: report_page(compared))
    if not compared.is_equal:
        raise typer.Exit(FAILED)


def _read(paths: Sequence[Path], now: datetime, tz: str | None) -> CronLog:
    from cronflow.files.cron_log import read_cron_log

    zone = times.local_zone().zone or UTC if tz is None else find_zone(tz)
    lines: list[str] = []
    for path in paths:
        if str(path) == "-":
            lines += sys.stdin
            continue
        try:
            lines += path.read_text(errors="replace").splitlines()
        except OSError as error:
            raise InvalidInput(Problem(str(path), f"cannot be read: {error.strerror}", "")) from None
    return read_cron_log(lines, now, zone)


async def _shadow_jobs(cluster: Cluster, labels: Sequence[str], first: datetime, last: datetime) -> list[ShadowJob]:
    jobs = [
        job async for job in cluster.jobs.list(label=labels) if job["mode"] == "shadow" and job["replaces"] is not None
    ]
    return [await _with_runs(cluster, job, first, last) for job in jobs]


async def _with_runs(cluster: Cluster, job: JobSchema, first: datetime, last: datetime) -> ShadowJob:
    line = job["replaces"]
    assert line is not None
    jitter = _jitter(job["schedule"])
    # A range that began earlier may end within the time of the log.
    begin, end = first - timedelta(days=1), last + jitter
    runs: list[RunSchema] = [
        run async for run in cluster.runs.list(job=job["name"], state=["skipped"], since=begin, until=end)
    ]
    return ShadowJob(
        name=job["name"],
        line=ReplacedLine(command=line["command"], user=line["user"], host=line["host"]),
        since=times.parsed(job["created_at"]),
        starts=[times.parsed(run["fire_at"]) for run in runs if run["reason"] == SHADOWED],
        skipped=[_skipped(run) for run in runs if run["reason"] != SHADOWED or run["covers"]],
        jitter=jitter,
    )


def _jitter(schedule: object) -> timedelta:
    """How much later than its line a job may start; 0 for a schedule of several."""
    found = schedule.get("jitter") if isinstance(schedule, Mapping) else None
    return timedelta(0) if found is None else parse_duration(found)


def _skipped(run: RunSchema) -> SkippedRange:
    covers = run["covers"]
    if covers is None:
        at = times.parsed(run["fire_at"])
        return SkippedRange(at, at, run["reason"] or "")
    reason = "missed, with one run for all" if run["reason"] == SHADOWED else run["reason"] or ""
    return SkippedRange(times.parsed(covers["first"]), times.parsed(covers["last"]), reason)
