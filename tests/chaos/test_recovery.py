"""What a recovery waits for, and what it says when that does not come."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cronflow.chaos import recovery
from cronflow.chaos.recovery import Recovery
from cronflow.domain.errors import CronFlowError
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0


class Broken(SimpleNamespace):
    """A cluster on the memory backend that no node works on."""

    whole = False

    async def is_whole(self) -> bool:
        return self.whole


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    for limit in ("WHOLE_WITHIN_S", "HANDLED_WITHIN_S", "ENDED_WITHIN_S"):
        monkeypatch.setattr(recovery, limit, 0.05)
    monkeypatch.setattr(recovery, "POLL_S", 0.001)
    clock = FakeClock(T0)
    return Broken(service=UseCases(memory_backends(clock), clock), folder=Path("/data"), clock=clock)


async def message(waiting: Any) -> str:
    with pytest.raises(CronFlowError) as refused:
        await waiting
    return str(refused.value)


async def test_what_is_missing_is_named(cluster: Any) -> None:
    found = Recovery(cluster)
    assert await message(found.whole()) == (
        "not within 0.05 s: the cluster is whole (a node is down, or none leads); see the logs in /data/logs"
    )
    cluster.whole = True
    await found.whole()
    await found.recorded()
    await found.ended()

    await cluster.service.jobs.apply([Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"))])
    until = T0 + timedelta(seconds=11)
    assert "(tick has been due since 12:00:00Z)" in await message(found.handled(until))
    await found.handled(T0)

    run = await cluster.service.jobs.trigger("tick")
    assert f"({run} is retrying)" in await message(found.ended())
    assert "tick has been due" in await message(found.handled(datetime.max.replace(tzinfo=T0.tzinfo)))
