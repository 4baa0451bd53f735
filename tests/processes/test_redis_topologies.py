"""Real Redis Sentinel and Redis Cluster: the same contract, and a failover that loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronflow.backends.redis.clients import parse
from cronflow.backends.redis.connection import RedisConnection
from cronflow.backends.redis.nodes import RedisElection
from cronflow.backends.redis.queue import RedisQueue
from cronflow.domain.cluster import Renewal
from cronflow.domain.errors import InvalidInput
from cronflow.domain.run import RunState
from tests.contracts.builders import an_assignment
from tests.processes.conftest import process_cluster
from tests.processes.test_failures import more_runs
from tests.redis_topologies import cluster, sentinels

pytestmark = pytest.mark.chaos


async def test_a_redis_cluster_supports_election_queues_and_locks(tmp_path: Path, namespace: str) -> None:
    with cluster(tmp_path) as topology:
        async with RedisConnection(topology.url, namespace) as connection:
            election, queue = RedisElection(connection), RedisQueue(connection)
            assert await election.acquire("n1#a#x", 5)
            assert not await election.acquire("n2#b#y", 5)
            assert await election.install("n1#a#x", 1, "boot")
            assert await election.renew("n1#a#x", 5, 1, "boot") is Renewal.OK
            assert (await election.holder() or ("", 0))[0] == "n1#a#x"
            assert await queue.dispatch(1, "boot", {"n1#a": [an_assignment()]})
            assert [taken.run for taken in (await queue.take("n1#a", 5)).assignments] == ["report@1"]


async def test_jobs_run_on_a_redis_cluster(tmp_path: Path, mongo_url: str, namespace: str) -> None:
    with cluster(tmp_path) as topology:
        async with process_cluster(topology.url, mongo_url, namespace, tmp_path) as nodes:
            await nodes.up("a", "b")
            since = await nodes.apply(nodes.job("tick"))
            await more_runs(nodes, "tick", 3)
            found = await nodes.proof(since)
            assert (found.lost, found.doubled) == ([], [])
            assert set(found.states) == {RunState.SUCCEEDED.value}


async def test_jepsen_2013_a_sentinel_failover_loses_nothing(tmp_path: Path, mongo_url: str, namespace: str) -> None:
    """Redis Sentinel, Jepsen 2013: after a failover 56 % of the acknowledged writes were gone."""
    with sentinels(tmp_path) as (topology, master):
        async with process_cluster(topology.url, mongo_url, namespace, tmp_path) as nodes:
            await nodes.up("a", "b")
            since = await nodes.apply(nodes.job("tick"))
            await more_runs(nodes, "tick", 2)
            topology.kill(master)
            await more_runs(nodes, "tick", 3)
            found = await nodes.proof(since)
            assert (found.lost, found.doubled) == ([], [])


def test_a_url_with_several_hosts_is_parsed_and_its_errors_are_reported() -> None:
    read = parse("redis+sentinel://user:p%40ss@a:1,b/main/3")
    assert (read.hosts, read.username, read.password, read.path) == (
        (("a", 1), ("b", 26379)),
        "user",
        "p@ss",
        ("main", "3"),
    )
    assert parse("redis+cluster://[::1]:7000").hosts == (("::1", 7000),)
    for url, message in (
        ("redis+sentinel://a:1", "needs the name of the master"),
        ("redis+sentinel://a:x/main", "is not host:port"),
        ("redis+cluster://a:1/2", "a cluster has only one"),
    ):
        with pytest.raises(InvalidInput, match=message):
            parse(url)
