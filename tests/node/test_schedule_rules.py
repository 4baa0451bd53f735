"""Windows, `max_runs` and `after_completion` of schedules, on virtual time and whole nodes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise

from cronflow.domain.job import Job, Misfire, MisfirePolicy, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.schedule.calendar import Period
from cronflow.domain.schedule.kinds import Every, Schedule
from cronflow.domain.why import Excluded, NotDue, Upcoming
from cronflow.testing.audit import audit, expectations
from cronflow.testing.clock import FakeClock
from tests.node.cluster import Cluster, a_cluster
from tests.node.test_ledger import versions

SECOND = timedelta(seconds=1)
START = FakeClock().now()


def a_job(schedule: Schedule, **fields: object) -> Job:
    return Job(name="tick", target=PythonTarget("jobs:tick"), schedule=schedule, **fields)  # type: ignore[arg-type]


async def applied(cluster: Cluster, schedule: Schedule, **fields: object) -> None:
    """Apply the job, and let the pauses of an edit pass."""
    task = asyncio.ensure_future(cluster.service.jobs.apply([a_job(schedule, **fields)]))
    while not task.done():
        await cluster.clock.advance(0.25)
    task.result()


def by_state(cluster: Cluster, state: RunState) -> list[Run]:
    return [run for run in cluster.runs if run.state is state]


def fires(runs: list[Run]) -> list[float]:
    return [(run.fire_at - START).total_seconds() for run in runs]


async def assert_each_instant_has_one_run(cluster: Cluster, until: datetime) -> None:
    found = audit({"tick": expectations(await versions(cluster, "tick"))}, cluster.runs, until)
    assert found.fires_due > 0
    assert (found.lost, found.doubled) == ([], [])


# --------------------------------------------------------------------------------------------------------- windows


async def test_a_blackout_is_skipped_also_when_its_leader_dies_in_the_middle() -> None:
    quiet = Period(START + 10 * SECOND, START + 70 * SECOND, "quiet")
    for look_ahead in (0.0, 1.0):
        async with a_cluster("a", look_ahead=look_ahead) as cluster:
            await applied(cluster, Every("2s", blackout=(quiet,)), misfire=Misfire(late_after=5 * SECOND))
            await cluster.elapse(19)
            await cluster.kill(cluster.nodes[0])
            cluster.start("b")
            await cluster.elapse(70)
            until = cluster.clock.now() - SECOND
            await assert_each_instant_has_one_run(cluster, until)
            skipped = by_state(cluster, RunState.SKIPPED)
            assert {run.reason for run in skipped} == {"blackout: quiet"}
            assert all(quiet.start <= run.fire_at < quiet.end for run in skipped)
            assert all(not quiet.start <= run.fire_at < quiet.end for run in by_state(cluster, RunState.SUCCEEDED))
            # The fires of the failover are one run.
            assert max(0 if run.covers is None else run.covers.count or 0 for run in skipped) > 5


async def test_a_skipped_instant_is_explained_by_its_window_and_so_is_one_to_come() -> None:
    async with a_cluster("a") as cluster:
        quiet = Period(START + 10 * SECOND, START + 40 * SECOND, "quiet")
        await applied(cluster, Every("10s", blackout=(quiet,)))
        await cluster.elapse(12)
        why = await cluster.service.explain.why("tick", START + 10 * SECOND)
        assert Excluded("blackout: quiet") in why.links
        coming = await cluster.service.explain.why("tick", START + 30 * SECOND)
        assert Excluded("blackout: quiet", quiet.end) in coming.links
        allowed = await cluster.service.explain.why("tick", START + 40 * SECOND)
        assert [type(link) for link in allowed.links][1:] == [Upcoming]


# -------------------------------------------------------------------------------------------------------- max_runs


async def test_a_job_ends_with_its_last_run_and_skipped_ones_do_not_count() -> None:
    async with a_cluster("a") as cluster:
        quiet = Period(START + 10 * SECOND, START + 15 * SECOND)
        await applied(cluster, Every("5s", max_runs=3, blackout=(quiet,)))
        await cluster.service.jobs.trigger("tick")
        await cluster.elapse(60)
        scheduled = [run for run in by_state(cluster, RunState.SUCCEEDED) if run.id.startswith("tick@2")]
        assert fires(scheduled) == [5, 15, 20]
        record = await cluster.service.jobs.get("tick")
        assert (record.fired, record.runs_left, record.next_fire, record.active) == (3, 0, None, False)
        assert (await cluster.service.jobs.next_fires("tick", 5))[1] == []
        await assert_each_instant_has_one_run(cluster, cluster.clock.now())
        why = await cluster.service.explain.why("tick", START + 25 * SECOND)
        [last] = why.links
        assert isinstance(last, NotDue)
        assert last.reason == "after the last run that max_runs allows"
        # More runs from now on: nothing is due in between, and the count goes on.
        await applied(cluster, Every("5s", max_runs=5, blackout=(quiet,)))
        assert (await cluster.service.jobs.get("tick")).fired == 3
        assert len((await cluster.service.jobs.next_fires("tick", 5))[1]) == 2
        await cluster.elapse(30)
        assert len(by_state(cluster, RunState.SUCCEEDED)) == 6
        await assert_each_instant_has_one_run(cluster, cluster.clock.now())
        # Another interval counts anew.
        await applied(cluster, Every("7s", max_runs=1))
        await cluster.elapse(20)
        assert (await cluster.service.jobs.get("tick")).fired == 1
        assert len(by_state(cluster, RunState.SUCCEEDED)) == 7
        await assert_each_instant_has_one_run(cluster, cluster.clock.now())


async def test_fewer_runs_end_a_job_at_once_and_an_edit_of_the_limit_moves_no_cursor() -> None:
    async with a_cluster("a") as cluster:
        await applied(cluster, Every("5s", max_runs=100))
        await cluster.elapse(11)
        before = await cluster.service.jobs.get("tick")
        await applied(cluster, Every("5s", max_runs=50))
        after = await cluster.service.jobs.get("tick")
        assert (after.fired, after.next_fire) == (before.fired, before.next_fire)
        await applied(cluster, Every("5s", max_runs=1))
        assert (await cluster.service.jobs.get("tick")).next_fire is None
        ran = len(cluster.runs)
        await cluster.elapse(20)
        assert len(cluster.runs) == ran
        await applied(cluster, Every("5s"))
        await cluster.elapse(20)
        record = await cluster.service.jobs.get("tick")
        assert (record.fired, record.runs_left) == (before.fired, None)
        assert len(cluster.runs) > ran
        await assert_each_instant_has_one_run(cluster, cluster.clock.now())


async def test_a_killed_leader_starts_no_run_too_many_and_none_too_few() -> None:
    for step in ("jobs.move", "runs.insert", "plans.remove"):
        for acted in (False, True):
            async with a_cluster("a") as cluster:
                misfire = Misfire(late_after=120 * SECOND)
                await applied(cluster, Every("2s", max_runs=4), misfire=misfire, overlap=Overlap.QUEUE)
                await cluster.elapse(3)
                cluster.backends.faults.stall(step, acted=acted)
                await cluster.elapse(4)
                await cluster.kill(cluster.nodes[0])
                cluster.backends.faults.heal()
                cluster.start("b")
                await cluster.elapse(60)
                assert fires(cluster.runs) == [2, 4, 6, 8]
                assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
                assert (await cluster.service.jobs.get("tick")).fired == 4


async def test_a_range_of_missed_fires_counts_once() -> None:
    async with a_cluster("a") as cluster:
        await applied(cluster, Every("2s", max_runs=2), misfire=Misfire(late_after=5 * SECOND))
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(40)
        cluster.start("b")
        await cluster.elapse(40)
        assert [run.covers is None for run in cluster.runs] == [False, True]
        assert (await cluster.service.jobs.get("tick")).next_fire is None
        await assert_each_instant_has_one_run(cluster, cluster.clock.now())


# ------------------------------------------------------------------------------------------------ after_completion


async def test_the_next_run_is_due_an_interval_after_the_end_of_the_last_one_whatever_overlap_says() -> None:
    for overlap in Overlap:
        async with a_cluster("a") as cluster:
            await applied(cluster, Every("10s", after_completion=True), overlap=overlap)
            record = await cluster.service.jobs.get("tick")
            assert record.next_fire is not None
            first = (record.next_fire - START).total_seconds()
            assert 10 <= first <= 12
            cluster.executor.release = asyncio.Event()
            await cluster.elapse(40)
            assert fires(cluster.runs) == [first]
            waiting = (await cluster.service.jobs.get("tick")).waiting
            assert waiting is not None
            assert waiting.blocked_by == cluster.runs[0].id
            cluster.executor.release.set()
            cluster.executor.release = None
            await cluster.elapse(35)
            ended = [run.ended_at for run in cluster.runs]
            assert len(ended) == 4
            assert not by_state(cluster, RunState.SKIPPED)
            for run, end in zip(cluster.runs[1:], ended, strict=False):
                assert end is not None
                assert timedelta(0) <= run.fire_at - end - 10 * SECOND < SECOND
                assert run.lateness is not None
                assert run.lateness < 2 * SECOND


async def test_a_retry_and_a_lost_node_count_as_a_run_that_has_not_ended() -> None:
    async with a_cluster("a") as cluster:
        failures = iter([True, True, False])
        cluster.executor.attempt_result = lambda _: AttemptResult(
            Outcome.ERROR if next(failures, False) else Outcome.OK
        )
        retry = Retry(max=3, initial=20 * SECOND, multiplier=1.0)
        await applied(cluster, Every("10s", after_completion=True), retry=retry)
        await cluster.elapse(80)
        first, second = cluster.runs[:2]
        assert len(first.attempts) == 3
        assert first.ended_at is not None
        assert second.fire_at >= first.ended_at + 10 * SECOND
        # The node dies in the middle of a run, which another one ends.
        cluster.executor.release = asyncio.Event()
        while not any(run.state is RunState.RUNNING for run in cluster.runs):
            await cluster.elapse(1)
        running = next(run for run in cluster.runs if run.state is RunState.RUNNING)
        await cluster.kill(cluster.nodes[0])
        cluster.executor.release = None
        cluster.start("b")
        await cluster.elapse(150)
        lost = next(run for run in cluster.runs if run.id == running.id)
        following = next(run for run in cluster.runs if run.fire_at > lost.fire_at)
        assert lost.ended_at is not None
        assert len(lost.attempts) == 2
        assert following.fire_at >= lost.ended_at + 10 * SECOND
        times = fires(cluster.runs)
        assert times == sorted(set(times))
        assert all(later - earlier >= 10 for earlier, later in pairwise(times))


async def test_a_manual_run_that_is_open_is_waited_for() -> None:
    async with a_cluster("a") as cluster:
        await applied(cluster, Every("10s", after_completion=True))
        cluster.executor.release = asyncio.Event()
        manual = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(30)
        assert [run.id for run in cluster.runs] == [manual]
        cluster.executor.release.set()
        cluster.executor.release = None
        await cluster.elapse(5)
        assert len(cluster.runs) == 2


async def test_it_begins_at_its_start_and_ends_before_its_end_and_after_its_last_run() -> None:
    async with a_cluster("a") as cluster:
        start = START + 20 * SECOND
        await applied(cluster, Every("10s", after_completion=True, start=start, end=start + 25 * SECOND))
        await cluster.elapse(90)
        assert fires(cluster.runs)[0] == 20
        assert len(cluster.runs) == 3
        assert (await cluster.service.jobs.get("tick")).next_fire is None
        await applied(cluster, Every("5s", after_completion=True, max_runs=2))
        await cluster.elapse(40)
        assert len(cluster.runs) == 5


async def test_a_blackout_skips_the_instants_that_there_are_and_an_outage_leaves_one_run() -> None:
    async with a_cluster("a") as cluster:
        quiet = Period(START + 30 * SECOND, START + 60 * SECOND)
        schedule = Every("10s", after_completion=True, blackout=(quiet,))
        await applied(cluster, schedule, misfire=Misfire(policy=MisfirePolicy.CATCH_UP, late_after=5 * SECOND))
        await cluster.elapse(80)
        skipped = by_state(cluster, RunState.SKIPPED)
        assert 2 <= len(skipped) <= 3
        assert all(quiet.start <= run.fire_at < quiet.end and run.covers is None for run in skipped)
        before = len(cluster.runs)
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(120)
        restarted = cluster.clock.now()
        cluster.start("b")
        await cluster.elapse(30)
        # One instant fell due, however long it lasted.
        assert len([run for run in cluster.runs[before:] if run.fire_at < restarted]) == 1
        why = await cluster.service.explain.why("tick", cluster.runs[-1].fire_at + SECOND)
        assert [type(link) for link in why.links] == [NotDue]


async def test_missed_runs_of_such_a_job_are_skipped_one_at_a_time_and_not_for_every_interval_of_an_outage() -> None:
    async with a_cluster("a") as cluster:
        schedule = Every("1s", after_completion=True)
        await applied(cluster, schedule, misfire=Misfire(policy=MisfirePolicy.SKIP, late_after=5 * SECOND))
        await cluster.elapse(5)
        await cluster.kill(cluster.nodes[0])
        await cluster.elapse(300)
        cluster.start("b")
        await cluster.elapse(10)
        assert len([run for run in by_state(cluster, RunState.SKIPPED) if run.reason == "misfire"]) == 1
        assert cluster.runs[-1].state is not RunState.SKIPPED
