"""Small valid values, so that a test contains only what it tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cronflow.domain.cluster import NodeReport
from cronflow.domain.job import Job, JobRecord, PendingRun, PythonTarget
from cronflow.domain.run import Attempt, Kind, Outcome, Run, RunState, run_id
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment

T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def a_job(name: str = "report", **fields: Any) -> Job:
    """A job that is due every minute."""
    return Job(name=name, target=PythonTarget("reports:build"), **({"schedule": Every("60s")} | fields))


def a_record(name: str = "report", due_at: datetime = T0, **fields: Any) -> JobRecord:
    """Its record as it was created."""
    base = JobRecord(job=a_job(name), next_fire=due_at, due_at=due_at, created_at=T0, updated_at=T0)
    return replace(base, **fields)


def a_pend(fire: datetime = T0, fence: int = 100, **fields: Any) -> PendingRun:
    """A dispatched run's pend."""
    base = PendingRun(fire=fire, state=RunState.DISPATCHED, fence=fence, job_ver=1, at=T0, node="n1#a")
    return replace(base, **fields)


def a_run(job: str = "report", fire: datetime = T0, **fields: Any) -> Run:
    """A dispatched run with fence 100 on node n1#a, to be looked at ten seconds from its dispatch."""
    base = Run(
        id=run_id(job, fire),
        job=job,
        fire_at=fire,
        kind=Kind.INTERVAL,
        state=RunState.DISPATCHED,
        fence=100,
        term=1,
        job_ver=1,
        node="n1#a",
        attempt=1,
        max_attempts=4,
        check_at=fire + timedelta(seconds=10),
        created_at=fire,
        dispatched_at=fire,
    )
    return replace(base, **fields)


def an_ended_run(job: str, fire: datetime, end: datetime, *, node: str, fence: int, error: str | None = None) -> Run:
    """A run that ended with its only attempt: it failed with this error, or succeeded."""
    outcome = Outcome.OK if error is None else Outcome.ERROR
    return a_run(
        job,
        fire,
        state=RunState.SUCCEEDED if error is None else RunState.FAILED,
        fence=fence,
        node=node,
        max_attempts=1,
        check_at=None,
        started_at=fire,
        ended_at=end,
        outcome=outcome,
        error=error,
        attempts=(Attempt(1, fence, node, fire, end, outcome, error),),
    )


def an_assignment(run: str = "report@1", fence: int = 100, term: int = 1, job: Job | None = None) -> Assignment:
    """The item that a run travels in."""
    return Assignment(run=run, fence=fence, term=term, attempt=1, fire_at=T0, job=job or a_job())


def a_report(name: str = "n1", incarnation: str = "a", **fields: Any) -> NodeReport:
    """A node with 4 slots that does nothing."""
    base = NodeReport(name=name, incarnation=incarnation, cpu=0.1, memory=0.2, slots=4, in_flight=0)
    return replace(base, **fields)
