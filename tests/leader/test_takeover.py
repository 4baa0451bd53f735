"""A leader that dies or pauses between any two steps of a batch: the next one finishes the batch, once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from cronflow.domain.job import Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.testing.audit import Expectation, audit
from tests.node.cluster import Cluster, a_cluster, elector_of, planner_of, worker_of

SECOND = timedelta(seconds=1)
STEPS = ["jobs.due_in_turn", "plans.write", "jobs.move", "runs.insert", "queue.dispatch", "plans.remove"]


def guard_that_comes_to(verb: str) -> StartGuard:
    """Only runs whose start is recorded first are always inserted by the leader."""
    return StartGuard.MONGO if verb == "runs.insert" else StartGuard.REDIS


async def a_leader_stuck_at(cluster: Cluster, verb: str, *, acted: bool) -> None:
    """Let it plan until it waits at that step of a batch. It runs no job itself, so that none dies with it."""
    cluster.start("worker", work="yes")
    await cluster.service.jobs.apply(
        [
            Job(
                name=f"job-{k}",
                target=PythonTarget("a:b"),
                schedule=Every("10s"),
                overlap=Overlap.ALLOW,
                require={"work": "yes"},
                retry=Retry(max=0),
                start_guard=guard_that_comes_to(verb),
            )
            for k in range(3)
        ]
    )
    await cluster.elapse(12)
    stall = cluster.backends.faults.stall(verb, acted=acted)
    for _ in range(60):
        await cluster.elapse(0.25)
        if stall.reached.is_set():
            return
    raise AssertionError(f"nobody came to {verb}")


def jobs(every: str, count: int, guard: StartGuard = StartGuard.REDIS) -> list[Job]:
    return [
        Job(
            name=f"job-{k}",
            target=PythonTarget("a:b"),
            schedule=Every(every),
            overlap=Overlap.ALLOW,
            retry=Retry(max=0),
            start_guard=guard,
        )
        for k in range(count)
    ]


def matched(cluster: Cluster) -> None:
    """Every instant until a moment ago lies in one run, and no attempt of a run was started twice."""
    until = cluster.clock.now() - 2 * SECOND
    records = cluster.backends.documents.jobs.values()
    expected = {
        r.name: Expectation(r.job.schedule, r.created_at.replace(microsecond=0))
        for r in records
        if r.job.schedule is not None
    }
    found = audit(expected, [run for run in cluster.runs if run.fire_at < until], until)
    assert (found.lost, found.doubled) == ([], [])
    assert found.fires_due > 0
    attempts = [(run, fence) for run, fence, *_ in cluster.executor.starts]
    assert len(attempts) == len(set(attempts))
    assert set(found.states) <= {RunState.SUCCEEDED.value, RunState.SKIPPED.value}


def nothing_lost_or_doubled(cluster: Cluster, least: int) -> None:
    for k in range(3):
        fires = [run.fire_at for run in cluster.runs if run.job == f"job-{k}"]
        assert len(fires) >= least
        assert {later - earlier for earlier, later in pairwise(fires)} == {timedelta(seconds=10)}
    started = cluster.executor.runs_started
    assert len(started) == len(set(started))
    assert cluster.backends.documents.plans == {}
    assert {run.state for run in cluster.runs if not run.is_open} == {RunState.SUCCEEDED}


@pytest.mark.parametrize("acted", [False, True])
@pytest.mark.parametrize("verb", STEPS)
async def test_dkron_1210_a_leader_killed_between_two_steps_loses_no_instant(verb: str, acted: bool) -> None:
    """dkron #1210: what fell due during an election was skipped, because the next leader counted from its own now."""
    async with a_cluster("a", "b") as cluster:
        await a_leader_stuck_at(cluster, verb, acted=acted)
        (leader,) = cluster.leaders
        await cluster.kill(leader)
        cluster.backends.faults.heal()
        await cluster.elapse(75)
        nothing_lost_or_doubled(cluster, least=8)


@pytest.mark.parametrize("verb", ["jobs.move", "runs.insert", "queue.dispatch"])
async def test_a_leader_that_pauses_between_two_steps_and_resumes_deposed_does_no_harm(verb: str) -> None:
    async with a_cluster("a", "b") as cluster:
        await a_leader_stuck_at(cluster, verb, acted=False)
        (sleeper,) = cluster.leaders
        # Its renewals sleep too, so that it is deposed; then all that it had under way arrives at once.
        elector_of(sleeper).deposed("asleep")
        elector_of(sleeper)._abstain_until = 1e9
        cluster.backends.memory.leader = None
        stalled = cluster.backends.faults._stalls.pop((verb, False))
        await cluster.elapse(20)
        assert [node for node in cluster.leaders if node is not sleeper]
        stalled.release()
        await cluster.elapse(45)
        nothing_lost_or_doubled(cluster, least=7)


# -------------------------------------------------------------------------------------------- two leaders, and none


async def test_k8s_23731_two_leaders_at_once_do_no_harm() -> None:
    """kubernetes #23731, #67651: two held the lead at once and both acted on it. Here both plan, and the truth takes
    each move once.
    """
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply(jobs(every="5s", count=6))
        for term in (2, 3, 4):
            await cluster.elapse(12)
            (first,) = cluster.leaders
            # Redis forgets who leads; the one who led still believes so, and somebody else takes the key.
            cluster.backends.memory.flush()
            for node in cluster.nodes:
                if node is not first:
                    elector_of(node).notify()
            await cluster.elapse(0.25)
            assert len(cluster.leaders) == 2
            # Both find the next instants due, at the same moment.
            await cluster.elapse(10)
            (second,) = cluster.leaders
            assert second is not first
            assert term in {run.term for run in cluster.runs}
        await cluster.elapse(20)
        matched(cluster)
        assert len(cluster.executor.starts) == len(set(cluster.executor.runs_started))
        assert len(cluster.leaders) == 1


async def test_cilium_42920_a_leader_whose_lease_has_expired_does_nothing() -> None:
    """cilium #42920: a leader that could not renew went on acting beyond its deadline, on stale data, while its request
    hung.
    """
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply(jobs(every="1s", count=3))
        await cluster.elapse(2)
        (leader,) = cluster.leaders
        cluster.backends.faults.stall("election.renew", acted=True)
        while leader.elector.lease_left_s > 0.25:
            await cluster.elapse(0.25)
        await cluster.elapse(0.5)
        assert not leader.leads
        before = {verb: cluster.backends.faults.calls[verb] for verb in (*STEPS, "runs.overdue", "plans.left_behind")}
        due = len(cluster.runs)
        await cluster.elapse(60)
        assert before == {verb: cluster.backends.faults.calls[verb] for verb in before}
        assert len(cluster.runs) == due


async def test_dkron_998_a_leader_that_is_elected_again_goes_on() -> None:
    """dkron #998: after the lead had gone and come back nothing was run any more until a restart."""
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply(jobs(every="5s", count=3))
        led: list[str] = []
        for _ in range(6):
            await cluster.elapse(12)
            (leader,) = cluster.leaders
            led.append(leader.id)
            await cluster.service.cluster.stepdown()
            await cluster.elapse(0.5)
        assert len(set(led)) == 2
        assert led[0] in led[2:]
        await cluster.elapse(12)
        matched(cluster)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


async def test_river_1161_a_leader_one_of_whose_roles_is_broken_does_not_lead_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """river #1161: a role of the leader failed at its start and the others went on, so that the cluster was led in
    part until the lead changed by chance.
    """
    async with a_cluster("a", "b", guarded=True) as cluster:
        await cluster.service.jobs.apply(jobs(every="5s", count=3))
        await cluster.elapse(6)
        (leader,) = cluster.leaders

        async def left_behind(*_: object) -> list[object]:
            monkeypatch.undo()
            raise RuntimeError("a bug")

        monkeypatch.setattr(cluster.backends.plans, "left_behind", left_behind)
        await cluster.elapse(2)
        (successor,) = cluster.leaders
        assert successor is not leader
        await cluster.elapse(45)
        assert cluster.leaders == [successor]
        matched(cluster)


@pytest.mark.parametrize("verb", STEPS)
async def test_bullmq_3272_a_schedule_survives_that_every_process_is_started_anew(verb: str) -> None:
    """bullmq #3272, #2151, #1181, #390, #2538: the next fire was made by the one before it, and where that one got lost
    at a restart the schedule had ended in silence; bullmq #2889: or went on twice.
    """
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply(jobs(every="10s", count=3, guard=guard_that_comes_to(verb)))
        await cluster.elapse(11)
        for name in ("b", "c"):
            stall = cluster.backends.faults.stall(verb)
            for _ in range(60):
                await cluster.elapse(0.25)
                if stall.reached.is_set():
                    break
            assert stall.reached.is_set()
            (node,) = cluster.nodes
            await cluster.kill(node)
            cluster.backends.faults.heal()
            cluster.backends.memory.flush()
            cluster.start(name)
            await cluster.elapse(25)
        await cluster.elapse(30)
        matched(cluster)


@pytest.mark.parametrize("away", [("Redis",), ("MongoDB",), ("Redis", "MongoDB")])
async def test_chronos_jepsen_2015_after_the_network_was_away_every_instant_is_matched(away: tuple[str, ...]) -> None:
    """Chronos, Jepsen 2015: after an interruption of the network it never ran a job again. Not even a person could have
    computed from its own records what was missing; here the instants are computed and matched with runs.
    """
    async with a_cluster("a", "b", "c") as cluster:
        await cluster.service.jobs.apply(jobs(every="10s", count=3))
        await cluster.elapse(25)
        for service in away:
            cluster.backends.faults.fail_before(service, times=1_000_000)
        await cluster.elapse(200)
        healed = cluster.clock.now()
        cluster.backends.faults.heal()
        await cluster.elapse(120)
        matched(cluster)
        assert len(cluster.leaders) == 1
        for name in ("job-0", "job-1", "job-2"):
            assert sum(run.job == name and run.fire_at > healed for run in cluster.runs) >= 10


async def test_a_leader_that_meets_a_newer_term_in_a_job_stops_planning_at_once() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"))])
        (leader,) = cluster.leaders
        assert leader.elector.tenure is not None
        await cluster.backends.jobs.fence(["tick"], leader.elector.tenure.term + 1)
        moves = cluster.backends.faults.calls["jobs.move"]
        for _ in range(3):
            cluster.clock.step(timedelta(seconds=4))
            await leader._clock.step()
        # Its moves would not apply, the job would stay due, and it would try again without a pause.
        assert await planner_of(leader).step() > 0
        assert not leader.leads
        assert cluster.backends.faults.calls["jobs.move"] == moves


async def an_item_of_a_deposed_leader(cluster: Cluster) -> None:
    """A run that was given out, and whose leader steps down before it is taken."""
    await cluster.service.jobs.apply([Job(name="one", target=PythonTarget("a:b"))])
    stall = cluster.backends.faults.stall("queue.take")
    await cluster.service.jobs.trigger("one")
    await cluster.elapse(1.5)
    (run,) = cluster.runs
    assert run.state is RunState.DISPATCHED
    before = await cluster.service.cluster.status()
    await cluster.service.cluster.stepdown()
    await cluster.elapse(1)
    assert (await cluster.service.cluster.status()).term > before.term
    stall.release()
    cluster.backends.faults.heal()


async def test_untaken_runs_of_a_deposed_leader_run_at_once_and_not_when_their_ack_is_overdue() -> None:
    async with a_cluster("a", "b") as cluster:
        await an_item_of_a_deposed_leader(cluster)
        await cluster.elapse(2)
        (run,) = cluster.runs
        assert run.state is RunState.SUCCEEDED
        assert (run.attempt, len(cluster.executor.starts)) == (1, 1)
        assert cluster.backends.documents.late == {}


@pytest.mark.parametrize("verb", ["jobs.move", "runs.insert", "queue.dispatch"])
async def test_a_leader_that_is_asked_to_step_down_pushes_the_runs_of_its_batch_first(verb: str) -> None:
    async with a_cluster("a", "b") as cluster:
        await a_leader_stuck_at(cluster, verb, acted=False)
        before = await cluster.service.cluster.status()
        await cluster.service.cluster.stepdown()
        await cluster.elapse(0.5)
        assert cluster.leaders == []
        assert (await cluster.service.cluster.status()).leader == before.leader
        cluster.backends.faults.heal()
        await cluster.elapse(2)
        assert (await cluster.service.cluster.status()).term == before.term + 1
        # Not ten seconds later, when their acknowledgement is overdue.
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert max(run.lateness for run in cluster.runs if run.lateness is not None) < 3 * SECOND
        nothing_lost_or_doubled(cluster, least=2)


async def test_a_step_that_does_not_end_delays_the_handover_by_a_second_at_most() -> None:
    async with a_cluster("a", "b") as cluster:
        await a_leader_stuck_at(cluster, "queue.dispatch", acted=False)
        before = await cluster.service.cluster.status()
        await cluster.service.cluster.stepdown()
        await cluster.elapse(1.5)
        assert (await cluster.service.cluster.status()).term == before.term + 1


async def test_a_doubled_item_of_an_earlier_term_gives_back_nothing_that_runs_here() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([Job(name="one", target=PythonTarget("a:b"))])
        await cluster.service.jobs.trigger("one")
        await cluster.elapse(2)
        (run,) = cluster.runs
        assert run.node is not None
        worker = next(worker_of(node) for node in cluster.nodes if node.id == run.node)
        (active,) = worker._active.values()
        # As a Redis that failed over may have it: the item is there again, and a newer term.
        cluster.backends.memory.lists[run.node] = [(cluster.clock.monotonic() + 5, active.assignment)]
        await cluster.service.cluster.stepdown()
        await cluster.elapse(3)
        assert [run.state for run in cluster.runs] == [RunState.RUNNING]
        cluster.executor.release.set()
        await cluster.elapse(2)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.executor.starts) == 1


async def test_a_leader_that_stalls_starts_no_version_that_was_paused_meanwhile() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply(jobs("10s", 1))
        await cluster.elapse(12)
        before = len(cluster.executor.starts)
        stall = cluster.backends.faults.stall("jobs.move", acted=True)
        while not stall.reached.is_set():
            await cluster.elapse(0.25)
        pausing = asyncio.create_task(cluster.service.jobs.pause("job-0"))
        await cluster.elapse(1.5)
        assert pausing.done()
        await cluster.elapse(6)
        cluster.backends.faults.heal()
        await cluster.elapse(3)
        assert len(cluster.executor.starts) == before
