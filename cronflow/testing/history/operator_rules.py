"""Rules for what people ask of a cluster, H16 to H22: backfills, rates, reservations, drains, cancellations, pauses and
the maintenance mode.

A leader or a node has `FOLLOWS_WITHIN` to learn what it must know, and longer where a fault kept it from learning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from cronflow.domain.backfill import BackfillState
from cronflow.domain.cluster import node_name
from cronflow.domain.concurrency import uses_of
from cronflow.domain.job import StartGuard
from cronflow.domain.permits import MS
from cronflow.domain.resources import NOTHING, ResourceAmount
from cronflow.domain.run import SCHEDULED, RunState
from cronflow.domain.version import Version
from cronflow.testing.history.history import START, History, Step

FOLLOWS_WITHIN = timedelta(seconds=5)
"""How long an item that was sent may still start, and how long a leader or node reads nothing new."""
RECORDED_WITHIN = timedelta(seconds=0.2)
"""Between a permit and the record of the start."""
HELD_UP = timedelta(seconds=15)
"""How far back a fault may delay the record of a start."""
TAKEN = (RunState.DISPATCHED, RunState.RUNNING)

Breaches = Iterator[tuple[str, str]]


def each_instant_of_a_backfill_has_one_run(history: History) -> Breaches:
    """H16: a backfill has runs of its instants alone, each once, and of all of them when it is done."""
    fires: dict[str, list[datetime]] = defaultdict(list)
    still_open: set[str] = set()
    for run in history.runs:
        if run.backfill is not None:
            fires[run.backfill].append(run.fire_at)
            still_open |= {run.backfill} if run.is_open else set()
    for backfill, instants in history.backfills:
        for fire in sorted(set(fires[backfill.id])):
            if fire not in instants:
                yield backfill.id, f"it has a run of {fire:%F %T}, which it was not asked for"
            if fires[backfill.id].count(fire) > 1:
                yield backfill.id, f"it has {fires[backfill.id].count(fire)} runs of {fire:%F %T}"
        if backfill.state is BackfillState.CANCELLED:
            continue
        missing = [fire for fire in instants if fire not in fires[backfill.id]]
        if backfill.state is BackfillState.DONE and (missing or backfill.id in still_open):
            yield backfill.id, f"it is done; {len(missing)} instants have no run, or a run of it is open"
        if backfill.state is BackfillState.RUNNING and backfill.created_at <= history.healed:
            yield backfill.id, f"it has not ended; {len(missing)} instants have no run"


def no_rate_is_exceeded(history: History) -> Breaches:
    """H17: starts are recorded no faster than the rate of a key allows, but for what a fault delayed."""
    versions, jobs = _versions(history), {run.id: run for run in history.runs}
    next_at: dict[str, datetime] = {}
    for step in _first_of_fence(history, RunState.RUNNING):
        run = jobs.get(step.run)
        version = None if run is None else versions.get((run.job, step.job_ver))
        if run is None or version is None:
            continue
        for use in uses_of(version.job, run.args):
            if use.rate is not None:
                due = next_at.get(use.id, step.at)
                allowed = step.at + use.rate.tolerance_ms * MS + RECORDED_WITHIN
                if due > allowed:
                    if not _fault(history, step.at - HELD_UP, step.at):
                        yield step.run, f"it started {due - allowed} earlier than {use.rate} allows"
                    # The starts before it were recorded late, and it says nothing about those after it.
                    due = allowed
                next_at[use.id] = max(due, step.at) + use.rate.interval_ms * MS


def no_node_is_overbooked(history: History) -> Breaches:
    """H18: the runs that a node has never reserve more than it announces.

    It has those that it starts, from their dispatch on. A leader pushes only the runs that it inserted itself. One that
    it planned and could not insert is inserted by plan recovery, as dispatched to a node that may be full by then. That
    node never receives it, and the leader dispatches the run again.
    """
    started = {(step.run, step.fence) for step in history.steps if step.state is RunState.RUNNING}
    started |= {(line.run, line.fence) for line in history.sink if line.word == START}
    reserved: dict[str, dict[str, ResourceAmount]] = defaultdict(dict)
    place: dict[str, str] = {}
    for step in history.steps:
        if step.run in place:
            reserved[place.pop(step.run)].pop(step.run, None)
        if step.state not in TAKEN or step.node is None or not step.reserved:
            continue
        if (step.run, step.fence) not in started:
            continue
        place[step.run] = step.node
        reserved[step.node][step.run] = step.reserved
        total = NOTHING
        for amount in reserved[step.node].values():
            total = total.plus(amount)
        if not total.fits(history.capacities.get(node_name(step.node)), NOTHING):
            yield step.run, f"with it, the runs on {step.node} reserve {total}"


def nothing_starts_on_a_drained_node(history: History) -> Breaches:
    """H19."""
    for line in history.sink:
        for drain in history.drains if line.word == START else ():
            since = drain.since + FOLLOWS_WITHIN
            if drain.node == line.node and since < line.at < drain.until and not _fault(history, drain.since, line.at):
                yield line.run, f"it started on {line.node}, {line.at - drain.since} after the drain was acknowledged"


def nothing_cancelled_starts(history: History) -> Breaches:
    """H20: a run whose cancellation was acknowledged gets no further attempt, and an attempt that was on its way starts
    at most for a moment (`start_guard: redis`).
    """
    runs = {run.id: run for run in history.runs}
    for cancel in history.cancels:
        run = runs.get(cancel.run)
        job = None if run is None else history.job_of(run)
        for line in history.sink:
            if line.word != START or line.run != cancel.run or line.at <= cancel.at:
                continue
            soon = job is not None and job.start_guard is StartGuard.REDIS and line.at <= cancel.at + FOLLOWS_WITHIN
            if line.fence > cancel.fence or not (soon or _fault(history, cancel.at, line.at)):
                yield line.run, f"the attempt {line.fence} started {line.at - cancel.at} after it was cancelled"


def no_fire_of_a_held_job_runs(history: History) -> Breaches:
    """H21: an instant under a version that is paused, disabled or deleted is at most skipped."""
    runs = {run.id: run for run in history.runs}
    versions = _versions(history)
    seen: set[str] = set()
    for step in history.steps:
        run = runs.get(step.run)
        if run is None or step.run in seen or run.kind not in SCHEDULED:
            continue
        seen.add(step.run)
        version = versions.get((run.job, step.job_ver))
        if version is not None and version.held is not None and step.state is not RunState.SKIPPED:
            yield step.run, f"it was opened under version {step.job_ver}, which is {version.held}"


def nothing_is_dispatched_in_maintenance(history: History) -> Breaches:
    """H22."""
    for step in _first_of_fence(history, RunState.DISPATCHED) if history.maintenance else ():
        for mode in history.maintenance:
            if mode.since + FOLLOWS_WITHIN < step.at < mode.until and not _fault(history, mode.since, step.at):
                yield step.run, f"it was dispatched {step.at - mode.since} after the maintenance mode was acknowledged"


def _fault(history: History, since: datetime, until: datetime) -> bool:
    return any(fault.touches(since, until) for fault in history.faults)


def _versions(history: History) -> Mapping[tuple[str, int], Version]:
    return {(job.name, one.ver): one for job in history.jobs for one in history.versions(job.name)}


def _first_of_fence(history: History, state: RunState) -> Iterator[Step]:
    """The steps into this state, in the order of their times; the first one of each fence."""
    seen: set[tuple[str, int]] = set()
    for step in sorted(history.steps, key=lambda step: step.at):
        if step.state is state and (step.run, step.fence) not in seen:
            seen.add((step.run, step.fence))
            yield step
