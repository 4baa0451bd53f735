"""Runs: list and look at them, cancel, replay and acknowledge them, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Self

from fastapi import Query
from pydantic import Field, model_validator

from cronflow.api.access import Operator, Viewer
from cronflow.api.bodies import (
    Arguments,
    Input,
    Instant,
    Note,
    RunId,
    Since,
    Text,
    Until,
    Uses,
    body,
    reads,
    refused,
)
from cronflow.api.pagination import MOST, Cursor, Limit, cursor_of, time_key
from cronflow.api.responses import may, new_router
from cronflow.documents.values import choice, got, list_of
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.run import DEAD, OPEN, Run, RunState
from cronflow.ports import RunQuery
from cronflow.schemas.base import Schema
from cronflow.schemas.jobs import RecentSchema, recent_schema
from cronflow.schemas.runs import (
    ReplaySchema,
    ReportSchema,
    RunDetailSchema,
    RunSchema,
    report_schema,
    run_detail_schema,
    run_schema,
)
from cronflow.usecases.service import Service

router = new_router("runs")

MOST_RECENT = 50

OfJob = Annotated[str | None, Query(max_length=200, description="Of this job alone.")]


class RunPage(Schema):
    """Runs, those that fell due last first."""

    items: list[RunSchema]
    """The runs."""
    next_cursor: str | None
    """For the next page; null: this is the last one."""


class RecentPage(Schema):
    """How jobs do, by name."""

    items: list[RecentSchema]
    """Those of the jobs that exist."""
    next_cursor: None
    """There is one page."""


def _states(value: object) -> Sequence[RunState]:
    if isinstance(value, str):
        return (_state(value),)
    if not isinstance(value, list):
        raise InvalidInput(f"expected a state or a list of states, got {got(value)}")
    return _many_states(value)


_state = choice(RunState)
_many_states = list_of(_state, "states")


class CancelInput(Input, json_schema_extra={"examples": [{"reason": "wrong data"}]}):
    """Why to cancel."""

    reason: Note = ""
    """Stored with the run."""


class RetryInput(Input, json_schema_extra={"examples": [{"note": "target is back"}]}):
    """How to run it again."""

    args: Arguments = None
    """Arguments that replace the original ones, of a Python job."""
    only_dead: bool = False
    """Only if it is a dead letter that is neither replayed nor acknowledged."""
    note: Note = ""
    """Stored with the original run."""


class AckInput(Input, json_schema_extra={"examples": [{"note": "made good by hand"}]}):
    """A remark."""

    note: Note = ""
    """Stored with the run."""


class FilterInput(Input):
    """Which runs. At least one field is required."""

    job: Text = None
    """Of this job."""
    state: Annotated[Sequence[RunState], reads(_states, list[RunState])] = ()
    """In one of these states."""
    node: Text = None
    """On a node of this name, or on this start of one."""
    since: Instant = None
    """Due from this instant on."""
    until: Instant = None
    """Due before this instant."""

    @model_validator(mode="after")
    def _selects(self) -> Self:
        if not self.model_fields_set:
            fields = ", ".join(type(self).model_fields)
            raise refused(Problem("", "is empty and would match every run", f"give at least one of {fields}"))
        return self


class BulkInput(Input):
    """Which runs, and how many at most; `next_cursor` of the response leads to the next ones."""

    filter: FilterInput
    """Which runs."""
    cursor: Text = None
    """`next_cursor` of the previous response."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    """How many at most."""

    def query(self) -> RunQuery:
        chosen = self.filter
        return RunQuery(
            job=chosen.job,
            states=chosen.state,
            node=chosen.node,
            since=chosen.since,
            until=chosen.until,
            before=time_key(self.cursor),
        )


BULK_CANCEL = {"filter": {"job": "nightly-report"}, "reason": "wrong data"}
BULK_RETRY = {"filter": {"since": "2026-11-21T00:00:00Z"}, "note": "target is back"}
BULK_ACK = {"filter": {"state": ["lost"]}, "note": "made good by hand"}


class BulkCancelInput(BulkInput, json_schema_extra={"examples": [BULK_CANCEL]}):
    """Which runs to cancel. Only open runs match."""

    reason: Note = ""
    """Stored with the runs."""


class BulkRetryInput(BulkInput, json_schema_extra={"examples": [BULK_RETRY]}):
    """Which dead letters to replay."""

    args: Arguments = None
    """Arguments that replace the original ones, of Python jobs."""
    note: Note = ""
    """Stored with the original runs."""


class BulkAckInput(BulkInput, json_schema_extra={"examples": [BULK_ACK]}):
    """Which dead letters to acknowledge."""

    note: Note = ""
    """Stored with the runs."""


class CancelledSchema(Schema):
    """A run that was cancelled, or asked to end."""

    id: str
    """The run."""
    state: RunState
    """As it now is."""


class CancelledPage(Schema):
    """Runs that were cancelled, or asked to end."""

    items: list[CancelledSchema]
    """The runs."""
    next_cursor: str | None
    """There are more, which this call has not touched."""


class SkippedSchema(Schema):
    """A run that was left as it is."""

    id: str
    """The run."""
    why: str
    """The reason."""


class ReplayedPage(Schema):
    """Runs that were run again."""

    items: list[ReplaySchema]
    """Their replays."""
    skipped: list[SkippedSchema]
    """Runs that somebody has settled meanwhile, or whose job is gone."""
    next_cursor: str | None
    """There are more, which this call has not touched."""


class AcknowledgedSchema(Schema):
    """A dead letter that was acknowledged."""

    id: str
    """The run."""


class AcknowledgedPage(Schema):
    """Dead letters that were acknowledged."""

    items: list[AcknowledgedSchema]
    """The runs."""
    next_cursor: str | None
    """There are more, which this call has not touched."""


@router.get("/runs")
async def list_runs(
    service: Uses,
    _: Viewer,
    job: OfJob = None,
    state: Annotated[list[RunState] | None, Query(description="In one of these; repeat it for several.")] = None,
    node: Annotated[
        str | None, Query(max_length=300, description="On a node of this name, or this start of one.")
    ] = None,
    since: Since = None,
    until: Until = None,
    dead: Annotated[bool, Query(description="Only dead letters that nobody has settled.")] = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> RunPage:
    """Runs, those that fell due last first."""
    query = RunQuery(
        job=job, states=state or (), node=node, since=since, until=until, dead=dead, before=time_key(cursor)
    )
    return await run_page(service, query, limit)


@router.get("/runs/recent")
async def recent_runs(
    service: Uses,
    _: Viewer,
    job: Annotated[list[str], Query(min_length=1, max_length=MOST_RECENT, description="These jobs; repeat it.")],
    limit: Annotated[int, Query(ge=1, le=MOST_RECENT, description="At most so many runs of each.")] = 20,
) -> RecentPage:
    """How some jobs do: their next fires, and their last runs in short."""
    found = await service.recent(job, limit)
    return {"items": [recent_schema(record, runs) for record, runs in found], "next_cursor": None}


@router.get("/runs/report")
async def report(
    service: Uses,
    _: Viewer,
    since: Annotated[datetime, *Since.__metadata__],
    job: OfJob = None,
    limit: Limit = 100,
) -> ReportSchema:
    """What failed since then, by reason: how often, when, which jobs, and a run to look at."""
    failures, more = await service.report(since, job)
    return report_schema(since, job, await service.dead_letters(job), failures, limit, more=more)


@router.post("/runs/cancel", responses=may(409))
async def cancel_runs(
    service: Uses, by: Operator, asked: Annotated[BulkCancelInput, body(BulkCancelInput)]
) -> CancelledPage:
    """Cancel open runs: those that have not started at once, the others are asked to end. The newest come first."""
    query = asked.query()
    ended = sorted(set(query.states) - OPEN)
    if ended:
        raise InvalidInput(Problem("filter.state", f"{ended[0]} runs have ended", "use dispatched, running, retrying"))
    found, after = await _page(service, replace(query, states=query.states or sorted(OPEN)), asked.limit)
    runs = await service.cancel_all([run.id for run in found], asked.reason, by=by.name)
    states = {run.id: run.state for run in runs}
    return {"items": [{"id": run.id, "state": states.get(run.id, run.state)} for run in found], "next_cursor": after}


@router.post("/runs/retry")
async def retry_runs(
    service: Uses, by: Operator, asked: Annotated[BulkRetryInput, body(BulkRetryInput)]
) -> ReplayedPage:
    """Replay dead letters: new runs for the same instants, under the jobs as they are now. The newest come first."""
    found, after = await _chosen_dead(service, asked)
    items: list[ReplaySchema] = []
    skipped: list[SkippedSchema] = []
    for run in found:
        try:
            await _check_args(service, run.job, asked.args)
            replay = await service.replay(run.id, asked.args, by=by.name, note=asked.note, only_dead=True)
            items.append({"id": replay, "replay_of": run.id})
        except (Conflict, NotFound, InvalidInput) as error:
            skipped.append({"id": run.id, "why": str(error)})
    return {"items": items, "skipped": skipped, "next_cursor": after}


@router.post("/runs/ack")
async def acknowledge_runs(
    service: Uses, by: Operator, asked: Annotated[BulkAckInput, body(BulkAckInput)]
) -> AcknowledgedPage:
    """Acknowledge dead letters: they are known, and nothing more is to be done. The newest come first."""
    found, after = await _chosen_dead(service, asked)
    done = await service.acknowledge([run.id for run in found], by=by.name, note=asked.note)
    return {"items": [{"id": run.id} for run in found if run.id in done], "next_cursor": after}


@router.get("/runs/{id}", responses=may(404))
async def show_run(
    service: Uses,
    _: Viewer,
    id: RunId,  # noqa: A002  the public name
    whole: Annotated[
        bool, Query(description="With its result also where that is so large that it is kept apart.")
    ] = False,
) -> RunDetailSchema:
    """A run: when, where, how it went, its result or error, every attempt, and outcomes that came too late."""
    run = await service.run(id)
    return run_detail_schema(await service.whole(run) if whole else run, await service.late(id))


@router.post("/runs/{id}/cancel", responses=may(404, 409))
async def cancel_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    asked: Annotated[CancelInput, body(CancelInput)],
) -> RunSchema:
    """Cancel a run: at once if it has not started, else its worker stops it. Asking again is harmless; 409 when it has
    ended.
    """
    return run_schema(await service.cancel(id, asked.reason, by=by.name))


@router.post("/runs/{id}/retry", status_code=202, responses=may(404, 409))
async def retry_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    asked: Annotated[RetryInput, body(RetryInput)],
) -> ReplaySchema:
    """Replay a run that has ended: a new run for the same instant, under the job as it is now. 409 while it is open."""
    run = await service.run(id)
    await _check_args(service, run.job, asked.args)
    replay = await service.replay(id, asked.args, by=by.name, note=asked.note, only_dead=asked.only_dead)
    return {"id": replay, "replay_of": id}


@router.post("/runs/{id}/ack", responses=may(404, 409))
async def acknowledge_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    asked: Annotated[AckInput, body(AckInput)],
) -> RunSchema:
    """Acknowledge a dead letter. Asking again is harmless; 409 when the run is none and was none."""
    run = await service.run(id)
    if run.resolution is None:
        if run.state not in DEAD:
            raise Conflict(f"run {id} is {run.state.value}: only what failed or was lost can be acknowledged")
        await service.acknowledge([id], by=by.name, note=asked.note)
        run = await service.run(id)
    return run_schema(run)


async def run_page(service: Service, query: RunQuery, limit: int) -> RunPage:
    """A page of runs."""
    found, after = await _page(service, query, limit)
    return {"items": [run_schema(run) for run in found], "next_cursor": after}


async def _page(service: Service, query: RunQuery, limit: int) -> tuple[list[Run], str | None]:
    found = await service.runs(replace(query, limit=limit + 1))
    shown = found[:limit]
    return shown, cursor_of(shown[-1].fire_at, shown[-1].id) if len(found) > limit else None


async def _chosen_dead(service: Service, asked: BulkInput) -> tuple[list[Run], str | None]:
    query = asked.query()
    others = sorted(set(query.states) - DEAD)
    if others:
        what = f"runs that are {others[0]} are no dead letters"
        raise InvalidInput(Problem("filter.state", what, "use failed or lost"))
    return await _page(service, replace(query, dead=True), asked.limit)


async def _check_args(service: Service, job: str, args: dict[str, object] | None) -> None:
    if args and not (await service.job(job)).job.takes_args:
        raise InvalidInput(Problem("args", f"{job} is not a Python job, so they would have no effect", "remove them"))
