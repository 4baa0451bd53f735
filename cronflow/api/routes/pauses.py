"""Pausing and resuming jobs, one or many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from cronflow.api.access import Operator
from cronflow.api.bodies import Input, Instant, JobName, Note, Text, Uses, body, reads, refused
from cronflow.api.pagination import MOST, cursor_of, name_key
from cronflow.api.responses import may, new_router
from cronflow.api.routes.jobs import shown_job
from cronflow.documents.values import list_of, text
from cronflow.domain.errors import Conflict, NotFound, Problem
from cronflow.domain.job import SYSTEM_PREFIX, JobRecord
from cronflow.schemas import Schema
from cronflow.schemas.jobs import JobSchema, JobState, job_state
from cronflow.usecases import UseCases
from cronflow.usecases.search import JobFilter, labels_of

router = new_router("jobs")

_labels = list_of(text, "labels")


class PauseInput(Input, json_schema_extra={"examples": [{"note": "target is down", "until": "2026-11-22T06:00:00Z"}]}):
    """Why, and until when."""

    note: Note = ""
    """Stored with the job."""
    until: Instant = None
    """When the pause ends by itself; null: when somebody resumes the job."""


class JobFilterInput(Input):
    """Which jobs; all fields must match. At least one is required. System jobs never match."""

    name: Text = None
    """A pattern for the name, such as `etl-*`; `*` matches every job."""
    q: Text = None
    """Text in the name or the description, ignoring case."""
    label: Annotated[Sequence[str], reads(_labels, list[str])] = ()
    """`key` or `key=value`."""
    enabled: bool | None = None
    """Only enabled or only disabled jobs."""

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if not self.model_fields_set:
            fields = ", ".join(type(self).model_fields)
            raise refused(
                Problem("", "is empty and would match every job", f'give at least one of {fields}, or name: "*"')
            )
        return self

    def wanted(self) -> JobFilter:
        return JobFilter(
            text=self.q or "",
            name=self.name or "",
            labels=labels_of(self.label),
            enabled=self.enabled,
            readable=lambda name: not name.startswith(SYSTEM_PREFIX),
        )


class BulkJobsInput(Input):
    """Which jobs, and how many at most; `next_cursor` of the response leads to the next ones."""

    filter: JobFilterInput
    """Which jobs."""
    dry_run: bool = False
    """Only return the jobs that match."""
    cursor: Text = None
    """`next_cursor` of the previous response."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """How many at most."""


BULK_PAUSE = {"filter": {"label": ["team=billing"]}, "note": "target is down", "until": "2026-11-22T06:00:00Z"}


class BulkPauseInput(BulkJobsInput, json_schema_extra={"examples": [BULK_PAUSE]}):
    """Which jobs to pause."""

    note: Note = ""
    """Stored with the jobs."""
    until: Instant = None
    """When the pauses end by themselves; null: when somebody resumes the jobs."""


class BulkResumeInput(BulkJobsInput, json_schema_extra={"examples": [{"filter": {"name": "etl-*"}}]}):
    """Which jobs to resume."""


class JobStateSchema(Schema):
    """A job and its state."""

    name: str
    """The job."""
    state: JobState
    """Its state now."""


class UnchangedJobSchema(Schema):
    """A job that was not changed."""

    name: str
    """The job."""
    why: str
    """The reason."""


class JobStatePage(Schema):
    """The jobs that match, by name."""

    items: list[JobStateSchema]
    """The jobs, as they are now."""
    skipped: list[UnchangedJobSchema]
    """Jobs that were deleted, or kept being changed, in the meantime."""
    next_cursor: str | None
    """For the next call; null: no more jobs match."""


@router.post("/jobs/{name}/pause", responses=may(404, 409))
async def pause_job(
    service: Uses, by: Operator, name: JobName, asked: Annotated[PauseInput, body(PauseInput)]
) -> JobSchema:
    """Plan no more fires of a job until it is resumed, or until an instant. Running jobs continue. A paused job gets
    the new note and end.
    """
    record = await service.jobs.pause(name, by=by.name, note=asked.note, until=asked.until)
    return await shown_job(service, record, by)


@router.post("/jobs/{name}/resume", responses=may(404, 409))
async def resume_job(service: Uses, by: Operator, name: JobName) -> JobSchema:
    """Continue with the next fire; fires that were due in the meantime are recorded as skipped."""
    return await shown_job(service, await service.jobs.resume(name, by=by.name), by)


@router.post("/jobs/pause")
async def pause_jobs(
    service: Uses, by: Operator, asked: Annotated[BulkPauseInput, body(BulkPauseInput)]
) -> JobStatePage:
    """Pause the jobs that match, by name."""

    def pause(name: str) -> Awaitable[JobRecord]:
        return service.jobs.pause(name, by=by.name, note=asked.note, until=asked.until)

    return await _change_all(service, asked, pause)


@router.post("/jobs/resume")
async def resume_jobs(
    service: Uses, by: Operator, asked: Annotated[BulkResumeInput, body(BulkResumeInput)]
) -> JobStatePage:
    """Resume the jobs that match, by name."""
    return await _change_all(service, asked, lambda name: service.jobs.resume(name, by=by.name))


async def _change_all(
    service: UseCases, asked: BulkJobsInput, change: Callable[[str], Awaitable[JobRecord]]
) -> JobStatePage:
    found, after = await service.search.jobs(asked.filter.wanted(), after=name_key(asked.cursor), limit=asked.limit)
    items: list[JobStateSchema] = []
    skipped: list[UnchangedJobSchema] = []
    for record in found:
        try:
            changed = record if asked.dry_run else await change(record.name)
            items.append({"name": record.name, "state": job_state(changed)})
        except (Conflict, NotFound) as error:
            skipped.append({"name": record.name, "why": str(error)})
    return {"items": items, "skipped": skipped, "next_cursor": None if after is None else cursor_of(after)}
