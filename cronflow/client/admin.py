"""The asyncio client for what admins manage: alerts, limits, calendars, users, API keys, secrets and the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from cronflow.client.calls import PAGE, Call, get, given, instant, page_size, path_of

if TYPE_CHECKING:
    from cronflow.client.aio import AsyncClient
    from cronflow.schemas.access import (
        AuditSchema,
        KeySchema,
        NewKeySchema,
        SecretSchema,
        SecretSetSchema,
        SessionSchema,
        UserSchema,
    )
    from cronflow.schemas.alerts import AlertSchema, AnswerSchema, NotificationSchema
    from cronflow.schemas.calendars import (
        AppliedCalendarSchema,
        CalendarPlanSchema,
        CalendarSchema,
        CalendarSummarySchema,
    )
    from cronflow.schemas.limits import LimitSchema


def _limits(jobs: Sequence[str] | None, *, allow_shell: bool | None, allow_secrets: bool | None) -> dict[str, object]:
    """Only what is given, so that an API of an older version understands the request."""
    patterns = None if jobs is None else [*jobs]
    return given(jobs=patterns, allow_shell=allow_shell, allow_secrets=allow_secrets)


class Alerts:
    """Who is notified when something goes wrong."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[AlertSchema]:
        """Alerts, by name."""
        return self._client.pages(get(path_of("alerts"), limit=PAGE))

    async def get(self, name: str) -> AlertSchema:
        """An alert."""
        return await self._client.send(get(path_of("alerts", name)))

    async def put(self, alert: Mapping[str, object]) -> AlertSchema:
        """Create or replace an alert."""
        return await self._client.send(Call("PUT", path_of("alerts", str(alert["name"])), body=alert, repeatable=True))

    async def delete(self, name: str) -> None:
        """Delete an alert with its notifications."""
        await self._client.send(Call("DELETE", path_of("alerts", name)))

    async def test(self, name: str) -> AnswerSchema:
        """Have the API send a sample of each kind now; returns the receiver's answers."""
        return await self._client.send(Call("POST", path_of("alerts", name, "test")))

    def notifications(self, name: str, *, limit: int | None = None) -> AsyncIterator[NotificationSchema]:
        """Its notifications, the newest first; at most `limit`."""
        return self._client.pages(get(path_of("alerts", name, "notices"), limit=page_size(limit)), limit)


class NamedLimits:
    """Limits that jobs share by their names."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[LimitSchema]:
        """NamedLimits, by name, with the runs that hold their permits and those that wait."""
        return self._client.pages(get(path_of("limits"), limit=PAGE))

    async def get(self, name: str) -> LimitSchema:
        """A limit."""
        return await self._client.send(get(path_of("limits", name)))

    async def put(self, limit: Mapping[str, object]) -> LimitSchema:
        """Create or change a limit; it applies to runs that start from now on."""
        return await self._client.send(Call("PUT", path_of("limits", str(limit["name"])), body=limit, repeatable=True))

    async def delete(self, name: str) -> None:
        """Delete a limit; 409 while jobs name it."""
        await self._client.send(Call("DELETE", path_of("limits", name)))


class Calendars:
    """Days and windows of time that schedules share by their names."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[CalendarSummarySchema]:
        """Calendars, by name, without their days and windows."""
        return self._client.pages(get(path_of("calendars"), limit=PAGE))

    async def get(self, name: str) -> CalendarSchema:
        """A calendar, its coming days and windows, and the jobs that use it."""
        return await self._client.send(get(path_of("calendars", name)))

    async def put(self, calendar: Mapping[str, object], *, days: int = 90) -> AppliedCalendarSchema:
        """Create or change a calendar, and edit each job that uses it. Fires are compared for so many days."""
        path = path_of("calendars", str(calendar["name"]))
        return await self._client.send(Call("PUT", path, params={"days": days}, body=calendar, repeatable=True))

    async def plan(self, calendar: Mapping[str, object], *, days: int = 90) -> CalendarPlanSchema:
        """What `put` would change, without changing it."""
        path = path_of("calendars", str(calendar["name"]), "plan")
        return await self._client.send(Call("POST", path, params={"days": days}, body=calendar, repeatable=True))

    async def delete(self, name: str) -> None:
        """Delete a calendar; 409 while jobs use it."""
        await self._client.send(Call("DELETE", path_of("calendars", name)))


class Users:
    """Users of the API."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[UserSchema]:
        """Users, by name; without the admin from the settings."""
        return self._client.pages(get(path_of("users"), limit=PAGE))

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
        """Create a user; 409 when the name exists. `jobs` are the patterns of names that limit an editor."""
        limits = _limits(jobs, allow_shell=allow_shell or None, allow_secrets=allow_secrets or None)
        body = {"name": name, "role": role, "password": password, **limits}
        return await self._client.send(Call("POST", path_of("users"), body=body))

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
        """Change what is given; the user's sessions end."""
        limits = _limits(jobs, allow_shell=allow_shell, allow_secrets=allow_secrets)
        body = {**given(role=role, enabled=enabled, password=password), **limits}
        return await self._client.send(Call("PATCH", path_of("users", name), body=body))

    async def delete(self, name: str) -> None:
        """Delete a user; the user's sessions end."""
        await self._client.send(Call("DELETE", path_of("users", name)))


class Sessions:
    """Who is logged in."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self, *, user: str | None = None) -> AsyncIterator[SessionSchema]:
        """The sessions of a user, or of all for an admin and your own otherwise."""
        return self._client.pages(get(path_of("sessions"), user=user, limit=PAGE))

    async def revoke(self, id: str) -> None:  # noqa: A002
        """Revoke a session; 404 for those of others, unless you are an admin."""
        await self._client.send(Call("DELETE", path_of("sessions", id)))

    async def revoke_all(self, user: str) -> Sequence[SessionSchema]:
        """Revoke all sessions of a user, and return them."""
        found = await self._client.send(Call("DELETE", path_of("sessions"), params={"user": user}))
        return found["sessions"]


class Keys:
    """API keys."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[KeySchema]:
        """API keys, by name."""
        return self._client.pages(get(path_of("api-keys"), limit=PAGE))

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
        """Create an API key, for these patterns of job names or for everything. Its `key` is shown only this once."""
        limits = _limits(jobs, allow_shell=allow_shell or None, allow_secrets=allow_secrets or None)
        body = {"name": name, "role": role, **limits, "expires_at": instant(expires_at)}
        return await self._client.send(Call("POST", path_of("api-keys"), body=body))

    async def delete(self, name: str) -> None:
        """Delete an API key."""
        await self._client.send(Call("DELETE", path_of("api-keys", name)))


class Secrets:
    """Values that jobs refer to by name."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def list(self) -> AsyncIterator[SecretSchema]:
        """The names of the secrets."""
        return self._client.pages(get(path_of("secrets"), limit=PAGE))

    async def set(self, name: str, value: str) -> SecretSetSchema:
        """Create or replace a secret."""
        return await self._client.send(Call("POST", path_of("secrets"), body={"name": name, "value": value}))

    async def delete(self, name: str) -> None:
        """Delete a secret."""
        await self._client.send(Call("DELETE", path_of("secrets", name)))


class Audit:
    """The audit log."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

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
        """Who changed what, the newest first; at most `limit`. `job` is for a job and its runs."""
        when = {"since": instant(since), "until": instant(until)}
        call = get(path_of("audit"), by=by, action=action, target=target, job=job, **when, limit=page_size(limit))
        return self._client.pages(call, limit)
