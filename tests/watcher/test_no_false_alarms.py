"""What a watcher must not report: jobs that are not due, or late for a reason that the cluster knows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cronflow.domain.job import Misfire, MisfirePolicy, Overlap
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.schedule.calendar import Calendar, DaySpan
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.domain.schedule.windows import Period
from cronflow.domain.shadow import JobMode
from cronflow.domain.watch import WatchKind
from cronflow.leader.catch_up import CatchUpOptions
from cronflow.ports import JobEdit
from tests.node.cluster import a_cluster
from tests.watcher.watching import SECOND, a_job, kill_all, watching

LATE_SOON = Misfire(late_after=5 * SECOND)


async def test_paused_disabled_deleted_manual_and_finished_jobs_are_not_due() -> None:
    async with a_cluster("a") as cluster:
        jobs = cluster.service.jobs
        await jobs.apply(
            [
                a_job("goes-on"),
                a_job("paused"),
                a_job("disabled", enabled=False),
                a_job("deleted"),
                a_job("thrice", Every("10s", max_runs=3)),
                a_job("ends", Every("10s", end=cluster.clock.now() + 25 * SECOND)),
                a_job("once", Once(cluster.clock.now() + 15 * SECOND)),
                a_job("shadow", mode=JobMode.SHADOW),
            ]
        )
        watch = watching(cluster)
        await watch.elapse(30)
        await jobs.pause("paused")
        await jobs.delete("deleted")
        await watch.elapse(80)
        await jobs.resume("paused")
        await watch.elapse(60)
        assert watch.observed == set()
        assert watch.rounds[-1].judged


async def test_a_job_that_is_edited_is_judged_by_its_new_schedule() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("seldom", Every("10s")), a_job("often", Every("1h"))])
        watch = watching(cluster)
        await watch.elapse(40)
        await cluster.service.jobs.apply([a_job("seldom", Every("1h")), a_job("often", Every("10s"))])
        await watch.elapse(80)
        assert watch.observed == set()
        await kill_all(cluster)
        await watch.elapse(60)
        # Only the new schedule has instants.
        assert "first: often@" in watch.latest(WatchKind.INSTANTS_WITHOUT_RUN)
        assert "1 job has" in watch.latest(WatchKind.INSTANTS_WITHOUT_RUN)


async def test_a_job_that_is_edited_after_the_last_look_is_read_again_before_it_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("edited"), a_job("paused"), a_job("deleted")])
        watch = watching(cluster)
        await watch.elapse(40)
        await kill_all(cluster)
        stale = await cluster.backends.jobs.edits()

        async def edits(*_: object, **__: object) -> list[JobEdit]:
            return stale

        await cluster.service.jobs.apply([a_job("edited", Every("1h"))])
        await cluster.service.jobs.pause("paused")
        await cluster.service.jobs.delete("deleted")
        monkeypatch.setattr(type(cluster.backends.jobs), "edits", edits)
        await watch.elapse(60)
        assert watch.observed == {WatchKind.NO_LEADER}


async def test_maintenance_holds_everything_and_has_a_grace_time_after_its_end() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(misfire=LATE_SOON)])
        watch = watching(cluster)
        await watch.elapse(40)
        await cluster.service.cluster.begin_maintenance(note="upgrade", until=None, by="ada")
        await watch.elapse(100)
        assert watch.rounds[-1].maintenance
        await cluster.service.cluster.end_maintenance(by="ada")
        await watch.look()
        await watch.elapse(60)
        assert watch.observed == set()


async def test_jobs_that_a_recovery_holds_for_approval_are_late_and_not_missing() -> None:
    async with a_cluster("a", catch_up=CatchUpOptions(limit=3)) as cluster:
        await cluster.service.jobs.apply([a_job(f"hourly-{n}", Every("1h")) for n in range(6)])
        await cluster.elapse(2)
        await kill_all(cluster)
        await cluster.clock.advance(3600 + 300)
        cluster.start("b")
        watch = watching(cluster)
        await watch.elapse(90)
        plan = await cluster.backends.catch_up.plan()
        assert plan is not None
        assert plan.state == "waiting"
        assert watch.rounds[-1].late == 6
        assert watch.observed - {WatchKind.NO_LEADER} == set()


async def test_excluded_instants_are_not_due() -> None:
    async with a_cluster("a") as cluster:
        now = cluster.clock.now()
        quiet = Period(now + 20 * SECOND, now + 130 * SECOND, "quiet")
        closed = Calendar(name="closed", days=(DaySpan(now.date(), now.date(), "inventory"),))
        await cluster.service.calendars.define(closed)
        await cluster.service.jobs.apply(
            [a_job("windowed", Every("10s", blackout=(quiet,))), a_job("closed", Every("10s", calendars=("closed",)))]
        )
        watch = watching(cluster)
        await watch.elapse(30)
        await kill_all(cluster)
        await watch.elapse(90)
        assert watch.observed == {WatchKind.NO_LEADER}
        assert all(done.judged <= 1 for done in watch.rounds)
        # The windowed one is due again after its blackout.
        await watch.elapse(60)
        assert "the first: windowed@" in watch.latest(WatchKind.INSTANTS_WITHOUT_RUN)
        assert "1 job has" in watch.latest(WatchKind.INSTANTS_WITHOUT_RUN)


async def test_jobs_whose_instants_depend_on_the_end_of_their_runs_are_not_judged() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(schedule=Every("10s", after_completion=True))])
        watch = watching(cluster)
        await watch.elapse(120)
        assert watch.observed == set()


@pytest.mark.parametrize("overlap", [Overlap.QUEUE, Overlap.FORBID])
async def test_fires_that_wait_for_a_long_run_of_their_job_are_late_and_not_missing(overlap: Overlap) -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(overlap=overlap, misfire=LATE_SOON)])
        watch = watching(cluster)
        await watch.elapse(150)
        assert watch.observed == set()
        assert watch.rounds[-1].late == (1 if overlap is Overlap.QUEUE else 0)
        cluster.executor.release.set()
        await watch.elapse(40)
        assert watch.observed == set()


async def test_a_cluster_without_a_free_slot_is_late_and_not_silent() -> None:
    async with a_cluster("a", slots=2) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(f"job-{n}") for n in range(6)])
        watch = watching(cluster)
        await watch.elapse(150)
        assert watch.observed == set()
        assert watch.rounds[-1].late
        cluster.executor.release.set()
        await watch.elapse(40)
        assert watch.observed == set()


async def test_a_job_that_no_node_can_run_is_late_and_not_missing() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(require={"gpu": "h100"})])
        watch = watching(cluster)
        await watch.elapse(120)
        assert watch.observed == set()
        assert watch.rounds[-1].late == 1


async def test_a_failover_is_no_outage() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job(misfire=LATE_SOON)])
        watch = watching(cluster)
        await watch.elapse(40)
        [leader] = cluster.leaders
        await cluster.kill(leader)
        await watch.elapse(90)
        assert watch.observed == set()


@pytest.mark.parametrize("policy", list(MisfirePolicy))
async def test_a_short_outage_ends_without_a_report_whatever_the_policy(policy: MisfirePolicy) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(misfire=Misfire(policy, late_after=5 * SECOND))])
        watch = watching(cluster)
        await watch.elapse(40)
        await kill_all(cluster)
        await watch.elapse(20)
        cluster.start("b")
        await watch.elapse(90)
        assert watch.observed == set()


async def test_a_watcher_that_begins_with_its_cluster_gives_it_a_grace_time(tmp_path: Path) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(misfire=LATE_SOON)])
        await watching(cluster, snapshot=tmp_path / "snapshot").elapse(40)
        await kill_all(cluster)
        await cluster.clock.advance(600)
        watch = watching(cluster, snapshot=tmp_path / "snapshot")
        cluster.start("b")
        await watch.elapse(90)
        assert watch.observed <= {WatchKind.NO_LEADER}
        assert watch.messages[1:] == []


async def test_jobs_that_were_deleted_did_not_vanish() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("one"), a_job("two")])
        watch = watching(cluster)
        await watch.elapse(20)
        await cluster.service.jobs.delete("one")
        await cluster.service.jobs.delete("two")
        await watch.elapse(10)
        # The clean-up deletes their documents later.
        for name in ("one", "two"):
            cluster.backends.documents.jobs.delete([name])
        await watch.elapse(60)
        assert watch.observed == set()


def failed(_: object) -> AttemptResult:
    return AttemptResult(Outcome.ERROR, error="no")


async def test_failing_runs_are_not_the_watchers_business() -> None:
    async with a_cluster("a") as cluster:
        cluster.executor.attempt_result = failed
        await cluster.service.jobs.apply([a_job()])
        watch = watching(cluster)
        await watch.elapse(90)
        assert watch.observed == set()
