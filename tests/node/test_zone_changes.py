"""Time zone data that change while a leader runs, on virtual time: no instant is lost or doubled."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cronflow.domain.events import CursorsCorrected
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.schedule.calendar import Period
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.kinds import Cron, Every, Schedule
from cronflow.domain.schedule.zone_cache import forget_zone_data
from cronflow.node import zone_watch
from cronflow.node.zone_watch import ZoneWatch, zone_files
from cronflow.testing.clock import FakeClock
from tests.node.cluster import Cluster, a_cluster
from tests.zone_files import write_zone

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
START = FakeClock().now()
ZONE = "Test/Zone"


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Path]:
    """A folder with one zone, an hour ahead of UTC, that is all data there are."""
    write_zone(tmp_path, "UTC", timedelta(0))
    write_zone(tmp_path, ZONE, HOUR)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(tmp_path)])
    forget_zone_data()
    yield tmp_path
    zoneinfo.reset_tzpath(before)
    forget_zone_data()


async def applied(cluster: Cluster, name: str, schedule: Schedule) -> datetime | None:
    await cluster.service.jobs.apply([Job(name=name, target=PythonTarget("jobs:tick"), schedule=schedule)])
    return await cursor(cluster, name)


async def cursor(cluster: Cluster, name: str) -> datetime | None:
    return (await cluster.service.jobs.get(name)).next_fire


async def corrections(cluster: Cluster) -> list[CursorsCorrected]:
    found = await cluster.backends.events.find(kinds=["cursors_corrected"])
    return [one.event for one in found if isinstance(one.event, CursorsCorrected)]


async def test_the_leader_moves_the_cursors_of_a_zone_when_its_data_change_and_leaves_others_alone(zones: Path) -> None:
    async with a_cluster("a") as cluster:
        # 13:03 and 13:04 of the clocks are 12:03 and 12:04 UTC.
        assert await applied(cluster, "cron", Cron("3 13 * * *", tz=ZONE)) == START + 3 * MINUTE
        assert await applied(cluster, "daily", Every("1d", time="13:04", tz=ZONE)) == START + 4 * MINUTE
        assert await applied(cluster, "utc", Cron("3 12 * * *")) == START + 3 * MINUTE
        assert await applied(cluster, "elapsed", Every("30m", tz=ZONE)) is not None
        await cluster.elapse(10)
        others = {name: await cluster.service.jobs.get(name) for name in ("utc", "elapsed")}
        # The clocks go back by a minute.
        write_zone(zones, ZONE, HOUR, [(START + 2 * MINUTE, HOUR - MINUTE)])
        await cluster.elapse(61)
        assert await cursor(cluster, "cron") == START + 4 * MINUTE
        assert await cursor(cluster, "daily") == START + 5 * MINUTE
        assert {name: await cluster.service.jobs.get(name) for name in others} == others
        assert await corrections(cluster) == [CursorsCorrected(2, "")]
        await cluster.elapse(240)
        fires = {run.job: run.fire_at for run in cluster.runs}
        assert fires == {"cron": START + 4 * MINUTE, "daily": START + 5 * MINUTE, "utc": START + 3 * MINUTE}
        assert len(cluster.runs) == 3
        # Nothing has changed since, so nothing was corrected.
        assert await corrections(cluster) == [CursorsCorrected(2, "")]


async def test_an_earlier_fire_that_the_new_data_have_runs_late_and_the_old_one_does_not(zones: Path) -> None:
    async with a_cluster("a") as cluster:
        assert await applied(cluster, "report", Cron("4 13 * * *", tz=ZONE)) == START + 4 * MINUTE
        await cluster.elapse(60)
        # It is 12:01:01 UTC. The clocks have been two minutes ahead of what we thought since 12:00:30, and the job is
        # due at 12:02; and another one should have been at 12:00:50.
        assert await applied(cluster, "late", Cron("50 2 13 * * *", tz=ZONE)) == START + 170 * SECOND
        await cluster.backends.jobs.replace(
            replace(await cluster.service.jobs.get("late"), updated_at=START),
            (await cluster.service.jobs.get("late")).rev,
        )
        write_zone(zones, ZONE, HOUR, [(START + 30 * SECOND, HOUR + 2 * MINUTE)])
        await cluster.elapse(62)
        assert [(run.job, run.fire_at) for run in cluster.runs] == [
            ("late", START + 50 * SECOND),
            ("report", START + 2 * MINUTE),
        ]
        await cluster.elapse(180)
        assert len(cluster.runs) == 2
        assert await cursor(cluster, "report") == START + 24 * HOUR + 2 * MINUTE
        assert (await cluster.service.jobs.get("report")).since == START + 2 * MINUTE


async def test_a_new_leader_with_other_data_corrects_and_one_with_the_same_reads_nothing(zones: Path) -> None:
    async with a_cluster("a") as cluster:
        await applied(cluster, "report", Cron("0 15 * * *", tz=ZONE))
        await cluster.elapse(5)
        reads: list[str] = []
        find = cluster.backends.jobs.find

        async def counted(*, after: str = "", limit: int = 500) -> list[object]:
            reads.append(after)
            return await find(after=after, limit=limit)  # type: ignore[return-value]

        cluster.backends.jobs.find = counted  # type: ignore[assignment, method-assign]
        await cluster.kill(cluster.nodes[0])
        cluster.start("b")
        await cluster.elapse(45)
        assert cluster.leaders
        assert reads == []
        await cluster.kill(cluster.nodes[0])
        write_zone(zones, ZONE, 2 * HOUR)
        forget_zone_data()  # Another process has read nothing yet.
        cluster.start("c")
        await cluster.elapse(45)
        assert await cursor(cluster, "report") == START + HOUR
        assert reads


async def test_a_job_that_changes_while_it_is_corrected_is_read_again(zones: Path) -> None:
    async with a_cluster("a") as cluster:
        await applied(cluster, "report", Cron("0 15 * * *", tz=ZONE))
        await cluster.elapse(5)
        reposition = cluster.backends.jobs.reposition
        tries = []

        async def raced(jobs: object, term: int) -> set[str]:
            tries.append(jobs)
            if len(tries) == 1:
                # Somebody has written the job since it was read.
                await cluster.backends.jobs.fence(["report"], term)
            return await reposition(jobs, term)  # type: ignore[arg-type]

        cluster.backends.jobs.reposition = raced  # type: ignore[method-assign]
        write_zone(zones, ZONE, 2 * HOUR)
        await cluster.elapse(61)
        assert len(tries) == 2
        assert await cursor(cluster, "report") == START + HOUR


async def test_a_paused_job_is_corrected_and_stays_paused(zones: Path) -> None:
    async with a_cluster("a") as cluster:
        await applied(cluster, "report", Cron("0 15 * * *", tz=ZONE))
        await cluster.service.jobs.pause("report")
        write_zone(zones, ZONE, 2 * HOUR)
        await cluster.elapse(61)
        assert await cursor(cluster, "report") == START + HOUR
        record = await cluster.service.jobs.get("report")
        assert (record.paused, record.active) == (True, False)


def test_the_windows_of_a_schedule_follow_the_data(zones: Path) -> None:
    local = datetime(2026, 11, 21, 14)  # noqa: DTZ001  of the zone
    schedule = Cron("* * * * *", tz=ZONE, blackout=(Period(local, local + HOUR),))
    assert exclusion(schedule, START + HOUR) is not None
    write_zone(zones, ZONE, 2 * HOUR)
    forget_zone_data()
    assert exclusion(schedule, START + HOUR) is None
    assert exclusion(schedule, START) is not None


async def test_zone_files_that_vanish_while_they_are_read_change_nothing_until_all_are_there(
    zones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = ZoneWatch()
    before, listed = watch.identity, zone_files()
    file = zones / ZONE
    content = file.read_bytes()
    file.unlink()
    with monkeypatch.context() as patch:
        # The file was listed, and then removed by an update.
        patch.setattr(zone_watch, "zone_files", lambda: [one._replace(changed_ns=0) for one in listed])
        await watch.step()
        assert watch.identity == before
        assert ZoneWatch().identity == ""
    write_zone(zones, ZONE, 2 * HOUR)
    await watch.step()
    assert watch.identity != before
    file.write_bytes(content)
    await watch.step()
    assert watch.identity == before
