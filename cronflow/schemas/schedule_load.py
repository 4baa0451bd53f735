"""The schedule load per minute, and plans to spread jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cronflow.domain.schedule.load import HOUR, MINUTE, MINUTES, WEEK_HOURS, ScheduleLoad, levels
from cronflow.domain.spread import LoadPicture, MinuteMove, SpreadBy
from cronflow.schemas import Schema, iso
from cronflow.schemas.schedules import SlotSchema, slot_schema

if TYPE_CHECKING:
    from cronflow.usecases.schedule_load import ScheduleLoadReport
    from cronflow.usecases.spread import SpreadProposal

BUSIEST = 10
NAMED_PER_HOUR = 5
NAMED_PER_REASON = 5


class BusyMinuteSchema(Schema):
    """The starts in one minute."""

    at: str
    """The minute."""
    starts: int
    """How many runs start in it."""
    jobs: int
    """How many jobs they belong to."""
    names: list[str]
    """The first of these jobs by name, at most ten."""


class LoadHourSchema(Schema):
    """One hour of the week."""

    starts: int
    """Starts in this hour."""
    peak: int
    """Starts in its busiest minute."""
    minute: int | None
    """Its busiest minute, 0 to 59; null: nothing starts in this hour."""
    jobs: int
    """Jobs that start in the busiest minute."""
    names: list[str]
    """The first of these jobs by name, at most five."""


class WeekLoadSchema(Schema):
    """The starts in each minute of the next seven days."""

    first: str
    """Start of the week: the current hour."""
    starts: int
    """All starts of the week that are counted."""
    jobs: int
    """Jobs that are counted."""
    left_out: int
    """Jobs that are not counted because they start more often than every 5 minutes."""
    uncounted: int
    """Jobs that are not counted because their starts depend on when their runs end, or take too long to find."""
    more: bool
    """Whether there are more than 100,000 jobs, and the rest is not counted."""
    levels: list[int]
    """The 25th, 50th, 75th and 95th percentile of the busiest minutes of the hours, hours without starts left out:
    limits for five colours. Empty when nothing starts."""
    hours: list[LoadHourSchema]
    """The 168 hours from `first` on."""
    busiest: list[BusyMinuteSchema]
    """The busiest minutes of the week, at most ten."""
    hour: list[BusyMinuteSchema] | None
    """The minutes of the requested hour in which something starts; null: none was requested."""
    slot: SlotSchema | None
    """Rank of the requested schedule; null: none was requested, or it does not fire at a single minute."""


class LoadPictureSchema(Schema):
    """The load of a week, before or after a change."""

    at: str
    """Its busiest minute."""
    peak: int
    """Starts in that minute."""
    peaks: list[int]
    """Starts in the busiest minute of each of the 168 hours."""
    hour: str
    """The hour that was the busiest before the change."""
    minutes: list[int]
    """Starts in each minute of that hour."""


class MinuteMoveSchema(Schema):
    """A job that gets another minute."""

    job: str
    """The job."""
    version: int
    """Its version: before the change, or after it when the moves are applied."""
    before: str
    """Its cron expression."""
    after: str
    """The same expression at another minute."""


class StayingSchema(Schema):
    """Jobs that stay where they are."""

    why: str
    """The reason."""
    jobs: int
    """How many jobs."""
    names: list[str]
    """The first of them by name, at most five."""


class SpreadSchema(Schema):
    """Other minutes for jobs that start together."""

    applied: bool
    """Whether the moves are written."""
    by: SpreadBy
    """How the minutes were chosen."""
    first: str
    """Start of the week that is compared."""
    selected: int
    """Jobs with a schedule that match."""
    more: bool
    """Whether more jobs could be moved: a plan has at most 1,000 moves."""
    moves: list[MinuteMoveSchema]
    """The jobs that move, by name."""
    left_out: list[StayingSchema]
    """The jobs that stay, by reason."""
    before: LoadPictureSchema
    """The load of all jobs as it is."""
    after: LoadPictureSchema
    """The load of all jobs with the moves."""


class MovedPage(Schema):
    """Moves that are written."""

    moves: list[MinuteMoveSchema]
    """The jobs with their new versions, in the order of the request."""


def week_load_schema(report: ScheduleLoadReport) -> WeekLoadSchema:
    load = report.schedule_load
    starts = load.minutes()
    hours = [_hour(load, starts, hour) for hour in range(WEEK_HOURS)]
    wanted = None if report.hour is None else range(report.hour * MINUTES, (report.hour + 1) * MINUTES)
    return {
        "first": iso(load.first),
        "starts": sum(starts),
        "jobs": load.jobs,
        "left_out": load.left_out,
        "uncounted": load.uncounted,
        "more": report.more,
        "levels": levels(hour["peak"] for hour in hours),
        "hours": hours,
        "busiest": [_busy(load, starts, minute) for minute in load.busiest(BUSIEST)],
        "hour": None if wanted is None else [_busy(load, starts, minute) for minute in wanted if starts[minute]],
        "slot": None if report.slot is None else slot_schema(report.slot),
    }


def spread_schema(proposal: SpreadProposal, by: SpreadBy) -> SpreadSchema:
    plan = proposal.plan
    return {
        "applied": proposal.applied,
        "by": by,
        "first": iso(plan.first),
        "selected": proposal.selected,
        "more": proposal.more,
        "moves": [minute_move_schema(move) for move in plan.moves],
        "left_out": [
            {"why": why, "jobs": found.jobs, "names": found.names[:NAMED_PER_REASON]}
            for why, found in plan.left_out.items()
        ],
        "before": _picture(plan.before, plan.first),
        "after": _picture(plan.after, plan.first),
    }


def minute_move_schema(move: MinuteMove) -> MinuteMoveSchema:
    return {"job": move.job, "version": move.version, "before": move.before, "after": move.after}


def _hour(load: ScheduleLoad, starts: Sequence[int], hour: int) -> LoadHourSchema:
    minutes = starts[hour * MINUTES : (hour + 1) * MINUTES]
    peak = max(minutes)
    minute = minutes.index(peak)
    jobs, names = load.jobs_at(hour * MINUTES + minute)
    return {
        "starts": sum(minutes),
        "peak": peak,
        "minute": minute if peak else None,
        "jobs": jobs,
        "names": list(names[:NAMED_PER_HOUR]),
    }


def _busy(load: ScheduleLoad, starts: Sequence[int], minute: int) -> BusyMinuteSchema:
    jobs, names = load.jobs_at(minute)
    return {"at": iso(load.first + minute * MINUTE), "starts": starts[minute], "jobs": jobs, "names": list(names)}


def _picture(picture: LoadPicture, first: datetime) -> LoadPictureSchema:
    return {
        "at": iso(first + picture.busiest * MINUTE),
        "peak": picture.peak,
        "peaks": list(picture.peaks),
        "hour": iso(first + picture.shown * HOUR),
        "minutes": list(picture.minutes),
    }
