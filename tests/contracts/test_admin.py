"""The contracts of Archive, Upkeep and Housekeeping, on every backend; what the sweep and the clean-up make of them is
tested with those.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronflow.backends.redis.keys import RedisKeys
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.sweep import Finding, Flaw, SweepReport
from cronflow.ports import JobReach, LargeResult, LateResult, LogLine
from tests.contracts.builders import T0, a_pend, a_record, a_report, a_run, an_assignment
from tests.contracts.conftest import Coordination, Stores
from tests.waiting import eventually

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def ended(fire: datetime, at: datetime | None = None, job: str = "report", **fields: Any) -> Run:
    return replace(
        a_run(job, fire), state=RunState.SUCCEEDED, check_at=None, outcome=Outcome.OK, ended_at=at or fire, **fields
    )


# ------------------------------------------------------------------------------------------------------------ Archive


async def test_all_runs_are_read_by_id_page_by_page(stores: Stores) -> None:
    runs = [ended(T0 + k * MINUTE) for k in range(4)] + [a_run(fire=T0 + HOUR)]
    await stores.runs.insert(runs)
    first = await stores.archive.runs(limit=3)
    rest = await stores.archive.runs(after=first[-1].id, limit=3)
    assert [row.id for row in first + rest] == [run.id for run in runs]
    assert await stores.archive.runs(after=rest[-1].id) == []
    last = rest[-1]
    assert (last.job, last.state, last.marked_open) == ("report", RunState.DISPATCHED, True)
    assert (last.fire_at, last.check_at, last.ended_at) == (T0 + HOUR, T0 + HOUR + timedelta(seconds=10), None)
    assert (first[0].marked_open, first[0].ended_at, first[0].scheduled) == (False, T0, True)
    assert await stores.archive.rows([last.id, "nobody"]) == [last]


async def test_all_jobs_are_read_by_name_with_their_mark_and_tombstones_can_be_asked_for(stores: Stores) -> None:
    await stores.jobs.create(a_record("a"))
    await stores.jobs.create(replace(a_record("b"), deleted_at=T0 - HOUR, next_fire=None, due_at=None))
    await stores.jobs.create(a_record("c", deleted_at=T0 + HOUR))
    rows = await stores.archive.jobs(limit=2) + await stores.archive.jobs(after="b", limit=2)
    assert [(row.record.name, row.marked_active) for row in rows] == [("a", True), ("b", False), ("c", False)]
    assert [row.record.name for row in await stores.archive.jobs(deleted_before=T0)] == ["b"]
    assert [row.record.name for row in await stores.archive.jobs(deleted_before=T0 + 2 * HOUR, after="b")] == ["c"]


async def test_old_runs_are_read_by_their_fire_and_id_strictly_before_and_after_the_last_one(stores: Stores) -> None:
    runs = [
        ended(T0 - HOUR),
        a_run("a", fire=T0),
        ended(T0, job="b"),
        ended(T0, job="c", at=T0 + HOUR),
        ended(T0 + MINUTE, at=T0 - HOUR),
    ]
    await stores.runs.insert(runs[::-1])
    first = await stores.archive.due_before(T0 + MINUTE, limit=2)
    assert [row.id for row in first] == [runs[0].id, runs[1].id]
    rest = await stores.archive.due_before(T0 + MINUTE, after=(first[-1].fire_at, first[-1].id))
    assert [row.id for row in rest] == [runs[2].id, runs[3].id]
    assert await stores.archive.due_before(T0 + MINUTE, after=(rest[-1].fire_at, rest[-1].id)) == []


async def test_a_job_has_passed_its_newest_scheduled_fire_that_was_recorded_before(stores: Stores) -> None:
    await stores.jobs.create_all([a_record("report"), a_record("new")])
    await stores.runs.insert(
        [
            ended(T0 - 3 * HOUR),
            ended(T0 - 2 * HOUR),
            # Recorded too late to count, although its fire is before.
            ended(T0 - HOUR, created_at=T0 + MINUTE),
            ended(T0 + HOUR),
            ended(T0 - MINUTE, id="report@manual-1"),
            ended(T0 + HOUR, job="new"),
            ended(T0 - HOUR, job="report-2"),
        ]
    )
    assert await stores.archive.reach(["report", "new", "nobody"], T0) == {
        "report": JobReach(cursor=T0, pending_fire=None, passed=T0 - 2 * HOUR, abandoned=False),
        "new": JobReach(cursor=T0, pending_fire=None, passed=None, abandoned=False),
    }


@pytest.mark.parametrize(
    ("deleted", "pending", "abandoned"),
    [(True, False, True), (False, False, False), (True, True, False)],
    ids=["tombstone", "active job", "tombstone with a pending run"],
)
async def test_a_job_is_abandoned_when_it_is_an_unchanged_tombstone_without_a_pending_run(
    stores: Stores, deleted: bool, pending: bool, abandoned: bool
) -> None:
    record = a_record(
        deleted_at=T0 - HOUR if deleted else None, pending_run=a_pend(T0) if pending else None, updated_at=T0
    )
    await stores.jobs.create(record)
    found = (await stores.archive.reach(["report"], T0 + MINUTE))["report"]
    assert found == JobReach(cursor=T0, pending_fire=T0 if pending else None, passed=None, abandoned=abandoned)
    assert not (await stores.archive.reach(["report"], T0))["report"].abandoned


async def test_only_runs_that_ended_before_are_deleted_and_only_once(stores: Stores) -> None:
    odd = a_run(fire=T0 - 3 * HOUR, ended_at=T0 - 2 * HOUR)
    runs = [ended(T0 - HOUR), ended(T0 - MINUTE, at=T0), a_run(fire=T0 - 2 * HOUR), odd]
    await stores.runs.insert(runs)
    ids = [run.id for run in runs]
    assert await stores.archive.delete_runs(ids, T0) == 1
    assert await stores.archive.delete_runs(ids, T0) == 0
    assert await stores.runs.existing(ids) == set(ids[1:])


async def test_large_results_go_with_their_runs(stores: Stores) -> None:
    runs = [ended(T0 - HOUR), ended(T0 - MINUTE, at=T0)]
    await stores.runs.insert(runs)
    # The second one came too late, and went as it came.
    kept = [(runs[0].id, "f1"), (runs[0].id, "f2"), (runs[1].id, "f3")]
    await stores.results.keep([LargeResult(id=finish, run=run, text="{}") for run, finish in kept])
    await stores.archive.delete_runs([run.id for run in runs], T0)
    assert await stores.results.get(["f1", "f2", "f3"]) == {"f3": {}}


async def test_late_results_go_with_their_run_and_those_of_other_runs_stay(stores: Stores) -> None:
    gone, kept = ended(T0 - HOUR), ended(T0)
    await stores.runs.insert([gone, kept])
    lates = [
        LateResult(run=run.id, fence=1, node="n", at=T0, attempt_result=AttemptResult(Outcome.OK), finish_id=run.id)
        for run in (gone, kept)
    ]
    await stores.runs.keep_late(lates)
    assert await stores.archive.delete_runs([gone.id, kept.id], T0) == 1
    assert (await stores.late.of(gone.id), await stores.late.of(kept.id)) == ([], [lates[1]])


async def test_a_tombstone_is_deleted_by_rev_and_only_without_runs(stores: Stores) -> None:
    await stores.jobs.create(a_record("alive"))
    await stores.jobs.create(a_record(deleted_at=T0, rev=4, pending_run=a_pend()))
    await stores.runs.insert([ended(T0)])
    assert not await stores.archive.delete_job("report", 4)
    await stores.archive.delete_runs([ended(T0).id], T0 + MINUTE)
    assert not await stores.archive.delete_job("report", 3)
    assert not await stores.archive.delete_job("alive", 0)
    assert await stores.archive.delete_job("report", 4)
    assert [record.name for record in await stores.jobs.get(["report", "alive"])] == ["alive"]


async def test_marking_leaves_sound_runs_as_they_are(stores: Stores) -> None:
    runs = [ended(T0), a_run(fire=T0 + MINUTE)]
    await stores.runs.insert(runs)
    await stores.archive.repair_marks([run.id for run in runs])
    assert {run.id: run for run in await stores.runs.get([run.id for run in runs])} == {run.id: run for run in runs}


async def test_the_replica_set_tells_who_keeps_the_store(stores: Stores) -> None:
    found = await stores.store_admin.replica_set()
    assert found.version.split(".")[0].isdigit()
    assert found.name
    assert (found.members >= 1, found.away) == (True, ())


# ------------------------------------------------------------------------------------------------------------- Upkeep


async def test_the_time_of_the_store_is_a_time_in_utc(stores: Stores) -> None:
    assert abs(await stores.store_admin.time() - datetime.now(UTC)) < MINUTE


async def test_no_index_is_missing_after_opening(stores: Stores) -> None:
    assert await stores.store_admin.missing_indexes() == []
    await stores.store_admin.make_indexes()


async def test_log_lines_go_when_they_are_too_old_and_the_age_can_be_changed(stores: Stores) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    lines = [
        LogLine(run="r", job="j", fence=1, attempt=1, n=n, at=now - age, level="info", text="x")
        for n, age in enumerate((3 * HOUR, 90 * MINUTE, MINUTE))
    ]
    await stores.logs.append(lines)

    async def kept(*expected: LogLine) -> None:
        async def seen() -> bool:
            return await stores.logs.read("r") == list(expected)

        await eventually(seen, what="the lines that are too old are gone")

    await stores.store_admin.keep_lines(2 * HOUR)
    await kept(*lines[1:])
    await stores.store_admin.keep_lines(2 * HOUR)
    await stores.store_admin.keep_lines(HOUR)
    await kept(lines[2])


async def test_the_last_report_is_kept(stores: Stores) -> None:
    assert await stores.store_admin.report() is None
    first = SweepReport(at=T0, run="_sys:sweep@1", took_ms=3, checked={"runs": 2}, found=0, findings=())
    finding = Finding(kind=Flaw.RUN_OVERDUE, where="a@1", what="late", repaired=True)
    second = replace(first, run="_sys:sweep@2", found=1, findings=(finding,))
    for report in (first, second):
        await stores.store_admin.write_report(report)
    found = await stores.store_admin.report()
    assert found is not None
    assert replace(found, findings=tuple(found.findings)) == second
    assert await stores.control.leader() is None


# ------------------------------------------------------------------------------------------------------- Housekeeping


async def every_endless(coordination: Coordination) -> list[str]:
    found, cursor = [], 0
    while True:
        cursor, page = await coordination.coordination_admin.keys_without_ttl(cursor)
        found += [one.key for one in page]
        if cursor == 0:
            return found


async def test_whatever_the_roles_write_expires_by_itself(coordination: Coordination) -> None:
    report = a_report()
    await coordination.membership.report(report, 5)
    assert await coordination.election.acquire("leader#1#x", 5)
    await coordination.election.install("leader#1#x", 1, "boot")
    await coordination.election.ask_to_resign(1)
    items = [an_assignment("report@1"), an_assignment("report@2"), an_assignment("report@3", fence=101)]
    for node in (report.id, "dead#1"):
        assert await coordination.queue.dispatch(1, "boot", {node: items})
        # The first is taken, the others are put back into a list that was emptied.
        taken = await coordination.queue.take(node, 3)
        assert taken.put_back == 2
    assert await every_endless(coordination) == []
    assert await coordination.coordination_admin.set_ttl([], 1) == 0


async def test_only_what_has_no_time_limit_gets_one(coordination: Coordination, namespace: str) -> None:
    assert await coordination.election.acquire("leader#1#x", 5)
    await coordination.election.install("leader#1#x", 1, "boot")
    await coordination.queue.dispatch(1, "boot", {"n1#a": [an_assignment()]})
    assert (await coordination.queue.take("n1#a", 1)).assignments
    name = "lock:job:report"
    # Under its name on each backend: the lock has a time limit, and the other one does not exist.
    assert await coordination.coordination_admin.set_ttl([RedisKeys(namespace).prefix + name, name], 3600) == 0


async def test_a_node_that_fell_silent_a_moment_ago_is_not_forgotten(coordination: Coordination) -> None:
    await coordination.membership.report(a_report("n1"), 0.01)

    async def silent() -> bool:
        return not (await coordination.membership.holdings(["n1#a"]))["n1#a"][0]

    await eventually(silent)
    assert await coordination.coordination_admin.forget_nodes(HOUR) == 0


async def test_a_node_is_forgotten_when_it_has_been_silent_for_so_long(coordination: Coordination) -> None:
    await coordination.membership.report(a_report("n1"), 0.05)
    assert await coordination.coordination_admin.forget_nodes(HOUR) == 0

    async def forgotten() -> bool:
        return await coordination.coordination_admin.forget_nodes(timedelta(milliseconds=100)) == 1

    await eventually(forgotten, what="the silent node is forgotten")
    await coordination.membership.report(a_report("n2"), 5)
    assert await coordination.coordination_admin.forget_nodes(HOUR) == 0
    assert [member.report.name for member in await coordination.membership.members()] == ["n2"]
