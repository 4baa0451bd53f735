"""Weekly reports: the runs of the last seven days that failed or were lost, grouped by reason.

A report is due at an instant of the alert, which is also the subject of its notification. So each week has one report,
whoever leads; if there is no leader at that time, it is sent as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cronflow.documents.notifications import report_details, report_text
from cronflow.documents.values import instant_text
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import WEEK, AlertRecord
from cronflow.leader.notification_writer import NotificationWriter
from cronflow.ports import Clock, RunStore
from cronflow.usecases.failures import failures_between


class WeeklyReporter:
    def __init__(self, runs: RunStore, writer: NotificationWriter, clock: Clock) -> None:
        self._runs = runs
        self._writer = writer
        self._clock = clock
        self._sent: dict[str, datetime] = {}

    async def look(self, records: Sequence[AlertRecord]) -> None:
        """Send the reports that are due. The runs are read once per report and leader."""
        now = self._clock.now()
        for record in records:
            if not record.alert.wants(AlertKind.REPORT):
                continue
            due = record.alert.report.latest(now)
            if due > record.since and self._sent.get(record.name) != due:
                await self._send(record, due)
                self._sent[record.name] = due

    async def _send(self, record: AlertRecord, due: datetime) -> None:
        since = due - WEEK
        failures, more = await failures_between(self._runs, since, due, concerns=record.alert.concerns)
        details = report_details(since, due, failures, more=more)
        text = report_text(since, due, failures, more=more)
        await self._writer.put(
            [self._writer.make(record, AlertKind.REPORT, instant_text(due), due, text, details=details)]
        )
