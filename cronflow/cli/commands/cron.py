"""`cronflow cron explain`: a schedule in words, its next fires, and warnings. It needs no cluster.

The rule: it uses the same code as the planner, so its output is accurate.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.explained import Explained, from_file, from_options
from cronflow.cli.main import new_group
from cronflow.cli.target import settings
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, console, show
from cronflow.cli.views.preview import named_zones, preview_page, usual_zones
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.schemas.schedules import PreviewSchema

cron = new_group("Explain schedules without a cluster.")


@cron.command()
def explain(
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPR",
            help='The expression in quotes, such as "0 9 * * MON#2" or "@daily"; or a schedule as in a job file, such '
            "as '{every: 1d, time: \"02:00\"}'.",
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="30m", help="Explain an interval instead of an expression.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="HH:MM", help="With --every: the time of day, for whole days and weeks.")
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --every: the instant that the fires are counted from.")
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="Explain a schedule that fires once.")] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="Explain the schedules of a job file.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The job of the file; without a file, the name of the job that is to have the schedule.",
        ),
    ] = None,
    tz: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="The IANA time zone of a schedule that names none.  [the setting TIMEZONE]"),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(
            metavar="ZONES",
            help="Show the fires in these time zones, with commas between them.  [that of the schedule, UTC and the "
            "local one]",
        ),
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="COUNT", min=1, max=1000, help="The number of fires.")] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Show fires from this time on; without an offset, it is in the time zone of the schedule.  [now]",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show fires before this time, which is read as --from.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Explain a schedule in words, with its next fires in several time zones, and warnings: a cron expression, an
    interval, an instant, a schedule as in a job file, or the jobs of a file.
    """
    _check_sources(expression, every, at, file, time=time, anchor=anchor)
    default = tz or settings().timezone
    if file is not None:
        found = from_file(file, job, default)
    else:
        found = [from_options(expression, every, at, {"time": time, "anchor": anchor, "tz": tz}, default, job)]
    first = None if start is None else times.wall_clock(start, "--from")
    last = None if until is None else times.wall_clock(until, "--until")
    shown = None if zones is None else named_zones(zones)
    now = times.now()
    pages = [(one, *_previewed(one, now, count, first, last, shown)) for one in found]
    answers = [answer for *_, answer in pages]

    def view() -> None:
        for n, (one, words, answer) in enumerate(pages):
            if n:
                console().print()
            preview_page(one.title, words, answer, now)

    fires = [fire for answer in answers for fire in answer["fires"]]
    show(output, answers[0] if len(answers) == 1 else answers, fires, view)


def _check_sources(*sources: object, time: str | None, anchor: str | None) -> None:
    names = ("EXPR", "--every", "--at", "--file")
    given = [name for name, value in zip(names, sources, strict=True) if value is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "nothing to explain"
        raise InvalidInput(Problem("", what, 'give one of EXPR, --every, --at and --file, such as "0 9 * * MON-FRI"'))
    for flag, value in (("--time", time), ("--anchor", anchor)):
        if value is not None and given != ["--every"]:
            raise InvalidInput(Problem(flag, "it belongs to --every", "remove it"))


def _previewed(
    one: Explained,
    now: datetime,
    count: int,
    first: datetime | None,
    last: datetime | None,
    zones: Mapping[str, tzinfo | None] | None,
) -> tuple[str, PreviewSchema]:
    """The schedule in words with its time zone, and its preview."""
    from cronflow.domain.schedule.preview import preview, zone_name
    from cronflow.schemas.schedules import preview_schema

    tz = zone_name(one.schedule)
    found = preview(one.schedule, now, count, times.in_zone(first, tz), times.in_zone(last, tz))
    answer = preview_schema(found, zones or usual_zones(tz))
    return found.words, {**answer, "notes": [*one.notes, *answer["notes"]]}
