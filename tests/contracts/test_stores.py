"""The contract of the stores, on memory and on a real MongoDB."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from cronflow.domain import transitions
from cronflow.domain.job import Delivery, JobRecord, Pause, PlanIntent, Retry
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.placement import Waiting
from cronflow.domain.placement_rules import PlacedRun
from cronflow.domain.recovery import Dispatch, End, Postpone
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import OPEN, AttemptResult, Covers, NodeTimes, Outcome, ResourceUse, Run, RunState
from cronflow.domain.transitions import Change, ClaimedRun, Transition
from cronflow.ports import CursorMove, Deferral, LargeResult, LateResult, LogLine, Move, OpenRun, RunningRun, RunQuery
from tests.contracts.builders import T0, a_job, a_pend, a_record, a_run
from tests.contracts.conftest import Stores

LEASE = timedelta(seconds=45)
MINUTE = timedelta(minutes=1)
HELD = ClaimedRun(
    run=a_run().id,
    fence=100,
    node="n1#a",
    attempt=1,
    retry=Retry(),
    delivery=Delivery.AT_LEAST_ONCE,
    start_id="s1",
)


def a_move(record: JobRecord, fence: int = 100) -> Move:
    assert record.next_fire is not None
    pending_run = a_pend(record.next_fire, fence)
    return Move(job=record.name, rev=record.rev, next_fire=record.next_fire + MINUTE, pending_run=pending_run)


async def only_job(stores: Stores, name: str = "report") -> JobRecord:
    (found,) = await stores.jobs.get([name])
    return found


async def only_run(stores: Stores, run: str = a_run().id) -> Run:
    (found,) = await stores.runs.get([run])
    return found


# --------------------------------------------------------------------------------------------------------------- jobs


async def test_a_job_record_comes_back_as_it_was_stored(stores: Stores) -> None:
    record = a_record(
        pending_run=a_pend(covers=Covers(T0, T0 + MINUTE, 2), reason="misfire"),
        paused=True,
        term=3,
        rev=7,
        ver=2,
        fired=4,
        closed=T0,
    )
    assert await stores.jobs.create(record)
    assert await only_job(stores) == record


async def test_a_name_is_created_once(stores: Stores) -> None:
    assert await stores.jobs.create(a_record())
    assert not await stores.jobs.create(a_record(ver=9))
    assert await stores.jobs.create_all([a_record(ver=9), a_record("b"), a_record("c")]) == {"b", "c"}
    assert {record.name: record.ver for record in await stores.jobs.get(["report", "b", "c"])} == dict.fromkeys(
        ("report", "b", "c"), 1
    )
    assert await stores.jobs.create_all([]) == set()
    assert (await only_job(stores)).ver == 1


async def test_due_jobs_come_earliest_first_and_only_active_ones(stores: Stores) -> None:
    for name, offset in (("c", 2), ("a", 0), ("b", 1), ("later", 60)):
        await stores.jobs.create(a_record(name, T0 + timedelta(seconds=offset)))
    await stores.jobs.create(replace(a_record("paused"), paused=True))
    await stores.jobs.create(replace(a_record("gone"), deleted_at=T0))
    due = await stores.jobs.due(T0 + timedelta(seconds=2), 10)
    assert [record.name for record in due] == ["a", "b", "c"]
    assert [record.name for record in await stores.jobs.due(T0 + timedelta(seconds=2), 2)] == ["a", "b"]


async def test_jobs_get_their_turn_by_priority_however_many_wait(stores: Stores) -> None:
    """A job of the highest priority waited for minutes, because the planner read only the oldest hundred."""
    for k in range(30):
        record = a_record(f"low-{k:02}", T0 + timedelta(seconds=k))
        await stores.jobs.create(replace(record, job=replace(record.job, priority=0)))
    for name, offset, priority in (
        ("high", 40, 9),
        ("higher", 50, 9),
        ("middle", 45, 4),
        ("next", 70, 0),
        ("later", 80, 9),
    ):
        record = a_record(name, T0 + timedelta(seconds=offset))
        await stores.jobs.create(replace(record, job=replace(record.job, priority=priority)))
    await stores.jobs.create(replace(a_record("paused"), paused=True))
    now, until = T0 + timedelta(seconds=60), T0 + timedelta(seconds=90)
    found = [record.name for record in await stores.jobs.due_in_turn(now, until, 2)]
    # The best two, the oldest of any priority, and the next one.
    assert sorted(found) == ["high", "higher", "low-00", "next"]
    found = [record.name for record in await stores.jobs.due_in_turn(now, until, 2, 3)]
    assert sorted(found) == ["high", "higher", "later", "low-00", "next"]
    found = [record.name for record in await stores.jobs.due_in_turn(now, now, 16)]
    assert sorted(found) == ["high", "higher", *(f"low-{k:02}" for k in range(13)), "middle"]
    # Deferring and moving keep the turn.
    (high,) = await stores.jobs.get(["high"])
    await stores.jobs.defer({"high": Deferral(high.rev, high.due_at or T0, None, high.job.priority)})
    again = T0 + timedelta(seconds=41)
    assert await stores.jobs.move([replace(a_move(high), next_fire=again, priority=high.job.priority)], term=1)
    (first, *_) = await stores.jobs.due_in_turn(now, now, 1)
    assert (first.name, first.next_fire) == ("high", again)


async def test_a_move_writes_cursor_pend_and_term_and_counts_rev(stores: Stores) -> None:
    record = a_record()
    await stores.jobs.create(record)
    assert await stores.jobs.move([a_move(record)], term=5) == {"report"}
    moved = await only_job(stores)
    assert (moved.rev, moved.term, moved.next_fire, moved.due_at) == (1, 5, T0 + MINUTE, T0 + MINUTE)
    assert moved.pending_run == a_pend(T0, 100)


async def test_a_move_computed_from_an_older_rev_does_not_land(stores: Stores) -> None:
    record = a_record()
    await stores.jobs.create(record)
    assert await stores.jobs.move([a_move(record, fence=100)], term=5) == {"report"}
    assert await stores.jobs.move([a_move(record, fence=200)], term=5) == set()
    assert (await only_job(stores)).next_fire == T0 + MINUTE


async def test_quartz_107_a_job_that_looks_as_before_is_not_moved_by_an_old_reader(stores: Stores) -> None:
    """quartz #107, #29, #280, #731, metabase #70474: a trigger that had fired looked as before it, so that a second
    scheduler, whose comparison still held, fired it again.
    """
    record = a_record()
    await stores.jobs.create(record)
    # Written twice, and back to the same cursor: only `rev` differs.
    assert await stores.jobs.replace(replace(record, next_fire=T0 + MINUTE), rev=0)
    assert await stores.jobs.replace(record, rev=1)
    assert await stores.jobs.move([a_move(record)], term=5) == set()


async def test_a_deposed_leader_cannot_move_what_its_successor_has_written(stores: Stores) -> None:
    await stores.jobs.create(a_record())
    (fenced,) = await stores.jobs.fence(["report"], term=6)
    assert (fenced.term, fenced.rev) == (6, 1)
    assert await stores.jobs.move([a_move(fenced)], term=5) == set()
    assert await stores.jobs.move([a_move(fenced)], term=6) == {"report"}


async def test_fencing_a_job_makes_every_earlier_read_of_it_stale(stores: Stores) -> None:
    record = a_record()
    await stores.jobs.create(record)
    await stores.jobs.fence(["report"], term=5)
    assert await stores.jobs.move([a_move(record)], term=5) == set()


async def test_fencing_leaves_out_jobs_of_a_newer_term_and_missing_ones(stores: Stores) -> None:
    await stores.jobs.create(a_record("newer", term=9))
    assert await stores.jobs.fence(["newer", "missing"], term=5) == []


async def test_repeating_a_move_whose_answer_was_lost_tells_that_it_was_ours(stores: Stores) -> None:
    record, other = a_record(), a_record("other")
    await stores.jobs.create(record)
    await stores.jobs.create(other)
    moves = [a_move(record, fence=100), a_move(other, fence=101)]
    assert await stores.jobs.move(moves, term=5) == {"report", "other"}
    assert await stores.jobs.move(moves, term=5) == {"report", "other"}
    assert (await only_job(stores)).rev == 1


async def test_moves_of_one_term_follow_each_other(stores: Stores) -> None:
    await stores.jobs.create(a_record())
    for k in range(3):
        moved = await only_job(stores)
        assert moved.rev == k
        assert await stores.jobs.move([a_move(moved, fence=100 + k)], term=5) == {"report"}
    assert (await only_job(stores)).next_fire == T0 + 3 * MINUTE


async def test_a_job_is_fenced_again_in_the_same_term_and_each_time_what_was_read_before_is_stale(
    stores: Stores,
) -> None:
    await stores.jobs.create(a_record())
    for rev in (1, 2):
        (fenced,) = await stores.jobs.fence(["report"], term=5)
        assert (fenced.rev, fenced.term) == (rev, 5)


async def test_a_move_to_the_end_of_a_schedule_leaves_nothing_that_is_due(stores: Stores) -> None:
    record = a_record()
    await stores.jobs.create(record)
    assert await stores.jobs.move([replace(a_move(record), next_fire=None)], term=5) == {"report"}
    assert ((await only_job(stores)).next_fire, (await only_job(stores)).active) == (None, False)
    assert [row.marked_active for row in await stores.archive.jobs()] == [False]
    assert await stores.jobs.due(T0 + timedelta(days=1), 10) == []


async def test_a_move_counts_the_runs_of_a_job_that_has_only_so_many(stores: Stores) -> None:
    record = a_record(fired=3)
    await stores.jobs.create(record)
    counting = replace(a_move(record), counts=True)
    for _ in range(2):
        # The second time the answer was lost.
        assert await stores.jobs.move([counting], term=5) == {"report"}
        assert (await only_job(stores)).fired == 4
    assert await stores.jobs.move([replace(counting, pending_run=a_pend(T0, 200))], term=5) == set()
    assert await stores.jobs.move([replace(a_move(await only_job(stores), fence=300))], term=5) == {"report"}
    assert (await only_job(stores)).fired == 4


async def test_a_cursor_moves_without_a_run_and_everything_else_stays(stores: Stores) -> None:
    waiting = Waiting(fire=T0, since=T0, reason="the next run is due after the open one has ended")
    record = a_record(pending_run=a_pend(T0 - MINUTE), since=T0 - MINUTE, waiting=waiting, fired=2, ver=3)
    await stores.jobs.create(record)
    for _ in range(2):
        # The second time the answer was lost.
        assert await stores.jobs.reposition({"report": CursorMove(0, T0 + MINUTE)}, term=5) == {"report"}
    moved = replace(record, rev=1, term=5, next_fire=T0 + MINUTE, due_at=T0 + MINUTE, waiting=None)
    assert await only_job(stores) == moved
    assert await stores.jobs.due(T0 + timedelta(seconds=59), 10) == []
    assert [one.name for one in await stores.jobs.due(T0 + MINUTE, 10)] == ["report"]


async def test_a_cursor_does_not_move_if_its_job_has_changed_or_a_newer_leader_has_written_it(stores: Stores) -> None:
    await stores.jobs.create(a_record())
    await stores.jobs.create(a_record("other", rev=4))
    (fenced,) = await stores.jobs.fence(["report"], term=6)
    later = T0 + MINUTE
    assert await stores.jobs.reposition({"report": CursorMove(0, later)}, term=6) == set()
    assert await stores.jobs.reposition({"report": CursorMove(fenced.rev, later)}, term=5) == set()
    both = {"report": CursorMove(0, later), "other": CursorMove(4, later), "missing": CursorMove(0, later)}
    assert await stores.jobs.reposition(both, term=6) == {"other"}
    assert (await only_job(stores)).next_fire == T0
    assert await stores.jobs.reposition({"report": CursorMove(fenced.rev, later)}, term=6) == {"report"}
    # A move that was computed before is stale.
    assert await stores.jobs.move([a_move(fenced)], term=6) == set()


async def test_a_cursor_that_comes_back_is_the_beginning_of_its_version_and_one_that_ends_is_not_due(
    stores: Stores,
) -> None:
    record = a_record(since=T0, paused=True)
    await stores.jobs.create(record)
    await stores.jobs.create(a_record("other", since=T0))
    assert await stores.jobs.reposition({"report": CursorMove(0, T0 - MINUTE)}, term=1) == {"report"}
    earlier = T0 - MINUTE
    assert await only_job(stores) == replace(record, rev=1, term=1, next_fire=earlier, due_at=earlier, since=earlier)
    assert [row.marked_active for row in await stores.archive.jobs()] == [True, False]
    assert await stores.jobs.reposition({"other": CursorMove(0, None)}, term=1) == {"other"}
    assert [row.marked_active for row in await stores.archive.jobs()] == [False, False]
    assert ((await only_job(stores, "other")).next_fire, (await only_job(stores, "other")).since) == (None, T0)


async def test_replacing_makes_every_earlier_read_stale(stores: Stores) -> None:
    record = a_record()
    await stores.jobs.create(record)
    assert await stores.jobs.replace(record, rev=0)
    assert not await stores.jobs.replace(record, rev=0)
    assert await stores.jobs.move([a_move(record)], term=5) == set()


async def test_deferring_moves_only_due_at_and_only_at_the_same_rev(stores: Stores) -> None:
    record = a_record()
    await stores.jobs.create(record)
    waiting = Waiting(fire=T0, since=T0, reason="no node can run this job", nodes=(("n1#a", "draining"),), more=3)
    deferral = Deferral(0, T0 + timedelta(seconds=3), waiting)
    await stores.jobs.defer({"report": deferral, "missing": Deferral(0, T0)})
    deferred = await only_job(stores)
    assert (deferred.due_at, deferred.next_fire, deferred.rev) == (T0 + timedelta(seconds=3), T0, 0)
    assert deferred.waiting == waiting
    await stores.jobs.defer({"report": Deferral(8, T0)})
    assert (await only_job(stores)).due_at == T0 + timedelta(seconds=3)


async def test_why_a_job_waits_is_forgotten_by_the_move(stores: Stores) -> None:
    record = a_record(waiting=Waiting(fire=T0, since=T0, reason="another run of this job is open", blocked_by="r@1"))
    await stores.jobs.create(record)
    assert (await only_job(stores)).waiting == record.waiting
    await stores.jobs.move([a_move(record)], term=5)
    assert (await only_job(stores)).waiting is None


async def test_a_pause_is_kept_and_those_with_an_end_are_found_by_it(stores: Stores) -> None:
    pauses = {
        "late": Pause(at=T0, by="ada", note="broken", until=T0 + 2 * MINUTE),
        "early": Pause(at=T0, until=T0 + MINUTE),
        "for-ever": Pause(at=T0, by="ada"),
    }
    for name, pause in pauses.items():
        await stores.jobs.create(a_record(name, paused=True, pause=pause))
    await stores.jobs.create(a_record("of-0.9", paused=True))
    await stores.jobs.create(a_record("active"))
    found = await stores.jobs.pauses(10)
    assert [(record.name, record.pause) for record in found] == [(name, pauses[name]) for name in ("early", "late")]
    assert [record.name for record in await stores.jobs.pauses(1)] == ["early"]
    assert {record.name: record.pause for record in await stores.jobs.get(["for-ever", "of-0.9"])} == {
        "for-ever": pauses["for-ever"],
        "of-0.9": None,
    }
    assert await stores.jobs.replace(replace(found[0], paused=False, pause=None), found[0].rev)
    assert [record.name for record in await stores.jobs.pauses(10)] == ["late"]


async def test_replacing_compares_rev_and_keeps_the_definition(stores: Stores) -> None:
    await stores.jobs.create(a_record())
    changed = replace(a_record(), job=a_job(description="new", priority=9), ver=2)
    assert not await stores.jobs.replace(changed, rev=4)
    assert await stores.jobs.replace(changed, rev=0)
    stored = await only_job(stores)
    assert (stored.job, stored.ver, stored.rev) == (changed.job, 2, 1)


async def test_jobs_are_listed_by_name_without_tombstones_page_by_page(stores: Stores) -> None:
    for name in ("b", "a", "c"):
        await stores.jobs.create(a_record(name))
    await stores.jobs.create(a_record("dead", deleted_at=T0))
    assert [r.name for r in await stores.jobs.find(limit=2)] == ["a", "b"]
    assert [r.name for r in await stores.jobs.find(after="b")] == ["c"]


async def test_names_are_listed_in_order_by_prefix(stores: Stores) -> None:
    names = ["a", "etl", "etl-1", "etl-2", "etm", "x-etl"]
    for name in names:
        await stores.jobs.create(a_record(name, deleted_at=T0 if name == "etl-1" else None))
    assert await stores.jobs.names() == [name for name in names if name != "etl-1"]
    assert await stores.jobs.names(deleted=True) == names
    assert await stores.jobs.names(prefix="etl") == ["etl", "etl-2"]
    assert await stores.jobs.names(prefix="etl", deleted=True, after="etl") == ["etl-1", "etl-2"]
    assert await stores.jobs.names(after="etl", limit=1) == ["etl-2"]


async def test_edits_are_listed_in_order_with_tombstones(stores: Stores) -> None:
    for name, ver in (("b", 3), ("a", 1), ("c", 2)):
        await stores.jobs.create(a_record(name, ver=ver, deleted_at=T0 if name == "c" else None))
    assert await stores.jobs.edits() == [("a", 1, False), ("b", 3, False), ("c", 2, True)]
    assert await stores.jobs.edits(after="a", limit=1) == [("b", 3, False)]


# -------------------------------------------------------------------------------------------------------------- plans


async def test_notes_of_an_older_term_are_left_behind_at_once_and_own_ones_by_age(stores: Stores) -> None:
    await stores.plans.write(PlanIntent(id="4-1", term=4, jobs=("a", "b")))
    await stores.plans.write(PlanIntent(id="5-1", term=5, jobs=("c",)))
    await stores.plans.write(PlanIntent(id="edit-1", term=0, jobs=("d",)))
    old = await stores.plans.left_behind(5, timedelta(hours=1))
    assert old == [PlanIntent(id="4-1", term=4, jobs=("a", "b"))]
    every = await stores.plans.left_behind(5, timedelta(seconds=-1))
    assert {note.id for note in every} == {"4-1", "5-1", "edit-1"}


async def test_a_note_is_gone_once_removed(stores: Stores) -> None:
    await stores.plans.write(PlanIntent(id="4-1", term=4, jobs=("a",)))
    await stores.plans.remove(["4-1", "never-there"])
    assert await stores.plans.left_behind(5, timedelta(seconds=-1)) == []


# --------------------------------------------------------------------------------------------------------------- runs


async def test_a_run_comes_back_as_it_was_inserted(stores: Stores) -> None:
    run = a_run(covers=Covers(T0, T0 + MINUTE, None), args={"region": "eu"})
    await stores.runs.insert([run])
    assert await only_run(stores) == run


async def test_what_open_runs_reserve_is_listed_while_they_are_on_a_node(stores: Stores) -> None:
    half = ResourceAmount(0.5, 256 << 20)
    runs = [
        a_run("placed", reserved=half),
        a_run("running", state=RunState.RUNNING, node="n2#a", reserved=ResourceAmount(memory=1 << 20)),
        a_run("waits", state=RunState.RETRYING, reserved=half),
        a_run("ended", state=RunState.SUCCEEDED, check_at=None, ended_at=T0, outcome=Outcome.OK, reserved=half),
        a_run("plain"),
    ]
    await stores.runs.insert(runs)
    assert await only_run(stores, runs[0].id) == runs[0]
    found = {run.job: run for run in await stores.runs.reserving()}
    assert found == {
        "placed": PlacedRun(runs[0].id, "placed", "n1#a", half),
        "running": PlacedRun(runs[1].id, "running", "n2#a", ResourceAmount(memory=1 << 20)),
    }
    # A new dispatch replaces what it reserves, and a job without resources reserves nothing.
    for run, reserved in ((runs[0], ResourceAmount(1)), (runs[1], None)):
        verdict = Dispatch(
            Transition.REDISPATCH_UNTAKEN if run.state is RunState.DISPATCHED else Transition.REDISPATCH_LOST
        )
        change = transitions.dispatch(run, verdict, fence=200, term=2, node="n3#a", job_ver=1, at=T0, reserved=reserved)
        assert await stores.runs.apply([replace(change, only_when_due=False)])
    assert await stores.runs.reserving() == [PlacedRun(runs[0].id, "placed", "n3#a", ResourceAmount(1))]


async def test_an_open_run_has_its_node_unless_it_waits_to_be_dispatched(stores: Stores) -> None:
    waiting = Waiting(fire=T0, since=T0, reason="no node can run this job")
    runs = [
        a_run("placed"),
        a_run("running", state=RunState.RUNNING, started_at=T0),
        a_run("waits", waiting=waiting),
        a_run("retries", state=RunState.RETRYING),
    ]
    await stores.runs.insert(runs)
    found = await stores.runs.open_of([run.job for run in runs])
    assert {job: run.node for job, [run] in found.items()} == {
        "placed": "n1#a",
        "running": "n1#a",
        "waits": None,
        "retries": None,
    }


async def test_running_runs_are_found_by_their_start(stores: Stores) -> None:
    running: dict[str, Any] = {"state": RunState.RUNNING, "started_at": T0}
    await stores.runs.insert(
        [
            a_run("old", **running),
            a_run("young", **(running | {"started_at": T0 + MINUTE})),
            a_run("waits", started_at=T0),
            a_run("ended", state=RunState.SUCCEEDED, check_at=None, started_at=T0, ended_at=T0, outcome=Outcome.OK),
        ]
    )
    assert await stores.runs.running(T0, 9) == [RunningRun(a_run("old").id, "old", "n1#a", T0)]
    assert len(await stores.runs.running(T0 + MINUTE, 9)) == 2
    assert len(await stores.runs.running(T0 + MINUTE, 1)) == 1


async def test_google_sre_inserting_a_run_twice_tells_which_were_new_and_changes_nothing(stores: Stores) -> None:
    """Google's cron (SRE book, chapter 24): a failover between a launch and its record must not launch again, so a
    launch is named by its job and its scheduled time.
    """
    assert await stores.runs.insert([a_run()]) == {a_run().id}
    other = a_run(fire=T0 + MINUTE)
    assert await stores.runs.insert([a_run(fence=999), other]) == {other.id}
    assert (await only_run(stores)).fence == 100
    # The existing one came first and did not prevent the others.
    assert await stores.runs.existing([a_run().id, other.id, "missing@1"]) == {a_run().id, other.id}


async def test_a_start_needs_the_fence_and_happens_once(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    stale = replace(HELD, fence=99)
    assert await stores.runs.apply([transitions.start(stale, "s0", T0, LEASE)]) == set()
    first = transitions.start(HELD, "s1", T0, LEASE)
    assert await stores.runs.apply([first]) == {HELD.run}
    assert await stores.runs.apply([first]) == {HELD.run}  # a repetition of my own start is mine
    assert await stores.runs.apply([transitions.start(HELD, "s2", T0, LEASE)]) == set()  # a doubled item is not
    started = await only_run(stores)
    assert (started.state, started.start_id, started.started_at) == (RunState.RUNNING, "s1", T0)


async def test_a_finish_ends_the_run_and_removes_check_at(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    finish = transitions.finish(HELD, AttemptResult(Outcome.OK, result={"$rows": [1, "$x"]}), "f1", T0, T0 + MINUTE)
    assert await stores.runs.apply([finish]) == {HELD.run}
    ended = await only_run(stores)
    assert (ended.state, ended.outcome, ended.check_at) == (RunState.SUCCEEDED, Outcome.OK, None)
    assert (ended.result, ended.ended_at, ended.duration) == ({"$rows": [1, "$x"]}, T0 + MINUTE, MINUTE)
    assert [attempt.outcome for attempt in ended.attempts] == [Outcome.OK]
    assert await stores.runs.open_of(["report"]) == {}


async def test_what_an_attempt_used_and_why_its_run_waited_are_kept(stores: Stores) -> None:
    waited = Waiting(fire=T0, since=T0, reason="no free slot", nodes=(("n1", "no free slot"),))
    await stores.runs.insert([a_run(waited=waited)])
    used, times = ResourceUse(1.25, 4096), NodeTimes(T0, T0 + MINUTE, T0 + 2 * MINUTE)
    ended = transitions.finish(HELD, AttemptResult(Outcome.OK, used=used), "f1", T0, T0 + MINUTE, times=times)
    await stores.runs.apply([ended])
    run = await only_run(stores)
    assert (run.waited, run.attempts[0].used, run.attempts[0].times) == (waited, used, times)


async def test_bull_308_a_fenced_out_worker_cannot_finish_the_run(stores: Stores) -> None:
    """bull #308, #1243: who had lost the lock of a job completed it a second time; bull #1416: or wrote its failure
    into the job of the one who had the lock.
    """
    await stores.runs.insert([a_run(fence=101)])
    before = await only_run(stores)
    for attempt_result in (
        AttemptResult(Outcome.OK),
        AttemptResult(Outcome.ERROR, error="missing lock"),
        AttemptResult(Outcome.PERMANENT),
    ):
        assert await stores.runs.apply([transitions.finish(HELD, attempt_result, "f1", T0, T0)]) == set()
    assert await only_run(stores) == before


def a_change(word: str, run: Run) -> Change:
    """What happens to a run, in a word; the run is as it was read."""
    claimed = replace(HELD, run=run.id)
    endings = {
        "succeeds": AttemptResult(Outcome.OK),
        "fails": AttemptResult(Outcome.ERROR),
        "gives up": AttemptResult(Outcome.PERMANENT),
        "is drained": AttemptResult(Outcome.DRAINED),
    }
    if word in endings:
        return transitions.finish(claimed, endings[word], f"f-{word}", T0, T0)
    match word:
        case "starts":
            return transitions.start(claimed, "s1", T0, -LEASE)
        case "is renewed":
            return transitions.renew(claimed, -LEASE)
        case "is given back":
            return transitions.give_back(claimed, "f1", AttemptResult(Outcome.DRAINED), T0)
        case "is cancelled":
            return transitions.cancel(run, "", "", "f1", T0)
        case "is postponed":
            return transitions.postpone(run, Postpone(MINUTE))
        case "is dispatched again":
            return transitions.dispatch(
                run, Dispatch(Transition.REDISPATCH_UNTAKEN), fence=200, term=2, node="n2#b", job_ver=1, at=T0
            )
    return transitions.end(run, End(Transition.MARK_LOST, RunState.LOST, Outcome.LOST), "f1", T0)


@pytest.mark.parametrize(
    "story",
    [
        ("starts", "is renewed", "succeeds"),
        ("starts", "fails"),
        ("starts", "gives up"),
        ("starts", "is drained"),
        ("starts", "is cancelled", "succeeds"),
        ("starts", "is lost"),
        ("succeeds",),
        ("is given back",),
        ("is cancelled",),
        ("is postponed",),
        ("is dispatched again",),
    ],
    ids=", ".join,
)
async def test_asynq_371_state_and_deadline_change_in_one_write(stores: Stores, story: tuple[str, ...]) -> None:
    """asynq #371, #653: state and deadline lay in two places; where only one of them was written a task was active for
    ever, because nobody looked at it again.
    """
    await stores.runs.insert([a_run(fire=T0 - MINUTE)])
    run = await only_run(stores, a_run(fire=T0 - MINUTE).id)
    for word in story:
        assert await stores.runs.apply([a_change(word, run)]) == {run.id}
        run = await only_run(stores, run.id)
        (row,) = await stores.archive.rows([run.id])
        assert (row.marked_open, row.check_at is not None) == (run.is_open, run.is_open), word


async def test_an_ended_run_absorbs_every_further_change(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    await stores.runs.apply([transitions.finish(HELD, AttemptResult(Outcome.OK), "f1", T0, T0)])
    later = [
        transitions.finish(HELD, AttemptResult(Outcome.PERMANENT), "f2", T0, T0),
        transitions.start(HELD, "s1", T0, LEASE),
        transitions.renew(HELD, LEASE),
        transitions.cancel_old(a_run(), 2, "edited", "f3", T0),
    ]
    for change in later:
        assert await stores.runs.apply([change]) == set()
    assert (await only_run(stores)).state is RunState.SUCCEEDED


async def test_an_attempt_that_failed_is_tried_again_after_its_delay(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    failed = AttemptResult(Outcome.ERROR, error="no route to host")
    await stores.runs.apply([transitions.finish(HELD, failed, "f1", T0, T0)])
    run = await only_run(stores)
    assert (run.state, run.attempt, run.error) == (RunState.RETRYING, 1, "no route to host")
    assert run.check_at is not None
    assert timedelta(seconds=25) < run.check_at - datetime.now(UTC) <= timedelta(seconds=30)
    assert await stores.runs.overdue(10) == []
    assert await stores.runs.open_of(["report"]) == {"report": [OpenRun(run.id, RunState.RETRYING, T0)]}


async def test_the_most_overdue_of_the_runs_that_nodes_have_are_read(stores: Stores) -> None:
    runs = [a_run(fire=T0 - timedelta(days=day), priority=day) for day in (1, 3, 2)]
    fresh = a_run("fresh", check_at=datetime.now(UTC) + timedelta(hours=1))
    ended = a_run("ended", T0 - timedelta(days=9), state=RunState.SUCCEEDED, check_at=None, ended_at=T0)
    await stores.runs.insert([*runs, fresh, ended])
    overdue = await stores.runs.overdue(2)
    assert {run.fire_at for run in overdue} == {T0 - timedelta(days=3), T0 - timedelta(days=2)}


def a_waiting_run(job: str, minutes: int, priority: int) -> Run:
    """A run that has waited for a node for so long."""
    at = T0 - timedelta(minutes=minutes)
    return a_run(job, at, state=RunState.RETRYING, node=None, check_at=at, priority=priority)


async def test_waiting_runs_are_read_by_priority_and_the_oldest_of_any(stores: Stores) -> None:
    low = [a_waiting_run("low", 100 + k, priority=2) for k in range(30)]
    high = [a_waiting_run("high", k, priority=7) for k in range(1, 5)]
    later = a_run("later", state=RunState.RETRYING, check_at=datetime.now(UTC) + timedelta(hours=1), priority=9)
    await stores.runs.insert([*low, *high, later, a_run("taken")])
    found = await stores.runs.overdue(10, waiting=16)
    by_priority = {run.id for run in [*high, *low[-12:]]}
    assert {run.id for run in found} == by_priority | {a_run("taken").id}
    assert len(found) == 17
    # An eighth of sixteen: the two oldest have a low priority, and would not be read otherwise.
    await stores.runs.insert([a_waiting_run("high", 10 + k, priority=7) for k in range(20)])
    found = await stores.runs.overdue(10, waiting=16)
    assert {run.id for run in found if run.job == "low"} == {run.id for run in low[-2:]}
    assert sum(run.job == "high" for run in found) == 16


async def test_waiting_runs_of_some_jobs_are_left_out(stores: Stores) -> None:
    blocked = [a_waiting_run("blocked", k, priority=9) for k in range(5)]
    other, taken = a_waiting_run("other", 1, priority=0), a_run("blocked", T0 - timedelta(days=1))
    await stores.runs.insert([*blocked, other, taken])
    found = await stores.runs.overdue(3, without={"blocked"})
    assert {run.id for run in found} == {other.id, taken.id}


async def test_runs_that_wait_for_some_reasons_are_left_out(stores: Stores) -> None:
    def waiting(job: str, reason: str) -> Run:
        run = a_waiting_run(job, 1, priority=5)
        return replace(run, waiting=Waiting(fire=run.fire_at, since=T0, reason=reason))

    full, other, silent = waiting("a", "full"), waiting("b", "other"), a_waiting_run("c", 1, priority=5)
    await stores.runs.insert([full, other, silent])
    found = await stores.runs.overdue(10, reasons={"full", "unused"})
    assert {run.id for run in found} == {other.id, silent.id}


async def test_the_runs_that_nodes_have_are_found_by_job(stores: Stores) -> None:
    running = a_run("report", T0 - timedelta(days=1), state=RunState.RUNNING)
    waiting = [a_waiting_run("report", k, priority=5) for k in range(3)]
    ended = a_run("report", T0 - timedelta(days=2), state=RunState.SUCCEEDED, check_at=None, ended_at=T0)
    await stores.runs.insert([a_run(), running, *waiting, ended, a_run("other")])
    found = await stores.runs.taken_of(["report", "none"])
    assert {run.id: run.state for run in found["report"]} == {
        a_run().id: RunState.DISPATCHED,
        running.id: RunState.RUNNING,
    }
    assert found.keys() == {"report"}


async def test_a_run_keeps_its_place_in_the_queue_when_it_records_why_it_waits(stores: Stores) -> None:
    run = a_waiting_run("report", 5, priority=5)
    await stores.runs.insert([run])
    waiting = Waiting(fire=run.fire_at, since=T0, reason="another run of this job is open", blocked_by="report@x")
    assert await stores.runs.apply([transitions.hold(run, waiting)]) == {run.id}
    assert await only_run(stores, run.id) == replace(run, waiting=waiting)


async def test_an_edit_gives_open_runs_its_priority(stores: Stores) -> None:
    waiting, taken = a_waiting_run("report", 5, priority=5), a_run()
    await stores.runs.insert([waiting, taken])
    edited = replace(a_record("report", ver=2), job=a_job("report", priority=8))
    assert await stores.runs.apply([transitions.keep(waiting, edited), transitions.requeue(taken, edited, "f1")])
    found = await stores.runs.get([waiting.id, taken.id])
    assert {(run.state, run.job_ver, run.priority) for run in found} == {(RunState.RETRYING, 2, 8)}


async def test_asynq_717_a_reassignment_compares_the_run_as_it_was_seen(stores: Stores) -> None:
    """asynq #717: two recoverers took up the same task, and it was put back twice."""
    run = a_run(fire=T0 - timedelta(days=1))
    await stores.runs.insert([run])
    again = transitions.dispatch(
        run, Dispatch(Transition.REDISPATCH_UNTAKEN), fence=200, term=2, node="n2#b", job_ver=1, at=T0
    )
    assert await stores.runs.apply([again]) == {run.id}
    assert await stores.runs.apply([again]) == {run.id}  # its own repetition
    late = transitions.dispatch(
        run, Dispatch(Transition.REDISPATCH_UNTAKEN), fence=300, term=3, node="n3#c", job_ver=1, at=T0
    )
    assert await stores.runs.apply([late]) == set()
    moved = await only_run(stores, run.id)
    assert (moved.fence, moved.node, moved.redispatches, moved.term) == (200, "n2#b", 1, 2)
    assert moved.check_at is not None
    assert moved.check_at > datetime.now(UTC)


async def test_a_run_that_is_not_yet_overdue_is_not_reassigned(stores: Stores) -> None:
    run = a_run(check_at=datetime.now(UTC) + timedelta(hours=1))
    await stores.runs.insert([run])
    again = transitions.dispatch(
        run, Dispatch(Transition.REDISPATCH_UNTAKEN), fence=200, term=2, node="n2#b", job_ver=1, at=T0
    )
    assert await stores.runs.apply([again]) == set()


async def test_a_batch_of_changes_tells_which_of_them_won(stores: Stores) -> None:
    runs = [a_run(f"job-{k}") for k in range(5)]
    await stores.runs.insert(runs)
    claimed = [replace(HELD, run=run.id, fence=100 if k % 2 == 0 else 7) for k, run in enumerate(runs)]
    won = await stores.runs.apply([transitions.start(h, f"s{k}", T0, LEASE) for k, h in enumerate(claimed)])
    assert won == {runs[0].id, runs[2].id, runs[4].id}


async def test_renewing_needs_a_running_run_under_the_same_fence(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    assert await stores.runs.apply([transitions.renew(HELD, LEASE)]) == set()
    await stores.runs.apply([transitions.start(HELD, "s1", T0, timedelta(0))])
    assert await stores.runs.apply([transitions.renew(HELD, LEASE)]) == {HELD.run}
    assert await stores.runs.overdue(10) == []


async def test_only_the_newest_attempts_are_kept(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    for n in range(1, 31):
        claimed = replace(HELD, attempt=n, retry=Retry(max=50, initial="0s"))
        if n > 1:
            (run,) = await stores.runs.overdue(1)
            dispatch = transitions.dispatch(
                run, Dispatch(Transition.DISPATCH_RETRY), fence=100, term=1, node="n1#a", job_ver=1, at=T0
            )
            assert await stores.runs.apply([dispatch])
        assert await stores.runs.apply([transitions.finish(claimed, AttemptResult(Outcome.ERROR), f"f{n}", T0, T0)])
    attempts = (await only_run(stores)).attempts
    assert [attempt.n for attempt in attempts] == list(range(6, 31))


async def test_an_edit_cancels_what_waits_and_keeps_what_runs(stores: Stores) -> None:
    waiting, running = a_run("waiting"), a_run("running", state=RunState.RUNNING)
    await stores.runs.insert([waiting, running])
    edits = [
        transitions.cancel_old(waiting, 2, "edited", "f1", T0),
        transitions.keep(running, a_record("running", ver=2)),
    ]
    assert await stores.runs.apply(edits) == {waiting.id, running.id}
    cancelled, kept = await only_run(stores, waiting.id), await only_run(stores, running.id)
    assert (cancelled.state, cancelled.reason) == (RunState.CANCELLED, "edited")
    assert (kept.state, kept.job_ver) == (RunState.RUNNING, 2)


async def test_what_has_not_started_is_cancelled_and_what_runs_is_asked_to_end(stores: Stores) -> None:
    waiting, running = a_run("waiting"), a_run("running", state=RunState.RUNNING)
    await stores.runs.insert([waiting, running])
    asked = [transitions.cancel(run, "too slow", "ada", f"f-{run.job}", T0) for run in (waiting, running)]
    assert await stores.runs.apply(asked) == {waiting.id, running.id}
    assert await stores.runs.apply(asked) == {waiting.id, running.id}  # twice is once
    ended, goes_on = await only_run(stores, waiting.id), await only_run(stores, running.id)
    assert (ended.state, ended.reason, ended.check_at) == (RunState.CANCELLED, "cancelled by ada: too slow", None)
    assert (goes_on.state, goes_on.cancel_requested) == (RunState.RUNNING, True)
    assert (goes_on.cancel_reason, goes_on.cancel_by) == ("too slow", "ada")


async def test_a_finish_and_a_cancellation_never_both_win(stores: Stores) -> None:
    first, second = a_run("first", state=RunState.RUNNING), a_run("second")
    await stores.runs.insert([first, second])
    claimed = {run.id: replace(HELD, run=run.id) for run in (first, second)}
    # The finish comes first: the request finds an ended run and changes nothing.
    assert await stores.runs.apply([transitions.finish(claimed[first.id], AttemptResult(Outcome.OK), "f1", T0, T0)])
    assert await stores.runs.apply([transitions.cancel(first, "", "", "c1", T0)]) == set()
    done = await only_run(stores, first.id)
    assert (done.state, done.cancel_requested) == (RunState.SUCCEEDED, False)
    # The cancellation comes first: the finish is late.
    assert await stores.runs.apply([transitions.cancel(second, "", "", "c2", T0)])
    assert (
        await stores.runs.apply([transitions.finish(claimed[second.id], AttemptResult(Outcome.OK), "f2", T0, T0)])
        == set()
    )
    assert (await only_run(stores, second.id)).state is RunState.CANCELLED


async def test_a_run_whose_cancellation_was_asked_for_since_it_was_read_is_not_dispatched_again(
    stores: Stores,
) -> None:
    run = a_run(state=RunState.RUNNING, fire=T0 - timedelta(days=1))
    await stores.runs.insert([run])
    await stores.runs.apply([transitions.cancel(run, "", "", "c1", T0)])
    again = transitions.dispatch(
        run, Dispatch(Transition.REDISPATCH_LOST), fence=200, term=2, node="n2#b", job_ver=1, at=T0
    )
    assert await stores.runs.apply([again]) == set()
    verdict = End(Transition.CONFIRM_CANCEL, RunState.CANCELLED, Outcome.CANCELLED, reason="by hand")
    assert await stores.runs.apply([transitions.end(run, verdict, "f1", T0)]) == {run.id}
    ended = await only_run(stores, run.id)
    assert (ended.state, ended.outcome, ended.reason) == (RunState.CANCELLED, Outcome.CANCELLED, "by hand")
    assert ended.check_at is None


async def test_a_declined_run_waits_for_another_node_and_keeps_who_declined_it(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    declined = transitions.finish(HELD, AttemptResult(Outcome.DECLINED, error="no shell here"), "f1", None, T0)
    assert await stores.runs.apply([declined]) == {HELD.run}
    run = await only_run(stores)
    assert (run.state, run.attempt) == (RunState.RETRYING, 0)
    (kept,) = run.attempts
    assert (kept.outcome, kept.node, kept.error, kept.started_at) == (Outcome.DECLINED, "n1#a", "no shell here", None)
    assert [found.id for found in await stores.runs.overdue(5)] == [run.id]


async def test_a_cancelled_run_comes_back_as_it_was_inserted(stores: Stores) -> None:
    run = a_run(state=RunState.RUNNING, cancel_requested=True, cancel_reason="r", cancel_by="b")
    await stores.runs.insert([run])
    assert await only_run(stores) == run


async def test_runs_are_listed_newest_first_by_job_state_and_page(stores: Stores) -> None:
    runs = [a_run("a", T0 + k * MINUTE) for k in range(5)] + [a_run("b", T0 + 9 * MINUTE, state=RunState.RUNNING)]
    await stores.runs.insert(runs)
    assert [run.job for run in await stores.runs.find(RunQuery(limit=2))] == ["b", "a"]
    assert [run.id for run in await stores.runs.find(RunQuery(states={RunState.RUNNING}))] == [runs[5].id]
    first = await stores.runs.find(RunQuery(job="a", limit=2))
    page = await stores.runs.find(RunQuery(job="a", limit=2, before=(first[-1].fire_at, first[-1].id)))
    assert [run.id for run in first + page] == [runs[k].id for k in (4, 3, 2, 1)]
    since = await stores.runs.find(RunQuery(job="a", since=T0 + 3 * MINUTE))
    assert [run.id for run in since] == [runs[4].id, runs[3].id]


async def test_the_runs_of_a_job_are_counted_by_their_days_the_newest_ones(stores: Stores) -> None:
    day = timedelta(days=1)
    states = [RunState.SUCCEEDED, RunState.FAILED, RunState.SUCCEEDED, RunState.RUNNING]
    runs = [a_run("a", T0 - k * day - n * MINUTE, state=state) for k in range(3) for n, state in enumerate(states)]
    await stores.runs.insert([*runs, a_run("b", T0)])
    first = {RunState.SUCCEEDED: 2, RunState.FAILED: 1, RunState.RUNNING: 1}
    today = T0.date()
    assert await stores.runs.days("a", T0 - day - 3 * MINUTE, 100) == {today: first, today - day: first}
    assert await stores.runs.days("a", T0 - 9 * day, 5) == {today: first, today - day: {RunState.SUCCEEDED: 1}}
    assert await stores.runs.days("c", T0 - day, 5) == {}


async def test_runs_are_listed_by_id_node_time_and_any_mixture_of_states(stores: Stores) -> None:
    states = [RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED, RunState.RETRYING, RunState.LOST]
    nodes = ["n1#a", "n1#b", "n10#a", None, "n1#a", "n2#a"]
    runs = [
        a_run("a", T0 + k * MINUTE, state=state, node=node, ended_at=None if state in OPEN else T0)
        for k, (state, node) in enumerate(zip(states, nodes, strict=True))
    ]
    await stores.runs.insert(runs)

    async def found(**fields: Any) -> list[int]:
        return [runs.index(run) for run in await stores.runs.find(RunQuery(**fields))]

    some = [runs[0].id, runs[5].id, runs[4].id, "missing@1"]
    assert await found(ids=some) == [5, 4, 0]
    assert await found(ids=some, limit=2) == [5, 4]
    assert await found(ids=some, states={RunState.RUNNING, RunState.LOST}, node="n1") == [0]
    assert await found(ids=some, dead=True) == [5]
    assert await found(ids=[]) == []
    assert await found(node="n1") == [4, 1, 0]
    assert await found(node="n1#a") == [4, 0]
    assert await found(node="n") == []
    assert await found(since=T0 + MINUTE, until=T0 + 3 * MINUTE) == [2, 1]
    assert await found(states={RunState.RUNNING, RunState.LOST, RunState.FAILED}) == [5, 2, 0]
    assert await found(states={RunState.RUNNING, RunState.LOST, RunState.FAILED}, limit=2) == [5, 2]
    assert await found(states={RunState.SUCCEEDED, RunState.RETRYING}) == [4, 1]
    assert await found(states={RunState.RETRYING}, node="n1", until=T0 + 5 * MINUTE) == [4]
    before = (runs[5].fire_at, runs[5].id)
    assert await found(states=set(states), before=before, until=T0 + 9 * MINUTE, limit=3) == [4, 3, 2]


async def test_a_late_result_is_kept_once(stores: Stores) -> None:
    late = LateResult(
        run="r", fence=1, node="n", at=T0, attempt_result=AttemptResult(Outcome.OK, {"a": 1}), finish_id="f1"
    )
    await stores.runs.keep_late([late])
    await stores.runs.keep_late([late])
    assert await stores.late.of("r") == [late]


# --------------------------------------------------------------------------------------------------- logs and control


async def test_log_lines_come_back_in_order_once_and_from_where_one_left_off(stores: Stores) -> None:
    def line(n: int, fence: int = 100) -> LogLine:
        return LogLine(run="r@1", job="r", fence=fence, attempt=1, n=n, at=T0, level="info", text=f"line {n}")

    await stores.logs.append([line(1), line(0)])
    await stores.logs.append([line(1), line(2), line(0, fence=200)])
    lines = await stores.logs.read("r@1")
    assert [(found.fence, found.n) for found in lines] == [(100, 0), (100, 1), (100, 2), (200, 0)]
    assert await stores.logs.read("r@1", after=(100, 1)) == lines[2:]
    assert await stores.logs.read("other@1") == []


async def test_lines_of_one_attempt_are_removed_by_their_numbers(stores: Stores) -> None:
    def line(n: int, run: str = "r@1", fence: int = 100) -> LogLine:
        return LogLine(run=run, job="r", fence=fence, attempt=1, n=n, at=T0, level="info", text=f"line {n}")

    others = [line(2, fence=200), line(2, "other@1")]
    await stores.logs.append([*map(line, range(5)), *others])
    for _ in range(2):
        await stores.logs.remove("r@1", 100, 1, 4)
    assert await stores.logs.read("r@1") == [line(0), line(4), others[0]]
    assert await stores.logs.read("other@1") == [others[1]]


async def test_terms_count_up_and_their_ranges_of_tokens_do_not_overlap(stores: Stores) -> None:
    first = await stores.control.begin_term("n1#a#x")
    second = await stores.control.begin_term("n2#b#y")
    assert (first.number, second.number) == (1, 2)
    assert first.fence_low < first.fence_high <= second.fence_low < second.fence_high
    now_us = datetime.now(UTC).timestamp() * 1_000_000
    assert abs(first.fence_low - now_us) < 60_000_000


async def test_river_197_only_the_newest_term_may_reserve_more_tokens(stores: Stores) -> None:
    """river #197: a renewal did not compare the leader, so that every caller succeeded."""
    first = await stores.control.begin_term("n1#a#x")
    high = await stores.control.extend(first.number, "n1#a#x")
    assert high is not None
    assert high >= first.fence_high
    second = await stores.control.begin_term("n2#b#y")
    assert second.fence_low >= high
    assert await stores.control.extend(first.number, "n1#a#x") is None
    assert await stores.control.extend(second.number, "somebody else") is None
    # Two terms within two minutes: what is reserved lies further ahead than an extension would reach.
    assert await stores.control.extend(second.number, "n2#b#y") == second.fence_high


async def test_the_same_holder_under_a_newer_term_reserves_nothing_for_the_older(stores: Stores) -> None:
    first = await stores.control.begin_term("n1#a#x")
    await stores.control.begin_term("n1#a#x")
    assert await stores.control.extend(first.number, "n1#a#x") is None


async def test_the_leader_record_names_the_newest_holder(stores: Stores) -> None:
    assert await stores.control.leader() is None
    await stores.control.begin_term("n1#a#x")
    record = await stores.control.leader()
    assert record is not None
    assert (record.term, record.holder) == (1, "n1#a#x")


async def test_a_ping_is_a_round_trip_in_seconds(stores: Stores) -> None:
    now = asyncio.get_running_loop().time
    began = now()
    trip_s = await stores.control.ping()
    assert 0 <= trip_s <= now() - began


@pytest.mark.parametrize("size", [1, 500])
async def test_a_batch_of_any_size_moves_inserts_and_ends(stores: Stores, size: int) -> None:
    records = [a_record(f"job-{k:03}") for k in range(size)]
    for record in records:
        await stores.jobs.create(record)
    moves = [a_move(record, fence=100 + k) for k, record in enumerate(records)]
    assert len(await stores.jobs.move(moves, term=1)) == size
    runs = [a_run(record.name) for record in records]
    assert len(await stores.runs.insert(runs)) == size
    ends = [
        transitions.finish(replace(HELD, run=run.id), AttemptResult(Outcome.OK), f"f{run.id}", None, T0) for run in runs
    ]
    assert len(await stores.runs.apply(ends)) == size


@pytest.mark.parametrize("marked", [False, True])
async def test_a_deferred_attempt_is_given_back_unused_whether_its_start_was_marked_or_not(
    stores: Stores, marked: bool
) -> None:
    once = replace(HELD, delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0))
    await stores.runs.insert([a_run()])
    if marked:
        assert await stores.runs.apply([transitions.start(once, "s1", T0, LEASE)])
    deferral = transitions.finish(
        once, AttemptResult(Outcome.DEFERRED, error="circuit open", delay=MINUTE), "f1", T0, T0
    )
    assert await stores.runs.apply([deferral]) == {a_run().id}
    run = await only_run(stores)
    assert (run.state, run.attempt, run.started_at, run.start_id) == (RunState.RETRYING, 0, None, None)
    assert run.check_at is not None
    # Before the start of an attempt under this fence, and never after: it has gone back.
    assert not await stores.runs.apply([transitions.start(once, "s2", T0, LEASE)])


# ------------------------------------------------------------------------------------------------------ large results


async def test_a_large_result_comes_back_as_it_was_and_is_kept_once(stores: Stores) -> None:
    deep: object = 2**63
    for _ in range(150):
        deep = {"$": deep}
    # More than one call's worth, with what no document of MongoDB could hold.
    results = [
        LargeResult(id="f0", run="r", text=orjson.dumps(deep).decode()),
        *(LargeResult(id=f"f{n}", run="r", text=f'"{n}{"é" * 3_000_000}"') for n in range(1, 5)),
    ]
    await stores.results.keep(results)
    await stores.results.keep([replace(results[0], text="1"), *results[1:2]])
    found = await stores.results.get(["f0", "f4", "nobody"])
    assert found == {"f0": deep, "f4": f"4{'é' * 3_000_000}"}
    assert await stores.results.get([]) == {}


async def test_a_run_and_a_late_result_say_how_large_the_result_is_that_is_kept_apart(stores: Stores) -> None:
    attempt_result = AttemptResult(Outcome.OK, result_size=9000)
    await stores.runs.insert([a_run()])
    await stores.runs.apply([transitions.finish(HELD, attempt_result, "f1", T0, T0 + MINUTE)])
    ended = await only_run(stores)
    assert (ended.state, ended.result, ended.result_size, ended.finish_id) == (RunState.SUCCEEDED, None, 9000, "f1")
    late = LateResult(run=ended.id, fence=1, node="n", at=T0, attempt_result=attempt_result, finish_id="f2")
    await stores.runs.keep_late([late])
    assert await stores.late.of(ended.id) == [late]


# ---------------------------------------------------------------------------------------------------- maintenance mode


async def test_the_maintenance_mode_is_kept_until_it_is_ended(stores: Stores) -> None:
    assert await stores.control.maintenance() is None
    assert not await stores.control.end_maintenance()
    mode = MaintenanceMode(since=T0, by="ada", note="upgrade", until=T0 + timedelta(hours=1))
    await stores.control.begin_maintenance(mode)
    assert await stores.control.maintenance() == mode
    longer = replace(mode, until=None)
    await stores.control.begin_maintenance(longer)
    assert await stores.control.maintenance() == longer
    assert not await stores.control.end_maintenance(T0 + timedelta(seconds=1))
    assert await stores.control.end_maintenance(T0)
    assert await stores.control.maintenance() is None
    # It is no leader.
    assert await stores.control.leader() is None


async def test_the_cursors_are_right_by_the_data_that_were_kept_until_other_data_are_claimed(stores: Stores) -> None:
    control = stores.control
    assert await control.claim_zone_data("2026a", 1) is False
    # It died before it had corrected anything.
    assert await control.claim_zone_data("2026a", 2) is False
    await control.keep_zone_data("2026a", 2)
    assert await control.claim_zone_data("2026a", 3) is True
    # The data have changed while it leads, and changed back.
    assert await control.claim_zone_data("2026b", 3) is False
    assert await control.claim_zone_data("2026a", 3) is False


async def test_a_deposed_leader_neither_claims_the_data_nor_keeps_them(stores: Stores) -> None:
    control = stores.control
    assert await control.claim_zone_data("2026a", 1) is False
    assert await control.claim_zone_data("2026b", 2) is False
    for data in ("2026a", "2026b"):
        await control.keep_zone_data(data, 1)
        assert await control.claim_zone_data("2026b", 2) is False
    assert await control.claim_zone_data("2026a", 1) is None
    assert await control.claim_zone_data("2026b", 2) is False
    await control.keep_zone_data("2026b", 2)
    assert await control.claim_zone_data("2026a", 1) is None
    assert await control.claim_zone_data("2026b", 2) is True
