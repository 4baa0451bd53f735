"""A node that is started before its servers, on virtual time and as a process on real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.domain.errors import BackendUnavailable, InvalidInput
from cronflow.node.startup import wait_for_servers
from cronflow.testing.clock import FakeClock
from cronflow.testing.embedded import MongoServer
from tests import children
from tests.processes.conftest import process_cluster
from tests.waiting import eventually


class Door:
    """Opens at the given time; records each attempt."""

    def __init__(self, clock: FakeClock, opens_at: float) -> None:
        self.clock, self.opens_at = clock, opens_at
        self.tries: list[float] = []

    async def open(self) -> str:
        self.tries.append(self.clock.monotonic())
        if self.clock.monotonic() < self.opens_at:
            service = "Redis" if self.clock.monotonic() < 3 else "MongoDB"
            raise BackendUnavailable(service, "host:1", f"refused at {self.clock.monotonic():g}")
        return "open"


async def test_it_waits_with_growing_pauses_and_logs_once() -> None:
    clock = FakeClock()
    door = Door(clock, opens_at=20.0)
    with capture_logs() as logs:
        waiting = asyncio.create_task(wait_for_servers(door.open, clock, 60.0))
        await clock.advance(30)
        assert await waiting == "open"
    assert door.tries == [0.0, 0.5, 1.5, 3.5, 7.5, 12.5, 17.5, 22.5]
    assert [(line["event"], line.get("service")) for line in logs] == [
        ("waiting for a server", "Redis"),
        ("waiting for a server", "MongoDB"),
        ("servers answer", None),
    ]


async def test_it_gives_up_when_the_time_is_over_with_the_last_reason() -> None:
    clock = FakeClock()
    door = Door(clock, opens_at=1000.0)
    waiting = asyncio.create_task(wait_for_servers(door.open, clock, 10.0))
    await clock.advance(60)
    with pytest.raises(BackendUnavailable, match="refused at 10"):
        await waiting
    assert door.tries[-1] == 10.0


async def test_servers_that_are_there_are_not_waited_for_and_nothing_is_said() -> None:
    with capture_logs() as logs:
        assert await wait_for_servers(Door(FakeClock(), 0.0).open, FakeClock(), 60.0) == "open"
    assert logs == []


def test_a_url_that_cannot_be_read_is_not_waited_for() -> None:
    with pytest.raises(InvalidInput, match="MONGO_URL"):
        MongoDatabase("mongodb://host:not-a-port/", "default")


@pytest.mark.chaos
async def test_a_node_that_is_started_before_its_mongodb_joins_when_that_is_up_and_exits_5_if_it_never_is(
    redis_url: str, own_mongo: MongoServer, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, own_mongo.url, namespace, tmp_path) as cluster:
        cluster.begin = children.start
        await asyncio.to_thread(own_mongo.stop)
        cluster.limits["CRONFLOW_START_WAIT"] = "0s"
        cluster.start("impatient")
        code = await asyncio.to_thread(cluster.children["impatient"].wait, 60)
        assert code == 5
        assert "MongoDB at" in cluster.log("impatient").read_text()
        cluster.limits["CRONFLOW_START_WAIT"] = "10m"
        cluster.start("patient")
        await eventually(lambda: "waiting for a server" in cluster.log("patient").read_text(), what="it waits")
        await asyncio.to_thread(own_mongo.start)

        async def joined() -> bool:
            return [member.report.name for member in await cluster.service.cluster.members()] == ["patient"]

        await eventually(joined, what="the patient node joins")
        assert cluster.log("patient").read_text().count("waiting for a server") == 1
