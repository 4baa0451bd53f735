"""Runs of one job on virtual time: replaced, queued, waiting for each other, and never starving those of others."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from cronflow.domain.job import Job, Misfire, Overlap, PythonTarget
from cronflow.domain.run import Outcome, RunState
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.ports import Assignment, LineSink
from tests.node.cluster import Cluster, Recording, a_cluster

SECOND = timedelta(seconds=1)


def a_job(name: str = "tick", every: str | None = "10s", **fields: object) -> Job:
    schedule = None if every is None else Every(every)
    return Job(name=name, target=PythonTarget("jobs:tick"), **{"schedule": schedule, **fields})  # type: ignore[arg-type]


class Alone(Recording):
    """Records how many runs were in progress at once, also while they are being stopped, which takes a second."""

    now_running = 0
    most_at_once = 0

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> object:  # type: ignore[override]
        """As configured, and a second more when it is cancelled."""
        self.now_running += 1
        self.most_at_once = max(self.most_at_once, self.now_running)
        try:
            return await super().run(assignment, node, log)
        except asyncio.CancelledError:
            # At the end of a test nobody moves the clock any more.
            with suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await self.clock.sleep(1.0)
            raise
        finally:
            self.now_running -= 1


def alone(cluster: Cluster) -> Alone:
    """Have every node of the cluster that is started from now on use one."""
    executor = Alone(cluster.clock, release=asyncio.Event())
    cluster.executor = executor
    return executor


def by_state(cluster: Cluster, state: RunState) -> list[str]:
    return [run.id for run in cluster.runs if run.state is state]


# -------------------------------------------------------------------------------------------------------------- replace


async def test_a_new_fire_replaces_the_run_before_it_and_never_runs_beside_it() -> None:
    async with a_cluster() as cluster:
        executor = alone(cluster)
        cluster.start("a")
        cluster.start("b")
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(overlap=Overlap.REPLACE)])
        await cluster.elapse(38)
        states = [run.state for run in cluster.runs]
        assert states == [RunState.CANCELLED] * (len(states) - 1) + [RunState.RUNNING]
        assert len(states) >= 3
        assert {run.reason for run in cluster.runs[:-1]} == {"replaced"}
        assert executor.most_at_once == 1
        # The new one waits for the end of the old one, a second, and not for its back-off.
        late = [run.lateness for run in cluster.runs[1:]]
        assert all(lateness is not None and SECOND <= lateness <= 2.5 * SECOND for lateness in late)
        steps = {b.fire_at - a.fire_at for a, b in zip(cluster.runs, cluster.runs[1:], strict=False)}
        assert steps == {10 * SECOND}


async def test_a_job_that_replaces_blocks_no_other_job_while_it_waits() -> None:
    async with a_cluster() as cluster:
        alone(cluster)
        cluster.start("a")
        await cluster.elapse(1)
        await cluster.service.jobs.apply(
            [a_job("slow", overlap=Overlap.REPLACE), a_job("other", overlap=Overlap.ALLOW)]
        )
        await cluster.elapse(32)
        late = [run.lateness for run in cluster.runs if run.job == "other"]
        assert len(late) >= 3
        assert all(lateness is not None and lateness < SECOND / 2 for lateness in late)


async def test_what_is_replaced_on_a_dead_worker_bounds_the_wait_by_its_lease() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(every="20s", overlap=Overlap.REPLACE)])
        while not cluster.executor.starts:
            await cluster.elapse(1)
        await cluster.elapse(1)
        (first,) = cluster.runs
        await cluster.kill(next(node for node in cluster.nodes if node.id == first.node))
        cluster.executor.release.set()
        await cluster.elapse(100)
        assert cluster.runs[0].state is RunState.CANCELLED
        assert cluster.runs[0].reason == "replaced"
        # Those that fell due meanwhile are on record; the newest of them ran.
        assert {run.reason for run in cluster.runs[1:] if run.state is RunState.SKIPPED} <= {"replaced", "misfire"}
        assert cluster.runs[-1].state is RunState.SUCCEEDED
        assert len(cluster.executor.starts) == len({run for run, *_ in cluster.executor.starts})


async def test_what_waits_for_its_retry_is_replaced_at_once() -> None:
    async with a_cluster("a") as cluster:
        failing = cluster.executor.attempt_result
        cluster.executor.attempt_result = lambda assignment: type(failing(assignment))(Outcome.ERROR, error="no")
        await cluster.service.jobs.apply([a_job(overlap=Overlap.REPLACE)])
        await cluster.elapse(31)
        *replaced, last = cluster.runs
        assert len(replaced) >= 2
        assert {(run.state, run.reason) for run in replaced} == {(RunState.CANCELLED, "replaced")}
        assert last.state is RunState.RETRYING
        assert last.lateness is not None
        assert last.lateness < SECOND


# ---------------------------------------------------------------------------------------------- one after another


async def test_a_run_by_hand_waits_for_the_one_that_runs_without_being_placed_again_and_again() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(every=None)])
        first = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(1)
        second = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(60)
        run = await cluster.service.runs.get(second)
        assert (run.state, run.attempt, run.redispatches) == (RunState.RETRYING, 0, 0)
        cluster.executor.release.set()
        await cluster.elapse(3)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED] * 2
        assert cluster.executor.runs_started == [first, second]


async def test_several_runs_by_hand_at_one_moment_run_one_after_another() -> None:
    async with a_cluster() as cluster:
        executor = alone(cluster)
        executor.release = None
        cluster.start("a")
        cluster.start("b")
        await cluster.elapse(1)
        await cluster.service.jobs.apply([a_job(every=None)])
        asked = [await cluster.service.jobs.trigger("tick") for _ in range(4)]
        await cluster.elapse(10)
        assert sorted(executor.runs_started) == sorted(asked)
        assert executor.most_at_once == 1
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert {run.redispatches for run in cluster.runs} == {0}


async def test_temporal_11281_deadline_on_retry() -> None:
    """temporal #11281, #11316, #11530, #4332: the same in a cluster, with a run that waited for a node."""
    async with a_cluster("a") as cluster:
        misfire = Misfire(grace=timedelta(minutes=5))
        await cluster.service.jobs.apply([a_job(every="20m", misfire=misfire)])
        cluster.executor.release = asyncio.Event()
        await cluster.elapse(1200)
        while not cluster.executor.starts:
            await cluster.elapse(1)
        # Stopped while it runs: it waits for a node, longer than its grace.
        (node,) = cluster.nodes
        node.stop()
        await cluster.elapse(62)
        await cluster.kill(node)
        assert [run.state for run in cluster.runs] == [RunState.RETRYING]
        await cluster.elapse(300)
        cluster.start("b")
        await cluster.elapse(40)
        (run,) = cluster.runs
        assert (run.state, run.reason) == (RunState.SKIPPED, "misfire")
        assert len(cluster.executor.starts) == 1


async def test_a_queued_fire_starts_at_once_when_the_run_before_it_ends() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(every="60s", overlap=Overlap.QUEUE)])
        # The second fire has waited for long, so that its back-off has grown to five seconds.
        await cluster.elapse(60 + 60 + 20)
        (first,) = cluster.runs
        assert first.state is RunState.RUNNING
        ended = cluster.clock.now()
        cluster.executor.release.set()
        await cluster.elapse(0.5)
        second = cluster.runs[1]
        assert second.started_at is not None
        assert second.started_at - ended <= SECOND / 2


async def test_releases_do_not_make_a_planner_look_that_has_nothing_waiting() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(every=None, overlap=Overlap.ALLOW)])
        await cluster.elapse(1)
        before = cluster.backends.faults.calls["jobs.due_in_turn"]
        for _ in range(20):
            await cluster.backends.queue.release("a#1", [])
            await cluster.clock.settle()
        assert cluster.backends.faults.calls["jobs.due_in_turn"] == before


async def test_thousands_of_jobs_that_nobody_can_run_do_not_keep_others_from_running() -> None:
    async with a_cluster("a") as cluster:
        at: datetime = cluster.clock.now() + 5 * SECOND
        hopeless = [
            a_job(f"picky-{k:04}", None, schedule=Once(at), require={"gpu": "yes"}, priority=9) for k in range(5000)
        ]
        await cluster.service.jobs.apply(hopeless)
        await cluster.service.jobs.apply([a_job(f"easy-{k}", None, schedule=Once(at + SECOND)) for k in range(10)])
        before = cluster.backends.faults.calls["jobs.due_in_turn"]
        await cluster.clock.advance((at - cluster.clock.now()).total_seconds())
        rounds = 0
        while len(cluster.executor.starts) < 10:
            await cluster.clock.advance(0.25)
            rounds += 1
            assert rounds < 40
        assert {run for run in cluster.executor.runs_started if not run.startswith("easy-")} == set()
        assert cluster.backends.faults.calls["jobs.due_in_turn"] - before <= 200
