"""The contract of the stores that explain: versions, late outcomes, dead letters, and what runs remember."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain import transitions
from cronflow.domain.job import Delivery, Retry
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.recovery import Dispatch, End, Postpone
from cronflow.domain.run import AttemptResult, Kind, Outcome, Resolution, Run, RunState, Settled
from cronflow.domain.transitions import ClaimedRun, Transition
from cronflow.domain.version import Version
from cronflow.ports import LateResult, RunQuery
from tests.contracts.builders import T0, a_job, a_pend, a_record, a_run
from tests.contracts.conftest import Stores

MINUTE = timedelta(minutes=1)
PLACED = Placement("n1#a", 0.25, (("n2#b", 0.5), ("n3#c", "draining")), 4)
WAITING = Waiting(fire=T0, since=T0, reason="no node can run this job", nodes=(("n1#a", "no free slot"),), more=2)
ACK = Resolution(Settled.ACKNOWLEDGED, T0, "ann@desk", "known")


def a_dead_run(minute: int = 0, job: str = "report", **fields: object) -> Run:
    ended = {"state": RunState.FAILED, "check_at": None, "ended_at": T0, "outcome": Outcome.ERROR, "error": "no"}
    return a_run(job, T0 + minute * MINUTE, **(ended | fields))


async def only_run(stores: Stores, run: str = a_run().id) -> Run:
    (found,) = await stores.runs.get([run])
    return found


def a_version(ver: int, name: str = "report", **fields: object) -> Version:
    base = Version(job=a_job(name), ver=ver, at=T0 + ver * MINUTE, since=T0 + ver * MINUTE)
    return replace(base, **fields)  # type: ignore[arg-type]


async def test_versions_come_back_in_their_order_and_only_those_of_the_job(stores: Stores) -> None:
    kept = [a_version(ver, closed=T0, until=T0 + MINUTE) if ver == 9 else a_version(ver) for ver in (2, 10, 9, 1)]
    kept[1] = replace(kept[1], since=None, deleted=True, paused=True, by="ann@desk")
    await stores.versions.keep([*kept, a_version(1, "report-2"), a_version(1, "repor")])
    assert await stores.versions.of("report") == sorted(kept, key=lambda version: version.ver)
    assert [version.ver for version in await stores.versions.of("report", limit=2)] == [9, 10]
    assert await stores.versions.of("nobody") == []


async def test_a_version_that_is_kept_never_changes(stores: Stores) -> None:
    await stores.versions.keep([a_version(1)])
    await stores.versions.keep([a_version(1, by="somebody else"), a_version(2)])
    assert [version.by for version in await stores.versions.of("report")] == ["", ""]


async def test_where_a_version_began_and_who_edited_is_kept_with_the_job(stores: Stores) -> None:
    record = a_record(since=T0, edited_by="ann@desk")
    await stores.jobs.create(record)
    assert await stores.jobs.get(["report"]) == [record]


async def test_the_placement_of_a_run_is_kept_with_its_pend_and_with_itself(stores: Stores) -> None:
    record = a_record(pending_run=a_pend(placement=PLACED, blocked_by="report@1", kind=Kind.CRON))
    await stores.jobs.create(record)
    assert await stores.jobs.get(["report"]) == [record]
    run = a_run(placement=PLACED, blocked_by="report@1")
    await stores.runs.insert([run])
    assert await only_run(stores) == run


async def test_a_run_remembers_why_it_waits_until_it_is_dispatched(stores: Stores) -> None:
    run = a_run(state=RunState.RETRYING, check_at=T0 - MINUTE)
    await stores.runs.insert([run])
    assert await stores.runs.apply([transitions.postpone(run, Postpone(timedelta(0)), WAITING)])
    waiting = await only_run(stores)
    assert waiting.waiting == WAITING
    again = transitions.dispatch(
        waiting, Dispatch(Transition.DISPATCH_RETRY), fence=200, term=2, node="n1#a", job_ver=1, at=T0, placement=PLACED
    )
    assert await stores.runs.apply([again])
    placed = await only_run(stores)
    assert (placed.waiting, placed.placement) == (None, PLACED)


# --------------------------------------------------------------------------------------------------------------- late


async def test_late_outcomes_are_read_by_their_run_in_their_order(stores: Stores) -> None:
    def late(at: timedelta, finish_id: str, run: str = "report@1") -> LateResult:
        attempt_result = AttemptResult(Outcome.ERROR, {"rows": 2}, "too late")
        return LateResult(run=run, fence=7, node="n1#a", at=T0 + at, attempt_result=attempt_result, finish_id=finish_id)

    found = [late(MINUTE, "f1"), late(timedelta(0), "f2")]
    await stores.runs.keep_late([*found, late(MINUTE, "f3", "report@2")])
    assert await stores.late.of("report@1") == found[::-1]
    assert await stores.late.of("nobody@1") == []


# ------------------------------------------------------------------------------------------------------- dead letters


async def test_a_run_that_fails_or_is_lost_is_a_dead_letter_and_no_other(stores: Stores) -> None:
    runs = [a_run(fire=T0 + k * MINUTE, check_at=T0 - MINUTE) for k in range(3)]
    await stores.runs.insert(runs)
    await stores.runs.insert([a_dead_run(3), a_dead_run(4, state=RunState.SUCCEEDED), a_dead_run(5, "other")])
    claimed = ClaimedRun(
        run=runs[0].id, fence=100, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE
    )
    ended = [
        transitions.finish(claimed, AttemptResult(Outcome.PERMANENT, error="no"), "f1", None, T0),
        transitions.end(runs[1], End(Transition.FAIL, RunState.FAILED, Outcome.POISON, "poison"), "f2", T0),
    ]
    assert len(await stores.runs.apply(ended)) == 2
    dead = [run.id for run in await stores.runs.find(RunQuery(dead=True))]
    assert dead == [a_dead_run(5, "other").id, a_dead_run(3).id, runs[1].id, runs[0].id]
    assert [run.id for run in await stores.runs.find(RunQuery(dead=True, job="other"))] == [dead[0]]
    assert await stores.dead_letters.newest(10) == dead
    assert await stores.dead_letters.newest(2) == dead[:2]
    assert await stores.dead_letters.count() == 4
    assert (await stores.dead_letters.count("report"), await stores.dead_letters.count("nobody")) == (3, 0)


async def test_a_lost_run_is_a_dead_letter_too(stores: Stores) -> None:
    run = a_run(state=RunState.RUNNING, check_at=T0 - MINUTE)
    await stores.runs.insert([run])
    lost = transitions.end(run, End(Transition.MARK_LOST, RunState.LOST, Outcome.LOST, "its node was lost"), "f1", T0)
    assert await stores.runs.apply([lost]) == {run.id}
    assert await stores.dead_letters.count() == 1
    assert (await only_run(stores)).is_dead


async def test_acknowledging_changes_the_resolution_and_nothing_else(stores: Stores) -> None:
    run = a_dead_run()
    await stores.runs.insert([run])
    assert await stores.dead_letters.settle([run.id, "missing@1"], ACK) == {run.id}
    assert await only_run(stores) == replace(run, resolution=ACK)
    assert await stores.dead_letters.count() == 0
    assert await stores.runs.find(RunQuery(dead=True)) == []


async def test_an_acknowledgement_is_not_overwritten_by_another_one(stores: Stores) -> None:
    run = a_dead_run()
    await stores.runs.insert([run])
    await stores.dead_letters.settle([run.id], ACK)
    assert await stores.dead_letters.settle([run.id], replace(ACK, by="bob")) == set()
    assert (await only_run(stores)).resolution == ACK


async def test_what_is_open_or_went_well_cannot_be_acknowledged(stores: Stores) -> None:
    well = a_dead_run(1, state=RunState.SUCCEEDED)
    await stores.runs.insert([a_run(), well])
    assert await stores.dead_letters.settle([a_run().id, well.id], ACK) == set()


async def test_a_replay_settles_whatever_has_ended_but_nothing_that_is_open(stores: Stores) -> None:
    well, dead = a_dead_run(1, state=RunState.SUCCEEDED), a_dead_run(2)
    await stores.runs.insert([a_run(), well, dead])
    await stores.dead_letters.settle([dead.id], ACK)
    replayed = Resolution(Settled.REPLAYED, T0, "bob", run=f"{dead.id}~r1")
    assert await stores.dead_letters.settle([a_run().id, well.id, dead.id], replayed) == {well.id, dead.id}
    assert (await only_run(stores, dead.id)).resolution == replayed
    assert (await only_run(stores)).resolution is None


async def test_a_settled_run_still_absorbs(stores: Stores) -> None:
    run = a_dead_run()
    await stores.runs.insert([run])
    await stores.dead_letters.settle([run.id], ACK)
    claimed = ClaimedRun(run=run.id, fence=100, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)
    assert await stores.runs.apply([transitions.finish(claimed, AttemptResult(Outcome.OK), "f9", None, T0)]) == set()
    assert (await only_run(stores)).state is RunState.FAILED


async def test_runs_of_several_jobs_are_listed_in_both_orders(stores: Stores) -> None:
    runs = [a_run(f"job-{k % 3}", T0 + k // 2 * MINUTE) for k in range(9)]
    await stores.runs.insert(runs)
    expected = sorted((run for run in runs if run.job != "job-1"), key=lambda run: (run.fire_at, run.id))
    for oldest_first in (True, False):
        query = RunQuery(jobs=["job-0", "job-2", "nobody"], oldest_first=oldest_first, limit=2)
        found: list[Run] = []
        while page := await stores.runs.find(query):
            found += page
            query = replace(query, before=(page[-1].fire_at, page[-1].id))
        assert found == (expected if oldest_first else expected[::-1])
    assert await stores.runs.find(RunQuery(jobs=[])) == []
    last = (runs[-1].fire_at, runs[-1].id)
    assert await stores.runs.find(RunQuery(since=T0, before=last, oldest_first=True)) == []
    assert await stores.runs.find(RunQuery(since=T0 + 99 * MINUTE, before=(T0, ""), oldest_first=True)) == []


async def test_dead_letters_of_several_jobs_are_listed(stores: Stores) -> None:
    dead = [a_dead_run(k, f"job-{k}") for k in range(4)]
    await stores.runs.insert([*dead, a_run("job-1")])
    assert await stores.runs.find(RunQuery(dead=True, jobs=["job-1", "job-3"])) == [dead[3], dead[1]]


async def test_runs_are_listed_by_kind(stores: Stores) -> None:
    await stores.runs.insert([a_run(), a_run(fire=T0 + MINUTE, kind=Kind.MANUAL), a_dead_run(2, kind=Kind.REPLAY)])
    found = await stores.runs.find(RunQuery(kinds={Kind.REPLAY, Kind.INTERVAL}))
    assert [run.kind for run in found] == [Kind.REPLAY, Kind.INTERVAL]
