"""Reads the ledger of a cluster, through the API or directly: job by job and page by page, in memory that depends on
neither the span nor the number of runs.

The rule: the job is read before its runs, so every instant that its cursor has passed has a run or a pending run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, cast

from cronflow.domain.errors import NotFound
from cronflow.domain.run import SCHEDULED
from cronflow.domain.schedule.describe import describe
from cronflow.ledger.derivation import LedgerSpan, LedgerVersion, bound_schedule, read_version
from cronflow.ledger.judging import Evidence, JobJudge, LedgerRun, ledger_run, pending_ledger_run
from cronflow.schemas.jobs import JobSchema, VersionSchema
from cronflow.schemas.ledger import LedgerEntrySchema, LedgerJobSchema, LedgerVersionSchema

if TYPE_CHECKING:
    from cronflow.client.aio import AsyncClient
    from cronflow.client.local import LocalClient

    Cluster = AsyncClient | LocalClient

AT_ONCE = 16
"""How many jobs are read at the same time."""
CLEANUP = "_sys:cleanup"
SHORTEST_RETENTION = timedelta(hours=24)
KINDS = sorted(SCHEDULED)
SECOND = timedelta(seconds=1)


class JobEntries(NamedTuple):
    """A job with its entries, which are read as they are used."""

    job: LedgerJobSchema
    entries: AsyncIterator[LedgerEntrySchema]


async def read_ledger(
    cluster: Cluster, span: LedgerSpan, names: Sequence[str], kept_from: datetime | None
) -> AsyncIterator[JobEntries]:
    """The jobs by name, deleted ones included; only those with a schedule in this span, or runs of one. Use the entries
    of one job before the next. Raises NotFound for a name that no job has.
    """
    batch: list[JobSchema] = []
    async for job in _jobs(cluster, names):
        batch.append(job)
        if len(batch) == AT_ONCE:
            async for one in _read(cluster, batch, span, kept_from):
                yield one
            batch = []
    async for one in _read(cluster, batch, span, kept_from):
        yield one


async def read_kept_from(cluster: Cluster) -> datetime | None:
    """Runs that ended before this instant may have been deleted; None: the clean-up has deleted none.

    Each run of the clean-up returns this instant. One that did not, because it failed or because its CronFlow was
    older, is assumed to have had the shortest retention of the others.
    """
    known: datetime | None = None
    unknown: datetime | None = None
    shortest: timedelta | None = None
    async for run in cluster.runs.list(job=CLEANUP):
        result = run["result"] if isinstance(run["result"], dict) else {}
        if run["started_at"] is None or (result.get("runs") == 0 and "before" not in result):
            continue
        started = datetime.fromisoformat(run["started_at"])
        if "before" not in result:
            unknown = started if unknown is None else max(unknown, started)
            continue
        before = datetime.fromisoformat(result["before"])
        known = before if known is None else max(known, before)
        shortest = started - before if shortest is None else min(shortest, started - before)
    assumed = [] if unknown is None else [unknown - (shortest or SHORTEST_RETENTION)]
    return max([*assumed, *([] if known is None else [known])], default=None)


async def _jobs(cluster: Cluster, names: Sequence[str]) -> AsyncIterator[JobSchema]:
    if not names:
        async for job in cluster.jobs.list(deleted=True):
            yield job
        return
    for name in sorted(set(names)):
        found = [job async for job in cluster.jobs.list(name, deleted=True) if job["name"] == name]
        if not found:
            raise NotFound("job", name)
        yield found[0]


async def _read(
    cluster: Cluster, jobs: Sequence[JobSchema], span: LedgerSpan, kept_from: datetime | None
) -> AsyncIterator[JobEntries]:
    for found in await asyncio.gather(*(_prepared(cluster, job, span) for job in jobs)):
        if any(version["schedule"] is not None for version in found.shown["versions"]):
            yield JobEntries(found.shown, _entries(cluster, found, span, kept_from))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A job with its versions, and its last run before the span."""

    job: JobSchema
    shown: LedgerJobSchema
    versions: Sequence[LedgerVersion]
    before: LedgerRun | None


async def _prepared(cluster: Cluster, job: JobSchema, span: LedgerSpan) -> _Prepared:
    name, created = job["name"], datetime.fromisoformat(job["created_at"])
    # An earlier job of this name, which was deleted long ago, may have left versions.
    history = cluster.jobs.history(name, calendars=True)
    kept = [one async for one in history if datetime.fromisoformat(one["at"]) >= created]
    first = kept[0]["at"] if kept and kept[0]["version"] > 1 else None
    shown = [
        _version(name, one)
        for place, one in enumerate(kept)
        if _touches(one, kept[place + 1] if place + 1 < len(kept) else None, span)
    ]
    versions = [read_version(name, version) for version in shown]
    before = None
    if versions and created < span.first:
        # Scheduled runs of a job do not overlap, so only the last one may reach into the span.
        async for run in cluster.runs.list(job=name, kind=KINDS, until=span.first, limit=1):
            before = ledger_run(run)
    return _Prepared(job, {"job": name, "known_from": first, "versions": shown}, versions, before)


def _version(job: str, version: VersionSchema) -> LedgerVersionSchema:
    document = cast("dict[str, object] | None", version["job"]["schedule"])
    schedule = bound_schedule(job, document, version["calendars"])
    return {
        "version": version["version"],
        "at": version["at"],
        "state": version["state"],
        "since": version["since"],
        "until": version["until"],
        "text": "" if schedule is None else describe(schedule),
        "schedule": document,
        "calendars": [{**calendar} for calendar in version["calendars"]],
    }


def _touches(version: VersionSchema, following: VersionSchema | None, span: LedgerSpan) -> bool:
    """Whether the version was in force in the span, or has an instant there."""
    at = datetime.fromisoformat(version["at"])
    if version["since"] is not None:
        at = min(at, datetime.fromisoformat(version["since"]))
    return at < span.last and (
        following is None or datetime.fromisoformat(following["at"]).replace(microsecond=0) + SECOND > span.first
    )


async def _entries(
    cluster: Cluster, found: _Prepared, span: LedgerSpan, kept_from: datetime | None
) -> AsyncIterator[LedgerEntrySchema]:
    name, known_from = found.job["name"], found.shown["known_from"]
    announced = found.job["pending_run"]
    pending = None if announced is None else pending_ledger_run(name, announced)
    evidence = Evidence(
        version=found.job["version"],
        planned=None if pending is None else pending.last,
        kept_from=kept_from,
        known_from=None if known_from is None else datetime.fromisoformat(known_from),
    )
    judge = JobJudge(name, found.versions, span, evidence)
    async for run in _runs(cluster, found, pending, span):
        for entry in judge.add(run):
            yield entry
    for entry in judge.finish():
        yield entry


async def _runs(
    cluster: Cluster, found: _Prepared, pending: LedgerRun | None, span: LedgerSpan
) -> AsyncIterator[LedgerRun]:
    """The runs that may cover an instant of the span, by instant, with the one that has no document yet."""
    left = pending if pending is not None and pending.fire_at < span.last and pending.last >= span.first else None
    if found.before is not None and found.before.last >= span.first:
        left = None if left is not None and left.id == found.before.id else left
        yield found.before
    name = found.job["name"]
    async for one in cluster.runs.list(job=name, kind=KINDS, since=span.first, until=span.last, oldest_first=True):
        run = ledger_run(one)
        if left is not None and left.fire_at <= run.fire_at:
            if left.id != run.id:
                yield left
            left = None
        yield run
    if left is not None:
        yield left
