"""Alerts on figures of the cluster: the number of dead letters, and the share of retries.

Rule: a crossing is stored by compare-and-set before its notification is put into the outbox, and every leader puts the
notification of the stored crossing there first, under an id derived from its number. So a crossing is reported once,
also if a leader dies in between or two of them evaluate at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cronflow.documents.notifications import MessageDetails, dead_letters_text, retry_rate_text
from cronflow.domain.alert_kinds import GIVE_UP_AFTER, AlertKind
from cronflow.domain.alerts import AlertRecord
from cronflow.domain.rollup import FIRST_ATTEMPT, RETRY, BucketSize, summed
from cronflow.domain.thresholds import RATE_OVER, AlertLevel, Crossing, crossing, retry_rate_level
from cronflow.leader.notification_writer import NotificationWriter
from cronflow.ports import AlertConditions, AlertStore, Clock, RollupStore

MOST_COUNTED = 10_000
KINDS = (AlertKind.DEAD_LETTERS, AlertKind.RETRY_RATE)


class ThresholdMonitor:
    def __init__(
        self,
        alerts: AlertStore,
        conditions: AlertConditions,
        rollups: RollupStore,
        writer: NotificationWriter,
        clock: Clock,
    ) -> None:
        self._alerts, self._conditions, self._rollups = alerts, conditions, rollups
        self._writer = writer
        self._clock = clock
        self._reported: dict[str, int] = {}

    async def look(self, records: Sequence[AlertRecord]) -> None:
        """Evaluate the alerts that have one of these kinds. Without any it reads nothing."""
        wanted = [record for record in records if record.alert.wants(*KINDS)]
        if not wanted:
            return
        stored = await self._alerts.crossings()
        for record in wanted:
            for kind in KINDS:
                last = stored.get(f"{record.name}/{kind}")
                if last is not None and record.alert.wants(kind):
                    await self._report(record, last)
        if any(record.alert.wants(AlertKind.DEAD_LETTERS) for record in wanted):
            dead = await self._conditions.dead_by_job(MOST_COUNTED)
            for record in wanted:
                if record.alert.wants(AlertKind.DEAD_LETTERS):
                    await self._dead_letters(record, stored, dead)
        if any(record.alert.wants(AlertKind.RETRY_RATE) for record in wanted):
            attempts, retries = await self._attempts()
            for record in wanted:
                if record.alert.wants(AlertKind.RETRY_RATE):
                    await self._retry_rate(record, stored, attempts, retries)

    async def _dead_letters(self, record: AlertRecord, stored: Mapping[str, Crossing], dead: Mapping[str, int]) -> None:
        last, before = _last(record, AlertKind.DEAD_LETTERS, stored)
        count = sum(number for job, number in dead.items() if record.alert.concerns(job))
        level = record.alert.dead_letters.level(count)
        await self._cross(record, last, AlertKind.DEAD_LETTERS, before, level, count)

    async def _retry_rate(
        self, record: AlertRecord, stored: Mapping[str, Crossing], attempts: int, retries: int
    ) -> None:
        last, before = _last(record, AlertKind.RETRY_RATE, stored)
        level = retry_rate_level(before, attempts, retries, record.alert.retry_rate)
        share = round(retries / attempts, 4) if attempts else 0.0
        await self._cross(record, last, AlertKind.RETRY_RATE, before, level, share)

    async def _attempts(self) -> tuple[int, int]:
        """The attempts of the last hour, and how many of them were retries."""
        now = self._clock.now()
        total = summed(await self._rollups.read(BucketSize.MINUTE, now - RATE_OVER, now)).attempts
        return total[FIRST_ATTEMPT] + total[RETRY], total[RETRY]

    async def _cross(
        self,
        record: AlertRecord,
        last: Crossing | None,
        kind: AlertKind,
        before: AlertLevel,
        level: AlertLevel,
        figure: float,
    ) -> None:
        found = crossing(last, record.name, kind, before, level, figure, self._clock.now())
        if found is not None and await self._alerts.cross(found):
            await self._report(record, found)

    async def _report(self, record: AlertRecord, found: Crossing) -> None:
        """Put the notification of the latest crossing into the outbox, if this leader has not done so."""
        if self._reported.get(found.place) == found.number:
            return
        fresh = found.at >= record.since and self._clock.now() - found.at < GIVE_UP_AFTER
        if found.is_reported and fresh:
            kind = AlertKind(found.kind)
            describe = dead_letters_text if kind is AlertKind.DEAD_LETTERS else retry_rate_text
            text, threshold = describe(record.alert, found)
            details: MessageDetails = {"level": found.level.word, "figure": found.figure, "threshold": threshold}
            await self._writer.put([self._writer.make(record, kind, found.subject, found.at, text, details=details)])
        self._reported[found.place] = found.number


def _last(record: AlertRecord, kind: AlertKind, stored: Mapping[str, Crossing]) -> tuple[Crossing | None, AlertLevel]:
    """The stored crossing and its level; a level from before the alert began anew does not count."""
    last = stored.get(f"{record.name}/{kind}")
    if last is None or last.at < record.since:
        return last, AlertLevel.OK
    return last, last.level
