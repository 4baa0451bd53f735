"""Views of calendars: their coming days, and what a change of them means for jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, facts, table, table_of

if TYPE_CHECKING:
    from cronflow.documents.calendars import WindowForm
    from cronflow.schemas.calendars import CalendarPlanSchema, CalendarSchema, JobEffectSchema

SHOWN_JOBS = 10
SHOWN_FIRES = 5


def calendar_page(calendar: CalendarSchema) -> None:
    """A calendar."""
    by = formatting.clean(calendar["updated_by"] or "")
    facts(
        [
            ("calendar", calendar["name"]),
            ("description", formatting.clean(calendar["description"]) or "-"),
            ("zone", calendar["tz"] or "that of each schedule"),
            ("revision", f"{calendar['revision']}, {times.absolute(calendar['updated_at'])} {by}".rstrip()),
            ("used by", _jobs(calendar)),
        ]
    )
    rows = [(_day(one["day"]), one["name"]) for one in calendar["coming_days"]]
    rows += [(_hours(one), one["name"]) for one in calendar["windows"] if _is_weekly(one)]
    rows += [
        (f"{times.absolute(one['start'])} to {times.absolute(one['end'])}", one["name"])
        for one in calendar["coming_windows"]
    ]
    console().print()
    table_of(
        rows,
        [(Column("COMING"), lambda row: row[0]), (Column("NAME", least=10), lambda row: formatting.one_line(row[1]))],
        empty="No days or windows in the next two years.",
    )


def plan_page(plans: Sequence[CalendarPlanSchema], now: datetime, *, dry_run: bool) -> None:
    """What a change of calendars does, or would do."""
    columns = [Column("RESULT"), Column("CALENDAR"), Column("JOBS")]
    table(columns, [[formatting.word(one["result"]), one["name"], str(one["job_count"])] for one in plans])
    for plan in plans:
        for effect in plan["effects"]:
            console().print()
            _effect(effect, now)
        if plan["result"] != "unchanged" and plan["job_count"]:
            console().print()
            console().print(_summary(plan, dry_run=dry_run))


def _summary(plan: CalendarPlanSchema, *, dry_run: bool) -> str:
    compared, count, changed = plan["compared"], plan["job_count"], len(plan["effects"])
    looked = f"the first {compared} of {count} jobs" if compared < count else formatting.plural(count, "job")
    would = "would change" if dry_run else "change"
    return f"{plan['name']}: fires of {changed} of {looked} {would} in the next {plan['days']} days"


def _effect(effect: JobEffectSchema, now: datetime) -> None:
    before, after = effect["next_before"], effect["next_after"]
    runs = "no next run" if after is None else f"next run {times.both(after, now)}"
    was = "" if before == after else f" (was {'none' if before is None else times.absolute(before)})"
    console().print(f"{effect['job']}: {runs}{was}")
    for skipped in effect["skipped"][:SHOWN_FIRES]:
        console().print(f"  - {_fire(skipped['fire'])}  skipped: {formatting.clean(skipped['reason'])}")
    for fire in effect["allowed"][:SHOWN_FIRES]:
        console().print(f"  + {_fire(fire)}  runs")
    more = max(0, len(effect["skipped"]) - SHOWN_FIRES) + max(0, len(effect["allowed"]) - SHOWN_FIRES)
    if more or effect["more"]:
        console().print(f"  and {f'at least {more} ' if effect['more'] and more else f'{more} ' if more else ''}more")


def _fire(instant: str) -> str:
    return f"{times.parsed(instant):%a} {times.absolute(instant)}"


def _jobs(calendar: CalendarSchema) -> str:
    shown = ", ".join(calendar["jobs"][:SHOWN_JOBS])
    more = calendar["job_count"] - min(SHOWN_JOBS, len(calendar["jobs"]))
    return f"{shown} and {more} more" if more else shown or "no job"


def _day(day: str) -> str:
    return f"{date.fromisoformat(day):%a %d %b %Y}"


def _is_weekly(window: WindowForm) -> bool:
    return "T" not in window["start"]


def _hours(window: WindowForm) -> str:
    return f"{window.get('days') or 'every day'} {window['start']} to {window['end']}"
