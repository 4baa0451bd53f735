"""A node that holds a run twice, under two fences: each attempt gets its own result."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from cronflow.domain import transitions
from cronflow.domain.job import Delivery, Job, PythonTarget, Retry
from cronflow.domain.run import RunState
from cronflow.domain.transitions import ClaimedRun
from cronflow.node.timings import Timings
from cronflow.ports import JobLock
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.worker.group_commit import apply_each
from cronflow.worker.leases import Lease, Leases
from tests.contracts.builders import a_run
from tests.node.cluster import a_cluster

SECOND = timedelta(seconds=1)
NEW = ClaimedRun(run="report@1", fence=101, node="n1#a", attempt=1, retry=Retry(max=0), delivery=Delivery.AT_MOST_ONCE)
OLD = replace(NEW, fence=100)


async def test_of_two_starts_of_a_run_in_one_batch_one_wins() -> None:
    clock = FakeClock()
    runs = memory_backends(clock).runs
    await runs.insert([a_run(id=NEW.run, fence=101), a_run(id="other", fence=7)])
    other = replace(NEW, run="other", fence=7)
    claimed = [OLD, NEW, other]
    starts = [transitions.start(one, f"s{one.fence}", clock.now(), 45 * SECOND) for one in claimed]
    assert await apply_each(runs, starts) == [False, True, True]
    # Its answer was lost, and it is asked again.
    assert await apply_each(runs, starts) == [False, True, True]


async def test_at_most_once_starts_once_although_its_node_takes_it_under_two_fences_at_once() -> None:
    async with a_cluster("only") as cluster:
        job = Job(name="pay", target=PythonTarget("a:b"), delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0))
        await cluster.service.jobs.apply([job])
        cluster.backends.faults.stall("queue.take")
        run_id = await cluster.service.jobs.trigger("pay")
        await cluster.elapse(1.5)
        (run,) = cluster.runs
        assert run.state is RunState.DISPATCHED
        # The time to acknowledge it is over before the item's own is; clocks that disagree lead to that.
        runs = cluster.backends.documents.runs
        runs[run_id] = replace(run, check_at=cluster.clock.now())
        await cluster.elapse(1.5)
        (lists,) = cluster.backends.memory.lists.values()
        assert len(lists) == 2
        cluster.backends.faults.heal()
        await cluster.elapse(3.0)
        (run,) = cluster.runs
        assert run.state is RunState.SUCCEEDED
        assert [(name, fence) for name, fence, *_ in cluster.executor.starts] == [(run_id, run.fence)]


async def test_a_run_that_an_edit_gave_back_starts_once_although_both_of_its_items_are_taken_together() -> None:
    async with a_cluster("only") as cluster:
        job = Job(name="report", target=PythonTarget("a:b"))
        await cluster.service.jobs.apply([job])
        stall = cluster.backends.faults.stall("queue.take")
        run_id = await cluster.service.jobs.trigger("report")
        await cluster.elapse(1.5)
        edit = asyncio.create_task(cluster.service.jobs.apply([replace(job, timeout=60 * SECOND)]))
        await cluster.elapse(2.5)
        assert edit.done()
        (items,) = cluster.backends.memory.lists.values()
        assert [item.run for _, item in items] == [run_id, run_id]
        stall.release()
        cluster.backends.faults.heal()
        await cluster.elapse(3.0)
        (run,) = cluster.runs
        assert run.state is RunState.SUCCEEDED
        assert [(name, fence) for name, fence, *_ in cluster.executor.starts] == [(run_id, run.fence)]


async def test_a_lease_under_an_old_fence_is_lost_although_its_node_holds_the_new_one_too() -> None:
    clock, lost = FakeClock(), list[Lease]()
    backends = memory_backends(clock)
    await backends.runs.insert([a_run(id=NEW.run, fence=101)])
    await backends.runs.apply([transitions.start(NEW, "s", clock.now(), 45 * SECOND)])
    leases = [
        Lease(claimed, JobLock("report", "", claimed.run, claimed.fence), marked=True, until=60.0)
        for claimed in (OLD, NEW)
    ]
    roles = Leases(
        backends.runs,
        backends.queue,
        clock,
        Timings(),
        node="n1#a",
        current=lambda: leases,
        lost=lost.append,
    )
    await roles.renew()
    assert lost == leases[:1]
