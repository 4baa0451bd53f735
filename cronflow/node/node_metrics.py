"""The metrics of a node: gauges read from its roles on demand, and a counter of the runs that ended here.

Reading a gauge sends no request: the leader reports the cluster as of the last heartbeats it read, and a follower
reports nothing about the cluster.

`RunCounter` adds ended runs to the roll-ups once a second. Rules: it adds no write per run, and a count is written once
or not at all. When the reply to a write is lost, writing again could count twice, so the chart lacks a second of one
node. Runs that end during an outage of MongoDB are counted when their outcomes are written. A run that is cancelled
before it starts is ended by no node and is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from cronflow.circuit_breaker import breaker_figures
from cronflow.domain import metrics
from cronflow.domain.cluster import Backlog, Member, Tenure
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.rollup import FIRST_ATTEMPT, RETRY, BucketSize, Tally, step_of
from cronflow.domain.run import ENDED, Outcome, Run, RunState, fire_of
from cronflow.domain.transitions import Change
from cronflow.node.cluster_clock import ClusterClock
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.keep_alive import LoopMonitor
from cronflow.node.role_loop import Leadership, NodeRole, Outages, Wake
from cronflow.node.timings import Timings
from cronflow.ports import UNMETERED, Clock, Meter, Reading, RollupStore
from cronflow.schemas.cluster import nodes_by_state

EVERY_S = 1.0
MINUTE = timedelta(minutes=1)
NEVER = (datetime.min.replace(tzinfo=UTC), Tally())
SERVICES = {"redis": "Redis", "mongodb": "MongoDB"}


log = structlog.get_logger("cronflow.node")


def register_node_metrics(
    meter: Meter,
    *,
    clock: Clock,
    timings: Timings,
    elector: Leadership,
    heartbeat: Heartbeat,
    cluster_clock: ClusterClock,
    outages: Outages,
    loop_monitor: LoopMonitor,
    members: Callable[[], Sequence[Member]],
    backlog: Callable[[], Backlog],
    breakers: Callable[[], Mapping[str, str]],
    limits: Callable[[], tuple[Mapping[str, int], Mapping[str, int]] | None],
    backfills: Callable[[], tuple[int, int] | None],
    maintenance: Callable[[Tenure], tuple[bool, MaintenanceMode | None]],
    long_runs: Callable[[], int],
    missed: Callable[[], int],
    slots: int,
    load: Callable[[], tuple[int, int]],
) -> None:

    def leads() -> bool:
        return elector.tenure is not None

    def spool_age() -> float:
        since = backlog().since
        return 0.0 if since is None else max(0.0, (clock.now() - since).total_seconds())

    def nodes() -> Reading:
        return nodes_by_state(members(), timedelta(seconds=timings.heartbeat)) if leads() else None

    def of_limits(position: int) -> Reading:
        figures = limits()
        if figures is None:
            return None
        return {name: float(count) for name, count in sorted(figures[position].items())[: metrics.MOST_LIMITS]}

    def of_backfills(position: int) -> Reading:
        figures = backfills()
        return None if figures is None else float(figures[position])

    def in_maintenance() -> Reading:
        tenure = elector.tenure
        known, mode = (False, None) if tenure is None else maintenance(tenure)
        return float(mode is not None) if known else None

    meter.read(metrics.MAINTENANCE, in_maintenance)
    meter.read(metrics.BACKFILLS_RUNNING, lambda: of_backfills(0))
    meter.read(metrics.BACKFILL_INSTANTS_LEFT, lambda: of_backfills(1))
    meter.read(metrics.RUNS_LONG, lambda: float(long_runs()) if leads() else None)
    meter.read(metrics.LIMIT_PERMITS, lambda: of_limits(0))
    meter.read(metrics.LIMIT_WAITING, lambda: of_limits(1))
    meter.read(metrics.MISSED_RUNS, lambda: float(missed()) if leads() else None)
    meter.read(metrics.LEADER, lambda: float(leads()))
    meter.read(metrics.TERM, lambda: float(elector.last_term))
    meter.read(metrics.LEASE_LEFT, lambda: elector.lease_left_s if leads() else None)
    meter.read(metrics.CLOCK_TRUSTED, lambda: float(cluster_clock.complaint is None))
    meter.read(metrics.LOOP_STALLED, lambda: loop_monitor.lag_s)
    meter.read(metrics.LOOP_TASKS, lambda: loop_monitor.tasks)
    meter.read(metrics.HEARTBEAT_AGE, lambda: heartbeat.age_s)
    meter.read(metrics.SLOTS, lambda: float(slots))
    meter.read(metrics.IN_FLIGHT, lambda: float(load()[0]))
    meter.read(metrics.SPOOL_OUTCOMES, lambda: float(backlog().outcomes))
    meter.read(metrics.SPOOL_BYTES, lambda: float(backlog().bytes))
    meter.read(metrics.SPOOL_AGE, spool_age)
    meter.read(
        metrics.BACKEND_UP,
        lambda: {name: float(outages.began(service) is None) for name, service in SERVICES.items()},
    )
    meter.read(metrics.BREAKER_STATE, lambda: breaker_figures(breakers()))
    meter.read(metrics.CLUSTER_NODES, nodes)
    meter.read(metrics.CLUSTER_SLOTS, lambda: float(sum(one.report.slots for one in members())) if leads() else None)
    meter.read(
        metrics.CLUSTER_IN_FLIGHT,
        lambda: float(sum(one.report.in_flight for one in members())) if leads() else None,
    )
    meter.read(metrics.QUEUE_DEPTH, lambda: float(sum(one.queued for one in members())) if leads() else None)


class RunCounter:
    """Counts in memory. Run its `role`, which writes the counts."""

    def __init__(self, rollups: RollupStore, meter: Meter = UNMETERED) -> None:
        self._rollups = rollups
        self._meter = meter
        self._minutes: dict[datetime, Tally] = {}
        self._latest = NEVER
        self.role = NodeRole("roll-ups", self.step, Wake())

    def changed(self, change: Change) -> None:
        """Count a change of a run that was applied."""
        ended_at, attempt = change.sets.get("ended_at"), change.attempt
        if change.target in ENDED and isinstance(ended_at, datetime):
            tally = self._tally(ended_at)
            tally.states[change.target.value] += 1
            self._meter.add(metrics.RUNS_ENDED, change.target.value)
            if change.target is RunState.FAILED and change.sets.get("reason"):
                self._meter.add(metrics.RETRIES_STOPPED)
            if isinstance(outcome := change.sets.get("outcome"), Outcome):
                tally.outcomes[outcome.value] += 1
            if attempt is not None and attempt.started_at is not None:
                took = ended_at - attempt.started_at
                tally.duration[step_of(took)] += 1
                self._meter.observe(metrics.RUN_DURATION, max(0.0, took.total_seconds()))
        if attempt is not None:
            self._meter.add(metrics.ATTEMPTS_ENDED, attempt.outcome.value)
            if attempt.started_at is not None:
                tally = self._tally(attempt.ended_at)
                tally.attempts[FIRST_ATTEMPT if attempt.n == 1 else RETRY] += 1
            if attempt.n == 1 and attempt.started_at is not None:
                self._lateness(change.run, attempt.started_at, attempt.ended_at)

    def inserted(self, run: Run) -> None:
        """Count a run that was inserted as ended: a skipped one."""
        if run.ended_at is not None:
            self._tally(run.ended_at).states[run.state.value] += 1
            self._meter.add(metrics.RUNS_ENDED, run.state.value)

    def _lateness(self, run: str, started_at: datetime, ended_at: datetime) -> None:
        # Only scheduled runs are due at an instant, which their ids contain.
        fire = fire_of(run)
        if fire is not None:
            self._tally(ended_at).lateness[step_of(started_at - fire)] += 1

    async def step(self) -> float:
        minutes, self._minutes = self._minutes, {}
        self._latest = NEVER
        if minutes:
            await self._rollups.add(minutes)
        return EVERY_S

    async def flush(self) -> None:
        """Write the last counts when the process ends. Never raises BackendUnavailable."""
        try:
            await self.step()
        except BackendUnavailable as error:
            log.warning("counts lost", reason=error.reason)

    def _tally(self, at: datetime) -> Tally:
        begin, tally = self._latest
        if not begin <= at < begin + MINUTE:
            begin = BucketSize.MINUTE.begin(at)
            tally = self._minutes.setdefault(begin, Tally())
            self._latest = (begin, tally)
        return tally
