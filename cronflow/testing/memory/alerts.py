"""Alerts, notices, and what alerts look for, in dictionaries. Like MongoDB's, a notice that ended long ago may be seen
for a while; here, for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from cronflow.domain.alerts import AlertRecord, Failing, Notification, NotificationState
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.ports import Clock
from cronflow.testing.faults import Faults, verb
from cronflow.testing.memory.access import MONGO
from cronflow.testing.memory.stores import MemoryJobStore, MemoryRunStore


class MemoryOutbox:
    """The Outbox port."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults, self._clock = faults, clock
        self.notifications: dict[str, Notification] = {}
        self.due: dict[str, datetime] = {}

    @verb(MONGO, "outbox.put")
    def put(self, notifications: Sequence[Notification]) -> set[str]:
        """Insert the new ones."""
        fresh = {
            notification.id: notification for notification in notifications if notification.id not in self.notifications
        }
        self.notifications |= fresh
        self.due |= {name: notification.created_at for name, notification in fresh.items()}
        return set(fresh)

    @verb(MONGO, "outbox.claim")
    def claim(self, claim: str, lease: timedelta, limit: int, *, besides: Collection[str] = ()) -> list[Notification]:
        """Filter, sort and cut."""
        now = self._clock.now()
        due = [name for name, at in sorted(self.due.items(), key=lambda item: item[1]) if at <= now]
        found = [name for name in due if self.notifications[name].alert not in besides][:limit]
        for name in found:
            self.notifications[name] = replace(
                self.notifications[name], claim=claim, attempts=self.notifications[name].attempts + 1
            )
            self.due[name] = now + lease
        return [self.notifications[name] for name in found]

    @verb(MONGO, "outbox.tried")
    def tried(self, notification: Notification, again_in: timedelta | None) -> bool:
        """Compare and set."""
        present = self.notifications.get(notification.id)
        if present is None or present.claim != notification.claim:
            return False
        self.notifications[notification.id] = replace(notification, claim=None)
        if notification.state is not NotificationState.WAITING:
            del self.due[notification.id]
        elif again_in is not None:
            self.due[notification.id] = self._clock.now() + again_in
        return True

    @verb(MONGO, "outbox.forget")
    def forget(self, notification: Notification) -> None:
        """Delete."""
        self.drop([notification.id])

    @verb(MONGO, "outbox.of")
    def of(self, alert: str, *, before: tuple[datetime, str] | None = None, limit: int = 100) -> list[Notification]:
        """Filter, sort and cut."""
        found = [
            notification
            for notification in self.notifications.values()
            if notification.alert == alert and (before is None or (notification.created_at, notification.id) < before)
        ]
        return sorted(found, key=lambda notification: (notification.created_at, notification.id), reverse=True)[:limit]

    def drop(self, names: Collection[str]) -> None:
        """Delete these."""
        for name in names:
            self.notifications.pop(name, None)
            self.due.pop(name, None)


class MemoryAlertStore:
    """The AlertStore port."""

    def __init__(self, faults: Faults, outbox: MemoryOutbox) -> None:
        self.faults, self._outbox = faults, outbox
        self.alerts: dict[str, AlertRecord] = {}
        self.fails: dict[str, Failing] = {}

    @verb(MONGO, "alerts.create")
    def create(self, record: AlertRecord) -> bool:
        """Insert."""
        return self.alerts.setdefault(record.name, record) is record

    @verb(MONGO, "alerts.get")
    def get(self, name: str) -> AlertRecord | None:
        """Look up."""
        return self.alerts.get(name)

    @verb(MONGO, "alerts.find")
    def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        """Sort and cut."""
        return [record for name, record in sorted(self.alerts.items()) if name > after][:limit]

    @verb(MONGO, "alerts.replace")
    def replace(self, record: AlertRecord, rev: int) -> bool:
        """Compare and set."""
        present = self.alerts.get(record.name)
        if present is None or present.rev != rev:
            return False
        self.alerts[record.name] = replace(record, rev=rev + 1)
        return True

    @verb(MONGO, "alerts.delete")
    def delete(self, name: str) -> bool:
        """Delete."""
        self._outbox.drop(
            [notification.id for notification in self._outbox.notifications.values() if notification.alert == name]
        )
        self.fails = {key: one for key, one in self.fails.items() if one.alert != name}
        return self.alerts.pop(name, None) is not None

    @verb(MONGO, "alerts.judge")
    def judge(self, name: str, until: datetime) -> None:
        """The larger one."""
        record = self.alerts.get(name)
        if record is not None:
            self.alerts[name] = replace(record, judged=max(record.judged, until))

    @verb(MONGO, "alerts.fail")
    def fail(self, failing: Sequence[Failing]) -> None:
        """Compare and set, one by one."""
        for one in failing:
            present = self.fails.get(one.place)
            if present is None or present.ended_at < one.ended_at:
                self.fails[one.place] = one

    @verb(MONGO, "alerts.failing")
    def failing(self, *, after: Failing | None = None, limit: int = 100) -> list[Failing]:
        """Sort and cut."""
        begin = "" if after is None else after.place
        return [one for name, one in sorted(self.fails.items()) if name > begin][:limit]

    @verb(MONGO, "alerts.recovered")
    def recovered(self, failing: Failing) -> None:
        """Compare and delete."""
        present = self.fails.get(failing.place)
        if present is not None and present.run == failing.run:
            del self.fails[failing.place]


class MemoryAlertConditions:
    """The Signs port."""

    def __init__(self, faults: Faults, jobs: MemoryJobStore, runs: MemoryRunStore) -> None:
        self.faults, self._jobs, self._runs = faults, jobs, runs

    @verb(MONGO, "signs.untold")
    def unreported(self, limit: int) -> list[Run]:
        """Look up, sort and cut."""
        found = [self._runs.runs[run] for run in self._runs.unreported if run in self._runs.runs]
        return sorted(found, key=lambda run: (run.ended_at or run.fire_at, run.id))[:limit]

    @verb(MONGO, "signs.told")
    def mark_reported(self, runs: Collection[str]) -> None:
        """Take away."""
        self._runs.unreported -= set(runs)

    @verb(MONGO, "signs.late")
    def late(self, after: tuple[datetime, str], until: datetime, by: timedelta, limit: int = 1000) -> list[Run]:
        """Filter, sort and cut."""
        found = [
            run
            for run in self._runs.runs.values()
            if after < (run.fire_at, run.id)
            and run.fire_at <= until
            and (run.started_at is None or run.started_at > run.fire_at + by)
        ]
        return sorted(found, key=lambda run: (run.fire_at, run.id))[:limit]

    @verb(MONGO, "signs.behind")
    def behind(self, fire: datetime, due: datetime, limit: int) -> list[JobRecord]:
        """Filter, sort and cut."""
        found = [
            (record.due_at, record.name, record)
            for record in self._jobs.records.values()
            if record.active
            and record.due_at
            and record.due_at <= due
            and record.next_fire
            and record.next_fire <= fire
        ]
        return [record for _, _, record in sorted(found, key=lambda row: row[:2])[:limit]]
