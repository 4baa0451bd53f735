"""The sweep, on memory and on real servers: it finds each violated invariant, repairs it if possible, and finds nothing
else.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from cronflow.domain.cluster import Backlog
from cronflow.domain.events import SweepEnded, SweepFound
from cronflow.domain.job import JobRecord, PendingRun, PlanIntent
from cronflow.domain.run import Outcome, RunState, run_id
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.leader import sweep as sweeping
from cronflow.leader.plan_recovery import recover
from tests.contracts.builders import a_job, a_pend, a_run
from tests.leader.forging import HOUR, MINUTE, Forge, ServerForge


def record(forge: Forge, name: str = "report", **fields: Any) -> JobRecord:
    """A sound one: due in a minute."""
    base = JobRecord(
        job=a_job(name),
        next_fire=forge.now + MINUTE,
        due_at=forge.now + MINUTE,
        created_at=forge.now - 24 * HOUR,
        updated_at=forge.now - 24 * HOUR,
    )
    return replace(base, **fields)


async def a_sound_job(forge: Forge, **fields: Any) -> JobRecord:
    made = record(forge, **fields)
    assert await forge.backends.jobs.create(made)
    return made


async def a_stored_run(forge: Forge, ago: timedelta = MINUTE, **fields: Any) -> str:
    run = a_run(fire=forge.now - ago, check_at=forge.now + MINUTE)
    await forge.backends.runs.insert([replace(run, **fields)])
    return run.id


async def test_a_sound_cluster_has_no_findings_and_the_report_counts_what_was_checked(forge: Forge) -> None:
    await a_sound_job(forge, pending_run=a_pend(forge.now - MINUTE))
    await a_stored_run(forge)
    await a_stored_run(forge, HOUR, state=RunState.SUCCEEDED, check_at=None, ended_at=forge.now, outcome=Outcome.OK)
    await forge.is_up("n1")
    await forge.give_work_to("n1#a")
    summary, findings = await forge.sweep()
    assert findings == []
    assert (summary["checked"]["runs"], summary["checked"]["jobs"], summary["found"]) == (2, 1, 0)
    report = await forge.backends.store_admin.report()
    assert report is not None
    assert report.run == "_sys:sweep@1"
    assert abs(report.at - forge.clock.now()) < MINUTE
    assert forge.clock.pauses == []


async def test_an_open_run_without_check_at_is_found_and_passed_to_the_reconciler(forge: Forge) -> None:
    await a_sound_job(forge)
    run = await a_stored_run(forge)
    await forge.set_run(run, check_at=None)
    with capture_logs() as events:
        assert await forge.findings() == [("run_unwatched", run, True)]
    (entry,) = [event for event in events if event["event"] == "sweep finding"]
    assert (entry["log_level"], entry["kind"], entry["where"]) == ("error", "run_unwatched", run)
    found, ended = forge.events
    assert isinstance(found, SweepFound)
    assert (found.flaw, found.where, found.repaired) == ("run_unwatched", run, True)
    assert isinstance(ended, SweepEnded)
    assert (ended.run, ended.found) == ("_sys:sweep@1", 1)
    assert [found.id for found in await forge.backends.runs.overdue(10)] == [run]
    assert await forge.findings() == []


async def test_asynq_1144_orphan_active_an_open_run_outside_the_index_is_found(servers: ServerForge) -> None:
    """asynq #1144, #1158: a task was active without an entry in the set that the recoverer reads."""
    await a_sound_job(servers)
    run = await a_stored_run(servers)
    await servers.set_run(run, open=None)
    assert await servers.backends.runs.open_of(["report"]) == {}
    assert await servers.findings() == [("run_unwatched", run, True)]
    assert set(await servers.backends.runs.open_of(["report"])) == {"report"}
    (found,) = await servers.backends.runs.get([run])
    assert found.check_at == servers.now + MINUTE


async def test_a_run_that_is_overdue_by_more_than_an_hour_is_a_finding_and_by_less_is_none(forge: Forge) -> None:
    await a_sound_job(forge)
    late = await a_stored_run(forge, 3 * HOUR, check_at=forge.now - HOUR - MINUTE)
    await a_stored_run(forge, 2 * HOUR, check_at=forge.now - HOUR + MINUTE)
    assert await forge.findings() == [("run_overdue", late, True)]
    (found,) = await forge.backends.runs.get([late])
    assert found.check_at is not None
    assert abs(found.check_at - forge.clock.now()) < MINUTE
    assert found.vetoes == 1


async def test_a_new_leader_gets_an_hour_for_waiting_runs(forge: Forge) -> None:
    await a_sound_job(forge, next_fire=forge.now - 5 * HOUR, due_at=forge.now - 5 * HOUR)
    await a_stored_run(forge, 6 * HOUR, check_at=forge.now - 5 * HOUR)
    await forge.age_intent(PlanIntent(id="1-1", term=1, jobs=("report",)), forge.now - 5 * HOUR)
    await forge.backends.control.begin_term("n1#a#x")
    assert await forge.findings() == []


async def test_an_ended_run_that_is_still_marked_as_open_is_closed(forge: Forge) -> None:
    await a_sound_job(forge)
    run = await a_stored_run(forge, state=RunState.SUCCEEDED, check_at=None, ended_at=forge.now, outcome=Outcome.OK)
    await forge.set_run(run, check_at=forge.now + MINUTE)
    assert await forge.findings() == [("run_not_closed", run, True)]
    (found,) = await forge.backends.runs.get([run])
    assert (found.state, found.check_at) == (RunState.SUCCEEDED, None)
    if isinstance(forge, ServerForge):
        await forge.set_run(run, open=True)
        assert await forge.findings() == [("run_not_closed", run, True)]
        assert await forge.backends.runs.open_of(["report"]) == {}


async def test_runs_of_a_job_that_does_not_exist_are_reported_once_a_job(forge: Forge) -> None:
    for minutes in range(3):
        await a_stored_run(forge, minutes * MINUTE)
    assert await forge.findings() == [("run_without_job", "report", False)]


async def test_bull_1658_a_job_whose_schedule_has_stopped_goes_on(forge: Forge) -> None:
    """bull #1658: a repeatable job had no next fire any more, and nothing ever looked for that."""
    run = await a_stored_run(forge, state=RunState.SUCCEEDED, check_at=None, ended_at=forge.now, outcome=Outcome.OK)
    fire = forge.now - MINUTE
    await a_sound_job(forge, next_fire=None, due_at=None, pending_run=a_pend(fire))
    assert run == run_id("report", fire)
    assert await forge.findings() == [("job_without_cursor", "report", True)]
    (found,) = await forge.backends.jobs.get(["report"])
    assert (found.rev, found.active) == (1, True)
    assert found.next_fire == found.due_at
    assert found.next_fire is not None
    # The first instant that nothing covers, even if it is past: the planner decides what becomes of it.
    assert timedelta(0) < found.next_fire - fire <= MINUTE
    assert await forge.findings() == []


async def test_jobs_that_have_no_cursor_for_a_reason_are_no_findings(forge: Forge) -> None:
    done = forge.now - HOUR
    await forge.backends.runs.insert(
        [a_run("once", done, state=RunState.SUCCEEDED, check_at=None, ended_at=done, outcome=Outcome.OK)]
    )
    nowhere: dict[str, Any] = {"next_fire": None, "due_at": None}
    jobs = [
        record(forge, job=a_job("once", schedule=Once(done)), pending_run=a_pend(done), **nowhere),
        record(forge, job=a_job("over", schedule=Every("60s", end=forge.now - 48 * HOUR)), **nowhere),
        record(forge, job=a_job("by-hand", schedule=None), **nowhere),
        record(forge, job=a_job("paused"), paused=True, **nowhere),
        record(forge, job=a_job("disabled", enabled=False), **nowhere),
        record(forge, job=a_job("gone"), deleted_at=forge.now, **nowhere),
        # Its cursor waits, because a run of it is open or no node may run it: the planner moves `due_at` on.
        record(forge, job=a_job("waits"), next_fire=forge.now - 5 * HOUR, due_at=forge.now),
    ]
    for job in jobs:
        assert await forge.backends.jobs.create(job)
    assert await forge.findings() == []


async def test_a_job_without_a_cursor_and_with_an_open_run_is_no_finding(forge: Forge) -> None:
    await a_stored_run(forge)
    await a_sound_job(forge, next_fire=None, due_at=None, pending_run=a_pend(forge.now - MINUTE))
    assert await forge.findings() == []


async def test_a_job_that_the_planner_cannot_see_is_shown_to_it(forge: Forge) -> None:
    await a_sound_job(forge, due_at=None)
    assert await forge.findings() == [("job_hidden", "report", True)]
    assert [found.name for found in await forge.backends.jobs.due(forge.now + HOUR, 10)] == ["report"]
    if isinstance(forge, ServerForge):
        await forge.database["jobs"].update_one({"_id": "report"}, {"$set": {"active": False}})
        assert await forge.findings() == [("job_hidden", "report", True)]
        assert [found.name for found in await forge.backends.jobs.due(forge.now + HOUR, 10)] == ["report"]


async def test_a_job_that_was_not_planned_for_an_hour_is_reported(forge: Forge) -> None:
    await a_sound_job(forge, next_fire=forge.now - 2 * HOUR, due_at=forge.now - HOUR - MINUTE)
    assert await forge.findings() == [("job_behind", "report", False)]


async def test_a_missing_run_of_a_pending_run_is_inserted(forge: Forge) -> None:
    fire = forge.now - HOUR
    await a_sound_job(forge, pending_run=a_pend(fire, fence=77, at=forge.now - MINUTE))
    run = run_id("report", fire)
    assert await forge.findings() == [("pend_without_run", run, True)]
    (found,) = await forge.backends.runs.get([run])
    assert (found.fence, found.state, found.attempt) == (77, RunState.DISPATCHED, 1)
    assert [one.id for one in await forge.backends.runs.overdue(10)] == [run]
    assert await forge.findings() == []


async def test_a_pending_run_without_its_run_is_no_finding_while_an_intent_announces_it(forge: Forge) -> None:
    await a_sound_job(forge, pending_run=a_pend(forge.now - MINUTE))
    await forge.backends.plans.write(PlanIntent(id="7-1", term=7, jobs=("report",)))
    assert await forge.findings() == []


async def test_a_run_that_is_inserted_while_its_job_is_looked_at_is_no_finding(forge: Forge) -> None:
    fire = forge.now - MINUTE
    made = await a_sound_job(forge, pending_run=a_pend(fire))
    intent = PlanIntent(id="7-1", term=7, jobs=("report",))
    await forge.backends.plans.write(intent)
    existing = forge.backends.runs.existing

    async def and_then_inserted(ids: Any) -> set[str]:
        found = await existing(ids)
        forge.backends.runs.existing = existing  # type: ignore[method-assign]
        await forge.backends.runs.insert([a_run(fire=fire)])
        await forge.backends.plans.remove([intent.id])
        return found

    forge.backends.runs.existing = and_then_inserted  # type: ignore[method-assign]
    look = sweeping.Sweeping(forge.backends, forge.clock, 5, lambda *_: None)
    assert await look._without_run([made]) == []


async def test_the_pending_run_of_a_skipped_range_is_inserted_as_skipped(forge: Forge) -> None:
    pending_run = PendingRun(
        fire=forge.now - HOUR, state=RunState.SKIPPED, fence=5, job_ver=1, at=forge.now - HOUR, reason="misfire"
    )
    await a_sound_job(forge, pending_run=pending_run)
    assert [kind for kind, *_ in await forge.findings()] == ["pend_without_run"]
    (found,) = await forge.backends.runs.get([run_id("report", pending_run.fire)])
    assert (found.state, found.reason) == (RunState.SKIPPED, "misfire")


async def test_an_old_plan_intent_is_recovered(forge: Forge) -> None:
    fire = forge.now - 2 * HOUR
    await a_sound_job(forge, pending_run=a_pend(fire), rev=3, term=2)
    await forge.age_intent(PlanIntent(id="2-1", term=2, jobs=("report",)), fire)
    assert await forge.findings() == [("plan_left", "2-1", True)]
    (found,) = await forge.backends.jobs.get(["report"])
    assert (found.rev, found.term) == (4, 5)
    assert await forge.backends.runs.existing([run_id("report", fire)])
    assert await forge.backends.plans.left_behind(100, timedelta(0)) == []


async def test_an_intent_of_a_job_that_a_newer_term_has_written_stays_for_that_term(forge: Forge) -> None:
    await a_sound_job(forge, term=9)
    await forge.age_intent(PlanIntent(id="2-1", term=2, jobs=("report",)), forge.now - 2 * HOUR)
    assert await forge.findings(term=5) == [("plan_left", "2-1", False)]
    (intent,) = await forge.backends.plans.left_behind(9, HOUR)
    assert await recover(forge.backends.jobs, forge.backends.plans, forge.backends.runs, intent, 9)


async def test_the_list_of_a_dead_node_goes_and_that_of_a_live_one_stays(forge: Forge) -> None:
    await forge.is_up("n1")
    for node in ("n1#a", "n2#b"):
        await forge.give_work_to(node)
    assert await forge.findings() == []
    for node in ("n1#a", "n2#b"):
        await forge.endless_list(node)
    key = await forge.endless_list("n2#b")
    assert await forge.findings() == [("list_left", key, True)]
    assert (await forge.has_list("n1#a"), await forge.has_list("n2#b")) == (True, False)


async def test_a_lock_without_a_time_limit_gets_one(forge: Forge) -> None:
    key = await forge.endless_lock("report")
    assert await forge.findings() == [("key_for_ever", key, True)]
    assert await forge.lock_expires("report")
    assert await forge.findings() == []


async def test_an_index_that_is_missing_is_made(forge: Forge) -> None:
    name = await forge.lose_index()
    assert await forge.findings() == [("index_missing", name, True)]
    assert await forge.backends.store_admin.missing_indexes() == []


async def test_findings_are_counted_and_the_report_stays_small(forge: Forge) -> None:
    await forge.backends.jobs.create(record(forge))
    runs = [a_run(fire=forge.now - k * MINUTE, check_at=forge.now - 2 * HOUR) for k in range(130)]
    await forge.backends.runs.insert(runs)
    summary, findings = await forge.sweep()
    assert summary["found"] == 130
    assert len(findings) == 100


async def test_every_page_is_looked_at_and_none_is_larger_than_a_page(
    forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "PAGE", 4)
    for number in range(5):
        await forge.backends.jobs.create(record(forge, f"job-{number}"))
    for number in range(9):
        await forge.backends.runs.insert([a_run(f"job-{number % 5}", forge.now - number * MINUTE)])
    last = a_run("job-4", forge.now, check_at=forge.now + MINUTE)
    await forge.backends.runs.insert([last])
    await forge.set_run(last.id, check_at=None)
    sizes = []
    read = forge.backends.archive.runs

    async def counting(*, after: str = "", limit: int = 0) -> Any:
        page = await read(after=after, limit=limit)
        sizes.append(len(page))
        return page

    forge.backends.archive.runs = counting  # type: ignore[method-assign]
    summary, findings = await forge.sweep()
    assert summary["checked"]["runs"] == 10
    assert summary["checked"]["jobs"] == 5
    assert findings == [("run_unwatched", last.id, True)]
    assert sizes == [4, 4, 2, 0]


async def test_outcomes_that_wait_on_a_disk_for_an_hour_are_a_finding_and_those_of_an_outage_are_not(
    forge: Forge,
) -> None:
    await forge.is_up("fresh", spool=Backlog(3, 900, forge.now - 50 * MINUTE))
    await forge.is_up("stuck", spool=Backlog(3, 900, forge.now - 2 * HOUR))
    await forge.is_up("empty")
    assert await forge.findings() == [("spool_old", "stuck#a", False)]
    # Nobody led meanwhile: MongoDB was away, and the spools are being emptied.
    await forge.backends.control.begin_term("stuck#a")
    assert await forge.findings() == []


async def test_an_end_that_no_leader_has_answered_is_found_unless_it_was_only_written_late(forge: Forge) -> None:
    await a_sound_job(forge)
    ended = {"state": RunState.SUCCEEDED, "check_at": None, "outcome": Outcome.OK, "followed": True}
    run = await a_stored_run(forge, 3 * HOUR, ended_at=forge.now - 2 * HOUR, **ended)
    late = await a_stored_run(forge, 4 * HOUR, ended_at=forge.now - 3 * HOUR, **ended)
    sleep = forge.clock.sleep

    async def answered_meanwhile(seconds: float) -> None:
        await forge.backends.chains.answered([late])
        await sleep(seconds)

    forge.clock.sleep = answered_meanwhile  # type: ignore[method-assign]
    assert await forge.findings() == [("run_not_followed", run, False)]
