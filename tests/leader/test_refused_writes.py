"""What a leader does when a compare-and-set of its was refused: nothing, because somebody else has acted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.domain.backfill import BackfillRate, BackfillScope
from cronflow.domain.chain import Upstream
from cronflow.domain.events import BackfillEnded, LeaderSteppedDown, RunsLost, RunSplit, RunSummedUp
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import Delivery, Job, Overlap, PlanIntent, PythonTarget, Retry, StartGuard
from cronflow.domain.run import Kind, Run, RunState
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.domain.transitions import Change
from cronflow.leader.plan_recovery import recover
from cronflow.ports import CursorMove, Move
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import a_pend, a_record
from tests.node.cluster import Cluster, a_cluster
from tests.node.test_events import events_of

TICK = Job(name="tick", target=PythonTarget("a:b"), schedule=Every("5s"), overlap=Overlap.ALLOW, retry=Retry(max=0))


async def until(cluster: Cluster, condition: Callable[[], bool]) -> None:
    """Let time pass until the condition holds, for two minutes at most."""
    for _ in range(480):
        if condition():
            return
        await cluster.elapse(0.25)
    raise AssertionError("nothing was tried")


async def test_a_dispatch_that_was_not_written_is_not_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([Job(name="one", target=PythonTarget("a:b"))])
        tried = 0

        async def refused(changes: Sequence[Change]) -> set[str]:
            nonlocal tried
            tried += sum(change.target is RunState.DISPATCHED for change in changes)
            return set()

        monkeypatch.setattr(cluster.backends.runs, "apply", refused)
        await cluster.service.jobs.trigger("one")
        await cluster.elapse(3)
        assert tried > 0
        assert cluster.executor.starts == []
        monkeypatch.undo()
        await cluster.elapse(3)
        assert cluster.executor.runs_started == [run.id for run in cluster.runs]


async def test_a_run_that_was_not_ended_by_the_reconciler_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        worker = cluster.start("b", work="yes")
        once = replace(TICK, name="once", schedule=None, require={"work": "yes"}, delivery=Delivery.AT_MOST_ONCE)
        await cluster.service.jobs.apply([once])
        await cluster.elapse(2)
        stall = cluster.executor.release = asyncio.Event()
        run = await cluster.service.jobs.trigger("once")
        await cluster.elapse(3)
        await cluster.kill(worker)
        tried = 0

        async def refused(changes: Sequence[Change]) -> set[str]:
            nonlocal tried
            tried += sum(change.run == run for change in changes)
            return set()

        monkeypatch.setattr(cluster.backends.runs, "apply", refused)
        await until(cluster, lambda: tried >= 2)
        assert await events_of(cluster, RunsLost) == []
        monkeypatch.undo()
        await cluster.elapse(60)
        assert len(await events_of(cluster, RunsLost)) == 1
        stall.set()


async def test_a_move_that_was_not_written_makes_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        moved = 0

        async def refused(moves: Sequence[Move], _term: int) -> set[str]:
            nonlocal moved
            moved += len(moves)
            return set()

        monkeypatch.setattr(cluster.backends.jobs, "move", refused)
        jobs = [TICK, replace(TICK, name="guarded", start_guard=StartGuard.MONGO)]
        await cluster.service.jobs.apply(jobs)
        await until(cluster, lambda: moved >= len(jobs))
        await cluster.elapse(3)
        assert cluster.runs == []
        assert cluster.executor.starts == []


async def test_a_run_that_somebody_else_has_inserted_is_not_pushed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        insert = cluster.backends.runs.insert

        async def inserted_before(runs: Sequence[Run]) -> set[str]:
            await insert(runs)
            return set()

        monkeypatch.setattr(cluster.backends.runs, "insert", inserted_before)
        await cluster.service.jobs.apply([replace(TICK, start_guard=StartGuard.MONGO)])
        await until(cluster, lambda: bool(cluster.runs))
        await cluster.elapse(2)
        assert cluster.executor.starts == []
        assert {run.state for run in cluster.runs} == {RunState.DISPATCHED}
        monkeypatch.undo()
        # The reconciler finds it when its acknowledgement is overdue.
        await cluster.elapse(15)
        assert cluster.runs[0].state is RunState.SUCCEEDED


async def test_a_parent_that_was_not_begun_has_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([replace(TICK, name="split", schedule=None, shards=3)])
        await cluster.service.jobs.trigger("split")
        tried = 0

        async def refused(changes: Sequence[Change]) -> set[str]:
            nonlocal tried
            tried += len(changes)
            return set()

        monkeypatch.setattr(cluster.backends.runs, "apply", refused)
        await until(cluster, lambda: tried > 0)
        await cluster.elapse(3)
        assert [run.kind for run in cluster.runs] == [Kind.MANUAL]
        assert await events_of(cluster, RunSplit) == []


async def test_a_parent_that_was_not_ended_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        release = cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([replace(TICK, name="split", schedule=None, shards=3)])
        run = await cluster.service.jobs.trigger("split")
        await until(cluster, lambda: len(cluster.executor.starts) == 3)
        apply, tried = cluster.backends.runs.apply, 0

        async def refused(changes: Sequence[Change]) -> set[str]:
            nonlocal tried
            tried += sum(change.run == run for change in changes)
            return await apply([change for change in changes if change.run != run])

        monkeypatch.setattr(cluster.backends.runs, "apply", refused)
        release.set()
        await until(cluster, lambda: tried >= 2)
        assert await events_of(cluster, RunSummedUp) == []
        monkeypatch.undo()
        await cluster.elapse(10)
        assert len(await events_of(cluster, RunSummedUp)) == 1


@pytest.mark.parametrize("first", [("a",), ("a", "b")])
async def test_an_end_that_no_join_has_recorded_is_not_answered(
    first: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_cluster("n") as cluster:
        jobs = [replace(TICK, name=name, schedule=None) for name in ("a", "b")]
        follower = replace(TICK, name="c", schedule=None, after=(Upstream("a"), Upstream("b")))
        await cluster.service.jobs.apply([*jobs, follower])
        tried = 0

        async def refused(_: JoinRecord) -> bool:
            nonlocal tried
            tried += 1
            return False

        monkeypatch.setattr(cluster.backends.chains, "write_join", refused)
        for name in first:
            await cluster.service.jobs.trigger(name)
        await until(cluster, lambda: tried >= 3)
        assert [run.job for run in cluster.runs if run.followed] == [*first]
        assert [run for run in cluster.runs if run.job == "c"] == []
        monkeypatch.undo()
        for name in {"a", "b"} - {*first}:
            await cluster.service.jobs.trigger(name)
        await cluster.elapse(10)
        assert [run.state for run in cluster.runs if run.job == "c"] == [RunState.SUCCEEDED]


async def test_an_end_that_somebody_else_has_answered_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("n") as cluster:
        jobs = [replace(TICK, name=name, schedule=None) for name in ("a", "b")]
        after = (Upstream("a", within=timedelta(minutes=1)), Upstream("b"))
        await cluster.service.jobs.apply([*jobs, replace(TICK, name="c", schedule=None, after=after)])
        await cluster.service.jobs.trigger("a")
        await cluster.elapse(5)
        tried = 0

        async def refused(_: JoinRecord) -> bool:
            nonlocal tried
            tried += 1
            return False

        monkeypatch.setattr(cluster.backends.chains, "write_join", refused)
        await until(cluster, lambda: tried >= 2)
        assert [run.job for run in cluster.runs] == ["a"]
        monkeypatch.undo()
        await cluster.elapse(10)
        assert [run.state for run in cluster.runs if run.job == "c"] == [RunState.SKIPPED]


async def test_runs_of_a_backfill_that_another_leader_has_moved_on_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([replace(TICK, schedule=Every("1h"))])
        advance = cluster.backends.backfills.advance

        async def moved_on(*words: Any) -> bool:
            await advance(*words)
            return False

        monkeypatch.setattr(cluster.backends.backfills, "advance", moved_on)
        last = cluster.clock.now().replace(minute=0, second=0, microsecond=0)
        await cluster.service.backfills.request(
            "tick", last - timedelta(hours=2), last, BackfillScope.ALL, BackfillRate(10, "s"), by="ada"
        )
        await cluster.elapse(30)
        states = [run.state for run in cluster.runs if run.kind is Kind.BACKFILL]
        assert states == [RunState.SUCCEEDED] * 3


async def test_the_end_of_a_backfill_that_another_leader_has_closed_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([replace(TICK, schedule=Every("1h"))])
        tried = 0

        async def refused(*_: object) -> bool:
            nonlocal tried
            tried += 1
            return False

        monkeypatch.setattr(cluster.backends.backfills, "close", refused)
        last = cluster.clock.now().replace(minute=0, second=0, microsecond=0)
        await cluster.service.backfills.request("tick", last, last, BackfillScope.ALL, BackfillRate(10, "s"), by="ada")
        await until(cluster, lambda: tried > 0)
        await cluster.elapse(2)
        assert await events_of(cluster, BackfillEnded) == []


async def test_a_leader_whose_successor_has_claimed_the_zone_data_steps_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster() as cluster:

        async def refused(_identity: str, _term: int) -> None:
            return None

        monkeypatch.setattr(cluster.backends.control, "claim_zone_data", refused)
        cluster.start("a")
        await cluster.elapse(3)
        reasons = {event.reason for event in await events_of(cluster, LeaderSteppedDown)}  # type: ignore[attr-defined]
        assert reasons == {"a newer term has claimed the time zone data"}


async def test_zone_data_count_as_right_only_when_all_cursors_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster() as cluster:
        await cluster.service.jobs.apply([replace(TICK, schedule=Cron("0 3 * * *", tz="Europe/Berlin"))])
        calls = cluster.backends.faults.calls

        async def refused(_moves: Mapping[str, CursorMove], _term: int) -> set[str]:
            return set()

        monkeypatch.setattr(cluster.backends.jobs, "reposition", refused)
        cluster.start("a")
        await cluster.elapse(10)
        assert (calls["control.claim_zone_data"], calls["control.keep_zone_data"]) == (1, 0)
        monkeypatch.undo()
        await cluster.elapse(70)
        assert calls["control.keep_zone_data"] == 1


async def test_an_intent_is_finished_by_the_runs_that_its_jobs_name() -> None:
    backends = memory_backends(FakeClock())
    await backends.jobs.create(a_record(pending_run=a_pend()))
    intent = PlanIntent(id="1-1", term=1, jobs=(a_record().name,))
    await backends.plans.write(intent)
    assert await recover(backends.jobs, backends.plans, backends.runs, intent, 2)
    assert [run.fence for run in backends.documents.runs.values()] == [a_pend().fence]


async def test_an_intent_whose_job_has_a_newer_term_is_left_to_the_newer_leader() -> None:
    backends = memory_backends(FakeClock())
    await backends.jobs.create(a_record(term=5))
    intent = PlanIntent(id="3-1", term=3, jobs=(a_record().name, "deleted"))
    await backends.plans.write(intent)
    assert not await recover(backends.jobs, backends.plans, backends.runs, intent, 4)
    assert set(backends.documents.plans) == {intent.id}
    assert await recover(backends.jobs, backends.plans, backends.runs, intent, 5)
    assert set(backends.documents.plans) == set()
