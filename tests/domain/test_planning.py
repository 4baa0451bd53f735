"""The decision about a fire (run, skip, wait), and the position of the cursor."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.job import Job, JobRecord, Misfire, MisfirePolicy, Overlap, PythonTarget
from cronflow.domain.planning import Fire, SkipFire, Wait, decide, decide_early, first_fire, run_of_pending, wait_for
from cronflow.domain.run import Covers, Kind, RunState
from cronflow.domain.schedule.kinds import Cron, Every, Once
from tests.contracts.builders import T0, a_job, a_pend, a_record

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def a_minutely(misfire: Misfire | None = None, overlap: Overlap = Overlap.FORBID, fire: datetime = T0) -> JobRecord:
    job = a_job(misfire=misfire or Misfire(), overlap=overlap)
    return replace(a_record(due_at=fire), job=job)


def test_a_fire_that_is_due_runs_and_the_cursor_moves_to_the_next() -> None:
    assert decide(a_minutely(), T0 + SECOND, []) == Fire(T0, T0 + MINUTE)


def test_a_fire_that_is_not_due_waits() -> None:
    assert decide(a_minutely(), T0 - SECOND, []) == Wait("not due")


def test_a_fire_is_planned_before_its_instant_within_the_window_alone() -> None:
    record = a_minutely()
    assert decide_early(record, T0 - SECOND, T0, False) == Fire(T0, T0 + MINUTE)
    assert decide_early(record, T0 - SECOND, T0 - timedelta(microseconds=1), False) is None
    # From its instant on, misfires and overlap count.
    assert decide_early(record, T0, T0 + SECOND, False) is None
    assert decide_early(replace(record, next_fire=None), T0 - SECOND, T0, False) is None


@pytest.mark.parametrize("overlap", Overlap)
def test_an_open_run_is_decided_at_the_instant_unless_runs_may_overlap(overlap: Overlap) -> None:
    found = decide_early(a_minutely(overlap=overlap), T0 - SECOND, T0, True)
    assert (found is not None) == (overlap is Overlap.ALLOW)


def test_the_acknowledgement_of_a_run_is_due_ten_seconds_after_its_instant_or_its_planning() -> None:
    early, late = a_pend(at=T0 - 2 * SECOND), a_pend(at=T0 + MINUTE)
    assert run_of_pending(a_job(), early, 1).check_at == T0 + 10 * SECOND
    assert run_of_pending(a_job(), late, 1).check_at == T0 + MINUTE + 10 * SECOND


def test_fires_within_late_after_each_get_a_run_of_their_own() -> None:
    record = replace(a_record(), job=a_job(schedule=Every("1s")))
    assert decide(record, T0 + 60 * SECOND, []) == Fire(T0, T0 + SECOND)
    assert decide(record, T0 + 61 * SECOND, []) == Fire(T0, T0 + 62 * SECOND, Covers(T0, T0 + 61 * SECOND, 62))


def test_missed_fires_become_one_run_that_covers_them() -> None:
    now = T0 + 10 * MINUTE + SECOND
    assert decide(a_minutely(), now, []) == Fire(T0, T0 + 11 * MINUTE, Covers(T0, T0 + 10 * MINUTE, 11))


def test_one_missed_fire_is_a_run_without_a_range() -> None:
    job = a_job(schedule=Cron("0 12 * * *"))
    assert decide(replace(a_record(), job=job), T0 + timedelta(hours=5), []) == Fire(T0, T0 + DAY)


def test_beyond_its_grace_a_missed_fire_is_skipped_and_recorded() -> None:
    job = a_job(schedule=Cron("0 12 * * *"), misfire=Misfire(grace=timedelta(hours=1)))
    record = replace(a_record(), job=job)
    assert isinstance(decide(record, T0 + timedelta(minutes=59), []), Fire)
    assert decide(record, T0 + timedelta(minutes=61), []) == SkipFire(T0, T0 + DAY, "misfire")


def test_skip_leaves_the_fresh_fire_to_the_next_round() -> None:
    now = T0 + 10 * MINUTE + SECOND
    decision = decide(a_minutely(Misfire(policy=MisfirePolicy.SKIP)), now, [])
    assert decision == SkipFire(T0, T0 + 10 * MINUTE, "misfire", Covers(T0, T0 + 9 * MINUTE, 10))
    after = a_minutely(Misfire(policy=MisfirePolicy.SKIP), fire=T0 + 10 * MINUTE)
    assert decide(after, now, []) == Fire(T0 + 10 * MINUTE, T0 + 11 * MINUTE)


def test_catching_up_skips_all_but_the_newest_and_then_runs_one_by_one() -> None:
    policy = Misfire(policy=MisfirePolicy.CATCH_UP, max_catch_up=3)
    now = T0 + 10 * MINUTE + SECOND
    assert decide(a_minutely(policy), now, []) == SkipFire(
        T0, T0 + 8 * MINUTE, "misfire", Covers(T0, T0 + 7 * MINUTE, 8)
    )
    assert decide(a_minutely(policy, fire=T0 + 8 * MINUTE), now, []) == Fire(T0 + 8 * MINUTE, T0 + 9 * MINUTE)


def test_k8s_42649_a_year_of_missed_seconds_is_decided_without_walking_them() -> None:
    """kubernetes #42649, #36311, #81557: more than a hundred missed starts were walked one by one and then given up,
    and the job never started again.
    """
    record = replace(a_record(), job=a_job(schedule=Every("1s")))
    now = T0 + timedelta(days=365)
    decision = decide(record, now, [])
    assert isinstance(decision, Fire)
    assert decision.covers == Covers(T0, now, None)  # more than were worth counting
    assert decision.next_fire == now + SECOND
    by_cron = replace(record, job=a_job(schedule=Cron("* * * * * *")))
    decision = decide(by_cron, now, [])
    assert isinstance(decision, Fire)
    assert decision.covers == Covers(T0, now, None)
    assert decision.next_fire == now + SECOND


@pytest.mark.parametrize("since", [T0 - 10 * MINUTE, T0])
def test_an_overlapping_fire_is_skipped_queued_or_allowed(since: datetime) -> None:
    now = T0 + SECOND
    assert decide(a_minutely(), now, [since]) == SkipFire(T0, T0 + MINUTE, "overlap")
    assert isinstance(decide(a_minutely(overlap=Overlap.QUEUE), now, [since]), Wait)
    assert decide(a_minutely(overlap=Overlap.ALLOW), now, [since]) == Fire(T0, T0 + MINUTE)


def test_a_fire_that_only_the_leaders_lateness_made_overlap_waits_for_its_predecessor() -> None:
    # At T0 nothing ran; the run in the way was made after a failover, for the instant before.
    now = T0 + 30 * SECOND
    assert isinstance(decide(a_minutely(), now, [T0 + 29 * SECOND]), Wait)
    assert decide(a_minutely(), now, [T0 + 29 * SECOND, T0 - SECOND]) == SkipFire(T0, T0 + MINUTE, "overlap")


def test_missed_fires_that_overlap_are_skipped_as_one_range() -> None:
    decision = decide(a_minutely(), T0 + 10 * MINUTE, [T0 - SECOND])
    assert decision == SkipFire(T0, T0 + 11 * MINUTE, "overlap", Covers(T0, T0 + 10 * MINUTE, 11))


def test_the_last_fire_leaves_no_cursor() -> None:
    record = replace(a_record(), job=a_job(schedule=Once(T0)))
    assert decide(record, T0 + SECOND, []) == Fire(T0, None)
    attempt_result = replace(a_record(), job=a_job(schedule=Every("60s", end=T0 + SECOND)))
    assert decide(attempt_result, T0 + SECOND, []) == Fire(T0, None)


def test_a_new_job_begins_within_the_present_second_and_a_one_time_job_counts_however_late() -> None:
    now = T0 + timedelta(milliseconds=400)
    assert first_fire(a_job(), now) == T0
    assert first_fire(a_job(), now, consumed=T0) == T0 + MINUTE
    assert first_fire(a_job(schedule=Once(T0 - DAY)), now) == T0 - DAY
    assert first_fire(a_job(schedule=Once(T0 - DAY)), now, consumed=T0 - DAY) is None
    assert first_fire(a_job(schedule=None), now) is None


def test_the_run_of_a_pending_run_depends_on_the_document_alone() -> None:
    pending_run = a_pend(covers=Covers(T0, T0 + MINUTE, 2), at=T0 + SECOND)
    run = run_of_pending(a_job(), pending_run, term=3)
    assert (run.id, run.kind, run.state) == ("report@20261121T120000Z", Kind.INTERVAL, RunState.DISPATCHED)
    assert (run.check_at, run.attempt, run.max_attempts, run.covers) == (T0 + 11 * SECOND, 1, 4, pending_run.covers)
    assert (run.created_at, run.dispatched_at) == (pending_run.at, pending_run.at)


def test_a_skipped_pending_run_becomes_an_ended_run() -> None:
    run = run_of_pending(a_job(), a_pend(state=RunState.SKIPPED, reason="overlap"), term=3)
    assert (run.is_open, run.check_at, run.ended_at, run.reason, run.attempt) == (False, None, T0, "overlap", 0)


def test_a_job_that_cannot_be_planned_steps_aside_for_longer_and_longer() -> None:
    waits = [wait_for(rounds).total_seconds() for rounds in (0, 1, 2, 3, 4, 5, 50)]
    assert waits == [0.25, 0.5, 1, 2, 4, 5, 5]


def test_a_job_without_a_schedule_is_never_due() -> None:
    record = JobRecord(
        job=Job(name="by-hand", target=PythonTarget("a:b")), created_at=datetime(2026, 1, 1, tzinfo=UTC), updated_at=T0
    )
    assert not record.active
    assert isinstance(decide(record, T0, []), Wait)


# -------------------------------------------------------------------------------------------------------------- replace


def test_a_fire_that_replaces_waits_for_what_runs_to_end() -> None:
    record = a_minutely(overlap=Overlap.REPLACE)
    found = decide(record, T0 + SECOND, [T0 - MINUTE])
    assert isinstance(found, Wait)
    assert (found.replaces, found.blocked) == (True, True)
    assert decide(record, T0 + SECOND, []) == Fire(T0, T0 + MINUTE)


def test_of_several_fires_that_are_due_only_the_newest_replaces() -> None:
    record = replace(a_record(), job=a_job(schedule=Every("10s"), overlap=Overlap.REPLACE))
    now = T0 + 25 * SECOND
    skipped = SkipFire(T0, T0 + 20 * SECOND, "replaced", Covers(T0, T0 + 10 * SECOND, 2))
    assert decide(record, now, []) == skipped
    assert decide(record, now, [T0 - MINUTE]) == skipped
    assert decide(replace(record, next_fire=T0 + 20 * SECOND), now, []) == Fire(T0 + 20 * SECOND, T0 + 30 * SECOND)


def test_missed_fires_of_a_job_that_replaces_keep_their_policy() -> None:
    now = T0 + 10 * MINUTE + SECOND
    assert decide(a_minutely(overlap=Overlap.REPLACE), now, []) == Fire(
        T0, T0 + 11 * MINUTE, Covers(T0, T0 + 10 * MINUTE, 11)
    )
    catch_up = Misfire(policy=MisfirePolicy.CATCH_UP)
    found = decide(a_minutely(catch_up, overlap=Overlap.REPLACE), now, [])
    assert found == SkipFire(T0, T0 + 10 * MINUTE, "replaced", Covers(T0, T0 + 9 * MINUTE, 10))


def test_only_waits_that_the_end_of_a_run_can_end_are_blocked() -> None:
    queue = decide(a_minutely(overlap=Overlap.QUEUE), T0 + SECOND, [T0 - MINUTE])
    assert isinstance(queue, Wait)
    assert (queue.blocked, queue.replaces) == (True, False)
    assert decide(a_minutely(), T0 - SECOND, []) == Wait("not due")
