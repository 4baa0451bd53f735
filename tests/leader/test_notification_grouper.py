"""Many held notifications: what is due is sent, however many older ones are held for later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.alert_grouping import Grouping, QuietTime
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, AlertRecord, Notification, NotificationState
from cronflow.leader import notification_grouper
from cronflow.leader.notification_grouper import NotificationGrouper
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from tests.contracts.builders import T0

SECOND = timedelta(seconds=1)
PAGE = 4
ALL_DAY = QuietTime("00:00", "23:59", urgent=(AlertKind.RUNNING_LONG,))


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification_grouper, "MOST_MEMBERS", PAGE)


class Bench:
    """The held notifications of one alert; `look` is a round of the leader."""

    def __init__(self, **fields: Any) -> None:
        self.clock = FakeClock(T0 + timedelta(hours=1))
        self.backends: MemoryBackends = memory_backends(self.clock)
        on = (AlertKind.FAILED, AlertKind.RUNNING_LONG)
        alert = Alert(name="billing", on=on, webhook=Webhook("https://a.example"), **fields)
        self.record = AlertRecord(alert=alert, rev=1, created_at=T0, updated_at=T0, since=T0, judged=T0)
        self.grouper = NotificationGrouper(self.backends.outbox, self.backends.jobs, self.clock)

    async def hold(self, job: str, first: int, count: int, kind: AlertKind = AlertKind.FAILED) -> None:
        await self.backends.outbox.put(
            [
                Notification(
                    id=f"msg_{first + n}",
                    alert="billing",
                    kind=kind,
                    subject=f"{job}@{first + n}",
                    job=job,
                    body='{"kind": "failed", "at": "2026-11-21T12:00:00Z", "text": "no rows", "namespace": "x"}',
                    created_at=T0 + (first + n) * SECOND,
                    state=NotificationState.HELD,
                )
                for n in range(count)
            ]
        )

    async def look(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            await self.grouper.look([self.record])

    def sent(self) -> list[tuple[str | None, int]]:
        """The digests: group and number of members."""
        found = [one for one in self.backends.documents.notifications.values() if one.number is not None]
        return [(one.group, len(one.members)) for one in sorted(found, key=lambda one: one.number or 0)]


async def test_an_urgent_notification_is_sent_in_a_quiet_time_behind_many_that_wait() -> None:
    bench = Bench(quiet=ALL_DAY, group=Grouping())
    await bench.hold("noisy", 0, 3 * PAGE)
    await bench.hold("long", 100, 1, AlertKind.RUNNING_LONG)
    await bench.look()
    assert bench.sent() == [("", 1)]


async def test_a_group_that_is_due_is_sent_behind_many_of_one_that_is_not() -> None:
    bench = Bench(group=Grouping(("job",), SECOND, timedelta(days=1)))
    await bench.hold("noisy", 0, 1)
    await bench.look()
    await bench.hold("noisy", 1, 3 * PAGE)
    await bench.hold("other", 100, 1)
    await bench.look(3)
    assert bench.sent() == [("job=noisy", 1)]
    await bench.look()
    assert bench.sent() == [("job=noisy", 1), ("job=other", 1)]
    bench.clock.step(timedelta(days=1))
    await bench.look(8)
    assert sum(count for group, count in bench.sent() if group == "job=noisy") > PAGE


async def test_a_round_after_the_last_page_begins_at_the_first_one() -> None:
    bench = Bench(group=Grouping(("job",), timedelta(hours=1)))
    await bench.hold("noisy", 3600, PAGE)
    await bench.look()
    bench.clock.step(timedelta(hours=2))
    await bench.look()
    assert bench.sent() == [("job=noisy", PAGE)]


async def test_what_is_new_in_each_round_does_not_hide_what_is_older() -> None:
    bench = Bench(group=Grouping(("job",), timedelta(hours=1)))
    await bench.hold("old", 3590, 1)
    for n in range(2):
        await bench.hold("new", 3600 + n, 1)
        await bench.look()
        assert bench.sent() == []
    bench.clock.step(timedelta(hours=1) - 5 * SECOND)
    await bench.hold("new", 7200, 1)
    await bench.look()
    assert bench.sent() == [("job=old", 1)]


async def test_a_leader_whose_digest_another_one_has_sent_makes_no_further_one_in_that_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other digest has the same number and may have members of any group: they must be settled first."""
    bench = Bench(group=Grouping(("job",), SECOND))
    await bench.hold("one", 0, 1)
    await bench.hold("two", 100, 1)
    tried: list[str] = []

    async def refused(notifications: Sequence[Notification]) -> set[str]:
        tried.extend(one.id for one in notifications)
        return set()

    monkeypatch.setattr(bench.backends.outbox, "put", refused)
    await bench.look()
    assert len(tried) == 1
    monkeypatch.undo()
    await bench.look(2)
    assert bench.sent() == [("job=one", 1), ("job=two", 1)]
