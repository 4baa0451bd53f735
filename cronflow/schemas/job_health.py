"""The health of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

from cronflow.domain.job_health import MOST_CONDITIONS, HealthReport, JobCondition, JobHealth
from cronflow.schemas import Schema, iso


class HealthCountsSchema(Schema):
    """Numbers of jobs that need attention, at most a thousand each. A job may count more than once."""

    stuck: int
    """No node can execute one of their runs, or a run takes longer than usual."""
    overdue: int
    """They were due more than a minute ago, and nothing has been planned for them."""
    failing: int
    """Their latest run failed or was lost."""
    paused: int
    """Paused jobs."""
    never_ran: int
    """They have no run."""


class NodeReasonSchema(Schema):
    """Why a node does not take a run."""

    node: str
    """The node, as `<name>#<incarnation>`."""
    reason: str
    """Why not."""


class JobConditionSchema(Schema):
    """Why a job needs attention."""

    job: str
    """Its name."""
    health: JobHealth
    """What it is."""
    since: str
    """Since when: from when it was due, has waited, began to fail, was paused or was created."""
    reason: str
    """Why."""
    run: str | None
    """The run that waits, takes long or failed last; an overdue one does not exist yet."""
    nodes: list[NodeReasonSchema]
    """The reasons of up to eight nodes."""
    more: int
    """Number of nodes that are not listed."""


class JobHealthSchema(Schema):
    """The jobs that need attention."""

    counts: HealthCountsSchema
    """Their numbers, without the filter."""
    items: list[JobConditionSchema]
    """Up to a thousand jobs of each condition, the most urgent condition first, and the longest first."""


def health_counts_schema(report: HealthReport, readable: Callable[[str], bool] | None = None) -> HealthCountsSchema:
    found = {
        health.value: sum(1 for one in conditions if readable is None or readable(one.job))
        for health, conditions in report.conditions.items()
    }
    return {
        "stuck": found["stuck"],
        "overdue": found["overdue"],
        "failing": found["failing"],
        "paused": found["paused"],
        "never_ran": found["never_ran"],
    }


def job_health_schema(
    report: HealthReport,
    *,
    job: str = "",
    kinds: Collection[JobHealth] = (),
    limit: int = MOST_CONDITIONS,
    readable: Callable[[str], bool] | None = None,
) -> JobHealthSchema:
    """At most `limit` of each of these `kinds`, or of all. `readable` accepts the names of jobs that may be read."""
    shown = []
    for kind, conditions in report.conditions.items():
        if not kinds or kind in kinds:
            found = (one for one in conditions if readable is None or readable(one.job))
            shown += [_condition_schema(one) for one in islice((one for one in found if job in ("", one.job)), limit)]
    return {"counts": health_counts_schema(report, readable), "items": shown}


def _condition_schema(one: JobCondition) -> JobConditionSchema:
    return {
        "job": one.job,
        "health": one.health,
        "since": iso(one.since),
        "reason": one.reason,
        "run": one.run,
        "nodes": [{"node": node, "reason": reason} for node, reason in one.nodes],
        "more": one.more,
    }
