"""Which jobs need attention, and why: `overdue`, `stuck` and `failing` jobs, and those that are paused or never ran.

Rules. A job is overdue when the instant of its cursor passed longer ago than its `late_after`, a minute at least, and
nothing has been planned for it. It is stuck when no node can take one of its runs: after ten seconds if none ever will
as they are, after a minute if they have no free slot or no room; and while a run takes longer than usual. It is failing
while its latest run failed or was lost; skipped and cancelled runs do not count. A job may be several of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from cronflow.domain.job import JobRecord
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.placement import BUSY, Waiting
from cronflow.domain.run import DEAD, Kind, Run, RunState, run_id

OVERDUE_AFTER = timedelta(minutes=1)
STUCK_AFTER = timedelta(seconds=10)
"""A restarting node is back by then."""
LATEST_RUNS = 10
"""The ended runs of a job that are looked at."""
NO_LEADER = "the cluster has no leader"
NOT_PLANNED = "the leader has not planned the run yet"


class JobHealth(StrEnum):
    """What is the matter with a job, the most urgent first."""

    STUCK = "stuck"
    OVERDUE = "overdue"
    FAILING = "failing"
    PAUSED = "paused"
    NEVER_RAN = "never_ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCondition:
    """What is the matter with a job, since when and why. `run` is the run that waits, takes long or failed last; for an
    overdue job it does not exist yet. `nodes` has the reasons of some nodes, and `more` the number of the others.
    """

    job: str
    health: JobHealth
    since: datetime
    reason: str
    run: str | None = None
    nodes: tuple[tuple[str, str], ...] = ()
    more: int = 0


class EndedRun(NamedTuple):
    """A summary of an ended run."""

    id: str
    state: RunState
    fire_at: datetime
    ended_at: datetime | None
    error: str | None


def lacks_node(waiting: Waiting) -> bool:
    """Whether a wait is one for a node, and not for another run, a limit or a person."""
    return waiting.blocked_by is None and (bool(waiting.nodes) or waiting.reason.startswith("no node"))


def is_stuck(waiting: Waiting, now: datetime) -> bool:
    """Whether no node has taken what waits for too long."""
    after = OVERDUE_AFTER if waiting.reason in BUSY else STUCK_AFTER
    return lacks_node(waiting) and now - waiting.since >= after


def judged_until(now: datetime, maintenance: MaintenanceMode | None) -> datetime:
    """A job whose cursor is after this instant is not overdue. In maintenance nothing that fell due in it is."""
    until = now - OVERDUE_AFTER
    return until if maintenance is None else min(until, maintenance.since - OVERDUE_AFTER)


def overdue(record: JobRecord, until: datetime, *, led: bool) -> JobCondition | None:
    """`until` as from `judged_until`; `led`: the cluster has a leader."""
    due = record.next_fire
    late_after = record.job.misfire.late_after
    if due is None or not record.active or due > until or due > until + OVERDUE_AFTER - late_after:
        return None
    waiting = record.waiting if record.waiting is not None and record.waiting.fire == due else None
    reason = NO_LEADER if not led else NOT_PLANNED if waiting is None else waiting.reason
    return _condition(record.name, JobHealth.OVERDUE, due, reason, run_id(record.name, due), waiting if led else None)


def stuck_fire(record: JobRecord, now: datetime) -> JobCondition | None:
    """The fire at the cursor, which no node can take."""
    waiting = record.waiting
    if waiting is None or not record.active or waiting.fire != record.next_fire or not is_stuck(waiting, now):
        return None
    run = run_id(record.name, waiting.fire)
    return _condition(record.name, JobHealth.STUCK, waiting.since, waiting.reason, run, waiting)


def stuck_run(run: Run, now: datetime) -> JobCondition | None:
    """An open run that no node can take. A run of a backfill gives way to all others, so a busy cluster is no fault."""
    waiting = run.waiting
    if waiting is None or not run.is_open or not is_stuck(waiting, now):
        return None
    if waiting.reason in BUSY and run.ranked_as is Kind.BACKFILL:
        return None
    return _condition(run.job, JobHealth.STUCK, waiting.since, waiting.reason, run.id, waiting)


def long_run(run: Run, usual: str) -> JobCondition | None:
    """A running run that takes longer than usual; `usual` is such as `45 s`."""
    if run.state is not RunState.RUNNING or run.started_at is None:
        return None
    reason = f"the run is taking longer than usual: 95 % of recent runs took at most {usual}"
    return JobCondition(job=run.job, health=JobHealth.STUCK, since=run.started_at, reason=reason, run=run.id)


def failing(job: str, latest: Sequence[EndedRun]) -> JobCondition | None:
    """From the latest ended runs of a job, the newest first, of which none was skipped or cancelled."""
    streak = 0
    while streak < len(latest) and latest[streak].state in DEAD:
        streak += 1
    if streak == 0:
        return None
    newest, first = latest[0], latest[streak - 1]
    what = "the last run failed" if streak == 1 else f"the last {streak} runs failed"
    if streak == LATEST_RUNS:
        what = f"at least the last {streak} runs failed"
    error = (newest.error or "").strip().splitlines()
    reason = f"{what}: {error[-1][:200]}" if error else what
    since = first.ended_at or first.fire_at
    return JobCondition(job=job, health=JobHealth.FAILING, since=since, reason=reason, run=newest.id)


def _condition(
    job: str, health: JobHealth, since: datetime, reason: str, run: str, waiting: Waiting | None
) -> JobCondition:
    nodes, more = ((), 0) if waiting is None else (waiting.nodes, waiting.more)
    return JobCondition(job=job, health=health, since=since, reason=reason, run=run, nodes=nodes, more=more)


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The conditions of all jobs, one of a kind for each job. Of the kinds in `cut` there may be more: at most
    `MOST_CONDITIONS` were read.
    """

    conditions: Mapping[JobHealth, Sequence[JobCondition]]
    cut: Collection[JobHealth] = ()

    @property
    def counts(self) -> dict[JobHealth, int]:
        """The number of jobs by condition."""
        return {health: len(self.conditions.get(health, ())) for health in JobHealth}

    def names(self, health: JobHealth) -> set[str]:
        """The jobs in this condition."""
        return {one.job for one in self.conditions.get(health, ())}


MOST_CONDITIONS = 1000
