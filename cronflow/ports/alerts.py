"""Alerts, what they look for, and their notices. MongoDB stands behind the stores. Every verb may raise
BackendUnavailable; see the package.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from cronflow.domain.alerts import AlertRecord, Answer, Failing, Notification, Webhook
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run


class AlertStore(Protocol):
    """Alerts, and which jobs they have told of that have not recovered."""

    async def create(self, record: AlertRecord) -> bool:
        """Insert. False when the name exists."""

    async def get(self, name: str) -> AlertRecord | None:
        """The alert, if there is one."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[AlertRecord]:
        """By name, those behind `after`."""

    async def replace(self, record: AlertRecord, rev: int) -> bool:
        """Replace the document that has this `rev`, which then counts on. False when it is another, or gone."""

    async def delete(self, name: str) -> bool:
        """Delete it with its notices and what it knows of failing jobs. False when there was none."""

    async def judge(self, name: str, until: datetime) -> None:
        """Fires up to this instant have been looked at. It only grows; `rev` stays."""

    async def fail(self, failing: Sequence[Failing]) -> None:
        """Keep these, each in place of one of the same alert and job that ended earlier; repeating it is harmless."""

    async def failing(self, *, after: Failing | None = None, limit: int = 100) -> list[Failing]:
        """By `place`, those behind that of `after`."""

    async def recovered(self, failing: Failing) -> None:
        """Forget it, if a later failure has not taken its place."""


class Outbox(Protocol):
    """Notices. A waiting one belongs, for a while, to whoever has claimed it."""

    async def put(self, notifications: Sequence[Notification]) -> set[str]:
        """Insert those whose id is new. Returns the ids that this call inserted."""

    async def claim(
        self, claim: str, lease: timedelta, limit: int, *, besides: Collection[str] = ()
    ) -> list[Notification]:
        """Claim waiting ones that are due by the store's clock, the longest due first, but none of the alerts
        `besides`: each counts an attempt and is due again after the lease.
        """

    async def tried(self, notification: Notification, again_in: timedelta | None) -> bool:
        """Write what an attempt came to: `state`, `status`, `error`, `tried_at` and `ended_at`. A waiting one is due
        again in `again_in`. False when its claim is no longer this one.
        """

    async def forget(self, notification: Notification) -> None:
        """Delete it: its alert is gone."""

    async def of(
        self, alert: str, *, before: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Notification]:
        """The newest of an alert; `before` is the (created_at, id) of the last one of the page before."""


class AlertConditions(Protocol):
    """What alerts look for."""

    async def unreported(self, limit: int) -> list[Run]:
        """Runs that failed or were lost and that no alert has been asked about. The write that ends a run so makes this
        mark, so none is missed however late it is written.
        """

    async def mark_reported(self, runs: Collection[str]) -> None:
        """Take the marks away; repeating it is harmless."""

    async def late(self, after: tuple[datetime, str], until: datetime, by: timedelta, limit: int = 1000) -> list[Run]:
        """Runs with (fire_at, id) behind `after` and `fire_at` up to `until` whose latest start is not within `by` of
        `fire_at`, the earliest fire first.
        """

    async def behind(self, fire: datetime, due: datetime, limit: int) -> list[JobRecord]:
        """Active jobs whose cursor stands at `fire` or before it and whose `due_at` is at most `due`, in the order of
        `due_at`.
        """


class WebhookSender(Protocol):
    """Sends notices."""

    async def post(self, webhook: Webhook, notification: str, body: str, at: datetime) -> Answer:
        """Send it once, signed if the webhook has a secret; `notification` is its id, `at` the time that is signed
        with it. It takes some ten seconds at most. Raises BackendUnavailable alone.
        """
