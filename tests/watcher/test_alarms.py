"""What a watcher reports about whole nodes on virtual time: in time, once, and until it is over."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.domain.job import Misfire, MisfirePolicy
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.watch import WatchKind, WatchStage
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.watcher import instants
from tests.node.cluster import a_cluster
from tests.watcher.watching import GRACE_S, SECOND, Watch, a_job, a_watcher, kill_all, watching

INSTANTS, LEADER = WatchKind.INSTANTS_WITHOUT_RUN, WatchKind.NO_LEADER


async def test_the_death_of_all_nodes_is_reported_within_the_grace_time_and_a_round_and_so_is_their_return() -> None:
    async with a_cluster("a", "b") as cluster:
        await cluster.service.jobs.apply([a_job("tick"), a_job("tock", Every("10s"))])
        watch = watching(cluster)
        await watch.elapse(60)
        assert watch.observed == set()
        died = cluster.clock.now()
        await kill_all(cluster)
        await watch.elapse(90)
        opened = {one.kind: one for one in watch.messages}
        assert opened.keys() == {INSTANTS, LEADER}
        assert all(one.stage is WatchStage.OPENED for one in opened.values())
        # The first instant after the death is up to 10 s later, as is the round.
        assert opened[INSTANTS].at - died <= (GRACE_S + 20) * SECOND
        assert opened[INSTANTS].since >= died - SECOND
        # A leader is missing when its renewal is overdue for the grace time.
        assert opened[LEADER].at - died <= (GRACE_S + 5 + 10) * SECOND
        assert "2 jobs have no run; the first: tick@2026" in watch.latest(INSTANTS)
        assert watch.latest(INSTANTS).startswith("12 instants of ")
        cluster.start("c")
        await watch.elapse(60)
        closed = [one for one in watch.messages if one.stage is WatchStage.CLOSED]
        assert sorted(one.kind for one in closed) == [INSTANTS, LEADER]
        assert all(one.text.startswith("recovered after ") for one in closed)
        assert len(watch.messages) == 4
        assert watch.watcher.findings == []


async def test_an_outage_of_a_catch_up_job_closes_when_each_of_its_runs_exists() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job(misfire=Misfire(MisfirePolicy.CATCH_UP, late_after=5 * SECOND))])
        watch = watching(cluster)
        await watch.elapse(40)
        await kill_all(cluster)
        await watch.elapse(120)
        cluster.start("b")
        await watch.elapse(80)
        assert [one for one in watch.opened if "instants" in one] == [
            "opened instants_without_run",
            "closed instants_without_run",
        ]


async def test_a_live_leader_that_plans_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        watch = watching(cluster)
        await watch.elapse(40)
        with monkeypatch.context() as broken:
            broken.setattr(type(cluster.backends.jobs), "due_in_turn", nothing_due)
            await watch.elapse(60)
            assert watch.opened == ["opened instants_without_run"]
            assert cluster.leaders
        await watch.elapse(40)
        assert watch.opened == ["opened instants_without_run", "closed instants_without_run"]


async def nothing_due(*_: object) -> list[object]:
    return []


async def test_an_instant_that_the_cursor_passed_without_a_run_is_reported_for_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instants, "LOOK_BACK", 90 * SECOND)
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        watch = watching(cluster)
        await watch.elapse(40)
        lost = cluster.runs[-2]
        # The cursor has passed it, and its run does not exist, by a fault of whatever kind. The run of the last move
        # would be inserted again.
        cluster.backends.documents.runs.delete([lost.id])
        await watch.elapse(40)
        assert watch.opened == ["opened instants_without_run"]
        assert watch.latest(INSTANTS).endswith(f"of 1 job has no run; the first: {lost.id}")
        await watch.elapse(60)
        assert watch.messages[-1].stage is WatchStage.CLOSED
        assert watch.messages[-1].text.endswith(f"1 instant never got a run, the first: {lost.id}")


async def test_runs_that_no_node_starts_are_reported() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        watch = watching(cluster)
        await watch.elapse(30)
        # The leader goes on, and its worker takes nothing.
        cluster.backends.faults.stall("queue.take")
        await watch.elapse(110)
        assert watch.opened == ["opened no_run_starts"]
        assert "sent to nodes and none has started; the first: tick@" in watch.latest(WatchKind.NO_RUN_STARTS)
        cluster.backends.faults.heal()
        await watch.elapse(30)
        assert watch.opened == ["opened no_run_starts", "closed no_run_starts"]


@pytest.mark.parametrize(("service", "kind"), [("MongoDB", "mongodb_away"), ("Redis", "redis_away")])
async def test_a_server_that_is_away_is_reported_after_the_grace_time_with_what_is_due(service: str, kind: str) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        watch = watching(cluster)
        await watch.elapse(60)
        await kill_all(cluster)
        began = cluster.clock.now()
        cluster.backends.faults.fail_before(service, 10_000)
        await watch.elapse(70)
        opened = [one for one in watch.messages if one.kind == kind]
        assert [one.stage for one in opened] == [WatchStage.OPENED]
        assert opened[0].at - began <= (GRACE_S + 10 + 10) * SECOND
        if service == "MongoDB":
            # Nobody could look at anything else.
            assert watch.observed == {WatchKind.MONGODB_AWAY}
            assert "; 1 job was due since then, first: tick@" in opened[0].text
        cluster.backends.faults.heal()
        cluster.start("b")
        await watch.elapse(60)
        assert f"closed {kind}" in watch.opened
        assert watch.watcher.findings == []


async def test_a_server_that_is_back_within_the_grace_time_is_not_reported() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        watch = watching(cluster)
        await watch.elapse(60)
        cluster.backends.faults.fail_before("MongoDB", 10_000)
        await watch.elapse(20)
        cluster.backends.faults.heal()
        await watch.elapse(60)
        assert watch.messages == []
        assert watch.observed == {WatchKind.MONGODB_AWAY}


async def test_an_empty_mongodb_is_an_alarm_if_the_snapshot_has_jobs(tmp_path: Path) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("one"), a_job("two")])
        await watching(cluster, snapshot=tmp_path / "snapshot").elapse(20)
    clock = FakeClock(cluster.clock.now())
    empty = Watch(cluster, a_watcher(memory_backends(clock), clock, snapshot=tmp_path / "snapshot"))
    for _ in range(6):
        await clock.advance(10)
        await empty.look()
    # The documents of the snapshot tell that one is due.
    assert empty.opened == ["opened jobs_vanished", "opened no_leader"]
    assert empty.latest(WatchKind.JOBS_VANISHED).startswith(
        "all 2 jobs that the snapshot has are not in MongoDB, and nobody deleted them, for example one, two"
    )
    assert "2 jobs were due in the last hour, first: one@" in empty.latest(WatchKind.JOBS_VANISHED)
    # The snapshot keeps them.
    assert a_watcher(memory_backends(clock), clock, snapshot=tmp_path / "snapshot").jobs == 2


async def test_a_wrong_clock_of_the_watcher_is_reported_and_is_not_used() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])

        class Ahead:
            def __getattr__(self, name: str) -> object:
                return getattr(cluster.clock, name)

            def now(self) -> object:
                return cluster.clock.now() + timedelta(minutes=10)

        watch = Watch(cluster, a_watcher(cluster.backends, Ahead()))  # type: ignore[arg-type]
        await watch.elapse(60)
        assert watch.opened == ["opened clock_off"]
        assert "this machine's clock is off (MongoDB -600.0 s, Redis -600.0 s)" in watch.latest(WatchKind.CLOCK_OFF)


async def test_a_single_round_judges_at_once() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await cluster.elapse(40)
        fine = await a_watcher(cluster.backends, cluster.clock, once=True).round()
        assert (fine.observed, fine.judged > 0) == ([], True)
        await kill_all(cluster)
        await cluster.clock.advance(120)
        found = await a_watcher(cluster.backends, cluster.clock, once=True).round()
        assert {one.kind for one in found.observed} == {INSTANTS, LEADER}
        assert {one.stage for one in found.messages} == {WatchStage.OPENED}
