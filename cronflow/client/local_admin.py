"""What admins manage, without HTTP: alerts, limits, calendars, users, API keys, secrets, the audit log; and the base of
all resources.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from cronflow.domain.access import Role
from cronflow.ports import AuditQuery
from cronflow.schemas.access import (
    AuditSchema,
    KeySchema,
    NewKeySchema,
    SecretSchema,
    SecretSetSchema,
    SessionSchema,
    UserSchema,
    audit_schema,
    key_schema,
    secret_schema,
    session_schema,
    user_schema,
)
from cronflow.schemas.alerts import (
    AlertSchema,
    AnswerSchema,
    NotificationSchema,
    alert_schema,
    answer_schema,
    notification_schema,
)

if TYPE_CHECKING:
    from cronflow.client.local import LocalClient
from cronflow.schemas.calendars import (
    AppliedCalendarSchema,
    CalendarPlanSchema,
    CalendarSchema,
    CalendarSummarySchema,
    applied_calendar,
    calendar_schema,
    calendar_summary,
    plan_schema,
)
from cronflow.schemas.limits import LimitSchema, limit_schema
from cronflow.usecases.calendars import DAYS

PAGE = 500

Schema = TypeVar("Schema")


class Resource:
    """The methods of one kind of thing; the client's counterpart over HTTP documents each of them."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self._service = client.service
        self._by = client.by


class LocalAlerts(Resource):
    def list(self) -> AsyncIterator[AlertSchema]:
        return _by_name(self._service.alerts.find, alert_schema)

    async def get(self, name: str) -> AlertSchema:
        return alert_schema(await self._service.alerts.get(name))

    async def put(self, alert: Mapping[str, object]) -> AlertSchema:
        from cronflow.documents.alerts import parse_alert

        return alert_schema((await self._service.alerts.define(parse_alert(alert), by=self._by))[0])

    async def delete(self, name: str) -> None:
        await self._service.alerts.delete(name, by=self._by)

    async def test(self, name: str) -> AnswerSchema:
        return answer_schema(await self._service.alerts.test(name, by=self._by))

    def notifications(self, name: str, *, limit: int | None = None) -> AsyncIterator[NotificationSchema]:
        return paged(
            lambda before, size: self._service.alerts.notifications(name, before=before, limit=size),
            None,
            lambda notification: (notification.created_at, notification.id),
            notification_schema,
            limit,
        )


class LocalLimits(Resource):
    def list(self) -> AsyncIterator[LimitSchema]:
        return _by_name(self._service.limits.find, limit_schema, lambda usage: usage.state.name)

    async def get(self, name: str) -> LimitSchema:
        return limit_schema(await self._service.limits.get(name))

    async def put(self, limit: Mapping[str, object]) -> LimitSchema:
        from cronflow.documents.limits import parse_limit

        return limit_schema((await self._service.limits.define(parse_limit(limit), by=self._by))[0])

    async def delete(self, name: str) -> None:
        await self._service.limits.delete(name, by=self._by)


class LocalCalendars(Resource):
    def list(self) -> AsyncIterator[CalendarSummarySchema]:
        return _by_name(self._service.calendars.find, calendar_summary, lambda use: use.record.name)

    async def get(self, name: str) -> CalendarSchema:
        return calendar_schema(await self._service.calendars.get(name), self._service.calendars.now())

    async def put(self, calendar: Mapping[str, object], *, days: int = DAYS) -> AppliedCalendarSchema:
        from cronflow.documents.calendars import parse_calendar

        use, _, plan = await self._service.calendars.define(parse_calendar(calendar), by=self._by, days=days)
        return applied_calendar(use, plan, self._service.calendars.now())

    async def plan(self, calendar: Mapping[str, object], *, days: int = DAYS) -> CalendarPlanSchema:
        from cronflow.documents.calendars import parse_calendar

        wanted = parse_calendar(calendar)
        return plan_schema(wanted.name, await self._service.calendars.plan(wanted, days))

    async def delete(self, name: str) -> None:
        await self._service.calendars.delete(name, by=self._by)


class LocalUsers(Resource):
    def list(self) -> AsyncIterator[UserSchema]:
        return _by_name(self._service.users.find, user_schema)

    async def create(
        self,
        name: str,
        role: str,
        password: str,
        *,
        jobs: Sequence[str] | None = None,
        allow_shell: bool = False,
        allow_secrets: bool = False,
    ) -> UserSchema:
        user = await self._service.users.create(
            name,
            Role(role),
            password,
            jobs=jobs,
            allow_shell=allow_shell,
            allow_secrets=allow_secrets,
            by=self._by,
        )
        return user_schema(user)

    async def change(
        self,
        name: str,
        *,
        role: str | None = None,
        enabled: bool | None = None,
        password: str | None = None,
        jobs: Sequence[str] | None = None,
        allow_shell: bool | None = None,
        allow_secrets: bool | None = None,
    ) -> UserSchema:
        user = await self._service.users.change(
            name,
            role=None if role is None else Role(role),
            enabled=enabled,
            password=password,
            jobs=jobs,
            allow_shell=allow_shell,
            allow_secrets=allow_secrets,
            by=self._by,
        )
        return user_schema(user)

    async def delete(self, name: str) -> None:
        await self._service.users.delete(name, by=self._by)


class LocalSessions(Resource):
    def list(self, *, user: str | None = None) -> AsyncIterator[SessionSchema]:
        sessions = self._service.sessions
        return paged(
            lambda after, size: sessions.find(user=user, after=after, limit=size),
            "",
            lambda session: session.id,
            session_schema,
            None,
        )

    async def revoke(self, id: str) -> None:  # noqa: A002
        await self._service.sessions.revoke(await self._service.sessions.get(id), by=self._by)

    async def revoke_all(self, user: str) -> Sequence[SessionSchema]:
        return [session_schema(one) for one in await self._service.sessions.revoke_all(user, by=self._by)]


class LocalKeys(Resource):
    def list(self) -> AsyncIterator[KeySchema]:
        return _by_name(self._service.keys.find, key_schema)

    async def create(
        self,
        name: str,
        role: str,
        *,
        jobs: Sequence[str] | None = None,
        allow_shell: bool = False,
        allow_secrets: bool = False,
        expires_at: datetime | None = None,
    ) -> NewKeySchema:
        key, text = await self._service.keys.create(
            name,
            Role(role),
            jobs=jobs,
            allow_shell=allow_shell,
            allow_secrets=allow_secrets,
            expires_at=expires_at,
            by=self._by,
        )
        return {**key_schema(key), "key": text}

    async def delete(self, name: str) -> None:
        await self._service.keys.delete(name, by=self._by)


class LocalSecrets(Resource):
    def list(self) -> AsyncIterator[SecretSchema]:
        return _by_name(self._service.secrets.find, secret_schema)

    async def set(self, name: str, value: str) -> SecretSetSchema:
        return {"name": name, "new": await self._service.secrets.set(name, value, by=self._by)}

    async def delete(self, name: str) -> None:
        await self._service.secrets.delete(name, by=self._by)


class LocalAudit(Resource):
    def list(
        self,
        *,
        by: str | None = None,
        action: str | None = None,
        target: str | None = None,
        job: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[AuditSchema]:
        asked = AuditQuery(by=by, action=action, target=target, job=job, since=since, until=until)
        return paged(
            lambda before, size: self._service.backends.audit.find(replace(asked, before=before, limit=size)),
            None,
            lambda entry: entry.id,
            audit_schema,
            limit,
        )


def _by_name(
    find: Callable[..., Awaitable[Sequence[Any]]],
    shape: Callable[[Any], Schema],
    name: Callable[[Any], str] = attrgetter("name"),
) -> AsyncIterator[Schema]:
    return paged(lambda after, size: find(after=after, limit=size), "", name, shape, None)


def page_size(limit: int | None) -> int:
    """How many items to read at once when `limit` are wanted."""
    return PAGE if limit is None else min(PAGE, limit)


async def paged(
    find: Callable[[Any, int], Awaitable[Sequence[Any]]],
    start: object,
    key: Callable[[Any], object],
    shape: Callable[[Any], Schema],
    limit: int | None,
) -> AsyncIterator[Schema]:
    """The items that `find(after, size)` returns page by page; `key` of the last item is where the next page starts."""
    after, left = start, limit
    while True:
        size = page_size(left)
        page = await find(after, size)
        for item in page:
            yield shape(item)
        left = None if left is None else left - len(page)
        if len(page) < size or left == 0:
            return
        after = key(page[-1])
