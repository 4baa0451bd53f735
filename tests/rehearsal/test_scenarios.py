"""The scenarios: a plain period, an outage, a killed leader, long runs, few slots, limits, chains and pauses."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.domain.chain import Upstream
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Delivery, Misfire, MisfirePolicy, Overlap
from cronflow.domain.permits import NamedLimit
from cronflow.domain.retry import Retry
from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Cron
from cronflow.node.timings import Timings
from cronflow.rehearsal.performance import perform
from cronflow.rehearsal.report import DOWN, NO_LEADER, NO_SLOT, PREVIOUS, report
from cronflow.rehearsal.scenario import RehearsedJob, RehearsedNode, RehearsedOutage, Scenario
from tests.rehearsal.scenes import HOUR, MIDNIGHT, MINUTE, SECOND, a_job, every, fires_of, hourly, rehearsed, runs_of

SKIP = Misfire(policy=MisfirePolicy.SKIP)
ONE_SLOT = (RehearsedNode("node-1", slots=1),)


def test_every_fire_of_a_quiet_period_is_on_time() -> None:
    found = rehearsed(every(5), hourly("report"), length=24 * HOUR)
    # 288 and 24; the fire at the end of the period is not part of it.
    assert all(run.ended_at and run.started_at and run.ended_at - run.started_at < 1.1 * SECOND for run in found.runs)
    # Each run is executed once.
    assert len(found.performance.executions) == 312
    assert (found.summary.due, found.summary.on_time) == (312, 312)
    assert fires_of(found, "report")[:2] == ["10T00:00", "10T01:00"]
    assert fires_of(found, "report")[-1] == "10T23:00"
    assert all(run.state is RunState.SUCCEEDED and run.late is not None and run.late < SECOND for run in found.runs)
    assert found.summary.most_slots is not None
    assert found.summary.most_slots[1] == 2


def test_the_same_input_gives_the_same_output() -> None:
    def outcome() -> object:
        jobs = [every(3, f"job-{n}", overlap=Overlap.QUEUE) for n in range(6)]
        found = rehearsed(
            *jobs,
            duration=4 * MINUTE,
            nodes=ONE_SLOT,
            outage=RehearsedOutage(MIDNIGHT + HOUR, HOUR),
        )
        return found.summary, found.runs

    assert outcome() == outcome()


def test_after_an_outage_each_misfire_policy_does_what_it_says() -> None:
    found = rehearsed(
        hourly("once"),
        hourly("all", misfire=Misfire(policy=MisfirePolicy.CATCH_UP, max_catch_up=2)),
        hourly("none", misfire=SKIP),
        length=10 * HOUR,
        duration=MINUTE,
        outage=RehearsedOutage(MIDNIGHT + 90 * MINUTE, 6 * HOUR),
    )
    # Down from 01:30 to 07:30, so 02:00 to 07:00 are missed: six fires of each job.
    [covering] = [run for run in runs_of(found, "once") if run.fires > 1]
    assert (covering.fires, covering.why) == (6, DOWN)
    assert covering.late is not None
    assert 5.5 * HOUR <= covering.late < 5.5 * HOUR + 10 * SECOND
    late = [run for run in runs_of(found, "all") if run.is_late]
    assert [f"{run.fire_at:%H:%M}" for run in late] == ["06:00", "07:00"]
    assert late[1].started_at is not None
    # One after the other: each runs for a minute.
    assert late[0].started_at is not None
    assert MINUTE <= late[1].started_at - late[0].started_at < MINUTE + 2 * SECOND
    # Four of `all`, and all six of `none`.
    assert found.summary.skipped == {"misfire": 10}
    assert (found.summary.late, found.summary.covered) == (3, 5)
    assert found.summary.due == 30
    assert found.summary.due == found.summary.on_time + 3 + 5 + 10


def test_a_run_that_an_outage_interrupts_starts_again_unless_it_may_not() -> None:
    found = rehearsed(
        hourly("again"),
        hourly("never-twice", delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0)),
        duration=20 * MINUTE,
        outage=RehearsedOutage(MIDNIGHT + 10 * MINUTE, 20 * MINUTE),
    )
    [first, *_] = runs_of(found, "again")
    assert (first.state, first.interrupted) == (RunState.SUCCEEDED, 1)
    # It began again after the outage, and ran for its whole duration.
    assert first.ended_at is not None
    assert first.ended_at >= MIDNIGHT + 50 * MINUTE
    assert runs_of(found, "never-twice")[0].state is RunState.LOST


@pytest.mark.parametrize("before_s", [1, 20])
def test_a_killed_leader_delays_fires_by_its_ttl_at_most(before_s: int) -> None:
    found = rehearsed(every(1), length=HOUR, kill_leader_at=MIDNIGHT + 30 * MINUTE - before_s * SECOND)
    [(begin, end)] = found.performance.leaderless
    assert timedelta(0) <= MIDNIGHT + 30 * MINUTE - before_s * SECOND - begin <= timedelta(milliseconds=20)
    gap = end - begin
    assert 5 * SECOND < gap <= timedelta(seconds=Timings().leader_ttl + 1)
    late = [run for run in found.runs if run.is_late]
    due_in_gap = [run for run in found.runs if begin <= run.fire_at < end - SECOND]
    assert [run.run for run in late] == [run.run for run in due_in_gap]
    assert all(run.why == NO_LEADER and run.late is not None and run.late <= gap for run in late)
    assert found.summary.due == 60
    assert found.performance.killed == "node-1"


def test_an_overlap_is_skipped_queued_or_allowed_by_the_policy_of_the_job() -> None:
    """Every five minutes, for seven: 00:00 to 00:07 makes 00:05 overlap, 00:10 to 00:17 makes 00:15 overlap."""
    jobs = [every(5, policy.value, overlap=policy) for policy in (Overlap.FORBID, Overlap.QUEUE, Overlap.ALLOW)]
    found = rehearsed(*jobs, length=HOUR, duration=7 * MINUTE)
    skipped = [run for run in runs_of(found, "forbid") if run.state is RunState.SKIPPED]
    assert [f"{run.fire_at:%M}" for run in skipped] == ["05", "15", "25", "35", "45", "55"]
    assert found.summary.skipped == {"overlap": 6}
    second, third = runs_of(found, "queue")[1:3]
    assert second.late is not None
    assert third.late is not None
    # At 00:07 instead of 00:05, and at 00:14 instead of 00:10.
    assert [round(second.late / MINUTE, 1), round(third.late / MINUTE, 1)] == [2.0, 4.0]
    assert second.why == PREVIOUS
    assert [run.overlaps for run in runs_of(found, "allow")] == [False, *[True] * 11]


def test_fires_wait_for_a_slot() -> None:
    found = rehearsed(*(hourly(f"job-{n}") for n in range(3)), length=HOUR, duration=10 * MINUTE, nodes=ONE_SLOT)
    late = sorted(run.late or timedelta(0) for run in found.runs)
    assert [round(one / MINUTE) for one in late] == [0, 10, 20]
    assert {run.why for run in found.runs if run.is_late} == {NO_SLOT}
    assert found.summary.most_slots is not None
    assert found.summary.most_slots[1] == 1


def test_a_job_that_no_node_can_run_waits_until_the_end() -> None:
    found = rehearsed(hourly("train", require={"gpu": "h100"}), length=3 * HOUR)
    first, count, why = found.waiting["train"]
    assert (first, count) == (MIDNIGHT, 3)
    assert "gpu" in why
    assert (found.summary.waiting, found.summary.due) == (3, 3)


def test_limits_let_runs_wait_for_each_other() -> None:
    found = rehearsed(
        hourly("import", concurrency=("database",)),
        hourly("export", concurrency=("database",)),
        length=HOUR,
        duration=5 * MINUTE,
        limits=(NamedLimit(name="database", limit=1),),
    )
    assert sorted(round((run.late or timedelta(0)) / MINUTE) for run in found.runs) == [0, 5]


def test_a_job_that_follows_another_runs_after_it() -> None:
    found = rehearsed(hourly("import"), a_job("report", after=(Upstream("import"),)), length=2 * HOUR, duration=MINUTE)
    assert found.summary.other_runs == 2
    starts = [run.started_at for run in runs_of(found, "report")]
    assert all(start is not None for start in starts)
    assert [round((start - MIDNIGHT) / MINUTE) for start in starts if start is not None] == [1, 61]


def test_a_long_run_times_out() -> None:
    found = rehearsed(hourly("stuck", timeout=10 * MINUTE, retry=Retry(max=0)), length=HOUR, duration=30 * MINUTE)
    [run] = found.runs
    assert (run.timed_out, run.state) == (True, RunState.FAILED)
    assert run.ended_at is not None
    assert round((run.ended_at - MIDNIGHT) / MINUTE) == 10


def test_a_pause_ends_on_time() -> None:
    scenario = Scenario(first=MIDNIGHT, until=MIDNIGHT + 4 * HOUR)
    job = RehearsedJob(hourly("report"), paused=True, paused_until=MIDNIGHT + 90 * MINUTE)
    found = report(perform([job], scenario))
    ran = [run for run in found.runs if run.state is RunState.SUCCEEDED]
    assert [f"{run.fire_at:%H:%M}" for run in ran] == ["02:00", "03:00"]
    assert not any(run.is_late for run in ran)


def test_missed_runs_beyond_the_limit_wait_for_a_person() -> None:
    jobs = [every(30, f"job-{n}", misfire=Misfire(policy=MisfirePolicy.CATCH_UP)) for n in range(3)]
    found = rehearsed(
        *jobs,
        length=6 * HOUR,
        outage=RehearsedOutage(MIDNIGHT + 10 * MINUTE, 3 * HOUR),
        catch_up=Scenario(first=MIDNIGHT, until=MIDNIGHT + HOUR).catch_up._replace(limit=5),
    )
    # 00:30 to 03:00, six fires of each of three jobs.
    assert found.summary.missed_held == 18
    assert found.summary.waiting > 18


def test_a_cursor_of_the_cluster_is_where_the_rehearsal_begins() -> None:
    scenario = Scenario(first=MIDNIGHT, until=MIDNIGHT + 4 * HOUR)
    found = report(perform([RehearsedJob(hourly("report"), next_fire=MIDNIGHT + 2 * HOUR)], scenario))
    assert fires_of(found, "report") == ["10T02:00", "10T03:00"]


def test_durations_are_those_of_each_job() -> None:
    found = rehearsed(hourly("slow"), hourly("fast"), length=HOUR, durations={"slow": 5 * MINUTE})
    lengths = {
        run.job: run.ended_at - run.started_at for run in found.runs if run.ended_at is not None and run.started_at
    }
    assert round(lengths["slow"].total_seconds()) == 300
    assert round(lengths["fast"].total_seconds()) == 1


def test_a_change_is_applied_as_jobs_apply_would() -> None:
    found = rehearsed(
        hourly("report"),
        length=3 * HOUR,
        changes=[a_job("report", Cron("30 * * * *")), a_job("new", Cron("15 1 * * *"))],
    )
    assert fires_of(found, "report") == ["10T00:30", "10T01:30", "10T02:30"]
    assert fires_of(found, "new") == ["10T01:15"]


def test_scenarios_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not after the beginning"):
        Scenario(first=MIDNIGHT, until=MIDNIGHT)
    with pytest.raises(InvalidInput, match="at most 35"):
        Scenario(first=MIDNIGHT, until=MIDNIGHT + timedelta(days=40))
    with pytest.raises(InvalidInput, match="nobody could take over"):
        Scenario(first=MIDNIGHT, until=MIDNIGHT + HOUR, nodes=ONE_SLOT, kill_leader_at=MIDNIGHT)
    with pytest.raises(InvalidInput, match="outside of the period"):
        Scenario(first=MIDNIGHT, until=MIDNIGHT + HOUR, outage=RehearsedOutage(MIDNIGHT, 2 * HOUR))
    with pytest.raises(InvalidInput, match="no node is up"):
        Scenario(
            first=MIDNIGHT,
            until=MIDNIGHT + 3 * HOUR,
            outage=RehearsedOutage(MIDNIGHT, HOUR),
            kill_leader_at=MIDNIGHT + 30 * MINUTE,
        )


def test_runs_that_end_just_after_each_other_end_on_time() -> None:
    durations = {"a": 60 * SECOND, "b": timedelta(seconds=60.03)}
    found = rehearsed(hourly("a"), hourly("b"), length=3 * HOUR, durations=durations)
    for run in found.runs:
        assert run.ended_at is not None
        assert run.ended_at - run.fire_at < timedelta(seconds=60.2)


def test_a_fire_at_the_very_instant_of_an_outage_is_missed_and_counted_once() -> None:
    found = rehearsed(
        every(5, misfire=SKIP),
        length=3 * HOUR,
        duration=7 * MINUTE,
        outage=RehearsedOutage(MIDNIGHT + HOUR, HOUR),
    )
    # 36 fires. Of the first hour, every other one overlaps; 01:00 to 01:55 are missed, and 02:00 runs.
    assert found.summary.due == 36
    assert found.summary.skipped == {"overlap": 12, "misfire": 12}
    assert (found.summary.on_time, found.summary.late) == (12, 0)
    assert all(run.started_at is None or run.started_at >= run.fire_at for run in found.runs)
