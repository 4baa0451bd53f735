"""System jobs in whole clusters on virtual time: the leader defines them, they run like all others, a sweep of a busy
cluster finds nothing, and a clean-up next to a planner neither loses nor doubles a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import time, timedelta
from itertools import pairwise
from typing import Any

import pytest

from cronflow.bootstrap.roles import build_node
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CLEANUP, SWEEP, Job, Overlap, PythonTarget, Retry, StartGuard, SystemTarget, system_jobs
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.executors.by_target import Executors
from cronflow.executors.system import SystemExecutor
from cronflow.leader.maintenance import Cleanup
from cronflow.leader.sweep import Sweep
from cronflow.node.node import Node
from cronflow.node.timings import Timings
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from cronflow.usecases.pending_runs import insert_pending_runs
from tests.contracts.builders import an_assignment
from tests.node.cluster import Cluster, Recording, Steady, bugs_raised, living, planner_of

DAILY = system_jobs(time(12, 3), time(12, 4))
RETENTION = timedelta(minutes=2)


@dataclass
class Swept(Cluster):
    """A cluster whose nodes run the system's jobs, too."""

    system: Sequence[Job] = DAILY
    work: Executors = field(default_factory=lambda: Executors({}))

    def start(
        self,
        name: str,
        *,
        slots: int = 16,
        skew: timedelta = timedelta(0),
        capabilities: Capabilities | None = None,
        capacity: ResourceAmount | None = None,
        defines: Sequence[Job] = (),
        **labels: str,
    ) -> Node:
        """One more node."""
        node = build_node(
            self.backends,
            self.work,
            self.clock,
            Timings(),
            name=name,
            slots=slots,
            labels=labels,
            resources=Steady(),
            system_jobs=self.system,
            log_retention=timedelta(days=7),
        )
        self.nodes.append(node)
        self.tasks[node.id] = asyncio.create_task(node.run(), name=name)
        return node

    async def sweep_now(self) -> tuple[int, list[str]]:
        """A sweep by hand to its end; how many findings, and which."""
        name = await self.service.cluster.sweep()
        for _ in range(600):
            await self.elapse(0.25)
            run = await self.service.runs.get(name)
            if not run.is_open:
                break
        assert (run.state, run.error) == (RunState.SUCCEEDED, None)
        report = await self.service.backends.store_admin.report()
        assert report is not None
        assert report.run == name
        return report.found, [f"{one.kind} {one.where}" for one in report.findings]


@asynccontextmanager
async def a_swept_cluster(*names: str, system: Sequence[Job] = DAILY) -> AsyncIterator[Swept]:
    """As `a_cluster`, with the system's jobs."""
    clock = FakeClock()
    backends = memory_backends(clock)
    cluster = Swept(clock, backends, Recording(clock), UseCases(backends, clock), system=system)
    pieces = {
        "sweep": Sweep(backends, clock).run,
        "cleanup": Cleanup(backends, clock, run_retention=RETENTION).run,
    }
    cluster.work = Executors({PythonTarget: cluster.executor, SystemTarget: SystemExecutor(pieces)})
    with bugs_raised():
        for name in names:
            cluster.start(name)
        async with living(cluster):
            yield cluster


def a_job(name: str, every: str = "1s", **fields: Any) -> Job:
    fields.setdefault("schedule", Every(every))
    return Job(name=name, target=PythonTarget("a:b"), **fields)


async def test_the_leader_defines_the_systems_jobs_and_they_run_at_their_time() -> None:
    async with a_swept_cluster("a", "b") as cluster:
        assert [record.name for record in await cluster.service.backends.jobs.find()] == [CLEANUP, SWEEP]
        await cluster.elapse(5 * 60)
        runs = {run.job: run for run in cluster.runs}
        assert {name: (run.state, f"{run.fire_at:%H:%M}") for name, run in runs.items()} == {
            SWEEP: (RunState.SUCCEEDED, "12:03"),
            CLEANUP: (RunState.SUCCEEDED, "12:04"),
        }
        assert all(run.fence > 0 and run.started_at is not None for run in runs.values())
        (line,) = await cluster.service.runs.logs(runs[SWEEP].id)
        assert line.text.endswith("found nothing")
        assert cluster.backends.documents.line_retention == timedelta(days=7)


async def test_other_settings_of_the_next_leader_are_an_edit_and_equal_ones_are_none() -> None:
    async with a_swept_cluster("a", "b") as cluster:
        (leader,) = cluster.leaders
        leader.stop()
        await cluster.elapse(5)
        assert [record.ver for record in await cluster.service.backends.jobs.find()] == [1, 1]
        cluster.system = system_jobs(time(18, 30), time(12, 4))
        cluster.start("c")
        (leader,) = cluster.leaders
        leader.stop()
        await cluster.elapse(5)
        assert {record.name: record.ver for record in await cluster.service.backends.jobs.find()} == {
            CLEANUP: 1,
            SWEEP: 2,
        }
        assert f"{(await cluster.service.jobs.get(SWEEP)).next_fire:%H:%M}" == "18:30"


async def test_a_failed_sweep_is_tried_again_and_stops_no_node() -> None:
    async with a_swept_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("x", "1h")])
        cluster.backends.faults.fail_before("archive.runs")
        found, _ = await cluster.sweep_now()
        assert found == 0
        (run,) = [run for run in cluster.runs if run.job == SWEEP]
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.ERROR, Outcome.OK]
        cluster.backends.archive.jobs = None  # type: ignore[method-assign, assignment]
        broken = await cluster.service.cluster.sweep()
        await cluster.elapse(300)
        run = await cluster.service.runs.get(broken)
        assert (run.state, run.attempt) == (RunState.FAILED, 4)
        assert run.error is not None
        assert run.error.startswith("TypeError")
        assert len(cluster.leaders) == 1


@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
async def test_nobody_edits_the_systems_jobs(verb: str) -> None:
    async with a_swept_cluster("a") as cluster:
        with pytest.raises(InvalidInput, match="is a system job"):
            await getattr(cluster.service.jobs, verb)(SWEEP)
        with pytest.raises(InvalidInput, match="reserved for system jobs"):
            await cluster.service.jobs.apply([replace(DAILY[0], description="mine")])
        assert (await cluster.service.jobs.get(SWEEP)).ver == 1
    with pytest.raises(InvalidInput, match="only system jobs"):
        Job(name="mine", target=SystemTarget("sweep"))


# ------------------------------------------------------------------------------------- a sweep in the middle of it all


async def busy(cluster: Swept) -> None:
    """Every kind of job: often, long, failing, waiting for a node, for another run, done, paused, edited, gone."""
    ends: dict[str, AttemptResult] = {
        "fails": AttemptResult(Outcome.ERROR, error="no"),
        "gives-up": AttemptResult(Outcome.PERMANENT),
    }
    plain = cluster.executor.run

    async def run(assignment: Any, node: str, log: Any) -> AttemptResult:
        await plain(assignment, node, log)
        if assignment.job.name.startswith(("long", "queue")):
            await cluster.clock.sleep(7)
        return ends.get(assignment.job.name, AttemptResult(Outcome.OK))

    cluster.executor.run = run  # type: ignore[method-assign]
    now = cluster.clock.now()
    await cluster.service.jobs.apply(
        [
            *(a_job(f"often-{k}") for k in range(20)),
            *(a_job(f"allow-{k}", overlap=Overlap.ALLOW) for k in range(5)),
            a_job("long", "2s"),
            a_job("queue", "2s", overlap=Overlap.QUEUE),
            a_job("fails", "5s", retry=Retry(max=2, initial="3s")),
            a_job("gives-up", "3s"),
            a_job("nowhere", "3s", require={"moon": "yes"}),
            a_job("once", schedule=Once(now + timedelta(seconds=3))),
            a_job("by-hand", schedule=None),
            a_job("disabled", enabled=False),
            a_job("ends", schedule=Every("1s", end=now + timedelta(seconds=5))),
            *(a_job(name, "2s") for name in ("paused", "edited", "deleted")),
        ]
    )
    await cluster.elapse(3)
    await cluster.service.jobs.trigger("by-hand")


async def test_no_false_alarms_a_sweep_in_the_middle_of_a_busy_cluster_finds_nothing() -> None:
    async with a_swept_cluster("a", "b", "c") as cluster:
        await busy(cluster)
        edits = asyncio.ensure_future(_edit_all_the_time(cluster))
        for _ in range(4):
            assert await cluster.sweep_now() == (0, [])
        edits.cancel()
        await asyncio.wait({edits})
        # The scheduled one, too.
        await cluster.elapse(180)
        scheduled = [run for run in cluster.runs if run.job == SWEEP and "manual" not in run.id]
        assert [(run.state, run.result["found"]) for run in scheduled] == [  # type: ignore[index]
            (RunState.SUCCEEDED, 0)
        ]
        assert len(cluster.runs) > 500


async def _edit_all_the_time(cluster: Swept) -> None:
    for k in range(1000):
        await cluster.service.jobs.apply([a_job("edited", f"{2 + k % 2}s"), a_job("deleted", "2s")])
        await (cluster.service.jobs.pause if k % 2 else cluster.service.jobs.resume)("paused")
        await cluster.service.jobs.delete("deleted")
        await cluster.clock.sleep(0.3)


def batch_of_both_guards() -> list[Job]:
    """Jobs whose runs are inserted before they are pushed, and after that."""
    return [a_job(f"job-{k}", start_guard=StartGuard.MONGO if k % 2 else StartGuard.REDIS) for k in range(5)]


async def test_no_false_alarms_every_step_of_a_batch_may_be_seen_by_a_sweep() -> None:
    verbs = ("plans.write", "jobs.move", "runs.insert", "queue.dispatch", "plans.remove", "runs.apply")
    for verb in (*verbs, "runs.insert_changed"):
        async with a_swept_cluster("a", "b") as cluster:
            await cluster.service.jobs.apply(batch_of_both_guards())
            await cluster.elapse(5)
            # The sweep runs beside the cluster, so that it looks at exactly this moment.
            stall = cluster.backends.faults.stall(verb, acted=True)
            while not stall.reached.is_set():
                await cluster.elapse(0.25)
            beside = Sweep(cluster.backends, cluster.clock)
            stalled_verbs = cluster.backends.faults._stalls.pop((verb, True))
            sweep = asyncio.ensure_future(beside.run(_asked_for(), lambda *_: None))
            await cluster.elapse(8)
            stalled_verbs.release()
            await cluster.elapse(30)
            assert sweep.done(), verb
            report = await cluster.service.backends.store_admin.report()
            assert report is not None
            assert [f"{one.kind} {one.where}" for one in report.findings] == [], verb


async def test_no_false_alarms_after_a_leader_was_killed_in_the_middle_of_a_batch() -> None:
    for verb in ("jobs.move", "runs.insert"):
        async with a_swept_cluster("a", "b", "c") as cluster:
            await cluster.service.jobs.apply(batch_of_both_guards())
            await cluster.elapse(5)
            stall = cluster.backends.faults.stall(verb, acted=verb == "jobs.move")
            while not stall.reached.is_set():
                await cluster.elapse(0.25)
            (leader,) = cluster.leaders
            await cluster.kill(leader)
            cluster.backends.faults.heal()
            beside = Sweep(cluster.backends, cluster.clock)
            sweep = asyncio.ensure_future(beside.run(_asked_for(), lambda *_: None))
            await cluster.elapse(60)
            assert sweep.done()
            assert await cluster.sweep_now() == (0, [])
            first = [event for event in [sweep.result()] if isinstance(event, dict)]
            assert [one["found"] for one in first] == [0], verb


def _asked_for() -> Any:
    return an_assignment("_sys:sweep@beside", term=1)


# --------------------------------------------------------------------------------------- a clean-up beside the planner


def nothing_lost_or_doubled(cluster: Swept, job: str, since: Any, every: float) -> None:
    started = [run for run in cluster.executor.runs_started if run.startswith(f"{job}@")]
    assert len(started) == len(set(started))
    fires = [run.fire_at for run in cluster.runs if run.job == job and run.fire_at >= since]
    assert {(later - earlier).total_seconds() for earlier, later in pairwise(fires)} == {every}


async def test_clean_ups_all_the_time_lose_and_double_nothing() -> None:
    async with a_swept_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply(
            [a_job("often"), a_job("rare", "5m"), a_job("once", schedule=Once(_soon(cluster)))]
        )
        for _ in range(20):
            await cluster.service.jobs.trigger(CLEANUP)
            await cluster.elapse(30)
        now = cluster.clock.now()
        nothing_lost_or_doubled(cluster, "often", now - RETENTION, 1)
        nothing_lost_or_doubled(cluster, "rare", now - timedelta(minutes=6), 300)
        assert cluster.executor.runs_started.count(f"once@{_soon(cluster, -601):%Y%m%dT%H%M%SZ}") <= 1
        # It did clean up: of ten minutes of runs about two are left, and the one before them.
        kept = [run for run in cluster.runs if run.job == "often"]
        assert 120 <= len(kept) <= 160
        assert [run.job for run in cluster.runs].count("once") == 1
        assert await cluster.sweep_now() == (0, [])


def _soon(cluster: Swept, offset: float = 0) -> Any:
    return cluster.clock.now().replace(microsecond=0) + timedelta(seconds=3 + offset)


@pytest.mark.parametrize("ensured_by", ["planner", "editor"])
async def test_a_stale_read_of_a_job_cannot_bring_an_old_run_back(ensured_by: str) -> None:
    async with a_swept_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job("rare", "10m")])
        await cluster.elapse(605)
        (old,) = [run for run in cluster.runs if run.job == "rare"]
        await cluster.elapse(590)
        # A process reads the job, whose pending run names the old run, and pauses before checking whether that exists.
        (record,) = await cluster.backends.jobs.get(["rare"])
        assert record.pending_run is not None
        assert record.pending_run.fire == old.fire_at
        await cluster.elapse(15)
        assert len([run for run in cluster.runs if run.job == "rare"]) == 2
        await cluster.service.jobs.trigger(CLEANUP)
        await cluster.elapse(5)
        if ensured_by == "planner":
            (leader,) = cluster.leaders
            tenure = leader.elector.tenure
            assert tenure is not None
            await planner_of(leader)._pending_runs.ensure([record], tenure.term)
        else:
            await insert_pending_runs(cluster.backends.runs, [record])
        await cluster.elapse(60)
        assert cluster.executor.runs_started.count(old.id) == 1
        # Once nobody can have slept so long, it goes.
        await cluster.elapse(RETENTION.total_seconds())
        await cluster.service.jobs.trigger(CLEANUP)
        await cluster.elapse(5)
        assert old.id not in [run.id for run in cluster.runs]


async def test_what_a_clean_up_leaves_is_what_the_retention_says() -> None:
    async with a_swept_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("often", "10s")])
        await cluster.elapse(400)
        name = await cluster.service.jobs.trigger(CLEANUP)
        await cluster.elapse(3)
        ran: Run = await cluster.service.runs.get(name)
        assert ran.started_at is not None
        before = ran.started_at - RETENTION
        old = [run for run in cluster.runs if run.job == "often" and run.ended_at and run.ended_at < before]
        assert len(old) == 1
        assert len([run for run in cluster.runs if run.job == "often"]) in (12, 13, 14)
        assert ran.result["runs"] > 10  # type: ignore[index]
