"""The alert evaluator: the leader evaluates alerts and puts notifications into the outbox. Every node reports a missing
leader.

Rules: no dead letter is missed, because the write that ends such a run leaves a mark, which is removed after the
notifications are in the outbox. None is reported twice, because a notification's id is derived from its subject, so
repeated or concurrent evaluation changes nothing. It adds no write to a run. Without alerts it costs the leader one
read every three seconds; a follower that sees a leader reads nothing.

Figures that cross a threshold are in `threshold_monitor`, weekly reports in `weekly_reporter`, lost nodes and waits for
limits in `cluster_conditions`, heartbeats and successes in `sign_of_life`. `notification_grouper` combines what is
held.

Lateness: each fire is judged once, when it is as old as the alert allows, by a position that is stored with the alert.
Of earlier fires only those are late that still wait when the alert is created.
Fires shortly before the position are read again, for runs that were inserted late. A job whose cursor is still at such
a fire has no run yet, and is late too. The time in maintenance does not count (`held_fires`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from cronflow.documents.notifications import (
    failure_text,
    late_text,
    long_text,
    recovery_text,
    retries_text,
    unplaced_text,
)
from cronflow.documents.values import instant_text
from cronflow.domain.alert_kinds import DEAD_LETTER_KINDS, AlertKind
from cronflow.domain.alerts import AlertRecord, Failing, Notification, is_late
from cronflow.domain.backfill import YIELDS
from cronflow.domain.cluster import Member, Tenure
from cronflow.domain.long_runs import LongRun
from cronflow.domain.maintenance_mode import HELD
from cronflow.domain.placement import BUSY
from cronflow.domain.run import Run, RunState, run_id
from cronflow.leader.cluster_conditions import ClusterConditions
from cronflow.leader.elector import Elector
from cronflow.leader.held_fires import HeldFires
from cronflow.leader.notification_grouper import NotificationGrouper
from cronflow.leader.notification_writer import NotificationWriter
from cronflow.leader.sign_of_life import SignOfLife
from cronflow.leader.threshold_monitor import ThresholdMonitor
from cronflow.leader.weekly_reporter import WeeklyReporter
from cronflow.node.missing_leader import MissingLeader
from cronflow.node.role_loop import Wake
from cronflow.ports import (
    AlertConditions,
    AlertStore,
    Clock,
    EventStore,
    JobStore,
    LimitStore,
    Outbox,
    RollupStore,
    RunQuery,
    RunStore,
)

LOOK_S = 3.0
UNSEEN_S = 10.0
"""Followers read the leader's key every five seconds; after twice that they ask MongoDB."""
BATCH = 200
SUCCESSES = 20
AGAIN = timedelta(seconds=15)
DEFERRED = timedelta(seconds=5)
"""The planner defers a job by at most this."""
KEEP_POSITION_EVERY = timedelta(minutes=1)
MOST_WAITING = 1000
"""At most this many runs that waited before an alert was created are read at once."""
WAITS_IN_TURN = {*BUSY, *YIELDS}
"""Reasons to wait that end by themselves, or by the person who gave them."""
MOST_RETRIED = 1000


class AlertEvaluator:
    """`posted` is called when there may be notifications to send; `long_runs` returns the runs that take longer than
    usual.
    """

    def __init__(
        self,
        alerts: AlertStore,
        outbox: Outbox,
        conditions: AlertConditions,
        runs: RunStore,
        rollups: RollupStore,
        missing_leader: MissingLeader,
        elector: Elector,
        held: HeldFires,
        clock: Clock,
        jobs: JobStore,
        limits: LimitStore,
        events: EventStore,
        *,
        namespace: str,
        members: Callable[[], Sequence[Member]],
        in_maintenance: Callable[[], bool],
        posted: Callable[[], None],
        long_runs: Callable[[], Sequence[LongRun]] = tuple,
    ) -> None:
        self._alerts, self._conditions = alerts, conditions
        self._runs = runs
        self._missing_leader = missing_leader
        self._elector = elector
        self._held = held
        self._clock = clock
        self._posted = posted
        self._long_runs = long_runs
        self._writer = NotificationWriter(outbox, clock, namespace)
        self._thresholds = ThresholdMonitor(alerts, conditions, rollups, self._writer, clock)
        self._reports = WeeklyReporter(runs, self._writer, clock)
        self._signs = SignOfLife(conditions, runs, self._writer, members, in_maintenance, clock)
        self._cluster = ClusterConditions(events, limits, self._writer, clock)
        self._grouper = NotificationGrouper(outbox, jobs, clock)
        self._judged: dict[str, datetime] = {}
        self._behind: Failing | None = None
        self.wake = Wake()

    async def step(self) -> float:
        if (tenure := self._elector.tenure) is not None:
            await self._lead(tenure)
        elif self._elector.unseen_s > UNSEEN_S:
            await self._missing_leader.look()
        return LOOK_S

    # ---------------------------------------------------------------------------------------------------- with a leader

    async def _lead(self, tenure: Tenure) -> None:
        records = await self._alerts.find()
        if not records:
            return
        if any(record.alert.wants(*DEAD_LETTER_KINDS, AlertKind.RETRIES) for record in records):
            await self._dead_letters(records)
        await self._recoveries({record.name: record for record in records})
        of_lateness = [record for record in records if record.alert.wants(AlertKind.LATE)]
        if of_lateness and await self._held.look(tenure):
            for record in of_lateness:
                await self._late(record)
        await self._retries([record for record in records if record.alert.wants(AlertKind.RETRIES)])
        await self._long([record for record in records if record.alert.wants(AlertKind.RUNNING_LONG)])
        await self._thresholds.look(records)
        await self._reports.look(records)
        await self._cluster.look(records)
        await self._signs.look(records)
        await self._grouper.look(records)
        self._posted()

    async def _dead_letters(self, records: Sequence[AlertRecord]) -> None:
        while runs := await self._conditions.unreported(BATCH):
            notifications: list[Notification] = []
            failing: list[Failing] = []
            for run in runs:
                for record in records:
                    if run.ended_at is None or run.ended_at < record.since:
                        continue
                    if record.alert.retried_too_often(run):
                        # It may have ended before it was seen among the open runs.
                        notifications.append(self._retried(record, run))
                    kind = record.alert.dead_letter_kind(run)
                    if kind is None:
                        continue
                    notifications.append(self._writer.about(record, kind, run, run.ended_at, failure_text(run)))
                    if AlertKind.RECOVERED in record.alert.on:
                        failing.append(Failing(record.name, run.job, run.id, run.fire_at, run.ended_at))
            await self._writer.put(notifications)
            await self._alerts.fail(failing)
            await self._conditions.mark_reported([run.id for run in runs])
            if len(runs) < BATCH:
                return

    async def _recoveries(self, records: dict[str, AlertRecord]) -> None:
        """One page of failing jobs per round, so that the cost is bounded."""
        if not any(record.alert.wants(AlertKind.RECOVERED) for record in records.values()):
            return
        page = await self._alerts.failing(after=self._behind, limit=BATCH)
        self._behind = page[-1] if len(page) == BATCH else None
        for failing in page:
            record = records.get(failing.alert)
            if record is None or not record.alert.wants(AlertKind.RECOVERED) or not record.alert.concerns(failing.job):
                await self._alerts.recovered(failing)
                continue
            query = RunQuery(job=failing.job, states={RunState.SUCCEEDED}, since=failing.fire_at, limit=SUCCESSES)
            run = failing.recovered_by(await self._runs.find(query))
            if run is not None:
                assert run.ended_at is not None
                # The failed run is the subject, so the recovery is reported once, whichever success is found.
                text = recovery_text(failing, run)
                await self._writer.put(
                    [self._writer.about(record, AlertKind.RECOVERED, run, run.ended_at, text, subject=failing.run)]
                )
                await self._alerts.recovered(failing)

    async def _late(self, record: AlertRecord) -> None:
        after, now = record.alert.late_after, self._clock.now()
        until = self._held.judged_until(now - after, after)
        judged = max(record.judged, record.since, self._judged.get(record.name, record.judged))
        notifications: list[Notification] = []
        # Jobs are read before runs: a job that is planned in between is found among the runs.
        for job in await self._conditions.behind(until, now + DEFERRED, BATCH):
            assert job.next_fire is not None
            if record.alert.concerns(job.name):
                subject = run_id(job.name, job.next_fire)
                notifications.append(
                    self._writer.make(record, AlertKind.LATE, subject, now, _late(subject, None, after), job=job.name)
                )
        if judged <= record.since:
            # Runs that waited when the alert was created, until it is as old as `late_after`.
            waiting = await self._conditions.waiting(min(until, record.since), MOST_WAITING)
            notifications += [
                self._writer.about(record, AlertKind.LATE, run, now, _late(run.id, run, after))
                for run in waiting
                if record.alert.concerns(run.job)
                and self._is_late(run, after)
                and all(attempt.started_at is None for attempt in run.attempts)
            ]
        if until <= record.since:
            await self._writer.put(notifications)
            return
        place = (max(judged - AGAIN, record.since), "")
        while runs := await self._conditions.late(place, until, after):
            place = (runs[-1].fire_at, runs[-1].id)
            notifications += [
                self._writer.about(record, AlertKind.LATE, run, now, _late(run.id, run, after))
                for run in runs
                if record.alert.concerns(run.job) and self._is_late(run, after)
            ]
        notifications += await self._unplaced(record, until)
        await self._writer.put(notifications)
        self._judged[record.name] = until
        if until - record.judged > KEEP_POSITION_EVERY:
            await self._alerts.judge(record.name, until)

    def _is_late(self, run: Run, after: timedelta) -> bool:
        return is_late(run, after) and not self._held.excuses(run, after)

    async def _unplaced(self, record: AlertRecord, until: datetime) -> list[Notification]:
        """Retries and manual runs that no live node can run. A fire that has not started is late anyway."""
        notifications: list[Notification] = []
        for run in await self._conditions.unplaced(until, BATCH):
            waiting = run.waiting
            if (
                waiting is None
                or waiting.reason in WAITS_IN_TURN
                or waiting.reason.startswith(HELD)
                or not record.alert.concerns(run.job)
            ):
                continue
            if not is_late(run, record.alert.late_after):
                subject = f"{run.id}:{instant_text(waiting.since)}"
                text = unplaced_text(run.id, waiting)
                notifications.append(
                    self._writer.about(record, AlertKind.LATE, run, waiting.since, text, subject=subject)
                )
        return notifications

    async def _retries(self, records: Sequence[AlertRecord]) -> None:
        """Open runs; those that ended as dead letters are found with them."""
        if not records:
            return
        fewest = min(record.alert.retries for record in records)
        await self._writer.put(
            [
                self._retried(record, run)
                for run in await self._conditions.retried(fewest, MOST_RETRIED)
                for record in records
                if record.alert.retried_too_often(run) and (run.dispatched_at or run.created_at) >= record.since
            ]
        )

    def _retried(self, record: AlertRecord, run: Run) -> Notification:
        return self._writer.about(record, AlertKind.RETRIES, run, self._clock.now(), retries_text(run))

    async def _long(self, records: Sequence[AlertRecord]) -> None:
        found = {one.run: one for one in self._long_runs()} if records else {}
        if not found:
            return
        now = self._clock.now()
        runs = [run for run in await self._runs.get(found) if run.state is RunState.RUNNING]
        await self._writer.put(
            [
                self._writer.about(record, AlertKind.RUNNING_LONG, run, now, long_text(found[run.id], now))
                for run in runs
                for record in records
                if record.alert.concerns(run.job)
            ]
        )


def _late(subject: str, run: Run | None, after: timedelta) -> str:
    starts = [] if run is None else [one.started_at for one in run.attempts if one.started_at is not None]
    first = starts[0] if starts else run.started_at if run is not None else None
    return late_text(subject, first, after.total_seconds())
