"""MIN_NODES: what a new cluster waits for, and what an old one reports."""

from __future__ import annotations

from cronflow.domain.events import ClusterComplete, ClusterDegraded, ClusterIncomplete, Event, kind_of
from tests.node.cluster import Cluster, a_cluster


async def reported(cluster: Cluster, kind: type[Event]) -> list[str]:
    found = await cluster.backends.events.find(kinds={kind_of(kind)}, limit=100)
    return [one.event.text for one in found]


async def test_a_new_cluster_has_no_leader_until_enough_nodes_are_up() -> None:
    async with a_cluster() as cluster:
        cluster.min_nodes = 2
        cluster.start("n1")
        await cluster.elapse(120)
        assert cluster.leaders == []
        waiting = ["the cluster is waiting for 2 nodes before it elects a leader (1 up)"]
        assert await reported(cluster, ClusterIncomplete) == waiting
        cluster.start("n2")
        await cluster.elapse(20)
        assert len(cluster.leaders) == 1
        assert await reported(cluster, ClusterDegraded) == []


async def test_a_cluster_that_has_had_a_leader_keeps_running_with_fewer_nodes_and_reports_it() -> None:
    async with a_cluster() as cluster:
        cluster.min_nodes = 2
        first, second = cluster.start("n1"), cluster.start("n2")
        await cluster.elapse(20)
        await cluster.kill(first if first.leads else second)
        await cluster.elapse(120)
        [left] = cluster.nodes
        assert left.leads
        only = [f"only 1 node is up, fewer than 2: {left.id.partition('#')[0]}"]
        assert await reported(cluster, ClusterDegraded) == only
        # All nodes were down: the cluster is not new, so one is enough.
        await cluster.kill(left)
        await cluster.elapse(60)
        cluster.start("n3")
        await cluster.elapse(120)
        assert len(cluster.leaders) == 1
        cluster.start("n4")
        await cluster.elapse(20)
        assert await reported(cluster, ClusterComplete) == ["2 nodes are up again"]
