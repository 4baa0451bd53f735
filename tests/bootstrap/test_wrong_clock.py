"""Jobs are edited from a machine whose clock is wrong: the cluster's time counts, and `doctor` shows the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap import parts
from cronflow.config import Settings
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends

HOUR = timedelta(hours=1)


class Ahead(SystemClock):
    def now(self) -> datetime:
        return super().now() + HOUR


async def test_the_first_fire_of_a_job_does_not_follow_from_the_clock_of_the_editor(
    redis_url: str, mongo_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "SystemClock", Ahead)
    settings = Settings(redis_url=redis_url, mongo_url=mongo_url, namespace=namespace)
    job = Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"))
    before = datetime.now(UTC)
    async with parts.open_service(settings) as service:
        await service.jobs.apply([job])
        record = await service.jobs.get("tick")
        offsets = await service.cluster.offsets()
    assert record.next_fire is not None
    assert before - timedelta(seconds=2) <= record.created_at <= datetime.now(UTC) + timedelta(seconds=2)
    assert record.next_fire <= datetime.now(UTC) + timedelta(seconds=12)
    assert {name: round(offset, -2) for name, offset in offsets.items()} == {"Redis": -3600, "MongoDB": -3600}


async def test_a_process_that_no_server_tells_the_time_does_not_edit() -> None:
    backends = memory_backends(FakeClock())
    backends.faults.fail_before("Redis.time", 2)
    await parts.asked_clock(backends)
    backends.faults.fail_before("MongoDB.time", 1)
    with pytest.raises(BackendUnavailable):
        await parts.asked_clock(backends)
