"""The snapshot does not grow with what is stored: a real MongoDB with very many runs and ten thousand jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from pymongo import IndexModel, MongoClient

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.run import Outcome, RunState
from cronflow.live.hub import SERIES, Hub
from cronflow.live.state import ClusterConfig
from cronflow.ports import Backends
from tests.contracts.builders import T0, a_record, a_report, a_run

JOBS, NODES, OPEN, DEAD = 10_000, 100, 1000, 500
STORED = {"total": JOBS, "active": JOBS, "paused": 0, "idle": 0}


def multiply(database: Any, count: int) -> None:
    """So many runs like the one that is there, made in the server, and then their indexes; jobs as well."""
    job_like = database["jobs"].find_one_and_delete({})
    database["jobs"].insert_many([job_like | {"_id": f"job-{n}"} for n in range(JOBS)])
    [like] = database["runs"].find()
    indexes = [
        IndexModel(index.pop("key"), name=name, **{key: value for key, value in index.items() if key != "v"})
        for name, index in database["runs"].index_information().items()
        if name != "_id_"
    ]
    database["runs"].drop()
    numbers = [{"a": n} for n in range(1000)]
    number: dict[str, Any] = {"$add": [{"$multiply": ["$a", count // 1000]}, "$b"]}
    job = {"$concat": ["job-", {"$toString": {"$mod": [number, JOBS]}}]}
    fire = {"$subtract": [like["fire_at"], {"$multiply": [number, 1000]}]}
    made = {"_id": {"$concat": [job, "@", {"$toString": number}]}, "job": job, "fire_at": fire, "ended_at": fire}
    database.aggregate(
        [
            {"$documents": numbers},
            {"$set": {"b": {"$range": [0, count // 1000]}}},
            {"$unwind": "$b"},
            {"$replaceWith": {"$mergeObjects": [{"$literal": like}, made]}},
            {"$out": "runs"},
        ]
    )
    database["runs"].create_indexes(indexes)


async def store(backends: Backends, mongo_url: str, namespace: str, count: int) -> None:
    """The jobs and the runs; most have succeeded."""
    ended = a_run(state=RunState.SUCCEEDED, check_at=None, started_at=T0, ended_at=T0, outcome=Outcome.OK, attempt=1)
    await backends.runs.insert([ended])
    await backends.jobs.create(a_record("like"))
    async with MongoDatabase(mongo_url, namespace) as known:
        name = known["runs"].database.name
    with MongoClient[dict[str, Any]](mongo_url, tz_aware=True) as client:
        await asyncio.to_thread(multiply, client[name], count - OPEN - DEAD)
    await backends.runs.insert([a_run(f"open-{n}") for n in range(OPEN)])
    failed: dict[str, Any] = {
        "state": RunState.FAILED,
        "check_at": None,
        "ended_at": T0,
        "outcome": Outcome.ERROR,
        "error": "x" * 1000,
    }
    await backends.runs.insert([a_run(f"dead-{n}", **failed) for n in range(DEAD)])


async def messages(backends: Backends) -> tuple[str, str]:
    """The snapshot and the tick of a hub that has seen ten minutes of a hundred nodes; most of them the same."""
    for n in range(NODES):
        report = a_report(f"worker-{n:03}.a-long.name.example", cpu=0.123, memory=0.456, lag_s=0.0123)
        await backends.membership.report(report, 3600)
    hub = Hub(backends, SystemClock(), ClusterConfig())
    await hub._builder.step()
    [tick] = await backends.feed.read("") or []
    for n in range(1, SERIES + 1):
        hub._take(tick._replace(id=f"{n}-0"))
    return hub.snapshot_message().text, hub.ticks[-1].text


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.prove)])
async def test_the_snapshot_is_as_small_with_many_runs_and_ten_thousand_jobs_as_with_none(
    count: int, redis_url: str, mongo_url: str, namespace: str
) -> None:
    try:
        async with open_backends(redis_url, mongo_url, f"{namespace}e") as empty:
            without = [len(text) for text in await messages(empty)]
        async with open_backends(redis_url, mongo_url, namespace) as backends:
            await store(backends, mongo_url, namespace, count)
            snapshot, tick = await messages(backends)
    finally:
        with MongoClient[dict[str, Any]](mongo_url) as client:
            for name in client.list_database_names():
                if name.endswith(namespace):
                    client.drop_database(name)
    doc = orjson.loads(snapshot)["doc"]
    assert (doc["jobs"], doc["queue"]["open"], doc["dead_letters"]) == (STORED, OPEN, DEAD)
    assert (len(doc["nodes"]), len(doc["series"]["cluster"]["at"])) == (NODES, SERIES)
    assert len(snapshot) < 300 * 1024
    assert len(tick) < 32 * 1024
    assert [len(snapshot) - without[0] < 2048, len(tick) - without[1] < 2048] == [True, True]
