"""Jobs: create, show, change, run, pause, delete and explain them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Any

from fastapi import Header, Query, Response
from pydantic import Field

from cronflow.api.access import (
    Anybody,
    Editor,
    EditorOfJobs,
    Operator,
    Viewer,
    check_args,
    check_deleted,
    check_written,
)
from cronflow.api.bodies import (
    INSTANT,
    Arguments,
    At,
    Body,
    Deployed,
    Deployment,
    Expected,
    Input,
    Instant,
    JobName,
    Uses,
    body,
    etag_of,
    reads,
    takes,
)
from cronflow.api.pagination import Cursor, Limit, cursor_of, name_key, time_key
from cronflow.api.responses import PREFIX, may, new_router
from cronflow.api.routes.runs import Brief, RunPage, RunSummaryPage, run_page
from cronflow.documents import JobForm, implicit_misfires, job_document, parse_job, parse_schedule
from cronflow.documents.schedules import ScheduleForm
from cronflow.documents.values import got, under
from cronflow.domain.access import Principal, Role
from cronflow.domain.errors import MOST_PROBLEMS, InvalidInput, NotFound, Problem
from cronflow.domain.job import Job, JobRecord, for_job
from cronflow.domain.job_health import MOST_CONDITIONS, JobHealth
from cronflow.domain.ownership import Prune, permit_all
from cronflow.domain.schedule.comparison import DAYS, MOST_DAYS
from cronflow.ports import RunQuery
from cronflow.schemas import Schema
from cronflow.schemas.job_graph import JobGraphSchema, job_graph_schema
from cronflow.schemas.job_health import JobHealthSchema, job_health_schema
from cronflow.schemas.jobs import (
    AppliedSchema,
    DeletedSchema,
    FiresSchema,
    JobSchema,
    RunTotalsSchema,
    VersionSchema,
    comparison_schema,
    deleted_schema,
    fires_schema,
    job_schema,
    run_totals_schema,
    version_schemas,
)
from cronflow.schemas.runs import AskedSchema, asked_schema
from cronflow.schemas.schedules import (
    DaysSchema,
    PreviewSchema,
    days_schema,
    preview_schema,
    run_changes_schema,
    zones_of,
)
from cronflow.schemas.summaries import JobSummarySchema, job_summary_schema
from cronflow.schemas.why import WhySchema, why_schema
from cronflow.usecases import UseCases
from cronflow.usecases.edit import ABSENT
from cronflow.usecases.run_search import RunFilter
from cronflow.usecases.search import JobFilter, labels_of

router = new_router("jobs")
outside = new_router("jobs")
"""Not below `/jobs/`, where `graph`, `health` or `names` would hide a job of this name."""

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_NAMES = 100
MOST_PLANNED = 1000
TAGGED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "The version, for If-Match.", "schema": {"type": "string"}}}}
}
EXAMPLE = {
    "name": "nightly-report",
    "schedule": {"cron": "0 2 * * *", "tz": "Europe/Berlin"},
    "run": {"python": "billing.jobs:nightly_report", "args": {"region": "eu"}},
    "labels": {"team": "billing"},
}


class JobPage(Schema):
    """Jobs, by name."""

    items: list[JobSchema]
    """May be fewer than the limit although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


class JobSummaryPage(Schema):
    """Jobs in brief, by name."""

    items: list[JobSummarySchema]
    """May be fewer than the limit although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""


class JobNamesSchema(Schema):
    """Names of jobs."""

    names: list[str]
    """Those that begin with the text, by name; then the others that contain it."""
    more: bool
    """Whether there may be more."""


class VersionPage(Schema):
    """The versions of a job, oldest first."""

    items: list[VersionSchema]
    """The versions, at most a thousand."""
    next_cursor: None
    """Always null: there is one page."""


class PlanSchema(Schema):
    """What would change."""

    jobs: list[AppliedSchema]
    """In the order of the request."""
    runs: RunTotalsSchema
    """How the runs of the coming days would change, over all jobs."""


class AppliedPage(Schema):
    """The result for each job."""

    jobs: list[AppliedSchema]
    """In the order of the request."""
    runs: RunTotalsSchema
    """How the runs of the coming days change, over all jobs."""


def _job_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidInput(f"expected a list of jobs, got {got(value)}")
    if len(value) > MOST_PLANNED:
        raise InvalidInput(f"has {len(value):,} jobs; at most {MOST_PLANNED:,} are allowed at once")
    return value


class PruneInput(Input):
    """Also delete jobs."""

    owner: Annotated[str, Field(min_length=1, max_length=200)]
    """Jobs with this value of the label `owner` are deleted unless the request contains them. Every job of the request
    must have this label."""


class PlanInput(Input, json_schema_extra={"examples": [{"jobs": [EXAMPLE]}]}):
    """Jobs to compare with the stored ones, or to replace them with."""

    jobs: Annotated[list[object], reads(_job_list, Annotated[list[JobForm], Field(max_length=MOST_PLANNED)])]
    """The jobs."""
    prune: PruneInput | None = None
    """Which other jobs are deleted; by default none."""


class RunInput(Input, json_schema_extra={"examples": [{"args": {"region": "us"}}]}):
    """How to run a job now."""

    args: Arguments = None
    """Arguments of a Python job, added to its own."""


Planned = Annotated[PlanInput, body(PlanInput)]
Days = Annotated[
    int, Query(ge=0, le=MOST_DAYS, description="How many days ahead to compare the runs; 0: do not compare them.")
]


@router.get("/jobs")
async def list_jobs(
    service: Uses,
    by: Anybody,
    q: Annotated[str, Query(max_length=200, description="Text in the name or the description, ignoring case.")] = "",
    label: Annotated[
        list[str] | None, Query(max_length=20, description="`key` or `key=value`; repeatable, all must match.")
    ] = None,
    enabled: Annotated[bool | None, Query(description="Only enabled or only disabled jobs.")] = None,
    health: Annotated[
        JobHealth | None, Query(description="Only jobs in this condition, at most a thousand; see `/job-health`.")
    ] = None,
    deleted: Annotated[bool, Query(description="Also deleted jobs, as long as they are stored.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
    brief: Annotated[bool, Query(description="Only what a list shows, so that the response is small.")] = False,
) -> JobPage | JobSummaryPage:
    """Jobs, by name. System jobs are included; their names begin with `_sys:`. A key that is limited to some jobs gets
    only these.
    """
    wanted = JobFilter(
        text=q,
        labels=labels_of(label or ()),
        enabled=enabled,
        readable=by.may_read if by.jobs else None,
        names=None if health is None else (await service.health.report()).names(health),
        deleted=deleted,
    )
    found, after = await service.search.jobs(wanted, after=name_key(cursor), limit=limit)
    next_cursor = None if after is None else cursor_of(after)
    breakers = await service.jobs.open_breakers(found)
    if brief:
        summaries = [
            job_summary_schema(record, breakers.get(record.name), mask=not by.may_change(record.job))
            for record in found
        ]
        return {"items": summaries, "next_cursor": next_cursor}
    followers = await service.graph.followers(found)
    items = [
        job_schema(
            record,
            breakers.get(record.name),
            readable(by, followers.get(record.name, ())),
            mask=not by.may_change(record.job),
        )
        for record in found
    ]
    return {"items": items, "next_cursor": next_cursor}


@router.post("/jobs", status_code=201, responses=may(409), openapi_extra=takes("JobInput", EXAMPLE))
async def create_job(service: Uses, by: EditorOfJobs, deployed: Deployed, body: Body, response: Response) -> JobSchema:
    """Create a job. 409 when the name exists. An editor needs `allow_shell` for a job that runs a command, and
    `allow_secrets` for one that uses a secret; so do all routes that write jobs.
    """
    job = parse_job(body, "", retry=deployed.retry, tz=deployed.timezone)
    check_written(by, [job])
    implicit = implicit_misfires({"": body})
    record, _ = await service.jobs.define(job, by=by.name, expected=ABSENT, implicit_misfires=implicit)
    response.headers["ETag"] = etag_of(record.ver)
    response.headers["Location"] = f"{PREFIX}/jobs/{job.name}"
    return await shown_job(service, record, by)


@router.post("/jobs/plan")
async def plan_jobs(service: Uses, by: Anybody, deployed: Deployed, asked: Planned, days: Days = DAYS) -> PlanSchema:
    """What would change if these jobs were applied, with the resulting next fire of each, and which runs of the coming
    days would appear and vanish. Nothing is written, and other jobs are not affected; with `prune`, the jobs that would
    be deleted follow. Refused if applying them would be refused to an editor.
    """
    jobs, implicit = _jobs(asked, deployed)
    if by.role is Role.EDITOR or by.jobs:
        check_written(by, jobs)
    prune = _prune(asked, by, always=by.role is Role.EDITOR or bool(by.jobs))
    found = [comparison_schema(one) for one in await service.jobs.compare(jobs, implicit, days=days, prune=prune)]
    return {"jobs": found, "runs": run_totals_schema(found)}


@router.post("/jobs/apply", responses=may(409))
async def apply_jobs(
    service: Uses, by: EditorOfJobs, deployed: Deployed, asked: Planned, days: Days = DAYS
) -> AppliedPage:
    """Create or replace several jobs; other jobs are not affected, unless `prune` names their owner: then those of its
    jobs that are not in the request are deleted. Nothing is written unless all of it is valid. 409 when one of the jobs
    keeps being changed concurrently: the others may be applied, and it is safe to apply all again.
    """
    jobs, implicit = _jobs(asked, deployed)
    check_written(by, jobs)
    prune = _prune(asked, by)
    applied = await service.jobs.applied(jobs, by=by.name, implicit_misfires=implicit, days=days, prune=prune)
    found = [comparison_schema(one) for one in applied]
    return {"jobs": found, "runs": run_totals_schema(found)}


@outside.get("/job-names")
async def job_names(
    service: Uses,
    by: Anybody,
    q: Annotated[str, Query(max_length=200, description="Text in the name.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_NAMES, description="How many at most.")] = 20,
) -> JobNamesSchema:
    """Names of jobs that contain a text, for suggestions. A request looks at up to 20,000 names, besides those that
    begin with the text. A key that is limited to some jobs gets only these.
    """
    found, more = await service.run_search.names(q.strip().lower(), limit, by.may_read if by.jobs else None)
    return {"names": found, "more": more}


@outside.get("/job-graph", responses=may(404))
async def job_graph(
    service: Uses,
    _: Viewer,
    job: Annotated[str, Query(max_length=200, description="Only the part that leads to this job or follows it.")] = "",
) -> JobGraphSchema:
    """The jobs that follow other jobs, and those that they follow."""
    return job_graph_schema(await service.graph.graph(job))


@outside.get("/job-health")
async def job_health(
    service: Uses,
    by: Anybody,
    job: Annotated[str, Query(max_length=200, description="Only this job.")] = "",
    health: Annotated[list[JobHealth] | None, Query(max_length=10, description="Only these; repeatable.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_CONDITIONS, description="At most this many of each condition.")] = 1000,
) -> JobHealthSchema:
    """The jobs that need attention, since when and why: stuck, overdue, failing and paused ones, and those that never
    ran. A key that is limited to some jobs gets only these.
    """
    report = await service.health.report()
    return job_health_schema(
        report, job=job, kinds=health or (), limit=limit, readable=by.may_read if by.jobs else None
    )


@router.get("/jobs/{name}", responses={**TAGGED, **may(404)})
async def show_job(service: Uses, by: Viewer, name: JobName, response: Response) -> JobSchema:
    """A job: its document with every default, and its state in the cluster. Passwords, tokens and keys in it are masked
    by `***` unless you may change the job; this holds for every route that returns jobs.
    """
    record = await service.jobs.get(name)
    response.headers["ETag"] = etag_of(record.ver)
    return await shown_job(service, record, by)


@router.put("/jobs/{name}", responses={**TAGGED, **may(201, 409)}, openapi_extra=takes("JobReplacement", EXAMPLE))
async def put_job(
    service: Uses, by: Editor, deployed: Deployed, name: JobName, expected: Expected, body: Body, response: Response
) -> JobSchema:
    """Create or replace a job. With `If-Match` only if it still has that version, else 409. The body may omit the
    name.
    """
    document = {"name": name, **body} if isinstance(body, Mapping) else body
    job = parse_job(document, "", retry=deployed.retry, tz=deployed.timezone)
    _check_same(job, name)
    check_written(by, [job])
    implicit = implicit_misfires({"": document})
    record, result = await service.jobs.define(job, by=by.name, expected=expected, implicit_misfires=implicit)
    response.status_code = 201 if result == "created" else 200
    response.headers["ETag"] = etag_of(record.ver)
    return await shown_job(service, record, by)


@router.patch(
    "/jobs/{name}",
    responses={**TAGGED, **may(404, 409)},
    openapi_extra=takes("JobPatch", {"schedule": {"cron": "30 3 * * *"}, "labels": {"team": None}}),
)
async def patch_job(
    service: Uses, by: Editor, name: JobName, expected: Expected, body: Body, response: Response
) -> JobSchema:
    """Change some keys of a job by a JSON merge patch (RFC 7396): a value replaces the old one, null removes a key, and
    a removed key has its default again. Schedule, target and retry are stored without their defaults, so
    `{"schedule": {"cron": null, "every": "5m"}}` turns one kind of schedule into another.
    """
    if not isinstance(body, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(body)}")

    def patched(job: Job) -> Job:
        # Like a stored document: missing keys have the defaults of the format, not those of the settings.
        made = parse_job(_merged(job_document(job, compact=True), body), "")
        _check_same(made, name)
        # Here, because it is repeated after a lost race: the job may run a command by now.
        check_written(by, [made])
        return made

    implicit = implicit_misfires({"": {**body, "name": name}})
    record = await service.jobs.amend(name, patched, by=by.name, expected=expected, implicit_misfires=implicit)
    response.headers["ETag"] = etag_of(record.ver)
    return await shown_job(service, record, by)


@router.delete("/jobs/{name}", responses=may(404, 409))
async def delete_job(service: Uses, by: Editor, name: JobName, expected: Expected) -> DeletedSchema:
    """Delete a job. Its runs and logs are kept for the retention period. 409 while other jobs follow it."""
    return deleted_schema(await service.jobs.delete(name, by=by.name, expected=expected))


@router.post(
    "/jobs/{name}/run",
    status_code=202,
    responses={200: {"model": AskedSchema, "description": "A run with this key already exists."}, **may(404)},
)
async def run_job(
    service: Uses,
    by: Operator,
    name: JobName,
    asked: Annotated[RunInput, body(RunInput)],
    response: Response,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="One run per key: 1 to 64 letters, digits and `._-`.")
    ] = None,
) -> AskedSchema:
    """Run a job now, in addition to its schedule. Repeating the request with the same `Idempotency-Key` returns the
    same run, with the arguments of the first request.
    """
    if idempotency_key is not None and not KEY.fullmatch(idempotency_key):
        what = "expected 1 to 64 letters, digits and ._-, beginning with a letter or digit"
        raise InvalidInput(Problem("Idempotency-Key", what, "a UUID is fine"))
    if asked.args:
        check_args(by, (await service.jobs.get(name)).job, asked.args)
    run, new = await service.jobs.request(name, asked.args, idempotency_key, by=by.name)
    response.status_code = 202 if new else 200
    return asked_schema(run)


@router.post("/jobs/{name}/close-breaker", responses=may(404, 409))
async def close_breaker(service: Uses, by: Operator, name: JobName) -> JobSchema:
    """Close the circuit breaker of a job: its failing runs are retried again. Nothing changes if it is closed. 422
    when the job has no breaker.
    """
    return await shown_job(service, await service.jobs.close_breaker(name, by=by.name), by)


@router.get("/jobs/{name}/next", responses=may(404))
async def next_fires(
    service: Uses,
    _: Viewer,
    name: JobName,
    n: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 10,
    first: Annotated[
        datetime | None,
        INSTANT,
        Query(alias="from", description="From this instant on, whatever is already planned; by default the next one."),
    ] = None,
    until: Annotated[datetime | None, INSTANT, Query(description="Before this instant.")] = None,
) -> FiresSchema:
    """The next fires of a job, or those of its schedule in another span of time."""
    return fires_schema(*await service.jobs.next_fires(name, n, first, until))


@router.get("/jobs/{name}/why", responses=may(404))
async def why(
    service: Uses,
    _: Viewer,
    name: JobName,
    at: At = None,
    exact: Annotated[
        bool, Query(description="Whether exactly this instant is meant, or the last fire until then.")
    ] = True,
) -> WhySchema:
    """Why a fire of a job ran, did not run, or waits: every decision from the schedule to the outcome. Deleted jobs are
    explained too, as long as they are stored.
    """
    return why_schema(await service.explain.why(name, at, exact=exact))


@router.get("/jobs/{name}/runs", responses=may(404))
async def runs_of_job(
    service: Uses, _: Viewer, name: JobName, cursor: Cursor = None, limit: Limit = 50, brief: Brief = False
) -> RunPage | RunSummaryPage:
    """The runs of a job, latest fire first; also of a deleted job, as long as its runs are kept."""
    query = RunQuery(job=name, before=time_key(cursor))
    page = await run_page(service, RunFilter(query=query), limit, brief=brief)
    if not page["items"]:
        await service.explain.versions(name)
    return page


@router.get("/jobs/{name}/days", responses=may(404))
async def days_of_job(service: Uses, _: Viewer, name: JobName) -> DaysSchema:
    """The states of a job's runs per day (UTC) over 53 weeks, as long as runs are kept and for the newest 50,000;
    also of a deleted job.
    """
    days, more = await service.jobs.days(name)
    return days_schema(name, days, more=more)


@router.get("/jobs/{name}/history", responses=may(404))
async def history(
    service: Uses,
    by: Viewer,
    name: JobName,
    calendars: Annotated[bool, Query(description="With the calendars that each schedule names, as they were.")] = False,
) -> VersionPage:
    """Every version of a job: since when, by whom, and its document; also of a deleted job."""
    versions = await service.explain.versions(name)
    shown = version_schemas(versions, mask=lambda job: not by.may_change(job), calendars=calendars)
    return {"items": shown, "next_cursor": None}


async def shown_job(service: UseCases, record: JobRecord, by: Principal) -> JobSchema:
    """The job as this principal may see it."""
    breakers = await service.jobs.open_breakers([record])
    followers = (await service.graph.followers([record])).get(record.name, ())
    return job_schema(record, breakers.get(record.name), readable(by, followers), mask=not by.may_change(record.job))


def readable(by: Principal, names: Sequence[str]) -> Sequence[str]:
    """Those of the jobs that the principal may read."""
    return [name for name in names if not by.jobs or by.may_read(name)]


def _check_same(job: Job, name: str) -> None:
    if job.name != name:
        what = f"is {job.name!r}, but the path has {name!r}"
        raise InvalidInput(Problem("name", what, "a job cannot be renamed; leave the name out"))


def _jobs(asked: PlanInput, deployed: Deployment) -> tuple[list[Job], Mapping[str, str]]:
    """The jobs, and their `implicit_misfires`. Raises InvalidInput with the first problems of any of them."""
    jobs: list[Job] = []
    problems: list[Problem] = []
    for n, document in enumerate(asked.jobs):
        if len(problems) > MOST_PROBLEMS:
            break
        try:
            jobs.append(parse_job(document, f"jobs[{n}]", retry=deployed.retry, tz=deployed.timezone))
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return jobs, implicit_misfires({f"jobs[{n}]": document for n, document in enumerate(asked.jobs)})


def _prune(asked: PlanInput, by: Principal, *, always: bool = True) -> Prune | None:
    """What the request deletes. It is refused if `by` may not delete one of the jobs, unless it would only be shown."""
    if asked.prune is None:
        return None
    return Prune(asked.prune.owner, (lambda names: check_deleted(by, names)) if always else permit_all)


def _merged(target: object, patch: object) -> object:
    """RFC 7396, section 2."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


schedules = new_router("schedules")

PREVIEW = {"schedule": {"cron": "0 9 * * MON#2", "tz": "Europe/Berlin"}, "count": 3}


def _schedule_document(value: object) -> object:
    """The document, once it is valid; the settings complete it later."""
    parse_schedule(value, "")
    return value


class PreviewInput(Input, json_schema_extra={"examples": [PREVIEW]}):
    """A schedule, as in a job."""

    schedule: Annotated[object, reads(_schedule_document, ScheduleForm)]
    """The schedule."""
    count: Annotated[int, Field(ge=1, le=100)] = 10
    """How many fires."""
    start: Instant = None
    """Fires from this instant on; by default from now."""
    until: Instant = None
    """Fires before this instant."""
    zones: Annotated[list[str], Field(max_length=10, default_factory=list)]
    """Time zones of the rows; by default that of the schedule, and UTC."""
    job: Annotated[str | None, Field(max_length=200)] = None
    """A job that might get the schedule: `changes` shows how its runs would change."""
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = DAYS
    """How many days ahead to compare the runs."""


@schedules.post("/schedules/preview", responses=may(404))
async def preview_schedule(
    service: Uses, by: Viewer, deployed: Deployed, asked: Annotated[PreviewInput, body(PreviewInput)]
) -> PreviewSchema:
    """What a schedule means: in words, its next fires in several time zones, and warnings; for a job also which of its
    runs would appear and vanish. 404 when there is no such job.
    """
    schedule = parse_schedule(asked.schedule, tz=deployed.timezone)
    if asked.job is not None:
        schedule = for_job(schedule, asked.job)
    zones = _zones(asked.zones)
    found = preview_schema(await service.jobs.preview(schedule, asked.count, asked.start, asked.until), zones)
    if asked.job is not None:
        if by.jobs and not by.may_read(asked.job):
            raise NotFound("job", asked.job)
        changes = await service.jobs.preview_change(asked.job, schedule, asked.days)
        found["changes"] = None if changes is None else run_changes_schema(changes)
    return found


def _zones(names: Sequence[str]) -> Mapping[str, tzinfo | None] | None:
    try:
        return zones_of(names) or None
    except InvalidInput as error:
        raise InvalidInput(under("zones", error.problems)) from None
