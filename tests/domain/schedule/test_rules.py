"""Rules of schedules, each with fires computed by hand: DST policies, H, jitter, any, business days, exclusions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, Job
from cronflow.domain.schedule.calendar import Calendar, DaySpan, Period, WeeklyHours, YearlyDay
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.exclusions import exclusion, next_allowed
from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule, bound, named

BERLIN = "Europe/Berlin"
SPRING, AUTUMN = "2027-03-27T12:00", "2026-10-24T12:00"
"""The noon before the clocks of Berlin go forward from 02:00 to 03:00, and back from 03:00 to 02:00."""
HOLIDAYS = Calendar(
    name="holidays",
    days=(
        YearlyDay(12, 25, "Christmas Day"),
        DaySpan(date(2026, 12, 31), date(2027, 1, 1), "turn of the year"),
    ),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(schedule: Schedule, after: str, count: int) -> list[str]:
    """The next fires in UTC, and a check that counting and going backwards agree with them."""
    found: list[datetime] = []
    fire = next_after(schedule, at(after))
    while fire is not None and len(found) < count:
        found.append(fire)
        fire = next_after(schedule, fire)
    if found:
        assert count_between(schedule, at(after) + timedelta(seconds=1), found[-1]) == len(found)
        assert latest(schedule, found[-1], count, not_before=at(after) + timedelta(seconds=1)) == found
    return [f"{fire:%m-%d %H:%M}" + (f":{fire:%S}" if fire.second else "") for fire in found]


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        # 01:00 UTC is 03:00 in summer time, the first instant after the gap.
        (GapPolicy.NEXT_VALID, ["03-28 01:00", "03-29 00:30"]),
        (GapPolicy.SKIP, ["03-29 00:30", "03-30 00:30"]),
        (GapPolicy.SHIFT, ["03-28 01:30", "03-29 00:30"]),
    ],
)
def test_a_time_that_the_clocks_skip_follows_the_policy(gap: GapPolicy, expected: list[str]) -> None:
    assert fires(Cron("30 2 * * *", BERLIN, dst=Dst(gap=gap)), SPRING, 2) == expected
    assert fires(Every("1d", time="02:30", tz=BERLIN, dst=Dst(gap=gap)), SPRING, 2) == expected


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (RepeatPolicy.FIRST, ["10-25 00:30", "10-26 01:30"]),
        (RepeatPolicy.LAST, ["10-25 01:30", "10-26 01:30"]),
        (RepeatPolicy.BOTH, ["10-25 00:30", "10-25 01:30", "10-26 01:30"]),
    ],
)
def test_a_time_that_the_clocks_show_twice_follows_the_policy(overlap: RepeatPolicy, expected: list[str]) -> None:
    assert fires(Cron("30 2 * * *", BERLIN, dst=Dst(overlap=overlap)), AUTUMN, len(expected)) == expected
    assert fires(Every("1d", time="02:30", tz=BERLIN, dst=Dst(overlap=overlap)), AUTUMN, len(expected)) == expected


def test_a_shifted_time_that_meets_another_one_is_a_single_fire() -> None:
    schedule = Cron("0,30 2,3 * * *", BERLIN, dst=Dst(gap=GapPolicy.SHIFT))
    assert fires(schedule, SPRING, 3) == ["03-28 01:00", "03-28 01:30", "03-29 00:00"]


def test_several_times_of_a_gap_fire_once_and_not_again_at_its_end() -> None:
    schedule = Cron("0,15,30 2,3 * * *", BERLIN)
    assert fires(schedule, SPRING, 4) == ["03-28 01:00", "03-28 01:15", "03-28 01:30", "03-29 00:00"]


def test_an_interval_keeps_its_real_distance() -> None:
    assert fires(Cron("*/30 * * * *", BERLIN), "2026-10-25T00:00", 4) == [
        "10-25 00:30",
        "10-25 01:00",
        "10-25 01:30",
        "10-25 02:00",
    ]
    with pytest.raises(InvalidInput, match="dst has no effect"):
        Cron("*/30 * * * *", BERLIN, dst=Dst(overlap=RepeatPolicy.LAST))


def test_h_is_chosen_by_the_name_of_the_job_and_differs_by_field() -> None:
    backup, report = named(Cron("H H * * *"), "backup"), named(Cron("H H * * *"), "report")
    assert isinstance(backup, Cron)
    assert isinstance(report, Cron)
    # Written down, so that a change of the hash, which would move every job, is noticed.
    assert (backup.plain, report.plain) == (BACKUP, REPORT)
    job = Job(name="backup", target=CommandTarget("true"), schedule=Cron("H H * * *"))
    assert job.schedule == backup


BACKUP, REPORT = "2 15 * * *", "43 16 * * *"


@pytest.mark.parametrize(
    ("expr", "size", "low", "high"),
    [
        ("H * * * *", 1, 0, 59),
        ("H(10-20) * * * *", 1, 10, 20),
        ("H/15 * * * *", 4, 0, 59),
        ("H(0-29)/10 * * * *", 3, 0, 29),
        ("5,H(30-59) * * * *", 2, 5, 59),
    ],
)
def test_h_stays_within_its_range_and_spreads(expr: str, size: int, low: int, high: int) -> None:
    chosen = set()
    for number in range(200):
        schedule = named(Cron(expr), f"job-{number}")
        assert isinstance(schedule, Cron)
        minutes = [int(value) for value in schedule.plain.split()[0].split(",")]
        assert len(minutes) == size
        assert low <= min(minutes) <= max(minutes) <= high
        chosen.add(tuple(minutes))
    assert len(chosen) > 9


def test_h_of_the_day_is_one_that_every_month_has() -> None:
    days = {named(Cron("0 0 H * *"), f"job-{number}").plain.split()[2] for number in range(500)}  # type: ignore[union-attr]
    assert days == {str(day) for day in range(1, 29)}


def test_jitter_delays_each_fire_and_never_reaches_the_next() -> None:
    plain, delayed = Cron("0,1 * * * *"), Cron("0,1 * * * *", jitter=timedelta(hours=1), seed="a")
    start, base = at("2026-11-24T00:59:59"), at("2026-11-24T00:59:59")
    fire = start
    seen = set()
    for _ in range(200):
        following = next_after(plain, base)
        fire = next_after(delayed, fire)  # type: ignore[assignment]
        assert following is not None
        after = next_after(plain, following)
        assert after is not None
        assert following <= fire < after
        assert last_before(delayed, fire, not_before=start) == fire
        assert last_before(delayed, fire - timedelta(seconds=1), not_before=fire) is None
        seen.add(fire - following)
        base = following
    assert len(seen) > 50
    assert count_between(delayed, start + timedelta(seconds=1), fire) == 200


def test_any_fires_with_each_of_its_schedules_and_once_where_they_meet() -> None:
    schedule = AnyOf((Cron("0 9 * * MON-FRI"), Every("6h"), Once(at("2026-11-24T09:30"))), end=at("2026-11-25T00:00"))
    assert fires(schedule, "2026-11-24T00:00", 9) == [
        "11-24 06:00",
        "11-24 09:00",
        "11-24 09:30",
        "11-24 12:00",
        "11-24 18:00",
    ]
    assert fires(AnyOf((Every("6h"), Every("4h"))), "2026-11-24T00:00", 4) == [
        "11-24 04:00",
        "11-24 06:00",
        "11-24 08:00",
        "11-24 12:00",
    ]


def test_the_last_business_day_of_a_month_leaves_out_holidays() -> None:
    unbound = Cron("0 18 * * *", BERLIN, business_day=(-1,), calendars=("holidays",))
    with pytest.raises(InvalidInput, match="there is no calendar 'holidays'"):
        next_after(unbound, at("2026-11-24T00:00"))
    schedule = bound(unbound, [HOLIDAYS])
    assert schedule is not None
    # 31 December is a holiday, and 31 January a Sunday.
    assert fires(schedule, "2026-11-24T00:00", 4) == ["11-30 17:00", "12-30 17:00", "01-29 17:00", "02-26 17:00"]
    first = bound(Cron("0 8 * * *", business_day=(1, 2), calendars=("holidays",)), [HOLIDAYS])
    assert first is not None
    assert fires(first, "2026-12-20T00:00", 2) == ["01-04 08:00", "01-05 08:00"]


def test_business_days_leave_out_the_days_of_calendars_and_not_those_of_blackouts() -> None:
    cron = Cron("0 8 * * *", business_day=(-1,))
    assert fires(bound(replace(cron, blackout=("holidays",)), [HOLIDAYS]), "2026-12-20T00:00", 1) == ["12-31 08:00"]  # type: ignore[arg-type]
    several = bound(AnyOf((cron, Cron("0 9 * * *", business_day=(1,))), calendars=("holidays",)), [HOLIDAYS])
    assert several is not None
    assert fires(several, "2026-12-20T00:00", 3) == ["12-30 08:00", "01-04 09:00", "01-29 08:00"]


def test_excluded_fires_name_the_calendar_and_the_next_allowed_one_follows() -> None:
    schedule = bound(Cron("0 8 * * *", BERLIN, calendars=("holidays",)), [HOLIDAYS])
    assert schedule is not None
    christmas = exclusion(schedule, at("2026-12-25T07:00"))
    assert christmas is not None
    assert (christmas.reason, christmas.until) == ("calendar holidays: Christmas Day", at("2026-12-25T23:00"))
    assert exclusion(schedule, at("2026-12-24T07:00")) is None
    assert next_allowed(schedule, at("2026-12-30T08:00")) == at("2027-01-02T07:00")


def test_blackouts_and_windows_exclude_as_well() -> None:
    freeze = Period(datetime(2026, 12, 20), datetime(2027, 1, 4), "year-end freeze")  # noqa: DTZ001
    hours = WeeklyHours((1, 2, 3, 4, 5), time(9), time(17))
    schedule = Cron("0 * * * *", BERLIN, blackout=(freeze,), only_in=(hours,))
    found = exclusion(schedule, at("2026-12-21T10:00"))
    assert found is not None
    assert (found.reason, found.until) == ("blackout: year-end freeze", at("2027-01-03T23:00"))
    outside = exclusion(schedule, at("2026-11-27T17:00"))
    assert outside is not None
    assert outside.reason == "outside of 09:00 to 17:00"
    assert next_allowed(schedule, at("2026-11-27T15:30")) == at("2026-11-30T08:00")
    assert next_allowed(schedule, at("2026-12-18T15:30")) == at("2027-01-04T08:00")


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    night = WeeklyHours((5,), time(22), time(6))
    schedule = Cron("0 * * * *", blackout=(night,))
    excluded = [hour for hour in range(48) if exclusion(schedule, at("2026-11-27T00:00") + timedelta(hours=hour))]
    assert excluded == [22, 23, 24, 25, 26, 27, 28, 29]


def test_a_schedule_that_calendars_exclude_for_ever_has_no_next_fire() -> None:
    always = WeeklyHours((1, 2, 3, 4, 5, 6, 7), time(0), time(0))
    assert next_allowed(Cron("* * * * *", blackout=(always,)), at("2026-11-27T00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (
            Cron("30 2 * * *", BERLIN, dst=Dst(GapPolicy.SHIFT, RepeatPolicy.BOTH)),
            (
                "at 02:30 every day (Europe/Berlin), "
                "shifted when the clocks go forward, both times when the clocks go back"
            ),
        ),
        (
            Cron("0 18 * * *", business_day=(1, -2, -1), calendars=("holidays",)),
            "at 18:00 on the first, second-last and last business day of the month (UTC), except on days of holidays",
        ),
        (
            AnyOf((Cron("0 9 * * MON-FRI"), Cron("0 11 * * SAT", BERLIN)), jitter=timedelta(seconds=30)),
            "at 09:00, Monday to Friday (UTC); at 11:00 every Saturday (Europe/Berlin), up to 30s later",
        ),
        (Every("30m", after_completion=True, max_runs=5), "30m after each run ends, 5 runs in total"),
        (
            Every("1h", only_in=(WeeklyHours((1, 2, 3, 4, 5), time(9), time(17)),), max_runs=1),
            "every hour, only in Monday to Friday 09:00 to 17:00, 1 run in total",
        ),
    ],
)
def test_the_rules_of_a_schedule_are_described(schedule: Schedule, words: str) -> None:
    assert describe(schedule) == words
