"""What follows an end, and joins: each end counts once, in any order and however often it arrives."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.chain import MOST_LINKS, ChainLink, Join, On, RunEnd, Upstream, following_id
from cronflow.domain.following import (
    AT_ONCE,
    JoinRecord,
    arrive,
    expire,
    finish,
    forget,
    needs_join,
    run_of_join,
    run_that_follows,
)
from cronflow.domain.job import Job, JobRecord, PythonTarget
from cronflow.domain.run import Kind, RunState
from tests.contracts.builders import a_record

T0 = datetime(2026, 11, 21, 2, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def a_job(*after: Upstream, join: Join = Join.ALL) -> Job:
    return Job(name="report", target=PythonTarget("jobs:work"), after=after, join=join)


def an_end(job: str, n: int = 1, state: RunState = RunState.SUCCEEDED, *, depth: int = 0) -> RunEnd:
    chain = ChainLink("root@1", depth) if depth else None
    return RunEnd(f"{job}@{n}", job, state, T0 + n * HOUR, T0 + n * HOUR + MINUTE, chain)


def of_job(job: Job, **fields: object) -> JobRecord:
    return replace(a_record("report"), job=job, **fields)  # type: ignore[arg-type]


X, Y = Upstream("x", within=HOUR), Upstream("y")
BOTH = a_job(X, Y)
EMPTY = JoinRecord(id="report", job="report", chain=None)


def test_a_run_has_the_id_of_the_runs_that_it_follows_in_any_order() -> None:
    assert following_id("report", ["x@1", "y@1"]) == following_id("report", ["y@1", "x@1"])
    ids = {following_id(job, runs) for job in ("report", "mail") for runs in (["x@1"], ["x@2"], ["x@1", "y@1"])}
    assert len(ids) == 6


def test_the_run_has_the_latest_instant_the_chain_of_the_newest_end_and_one_more_link() -> None:
    ends = [an_end("x", 2, depth=3), an_end("y", 5)]
    run = run_that_follows(of_job(BOTH, followed=True), ends, T0 + 6 * HOUR)
    assert run is not None
    assert run.chain is not None
    # The end of x has expired, but a skipped run belongs to the chain too.
    assert (run.kind, run.fire_at, run.followed) == (Kind.AFTER, ends[1].fire_at, True)
    assert (run.chain.id, run.chain.depth) == ("y@5", 4)
    assert {one.run for one in run.chain.of} == {"x@2", "y@5"}


@pytest.mark.parametrize(
    ("on", "state", "followed", "expected"),
    [
        (On.SUCCEEDED, RunState.SUCCEEDED, False, "runs"),
        (On.SUCCEEDED, RunState.CANCELLED, False, "skipped"),
        (On.SUCCEEDED, RunState.LOST, False, "skipped"),
        (On.FAILED, RunState.LOST, False, "runs"),
        (On.FAILED, RunState.CANCELLED, False, "none"),
        (On.FAILED, RunState.SUCCEEDED, True, "skipped"),
        (On.ENDED, RunState.SKIPPED, False, "runs"),
    ],
)
def test_what_follows_an_end(on: On, state: RunState, followed: bool, expected: str) -> None:
    record = of_job(a_job(Upstream("x", on)), followed=followed)
    run = run_that_follows(record, [an_end("x", state=state)], T0 + 2 * HOUR)
    found = "none" if run is None else "skipped" if run.state is RunState.SKIPPED else "runs"
    assert found == expected
    assert run is None or (run.reason is None) == (found == "runs")


@pytest.mark.parametrize(("late", "state"), [(59, RunState.RETRYING), (60, RunState.SKIPPED)])
def test_an_end_counts_for_within(late: int, state: RunState) -> None:
    end = an_end("x")
    run = run_that_follows(of_job(a_job(X)), [end], end.ended_at + late * MINUTE)
    assert run is not None
    assert (run.state, run.reason) == (state, None if late < 60 else "x@1 ended more than 1h ago")


def test_the_other_ends_of_a_replay_may_be_old() -> None:
    ends = [an_end("x"), an_end("y")._replace(run="y@1~r1")]
    run = run_that_follows(of_job(BOTH), ends, T0 + 99 * HOUR)
    assert run is not None
    assert run.state is RunState.RETRYING


@pytest.mark.parametrize(("depth", "state"), [(MOST_LINKS - 1, RunState.RETRYING), (MOST_LINKS, RunState.SKIPPED)])
def test_a_chain_ends_at_its_bound(depth: int, state: RunState) -> None:
    run = run_that_follows(of_job(a_job(Y)), [an_end("y", depth=depth)], T0)
    assert run is not None
    assert run.state is state


def test_a_paused_job_gets_a_skipped_run() -> None:
    run = run_that_follows(of_job(a_job(Y), paused=True), [an_end("y")], T0)
    assert run is not None
    assert (run.state, run.reason, run.check_at) == (RunState.SKIPPED, "paused", None)


def test_only_several_jobs_with_all_need_a_join() -> None:
    assert [needs_join(job) for job in (BOTH, a_job(X), a_job(X, Y, join=Join.ANY))] == [True, False, False]


def test_a_join_completes_with_the_last_end_of_each_job_and_forgets_them() -> None:
    join = arrive(arrive(EMPTY, BOTH, an_end("x", 1)), BOTH, an_end("x", 2))
    assert (join.arrived, join.waits, join.missing(BOTH)) == ((an_end("x", 2),), True, ["y"])
    assert join.expires_at == an_end("x", 2).ended_at + HOUR
    done = arrive(join, BOTH, an_end("y"))
    assert (done.arrived, done.waits, done.due_at) == ((), False, AT_ONCE)
    assert {end.run for end in done.completed} == {"x@2", "y@1"}
    assert set(done.recent) == {"x@1", "x@2", "y@1"}
    assert finish(done).due_at is None


def test_in_the_join_of_a_chain_the_ends_stay_so_that_a_replay_completes_it_again() -> None:
    join = replace(EMPTY, id="report#root@1", chain="root@1")
    done = finish(arrive(arrive(join, BOTH, an_end("x")), BOTH, an_end("y")))
    again = arrive(done, BOTH, an_end("x")._replace(run="x@1~r1"))
    assert {end.run for end in again.completed} == {"x@1~r1", "y@1"}


def test_an_end_of_a_job_that_is_no_longer_followed_does_not_count() -> None:
    join = arrive(EMPTY, a_job(Upstream("old"), X, Y), an_end("old"))
    done = arrive(arrive(join, BOTH, an_end("x")), BOTH, an_end("y"))
    assert {end.run for end in done.completed} == {"x@1", "y@1"}


def test_an_end_that_waits_too_long_leaves_a_skipped_run_once() -> None:
    join = arrive(EMPTY, BOTH, an_end("x"))
    assert join.expires_at is not None
    assert expire(join, BOTH, join.expires_at - MINUTE) is join
    over = expire(join, BOTH, join.expires_at)
    assert (over.arrived, over.expired, over.expires_at, over.waits, over.recent) == ((), True, None, False, ("x@1",))
    run = run_of_join(of_job(BOTH), over, join.expires_at)
    assert run is not None
    assert (run.state, run.reason) == (RunState.SKIPPED, "x@1 ended, but y did not end within 1h")
    assert run_of_join(of_job(BOTH), finish(over), join.expires_at) is None
    assert expire(finish(over), BOTH, join.expires_at) is not over
    assert finish(expire(finish(over), BOTH, join.expires_at)) == finish(over)


def test_an_end_is_forgotten_only_when_its_mark_is_gone() -> None:
    join = replace(EMPTY, recent=("x@1", "y@1"))
    assert forget(join, {"x@1"}).recent == ("x@1",)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("chain", [None, "root@1"])
def test_each_end_completes_at_most_one_join_however_often_it_arrives(seed: int, chain: str | None) -> None:
    """Ends arrive in any order and several times, until their marks are gone, which may be before a later arrival."""
    chance = random.Random(seed)
    job = a_job(*(Upstream(name) for name in ("x", "y", "z")[: chance.randint(2, 3)]))
    ends = [an_end(one.job, n) for one in job.after for n in range(1, chance.randint(2, 4))]
    chance.shuffle(ends)
    marked = {end.run for end in ends}
    join, completed = replace(EMPTY, chain=chain), []
    for _ in range(60):
        join = forget(join, marked)
        end = chance.choice(ends)
        if end.run not in marked or join.knows(end.run):
            assert end.run not in marked or arrive(join, job, end) is join
        else:
            join = arrive(join, job, end)
            if join.completed:
                completed.append(join.completed)
                join = finish(join)
        if join.knows(end.run) and chance.random() < 0.3:
            marked.discard(end.run)
    for one in completed:
        assert sorted(end.job for end in one) == sorted(upstream.job for upstream in job.after)
    if chain is None:
        used = [end.run for one in completed for end in one]
        assert len(used) == len(set(used))
    else:
        assert len({frozenset(end.run for end in one) for one in completed}) == len(completed)
