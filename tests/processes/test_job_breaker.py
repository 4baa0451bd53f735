"""The circuit breaker of a job on real processes and servers: it outlives its leader and Redis, and a probe ends it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis

from cronflow.domain.job import Breaker, CommandTarget, Job, Overlap, Retry
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.run import Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.embedded import RedisServer
from tests.processes.conftest import process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos
OPEN = "circuit breaker open"


async def test_an_open_breaker_outlives_its_leader_and_redis_and_closes_when_a_run_succeeds_again(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    job = Job(
        name="import",
        target=CommandTarget(f"test ! -e {broken}"),
        schedule=Every("1s"),
        overlap=Overlap.ALLOW,
        retry=Retry(max=3, initial="200ms", multiplier=1.0),
        breaker=Breaker(threshold=0.5, window=5, cooldown=timedelta(seconds=2)),
    )
    async with process_cluster(own_redis.url, mongo_url, namespace, tmp_path) as cluster:

        async def open_breaker() -> BreakerState | None:
            record = await cluster.service.jobs.get("import")
            return (await cluster.service.jobs.open_breakers([record])).get("import")

        async def stopped_after(latest: str) -> list[Run]:
            """The later runs that failed with their first attempt, because of the breaker."""
            return [
                run
                for run in await cluster.runs()
                if run.id > latest and len(run.attempts) == 1 and (run.reason or "").startswith(OPEN)
            ]

        leader = await cluster.up("a", "b", "c")
        await cluster.apply(job)
        await eventually(open_breaker, what="the breaker opens")
        cluster.kill(leader)
        async with Redis.from_url(own_redis.url) as redis:
            await redis.flushall()
        assert await open_breaker() is not None
        await cluster.new_leader(leader)
        latest = (await cluster.runs())[-1].id

        async def still_stopped() -> bool:
            return len(await stopped_after(latest)) >= 2

        await eventually(still_stopped, what="runs under the next leader are not retried")
        opened = await open_breaker()
        assert opened is not None
        broken.unlink()

        async def closed() -> bool:
            return await open_breaker() is None

        await eventually(closed, what="a run that succeeds after the cooldown closes the breaker")
        broken.touch()

        async def retried() -> bool:
            return any(len(run.attempts) >= 2 for run in await cluster.runs() if run.state is RunState.RETRYING)

        await eventually(retried, what="failing runs are retried again")

        async def recorded() -> bool:
            found = await cluster.backends.events.find(kinds={"job_breaker_opened", "job_breaker_closed"})
            return {one.event.kind for one in found} == {"job_breaker_opened", "job_breaker_closed"}

        await eventually(recorded, what="both events are recorded")
