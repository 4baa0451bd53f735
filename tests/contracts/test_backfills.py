"""The contract of the backfills' store, and of what the runs' store has for it, on memory and on a real MongoDB."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain.backfill import (
    Backfill,
    BackfillRate,
    BackfillScope,
    BackfillState,
    FireOutline,
    backfill_id,
)
from cronflow.domain.run import Covers, Kind, Run, RunState, backfill_run_id, replay_id
from cronflow.ports import RunQuery
from tests.contracts.builders import T0, a_run
from tests.contracts.conftest import Stores

MINUTE = timedelta(minutes=1)
INSTANTS = [T0 + n * MINUTE for n in range(5)]


def a_backfill(number: int = 1, job: str = "report", **fields: object) -> Backfill:
    base = Backfill(
        id=backfill_id(job, number),
        job=job,
        state=BackfillState.RUNNING,
        scope=BackfillScope.MISSING,
        first=T0,
        last=INSTANTS[-1],
        rate=BackfillRate(10, "m"),
        total=len(INSTANTS),
        first_instant=T0,
        last_instant=INSTANTS[-1],
        due_at=T0,
        by="ada",
        created_at=T0 + number * MINUTE,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def run_of(backfill: Backfill, n: int, **fields: object) -> Run:
    made = a_run(backfill.job, INSTANTS[n], id=backfill_run_id(backfill.id, INSTANTS[n]), kind=Kind.BACKFILL)
    return replace(made, **fields)  # type: ignore[arg-type]


ENDED = {"state": RunState.SUCCEEDED, "check_at": None, "ended_at": T0}


async def test_a_backfill_is_stored_once_and_read_as_it_was(stores: Stores) -> None:
    one = a_backfill()
    assert await stores.backfills.create(one, INSTANTS)
    assert not await stores.backfills.create(replace(one, by="bob"), INSTANTS)
    assert await stores.backfills.get(one.id) == one
    assert await stores.backfills.get("report~b2") is None


async def test_the_leader_reads_the_next_instants_of_each_that_it_watches(stores: Stores) -> None:
    one, other, plain = a_backfill(), a_backfill(2, "other", inserted=4), a_backfill(3, "plain", rate=None)
    for backfill in (one, other, plain):
        await stores.backfills.create(backfill, INSTANTS)
    await stores.backfills.close(plain.id, BackfillState.DONE, T0)
    found = await stores.backfills.watched(3)
    assert [(watched.backfill, list(watched.upcoming)) for watched in found] == [
        (one, INSTANTS[:3]),
        (other, INSTANTS[4:]),
    ]


async def test_the_cursor_moves_from_where_it_was_read_and_only_while_running(stores: Stores) -> None:
    one = a_backfill()
    await stores.backfills.create(one, INSTANTS)
    assert await stores.backfills.advance(one.id, 0, 2, T0 + MINUTE)
    assert not await stores.backfills.advance(one.id, 0, 2, T0 + MINUTE)
    assert await stores.backfills.get(one.id) == replace(one, inserted=2, due_at=T0 + MINUTE)
    await stores.backfills.cancel(one.id, "bob", "wrong", T0)
    assert not await stores.backfills.advance(one.id, 2, 3, T0)


async def test_a_cancelled_backfill_is_watched_until_it_is_closed(stores: Stores) -> None:
    one = a_backfill()
    await stores.backfills.create(one, INSTANTS)
    assert not await stores.backfills.close(one.id, BackfillState.CANCELLED, T0)
    assert await stores.backfills.cancel(one.id, "bob", "wrong", T0 + MINUTE)
    assert not await stores.backfills.cancel(one.id, "eve", "", T0)
    assert not await stores.backfills.close(one.id, BackfillState.DONE, T0)
    cancelled = replace(one, state=BackfillState.CANCELLED, cancelled_by="bob", reason="wrong", ended_at=T0 + MINUTE)
    assert [watched.backfill for watched in await stores.backfills.watched(1)] == [cancelled]
    assert await stores.backfills.close(one.id, BackfillState.CANCELLED, T0)
    assert not await stores.backfills.close(one.id, BackfillState.CANCELLED, T0)
    assert await stores.backfills.watched(1) == []
    assert await stores.backfills.get(one.id) == replace(cancelled, watched=False)


async def test_a_backfill_that_is_done_can_no_longer_be_cancelled(stores: Stores) -> None:
    one = a_backfill()
    await stores.backfills.create(one, INSTANTS)
    assert await stores.backfills.close(one.id, BackfillState.DONE, T0 + MINUTE)
    assert not await stores.backfills.close(one.id, BackfillState.DONE, T0)
    assert not await stores.backfills.cancel(one.id, "bob", "", T0)
    done = replace(one, state=BackfillState.DONE, ended_at=T0 + MINUTE, watched=False)
    assert await stores.backfills.get(one.id) == done


async def test_backfills_are_listed_newest_first_and_by_job(stores: Stores) -> None:
    made = [a_backfill(1), a_backfill(2), a_backfill(1, "other", created_at=T0 + 2 * MINUTE)]
    for backfill in made:
        await stores.backfills.create(backfill, INSTANTS)
    assert await stores.backfills.find() == [made[1], made[2], made[0]]
    assert await stores.backfills.find(job="report") == [made[1], made[0]]
    first = (await stores.backfills.find(limit=1))[0]
    assert await stores.backfills.find(before=(first.created_at, first.id)) == [made[2], made[0]]


async def test_runs_are_counted_by_backfill_and_state(stores: Stores) -> None:
    one, other = a_backfill(), a_backfill(2)
    await stores.runs.insert([run_of(one, 0), run_of(one, 1), run_of(one, 2, **ENDED), run_of(other, 0), a_run()])
    assert await stores.backfills.counts([one.id, "report~b9"]) == {
        one.id: {RunState.DISPATCHED: 2, RunState.SUCCEEDED: 1},
        "report~b9": {},
    }


async def test_runs_of_a_backfill_are_found_and_keep_their_kind(stores: Stores) -> None:
    one = a_backfill()
    run, scheduled = run_of(one, 0), a_run(fire=INSTANTS[1])
    replay = replace(run, id=replay_id(run.id, 1), kind=Kind.REPLAY, replay_of=run.id)
    await stores.runs.insert([run, scheduled, replay])
    assert await stores.runs.find(RunQuery(backfill=one.id)) == [run]
    assert await stores.runs.find(RunQuery(backfill="report~b2")) == []
    for kinds, found in (
        ({Kind.BACKFILL}, [run]),
        ({Kind.REPLAY}, [replay]),
        ({Kind.BACKFILL, Kind.INTERVAL}, [scheduled, run]),
        ({Kind.REPLAY, Kind.BACKFILL}, [replay, run]),
    ):
        assert await stores.runs.find(RunQuery(kinds=kinds)) == found


async def test_outlines_have_both_ends_of_the_range_and_are_paged(stores: Stores) -> None:
    covers = Covers(INSTANTS[1], INSTANTS[2], 2)
    runs = [a_run(fire=instant) for instant in INSTANTS]
    runs[1] = replace(runs[1], covers=covers, **ENDED)  # type: ignore[arg-type]
    await stores.runs.insert([*runs, a_run("other", INSTANTS[1])])
    found = await stores.runs.outlines("report", INSTANTS[1], INSTANTS[3])
    assert found == [
        FireOutline(runs[1].id, INSTANTS[1], RunState.SUCCEEDED, covers),
        FireOutline(runs[2].id, INSTANTS[2], RunState.DISPATCHED, None),
        FireOutline(runs[3].id, INSTANTS[3], RunState.DISPATCHED, None),
    ]
    after = found[0].fire_at, found[0].id
    assert await stores.runs.outlines("report", INSTANTS[1], INSTANTS[3], after=after, limit=1) == found[1:2]


async def test_a_backfill_is_forgotten_when_it_is_old_closed_and_without_runs(stores: Stores) -> None:
    names = ("gone", "recent", "watched", "has-runs")
    made = {name: a_backfill(job=name) for name in names}
    for name, backfill in made.items():
        await stores.backfills.create(backfill, INSTANTS)
        if name == "watched":
            await stores.backfills.cancel(backfill.id, "bob", "", T0)
        else:
            ended = T0 + MINUTE if name == "recent" else T0
            await stores.backfills.close(backfill.id, BackfillState.DONE, ended)
    await stores.runs.insert([run_of(made["has-runs"], 0, **ENDED)])
    assert await stores.backfills.forget(T0 + MINUTE) == 1
    assert {one.job for one in await stores.backfills.find()} == {"recent", "watched", "has-runs"}
