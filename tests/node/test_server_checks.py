"""What a node checks before it takes part: on memory, and on real servers that are configured wrongly."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from bson.codec_options import CodecOptions
from pymongo import ReadPreference, WriteConcern
from pymongo.read_concern import ReadConcern
from redis.asyncio import Redis
from structlog.testing import capture_logs

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.admin import RedisCoordinationAdmin
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap import node
from cronflow.config import load_settings
from cronflow.domain.errors import InvalidInput
from cronflow.domain.planning import ACK_WITHIN
from cronflow.node.startup import check_servers
from cronflow.node.timings import Timings
from cronflow.ports import START_BY_S, RedisConfig
from cronflow.testing.embedded import RedisServer
from cronflow.testing.memory import memory_backends
from tests.redis_topologies import cluster


async def test_asynq_1158_a_node_refuses_to_start_on_a_redis_that_evicts(
    own_redis: RedisServer, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    """asynq #1158, #395: a Redis short of memory dropped the leases and kept what was leased, which then stayed
    active for ever.
    """
    async with Redis.from_url(own_redis.url) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
    environ = {
        "CRONFLOW_REDIS_URL": own_redis.url,
        "CRONFLOW_MONGO_URL": mongo_url,
        "CRONFLOW_NAMESPACE": namespace,
        "CRONFLOW_SPOOL_DIR": str(tmp_path / "spool"),
    }
    with pytest.raises(InvalidInput) as refused:
        # One that starts would not end.
        async with asyncio.timeout(30):
            await node.run_node(load_settings({}, environ=environ, folder=tmp_path))
    [problem] = refused.value.problems
    assert "maxmemory-policy is allkeys-lru" in problem.what
    assert "noeviction" in problem.remedy
    async with Redis.from_url(own_redis.url) as client:
        assert await client.keys("*node:*") == []


async def test_a_managed_redis_is_asked_for_no_more_than_it_permits(own_redis: RedisServer, namespace: str) -> None:
    async def redis_config(user: str) -> RedisConfig:
        url = f"redis://{user}:x@127.0.0.1:{own_redis.port}"
        async with RedisConnection(url, namespace) as connection:
            return await RedisCoordinationAdmin(connection).redis_config()

    async with Redis.from_url(own_redis.url) as client:
        for user, refused in (("managed", ["-config"]), ("silent", ["-config", "-info"])):
            await client.acl_setuser(
                user, True, passwords="+x", keys=["*"], channels=["*"], categories=["+@all"], commands=refused
            )
        versions = frozenset(
            [(await client.info("server")).get("valkey_version") or (await client.info())["redis_version"]]
        )
        assert await redis_config("managed") == RedisConfig("noeviction", durable=True, versions=versions)
        assert await redis_config("silent") == RedisConfig(None, durable=None)
        await client.config_set("maxmemory-policy", "volatile-ttl")
        await client.config_set("appendonly", "no")
        assert await redis_config("managed") == RedisConfig("volatile-ttl", durable=None, versions=versions)
        async with RedisConnection(own_redis.url, namespace) as connection:
            assert (await RedisCoordinationAdmin(connection).redis_config()).durable is False
        await client.config_set("save", "3600 1")
        async with RedisConnection(own_redis.url, namespace) as connection:
            assert (await RedisCoordinationAdmin(connection).redis_config()).durable is True


async def test_of_a_redis_cluster_the_master_that_suits_least_counts(tmp_path: Path, namespace: str) -> None:
    with cluster(tmp_path) as topology:
        port = next(iter(topology.processes))
        async with RedisConnection(topology.url, namespace) as connection:
            assert (await RedisCoordinationAdmin(connection).redis_config()).eviction == "noeviction"
            async with Redis(port=port) as client:
                await client.config_set("maxmemory-policy", "allkeys-random")
            assert (await RedisCoordinationAdmin(connection).redis_config()).eviction == "allkeys-random"


async def test_an_unknown_policy_is_a_warning() -> None:
    backends = memory_backends(SystemClock())
    backends.memory.config = RedisConfig(None, durable=None)
    with capture_logs() as logs:
        await check_servers(backends.coordination_admin, backends.queue, Timings())
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("warning", "redis does not report its maxmemory-policy")
    ]


@pytest.mark.parametrize(("trip_s", "warned"), [(1.5, False), (1.6, True)])
async def test_a_redis_that_is_too_far_away_for_the_leader_s_margin_is_a_warning(
    trip_s: float, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = memory_backends(SystemClock())

    async def far() -> float:
        return trip_s

    monkeypatch.setattr(backends.queue, "ping", far)
    with capture_logs() as logs:
        await check_servers(backends.coordination_admin, backends.queue, Timings())
    assert [line["event"] for line in logs] == ["redis is far away"] * warned


def test_the_times_that_are_not_settings_fit_together_too() -> None:
    assert ACK_WITHIN.total_seconds() - 2 >= START_BY_S


async def test_no_url_can_make_a_handle_less_safe(mongo_url: str, namespace: str) -> None:
    careless = "w=1&journal=false&readConcernLevel=local&readPreference=secondary&retryWrites=false&timeoutMS=60000"
    url = f"{mongo_url}{'&' if '?' in mongo_url else '/?'}{careless}"
    async with MongoDatabase(url, namespace) as database:
        runs = database["runs"]
        assert runs.write_concern == WriteConcern("majority", j=True)
        assert runs.read_concern == ReadConcern("majority")
        assert runs.read_preference == ReadPreference.PRIMARY
        assert runs.codec_options == CodecOptions(tz_aware=True)
        client = runs.database.client
        assert client.options.retry_writes
        assert client.options.timeout == 5.0
