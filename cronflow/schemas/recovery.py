"""The recovery after an outage: what was missed, and how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from cronflow.domain.catch_up import CatchUpProgress
from cronflow.schemas import Schema, iso, optional_iso


class MissedJobSchema(Schema):
    """A job with missed runs."""

    job: str
    """The job."""
    runs: int
    """Number of its missed runs that are held."""
    since: str
    """The oldest instant of them."""


class RecoverySchema(Schema):
    """The recovery that is under way, or the last one."""

    state: Literal["none", "counting", "waiting", "draining", "skipping", "ended"]
    """`none`: there was no recovery; `counting`: the leader finds out what was missed; `waiting`: for an approval;
    `draining`: missed runs start; `skipping`: they are recorded as skipped; `ended`: none is held.
    """
    number: int | None
    """Its number; null: there was none."""
    cause: str | None
    """What the outage was."""
    outage_end: str | None
    """When the cluster planned again."""
    jobs: int
    """Number of jobs whose runs were missed."""
    runs: int
    """Number of missed runs."""
    held_jobs: int
    """Number of jobs that are held now."""
    held_runs: int
    """Number of missed runs that have not started yet."""
    oldest: str | None
    """The oldest missed instant."""
    by_priority: dict[str, int]
    """Number of held runs by priority; when it has ended, of missed ones."""
    top: list[MissedJobSchema]
    """The 20 jobs with the most of them."""
    rate: str | None
    """The maximum number of runs per unit of time, such as `100/s`; null: as fast as slots are free."""
    ends_at: str | None
    """When the last run starts at the earliest, at this rate; null: no rate, or it waits."""
    approved: list[str]
    """Patterns of jobs whose runs start while the others wait."""
    skipped: list[str]
    """Patterns of jobs whose runs are skipped while the others wait."""
    by: str | None
    """Who decided last."""
    note: str | None
    """Why the runs are skipped."""
    decided_at: str | None
    """When a person decided about all of it."""
    ended_at: str | None
    """When it ended."""


def recovery_schema(progress: CatchUpProgress | None, now: datetime) -> RecoverySchema:
    if progress is None:
        return {
            "state": "none", "number": None, "cause": None, "outage_end": None, "jobs": 0, "runs": 0, "held_jobs": 0,
            "held_runs": 0, "oldest": None, "by_priority": {}, "top": [], "rate": None, "ends_at": None, "approved": [],
            "skipped": [], "by": None, "note": None, "decided_at": None, "ended_at": None,
        }  # fmt: skip
    plan, held = progress
    least = progress.least_duration
    by_priority = dict(plan.by_priority) if plan.ended_at is not None else held.by_priority
    top = plan.top if plan.ended_at is not None else held.top
    return {
        "state": plan.state.value,
        "number": plan.number,
        "cause": plan.cause,
        "outage_end": iso(plan.cutoff),
        "jobs": plan.jobs,
        "runs": plan.runs,
        "held_jobs": held.jobs,
        "held_runs": held.runs,
        "oldest": optional_iso(plan.oldest if held.oldest is None else held.oldest),
        "by_priority": {str(priority): runs for priority, runs in sorted(by_priority.items(), reverse=True)},
        "top": [{"job": one.job, "runs": one.runs, "since": iso(one.since)} for one in top],
        "rate": None if plan.rate is None else str(plan.rate),
        "ends_at": None if least is None else iso(now + least),
        "approved": list(plan.approved),
        "skipped": list(plan.skipped),
        "by": plan.by or None,
        "note": plan.note or None,
        "decided_at": optional_iso(plan.decided_at),
        "ended_at": optional_iso(plan.ended_at),
    }
