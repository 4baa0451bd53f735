"""Maintenance and a pause that ends by itself, on real servers: the leader is killed and Redis flushed meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cronflow.domain.job import Misfire, MisfirePolicy
from cronflow.domain.run import Run, RunState
from cronflow.testing.embedded import RedisServer
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos


async def succeeded(cluster: Processes, job: str, since: datetime) -> list[Run]:
    return [
        run
        for run in await cluster.runs()
        if run.job == job and run.state is RunState.SUCCEEDED and run.fire_at >= since
    ]


async def test_nothing_starts_in_maintenance_and_a_pause_ends_on_time_although_leader_and_redis_fail(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:
        leader = await cluster.up("a", "b")
        catch_up = Misfire(MisfirePolicy.CATCH_UP, late_after=timedelta(seconds=1))
        await cluster.apply(cluster.job("tick", misfire=catch_up), cluster.job("paused", misfire=catch_up))
        begin = datetime.now(UTC)
        await eventually(lambda: cluster.noted("end"), what="a run has ended")
        until = (datetime.now(UTC) + timedelta(seconds=6)).replace(microsecond=0)
        pause = (await cluster.service.jobs.pause("paused", until=until)).pause
        assert pause is not None
        await cluster.service.cluster.begin_maintenance(note="upgrade")

        async def quiet() -> bool:
            """Nothing is open any more, so the leader has followed."""
            latest = max(run.created_at for run in await cluster.runs())
            return datetime.now(UTC) - latest > timedelta(seconds=4)

        await eventually(quiet, what="nothing new starts")
        before = len(cluster.noted("start"))
        cluster.kill(leader)
        async with Redis.from_url(own_redis.url) as redis:
            await redis.flushall()
        await cluster.new_leader(leader)
        await eventually(lambda: datetime.now(UTC) > until, what="the pause is over")
        assert len(cluster.noted("start")) == before
        await cluster.service.cluster.end_maintenance()
        ended = datetime.now(UTC)

        async def caught_up() -> bool:
            found = [await succeeded(cluster, job, begin) for job in ("tick", "paused")]
            return all(any(run.fire_at >= ended for run in runs) for runs in found)

        await eventually(caught_up, what="both jobs run again")
        # Every fire of the maintenance is made good, and of the paused job those from the end of its pause on.
        fires = [run.fire_at for run in await succeeded(cluster, "tick", begin)]
        assert all(later - earlier == timedelta(seconds=1) for earlier, later in pairwise(fires))
        resumed = [run.fire_at for run in await succeeded(cluster, "paused", pause.at)]
        assert resumed[0] == until
