"""The leader binds jobs to the current calendars when the process that changed one has died."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronflow.domain.errors import Conflict
from cronflow.domain.events import CalendarUpdatesFinished
from cronflow.domain.schedule.calendar import Calendar, YearlyDay
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.schedule.pins import pins_of
from cronflow.leader.maintenance import AGAIN_S, IDLE_S
from cronflow.usecases.calendar_binding import CalendarUpdates
from tests.contracts.builders import a_job
from tests.node.cluster import Cluster, a_cluster

HOLIDAYS = Calendar(name="de-holidays", days=(YearlyDay(12, 25),))


async def change_and_die(cluster: Cluster, *jobs: str) -> None:
    """Apply jobs, and change their calendar without editing them."""
    await cluster.service.calendars.define(HOLIDAYS)
    schedule = Cron("0 8 * * *", calendars=("de-holidays",))
    await cluster.service.jobs.apply([a_job(name, schedule=schedule) for name in jobs])
    changed = replace(HOLIDAYS, days=(YearlyDay(12, 26),))
    assert await cluster.backends.calendars.put(changed, 1, "ada", cluster.clock.now())


async def pins(cluster: Cluster) -> set[tuple[str, ...]]:
    return {pins_of(one.job.schedule) for one in await cluster.backends.jobs.find() if one.name.startswith("job")}


async def test_an_interrupted_change_of_a_calendar_is_finished_within_a_minute_and_announced() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.elapse(2.0)
        await change_and_die(cluster, "job-1", "job-2", "job-3")
        assert await pins(cluster) == {("de-holidays@1",)}
        await cluster.elapse(IDLE_S + 1)
        assert await pins(cluster) == {("de-holidays@2",)}
        assert [one.ver for one in await cluster.backends.jobs.get(["job-1", "job-2"])] == [2, 2]
        events = [one.event for one in cluster.backends.documents.events.values()]
        assert [one for one in events if isinstance(one, CalendarUpdatesFinished)] == [CalendarUpdatesFinished(3)]


async def test_a_new_leader_finishes_it_at_once() -> None:
    async with a_cluster() as cluster:
        await change_and_die(cluster, "job-1")
        cluster.start("a")
        await cluster.elapse(5.0)
        assert await pins(cluster) == {("de-holidays@2",)}


async def test_without_calendars_the_leader_reads_no_jobs_for_them_and_without_leadership_nothing() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.elapse(IDLE_S * 3)
        assert 3 <= cluster.backends.faults.calls["calendars.outdated"] <= 5


async def test_a_change_that_loses_races_is_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = CalendarUpdates.finish
    times: list[float] = []

    async with a_cluster() as cluster:

        async def refuse_once(self: CalendarUpdates) -> int:
            times.append(cluster.clock.monotonic())
            if len(times) == 1:
                raise Conflict("job 'job-1' keeps changing concurrently; try again")
            return await finish(self)

        monkeypatch.setattr(CalendarUpdates, "finish", refuse_once)
        await change_and_die(cluster, "job-1")
        cluster.start("a")
        await cluster.elapse(AGAIN_S + 5)
        assert await pins(cluster) == {("de-holidays@2",)}
        assert times[1] - times[0] < AGAIN_S + 1
