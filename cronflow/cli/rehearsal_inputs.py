"""What a rehearsal knows about the cluster: its jobs, nodes and limits, and how long its jobs usually run.

The rule: the queries are bounded. Durations are read for the jobs that fire in the period, at most MOST_HISTORIES, with
one query each. Without a cluster everything is assumed, and a note says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cronflow.cli.terminal import times
from cronflow.domain.concurrency import MOST_CONCURRENT
from cronflow.domain.permits import NamedLimit
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.kinds import Rules
from cronflow.rehearsal.scenario import DEFAULT_SLOTS, RehearsedJob, RehearsedNode
from cronflow.rehearsal.selection import merged, nodes_for

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.domain.job import Job
    from cronflow.schemas.cluster import NodeSchema
    from cronflow.schemas.jobs import JobSchema

MOST_JOBS = 5000
MOST_HISTORIES = 500
HISTORIES_AT_ONCE = 8
RUNS_READ = 30
ASSUMED_NODES = 3


class Durations(StrEnum):
    """How long a job runs in a rehearsal: its median, or what 95 % of its runs do not exceed."""

    P50 = "p50"
    P95 = "p95"

    @property
    def share(self) -> float:
        return 0.5 if self is Durations.P50 else 0.95


@dataclass(slots=True)
class Inputs:
    """What was read, with notes about what is assumed or missing."""

    jobs: list[RehearsedJob] = field(default_factory=list)
    nodes: list[RehearsedNode] = field(default_factory=list)
    limits: list[NamedLimit] = field(default_factory=list)
    calendars: list[Calendar] = field(default_factory=list)
    durations: dict[str, timedelta] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


async def read_cluster(cluster: Cluster) -> Inputs:
    """The jobs with their state, the nodes, the limits and the calendars."""
    from cronflow.cli.connect import first_of
    from cronflow.cli.views.jobs import definition
    from cronflow.client.authenticated import NotPermitted
    from cronflow.documents import parse_job
    from cronflow.documents.calendars import CalendarForm, parse_calendar
    from cronflow.documents.limits import parse_limit

    found = Inputs()
    async for job in first_of(cluster.jobs.list(), MOST_JOBS + 1):
        found.jobs.append(_rehearsed(job, parse_job(definition(job), job["name"])))
    if len(found.jobs) > MOST_JOBS:
        found.jobs.pop()
        found.notes.append(f"only the first {MOST_JOBS:,} jobs by name were read")
    names = [calendar["name"] async for calendar in cluster.calendars.list()]
    for name in names:
        calendar = await cluster.calendars.get(name)
        form = {key: value for key, value in calendar.items() if key in CalendarForm.__annotations__}
        found.calendars.append(parse_calendar(form, name))
    try:
        found.nodes = [_node(node) async for node in cluster.nodes.list() if node["state"] != "draining"]
        limits = [limit async for limit in cluster.limits.list()]
    except NotPermitted:
        found.notes.append("this login may not list nodes and limits, so they are assumed")
        limits = []
    keys = ("name", "limit", "rate", "burst", "description")
    found.limits = [parse_limit({key: limit[key] for key in keys}) for limit in limits]  # type: ignore[literal-required]
    return found


def _rehearsed(job: JobSchema, parsed: Job) -> RehearsedJob:
    pause = job["pause"]
    until = None if pause is None or pause["until"] is None else times.parsed(pause["until"])
    next_fire = None if job["next_fire"] is None else times.parsed(job["next_fire"])
    return RehearsedJob(parsed, next_fire, job["paused"], until, done=job["state"] == "done")


def _node(node: NodeSchema) -> RehearsedNode:
    capacity = node["capacity"]
    amount = None if capacity is None else ResourceAmount(capacity["cpu"], capacity["memory"])
    return RehearsedNode(node["name"], node["slots"], node["labels"], amount)


async def read_durations(cluster: Cluster, jobs: Sequence[str], durations: Durations) -> dict[str, timedelta]:
    """The duration of each of these jobs, from its latest successful runs. A job without any is left out."""
    names = iter(jobs[:MOST_HISTORIES])
    found: dict[str, timedelta] = {}

    async def work() -> None:
        from cronflow.cli.connect import runs_of

        for name in names:
            runs = await runs_of(cluster, name, RUNS_READ)
            lengths = [run["duration_ms"] for run in runs if run["state"] == "succeeded"]
            known = sorted(length for length in lengths if length is not None)
            if known:
                found[name] = timedelta(milliseconds=known[max(0, math.ceil(durations.share * len(known)) - 1)])

    await asyncio.gather(*(work() for _ in range(HISTORIES_AT_ONCE)))
    return {name: found[name] for name in sorted(found)}


def chosen(jobs: Sequence[RehearsedJob], patterns: Collection[str], labels: Mapping[str, str | None]) -> list[str]:
    """The names of the jobs that match one of the patterns and all labels."""
    return [
        one.job.name
        for one in jobs
        if (not patterns or any(fnmatchcase(one.job.name, pattern) for pattern in patterns))
        and all(key in one.job.labels and value in (None, one.job.labels[key]) for key, value in labels.items())
    ]


def complete(inputs: Inputs, jobs: Sequence[Job], count: int | None, slots: int | None) -> None:
    """Add what is missing: the nodes, if there are none or others are wanted, and limits that jobs name."""
    if not inputs.nodes:
        wanted = count or ASSUMED_NODES
        inputs.nodes = nodes_for(jobs, wanted, slots or DEFAULT_SLOTS)
        if count is None or len(inputs.nodes) > wanted:
            inputs.notes.append(f"assumed {len(inputs.nodes)} nodes with {inputs.nodes[0].slots} slots each")
    elif count is not None:
        known = inputs.nodes
        inputs.nodes = [
            known[n] if n < len(known) else replace(known[n % len(known)], name=f"more-{n + 1}") for n in range(count)
        ]
    if slots is not None:
        inputs.nodes = [replace(node, slots=slots) for node in inputs.nodes]
    if (fewer := merged(inputs.nodes)) != inputs.nodes:
        inputs.notes.append(f"{len(inputs.nodes)} nodes are rehearsed as {len(fewer)} larger ones")
        inputs.nodes = fewer
    defined = {limit.name for limit in inputs.limits}
    absent = sorted({name for job in jobs for name in job.concurrency if isinstance(name, str)} - defined)
    inputs.limits += [NamedLimit(name=name, limit=MOST_CONCURRENT) for name in absent]
    if absent:
        inputs.notes.append(f"unknown limits allow any number of runs: {', '.join(absent)}")


def cursor(one: RehearsedJob, first: datetime, *, from_now: bool) -> RehearsedJob:
    """The job as it will be at the beginning of the period: its present cursor only holds for a period from now on. A
    job with calendars shows the next fire that they allow, which may be later than its cursor.
    """
    schedule = one.job.schedule
    shown = one.next_fire is not None and not (isinstance(schedule, Rules) and schedule.has_exclusions)
    holds = shown and one.next_fire is not None and (from_now or one.next_fire >= first)
    return one if holds else replace(one, next_fire=None)
