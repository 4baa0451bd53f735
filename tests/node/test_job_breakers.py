"""Circuit breakers of jobs, `pause_after`, retry rules and deadlines, on whole nodes and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.domain.errors import Conflict, InvalidInput
from cronflow.domain.events import Event, JobBreakerClosed, JobBreakerOpened, JobPausedAfterFailures, RunsFailed
from cronflow.domain.job import Breaker, Delivery, Job, Overlap, PythonTarget, Retry
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.retry import RetryRule
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.why import NoRetries
from tests.monitoring.test_metrics import together
from tests.node.cluster import Cluster, a_cluster

NO = AttemptResult(Outcome.ERROR, error="no", error_classes=("shop.errors.SoldOut", "builtins.Exception"))
YES = AttemptResult(Outcome.OK)
SLOW = Retry(max=2, initial="10m", multiplier=1.0)
OF_FOUR = Breaker(window=4, cooldown=timedelta(minutes=2))
BREAKERS = ("breakers.get", "breakers.replace", "breakers.remove")


def a_job(name: str = "shop", *, every: str | None = "10s", **fields: object) -> Job:
    return Job(
        name=name,
        target=PythonTarget("jobs:shop"),
        schedule=None if every is None else Every(every),
        **({"overlap": Overlap.ALLOW, "retry": SLOW} | fields),  # type: ignore[arg-type]
    )


def fails(cluster: Cluster, result: AttemptResult = NO) -> None:
    cluster.executor.attempt_result = lambda _: result


def succeeds(cluster: Cluster) -> None:
    cluster.executor.attempt_result = lambda _: YES


def events(cluster: Cluster, kind: type[Event]) -> Sequence[Event]:
    found = (recorded.event for recorded in cluster.backends.documents.events.values())
    return [event for event in found if isinstance(event, kind)]


def breaker(cluster: Cluster, job: str = "shop") -> BreakerState:
    return cluster.backends.documents.breakers.get(job) or BreakerState(job=job)


def ended(cluster: Cluster, job: str = "shop") -> list[Run]:
    return [run for run in cluster.runs if run.job == job and not run.is_open]


async def opened(cluster: Cluster, job: Job) -> None:
    """Apply the job, and let it fail until its breaker opens."""
    fails(cluster)
    await cluster.service.jobs.apply([job])
    await cluster.elapse(45)
    assert breaker(cluster).is_open


async def refused(_before: BreakerState, _after: BreakerState) -> bool:
    return False


async def test_a_breaker_that_another_node_has_changed_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        monkeypatch.setattr(cluster.backends.breakers, "replace", refused)
        fails(cluster)
        await cluster.service.jobs.apply([a_job(breaker=OF_FOUR)])
        await cluster.elapse(60)
        assert events(cluster, JobBreakerOpened) == []


async def test_a_breaker_that_keeps_changing_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_cluster("a") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        monkeypatch.setattr(cluster.backends.breakers, "replace", refused)
        with pytest.raises(Conflict, match="the circuit breaker of job 'shop' keeps changing"):
            await cluster.service.jobs.close_breaker("shop")
        assert events(cluster, JobBreakerClosed) == []


async def test_a_job_whose_attempts_fail_opens_its_breaker_and_is_not_retried() -> None:
    async with a_cluster("a", "b") as cluster:
        fails(cluster)
        await cluster.service.jobs.apply([a_job(breaker=OF_FOUR)])
        await cluster.elapse(35)
        assert [run.state for run in cluster.runs] == [RunState.RETRYING] * 3
        assert not breaker(cluster).is_open
        await cluster.elapse(20)
        first, second = ended(cluster)
        for run in (first, second):
            assert (run.state, run.outcome, run.is_dead, len(run.attempts)) == (
                RunState.FAILED,
                Outcome.ERROR,
                True,
                1,
            )
            assert (run.reason or "").startswith("circuit breaker open: 4 of 4 attempts had failed by")
        assert [event.text for event in events(cluster, JobBreakerOpened)] == [
            "the circuit breaker of shop opened: 4 of its last 4 attempts failed"
        ]
        for failed in events(cluster, RunsFailed):
            assert "no (circuit breaker open: 4 of 4" in failed.text
        assert together(cluster, "cronflow_retries_stopped_total") == {(): 2}


async def test_retries_that_were_waiting_when_the_breaker_opened_do_not_begin() -> None:
    async with a_cluster("a") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        waiting = [run.id for run in cluster.runs if run.state is RunState.RETRYING]
        assert len(waiting) == 3
        cluster.executor.starts.clear()
        await cluster.elapse(620)
        assert set(waiting).isdisjoint(cluster.executor.runs_started)
        for run in await cluster.service.backends.runs.get(waiting):
            assert (run.state, run.error, run.is_dead) == (RunState.FAILED, "no", True)
            assert (run.reason or "").startswith("circuit breaker open")


async def test_new_fires_still_run_and_the_first_that_succeeds_after_the_cooldown_closes_the_breaker() -> None:
    async with a_cluster("a", "b") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        cluster.executor.starts.clear()
        succeeds(cluster)
        await cluster.elapse(60)
        assert len(cluster.executor.starts) == 6
        assert breaker(cluster).is_open, "it succeeded before the end of the cooldown"
        await cluster.elapse(70)
        assert not breaker(cluster).is_open
        assert [event.text for event in events(cluster, JobBreakerClosed)] == [
            "the circuit breaker of shop closed: a run succeeded"
        ]
        fails(cluster)
        await cluster.elapse(10)
        assert cluster.runs[-1].state is RunState.RETRYING, "failures from before it closed do not count"


async def test_a_probe_that_fails_keeps_the_breaker_open_for_another_cooldown() -> None:
    async with a_cluster("a") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        before = breaker(cluster)
        await cluster.elapse(130)
        after = breaker(cluster)
        assert after.opened_at == before.opened_at
        assert after.probe_at is not None
        assert before.probe_at is not None
        assert after.probe_at >= before.probe_at + OF_FOUR.cooldown
        assert len(events(cluster, JobBreakerOpened)) == 1


async def test_an_open_breaker_stays_open_when_the_leader_is_killed_and_redis_is_wiped() -> None:
    async with a_cluster("a", "b") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        [leader] = cluster.leaders
        await cluster.kill(leader)
        cluster.backends.memory.flush()
        count = len(ended(cluster))
        await cluster.elapse(60)
        assert len(cluster.leaders) == 1
        later = ended(cluster)[count:]
        assert later
        assert all((run.reason or "").startswith("circuit breaker open") for run in later)


async def test_closed_by_hand_it_is_retried_again_with_an_audit_entry_and_an_event() -> None:
    async with a_cluster("a") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        emitted: list[Event] = []
        cluster.service.audit.emit = emitted.append
        await cluster.service.jobs.close_breaker("shop", by="ann@desk")
        await cluster.service.jobs.close_breaker("shop", by="ann@desk")
        assert not breaker(cluster).is_open
        assert [event.text for event in emitted] == ["the circuit breaker of shop closed: requested by ann@desk"]
        [entry] = [one for one in cluster.backends.documents.audit.values() if one.action == "job.close_breaker"]
        assert (entry.by, entry.target) == ("ann@desk", "job:shop")
        await cluster.elapse(10)
        assert cluster.runs[-1].state is RunState.RETRYING


async def test_a_job_without_a_breaker_has_none_to_close() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job()])
        with pytest.raises(InvalidInput, match="shop has no circuit breaker"):
            await cluster.service.jobs.close_breaker("shop")


async def test_a_deleted_job_leaves_no_breaker_behind() -> None:
    async with a_cluster("a") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        await cluster.service.jobs.delete("shop")
        assert cluster.backends.documents.breakers == {}


async def test_jobs_without_a_breaker_cost_no_read_of_breakers() -> None:
    async with a_cluster("a") as cluster:
        fails(cluster)
        await cluster.service.jobs.apply([a_job(retry=Retry(max=1, initial="1s"))])
        await cluster.elapse(60)
        assert len(ended(cluster)) >= 4
        assert [cluster.backends.faults.calls[verb] for verb in BREAKERS] == [0, 0, 0]


async def test_while_the_breaker_cannot_be_read_a_failure_is_retried_and_the_leader_looks_at_it_again() -> None:
    async with a_cluster("a") as cluster:
        job = a_job(breaker=OF_FOUR, retry=Retry(max=2, initial="30s", multiplier=1.0))
        await opened(cluster, job)
        cluster.backends.faults.fail_before("breakers.get")
        await cluster.elapse(10)
        latest = cluster.runs[-1]
        assert latest.state is RunState.RETRYING
        await cluster.elapse(35)
        run = await cluster.service.runs.get(latest.id)
        assert (run.state, len(run.attempts)) == (RunState.FAILED, 1)


# --------------------------------------------------------------------------------------------------------- pause_after


async def test_a_job_is_paused_after_so_many_failed_runs_in_a_row_with_a_note_and_an_event() -> None:
    async with a_cluster("a", "b") as cluster:
        fails(cluster)
        await cluster.service.jobs.apply([a_job(retry=Retry(max=0), pause_after=3)])
        await cluster.elapse(60)
        record = await cluster.service.jobs.get("shop")
        failed = ended(cluster)
        assert [run.state for run in failed] == [RunState.FAILED] * 3
        assert (record.paused, record.edited_by) == (True, "cronflow")
        assert record.pause is not None
        assert record.pause.note == f"3 runs in a row failed, the last one is {failed[2].id}"
        assert [event.text for event in events(cluster, JobPausedAfterFailures)] == [
            f"shop was paused after 3 failed runs in a row, the last one {failed[2].id}"
        ]


async def test_a_run_that_succeeds_clears_the_count_and_so_does_resuming() -> None:
    async with a_cluster("a") as cluster:
        outcomes = iter([NO, NO, YES, NO, NO, NO, NO, NO])
        cluster.executor.attempt_result = lambda _: next(outcomes)
        await cluster.service.jobs.apply([a_job(retry=Retry(max=0), pause_after=3)])
        await cluster.elapse(55)
        assert not (await cluster.service.jobs.get("shop")).paused
        await cluster.elapse(10)
        assert (await cluster.service.jobs.get("shop")).paused
        assert (await cluster.service.jobs.resume("shop")).pause is None
        await cluster.elapse(21)
        assert not (await cluster.service.jobs.get("shop")).paused, "two failures since it was resumed"


async def test_retries_do_not_count_and_an_edit_clears_the_count() -> None:
    async with a_cluster("a") as cluster:
        fails(cluster)
        job = a_job(retry=Retry(max=2, initial="1s"), pause_after=2)
        await cluster.service.jobs.apply([job])
        await cluster.elapse(18)
        assert len(ended(cluster)) == 1
        await cluster.service.jobs.apply([replace(job, description="edited")])
        await cluster.elapse(10)
        assert len(ended(cluster)) == 2
        assert not (await cluster.service.jobs.get("shop")).paused
        await cluster.elapse(10)
        assert (await cluster.service.jobs.get("shop")).paused


async def test_runs_that_the_leader_ends_count_too() -> None:
    async with a_cluster("a", "b", "c") as cluster:
        job = a_job(every=None, delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0), pause_after=1)
        await cluster.service.jobs.apply([job])
        cluster.executor.release = asyncio.Event()
        run = await cluster.service.jobs.trigger("shop")
        await cluster.elapse(2)
        node = (await cluster.service.runs.get(run)).node
        await cluster.kill(next(one for one in cluster.nodes if one.id == node))
        await cluster.elapse(120)
        assert (await cluster.service.runs.get(run)).state is RunState.LOST
        pause = (await cluster.service.jobs.get("shop")).pause
        assert pause is not None
        assert pause.note == f"1 run failed, the last one is {run}"


async def test_failures_that_waited_in_the_spool_pause_the_job_when_mongodb_is_back(tmp_path: Path) -> None:
    async with a_cluster("a", spools=tmp_path) as cluster:
        fails(cluster)
        await cluster.service.jobs.apply([a_job(every=None, retry=Retry(max=0), pause_after=1)])
        cluster.executor.release = asyncio.Event()
        run = await cluster.service.jobs.trigger("shop")
        await cluster.elapse(2)
        cluster.backends.faults.fail_before("MongoDB", 1_000_000)
        cluster.executor.release.set()
        await cluster.elapse(5)
        cluster.backends.faults.heal()
        await cluster.elapse(30)
        assert (await cluster.service.runs.get(run)).state is RunState.FAILED
        assert (await cluster.service.jobs.get("shop")).paused


# ------------------------------------------------------------------------------------------------- rules and deadlines


async def test_an_error_that_a_rule_names_is_a_dead_letter_at_once_and_another_is_retried() -> None:
    async with a_cluster("a") as cluster:
        rules = [RetryRule("SoldOut", retry=False)]
        await cluster.service.jobs.apply([a_job(every=None, retry=Retry(max=1, initial="1s", rules=rules))])
        fails(cluster)
        run = await cluster.service.jobs.trigger("shop")
        await cluster.elapse(5)
        sold_out = await cluster.service.runs.get(run)
        assert (sold_out.state, len(sold_out.attempts)) == (RunState.FAILED, 1)
        assert sold_out.reason == "a retry rule says not to retry SoldOut"
        fails(cluster, AttemptResult(Outcome.ERROR, error="no", error_classes=("builtins.ValueError",)))
        run = await cluster.service.jobs.trigger("shop")
        await cluster.elapse(5)
        other = await cluster.service.runs.get(run)
        assert (other.state, len(other.attempts), other.reason) == (RunState.FAILED, 2, None)


async def test_no_retry_begins_after_the_deadline_of_a_scheduled_or_manual_run_or_a_replay() -> None:
    async with a_cluster("a") as cluster:
        fails(cluster)
        retry = Retry(max=9, initial="20s", multiplier=1.0, deadline="50s")
        await cluster.service.jobs.apply([a_job(every="5m", retry=retry), a_job("manual", every=None, retry=retry)])
        manual = await cluster.service.jobs.trigger("manual")
        await cluster.elapse(300 + 60)
        replay = await cluster.service.runs.replay(manual)
        await cluster.elapse(60)
        scheduled = cluster.runs[-1]
        assert scheduled.job == "shop"
        for run in [scheduled, *await cluster.service.backends.runs.get([manual, replay])]:
            assert (run.state, len(run.attempts)) == (RunState.FAILED, 3)
            until = run.first_due + timedelta(seconds=50)
            assert run.reason == f"retry deadline: no retry starts after {until:%Y-%m-%d %H:%M:%S}Z"


async def test_a_retry_that_waits_for_a_node_until_its_deadline_does_not_begin() -> None:
    async with a_cluster("a") as cluster:
        fails(cluster)
        retry = Retry(max=9, initial="20s", multiplier=1.0, deadline="50s")
        await cluster.service.jobs.apply([a_job(every=None, retry=retry)])
        run = await cluster.service.jobs.trigger("shop")
        await cluster.elapse(5)
        await cluster.service.cluster.drain("a")
        await cluster.elapse(60)
        found = await cluster.service.runs.get(run)
        assert (found.state, found.error, len(found.attempts)) == (RunState.FAILED, "no", 1)
        assert (found.reason or "").startswith("retry deadline")


async def test_what_is_yet_to_end_is_explained_with_the_open_breaker() -> None:
    async with a_cluster("a") as cluster:
        await opened(cluster, a_job(breaker=OF_FOUR))
        upcoming = await cluster.service.explain.why("shop", cluster.runs[-1].fire_at + timedelta(seconds=10))
        [link] = [one for one in upcoming.links if isinstance(one, NoRetries)]
        state = breaker(cluster)
        assert state.opened_at is not None
        assert state.probe_at is not None
        assert link == NoRetries(state.opened_at, state.failed, state.attempts, state.probe_at)
        past = await cluster.service.explain.why_run(ended(cluster)[-1].id)
        assert not any(isinstance(one, NoRetries) for one in past.links)
