"""Alert rules, the conditions they evaluate, and their notifications."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import Alert, AlertRecord, Answer, Failing, Notification
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.domain.thresholds import Crossing


class AlertStore(Protocol):
    """Alert rules by name, and the failing jobs that each has reported."""

    async def create(self, record: AlertRecord) -> bool:
        """Insert. False if the name exists."""

    async def get(self, name: str) -> AlertRecord | None: ...

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        """A page ordered by name, starting after `after`."""

    async def replace(self, record: AlertRecord, rev: int) -> bool:
        """Replace the record if it has this `rev`, and add one to `rev`. False if it differs or does not exist."""

    async def delete(self, name: str) -> bool:
        """Delete the rule, its notifications, failing jobs and crossings. False if the rule does not exist."""

    async def judge(self, name: str, until: datetime) -> None:
        """Record that fires up to this instant were evaluated. The instant never decreases; `rev` does not change."""

    async def fail(self, failing: Sequence[Failing]) -> None:
        """Store failing jobs. Each replaces one of the same alert and job that ended earlier. Safe to repeat."""

    async def failing(self, *, after: Failing | None = None, limit: int = 100) -> list[Failing]:
        """A page ordered by `place`, starting after that of `after`."""

    async def recovered(self, failing: Failing) -> None:
        """Delete a failing job, unless a later failure has replaced it."""

    async def crossings(self) -> Mapping[str, Crossing]:
        """The latest crossing of each alert and kind, by `place`."""

    async def cross(self, crossing: Crossing) -> bool:
        """Store a crossing in place of the one with the number before. False if that is not the latest one, or if this
        number is stored already.
        """


class Outbox(Protocol):
    """Notifications. A claim leases a waiting notification to one sender. Held and grouped ones are never claimed."""

    async def put(self, notifications: Sequence[Notification]) -> set[str]:
        """Insert those with a new id. Returns the ids that this call inserted."""

    async def claim(
        self, claim: str, lease: timedelta, limit: int, *, excluding: Collection[str] = ()
    ) -> list[Notification]:
        """Claim waiting notifications that are due by the store's clock, the longest due first, except those of the
        alerts in `excluding`. Of each alert and job only the oldest waiting one is claimed, so the later ones follow
        when it has ended. Each claim counts as an attempt, and the notification is due again after the lease.
        """

    async def record_attempt(self, notification: Notification, again_in: timedelta | None) -> bool:
        """Write the result of an attempt: `state`, `status`, `error`, `tried_at` and `ended_at`. A notification that is
        still waiting is due again after `again_in`. False if its claim is a different one.
        """

    async def held(
        self,
        alert: str,
        limit: int,
        *,
        after: tuple[datetime, str] | None = None,
        kinds: Collection[AlertKind] | None = None,
    ) -> list[Notification]:
        """A page of the held notifications of an alert, oldest first; with `kinds`, only of these. `after` is the
        (created_at, id) of the last one of the previous page.
        """

    async def latest_digest(self, alert: str, group: str | None = None) -> Notification | None:
        """The digest of the alert with the highest number; with `group`, of this group alone."""

    async def settle(self, digest: str, at: datetime) -> None:
        """Mark the held members of the stored digest as grouped. Safe to repeat."""

    async def forget(self, notification: Notification) -> None:
        """Delete a notification whose alert was deleted."""

    async def of(
        self, alert: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]:
        """A page of an alert, newest first. `before` is the (created_at, id) of the last one of the previous page."""


class AlertConditions(Protocol):
    """Queries for the conditions that alerts evaluate."""

    async def unreported(self, limit: int) -> list[Run]:
        """Runs that failed or were lost and that alerts have not evaluated. The write that ends such a run marks it
        unreported, so alerts miss none, however late that write is.
        """

    async def mark_reported(self, runs: Collection[str]) -> None:
        """Remove the marks. Safe to repeat."""

    async def late(self, after: tuple[datetime, str], until: datetime, by: timedelta, limit: int = 1000) -> list[Run]:
        """Runs whose latest start is missing or more than `by` after `fire_at`, ordered by (fire_at, id): those after
        `after`, with `fire_at` up to `until`.
        """

    async def waiting(self, until: datetime, limit: int) -> list[Run]:
        """Open runs with `fire_at` before `until` whose present attempt has not started, ordered by (fire_at, id)."""

    async def unplaced(self, since: datetime, limit: int) -> list[Run]:
        """Open runs that have waited for a node since this instant or longer, the longest wait first."""

    async def retried(self, more_than: int, limit: int) -> list[Run]:
        """Open runs with more retries than this, the latest dispatched first."""

    async def dead_by_job(self, limit: int) -> Mapping[str, int]:
        """The number of unresolved dead letters by job; of all, at most `limit` are counted."""

    async def behind(self, fire: datetime, due: datetime, limit: int) -> list[JobRecord]:
        """Active jobs whose cursor is at or before `fire` and whose `due_at` is at or before `due`, ordered by
        `due_at`.
        """


class NotificationSender(Protocol):
    """Sends notifications to the receivers of their alerts."""

    @property
    def sends_mail(self) -> bool:
        """Whether this process has a mail server."""

    async def send(self, alert: Alert, notification: Notification, at: datetime) -> Answer:
        """Send once, in the form that the receiver of the alert expects. `at` is the time of a signature. Takes at most
        about ten seconds. Raises nothing but BackendUnavailable.
        """
