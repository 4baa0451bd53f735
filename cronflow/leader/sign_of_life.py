"""Signs of life, for services that report their absence: a heartbeat of the cluster, and the successes of jobs.

Rules: a heartbeat is sent only while the cluster does its work: there is a live node that takes runs, and no fire is
overdue to be planned, unless the maintenance mode holds it. A beat and a success are the subjects of their
notifications, so each is sent once. A success that is an hour old is not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from cronflow.documents.notifications import heartbeat_text, success_text
from cronflow.documents.values import instant_text
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord
from cronflow.domain.cluster import Member
from cronflow.domain.run import RunState
from cronflow.leader.notification_writer import NotificationWriter
from cronflow.ports import AlertConditions, Clock, RunQuery, RunStore

BEHIND = timedelta(minutes=1)
SUCCESSES = 20
NOT_OLDER = timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SignOfLife:
    """`in_maintenance` returns whether the maintenance mode is on."""

    def __init__(
        self,
        conditions: AlertConditions,
        runs: RunStore,
        writer: NotificationWriter,
        members: Callable[[], Sequence[Member]],
        in_maintenance: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._conditions, self._runs, self._writer = conditions, runs, writer
        self._members, self._in_maintenance = members, in_maintenance
        self._clock = clock
        self._beats: dict[str, datetime] = {}

    async def look(self, records: Sequence[AlertRecord]) -> None:
        """Send what is due. Without such alerts it reads nothing."""
        now = self._clock.now()
        await self._successes([record for record in records if record.alert.wants(AlertKind.SUCCEEDED)], now)
        due = [
            (record, beat)
            for record in records
            if record.alert.wants(AlertKind.HEARTBEAT)
            and (beat := latest_beat(now, record.alert.heartbeat_every)) >= record.since
            and self._beats.get(record.name) != beat
        ]
        if not due or not (nodes := await self._healthy(now)):
            return
        for record, beat in due:
            text = heartbeat_text(nodes)
            await self._writer.put([self._writer.make(record, AlertKind.HEARTBEAT, instant_text(beat), now, text)])
            self._beats[record.name] = beat

    async def _healthy(self, now: datetime) -> int:
        """The number of live nodes that take runs; 0 if the cluster does not do its work."""
        nodes = sum(not member.draining for member in self._members())
        if not nodes or self._in_maintenance():
            return nodes
        overdue = await self._conditions.behind(now - BEHIND, now - BEHIND, 1)
        return 0 if overdue else nodes

    async def _successes(self, records: Sequence[AlertRecord], now: datetime) -> None:
        for job in sorted({job for record in records for job in record.alert.jobs}):
            query = RunQuery(job=job, states={RunState.SUCCEEDED}, limit=SUCCESSES)
            runs = await self._runs.find(query)
            await self._writer.put(
                [
                    self._writer.about(record, AlertKind.SUCCEEDED, run, run.ended_at, success_text(run))
                    for run in reversed(runs)
                    for record in records
                    if job in record.alert.jobs
                    and run.ended_at is not None
                    and run.ended_at >= max(record.since, now - NOT_OLDER)
                ]
            )


def latest_beat(now: datetime, every: timedelta) -> datetime:
    """The latest instant of a heartbeat, the same for all."""
    return EPOCH + (now - EPOCH) // every * every
