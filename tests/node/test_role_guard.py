"""An unexpected error in a role of a node, on virtual time: no run suffers, and the lead goes to another node."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from cronflow.bootstrap import api, roles
from cronflow.config import Settings
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import Event, LeaderSteppedDown, RoleFailed, kind_of
from cronflow.domain.run import RunState
from cronflow.node.role_guard import guarded
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from tests.leader.test_takeover import jobs, matched
from tests.node.cluster import Cluster, a_cluster


async def stepped_down(cluster: Cluster) -> list[LeaderSteppedDown]:
    found = await cluster.backends.events.find(limit=1000)
    return [one.event for one in reversed(found) if isinstance(one.event, LeaderSteppedDown)]


async def test_an_outage_of_a_store_is_not_unexpected() -> None:
    async def away() -> float:
        raise BackendUnavailable("Redis", "redis:6379", "refused")

    with pytest.raises(BackendUnavailable):
        await guarded(NodeRole("planner", away, Wake()), lambda *_: None).step()


async def test_an_unexpected_error_in_a_role_of_the_api_is_reported_and_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(name: str) -> SimpleNamespace:
        async def step() -> float:
            raise KeyError("a bug")

        return SimpleNamespace(role=NodeRole(name, step, Wake()))

    monkeypatch.setattr(api, "missing_leader", lambda *_, **__: failing("missing leader"))
    monkeypatch.setattr(api, "alert_sender", lambda *_, **__: failing("alert sender"))
    emitted: list[Event] = []
    clock = FakeClock()
    reporting = api.missing_leader_roles(Settings(), memory_backends(clock), clock, mock.Mock(), emitted.append)
    for role in reporting:
        assert await role.step() > 0
    assert emitted == [RoleFailed("the API", role.name, "KeyError: 'a bug'") for role in reporting]


async def test_whatever_role_fails_another_node_leads_and_both_work_on(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ""

    def breaking(role: NodeRole, failed: Callable[[str, str], None]) -> NodeRole:
        async def step() -> float:
            nonlocal broken
            if broken == role.name:
                broken = ""
                raise KeyError("a bug")
            return await role.step()

        return guarded(NodeRole(role.name, step, role.wake), failed)

    monkeypatch.setattr(roles, "guarded", breaking)
    reasons = []
    async with a_cluster("a", "b", guarded=True) as cluster:
        await cluster.service.jobs.apply(jobs(every="5s", count=3))
        # Without a notifier no node evaluates alerts, and without definitions none watches them.
        idle = {"alert evaluator", "alert sender", "definition watch"}
        may_fail = (roles.LEADER_ROLES | roles.LONG_LEADER_ROLES | roles.AUXILIARY_ROLES) - idle
        for name in sorted(may_fail):
            (leader,) = cluster.leaders
            broken = name
            for _ in range(150):
                await cluster.elapse(0.5)
                if not broken:
                    break
            assert not broken, f"the {name} took no step"
            await cluster.elapse(0.25)
            # Roles also take steps on nodes that do not lead.
            assert leader.leads or name not in roles.AUXILIARY_ROLES
            if not leader.leads:
                reasons.append(f"the {name} failed: KeyError: 'a bug'")
            # Each node lets the other go first for a while, so that it may take some seconds.
            await cluster.elapse(6)
            assert len(cluster.leaders) == 1
        await cluster.elapse(6)
        matched(cluster)
        assert [one.reason for one in await stepped_down(cluster)] == reasons
        assert len(reasons) > 5
        failed = await cluster.backends.events.find(kinds={kind_of(RoleFailed)}, limit=100)
        assert {one.event.role for one in failed if isinstance(one.event, RoleFailed)} == may_fail
        assert len(cluster.nodes) == 2
        assert not [task for task in cluster.tasks.values() if task.done()]


async def test_where_every_node_meets_the_error_all_go_on_running_and_the_rest_is_done_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record that no node can read, until somebody mends it."""
    async with a_cluster("a", "b", "c", guarded=True) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply(jobs(every="1m", count=3))
        await cluster.elapse(62)
        running = [run for run in cluster.runs if run.state is RunState.RUNNING]
        assert len(running) == 3
        failures: Counter[str] = Counter()

        async def unreadable(*_: Any, **__: Any) -> Any:
            failures[next(node.id for node in cluster.nodes if node.leads)] += 1
            raise TypeError("a record")

        with monkeypatch.context() as patch:
            patch.setattr(cluster.backends.plans, "left_behind", unreadable)
            await cluster.elapse(45)
            cluster.executor.release.set()
            await cluster.elapse(1)
        assert len(failures) == 3, "the lead went to every node"
        assert max(failures.values()) <= 1 + 46 / 5
        assert not [task for task in cluster.tasks.values() if task.done()]
        by_id = {run.id: run for run in cluster.runs}
        assert {by_id[run.id].state for run in running} == {RunState.SUCCEEDED}
        assert {by_id[run.id].attempt for run in running} == {1}
        await cluster.elapse(70)
        matched(cluster)
        assert len(cluster.leaders) == 1


async def test_a_node_alone_leads_again() -> None:
    async with a_cluster("a", guarded=True) as cluster:
        await cluster.service.jobs.apply(jobs(every="5s", count=3))
        (leader,) = cluster.leaders
        left_behind = cluster.backends.plans.left_behind
        for _ in range(3):
            await cluster.elapse(11)
            assert leader.leads

            async def once(*_: Any, **__: Any) -> Any:
                cluster.backends.plans.left_behind = left_behind  # type: ignore[method-assign]
                raise TypeError("a record")

            cluster.backends.plans.left_behind = once  # type: ignore[method-assign]
        await cluster.elapse(20)
        matched(cluster)
        reasons = [one.reason for one in await stepped_down(cluster)]
        assert reasons == ["the plan recovery failed: TypeError: a record"] * 3
        found = await cluster.backends.events.find(kinds={kind_of(RoleFailed)}, limit=10)
        assert [one.event for one in found] == [RoleFailed("a", "plan recovery", "TypeError: a record")] * 3
