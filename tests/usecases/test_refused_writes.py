"""A change by a person whose compare-and-set is refused is a conflict, and leaves no entry in the audit log."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cronflow.domain.access import Role
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert
from cronflow.domain.errors import Conflict
from cronflow.domain.schedule.calendar import Calendar, YearlyDay
from cronflow.domain.single_sign_on import parse_group_role
from cronflow.ports import AuditQuery
from cronflow.ports.identity import Identity
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from cronflow.usecases.people import OidcPeople


@pytest.fixture
def backends() -> MemoryBackends:
    return memory_backends(FakeClock())


async def refused(*_: object) -> bool:
    return False


async def test_a_user_that_somebody_else_changes(backends: MemoryBackends, monkeypatch: pytest.MonkeyPatch) -> None:
    service = UseCases(backends, FakeClock())
    await service.users.create("ada", Role.VIEWER, "a-long-password-of-hers")
    before, audited = await backends.users.get("ada"), await backends.audit.find(AuditQuery())
    monkeypatch.setattr(backends.users, "replace", refused)
    with pytest.raises(Conflict, match="user 'ada' was changed by someone else"):
        await service.users.change("ada", enabled=False)
    assert (await backends.users.get("ada"), await backends.audit.find(AuditQuery())) == (before, audited)


async def test_an_alert_that_somebody_else_changes(backends: MemoryBackends, monkeypatch: pytest.MonkeyPatch) -> None:
    service = UseCases(backends, FakeClock())
    alert = Alert(name="billing", on=(AlertKind.FAILED,), webhook=Webhook("https://a.example"))
    await service.alerts.define(alert)
    audited = await backends.audit.find(AuditQuery())
    monkeypatch.setattr(backends.alerts, "replace", refused)
    with pytest.raises(Conflict, match="alert 'billing' was changed by someone else"):
        await service.alerts.define(replace(alert, enabled=False))
    assert await backends.audit.find(AuditQuery()) == audited


async def test_a_calendar_that_keeps_changing(backends: MemoryBackends, monkeypatch: pytest.MonkeyPatch) -> None:
    service = UseCases(backends, FakeClock())

    async def put(*_: object) -> None:
        return None

    monkeypatch.setattr(backends.calendars, "put", put)
    with pytest.raises(Conflict, match="calendar 'holidays' keeps changing concurrently"):
        await service.calendars.define(Calendar(name="holidays", days=(YearlyDay(12, 25, "Christmas Day"),)))
    assert await backends.audit.find(AuditQuery()) == []


async def test_a_person_that_somebody_else_changes_is_not_let_in(
    backends: MemoryBackends, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider: Any = SimpleNamespace(issuer="https://id.example")
    table = [parse_group_role("staff=viewer"), parse_group_role("admins=admin")]
    vault: Any = None
    people = OidcPeople(backends, FakeClock(), provider, table, vault, client="cronflow", groups_claim="groups")

    def identity(group: str) -> Identity:
        return Identity(subject="1", claims={"preferred_username": "ada"}, groups=(group,))

    with monkeypatch.context() as creating:
        creating.setattr(backends.users, "create", refused)
        with pytest.raises(Conflict, match="the user was changed by someone else"):
            await people.admit(identity("staff"))
    before = await people.admit(identity("staff"))
    monkeypatch.setattr(backends.users, "replace", refused)
    with pytest.raises(Conflict, match="the user was changed by someone else"):
        await people.admit(identity("admins"))
    assert await backends.users.find() == [before]
