"""The contract of the store of recoveries, on memory and on a real MongoDB."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain.backfill import BackfillRate
from cronflow.domain.catch_up import HELD, CatchUpPlan, CatchUpState, HeldJob, HeldSummary
from cronflow.domain.job import JobRecord
from cronflow.domain.placement import Waiting
from cronflow.ports import Deferral, HeldFire, Move
from tests.contracts.builders import T0, a_pend, a_record
from tests.contracts.conftest import Stores

MINUTE = timedelta(minutes=1)
LATER = T0 + 60 * MINUTE
PLAN = CatchUpPlan(
    number=1,
    state=CatchUpState.WAITING,
    cutoff=T0 + MINUTE,
    cause="the cluster had no leader",
    since=T0 + MINUTE,
    known=2,
    jobs=1,
    runs=3,
    oldest=T0,
    by_priority=((9, 2), (5, 1)),
    top=(HeldJob("report", 3, T0),),
    rate=BackfillRate(10, "s"),
    next_at=T0 + 2 * MINUTE,
    approved=("billing-*",),
    skipped=("mail-*",),
    skip=True,
    by="ada",
    note="stale",
    decided_at=T0 + 3 * MINUTE,
    ended_at=T0 + 4 * MINUTE,
)


def a_fire(rev: int = 0, runs: int = 1, priority: int = 5) -> HeldFire:
    return HeldFire(rev, LATER, T0 + MINUTE, runs, priority)


def with_priority(record: JobRecord, priority: int) -> JobRecord:
    return replace(record, job=replace(record.job, priority=priority))


async def fill(stores: Stores) -> None:
    """Four held jobs and one that is not."""
    records = {
        "billing-new": (5, 2),
        "billing-old": (5, 0),
        "mail": (5, 1),
        "urgent": (9, 3),
    }
    for name, (priority, minute) in records.items():
        assert await stores.jobs.create(with_priority(a_record(name, T0 + minute * MINUTE), priority))
    assert await stores.jobs.create(a_record("free"))
    fires = {name: a_fire(runs=2 if name == "mail" else 1, priority=records[name][0]) for name in records}
    await stores.catch_up.hold(fires)


async def held(stores: Stores, limit: int = 10, **patterns: tuple[str, ...]) -> list[str]:
    return [record.name for record in await stores.catch_up.held(limit, **patterns)]


async def test_a_plan_is_replaced_only_if_nobody_else_has_changed_it(stores: Stores) -> None:
    store = stores.catch_up
    assert await store.plan() is None
    assert not await store.write(replace(PLAN, rev=1))
    assert await store.write(PLAN)
    assert not await store.write(PLAN)
    assert await store.plan() == replace(PLAN, rev=1)
    plain = CatchUpPlan(number=2, rev=1, state=CatchUpState.COUNTING, cutoff=T0, cause="", since=T0)
    assert await store.write(plain)
    assert not await store.write(replace(PLAN, rev=1))
    assert await store.plan() == replace(plain, rev=2)


async def test_held_jobs_come_by_priority_then_by_age(stores: Stores) -> None:
    await fill(stores)
    assert await held(stores) == ["urgent", "billing-old", "mail", "billing-new"]
    assert await held(stores, 2) == ["urgent", "billing-old"]
    assert await held(stores, among=("billing-*", "m?il")) == ["billing-old", "mail", "billing-new"]
    assert await held(stores, 1, but=("urgent", "*-old")) == ["mail"]
    assert await held(stores, among=("billing-*",), but=("*-old",)) == ["billing-new"]
    # A pattern is none of a regular expression.
    assert await held(stores, among=("billing.*",)) == []


async def test_a_held_job_keeps_its_cursor_and_is_due_later(stores: Stores) -> None:
    await fill(stores)
    [record] = await stores.jobs.get(["mail"])
    assert (record.rev, record.next_fire, record.due_at) == (0, T0 + MINUTE, LATER)
    assert record.waiting == Waiting(fire=T0 + MINUTE, since=T0 + MINUTE, reason=HELD)
    now = T0 + 10 * MINUTE
    assert [one.name for one in await stores.jobs.due_in_turn(now, now, 10)] == ["free"]
    # Another revision is left alone.
    await stores.catch_up.hold({"free": a_fire(rev=7)})
    assert "free" not in await held(stores)


async def test_the_summary_counts_runs_and_lists_the_jobs_with_the_most(stores: Stores) -> None:
    assert await stores.catch_up.summary(3) == HeldSummary()
    await fill(stores)
    assert await stores.catch_up.summary(2) == HeldSummary(
        jobs=4,
        runs=5,
        oldest=T0,
        by_priority={9: 1, 5: 4},
        top=(HeldJob("mail", 2, T0 + MINUTE), HeldJob("billing-old", 1, T0)),
    )
    found = await stores.catch_up.summary(0, among=("billing-*",))
    assert found == HeldSummary(jobs=2, runs=2, oldest=T0, by_priority={5: 2})


async def test_a_move_another_wait_and_an_edit_end_the_hold(stores: Stores) -> None:
    await fill(stores)
    await stores.jobs.move([Move(job="mail", rev=0, next_fire=LATER, pending_run=a_pend(T0 + MINUTE))], 1)
    waiting = Waiting(fire=T0, since=T0, reason="another run of this job is open")
    await stores.jobs.defer({"billing-old": Deferral(0, LATER, waiting)})
    [record] = await stores.jobs.get(["urgent"])
    assert await stores.jobs.replace(replace(record, waiting=None), 0)
    assert await held(stores) == ["billing-new"]


async def test_a_read_of_what_is_due_may_leave_out_what_fell_due_earlier(stores: Stores) -> None:
    for minute in range(4):
        assert await stores.jobs.create(a_record(f"job-{minute}", T0 + minute * MINUTE))
    now = T0 + 2 * MINUTE
    found = await stores.jobs.due_in_turn(now, now + MINUTE, 10, 1, T0)
    assert sorted(record.name for record in found) == ["job-1", "job-2", "job-3"]
