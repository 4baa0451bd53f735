"""Runs that reach their node before their instant, on virtual time: they start at it, unless something intervenes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronflow.domain.job import Delivery, Job, Overlap, PythonTarget, Retry, StartGuard
from cronflow.domain.run import RunState, run_id
from cronflow.domain.schedule.kinds import Every, Once, Schedule
from cronflow.domain.shadow import SHADOWED, JobMode
from cronflow.domain.why import Upcoming
from cronflow.node.heartbeat import Heartbeat
from cronflow.worker import throughput
from tests.node.cluster import Cluster, a_cluster, worker_of

SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)
INSTANT = datetime(2026, 11, 21, 12, 0, 10, tzinfo=UTC)
STEP_S = 0.05


def a_job(name: str = "tick", **fields: Any) -> Job:
    fields = {"schedule": Once(INSTANT), "retry": Retry(max=0)} | fields
    return Job(name=name, target=PythonTarget("jobs:tick"), **fields)  # type: ignore[arg-type]


async def until(cluster: Cluster, before_instant_s: float) -> None:
    """Let time pass until so long before the instant."""
    left = (INSTANT - cluster.clock.now()).total_seconds() - before_instant_s
    await cluster.elapse(left)


def starts(cluster: Cluster) -> list[tuple[str, datetime]]:
    """The runs and their starts, to the millisecond: cluster time is computed from several clocks."""
    return [
        (run, at.replace(microsecond=0) + round(at.microsecond / 1000) * MILLISECOND)
        for run, _, _, at in cluster.executor.starts
    ]


def waiting(cluster: Cluster) -> list[str]:
    """The runs that wait on any node."""
    return sorted(run for node in cluster.nodes for run in worker_of(node)._waiting.fences())


async def test_a_run_is_held_by_its_node_and_starts_at_its_instant() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, 2.5)
        assert waiting(cluster) == []
        await until(cluster, 1.5)
        assert waiting(cluster) == [run_id("tick", INSTANT)]
        assert cluster.executor.starts == []
        # It is held: its job lock is renewed, and Redis lists it as taken.
        (node,) = cluster.nodes
        assert [lease.claimed.run for lease in worker_of(node).leases()] == [run_id("tick", INSTANT)]
        calls = cluster.backends.faults.calls
        before = calls.copy()
        await until(cluster, STEP_S)
        assert cluster.executor.starts == []
        await until(cluster, 0)
        assert starts(cluster) == [(run_id("tick", INSTANT), INSTANT)]
        # No store was needed for the start.
        assert calls["runs.insert_changed"] == before["runs.insert_changed"]
        await cluster.elapse(3)
        (run,) = cluster.runs
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)
        assert cluster.backends.documents.plans == {}
        assert cluster.backends.memory.locks == {}


async def test_without_look_ahead_no_run_is_dispatched_before_its_instant() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, STEP_S)
        assert cluster.backends.faults.calls["queue.dispatch"] == 0
        await cluster.elapse(1)
        assert cluster.executor.runs_started == [run_id("tick", INSTANT)]


async def test_a_start_that_must_be_recorded_first_is_recorded_at_the_instant_and_not_before() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        jobs = [a_job(start_guard=StartGuard.MONGO), a_job("pay", delivery=Delivery.AT_MOST_ONCE)]
        await cluster.service.jobs.apply(jobs)
        await until(cluster, STEP_S)
        assert len(waiting(cluster)) == 2
        assert {(run.state, run.start_id) for run in cluster.runs} == {(RunState.DISPATCHED, None)}
        await cluster.elapse(0.5)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert all(at >= INSTANT for _, at in starts(cluster))


async def test_a_waiting_run_uses_no_slot_and_leaves_it_to_a_due_one() -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(), a_job("other", schedule=None)])
        await until(cluster, 1.5)
        assert waiting(cluster) == [run_id("tick", INSTANT)]
        manual = await cluster.service.jobs.trigger("other")
        await until(cluster, 0.5)
        assert cluster.executor.runs_started == [manual]
        await cluster.elapse(1)
        assert starts(cluster)[1:] == [(run_id("tick", INSTANT), INSTANT)]


async def test_runs_that_wait_for_a_slot_start_by_instant_and_priority_as_slots_are_freed() -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        jobs = [
            a_job("low", priority=1),
            a_job("later", schedule=Once(INSTANT + SECOND), priority=9),
            a_job("high", priority=8),
        ]
        await cluster.service.jobs.apply(jobs)
        held = cluster.executor.release = asyncio.Event()
        await until(cluster, 0.5)
        assert len(waiting(cluster)) == 3
        await cluster.elapse(1.25)
        assert [run.partition("@")[0] for run in cluster.executor.runs_started] == ["high"]
        held.set()
        await cluster.elapse(1)
        assert [run.partition("@")[0] for run in cluster.executor.runs_started] == ["high", "low", "later"]


async def test_due_runs_that_were_taken_together_with_early_ones_wait_for_a_slot() -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        (node,) = cluster.nodes
        held = cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(), a_job("one", schedule=None), a_job("two", schedule=None)])
        await until(cluster, 1.75)
        assert len(waiting(cluster)) == 1
        cluster.backends.memory.ahead[node.id] = (5, cluster.clock.monotonic() + 60)
        first, second = [await cluster.service.jobs.trigger(name) for name in ("one", "two")]
        await until(cluster, 1.25)
        assert len(cluster.executor.starts) == 1
        held.set()
        await until(cluster, 1)
        assert sorted(cluster.executor.runs_started) == sorted([first, second])


async def test_what_finds_no_slot_within_a_second_is_given_back_and_starts_elsewhere() -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(), a_job("tock")])
        cluster.executor.release = asyncio.Event()
        await until(cluster, 0.5)
        assert len(waiting(cluster)) == 2
        cluster.start("b", slots=1)
        await until(cluster, -2.25)
        nodes = [node.partition("#")[0] for _, _, node, _ in cluster.executor.starts]
        assert nodes == ["a", "b"]
        assert {run.attempt for run in cluster.runs} == {1}


async def test_more_than_the_nodes_accept_early_is_planned_at_its_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "MOST_EARLY", 0)
    async with a_cluster("a", slots=2, look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(f"job-{k}") for k in range(5)])
        await until(cluster, 0.25)
        # As many as it has slots.
        assert len(waiting(cluster)) == 2
        await cluster.elapse(1)
        assert len(cluster.executor.starts) == 5
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}


@pytest.mark.parametrize("contended", [True, False])
async def test_while_a_due_job_finds_no_slot_nothing_is_planned_early(contended: bool) -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        cluster.executor.release = asyncio.Event()
        jobs = [a_job(), a_job("long", schedule=None)]
        due = [a_job("due", schedule=Once(INSTANT - 3 * SECOND), priority=0)] if contended else []
        await cluster.service.jobs.apply(jobs)
        await cluster.service.jobs.trigger("long")
        await until(cluster, 4)
        assert len(cluster.executor.starts) == 1
        await cluster.service.jobs.apply(due)
        await until(cluster, 1)
        planned = {
            job.pending_run is not None for job in cluster.backends.documents.jobs.values() if job.name == "tick"
        }
        assert planned == {not contended}


async def test_a_run_that_waits_is_inserted_late_counted_from_its_instant() -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(priority=9), a_job("tock", priority=0)])
        await until(cluster, -0.75)
        assert waiting(cluster) == [run_id("tock", INSTANT)]
        assert [run.job for run in cluster.runs] == ["tick"]


async def test_a_herd_is_held_in_full_and_started_without_another_round() -> None:
    async with a_cluster("a", slots=4, look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(f"job-{k:03}", overlap=Overlap.ALLOW) for k in range(700)])
        await until(cluster, 0.25)
        assert len(waiting(cluster)) == 700
        dispatches = cluster.backends.faults.calls["queue.dispatch"]
        await cluster.elapse(0.5)
        assert len(cluster.executor.starts) == 700
        assert {at for _, at in starts(cluster)} == {INSTANT}
        assert cluster.backends.faults.calls["queue.dispatch"] == dispatches


async def test_an_open_run_is_decided_at_the_instant() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        held = cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(schedule=Every("5s"), overlap=Overlap.FORBID)])
        await until(cluster, 0.5)
        (first, *others) = cluster.runs
        assert (first.state, first.fire_at) == (RunState.RUNNING, INSTANT - 5 * SECOND)
        assert others == []
        assert waiting(cluster) == []
        held.set()
        await cluster.elapse(1.5)
        assert starts(cluster)[-1] == (run_id("tick", INSTANT), INSTANT)


async def test_a_due_job_that_has_to_wait_is_not_read_again_and_again() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(schedule=Every("5s"), overlap=Overlap.QUEUE)])
        await until(cluster, -2)
        assert len(cluster.executor.starts) == 1
        before = cluster.backends.faults.calls["jobs.due_in_turn"]
        await cluster.elapse(2)
        # The safety poll, and the end of its back-off.
        assert cluster.backends.faults.calls["jobs.due_in_turn"] - before <= 12


async def test_a_manual_run_waits_for_a_planned_one_of_its_job() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, 1)
        manual = await cluster.service.jobs.trigger("tick")
        await cluster.elapse(4)
        assert cluster.executor.runs_started == [run_id("tick", INSTANT), manual]


async def test_a_cancelled_run_is_dropped_before_its_instant() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, 1)
        await cluster.service.runs.cancel(run_id("tick", INSTANT), "not today")
        await cluster.elapse(0.1)
        assert waiting(cluster) == []
        assert cluster.backends.memory.locks == {}
        await cluster.elapse(15)
        (run,) = cluster.runs
        assert run.state is RunState.CANCELLED
        assert cluster.executor.starts == []
        assert cluster.backends.documents.late == {}


async def test_a_cancellation_whose_signal_is_lost_is_found_before_the_instant() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, 1)
        cluster.backends.memory.signals.clear()
        await cluster.service.runs.cancel(run_id("tick", INSTANT))
        await cluster.elapse(2)
        assert cluster.executor.starts == []


@pytest.mark.parametrize("how", ["drain", "stop"])
async def test_a_node_that_takes_no_more_work_gives_back_what_waits(how: str) -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        (first,) = cluster.nodes
        await until(cluster, 1.5)
        assert waiting(cluster) == [run_id("tick", INSTANT)]
        cluster.start("b")
        await cluster.elapse(0.25)
        if how == "drain":
            await cluster.service.cluster.drain("a")
        else:
            first.stop()
        await cluster.elapse(3)
        ((run, _, node, _),) = cluster.executor.starts
        assert (run, node.partition("#")[0]) == (run_id("tick", INSTANT), "b")
        ((_, at),) = starts(cluster)
        assert INSTANT <= at <= INSTANT + 1.5 * SECOND
        (run_of_both,) = cluster.runs
        assert (run_of_both.state, run_of_both.attempt) == (RunState.SUCCEEDED, 1)


async def test_a_run_that_is_dispatched_again_before_its_instant_waits_for_it() -> None:
    async with a_cluster("a", "b", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, 1.75)
        (holder,) = [node for node in cluster.nodes if worker_of(node)._waiting]
        worker_of(holder).pause(True)
        await cluster.elapse(1.5)
        assert waiting(cluster) == [run_id("tick", INSTANT)]
        assert not worker_of(holder)._waiting
        (run,) = cluster.runs
        assert run.check_at is not None
        assert run.check_at >= INSTANT + 9 * SECOND
        await cluster.elapse(0.5)
        assert starts(cluster) == [(run.id, INSTANT)]


def does_not_announce(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes report as one of 0.8 does."""
    report = Heartbeat.report
    monkeypatch.setattr(Heartbeat, "report", lambda self: replace(report(self), accepts_early=None))


async def test_a_node_that_cannot_hold_runs_gets_them_at_their_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    does_not_announce(monkeypatch)
    async with a_cluster("old", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, STEP_S)
        assert cluster.backends.faults.calls["queue.dispatch"] == 0
        await cluster.elapse(1)
        assert cluster.executor.runs_started == [run_id("tick", INSTANT)]


async def test_a_run_that_came_back_early_is_not_given_to_a_node_that_cannot_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        (first,) = cluster.nodes
        await until(cluster, 1.9)
        does_not_announce(monkeypatch)
        cluster.start("old")
        await cluster.elapse(0.1)
        worker_of(first).pause(True)
        await cluster.service.cluster.drain("a")
        await until(cluster, STEP_S)
        assert cluster.executor.starts == []
        (run,) = cluster.runs
        assert run.check_at is not None
        assert abs(run.check_at - INSTANT) < MILLISECOND
        await cluster.elapse(3)
        ((_, _, node, _),) = cluster.executor.starts
        assert node.startswith("old#")
        assert starts(cluster)[0][1] >= INSTANT


async def test_runs_that_a_node_holds_start_in_time_while_there_is_no_leader() -> None:
    async with a_cluster("a", "b", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(f"job-{k}") for k in range(6)])
        await until(cluster, 1)
        held = {run for node in cluster.nodes if not node.leads for run in worker_of(node)._waiting.fences()}
        assert held
        await cluster.kill(cluster.leaders[0])
        await cluster.elapse(1.5)
        assert {run for run, at in starts(cluster) if at == INSTANT} == held
        await cluster.elapse(90)
        assert sorted(cluster.executor.runs_started) == sorted(run.id for run in cluster.runs)
        assert {run.state for run in cluster.runs} == {RunState.SUCCEEDED}
        assert len(cluster.runs) == 6


async def test_a_run_that_waits_is_not_found_overdue_before_ten_seconds_from_its_instant() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(start_guard=StartGuard.MONGO)])
        await until(cluster, 1)
        (run,) = cluster.runs
        assert run.check_at == INSTANT + 10 * SECOND


async def test_the_leader_does_not_push_what_it_read_five_seconds_ago() -> None:
    async with a_cluster("a") as cluster:
        stall = cluster.backends.faults.stall("jobs.move")
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, -6)
        cluster.backends.faults.heal()
        stall.release()
        await cluster.elapse(1)
        assert cluster.backends.faults.calls["queue.dispatch"] == 0
        await cluster.elapse(15)
        assert cluster.executor.runs_started == [run_id("tick", INSTANT)]


async def test_a_run_that_cannot_start_within_five_seconds_of_the_read_is_given_back() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        await until(cluster, STEP_S)
        untaken = cluster.backends.faults.stall("queue.take")
        await until(cluster, -0.5)
        # Its item is taken in time, and the answer comes late.
        cluster.backends.faults.stall("queue.take", acted=True)
        untaken.release()
        await until(cluster, -5.5)
        cluster.backends.faults.heal()
        await cluster.elapse(3)
        (run,) = cluster.runs
        # It was dispatched again, under what its job is by then.
        assert run.dispatched_at is not None
        assert run.dispatched_at > INSTANT + 5 * SECOND
        assert [(run, fence) for run, fence, *_ in cluster.executor.starts] == [(run.id, run.fence)]
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1)


# --------------------------------------------------------------------------------------- edits while a run waits


async def at_once(cluster: Cluster, edit: Coroutine[Any, Any, object]) -> None:
    """Make an edit that does not wait to see whether the run has started: it cannot have."""
    task = asyncio.create_task(edit)
    await cluster.elapse(0.1)
    assert task.done()
    await task


async def edited(cluster: Cluster, edit: Coroutine[Any, Any, object], before_instant_s: float = 1.0) -> list[str]:
    """Make the edit while the run waits for its instant, and let the instant pass. Returns the runs that started."""
    await until(cluster, before_instant_s)
    assert waiting(cluster) == [run_id("tick", INSTANT)]
    await at_once(cluster, edit)
    await cluster.elapse(4)
    return cluster.executor.runs_started


HOURLY, AT_TEN = Every("1h", anchor=INSTANT), run_id("tick", INSTANT)


async def test_a_pause_cancels_a_run_that_waits_and_a_resume_does_not_bring_it_back() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        await until(cluster, 1.5)
        await at_once(cluster, cluster.service.jobs.pause("tick"))
        await cluster.elapse(0.25)
        assert waiting(cluster) == []
        await at_once(cluster, cluster.service.jobs.resume("tick"))
        await cluster.elapse(4)
        assert cluster.executor.starts == []
        (run,) = cluster.runs
        assert (run.id, run.state, run.reason) == (AT_TEN, RunState.CANCELLED, "paused")
        record = cluster.backends.documents.jobs["tick"]
        assert record.next_fire == INSTANT + timedelta(hours=1)


async def test_a_deletion_cancels_a_run_that_waits() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        assert await edited(cluster, cluster.service.jobs.delete("tick")) == []
        (run,) = cluster.runs
        assert (run.state, run.reason) == (RunState.CANCELLED, "deleted")


async def test_disabling_a_job_cancels_a_run_that_waits() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        edit = cluster.service.jobs.apply([a_job(schedule=HOURLY, enabled=False)])
        assert await edited(cluster, edit) == []
        (run,) = cluster.runs
        assert (run.state, run.reason) == (RunState.CANCELLED, "disabled")


async def test_a_run_that_waits_does_not_start_once_its_job_is_in_shadow_mode() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        edit = cluster.service.jobs.apply([a_job(schedule=HOURLY, mode=JobMode.SHADOW)])
        assert await edited(cluster, edit) == []
        (run,) = cluster.runs
        assert (run.state, run.reason) == (RunState.CANCELLED, SHADOWED)


async def test_an_edit_that_leaves_the_schedule_alone_starts_the_run_at_its_instant_under_the_new_version() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        edit = cluster.service.jobs.apply([a_job(schedule=HOURLY, priority=9)])
        assert await edited(cluster, edit) == [AT_TEN]
        (run,) = cluster.runs
        assert (run.state, run.job_ver, run.attempt) == (RunState.SUCCEEDED, 2, 1)
        assert cluster.backends.documents.late == {}
        ((_, fence, *_),) = cluster.executor.starts
        assert fence == run.fence
        assert starts(cluster)[0][1] >= INSTANT
        record = cluster.backends.documents.jobs["tick"]
        assert (record.next_fire, record.since) == (INSTANT + timedelta(hours=1), INSTANT)


@pytest.mark.parametrize("moved_s", [-0.0, -1.0, -30.0])
async def test_a_one_time_job_that_is_moved_earlier_still_runs(moved_s: float) -> None:
    """Its cursor has passed the instant, so without the run that waits it would never run."""
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job()])
        new = a_job(schedule=Once(INSTANT + moved_s * SECOND), description="earlier")
        assert await edited(cluster, cluster.service.jobs.apply([new]), 1.5) == [AT_TEN]
        (run,) = cluster.runs
        assert (run.state, run.job_ver) == (RunState.SUCCEEDED, 2)
        assert cluster.backends.documents.jobs["tick"].next_fire is None


async def test_a_run_stands_for_an_instant_of_the_new_schedule_up_to_its_own() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        new = Every("1h", anchor=INSTANT - SECOND)
        assert await edited(cluster, cluster.service.jobs.apply([a_job(schedule=new)]), 1.5) == [AT_TEN]
        record = cluster.backends.documents.jobs["tick"]
        assert record.next_fire == INSTANT - SECOND + timedelta(hours=1)


async def test_a_run_still_stands_for_that_instant_when_an_edit_that_leaves_the_schedule_alone_follows() -> None:
    """The instant is past by then: the schedule alone would no longer justify the run."""
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        await until(cluster, 1.5)
        new = a_job(schedule=Every("1h", anchor=INSTANT - 2 * SECOND))
        await at_once(cluster, cluster.service.jobs.apply([new]))
        assert await edited(cluster, cluster.service.jobs.apply([replace(new, priority=9)]), 0.5) == [AT_TEN]
        (run,) = cluster.runs
        assert (run.state, run.job_ver) == (RunState.SUCCEEDED, 3)


@pytest.mark.parametrize(
    ("schedule", "following"),
    [
        (Every("1h", anchor=INSTANT + SECOND), INSTANT + SECOND),
        (Once(INSTANT + timedelta(days=1)), INSTANT + timedelta(days=1)),
        (None, None),
    ],
)
async def test_any_other_schedule_cancels_the_run_that_waits_and_begins_with_its_own_first_instant(
    schedule: Schedule | None, following: datetime | None
) -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        await edited(cluster, cluster.service.jobs.apply([a_job(schedule=schedule)]))
        first = next(run for run in cluster.runs if run.id == AT_TEN)
        assert (first.state, first.reason) == (RunState.CANCELLED, "edited")
        assert AT_TEN not in cluster.executor.runs_started
        record = cluster.backends.documents.jobs["tick"]
        planned = {run.fire_at for run in cluster.runs} - {INSTANT}
        assert planned | ({record.next_fire} if not planned else set()) == {following}


async def test_of_two_runs_that_wait_each_stands_for_instants_of_its_own() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        every = a_job(schedule=Every("1s", start=INSTANT), overlap=Overlap.ALLOW)
        await cluster.service.jobs.apply([every])
        await until(cluster, 0.5)
        following = run_id("tick", INSTANT + SECOND)
        assert waiting(cluster) == [AT_TEN, following]
        # The new schedule has the first of both instants.
        await at_once(cluster, cluster.service.jobs.apply([replace(every, schedule=Every("1h", anchor=INSTANT))]))
        await cluster.elapse(3)
        assert cluster.executor.runs_started == [AT_TEN]
        ended = {run.id: (run.state, run.reason) for run in cluster.runs}
        assert ended == {AT_TEN: (RunState.SUCCEEDED, None), following: (RunState.CANCELLED, "edited")}


async def test_a_second_edit_finds_the_run_that_the_first_one_gave_back() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        await until(cluster, 1.5)
        stall = cluster.backends.faults.stall("runs.overdue")
        await at_once(cluster, cluster.service.jobs.apply([a_job(schedule=HOURLY, priority=9)]))
        (run,) = cluster.runs
        assert run.state is RunState.RETRYING
        await at_once(cluster, cluster.service.jobs.apply([a_job(schedule=None)]))
        stall.release()
        cluster.backends.faults.heal()
        await cluster.elapse(3)
        (run,) = cluster.runs
        assert (run.state, run.reason) == (RunState.CANCELLED, "edited")
        assert cluster.executor.starts == []


async def test_a_withdrawal_whose_signal_is_lost_is_found_before_the_instant() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        await until(cluster, 1)
        cluster.backends.memory.signals.clear()
        await at_once(cluster, cluster.service.jobs.pause("tick"))
        await cluster.elapse(3)
        assert cluster.executor.starts == []


async def test_without_redis_an_edit_is_acknowledged_and_the_start_is_refused_where_it_is_recorded_first() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY, start_guard=StartGuard.MONGO)])
        await until(cluster, 1)
        cluster.backends.faults.fail_before("queue.withdraw")
        await at_once(cluster, cluster.service.jobs.pause("tick"))
        assert cluster.backends.memory.withdrawals == {}
        await cluster.elapse(3)
        assert cluster.executor.starts == []
        (run,) = cluster.runs
        assert (run.state, run.reason) == (RunState.CANCELLED, "paused")


async def test_a_run_whose_instant_is_about_to_come_is_left_to_start() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job(schedule=HOURLY)])
        held = cluster.executor.release = asyncio.Event()
        await until(cluster, STEP_S)
        # Its node would not learn in time that it was withdrawn.
        cluster.backends.memory.signals.clear()
        edit = asyncio.create_task(cluster.service.jobs.apply([a_job(schedule=HOURLY, priority=9)]))
        await cluster.elapse(1)
        await edit
        held.set()
        await cluster.elapse(3)
        assert cluster.executor.runs_started == [AT_TEN]
        (run,) = cluster.runs
        assert (run.state, run.job_ver) == (RunState.SUCCEEDED, 2)


async def test_a_node_that_is_cancelled_starts_nothing_that_waits() -> None:
    async with a_cluster("a", slots=1, look_ahead=2.0) as cluster:
        cluster.executor.release = asyncio.Event()
        await cluster.service.jobs.apply([a_job(), a_job("tock")])
        await until(cluster, -0.25)
        assert len(cluster.executor.starts) == len(waiting(cluster)) == 1
        (node,) = cluster.nodes
        task = cluster.tasks[node.id]
        await cluster.kill(node)
        assert task.cancelled()
        assert len(cluster.executor.starts) == 1


@pytest.mark.parametrize("guard", StartGuard)
async def test_a_run_that_waits_is_explained_and_is_not_taken_for_the_latest_one(guard: StartGuard) -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply(
            [a_job(schedule=Every("5s"), start_guard=guard), a_job("first", start_guard=guard)]
        )
        await until(cluster, 1)
        why = await cluster.service.explain.why("tick", INSTANT)
        assert [type(link).__name__ for link in why.links][-3:] == ["Placed", "Dispatched", "Upcoming"]
        last = why.links[-1]
        assert isinstance(last, Upcoming)
        assert (why.run, last.instant) == (AT_TEN, INSTANT)
        assert timedelta(0) < last.remaining <= SECOND
        assert (await cluster.service.explain.why("tick")).instant == INSTANT - 5 * SECOND
        # A job without an earlier run is explained by the one that waits.
        assert (await cluster.service.explain.why("first")).instant == INSTANT
