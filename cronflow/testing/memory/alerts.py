"""Alerts, notifications, and the conditions that alerts look for. Notifications that ended are never deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter

from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import AlertRecord, Failing, Notification, NotificationState
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.domain.thresholds import Crossing
from cronflow.testing.memory.documents import DocumentPort, Documents, NamedStore


def _drop(documents: Documents, notifications: Collection[str]) -> None:
    documents.notifications.delete(notifications)
    documents.due.delete(notifications)


class MemoryOutbox(DocumentPort, port="outbox"):
    async def put(self, notifications: Sequence[Notification]) -> set[str]:
        fresh = [one for one in notifications if self.documents.notifications.insert(one.id, one)]
        self.documents.due |= {one.id: one.created_at for one in fresh if one.state is NotificationState.WAITING}
        return {one.id for one in fresh}

    async def claim(
        self, claim: str, lease: timedelta, limit: int, *, excluding: Collection[str] = ()
    ) -> list[Notification]:
        now, due, all_of_them = self.clock.now(), self.documents.due, self.documents.notifications
        oldest: dict[tuple[str, str | None], Notification] = {}
        for one in sorted((all_of_them[name] for name in due), key=attrgetter("created_at", "id")):
            oldest.setdefault((one.alert, one.job), one)
        found = [one for one in oldest.values() if due[one.id] <= now and one.alert not in excluding]
        found = sorted(found, key=lambda one: due[one.id])[:limit]
        for one in found:
            all_of_them[one.id] = replace(one, claim=claim, attempts=one.attempts + 1)
            due[one.id] = now + lease
        return [all_of_them[one.id] for one in found]

    async def record_attempt(self, notification: Notification, again_in: timedelta | None) -> bool:
        if not self.documents.notifications.replace_if(
            notification.id,
            lambda present: present.claim == notification.claim,
            lambda _: replace(notification, claim=None),
        ):
            return False
        if notification.state is not NotificationState.WAITING:
            del self.documents.due[notification.id]
        elif again_in is not None:
            self.documents.due[notification.id] = self.clock.now() + again_in
        return True

    async def held(
        self,
        alert: str,
        limit: int,
        *,
        after: tuple[datetime, str] | None = None,
        kinds: Collection[AlertKind] | None = None,
    ) -> list[Notification]:
        return self.documents.notifications.page(
            attrgetter("created_at", "id"),
            lambda one: (
                one.alert == alert and one.state is NotificationState.HELD and (kinds is None or one.kind in kinds)
            ),
            after=after,
            limit=limit,
        )

    async def latest_digest(self, alert: str, group: str | None = None) -> Notification | None:
        found = [
            one
            for one in self.documents.notifications.values()
            if one.alert == alert and one.number is not None and group in (None, one.group)
        ]
        return max(found, key=lambda one: one.number or 0, default=None)

    async def settle(self, digest: str, at: datetime) -> None:
        stored = self.documents.notifications.get(digest)
        for member in () if stored is None else stored.members:
            self.documents.notifications.replace_if(
                member,
                lambda present: present.state is NotificationState.HELD,
                lambda present: replace(present, state=NotificationState.GROUPED, digest=digest, ended_at=at),
            )

    async def forget(self, notification: Notification) -> None:
        _drop(self.documents, [notification.id])

    async def of(
        self, alert: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]:
        place = attrgetter("created_at", "id")
        return self.documents.notifications.page(
            place, lambda one: one.alert == alert, after=before, limit=limit, newest=True
        )


class MemoryAlertStore(NamedStore[AlertRecord], port="alerts"):
    async def replace(self, record: AlertRecord, rev: int) -> bool:
        return self.records.replace_if(
            record.name, lambda present: present.rev == rev, lambda _: replace(record, rev=rev + 1)
        )

    async def delete(self, name: str) -> bool:
        _drop(self.documents, [one.id for one in self.documents.notifications.values() if one.alert == name])
        self.documents.failing.delete_where(lambda one: one.alert == name)
        self.documents.crossings.delete_where(lambda one: one.alert == name)
        return self.records.pop(name, None) is not None

    async def judge(self, name: str, until: datetime) -> None:
        self.records.replace_if(name, lambda _: True, lambda record: replace(record, judged=max(record.judged, until)))

    async def fail(self, failing: Sequence[Failing]) -> None:
        for one in failing:
            present = self.documents.failing.get(one.place)
            if present is None or present.ended_at < one.ended_at:
                self.documents.failing[one.place] = one

    async def failing(self, *, after: Failing | None = None, limit: int = 100) -> list[Failing]:
        return self.documents.failing.page(attrgetter("place"), after="" if after is None else after.place, limit=limit)

    async def recovered(self, failing: Failing) -> None:
        present = self.documents.failing.get(failing.place)
        if present is not None and present.run == failing.run:
            del self.documents.failing[failing.place]

    async def crossings(self) -> Mapping[str, Crossing]:
        return dict(self.documents.crossings)

    async def cross(self, crossing: Crossing) -> bool:
        if crossing.number == 1:
            return self.documents.crossings.insert(crossing.place, crossing)
        return self.documents.crossings.replace_if(
            crossing.place, lambda present: present.number == crossing.number - 1, lambda _: crossing
        )


class MemoryAlertConditions(DocumentPort, port="alert_conditions"):
    async def unreported(self, limit: int) -> list[Run]:
        return self.documents.runs.page(
            lambda run: (run.ended_at or run.fire_at, run.id),
            lambda run: run.id in self.documents.unreported,
            limit=limit,
        )

    async def mark_reported(self, runs: Collection[str]) -> None:
        self.documents.unreported -= set(runs)

    async def late(self, after: tuple[datetime, str], until: datetime, by: timedelta, limit: int = 1000) -> list[Run]:
        return self.documents.runs.page(
            attrgetter("fire_at", "id"),
            lambda run: run.fire_at <= until and (run.started_at is None or run.started_at > run.fire_at + by),
            after=after,
            limit=limit,
        )

    async def waiting(self, until: datetime, limit: int) -> list[Run]:
        return self.documents.runs.page(
            attrgetter("fire_at", "id"),
            lambda run: run.is_open and run.fire_at < until and run.started_at is None,
            limit=limit,
        )

    async def unplaced(self, since: datetime, limit: int) -> list[Run]:
        found = [
            (run.waiting.since, run.id, run)
            for run in self.documents.runs.values()
            if run.is_open and run.waiting and run.waiting.since <= since and run.waiting.blocked_by is None
        ]
        return [run for _, _, run in sorted(found, key=lambda row: row[:2])[:limit]]

    async def retried(self, more_than: int, limit: int) -> list[Run]:
        found = [run for run in self.documents.runs.values() if run.is_open and run.attempt > more_than + 1]
        return sorted(found, key=lambda run: run.dispatched_at or run.created_at, reverse=True)[:limit]

    async def dead_by_job(self, limit: int) -> Mapping[str, int]:
        return Counter([run.job for run in self.documents.runs.values() if run.is_dead][:limit])

    async def behind(self, fire: datetime, due: datetime, limit: int) -> list[JobRecord]:
        return self.documents.jobs.page(
            attrgetter("due_at", "name"),
            lambda record: (
                record.active
                and record.due_at
                and record.due_at <= due
                and record.next_fire
                and record.next_fire <= fire
            ),
            limit=limit,
        )
