"""What a timeline shows of the future costs the same however often jobs fire and however many fires were missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron, Every, Schedule
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from cronflow.usecases import post_mortem as module
from tests.contracts.builders import a_job

START = datetime(2026, 11, 26, 7, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.service = UseCases(memory_backends(self.clock), self.clock, lambda event: None)

    async def apply(self, **schedules: Schedule) -> None:
        await self.service.jobs.apply([a_job(name, schedule=one) for name, one in schedules.items()])

    async def fires(self, length: timedelta) -> tuple[list[tuple[str, datetime]], bool]:
        now = self.clock.now()
        found = await self.service.post_mortem.timeline(now - HOUR, now, fires_until=now + length)
        return list(found.fires), found.more_fires


@contextmanager
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Schedule]]:
    """The schedules whose next fire was computed, once for each time."""
    found: list[Schedule] = []

    def counted(schedule: Schedule, after: datetime) -> datetime | None:
        found.append(schedule)
        return next_after(schedule, after)

    with monkeypatch.context() as patched:
        patched.setattr(module, "next_after", counted)
        yield found


async def test_the_fires_of_all_jobs_are_in_order_and_end_at_the_limit() -> None:
    scene = Scene()
    await scene.apply(often=Every("10m"), hourly=Cron("30 * * * *"))
    fires, more = await scene.fires(HOUR)
    minutes = {"often": range(10, 61, 10), "hourly": [30]}
    expected = sorted((START + timedelta(minutes=n), name) for name, ns in minutes.items() for n in ns)
    assert (fires, more) == ([(name, at) for at, name in expected], False)


async def test_many_jobs_that_fire_each_second_cost_no_more_than_what_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    await scene.apply(**{f"job-{n}": Every("1s") for n in range(100)})
    with computed(monkeypatch) as steps:
        fires, more = await scene.fires(24 * HOUR)
    assert (len(fires), more) == (module.MOST_FIRES, True)
    assert max(at for _, at in fires) == START + timedelta(seconds=5)
    assert len(steps) <= module.MOST_FIRES + 101


async def test_a_year_of_missed_fires_is_passed_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    await scene.apply(waits=Every("1m"))
    await scene.clock.advance(timedelta(days=365).total_seconds())
    with computed(monkeypatch) as steps:
        fires, _ = await scene.fires(timedelta(minutes=3))
    now = scene.clock.now()
    assert fires == [("waits", now + timedelta(minutes=n)) for n in (1, 2, 3)]
    assert len(steps) <= 5
