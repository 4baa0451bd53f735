"""MongoDB away, on virtual time: slots are freed, each outcome is recorded once, and a node with MongoDB leads."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cronflow.domain.cluster import Backlog, NodeReport
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.transitions import Transition
from cronflow.node.resources import zone_data
from cronflow.worker.recorder import Recorder
from cronflow.worker.spool import Spool
from tests.node.cluster import Cluster, a_cluster, inline, worker_of

FOR_EVER = 1_000_000


async def runs_under_way(cluster: Cluster, *jobs: str, **fields: object) -> None:
    """One run of each job, started and not ended."""
    cluster.executor.release = asyncio.Event()
    await cluster.service.jobs.apply([Job(name=job, target=PythonTarget("a:b"), **fields) for job in jobs])  # type: ignore[arg-type]
    for job in jobs:
        await cluster.service.jobs.trigger(job)
    await cluster.elapse(3)
    assert [run.state for run in cluster.runs] == [RunState.RUNNING] * len(jobs)


def in_flight(cluster: Cluster) -> int:
    found = 0
    for node in cluster.nodes:
        assert node._worker is not None
        found += node._worker.in_flight
    return found


def ends_recorded(cluster: Cluster) -> list[str]:
    """The runs in the order in which their ends were accepted."""
    history = cluster.backends.documents.changes
    return [
        change.run
        for change in history
        if change.transition in (Transition.FINISH, Transition.RETRY, Transition.GIVE_BACK, Transition.MARK_LOST)
    ]


async def test_runs_that_end_while_mongodb_is_away_free_their_slots_and_locks_and_are_recorded_later(
    tmp_path: Path,
) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one", "two", "three")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(2)
        assert in_flight(cluster) == 0
        assert cluster.backends.memory.locks == {}
        assert [run.state for run in cluster.runs] == [RunState.RUNNING] * 3
        cluster.backends.faults.heal()
        await cluster.elapse(2)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED] * 3
        assert sorted(ends_recorded(cluster)) == sorted(run.id for run in cluster.runs)
        assert cluster.backends.documents.late == {}
        await cluster.elapse(120)
        assert len(cluster.executor.starts) == 3


async def test_a_run_whose_worker_is_long_gone_is_made_again_and_not_called_too_slow() -> None:
    async with a_cluster("a") as cluster:
        await runs_under_way(cluster, "one", timeout=timedelta(seconds=5), retry=Retry(max=0))
        (node,) = cluster.nodes
        await cluster.kill(node)
        await cluster.elapse(600)
        cluster.executor.release.set()  # type: ignore[union-attr]
        cluster.start("a")
        await cluster.elapse(60)
        (run,) = cluster.runs
        assert [attempt.outcome for attempt in run.attempts] == [Outcome.LOST, Outcome.OK]
        assert (run.state, len(cluster.executor.starts)) == (RunState.SUCCEEDED, 2)


async def test_a_run_that_must_not_start_twice_is_lost_with_its_worker_however_long_ago_that_was() -> None:
    async with a_cluster("a") as cluster:
        await runs_under_way(
            cluster, "one", timeout=timedelta(seconds=5), retry=Retry(max=0), delivery=Delivery.AT_MOST_ONCE
        )
        (node,) = cluster.nodes
        await cluster.kill(node)
        await cluster.elapse(600)
        cluster.start("a")
        await cluster.elapse(60)
        (run,) = cluster.runs
        assert (run.state, len(cluster.executor.starts)) == (RunState.LOST, 1)


async def test_outcomes_are_recorded_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    names = [f"job-{k}" for k in range(8)]
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, *names)
        (node,) = cluster.nodes
        worker = worker_of(node)
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        order = []
        # One by one, by stopping each handler: the ends are seconds apart.
        for active in list(worker._active.values()):
            worker._stop(active, AttemptResult(Outcome.OK))
            order.append(active.claimed.run)
            await cluster.elapse(0.5)
        assert len(order) == 8
        cluster.backends.faults.heal()
        await cluster.elapse(2)
        assert ends_recorded(cluster) == order


async def test_an_outcome_that_mongodb_took_without_saying_so_is_recorded_once(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        cluster.backends.faults.fail_after("runs.apply")
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(3)
        (run,) = cluster.runs
        assert (run.state, len(run.attempts)) == (RunState.SUCCEEDED, 1)
        assert cluster.backends.documents.late == {}


async def test_a_large_result_is_stored_before_its_run_and_waits_in_the_spool_while_mongodb_is_away(
    tmp_path: Path,
) -> None:
    rows = {"rows": ["x" * 1000] * 20}
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.OK, rows)
        cluster.backends.faults.fail_before("results.keep", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(5)
        # Only the result is not taken: the run must not name what is not there.
        assert [run.state for run in cluster.runs] == [RunState.RUNNING]
        assert in_flight(cluster) == 0
        cluster.backends.faults.heal()
        await cluster.elapse(2)
        (run,) = cluster.runs
        assert (run.state, run.result, run.result_size) == (RunState.SUCCEEDED, None, 20_070)
        assert (await cluster.service.runs.whole(run)).result == rows


async def test_the_large_result_of_an_attempt_that_was_fenced_out_is_kept_and_shown_with_the_late_ones() -> None:
    rows = ["x" * 1000] * 20
    async with a_cluster("a") as cluster:
        await runs_under_way(cluster, "one")
        (run,) = cluster.runs
        cluster.executor.attempt_result = lambda _: AttemptResult(Outcome.OK, rows)
        runs = cluster.backends.documents.runs
        runs[run.id] = replace(run, fence=run.fence + 1)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(3)
        (late,) = await cluster.service.runs.late(run.id)
        assert (late.attempt_result.result, late.attempt_result.result_size) == (rows, 20_061)


async def test_a_node_killed_while_mongodb_is_away_records_its_outcomes_when_it_restarts(tmp_path: Path) -> None:
    async with a_cluster("a", "b", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one", "two", "three", "four")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(5)
        names = {node.id.partition("#")[0] for node in cluster.nodes}
        for node in list(cluster.nodes):
            await cluster.kill(node)
        # Longer than the leases: the next leader finds the runs overdue, and their incarnations gone.
        await cluster.elapse(60)
        for name in names:
            cluster.start(name)
        await cluster.elapse(5)
        cluster.backends.faults.heal()
        await cluster.elapse(120)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED] * 4
        assert len(cluster.executor.starts) == 4


async def not_yet(self: Spool, most: int) -> list[object]:
    """In place of `Spool.read`."""
    raise BackendUnavailable("MongoDB", "elsewhere", "not from here")


async def test_a_run_without_a_recorded_start_is_not_started_again_when_its_outcome_is_in_a_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_cluster("a", "b", spools=tmp_path) as cluster:
        await cluster.service.jobs.apply([Job(name="quick", target=PythonTarget("a:b"))])
        (leader,) = cluster.leaders
        worker = next(node for node in cluster.nodes if node is not leader)
        # The leader itself gets no work: all know from its next heartbeat on.
        leader._heartbeat.draining = True
        await cluster.elapse(6)
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.trigger("quick")
        while not cluster.executor.starts:
            await cluster.clock.advance(0.001)
            assert cluster.clock.monotonic() < 60
        assert cluster.executor.starts[0][2] == worker.id
        assert cluster.runs[0].state is RunState.DISPATCHED
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()
        await cluster.elapse(12)
        with monkeypatch.context() as patch:
            # Its node is the last one that reaches MongoDB again.
            patch.setattr(Spool, "read", not_yet)
            cluster.backends.faults.heal()
            await cluster.elapse(20)
            assert cluster.leaders
            assert cluster.runs[0].state is RunState.DISPATCHED
        await cluster.elapse(60)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.executor.starts) == 1


async def test_after_a_long_outage_what_ran_on_a_living_node_is_not_started_again_for_a_while_and_then_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_cluster("a", "b", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(60)
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "read", not_yet)
            # The next leader has no information about this spool, except that its node is up.
            patch.setattr(Recorder, "spooled", 0)
            cluster.backends.faults.heal()
            await cluster.elapse(28)
            assert cluster.leaders
            assert len(cluster.executor.starts) == 1
            await cluster.elapse(12)
            assert len(cluster.executor.starts) == 2
        await cluster.elapse(2)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]


async def test_an_outcome_that_was_fenced_out_meanwhile_goes_to_the_late_ones(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(2)
        (node,) = cluster.nodes
        await cluster.kill(node)
        cluster.backends.faults.heal()
        cluster.spools = tmp_path / "on-another-machine"
        cluster.start("b")
        await cluster.elapse(100)
        (run,) = cluster.runs
        assert (run.state, len(cluster.executor.starts)) == (RunState.SUCCEEDED, 2)
        cluster.spools = tmp_path
        cluster.start("a")
        await cluster.elapse(5)
        assert cluster.runs == [run]
        (late,) = cluster.backends.documents.late.values()
        assert (late.run, late.fence) == (run.id, cluster.executor.starts[0][1])


async def test_a_node_under_another_name_records_what_a_dead_neighbour_left_on_the_same_disk(tmp_path: Path) -> None:
    async with a_cluster("drawn-4f1a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(2)
        await cluster.kill(cluster.nodes[0])
        cluster.backends.faults.heal()
        cluster.start("drawn-c001")
        await cluster.elapse(5)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.executor.starts) == 1


async def test_nothing_that_needs_a_recorded_start_begins_while_mongodb_is_away(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await cluster.service.jobs.apply(
            [Job(name="careful", target=PythonTarget("a:b"), start_guard=StartGuard.MONGO, overlap=Overlap.ALLOW)]
        )
        stall = cluster.backends.faults.stall("queue.dispatch")
        await cluster.service.jobs.trigger("careful")
        await cluster.elapse(3)
        assert stall.reached.is_set()
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        stall.release()
        await cluster.elapse(4)
        assert in_flight(cluster) == 1
        assert cluster.executor.starts == []
        cluster.backends.faults.heal()
        await cluster.elapse(90)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.executor.starts) == 1


async def test_a_full_disk_keeps_the_outcome_in_memory_is_logged_once_and_stops_taking_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_room(self: Spool, finishes: object) -> None:
        raise BackendUnavailable("the spool", str(tmp_path), "No space left on device")

    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        with monkeypatch.context() as patch, capture_logs() as logs:
            patch.setattr(Spool, "append", no_room)
            cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
            cluster.executor.release.set()  # type: ignore[union-attr]
            await cluster.elapse(10)
            taken = cluster.backends.faults.calls["queue.take"]
            await cluster.elapse(10)
            assert cluster.backends.faults.calls["queue.take"] == taken
            assert in_flight(cluster) == 1
        entries = [entry for entry in logs if entry["event"] == "service away" and entry["service"] == "the spool"]
        assert len(entries) == 1
        await cluster.elapse(2)
        assert in_flight(cluster) == 0
        cluster.backends.faults.heal()
        await cluster.elapse(3)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert cluster.backends.faults.calls["queue.take"] > taken


async def test_a_full_spool_takes_nothing_new_until_it_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Spool, "full", property(lambda spool: spool.pending >= 2))
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one", "two")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(3)
        assert in_flight(cluster) == 0
        taken = cluster.backends.faults.calls["queue.take"]
        await cluster.elapse(5)
        assert cluster.backends.faults.calls["queue.take"] == taken
        cluster.backends.faults.heal()
        await cluster.elapse(3)
        assert cluster.backends.faults.calls["queue.take"] > taken


@pytest.mark.parametrize("away", [True, False], ids=["after an outage", "at once"])
async def test_an_outcome_that_mongodb_refuses_for_good_is_set_aside_and_the_others_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "good", "poison", "other")
        if away:
            cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
            cluster.executor.release.set()  # type: ignore[union-attr]
            await cluster.elapse(2)
        real = Recorder._commit

        async def refuses(self: Recorder, finishes: list[object]) -> list[bool]:
            if any(f.change.run.startswith("poison") for f in finishes):  # type: ignore[attr-defined]
                raise ValueError("a document too large")
            return await real(self, finishes)  # type: ignore[arg-type]

        monkeypatch.setattr(Recorder, "_commit", refuses)
        cluster.backends.faults.heal()
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(3)
        states = {run.job: run.state for run in cluster.runs}
        assert states == {"good": RunState.SUCCEEDED, "poison": RunState.RUNNING, "other": RunState.SUCCEEDED}
        (bad,) = (tmp_path / "a").glob("*.bad")
        assert b"poison@" in bad.read_bytes()


async def test_a_node_that_is_stopped_while_mongodb_is_away_leaves_its_outcomes_to_the_next_start(
    tmp_path: Path,
) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        (node,) = cluster.nodes
        node.stop()
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(5)
        assert cluster.tasks[node.id].done()
        cluster.nodes.remove(node)
        cluster.backends.faults.heal()
        cluster.start("a")
        await cluster.elapse(5)
        assert [run.state for run in cluster.runs] == [RunState.SUCCEEDED]
        assert len(cluster.executor.starts) == 1


# ------------------------------------------------------------------------------------------------------- the leader


async def test_a_leader_without_mongodb_for_fifteen_seconds_gives_the_lead_away(tmp_path: Path) -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.elapse(20)
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        await cluster.elapse(14)
        assert len(cluster.leaders) == 1
        await cluster.elapse(8)
        assert cluster.leaders == []
        assert await cluster.backends.election.holder() is None


async def test_a_single_node_leads_again_as_soon_as_mongodb_answers() -> None:
    async with a_cluster("a") as cluster:
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        await cluster.elapse(40)
        assert cluster.leaders == []
        with capture_logs() as logs:
            cluster.backends.faults.heal()
            await cluster.elapse(6.5)
        assert len(cluster.leaders) == 1
        assert "leader elected" in [entry["event"] for entry in logs]


async def test_an_outage_is_reported_once_although_the_leader_stops_asking() -> None:
    async with a_cluster("a", "b") as cluster:
        with capture_logs() as logs:
            cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
            await cluster.elapse(90)
            cluster.backends.faults.heal()
            await cluster.elapse(10)
        entries = [entry["event"] for entry in logs if entry["event"] in ("service away", "service back")]
        assert entries == ["service away"] * 2 + ["service back"] * 2
        (leader,) = cluster.leaders
        outage = leader._outages.last("MongoDB")
        assert outage is not None
        assert outage.ended - outage.began > 60


async def test_every_fire_of_an_outage_is_accounted_for_and_none_runs_twice(tmp_path: Path) -> None:
    async with a_cluster("a", "b", spools=tmp_path) as cluster:
        await cluster.service.jobs.apply([Job(name="tick", target=PythonTarget("a:b"), schedule=Every("10s"))])
        await cluster.elapse(25)
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        await cluster.elapse(120)
        started = len(cluster.executor.starts)
        cluster.backends.faults.heal()
        await cluster.elapse(60)
        assert started <= 3
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        fires = sum((run.covers.count or 0) if run.covers else 1 for run in cluster.runs)
        first, last = cluster.runs[0].fire_at, cluster.runs[-1].fire_at
        assert fires == (last - first) / timedelta(seconds=10) + 1
        assert len(set(cluster.executor.runs_started)) == len(cluster.executor.starts)


async def test_a_node_reports_its_breakers_and_how_much_waits_in_its_spool_since_when(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one", "two")
        (node,) = cluster.nodes
        node._heartbeat._breakers = lambda: {"MongoDB": "open", "shop:443": "half-open"}

        async def reported() -> NodeReport:
            return (await cluster.service.cluster.node("a"))[0].report

        assert (await reported()).spool == Backlog()
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(1)
        ended = cluster.clock.now()
        await cluster.elapse(10)
        report = await reported()
        assert report.breakers == {"MongoDB": "open", "shop:443": "half-open"}
        assert report.zones == zone_data()
        assert report.spool.outcomes == 2
        assert report.spool.bytes > 500
        assert report.spool.since is not None
        assert timedelta(0) <= ended - report.spool.since <= timedelta(seconds=1)
        cluster.backends.faults.heal()
        await cluster.elapse(10)
        assert (await reported()).spool == Backlog()


async def test_a_node_that_finds_a_spool_reports_it_from_its_oldest_outcome_on(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one")
        (node,) = cluster.nodes
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(1)
        ended = cluster.clock.now()
        await cluster.kill(node)
        await cluster.elapse(600)
        async with Spool(tmp_path / "a", cluster.clock, offload=inline) as spool:
            assert (spool.backlog.outcomes, spool.pending) == (1, 1)
            assert spool.backlog.since is not None
            assert timedelta(0) <= ended - spool.backlog.since <= timedelta(seconds=1)
