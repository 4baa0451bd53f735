"""Jobs: define, look at, change, run, pause and delete them; ask why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from fastapi import Header, Query, Response

from cronflow.api.access import Admin, Operator, Viewer
from cronflow.api.bodies import At, Body, Deployed, Deployment, Expected, JobName, Uses, etag_of, fields_of, takes
from cronflow.api.pagination import Cursor, Limit, cursor_of, name_key, time_key
from cronflow.api.responses import PREFIX, may, new_router
from cronflow.api.routes.runs import RunPage, run_page
from cronflow.documents import job_document, parse_job
from cronflow.documents.values import got, json_mapping
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.ports import RunQuery
from cronflow.schemas import Schema
from cronflow.schemas.jobs import (
    AppliedSchema,
    DeletedSchema,
    FiresSchema,
    JobSchema,
    VersionSchema,
    comparison_schema,
    deleted_schema,
    fires_schema,
    job_schema,
    version_schema,
)
from cronflow.schemas.runs import AskedSchema, asked_schema
from cronflow.schemas.schedules import DaysSchema, days_schema
from cronflow.schemas.why import WhySchema, why_schema
from cronflow.usecases.edit import ABSENT
from cronflow.usecases.search import JobFilter

router = new_router("jobs")

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
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
    """They may be fewer than the limit although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


class VersionPage(Schema):
    """The versions of a job, the oldest first."""

    items: list[VersionSchema]
    """All of them, at most a thousand."""
    next_cursor: None
    """There is one page."""


class PlanSchema(Schema):
    """What would change."""

    jobs: list[AppliedSchema]
    """In the order in which they were given."""


class AppliedPage(Schema):
    """What became of the jobs."""

    jobs: list[AppliedSchema]
    """In the order in which they were given."""


class RunInput(Schema):
    """How to run a job now."""

    args: NotRequired[dict[str, object]]
    """Arguments of a Python job, beside its own."""


@router.get("/jobs")
async def list_jobs(
    service: Uses,
    _: Viewer,
    q: Annotated[str, Query(max_length=200, description="In the name or the description, in any case.")] = "",
    label: Annotated[
        list[str] | None, Query(max_length=20, description="`key` or `key=value`; all of several.")
    ] = None,
    enabled: Annotated[bool | None, Query(description="Those that are enabled, or those that are not.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> JobPage:
    """Jobs, by name. The system's own are among them; their names begin with `_sys:`."""
    labels = {key: value if equals else None for key, equals, value in (one.partition("=") for one in label or ())}
    wanted = JobFilter(text=q, labels=labels, enabled=enabled)
    found, after = await service.search.jobs(wanted, after=name_key(cursor), limit=limit)
    return {
        "items": [job_schema(record) for record in found],
        "next_cursor": None if after is None else cursor_of(after),
    }


@router.post("/jobs", status_code=201, responses=may(409), openapi_extra=takes("JobInput", EXAMPLE))
async def create_job(service: Uses, by: Admin, deployed: Deployed, body: Body, response: Response) -> JobSchema:
    """Define a new job. 409 when the name exists."""
    job = parse_job(body, "", retry=deployed.retry)
    record, _ = await service.jobs.define(job, by=by.name, expected=ABSENT)
    response.headers["ETag"] = etag_of(record.ver)
    response.headers["Location"] = f"{PREFIX}/jobs/{job.name}"
    return job_schema(record)


@router.post("/jobs/plan", openapi_extra=takes("PlanInput", {"jobs": [EXAMPLE]}))
async def plan_jobs(service: Uses, _: Viewer, deployed: Deployed, body: Body) -> PlanSchema:
    """What would change if these jobs were applied, with the next fire of each as it would then be. Nothing is
    written; jobs that are not named stay as they are.
    """
    jobs = _jobs(body, deployed)
    return {"jobs": [comparison_schema(comparison) for comparison in await service.jobs.compare(jobs)]}


@router.post("/jobs/apply", responses=may(409), openapi_extra=takes("PlanInput", {"jobs": [EXAMPLE]}))
async def apply_jobs(service: Uses, by: Admin, deployed: Deployed, body: Body) -> AppliedPage:
    """Create or replace several jobs; those that are not named stay as they are. Nothing is written unless all can be
    accepted. 409 when somebody else keeps changing one of them meanwhile: those before it stand, and applying all of
    them again is harmless.
    """
    jobs = _jobs(body, deployed)
    return {"jobs": [comparison_schema(comparison) for comparison in await service.jobs.applied(jobs, by=by.name)]}


@router.get("/jobs/{name}", responses={**TAGGED, **may(404)})
async def show_job(service: Uses, _: Viewer, name: JobName, response: Response) -> JobSchema:
    """A job: its document with every default, and what the cluster keeps of it."""
    record = await service.jobs.get(name)
    response.headers["ETag"] = etag_of(record.ver)
    return job_schema(record)


@router.put("/jobs/{name}", responses={**TAGGED, **may(201, 409)}, openapi_extra=takes("JobReplacement", EXAMPLE))
async def put_job(
    service: Uses, by: Admin, deployed: Deployed, name: JobName, expected: Expected, body: Body, response: Response
) -> JobSchema:
    """Create or replace a job. With `If-Match` only if it is still at that version: else 409, and nothing is changed.
    The body may leave the name out.
    """
    document = {"name": name, **body} if isinstance(body, Mapping) else body
    job = parse_job(document, "", retry=deployed.retry)
    _check_same(job, name)
    record, result = await service.jobs.define(job, by=by.name, expected=expected)
    response.status_code = 201 if result == "created" else 200
    response.headers["ETag"] = etag_of(record.ver)
    return job_schema(record)


@router.patch(
    "/jobs/{name}",
    responses={**TAGGED, **may(404, 409)},
    openapi_extra=takes("JobPatch", {"schedule": {"cron": "30 3 * * *"}, "labels": {"team": None}}),
)
async def patch_job(
    service: Uses, by: Admin, name: JobName, expected: Expected, body: Body, response: Response
) -> JobSchema:
    """Change a part of a job by a JSON merge patch (RFC 7396): what is given replaces what was, null removes it, and
    what is removed has its default again. The schedule, the target and the retry are kept without their defaults, so
    `{"schedule": {"cron": null, "every": "5m"}}` turns one kind of schedule into another.
    """
    if not isinstance(body, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(body)}")

    def patched(job: Job) -> Job:
        # As a stored one is read: what it leaves out has the defaults of the format, not those of today's settings.
        made = parse_job(_merged(job_document(job, compact=True), body), "")
        _check_same(made, name)
        return made

    record = await service.jobs.amend(name, patched, by=by.name, expected=expected)
    response.headers["ETag"] = etag_of(record.ver)
    return job_schema(record)


@router.delete("/jobs/{name}", responses=may(404, 409))
async def delete_job(service: Uses, by: Admin, name: JobName, expected: Expected) -> DeletedSchema:
    """Remove a job. Its runs and logs stay until their time is over."""
    return deleted_schema(await service.jobs.delete(name, by=by.name, expected=expected))


@router.post(
    "/jobs/{name}/run",
    status_code=202,
    responses={200: {"model": AskedSchema, "description": "The run of this key exists already."}, **may(404)},
    openapi_extra=takes("RunInput", {"args": {"region": "us"}}, required=False),
)
async def run_job(
    service: Uses,
    by: Operator,
    name: JobName,
    body: Body,
    response: Response,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="One key, one run: 1 to 64 letters, digits and `._-`.")
    ] = None,
) -> AskedSchema:
    """Run a job now, beside its schedule. Whoever repeats the request with the same `Idempotency-Key` gets the same
    run, and it runs once; its arguments are those of the first request.
    """
    args = fields_of(body, {"args": json_mapping}).get("args")
    if idempotency_key is not None and not KEY.fullmatch(idempotency_key):
        what = "expected 1 to 64 letters, digits and ._-, beginning with a letter or digit"
        raise InvalidInput(Problem("Idempotency-Key", what, "a UUID is fine"))
    if args and not (await service.jobs.get(name)).job.takes_args:
        raise InvalidInput(Problem("args", f"{name} is not a Python job, so they would have no effect", "remove them"))
    run, new = await service.jobs.request(name, args, idempotency_key, by=by.name)
    response.status_code = 202 if new else 200
    return asked_schema(run)


@router.post("/jobs/{name}/pause", responses=may(404, 409))
async def pause_job(service: Uses, by: Operator, name: JobName) -> JobSchema:
    """Plan no more fires of a job, until it is resumed. What runs goes on."""
    return job_schema(await service.jobs.pause(name, by=by.name))


@router.post("/jobs/{name}/resume", responses=may(404, 409))
async def resume_job(service: Uses, by: Operator, name: JobName) -> JobSchema:
    """Go on with the next fire; those that fell due meanwhile are recorded as skipped."""
    return job_schema(await service.jobs.resume(name, by=by.name))


@router.get("/jobs/{name}/next", responses=may(404))
async def next_fires(
    service: Uses,
    _: Viewer,
    name: JobName,
    n: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 10,
) -> FiresSchema:
    """The next instants at which a job falls due."""
    return fires_schema(await service.jobs.get(name), await service.jobs.next_fires(name, n))


@router.get("/jobs/{name}/why", responses=may(404))
async def why(
    service: Uses,
    _: Viewer,
    name: JobName,
    at: At = None,
    exact: Annotated[
        bool, Query(description="Whether that very instant is meant, or the last that fell due until then.")
    ] = True,
) -> WhySchema:
    """Why an instant of a job ran, did not run, or waits: what was decided, from the schedule to the outcome. Deleted
    jobs are explained too, as long as they are remembered.
    """
    return why_schema(await service.explain.why(name, at, exact=exact))


@router.get("/jobs/{name}/runs", responses=may(404))
async def runs_of_job(service: Uses, _: Viewer, name: JobName, cursor: Cursor = None, limit: Limit = 50) -> RunPage:
    """The runs of a job, those that fell due last first; also of a deleted one, while its runs are kept."""
    page = await run_page(service, RunQuery(job=name, before=time_key(cursor)), limit)
    if not page["items"]:
        await service.explain.versions(name)
    return page


@router.get("/jobs/{name}/days", responses=may(404))
async def days_of_job(service: Uses, _: Viewer, name: JobName) -> DaysSchema:
    """How the runs of a job stand, day by day in UTC, over 53 weeks: as far back as runs are kept, and the newest
    50,000 of them; also of a deleted job.
    """
    days, more = await service.jobs.days(name)
    return days_schema(name, days, more=more)


@router.get("/jobs/{name}/history", responses=may(404))
async def history(service: Uses, _: Viewer, name: JobName) -> VersionPage:
    """Every version of a job: when it began, who made it, and what it says; also of a deleted one."""
    return {"items": [version_schema(version) for version in await service.explain.versions(name)], "next_cursor": None}


def _check_same(job: Job, name: str) -> None:
    if job.name != name:
        what = f"is {job.name!r}, but the path says {name!r}"
        raise InvalidInput(Problem("name", what, "a job cannot be renamed; leave the name out"))


def _jobs(body: object, deployed: Deployment) -> list[Job]:
    """Raises InvalidInput with what is wrong with any of them."""
    jobs: list[Job] = []
    problems: list[Problem] = []
    for n, document in enumerate(fields_of(body, {"jobs": _list}, ["jobs"])["jobs"]):
        try:
            jobs.append(parse_job(document, f"jobs[{n}]", retry=deployed.retry))
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return jobs


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidInput(f"expected a list of jobs, got {got(value)}")
    if len(value) > MOST_PLANNED:
        raise InvalidInput(f"has {len(value):,} jobs; at most {MOST_PLANNED:,} are taken at once")
    return value


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
