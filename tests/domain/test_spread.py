"""Spreading: which jobs move, where to, and why the others stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Job, JobRecord, PythonTarget
from cronflow.domain.schedule.calendar import Calendar, DaySpan
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.domain.schedule.load import HOUR, MINUTE, WEEK_HOURS, ScheduleLoad
from cronflow.domain.schedule.windows import WeeklyHours
from cronflow.domain.spread import ALONE, FREQUENTLY, NO_QUIETER, SpreadBy, Spreader, SpreadPlan, moved
from cronflow.testing.schedule_oracle import fires_between

PYTHON = PythonTarget("jobs:work")

FIRST = datetime(2026, 11, 21, 12, tzinfo=UTC)


def a_record(name: str, schedule: Schedule | None, *, ver: int = 1, paused: bool = False, **labels: str) -> JobRecord:
    job = Job(name=name, schedule=schedule, target=PYTHON, labels=labels)
    return JobRecord(job=job, ver=ver, next_fire=FIRST, paused=paused, created_at=FIRST, updated_at=FIRST)


def planned(records: Sequence[JobRecord], others: Sequence[Schedule] = ()) -> SpreadPlan:
    load = ScheduleLoad(FIRST)
    for record in records:
        if record.active and record.job.schedule is not None:
            load.add(record.name, record.job.schedule)
    for n, schedule in enumerate(others):
        load.add(f"other-{n}", schedule)
    spreader = Spreader(load.minutes(), FIRST)
    for record in records:
        spreader.place(record)
    return spreader.plan()


def starts(schedules: Sequence[Schedule]) -> Counter[int]:
    """By minute of the week, by the oracle."""
    end = FIRST + WEEK_HOURS * HOUR
    return Counter((fire - FIRST) // MINUTE for one in schedules for fire in fires_between(one, FIRST, end))


def after(records: Sequence[JobRecord], plan: SpreadPlan) -> list[Schedule]:
    by_name: Mapping[str, str] = {move.job: move.after for move in plan.moves}
    jobs = [moved(one.job, by_name[one.name]) if one.name in by_name else one.job for one in records]
    return [job.schedule for job in jobs if job.schedule is not None]


def test_jobs_that_start_together_get_minutes_of_their_own_in_the_same_hour() -> None:
    records = [a_record(f"job-{n:02}", Cron("0 2 * * *", "Europe/Berlin"), ver=n + 1) for n in range(30)]
    plan = planned(records)
    assert len(plan.moves) == 29
    assert [move.version for move in plan.moves] == [n + 1 for n in range(29)], "at the versions that were read"
    assert plan.left_out[ALONE].names == ["job-29"], "the last one stays: nothing else is left there"
    assert (plan.before.peak, plan.after.peak) == (30, 1)
    assert max(starts(after(records, plan)).values()) == 1
    assert all(move.after.split()[1:] == ["2", "*", "*", "*"] for move in plan.moves)


def test_the_pictures_are_what_the_oracle_counts() -> None:
    records = [
        *[a_record(f"daily-{n}", Cron("30 5 * * *", "Asia/Kolkata")) for n in range(5)],
        *[a_record(f"hourly-{n}", Cron("@hourly")) for n in range(7)],
        *[a_record(f"night-{n}", Cron("0 */6 * * 1-5", "America/New_York")) for n in range(9)],
    ]
    plan = planned(records, [Cron("*/15 * * * *")])
    for shown, schedules in ((plan.before, [one.job.schedule for one in records]), (plan.after, after(records, plan))):
        counted = starts([*(one for one in schedules if one is not None), Cron("*/15 * * * *")])
        assert shown.peak == max(counted.values()) == counted[shown.busiest]
        hours = range(WEEK_HOURS)
        assert shown.peaks == tuple(max(counted[hour * 60 + minute] for minute in range(60)) for hour in hours)
        assert shown.minutes == tuple(counted[plan.before.shown * 60 + minute] for minute in range(60))
    assert plan.after.peak < plan.before.peak


def test_jobs_that_are_not_selected_are_where_the_others_do_not_go() -> None:
    others = [Cron(f"{minute} 2 * * *") for minute in range(60) if minute not in (17, 44)]
    plan = planned([a_record(f"job-{n}", Cron("0 2 * * *")) for n in range(2)], others)
    assert {move.after for move in plan.moves} == {"17 2 * * *", "44 2 * * *"}


def test_the_same_jobs_give_the_same_plan_and_a_second_one_moves_nothing() -> None:
    records = [a_record(f"job-{n}", Cron("0 2 * * *")) for n in range(8)]
    plan = planned(records)
    assert planned(records).moves == plan.moves
    names = [move.job for move in plan.moves]
    spread = [a_record(one.name, schedule) for one, schedule in zip(records, after(records, plan), strict=True)]
    assert names
    assert planned(spread).moves == []


def test_a_full_hour_is_left_as_it_is() -> None:
    others = [Cron(f"{minute} 2 * * *") for minute in range(60)]
    plan = planned([a_record(f"job-{n}", Cron(f"{n} 2 * * *")) for n in range(60)], others)
    assert plan.moves == []
    assert (plan.left_out[NO_QUIETER].jobs, len(plan.left_out[NO_QUIETER].names)) == (60, 10)
    assert plan.before == plan.after


def test_a_job_stays_if_only_some_of_its_starts_would_be_quieter() -> None:
    others = [Cron("0 2 * * *"), *[Cron(f"{minute} 2 * * MON") for minute in range(1, 60)]]
    plan = planned([a_record("job", Cron("0 2 * * *"))], others)
    assert (plan.moves, plan.left_out[NO_QUIETER].names) == ([], ["job"])


def test_a_job_that_did_not_fit_may_fit_after_another_has_moved() -> None:
    records = [
        a_record("a", Cron("0 2 * * *")),
        a_record("b", Cron("0 2 * * MON")),
        a_record("c", Cron("0 2 * * *")),
    ]
    plan = planned(records, [Cron(f"{minute} 2 * * *") for minute in range(1, 60) if minute != 30])
    assert [(move.job, move.after) for move in plan.moves] == [
        ("a", "30 2 * * *"),
    ]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (a_record("_sys:sweep", Cron("0 0 * * *")), "system jobs are not moved"),
        (a_record("job", Every("1h")), "only cron schedules can be moved"),
        (a_record("job", Cron("0 0 * * *"), paused=True), "paused, disabled and finished jobs are not moved"),
        (a_record("job", Cron("0 0 * * *"), spread="False"), "the label spread=false prevents a move"),
        (a_record("job", Cron("0,30 0 * * *")), "runs start in several minutes of an hour"),
        (a_record("job", Cron("*/15 * * * *")), "runs start in several minutes of an hour"),
        (a_record("job", Cron("H(0-29)/15 0 * * *")), "runs start in several minutes of an hour"),
        (a_record("job", Cron("H 0 * * *")), "the job name already sets the minute"),
        (a_record("job", Cron("H(0-29) 0 * * *")), "the job name already sets the minute"),
        (a_record("job", AnyOf((Cron("0 0 * * *"),))), "only cron schedules can be moved"),
        (a_record("job", Cron("0 0 * * *", jitter=timedelta(minutes=5))), "jitter already moves the starts"),
        (a_record("job", Cron("* 0 9 * * *")), FREQUENTLY),
        (a_record("job", Cron("7 0 * * *")), ALONE),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_job_that_cannot_move_is_left_out_with_the_reason(record: JobRecord, why: str) -> None:
    plan = planned([record], [Cron("0 0 * * *")] * 3)
    assert plan.moves == []
    assert {reason: found.names for reason, found in plan.left_out.items()} == {why: [record.name]}


def test_a_move_keeps_everything_but_the_minute() -> None:
    cron = Cron("5 0 2 * * *", "Europe/Berlin", start=FIRST, end=FIRST + timedelta(days=90))
    job = Job(name="job", schedule=cron, target=PYTHON)
    assert moved(job, "5 17 2 * * *").schedule == Cron("5 17 2 * * *", "Europe/Berlin", cron.start, cron.end)
    for other in ("17 2 * * *", "5 17 3 * * *", "5 0 2 * * MON"):
        with pytest.raises(InvalidInput, match="more than the minute"):
            moved(job, other)
    with pytest.raises(InvalidInput, match="no cron schedule"):
        moved(Job(name="job", schedule=Every("1h"), target=PYTHON), "0 * * * *")
    assert moved(Job(name="job", schedule=Cron("@daily"), target=PYTHON), "9 0 * * *").schedule == Cron("9 0 * * *")


def test_spreading_by_hash_writes_h_for_every_job_that_shares_its_minute() -> None:
    records = [a_record(f"job-{n}", Cron("0 2 * * *", "Europe/Berlin")) for n in range(8)]
    records.append(a_record("alone", Cron("30 4 * * *")))
    load = ScheduleLoad(FIRST)
    for record in records:
        assert record.job.schedule is not None
        load.add(record.name, record.job.schedule)
    spreader = Spreader(load.minutes(), FIRST, SpreadBy.HASH)
    for record in records:
        spreader.place(record)
    plan = spreader.plan()
    assert [(move.job, move.after) for move in plan.moves] == [(f"job-{n}", "H 2 * * *") for n in range(8)]
    assert plan.left_out[ALONE].names == ["alone"]
    counted = starts(after(records, plan))
    assert plan.after.peaks == tuple(
        max(counted[hour * 60 + minute] for minute in range(60)) for hour in range(WEEK_HOURS)
    )
    assert plan.after.peak == max(counted.values()) < plan.before.peak == 8


def test_a_job_with_calendars_keeps_them_and_only_counts_where_it_starts() -> None:
    off = Calendar(name="off", days=(DaySpan(FIRST.date(), FIRST.date() + timedelta(days=7)),))
    held = Cron("0 2 * * *", calendars=("off",), book=(off,))
    plan = planned([a_record("held", held), a_record("other", Cron("0 2 * * *"))])
    assert plan.before.peak == 1, "the two never start together"
    assert plan.moves == []
    weekdays = Cron("0 2 * * *", only_in=(WeeklyHours((1, 2, 3, 4, 5), time(0), time(6)),))
    records = [a_record("held", weekdays), a_record("other", Cron("0 2 * * *"))]
    plan = planned(records)
    [move] = plan.moves
    assert move.job == "held"
    kept = moved(records[0].job, move.after).schedule
    assert isinstance(kept, Cron)
    assert kept.only_in == weekdays.only_in
