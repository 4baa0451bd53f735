"""The result of a rehearsal: every run with what is notable about it, and the sums.

Each fire that falls due in the period is in exactly one of the sums `on_time`, `late`, `covered`, `skipped` and
`waiting`: fires that a late run stands for are covered by it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cronflow.domain.catch_up import CatchUpState
from cronflow.domain.job import JobRecord
from cronflow.domain.run import SCHEDULED, Covers, Kind, Outcome, Run, RunState
from cronflow.domain.schedule.fires import count_between
from cronflow.rehearsal.clock_changes import ClockChange, clock_changes
from cronflow.rehearsal.executor import Execution
from cronflow.rehearsal.performance import Performance

LATE_AFTER = timedelta(seconds=1)
SECOND = timedelta(seconds=1)
MOST_COUNTED = 10_000_000
DOWN = "the cluster was down"
NO_LEADER = "no leader"
PREVIOUS = "its previous run was running"
NO_SLOT = "all slots were in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecast:
    """A run. `late` is from its instant to its start, and `why` is the reason if this is more than a second. `fires` is
    the number of instants that it stands for.
    """

    run: str
    job: str
    kind: Kind
    fire_at: datetime
    state: RunState
    started_at: datetime | None
    ended_at: datetime | None
    node: str | None
    reason: str | None
    covers: Covers | None
    fires: int
    late: timedelta | None = None
    why: str | None = None
    overlaps: bool = False
    interrupted: int = 0
    timed_out: bool = False

    @property
    def scheduled(self) -> bool:
        return self.kind in SCHEDULED

    @property
    def is_late(self) -> bool:
        return self.late is not None and self.late > LATE_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The sums of fires; `other_runs` are those without an instant of their own, such as of jobs that follow others."""

    due: int
    on_time: int
    late: int
    covered: int
    skipped: Mapping[str, int]
    waiting: int
    other_runs: int
    overlapping: int
    interrupted: int
    timed_out: int
    latest: RunForecast | None
    busiest_minute: tuple[datetime, int] | None
    most_slots: tuple[datetime, int] | None
    slots: int
    leaderless: timedelta
    missed_held: int
    """Missed runs that wait for a person at the end, because there are more than the recovery limit."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result, with the jobs that fire or wait at the end by name."""

    performance: Performance
    runs: Sequence[RunForecast]
    summary: Summary
    waiting: Mapping[str, tuple[datetime, int, str]] = field(default_factory=dict)
    clock_changes: Sequence[ClockChange] = ()


def report(performance: Performance) -> Rehearsal:
    """What the performance shows."""
    scenario = performance.scenario
    executions: dict[str, list[Execution]] = defaultdict(list)
    by_job: dict[str, list[Execution]] = defaultdict(list)
    for execution in performance.executions:
        executions[execution.run].append(execution)
        by_job[execution.job].append(execution)
    overlapping = {run for some in by_job.values() for run in _overlapping(some)}
    runs = [
        _forecast(run, performance, executions[run.id], by_job[run.job], run.id in overlapping)
        for run in performance.runs.values()
        if run.parent is None
    ]
    runs.sort(key=lambda one: (one.fire_at, one.run))
    waiting = dict(_waiting(performance))
    changes = [
        change
        for name, record in sorted(performance.records.items())
        if record.job.enabled
        for change in clock_changes(name, record.job.schedule, scenario.first, scenario.until)
    ]
    return Rehearsal(performance, runs, _summary(performance, runs, waiting), waiting, changes)


def _forecast(
    run: Run, performance: Performance, own: Sequence[Execution], of_job: Sequence[Execution], overlaps: bool
) -> RunForecast:
    started_at = own[0].began if own else run.started_at
    late = None
    if started_at is not None and run.kind in SCHEDULED:
        # The clocks of nodes are rounded to a part of a microsecond.
        started_at = max(started_at, run.fire_at)
        late = max(timedelta(0), started_at - run.fire_at)
    why = None
    if late is not None and late > LATE_AFTER and started_at is not None:
        why = _cause(run, started_at, performance, of_job)
    return RunForecast(
        run=run.id,
        job=run.job,
        kind=run.kind,
        fire_at=run.fire_at,
        state=run.state,
        started_at=started_at,
        ended_at=run.ended_at,
        node=own[-1].node if own else None,
        reason=run.reason,
        covers=run.covers,
        fires=_fires(run, performance.records.get(run.job)),
        late=late,
        why=why,
        overlaps=overlaps,
        interrupted=sum(one.interrupted for one in own) if len(own) > 1 or run.state is RunState.LOST else 0,
        timed_out=run.outcome is Outcome.TIMEOUT or any(one.outcome is Outcome.TIMEOUT for one in run.attempts),
    )


def _fires(run: Run, record: JobRecord | None) -> int:
    if run.covers is None:
        return 1
    if run.covers.count is not None:
        return run.covers.count
    schedule = record.job.schedule if record is not None else None
    if schedule is None:
        return 1
    return count_between(schedule, run.covers.first, run.covers.last, MOST_COUNTED) or MOST_COUNTED


def _cause(run: Run, started_at: datetime, performance: Performance, of_job: Sequence[Execution]) -> str:
    outage = performance.scenario.outage
    if outage is not None and run.fire_at < outage.end and started_at >= outage.end:
        return DOWN
    if any(run.fire_at < end and begin <= started_at for begin, end in performance.leaderless):
        return NO_LEADER
    wait = performance.waits.get((run.job, run.fire_at))
    busy = any(
        one.run != run.id and one.began < started_at and (one.ended is None or one.ended > run.fire_at)
        for one in of_job
    )
    if busy and (wait is None or "run" in wait):
        return PREVIOUS
    return wait or NO_SLOT


def _overlapping(executions: Sequence[Execution]) -> Iterable[str]:
    """The runs of a job that began while another one of it was running."""
    until: datetime | None = None
    for one in sorted(executions, key=lambda execution: execution.began):
        if until is not None and one.began < until:
            yield one.run
        if one.ended is not None:
            until = one.ended if until is None else max(until, one.ended)


def _waiting(performance: Performance) -> Iterable[tuple[str, tuple[datetime, int, str]]]:
    """The fires that the planner has not decided about at the end: the first one, how many, and why."""
    until = performance.scenario.until
    for name, record in sorted(performance.records.items()):
        fire, schedule = record.next_fire, record.job.schedule
        if fire is None or schedule is None or fire >= until or not record.active:
            continue
        count = count_between(schedule, fire, until - SECOND, MOST_COUNTED) or MOST_COUNTED
        yield name, (fire, count, str(record.waiting) if record.waiting is not None else NO_SLOT)


def _summary(
    performance: Performance, runs: Sequence[RunForecast], waiting: Mapping[str, tuple[datetime, int, str]]
) -> Summary:
    scheduled = [run for run in runs if run.scheduled]
    # A run that was interrupted may be skipped in the end.
    started = [run for run in scheduled if run.started_at is not None and run.state is not RunState.SKIPPED]
    late = [run for run in started if run.is_late]
    skipped: Counter[str] = Counter()
    open_fires = 0
    for run in scheduled:
        if run.state is RunState.SKIPPED:
            skipped[run.reason or "skipped"] += run.fires
        elif run.started_at is None:
            open_fires += run.fires
    covered = sum(run.fires - 1 for run in started)
    waits = open_fires + sum(count for _, count, _ in waiting.values())
    minutes = Counter(one.began.replace(second=0, microsecond=0) for one in performance.executions)
    recovery = performance.recovery
    held = recovery.runs if recovery is not None and recovery.state is CatchUpState.WAITING else 0
    return Summary(
        due=len(started) + covered + skipped.total() + waits,
        on_time=len(started) - len(late),
        late=len(late),
        covered=covered,
        skipped=dict(skipped.most_common()),
        waiting=waits,
        other_runs=len(runs) - len(scheduled),
        overlapping=sum(run.overlaps for run in runs),
        interrupted=sum(run.interrupted > 0 for run in runs),
        timed_out=sum(run.timed_out for run in runs),
        latest=max(late, key=lambda run: run.late or timedelta(0), default=None),
        busiest_minute=max(minutes.items(), key=lambda item: (item[1], -item[0].timestamp()), default=None),
        most_slots=_most_slots(performance.executions),
        slots=performance.scenario.slots,
        leaderless=sum((end - begin for begin, end in performance.leaderless), timedelta(0)),
        missed_held=held,
    )


def _most_slots(executions: Sequence[Execution]) -> tuple[datetime, int] | None:
    # At the same instant, ends come before beginnings.
    moments = sorted(
        [(one.began, 1) for one in executions] + [(one.ended, -1) for one in executions if one.ended is not None]
    )
    used, most = 0, None
    for at, change in moments:
        used += change
        if most is None or used > most[1]:
            most = (at, used)
    return most
