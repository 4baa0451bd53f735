"""`cronflow calendars …`: days and windows of time that schedules share, and what a change of them means for jobs."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import connect
from cronflow.cli.connect import call, change, collect
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, note, show, show_deleted, write_json, yaml_text
from cronflow.cli.terminal.tables import Column, table_of
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.domain.schedule.calendar import Calendar
    from cronflow.schemas.calendars import AppliedCalendarSchema, CalendarPlanSchema

calendars = new_group("Share holidays and windows of time between the schedules of jobs.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the calendar.")]
Days = Annotated[
    int, typer.Option("--days", min=1, max=400, help="How many days ahead the fires of jobs are compared.")
]


@calendars.command("list")
def list_calendars(output: Output = Format.TABLE) -> None:
    """List all calendars, with how many jobs use them."""
    found = call(lambda cluster: collect(cluster.calendars.list()))

    def view() -> None:
        table_of(
            found,
            [
                (Column("CALENDAR"), lambda one: one["name"]),
                (Column("DAYS"), lambda one: str(one["day_count"])),
                (Column("WINDOWS"), lambda one: str(one["window_count"])),
                (Column("JOBS"), lambda one: str(one["job_count"])),
                (Column("ZONE", drop=1), lambda one: one["tz"] or "-"),
                (Column("DESCRIPTION", drop=2, least=10), lambda one: formatting.one_line(one["description"])),
            ],
            empty="No calendars yet. Define some: cronflow calendars apply -f calendars.yaml",
        )

    show(output, found, [one["name"] for one in found], view)


@calendars.command("show")
def show_calendar(name: Name, output: Output = Format.TABLE) -> None:
    """Show a calendar, its coming days and windows, and the jobs that use it."""
    from cronflow.cli.views.calendars import calendar_page

    found = call(lambda cluster: cluster.calendars.get(name))
    show(output, found, [name], lambda: calendar_page(found))


@calendars.command()
def apply(
    file: Annotated[list[Path], typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without applying them.")] = False,
    days: Days = 90,
    output: Output = Format.TABLE,
) -> None:
    """Create and change calendars to match the files, and edit each job that uses them. Others are left alone."""
    from cronflow.files.calendars import REMEDY, read_calendar_files

    wanted = read_calendar_files([Path("/dev/stdin") if str(path) == "-" else path for path in file])
    if not wanted:
        raise InvalidInput(Problem(str(file[0]), "has no calendars", REMEDY))
    _apply(wanted, days, output, dry_run=dry_run)


@calendars.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete a calendar. It must not be used by any job."""
    change(lambda cluster: cluster.calendars.delete(name))
    show_deleted("calendar", name, output)


@calendars.command("import")
def import_calendar(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An iCalendar file (.ics).")],
    name: Annotated[str, typer.Option("--name", help="The name of the calendar.")],
    first: Annotated[str, typer.Option("--from", metavar="DAY", help="The first day; this year's if left out.")] = "",
    last: Annotated[str, typer.Option("--to", metavar="DAY", help="The last day; ten years ahead if left out.")] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Apply the calendar instead of printing it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --apply: only print what would change.")] = False,
    days: Days = 90,
    output: Output = Format.YAML,
) -> None:
    """Convert an iCalendar file, and print the file for `cronflow calendars apply`. Repeating events are expanded from
    the first to the last day.
    """
    from cronflow.documents.calendars import calendars_document
    from cronflow.domain.names import check_name
    from cronflow.files.icalendar_file import default_range, read_icalendar

    begin, end = default_range(times.now().date())
    begin, end = _day(first, "--from", begin), _day(last, "--to", end)
    found = read_icalendar(file, check_name(name, "calendar"), begin, end)
    made = found.calendar
    reasons = [f"{count} {reason}" for reason, count in found.left_out.items() if count]
    left_out = f"; left out: {', '.join(reasons)}" if reasons else ""
    entries = f"{len(made.days):,} of days and {len(made.windows):,} of windows"
    note(f"{entries}, from {begin} to {end}{left_out}")
    if apply or dry_run:
        _apply([made], days, Format.TABLE if output is Format.YAML else output, dry_run=dry_run)
        return
    answer = calendars_document([made])
    match output:
        case Format.JSON:
            write_json(answer)
        case Format.NAME:
            typer.echo(name)
        case _:
            typer.echo(yaml_text(answer), nl=False)


def _apply(wanted: list[Calendar], days: int, output: Format, *, dry_run: bool) -> None:
    from cronflow.cli.views.calendars import plan_page
    from cronflow.documents.calendars import calendar_document

    documents = [dict(calendar_document(one)) for one in wanted]

    async def plan(cluster: Cluster) -> list[CalendarPlanSchema]:
        return [await cluster.calendars.plan(document, days=days) for document in documents]

    async def put(cluster: Cluster) -> list[AppliedCalendarSchema]:
        return [await cluster.calendars.put(document, days=days) for document in documents]

    names = [one.name for one in wanted]
    if dry_run:
        plans = call(plan)
        show(output, plans, names, lambda: plan_page(plans, times.now(), dry_run=True))
        return
    applied = connect.change(put)
    show(output, applied, names, lambda: plan_page([one["change"] for one in applied], times.now(), dry_run=False))


def _day(text: str, option: str, default: date) -> date:
    if not text:
        return default
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        raise InvalidInput(Problem(option, f"{text!r} is not a day", "write it like 2026-01-01")) from None
