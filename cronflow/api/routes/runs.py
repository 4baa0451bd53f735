"""Runs: list and look at them, cancel, replay and acknowledge them, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, NotRequired

from fastapi import Query

from cronflow.api.access import Operator, Viewer
from cronflow.api.bodies import Body, RunId, Since, Until, Uses, fields_of, takes
from cronflow.api.pagination import MOST, Cursor, Limit, cursor_of, time_key
from cronflow.api.responses import may, new_router
from cronflow.documents.mappings import read_fields
from cronflow.documents.values import choice, flag, got, instant, json_mapping, list_of, text, whole
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.run import DEAD, OPEN, Run, RunState
from cronflow.ports import RunQuery
from cronflow.schemas import Schema
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
from cronflow.usecases.all import UseCases

router = new_router("runs")

LONGEST_NOTE = 1000
BULK = 100
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


class CancelInput(Schema):
    """Why to cancel."""

    reason: NotRequired[str]
    """It is kept with the run."""


class RetryInput(Schema):
    """How to run it again."""

    args: NotRequired[dict[str, object]]
    """Arguments instead of the original's, of a Python job."""
    only_dead: NotRequired[bool]
    """Only if it is a dead letter that nobody has settled."""
    note: NotRequired[str]
    """It is kept with the original."""


class AckInput(Schema):
    """What is known of it."""

    note: NotRequired[str]
    """It is kept with the run."""


class FilterInput(Schema):
    """Which runs. At least one field has to be given."""

    job: NotRequired[str]
    """Of this job."""
    state: NotRequired[list[RunState]]
    """In one of these states."""
    node: NotRequired[str]
    """On a node of this name, or this start of one."""
    since: NotRequired[str]
    """Due from this instant on."""
    until: NotRequired[str]
    """Due before this instant."""


class BulkInput(Schema):
    """Which runs, and how many at most; with `next_cursor` of the answer the next ones follow."""

    filter: FilterInput
    """Which runs."""
    cursor: NotRequired[str]
    """`next_cursor` of the answer before."""
    limit: NotRequired[int]
    """At most so many, 1 to 500; 100 unless it is given."""


class BulkCancelInput(BulkInput):
    """Which runs to cancel. Only open ones are looked at."""

    reason: NotRequired[str]
    """It is kept with the runs."""


class BulkRetryInput(BulkInput):
    """Which dead letters to replay."""

    args: NotRequired[dict[str, object]]
    """Arguments instead of the originals', of Python jobs."""
    note: NotRequired[str]
    """It is kept with the originals."""


class BulkAckInput(BulkInput):
    """Which dead letters to acknowledge."""

    note: NotRequired[str]
    """It is kept with the runs."""


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
    found = await service.runs.recent(job, limit)
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
    failures, more = await service.runs.report(since, job)
    return report_schema(since, job, await service.backends.dead_letters.count(job), failures, limit, more=more)


@router.post(
    "/runs/cancel",
    responses=may(409),
    openapi_extra=takes("BulkCancelInput", {"filter": {"job": "nightly-report"}, "reason": "wrong data"}),
)
async def cancel_runs(service: Uses, by: Operator, body: Body) -> CancelledPage:
    """Cancel open runs: those that have not started at once, the others are asked to end. The newest come first."""
    asked = fields_of(body, {**_BULK, "reason": _note}, ["filter"])
    query: RunQuery = asked["filter"]
    ended = sorted(set(query.states) - OPEN)
    if ended:
        raise InvalidInput(Problem("filter.state", f"{ended[0]} runs have ended", "use dispatched, running, retrying"))
    found, after = await _chosen(service, replace(query, states=query.states or sorted(OPEN)), asked)
    runs = await service.runs.cancel_all([run.id for run in found], asked.get("reason", ""), by=by.name)
    states = {run.id: run.state for run in runs}
    return {"items": [{"id": run.id, "state": states.get(run.id, run.state)} for run in found], "next_cursor": after}


@router.post(
    "/runs/retry",
    openapi_extra=takes("BulkRetryInput", {"filter": {"since": "2026-11-21T00:00:00Z"}, "note": "target is back"}),
)
async def retry_runs(service: Uses, by: Operator, body: Body) -> ReplayedPage:
    """Replay dead letters: new runs for the same instants, under the jobs as they are now. The newest come first."""
    asked = fields_of(body, {**_BULK, "args": json_mapping, "note": _note}, ["filter"])
    found, after = await _chosen_dead(service, asked)
    items: list[ReplaySchema] = []
    skipped: list[SkippedSchema] = []
    for run in found:
        try:
            await _check_args(service, run.job, asked.get("args"))
            replay = await service.runs.replay(
                run.id, asked.get("args"), by=by.name, note=asked.get("note", ""), only_dead=True
            )
            items.append({"id": replay, "replay_of": run.id})
        except (Conflict, NotFound, InvalidInput) as error:
            skipped.append({"id": run.id, "why": str(error)})
    return {"items": items, "skipped": skipped, "next_cursor": after}


@router.post(
    "/runs/ack",
    openapi_extra=takes("BulkAckInput", {"filter": {"state": ["lost"]}, "note": "made good by hand"}),
)
async def acknowledge_runs(service: Uses, by: Operator, body: Body) -> AcknowledgedPage:
    """Acknowledge dead letters: they are known, and nothing more is to be done. The newest come first."""
    asked = fields_of(body, {**_BULK, "note": _note}, ["filter"])
    found, after = await _chosen_dead(service, asked)
    done = await service.runs.acknowledge([run.id for run in found], by=by.name, note=asked.get("note", ""))
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
    run = await service.runs.get(id)
    return run_detail_schema(await service.runs.whole(run) if whole else run, await service.runs.late(id))


@router.post(
    "/runs/{id}/cancel",
    responses=may(404, 409),
    openapi_extra=takes("CancelInput", {"reason": "wrong data"}, required=False),
)
async def cancel_run(service: Uses, by: Operator, id: RunId, body: Body) -> RunSchema:  # noqa: A002  the public name
    """Cancel a run: at once if it has not started, else its worker stops it. Asking again is harmless; 409 when it has
    ended.
    """
    asked = fields_of(body, {"reason": _note})
    return run_schema(await service.runs.cancel(id, asked.get("reason", ""), by=by.name))


@router.post(
    "/runs/{id}/retry",
    status_code=202,
    responses=may(404, 409),
    openapi_extra=takes("RetryInput", {"note": "target is back"}, required=False),
)
async def retry_run(service: Uses, by: Operator, id: RunId, body: Body) -> ReplaySchema:  # noqa: A002  the public name
    """Replay a run that has ended: a new run for the same instant, under the job as it is now. 409 while it is open."""
    asked = fields_of(body, {"args": json_mapping, "only_dead": flag, "note": _note})
    run = await service.runs.get(id)
    await _check_args(service, run.job, asked.get("args"))
    replay = await service.runs.replay(
        id, asked.get("args"), by=by.name, note=asked.get("note", ""), only_dead=asked.get("only_dead", False)
    )
    return {"id": replay, "replay_of": id}


@router.post(
    "/runs/{id}/ack",
    responses=may(404, 409),
    openapi_extra=takes("AckInput", {"note": "made good by hand"}, required=False),
)
async def acknowledge_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    body: Body,
) -> RunSchema:
    """Acknowledge a dead letter. Asking again is harmless; 409 when the run is none and was none."""
    asked = fields_of(body, {"note": _note})
    run = await service.runs.get(id)
    if run.resolution is None:
        if run.state not in DEAD:
            raise Conflict(f"run {id} is {run.state.value}: only what failed or was lost can be acknowledged")
        await service.runs.acknowledge([id], by=by.name, note=asked.get("note", ""))
        run = await service.runs.get(id)
    return run_schema(run)


async def run_page(service: UseCases, query: RunQuery, limit: int) -> RunPage:
    """A page of runs."""
    found, after = await _page(service, query, limit)
    return {"items": [run_schema(run) for run in found], "next_cursor": after}


async def _page(service: UseCases, query: RunQuery, limit: int) -> tuple[list[Run], str | None]:
    found = await service.backends.runs.find(replace(query, limit=limit + 1))
    shown = found[:limit]
    return shown, cursor_of(shown[-1].fire_at, shown[-1].id) if len(found) > limit else None


async def _chosen(service: UseCases, query: RunQuery, asked: dict[str, Any]) -> tuple[list[Run], str | None]:
    return await _page(service, replace(query, before=time_key(asked.get("cursor"))), asked.get("limit", BULK))


async def _chosen_dead(service: UseCases, asked: dict[str, Any]) -> tuple[list[Run], str | None]:
    query: RunQuery = asked["filter"]
    others = sorted(set(query.states) - DEAD)
    if others:
        what = f"runs that are {others[0]} are no dead letters"
        raise InvalidInput(Problem("filter.state", what, "use failed or lost"))
    return await _chosen(service, replace(query, dead=True), asked)


async def _check_args(service: UseCases, job: str, args: dict[str, object] | None) -> None:
    if args and not (await service.jobs.get(job)).job.takes_args:
        raise InvalidInput(Problem("args", f"{job} is not a Python job, so they would have no effect", "remove them"))


def _note(value: object) -> str:
    read = text(value)
    if len(read) > LONGEST_NOTE:
        raise InvalidInput(f"has {len(read):,} characters; at most {LONGEST_NOTE:,} are kept")
    return read


def _limit(value: object) -> int:
    read = whole(value)
    if not 1 <= read <= MOST:
        raise InvalidInput(f"is {read}; it must be 1 to {MOST}")
    return read


def _filter(value: object) -> RunQuery:
    found, problems = read_fields(value, _FILTER)
    if problems:
        raise InvalidInput(problems)
    if not found:
        raise InvalidInput(Problem("", "says nothing, so it would mean every run", f"give {', '.join(_FILTER)}"))
    found["states"] = found.pop("state", ())
    return RunQuery(**found)


def _states(value: object) -> Sequence[RunState]:
    if isinstance(value, str):
        return (_state(value),)
    if not isinstance(value, list):
        raise InvalidInput(f"expected a state or a list of them, got {got(value)}")
    return _many_states(value)


_state = choice(RunState)
_many_states = list_of(_state, "states")
_FILTER = {"job": text, "state": _states, "node": text, "since": instant, "until": instant}
_BULK = {"filter": _filter, "cursor": text, "limit": _limit}
