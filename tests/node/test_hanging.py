"""A call that never returns, on one node of a cluster, on virtual time: its leader steps down, and the others go on."""

from __future__ import annotations

import asyncio
import typing
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.events import LeaderSteppedDown
from cronflow.domain.job import Job, PythonTarget
from cronflow.domain.run import ENDED
from cronflow.domain.schedule.kinds import Every
from cronflow.node.node import Node
from cronflow.node.role_loop import NodeRole, Outages, StepMonitor, Wake, end_tasks, repeat
from cronflow.ports import Backends
from cronflow.testing.clock import FakeClock
from tests.node.cluster import Cluster, a_cluster, elector_of
from tests.waiting import eventually


class Calls:
    """The calls of one node. Those named in `hanging` never return."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.hanging: set[str] = set()

    def on(self, backends: Any) -> Any:
        """The same ports, watched."""
        ports = [name for name in typing.get_type_hints(Backends) if name != "server_clocks"]
        clocks = {name: Watched(self, name, clock) for name, clock in backends.server_clocks.items()}
        watched = {name: Watched(self, name, getattr(backends, name)) for name in ports}
        return replace(backends, **watched, server_clocks=clocks)


class Watched:
    """A port whose calls are noted, and may hang."""

    def __init__(self, calls: Calls, port: str, inner: object) -> None:
        self._calls, self._port, self._inner = calls, port, inner

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            verb = f"{self._port}.{name}"
            self._calls.seen.add(verb)
            if verb in self._calls.hanging:
                await asyncio.Event().wait()
            return await method(*args, **named)

        return call


async def watched_leader(cluster: Cluster) -> tuple[Node, Calls]:
    """Start a leader whose calls are watched, and a second node."""
    calls, backends = Calls(), cluster.backends
    cluster.backends = calls.on(backends)
    leader = cluster.start("leader")
    await cluster.elapse(1)
    cluster.backends = backends
    cluster.start("other")
    await cluster.service.jobs.apply([Job(name="tick", target=PythonTarget("jobs:tick"), schedule=Every("10s"))])
    await cluster.elapse(15)
    assert cluster.leaders == [leader]
    return leader, calls


async def stepped_down(cluster: Cluster) -> list[LeaderSteppedDown]:
    found = await cluster.backends.events.find(limit=1000)
    return [one.event for one in found if isinstance(one.event, LeaderSteppedDown)]


@pytest.mark.parametrize("verb", ["jobs.due_in_turn", "runs.overdue", "plans.left_behind", "membership.members"])
async def test_a_leader_whose_step_makes_no_progress_steps_down_and_names_it(verb: str) -> None:
    async with a_cluster() as cluster:
        leader, calls = await watched_leader(cluster)
        calls.hanging.add(verb)
        await cluster.elapse(28)
        assert cluster.leaders == [leader], "a call may take as long as the lease"
        await cluster.elapse(12)
        assert [node.id.partition("#")[0] for node in cluster.leaders] == ["other"]
        (event,) = await stepped_down(cluster)
        role, place = {
            "jobs.due_in_turn": ("planner", "Planner.step"),
            "runs.overdue": ("reconciler", "Reconciler.step"),
            "plans.left_behind": ("plan recovery", "PlanRecovery.step"),
            "membership.members": ("planner", "Planner.step > Planner._plan"),
        }[verb]
        assert event.reason.startswith(f"the {role} has made no progress for 3")
        assert place in event.reason
        assert elector_of(leader).last_term == 1


async def test_whatever_call_of_a_leader_hangs_for_ever_the_cluster_goes_on(request: pytest.FixtureRequest) -> None:
    async with a_cluster() as cluster:
        _, calls = await watched_leader(cluster)
        verbs = sorted(calls.seen)
    assert len(verbs) > 20
    if not request.config.getoption("prove"):
        # Each takes a second of CPU.
        verbs = verbs[::5]
    stuck: dict[str, object] = {}
    for verb in verbs:
        async with a_cluster() as cluster:
            _, calls = await watched_leader(cluster)
            since = cluster.clock.now()
            calls.hanging.add(verb)
            await cluster.elapse(150)
            # What was due a minute ago has had a failover and a lease.
            due = [run for run in cluster.runs if since < run.fire_at < cluster.clock.now() - timedelta(seconds=80)]
            if len(cluster.leaders) != 1 or len(due) < 6 or any(run.state not in ENDED for run in due):
                stuck[verb] = [(run.fire_at.time(), run.state, run.node) for run in due]
    assert stuck == {}


async def test_a_long_step_that_makes_progress_is_no_hanging_one() -> None:
    clock = FakeClock()
    step_monitor = StepMonitor(clock.monotonic)

    async def step() -> float:
        for _ in range(100):
            await clock.sleep(5)
        await asyncio.Event().wait()
        return 0.0

    running = asyncio.create_task(repeat(NodeRole("planner", step, Wake()), clock, Outages(), step_monitor))
    for _ in range(250):
        await clock.advance(2)
        assert step_monitor.hanging({"planner"}, 30.0) is None
    for _ in range(16):
        await clock.advance(2)
    assert step_monitor.hanging({"sweep"}, 30.0) is None
    found = step_monitor.hanging({"planner"}, 30.0)
    await end_tasks([running])
    assert found is not None
    assert found.startswith("the planner has made no progress for 3")
    assert step_monitor.hanging({"planner"}, 0.0) is None, "the step has ended"


async def test_a_role_that_loses_its_cancellation_does_not_keep_the_node_from_ending() -> None:
    """python/cpython#86296: `asyncio.wait_for` of CPython 3.11, with which redis-py sends, loses a cancellation that
    arrives just as it finishes. A node that took work at that moment never ended.
    """
    lost: list[str] = []

    async def loses_it() -> float:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if lost:
                raise
            lost.append("a cancellation")
        return 60.0

    async with a_cluster() as cluster:
        node = cluster.start("a")
        node._roles = [*node._roles, NodeRole("stubborn", loses_it, Wake())]
        await cluster.elapse(1)
        node.stop()

        async def ended() -> bool:
            await cluster.clock.advance(0.25)
            return cluster.tasks[node.id].done()

        await eventually(ended, 20, "the node has ended")
        assert lost == ["a cancellation"]
