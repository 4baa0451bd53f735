"""Runs: list, show, cancel, replay and acknowledge them, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from fastapi import Query
from pydantic import Field, model_validator

from cronflow.api.access import NotAllowed, Operator, Viewer, check_args
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
from cronflow.documents.values import choice, got, list_of, text
from cronflow.domain.access import Principal, Role
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.run import DEAD, OPEN, Kind, Run, RunState
from cronflow.ports import RunQuery
from cronflow.schemas import Schema, iso
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
from cronflow.schemas.summaries import RunSummarySchema, run_summary_schema
from cronflow.schemas.why import WhySchema, why_schema
from cronflow.usecases import UseCases
from cronflow.usecases.run_search import RunFilter
from cronflow.usecases.search import labels_of

router = new_router("runs")

MOST_RECENT = 50
MOST_IDS = 100
MOST_DEAD = 5000

OfJob = Annotated[str | None, Query(max_length=200, description="Only runs of this job.")]
Brief = Annotated[
    bool, Query(description="Without arguments, results and placements and with short errors, for a small response.")
]


class RunPage(Schema):
    """Runs, latest fire first unless requested otherwise."""

    items: list[RunSchema]
    """May be fewer than the limit although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""
    searched_to: str | None
    """The due time that the search has reached, if it stopped before the page was full; otherwise null."""


class RunSummaryPage(Schema):
    """Runs in brief, latest fire first unless requested otherwise."""

    items: list[RunSummarySchema]
    """May be fewer than the limit although there are more."""
    next_cursor: str | None
    """For the next page; null: this is the last page."""
    searched_to: str | None
    """The due time that the search has reached, if it stopped before the page was full; otherwise null."""


class DeadLettersSchema(Schema):
    """Ids of dead letters that are neither replayed nor acknowledged."""

    ids: list[str]
    """Latest fire first."""
    more: bool
    """Whether there are more than `limit`."""


class RecentPage(Schema):
    """The recent runs of jobs, by name."""

    items: list[RecentSchema]
    """Jobs that do not exist are left out."""
    next_cursor: None
    """Always null: there is one page."""


def _states(value: object) -> Sequence[RunState]:
    if isinstance(value, str):
        return (_state(value),)
    if not isinstance(value, list):
        raise InvalidInput(f"expected a state or a list of states, got {got(value)}")
    return _many_states(value)


_state = choice(RunState)
_many_states = list_of(_state, "states")
_kinds = list_of(choice(Kind), "kinds")
_labels = list_of(text, "labels")


class RunOrder(StrEnum):
    """The orders that an index answers."""

    NEWEST = "newest"
    OLDEST = "oldest"


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
    followers: bool = False
    """Whether the jobs that follow its job run again too, in the same chain."""
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
    q: Text = None
    """Of jobs whose name contains this text, or matches a pattern such as `etl-*`."""
    label: Annotated[Sequence[str], reads(_labels, list[str])] = ()
    """Of jobs with these labels, each `key` or `key=value`."""
    kind: Annotated[Sequence[Kind], reads(_kinds, list[Kind])] = ()
    """Of one of these kinds."""
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
    dry_run: bool = False
    """Only count the runs, and change nothing."""

    def wanted(self, query: RunQuery) -> RunFilter:
        """The filter, with the states and the order of the query."""
        chosen = self.filter
        query = replace(
            query,
            job=chosen.job,
            node=chosen.node,
            since=chosen.since,
            until=chosen.until,
            before=time_key(self.cursor),
        )
        return RunFilter(query=query, name=chosen.q or "", labels=labels_of(chosen.label), kinds=chosen.kind)


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
    followers: bool = False
    """Whether the jobs that follow theirs run again too, in the same chains."""
    note: Note = ""
    """Stored with the original runs."""


class BulkAckInput(BulkInput, json_schema_extra={"examples": [BULK_ACK]}):
    """Which dead letters to acknowledge."""

    note: Note = ""
    """Stored with the runs."""


class CancelledSchema(Schema):
    """A run that was cancelled, or is being cancelled."""

    id: str
    """The run."""
    state: RunState
    """Its state now."""


class CancelledPage(Schema):
    """Runs that were cancelled, or are being cancelled."""

    items: list[CancelledSchema]
    """The runs."""
    count: int
    """How many runs this call selected."""
    next_cursor: str | None
    """For the next call; null: no more runs match."""


class SkippedSchema(Schema):
    """A run that was not changed."""

    id: str
    """The run."""
    why: str
    """The reason."""


class ReplayedPage(Schema):
    """Runs that were run again."""

    items: list[ReplaySchema]
    """Their replays."""
    skipped: list[SkippedSchema]
    """Runs that were replayed or acknowledged in the meantime, or whose job is deleted."""
    count: int
    """How many runs this call selected."""
    next_cursor: str | None
    """For the next call; null: no more runs match."""


class AcknowledgedSchema(Schema):
    """A dead letter that was acknowledged."""

    id: str
    """The run."""


class AcknowledgedPage(Schema):
    """Dead letters that were acknowledged."""

    items: list[AcknowledgedSchema]
    """The runs."""
    count: int
    """How many runs this call selected."""
    next_cursor: str | None
    """For the next call; null: no more runs match."""


@router.get("/runs")
async def list_runs(
    service: Uses,
    _: Viewer,
    id: Annotated[  # noqa: A002  the public name
        list[str] | None, Query(max_length=MOST_IDS, description="Only these runs; repeatable.")
    ] = None,
    job: OfJob = None,
    q: Annotated[
        str,
        Query(max_length=200, description="Text in the name of the job, or a pattern such as `etl-*`."),
    ] = "",
    label: Annotated[
        list[str] | None,
        Query(max_length=20, description="Label of the job, `key` or `key=value`; repeatable, all must match."),
    ] = None,
    kind: Annotated[list[Kind] | None, Query(description="Only runs of this kind; repeatable.")] = None,
    state: Annotated[list[RunState] | None, Query(description="Only runs in this state; repeatable.")] = None,
    node: Annotated[
        str | None, Query(max_length=300, description="On a node of this name, or on this start of one.")
    ] = None,
    backfill: Annotated[str | None, Query(max_length=200, description="Only runs of this backfill.")] = None,
    parent: Annotated[str | None, Query(max_length=300, description="Only the parts of this run.")] = None,
    chain: Annotated[
        str | None,
        Query(max_length=300, description="Only runs of this chain: the id of the run in which it began."),
    ] = None,
    since: Since = None,
    until: Until = None,
    dead: Annotated[bool, Query(description="Only dead letters that are neither replayed nor acknowledged.")] = False,
    order: Annotated[RunOrder, Query(description="By due time: latest or earliest first.")] = RunOrder.NEWEST,
    cursor: Cursor = None,
    limit: Limit = 50,
    brief: Brief = False,
) -> RunPage | RunSummaryPage:
    """Runs, latest fire first. A search by name, label or kind reads a bounded number of runs per request, and may
    return fewer runs than requested, or none, with a cursor to continue.
    """
    query = RunQuery(
        ids=id,
        job=job,
        states=state or (),
        node=node,
        backfill=backfill,
        parent=parent,
        chain=chain,
        since=since,
        until=until,
        dead=dead,
        before=time_key(cursor),
        oldest_first=order is RunOrder.OLDEST,
    )
    wanted = RunFilter(query=query, name=q, labels=labels_of(label or ()), kinds=kind or ())
    return await run_page(service, wanted, limit, brief=brief)


@router.get("/runs/dead-letters")
async def dead_letters(
    service: Uses,
    _: Viewer,
    limit: Annotated[int, Query(ge=1, le=MOST_DEAD, description="How many at most.")] = 1000,
) -> DeadLettersSchema:
    """Ids of the dead letters that are neither replayed nor acknowledged. Compared with those that a client has, they
    show what is new and what is gone; `GET /runs?id=` has the new ones.
    """
    found = await service.backends.dead_letters.newest(limit + 1)
    return {"ids": found[:limit], "more": len(found) > limit}


@router.get("/runs/recent")
async def recent_runs(
    service: Uses,
    _: Viewer,
    job: Annotated[list[str], Query(min_length=1, max_length=MOST_RECENT, description="These jobs; repeatable.")],
    limit: Annotated[int, Query(ge=1, le=MOST_RECENT, description="How many runs of each at most.")] = 20,
) -> RecentPage:
    """The next fires of some jobs, and a summary of their last runs."""
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
    """Failures since an instant, by reason: how many, when, which jobs, and an example."""
    failures, more = await service.runs.report(since, job)
    return report_schema(since, job, await service.backends.dead_letters.count(job), failures, limit, more=more)


@router.post("/runs/cancel", responses=may(409))
async def cancel_runs(
    service: Uses, by: Operator, asked: Annotated[BulkCancelInput, body(BulkCancelInput)]
) -> CancelledPage:
    """Cancel open runs, newest first. Runs that have not started end at once; workers stop the others."""
    ended = sorted(set(asked.filter.state) - OPEN)
    if ended:
        raise InvalidInput(
            Problem("filter.state", f"{ended[0]} runs have ended", "use dispatched, running or retrying")
        )
    wanted = asked.wanted(RunQuery(states=asked.filter.state or sorted(OPEN)))
    found, after = await _page(service, wanted, asked.limit)
    if asked.dry_run:
        return {"items": [], "count": len(found), "next_cursor": after}
    runs = await service.runs.cancel_all([run.id for run in found], asked.reason, by=by.name)
    states = {run.id: run.state for run in runs}
    items: list[CancelledSchema] = [{"id": run.id, "state": states.get(run.id, run.state)} for run in found]
    return {"items": items, "count": len(found), "next_cursor": after}


@router.post("/runs/retry")
async def retry_runs(
    service: Uses, by: Operator, asked: Annotated[BulkRetryInput, body(BulkRetryInput)]
) -> ReplayedPage:
    """Replay dead letters, newest first: new runs for the same fires, with the present version of their jobs."""
    found, after = await _chosen_dead(service, asked)
    items: list[ReplaySchema] = []
    skipped: list[SkippedSchema] = []
    for run in () if asked.dry_run else found:
        try:
            await _check_replay(service, by, run, asked.args)
            replay = await service.runs.replay(
                run.id, asked.args, by=by.name, note=asked.note, only_dead=True, followers=asked.followers
            )
            items.append({"id": replay, "replay_of": run.id})
        except (Conflict, NotFound, InvalidInput, NotAllowed) as error:
            skipped.append({"id": run.id, "why": str(error)})
    return {"items": items, "skipped": skipped, "count": len(found), "next_cursor": after}


@router.post("/runs/ack")
async def acknowledge_runs(
    service: Uses, by: Operator, asked: Annotated[BulkAckInput, body(BulkAckInput)]
) -> AcknowledgedPage:
    """Acknowledge dead letters, newest first: they need no further action."""
    found, after = await _chosen_dead(service, asked)
    if asked.dry_run:
        return {"items": [], "count": len(found), "next_cursor": after}
    done = await service.runs.acknowledge([run.id for run in found], by=by.name, note=asked.note)
    items: list[AcknowledgedSchema] = [{"id": run.id} for run in found if run.id in done]
    return {"items": items, "count": len(found), "next_cursor": after}


@router.get("/runs/{id}", responses=may(404))
async def show_run(
    service: Uses,
    _: Viewer,
    id: RunId,  # noqa: A002  the public name
    whole: Annotated[bool, Query(description="Include a large result that is stored separately.")] = False,
) -> RunDetailSchema:
    """A run: when and where it ran, its result or error, every attempt, and late results."""
    run = await service.runs.get(id)
    shown = await service.runs.whole(run) if whole else run
    return run_detail_schema(shown, await service.runs.late(id), await service.runs.part_counts(run))


@router.get("/runs/{id}/why", responses=may(404))
async def why_run(
    service: Uses,
    _: Viewer,
    id: RunId,  # noqa: A002  the public name
) -> WhySchema:
    """Why a run ran, ended or waits: every decision. For a run that waits for a node: the reason of each live node."""
    return why_schema(await service.explain.why_run(id))


@router.post("/runs/{id}/cancel", responses=may(404, 409))
async def cancel_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    asked: Annotated[CancelInput, body(CancelInput)],
) -> RunSchema:
    """Cancel a run: at once if it has not started, else its worker stops it. A run that is split ends when its parts
    have. Repeating the request is safe; 409 when the run has ended.
    """
    return run_schema(await service.runs.cancel(id, asked.reason, by=by.name))


@router.post("/runs/{id}/retry", status_code=202, responses=may(404, 409))
async def retry_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    asked: Annotated[RetryInput, body(RetryInput)],
) -> ReplaySchema:
    """Replay an ended run: a new run for the same fire, with the present version of the job. 409 while it is open, and
    for a part of a run. If the run was split, the parts that did not succeed run again.
    """
    run = await service.runs.get(id)
    await _check_replay(service, by, run, asked.args)
    replay = await service.runs.replay(
        id, asked.args, by=by.name, note=asked.note, only_dead=asked.only_dead, followers=asked.followers
    )
    return {"id": replay, "replay_of": id}


@router.post("/runs/{id}/ack", responses=may(404, 409))
async def acknowledge_run(
    service: Uses,
    by: Operator,
    id: RunId,  # noqa: A002  the public name
    asked: Annotated[AckInput, body(AckInput)],
) -> RunSchema:
    """Acknowledge a dead letter. Repeating the request is safe; 409 when the run is not a dead letter."""
    run = await service.runs.get(id)
    if run.resolution is None:
        if run.state not in DEAD:
            raise Conflict(f"run {id} has state {run.state.value}; only failed or lost runs can be acknowledged")
        await service.runs.acknowledge([id], by=by.name, note=asked.note)
        run = await service.runs.get(id)
    return run_schema(run)


async def run_page(
    service: UseCases, wanted: RunFilter, limit: int, *, brief: bool = False
) -> RunPage | RunSummaryPage:
    found, place = await service.run_search.find(wanted, limit)
    after = _cursor(place)
    searched_to = iso(place[0]) if place is not None and len(found) < limit else None
    if brief:
        summaries = [run_summary_schema(run) for run in found]
        return {"items": summaries, "next_cursor": after, "searched_to": searched_to}
    return {"items": [run_schema(run) for run in found], "next_cursor": after, "searched_to": searched_to}


async def _page(service: UseCases, wanted: RunFilter, limit: int) -> tuple[list[Run], str | None]:
    found, place = await service.run_search.find(wanted, limit)
    return found, _cursor(place)


def _cursor(place: tuple[datetime, str] | None) -> str | None:
    return None if place is None else cursor_of(*place)


async def _chosen_dead(service: UseCases, asked: BulkInput) -> tuple[list[Run], str | None]:
    others = sorted(set(asked.filter.state) - DEAD)
    if others:
        what = f"{others[0]} runs are not dead letters"
        raise InvalidInput(Problem("filter.state", what, "use failed or lost"))
    return await _page(service, asked.wanted(RunQuery(states=asked.filter.state, dead=True)), asked.limit)


async def _check_replay(service: UseCases, by: Principal, run: Run, args: dict[str, object] | None) -> None:
    if args:
        check_args(by, (await service.jobs.get(run.job)).job, args)
    elif args is None and run.args:
        record = await service.jobs.get(run.job)
        # The run's own arguments meet the present version of the job, which may use a secret by now.
        if record.ver != run.job_ver and (found := by.objection_to_args(record.job)) is not None:
            raise NotAllowed(Role.ADMIN, by, str(found))
