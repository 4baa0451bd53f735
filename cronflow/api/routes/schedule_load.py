"""The schedule load of the next seven days, and spreading jobs that start together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from fastapi import Query
from pydantic import Field, model_validator

from cronflow.api.access import EditorOfJobs, NotAllowed, Viewer, check_written
from cronflow.api.bodies import Deployed, HourAt, Input, Text, Uses, body, reads, refused
from cronflow.api.responses import may, new_router
from cronflow.documents import parse_schedule
from cronflow.documents.values import choice, list_of, text
from cronflow.domain.access import Role
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.kinds import Schedule
from cronflow.domain.spread import MinuteMove, SpreadBy
from cronflow.schemas.schedule_load import (
    MovedPage,
    SpreadSchema,
    WeekLoadSchema,
    minute_move_schema,
    spread_schema,
    week_load_schema,
)
from cronflow.schemas.schedules import ScheduleLoadSchema, schedule_load_schema
from cronflow.usecases.schedule_load import MOST_MOVES
from cronflow.usecases.search import JobFilter, labels_of

schedules = new_router("schedules")
router = new_router("jobs")

LONGEST_PATTERN = 200

_labels = list_of(text, "labels")

JobOfLoad = Annotated[str | None, Query(max_length=200, description="Compare this job with the others.")]
CronOfLoad = Annotated[str | None, Query(max_length=500, description="Compare this expression with the jobs.")]
ZoneOfLoad = Annotated[
    str | None, Query(max_length=100, description="The time zone of `cron`; by default that of the settings.")
]


class SpreadInput(Input, json_schema_extra={"examples": [{"label": ["team=billing"], "dry_run": True}]}):
    """Which jobs, and how. At least one of `name` and `label` is required; both must match."""

    name: Text = None
    """A pattern for the name, such as `etl-*`; `*` matches every job."""
    label: Annotated[Sequence[str], reads(_labels, list[str])] = ()
    """`key` or `key=value`."""
    by: Annotated[SpreadBy, reads(choice(SpreadBy), SpreadBy)] = SpreadBy.SHIFT
    """`shift`: each job moves to the quietest minute of its hours. `hash`: it gets `H`, a minute that follows from its
    name."""
    dry_run: bool = False
    """Only return the plan."""

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if len(self.name or "") > LONGEST_PATTERN:
            what = f"has {len(self.name or ''):,} characters"
            raise refused(Problem("name", what, f"write a pattern of at most {LONGEST_PATTERN}"))
        if not self.name and not self.label:
            raise refused(Problem("", "no jobs are selected", 'give a name or a label, or name: "*" for all jobs'))
        return self

    def wanted(self) -> JobFilter:
        return JobFilter(name=self.name or "", labels=labels_of(self.label))


class MoveInput(Input):
    """Another minute for a job."""

    job: str
    """The job."""
    version: Annotated[int, Field(ge=1)]
    """Its version in the plan."""
    cron: str
    """Its expression at another minute: `after` in the plan."""


class MovesInput(
    Input, json_schema_extra={"examples": [{"moves": [{"job": "nightly-report", "version": 3, "cron": "17 2 * * *"}]}]}
):
    """The moves of a plan."""

    moves: Annotated[list[MoveInput], Field(max_length=MOST_MOVES)]
    """The moves."""


@schedules.get("/schedules/load", responses=may(404))
async def week_load(
    service: Uses,
    _: Viewer,
    deployed: Deployed,
    frequent: Annotated[bool, Query(description="Also count jobs that start more often than every 5 minutes.")] = False,
    name: Annotated[str, Query(max_length=200, description="Only jobs whose name matches, such as `etl-*`.")] = "",
    label: Annotated[
        list[str] | None, Query(max_length=20, description="`key` or `key=value`; repeatable, all must match.")
    ] = None,
    hour: HourAt = None,
    job: JobOfLoad = None,
    cron: CronOfLoad = None,
    tz: ZoneOfLoad = None,
) -> WeekLoadSchema:
    """The starts of jobs in each minute of the next seven days, with the names of the jobs in the busiest minutes. With
    `job` or `cron` also how many share its minute, and a quieter minute. At most 100,000 jobs are read; above 5,000
    jobs an answer may be some seconds old.
    """
    wanted = JobFilter(name=name, labels=labels_of(label or ()))
    schedule = _compared(job, cron, tz or deployed.timezone)
    report = await service.schedule_load.report(wanted, frequent=frequent, name=job or "", schedule=schedule, hour=hour)
    return week_load_schema(report)


@schedules.get("/schedules/herd", responses=may(404), deprecated=True)
async def schedule_load(
    service: Uses, _: Viewer, deployed: Deployed, job: JobOfLoad = None, cron: CronOfLoad = None, tz: ZoneOfLoad = None
) -> ScheduleLoadSchema:
    """The starts of all jobs in the coming week, hour by hour. `GET /schedules/load` has them minute by minute, and
    names the jobs.
    """
    schedule = _compared(job, cron, tz or deployed.timezone)
    return schedule_load_schema(await service.schedule_load.report(frequent=True, name=job or "", schedule=schedule))


@router.post("/jobs/spread", responses=may(409))
async def spread_jobs(
    service: Uses, by: EditorOfJobs, asked: Annotated[SpreadInput, body(SpreadInput)]
) -> SpreadSchema:
    """Move jobs that start together to quieter minutes of their hours, as one change: all jobs move, or none does. Only
    jobs with a cron schedule at one fixed minute move. With `dry_run` the answer is a plan, which
    `POST /jobs/spread/apply` writes. 409 when a job is changed meanwhile; planning again is safe.
    """
    if not by.may_read(None):
        raise NotAllowed(Role.EDITOR, by, f"{by.name} may only access some jobs, but the load covers all jobs")
    if asked.dry_run:
        found = await service.spread.propose(asked.wanted(), asked.by, by.may_change)
    else:
        found = await service.spread.spread(asked.wanted(), asked.by, by.may_change, by=by.name)
    return spread_schema(found, asked.by)


@router.post("/jobs/spread/apply", responses=may(404, 409))
async def apply_moves(service: Uses, by: EditorOfJobs, asked: Annotated[MovesInput, body(MovesInput)]) -> MovedPage:
    """Write the moves of a plan as one change. 409 when a job has neither the version nor the expression of its move:
    then nothing is written. Moves may also be undone: send the old expressions with the new versions.
    """
    moves = [MinuteMove(move.job, move.version, "", move.cron) for move in asked.moves]
    done = await service.spread.apply(moves, lambda jobs: check_written(by, jobs), by=by.name)
    return {"moves": [minute_move_schema(move) for move in done]}


def _compared(job: str | None, cron: str | None, tz: str) -> Schedule | None:
    if job is not None and cron is not None:
        raise InvalidInput(Problem("cron", "cannot be combined with job", "use one of the two"))
    return None if cron is None else parse_schedule({"cron": cron, "tz": tz})
