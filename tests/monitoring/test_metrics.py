"""Metrics: the declarations, the reference that is made of them, and what nodes on virtual time tell."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.circuit_breaker import breaker_figures
from cronflow.domain.backfill import BackfillScope
from cronflow.domain.job import Retry
from cronflow.domain.metrics import METRICS, MOST_SERVICES, RUNS_ENDED, TERM, Metric, MetricKind, MetricSource
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.schedule.kinds import Every
from cronflow.live.hub import Hub, register_cluster_metrics
from cronflow.live.state import ClusterConfig
from cronflow.monitoring.prometheus import PrometheusMeter
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import a_job
from tests.monitoring.scraping import Figures, figures
from tests.node.cluster import Cluster, a_cluster
from tests.node.test_mongo_away import FOR_EVER, runs_under_way
from tools.docs.metrics import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_names_and_texts_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"cronflow_[a-z_]+[a-z]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert metric.help.endswith(".")
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    if metric.buckets:
        assert metric.name.endswith("_seconds")


def test_the_reference_is_made_of_the_declarations() -> None:
    assert PAGE.read_text("utf-8").rstrip() == reference().rstrip(), "make docs"


def test_every_series_that_is_known_is_there_before_its_first_event() -> None:
    found = figures(PrometheusMeter([MetricSource.NODE]).text())
    assert found["cronflow_runs_ended_total"][("lost",)] == 0
    assert found["cronflow_events_total"][("node_lost",)] == 0
    assert found["cronflow_start_lateness_seconds_count"] == {(): 0}
    assert not any(name.endswith("_created") for name in found)
    assert "cronflow_api_requests_total" not in found
    assert "process_cpu_seconds_total" in found


def test_a_process_can_count_only_its_declared_metrics() -> None:
    with pytest.raises(KeyError):
        PrometheusMeter([MetricSource.API]).add(RUNS_ENDED, "lost")


def test_the_number_of_reported_breakers_is_limited_and_mongodb_comes_first() -> None:
    told = breaker_figures({"MongoDB": "half-open", **{f"host-{n}": "open" for n in range(1000)}})
    assert len(told) == MOST_SERVICES + 1
    assert (told["MongoDB"], told["host-0"]) == (1, 2)


def of(cluster: Cluster, name: str) -> dict[str, Figures]:
    """What a node tells."""
    return figures(cluster.meters[name].text())


def together(cluster: Cluster, metric: str) -> dict[tuple[str, ...], float]:
    """The sum over all nodes."""
    found: Figures = {}
    for name in cluster.meters:
        for key, value in of(cluster, name).get(metric, {}).items():
            found[key] = found.get(key, 0) + value
    return found


async def test_nodes_report_leadership_finished_runs_and_delays() -> None:
    async with a_cluster("a", "b") as cluster:
        cluster.executor.attempt_result = lambda assignment: AttemptResult(
            Outcome.ERROR if assignment.job.name == "bad" else Outcome.OK
        )
        jobs = [a_job("good", schedule=Every("10s")), a_job("bad", schedule=Every("30s"), retry=Retry(max=0))]
        await cluster.service.jobs.apply(jobs)
        await cluster.elapse(65)
        [leader] = [node.id.partition("#")[0] for node in cluster.leaders]
        [follower] = {"a", "b"} - {leader}
        leading, following = of(cluster, leader), of(cluster, follower)
        assert (leading["cronflow_leader"], following["cronflow_leader"]) == ({(): 1}, {(): 0})
        assert (leading["cronflow_term"], following["cronflow_term"]) == ({(): 1}, {(): 0})
        assert leading["cronflow_lease_left_seconds"][()] > 0
        assert leading["cronflow_cluster_nodes"] == {("up",): 2, ("draining",): 0, ("stale",): 0}
        assert (leading["cronflow_cluster_slots"], leading["cronflow_queue_depth"]) == ({(): 32}, {(): 0})
        # Nobody tells of the cluster who does not lead.
        assert "cronflow_queue_depth" not in following
        assert (following["cronflow_slots"], following["cronflow_runs_in_flight"]) == ({(): 16}, {(): 0})
        assert 0 <= following["cronflow_heartbeat_age_seconds"][()] < 6
        assert following["cronflow_clock_trusted"] == {(): 1}
        assert following["cronflow_backend_up"] == {("redis",): 1, ("mongodb",): 1}
        states = [run.state.value for run in cluster.runs]
        ended = together(cluster, "cronflow_runs_ended_total")
        assert (ended["succeeded",], ended["failed",]) == (states.count("succeeded"), states.count("failed"))
        assert ended["failed",] > 0
        outcomes = together(cluster, "cronflow_attempts_ended_total")
        assert (outcomes["ok",], outcomes["error",]) == (ended["succeeded",], ended["failed",])
        for histogram in ("dispatch_lateness", "start_lateness", "run_duration"):
            assert together(cluster, f"cronflow_{histogram}_seconds_count") == {(): len(states)}
            assert together(cluster, f"cronflow_{histogram}_seconds_bucket")["5.0",] == len(states)
        assert leading["cronflow_runs_dispatched_total"] == {(): len(states)}
        assert together(cluster, "cronflow_events_total")["leader_elected",] == 1
        assert following["cronflow_loop_lag_seconds_count"][()] > 100


async def test_the_remaining_node_counts_a_failover() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        assert together(cluster, "cronflow_leader_changes_total") == {(): 0}
        [leader] = cluster.leaders
        await cluster.elapse(10)
        await cluster.kill(leader)
        killed = leader.id.partition("#")[0]
        await cluster.elapse(60)
        staying = [of(cluster, name) for name in cluster.meters if name != killed]
        assert [found["cronflow_leader_changes_total"] for found in staying] == [{(): 1}, {(): 1}]
        assert sorted(found["cronflow_term"][()] for found in staying) == [0, 2]
        assert max(found["cronflow_events_total"]["node_lost",] for found in staying) == 1


async def test_the_leader_reports_maintenance_backfills_and_long_runs() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job("job", schedule=Every("1m"))])
        await cluster.elapse(601)
        [leader] = [node.id.partition("#")[0] for node in cluster.leaders]
        [follower] = {"a", "b"} - {leader}
        names = ["maintenance", "backfills_running", "backfill_instants_left", "runs_long"]

        def told(name: str) -> list[float | None]:
            return [of(cluster, name).get(f"cronflow_{one}", {}).get(()) for one in names]

        assert (told(leader), told(follower)) == ([0, 0, 0, 0], [None] * 4)
        cluster.executor.release = asyncio.Event()
        first = cluster.clock.now() - timedelta(minutes=5)
        await cluster.service.backfills.request("job", first, cluster.clock.now(), BackfillScope.ALL)
        await cluster.elapse(3)
        # One after the other: the first one runs.
        assert told(leader) == [0, 1, 4, 0]
        await cluster.elapse(60)
        assert told(leader) == [0, 1, 4, 1]
        await cluster.service.cluster.begin_maintenance()
        await cluster.elapse(3)
        assert told(leader) == [1, 1, 4, 1]
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(60)
        assert told(follower)[0] == 1
        await cluster.service.cluster.end_maintenance()
        cluster.executor.release.set()
        await cluster.elapse(120)
        assert told(follower) == [0, 0, 0, 0]


async def test_spooled_results_are_reported_until_mongodb_has_them(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        await runs_under_way(cluster, "one", "two")
        assert of(cluster, "a")["cronflow_spool_outcomes"] == {(): 0}
        assert of(cluster, "a")["cronflow_runs_in_flight"] == {(): 2}
        cluster.backends.faults.fail_before("MongoDB", FOR_EVER)
        cluster.executor.release.set()  # type: ignore[union-attr]
        await cluster.elapse(4)
        away = of(cluster, "a")
        assert away["cronflow_spool_outcomes"] == {(): 2}
        assert away["cronflow_spool_bytes"][()] > 100
        assert 2 <= away["cronflow_spool_oldest_seconds"][()] <= 4
        assert away["cronflow_backend_up"] == {("redis",): 1, ("mongodb",): 0}
        assert away["cronflow_runs_ended_total"]["succeeded",] == 0
        cluster.backends.faults.heal()
        await cluster.elapse(4)
        found = of(cluster, "a")
        assert (found["cronflow_spool_outcomes"], found["cronflow_spool_oldest_seconds"]) == ({(): 0}, {(): 0})
        assert found["cronflow_backend_up"] == {("redis",): 1, ("mongodb",): 1}
        assert found["cronflow_runs_ended_total"]["succeeded",] == 2


async def test_what_comes_with_an_old_fence_is_counted() -> None:
    async with a_cluster("a") as cluster:
        await runs_under_way(cluster, "one")
        [run] = cluster.runs
        # Another attempt has it now: the lease is not renewed, and the outcome is kept aside.
        cluster.backends.documents.runs[run.id] = replace(run, fence=run.fence + 1)
        await cluster.elapse(30)
        found = of(cluster, "a")
        assert found["cronflow_rejections_total"]["lease",] == 1
        assert found["cronflow_rejections_total"]["outcome",] == 1
        assert found["cronflow_events_total"]["fence_rejected",] == 1


async def test_an_api_reports_the_values_of_the_newest_tick() -> None:
    clock = FakeClock()
    backends = memory_backends(clock)
    meter = PrometheusMeter([MetricSource.API])
    hub = Hub(backends, clock, ClusterConfig(lease=timedelta(seconds=30)), meter)
    register_cluster_metrics(meter, hub)
    before = figures(meter.text())
    assert before["cronflow_stream_ticks_total"] == {(): 0}
    assert not {"cronflow_leader_known", "cronflow_queue_depth", "cronflow_jobs"} & before.keys()
    await hub._builder.step()
    await hub.step()
    await clock.advance(7)
    found = figures(meter.text())
    assert found["cronflow_leader_known"] == {(): 0}
    assert found[TERM.name] == {(): 0}
    assert (found["cronflow_queue_depth"], found["cronflow_dead_letters"]) == ({(): 0}, {(): 0})
    assert found["cronflow_jobs"] == {("active",): 0, ("paused",): 0, ("idle",): 0}
    assert found["cronflow_stream_tick_age_seconds"] == {(): 7}
    assert found["cronflow_stream_ticks_total"] == {(): 1}
