"""Schedule load: the starts of a week by minute, against the oracle; and minutes that are quieter."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronflow.domain.schedule import load as load_module
from cronflow.domain.schedule.calendar import Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule
from cronflow.domain.schedule.load import (
    HOUR,
    MINUTE,
    NAMED,
    WEEK_HOURS,
    WEEK_MINUTES,
    ScheduleLoad,
    at_minute,
    level_of,
    levels,
    minute_of,
    week_of,
)
from cronflow.domain.schedule.windows import Period, WeeklyHours
from cronflow.domain.schedule.zones import SECOND
from cronflow.testing.schedule_oracle import fires_between, is_excluded
from tests.drawing import examples

PLAIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPRING = datetime(2027, 3, 25, 5, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 22, 20, tzinfo=UTC)

OFF = Calendar(name="off", days=(DaySpan(date(2026, 11, 23), date(2026, 11, 24)), YearlyDay(10, 25), YearlyDay(3, 28)))


def expected(schedule: Schedule, first: datetime) -> dict[int, int]:
    """The starts in each minute of the week, by the oracle."""
    fires = fires_between(schedule, first, first + WEEK_HOURS * HOUR)
    return dict(Counter((fire - first) // MINUTE for fire in fires))


def counted(schedule: Schedule, first: datetime) -> dict[int, int]:
    found = Counter[int]()
    for minute, starts in week_of(schedule, first).minutes():
        found[minute] += starts
    return dict(found)


@pytest.mark.parametrize("first", [PLAIN, SPRING, AUTUMN], ids=["plain", "spring", "autumn"])
@pytest.mark.parametrize(
    "schedule",
    [
        Cron("0 2 * * *", "Europe/Berlin"),
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("*/7 * * * *", "Europe/Berlin"),
        Cron("15,45 */3 * * MON-FRI", "America/New_York"),
        Cron("*/20 9 * * *", "Asia/Kolkata"),
        Cron("10,50 0,23 * * *", "Asia/Kathmandu"),
        Cron("30 5 L * *", "UTC"),
        Cron("5,35 10 12 * * MON#2", "UTC"),
        Cron("@daily", "Asia/Tokyo"),
        Cron("0 * * * *", start=PLAIN + timedelta(days=2), end=PLAIN + timedelta(days=3)),
        Cron("*/20 * 9 * * *", "Europe/Berlin"),
        Every("45s"),
        Every("7s", start=PLAIN + timedelta(days=6)),
        Every("7s"),
        Every("90m"),
        Every("61s", anchor=PLAIN + timedelta(days=9, seconds=5)),
        Every("5m"),
        Every("1d", time="02:30", tz="Europe/Berlin"),
        Once(PLAIN + timedelta(hours=30, minutes=7)),
    ],
    ids=str,
)
def test_the_minutes_of_a_week_have_the_starts_of_the_oracle(schedule: Schedule, first: datetime) -> None:
    starts = expected(schedule, first)
    assert counted(schedule, first) == starts
    assert week_of(schedule, first).starts == sum(starts.values())


fields = st.sampled_from(["0", "30", "*/20", "1-3", "5,50", "*"])


@settings(deadline=None, max_examples=examples(25))
@given(
    minute=fields,
    hour=st.sampled_from(["*", "2", "*/6", "0,23"]),
    days=st.sampled_from(["* * *", "* * 1-5", "25 * *", "L * *"]),
    tz=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns"]),
    first=st.one_of(
        st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 1)),  # noqa: DTZ001
        st.integers(-9 * 24, 2 * 24).map(lambda hours: datetime(2026, 10, 25, 1) + hours * HOUR),  # noqa: DTZ001
        st.integers(-9 * 24, 2 * 24).map(lambda hours: datetime(2027, 3, 28, 1) + hours * HOUR),  # noqa: DTZ001
    ),
)
def test_any_cron_has_the_starts_of_the_oracle_in_any_week(
    minute: str, hour: str, days: str, tz: str, first: datetime
) -> None:
    begin = first.replace(minute=0, second=0, microsecond=0, tzinfo=UTC)
    cron = Cron(f"{minute} {hour} {days}", tz)
    assert counted(cron, begin) == expected(cron, begin)


NIGHT = WeeklyHours((1, 2, 3, 4, 5, 6, 7), time(2), time(3))
BRIEFLY = WeeklyHours((1, 2, 3, 4, 5), time(9), time(9, 5))


@pytest.mark.parametrize("first", [PLAIN, SPRING, AUTUMN], ids=["plain", "spring", "autumn"])
@pytest.mark.parametrize(
    ("schedule", "frequent"),
    [
        (AnyOf((Every("5m"), Cron("0 2 * * *"))), False),
        (AnyOf((Cron("*/10 * * * *"), Cron("5-55/10 * * * *"), Once(PLAIN + HOUR))), False),
        (AnyOf((Every("5m"), Every("7m"))), True),
        (Cron("H H(1-4) * * *", "Europe/Berlin", seed="report"), False),
        (Cron("0 * * * *", jitter=timedelta(minutes=20), seed="report"), False),
        (Every("5m", jitter=timedelta(minutes=4), seed="report"), False),
        (Every("30s", jitter=timedelta(seconds=20), seed="report"), True),
        (Cron("30 2 * * *", "Europe/Berlin", dst=Dst(GapPolicy.SKIP, RepeatPolicy.BOTH)), False),
        (Cron("0 18 * * *", business_day=(-1, 1)), False),
        (Cron("0 * * * *", only_in=(NIGHT,)), False),
        (Cron("*/5 * * * *", only_in=(NIGHT,), tz="Europe/Berlin"), False),
        (Cron("* * * * *", only_in=(BRIEFLY,)), False),
        (Cron("* * * * *", only_in=(NIGHT,)), True),
        (Every("10s", only_in=(BRIEFLY,), tz="Europe/Berlin"), True),
        (Every("20s", blackout=(NIGHT,)), True),
        (Every("15s", blackout=(Period(PLAIN + timedelta(minutes=90, seconds=20), PLAIN + 3 * HOUR + SECOND),)), True),
        (Cron("0 * * * *", calendars=("off",), book=(OFF,)), False),
    ],
    ids=str,
)
def test_rules_of_schedules_add_move_and_remove_starts(schedule: Schedule, frequent: bool, first: datetime) -> None:
    fires = fires_between(schedule, first, first + WEEK_HOURS * HOUR)
    starts = Counter((fire - first) // MINUTE for fire in fires if not is_excluded(schedule, fire))
    assert counted(schedule, first) == dict(starts)
    assert week_of(schedule, first).frequent is frequent
    assert week_of(schedule, first, False).frequent is frequent


def test_plain_schedules_take_no_steps() -> None:
    for schedule in (Every("1h"), Every("30s"), Every("90m", anchor=PLAIN), Cron("0 * * * *"), Cron("H * * * *")):
        assert week_of(schedule, PLAIN).steps == 0, schedule


@pytest.mark.parametrize("frequent", [False, True])
def test_a_schedule_whose_starts_depend_on_its_runs_is_uncounted(frequent: bool) -> None:
    load = ScheduleLoad(PLAIN, frequent)
    load.add("loop", Every("1s", after_completion=True))
    assert (load.jobs, load.left_out, load.uncounted, sum(load.minutes())) == (0, 0, 1, 0)


def test_no_schedule_takes_more_steps_than_allowed() -> None:
    everything = AnyOf((Every("1s"), Every("7s")))
    for schedule, members in (
        (everything, 2),
        (Every("1s", jitter=timedelta(seconds=5), seed="x", start=PLAIN + HOUR), 1),
        (Every("1s", blackout=(NIGHT,)), 1),
    ):
        week = week_of(schedule, PLAIN, False)
        assert (week.blocks, week.frequent, week.unknown) == ((), True, False)
        assert week.steps <= members * (12 * WEEK_HOURS + 2)
    load = ScheduleLoad(PLAIN, frequent=True)
    load.add("everything", everything)
    assert (load.jobs, load.uncounted) == (0, 1)
    assert week_of(everything, PLAIN).steps <= 2 * (2 * WEEK_MINUTES + 1)


@pytest.mark.parametrize("hours", [0, 1, 2, 166, 167])
def test_a_week_may_begin_or_end_in_the_hour_that_is_repeated(hours: int) -> None:
    first = datetime(2026, 10, 25, 1, tzinfo=UTC) - hours * HOUR
    for expr in ("30 2 * * *", "30 1-3 * * *", "*/30 * * * *", "*/20 */5 2 * * *"):
        assert counted(Cron(expr, "Europe/Berlin"), first) == expected(Cron(expr, "Europe/Berlin"), first)


def test_a_day_that_a_zone_has_skipped_is_not_counted() -> None:
    first = datetime(2011, 12, 28, tzinfo=UTC)
    for expr in ("30 2 * * *", "0 * * * *", "0 12 30 * *"):
        assert counted(Cron(expr, "Pacific/Apia"), first) == expected(Cron(expr, "Pacific/Apia"), first)


@pytest.mark.parametrize(
    ("schedule", "frequent"),
    [
        (Cron("*/5 * * * *"), False),
        (Cron("*/4 * * * *"), True),
        (Cron("* 9 * * *"), True),
        (Cron("0,2 9 * * *"), False),
        (Cron("*/20 0 9 * * *"), False),
        (Cron("* 0 9 * * *"), True),
        (Every("5m"), False),
        (Every("4m"), True),
        (Every("1s"), True),
        (Every("4m", start=PLAIN + timedelta(days=6)), True),
        (Once(PLAIN), False),
    ],
    ids=str,
)
def test_a_schedule_that_starts_more_often_than_every_five_minutes_is_frequent(
    schedule: Schedule, frequent: bool
) -> None:
    assert week_of(schedule, PLAIN).frequent is frequent
    assert week_of(schedule, PLAIN, False).frequent is frequent


def test_frequent_jobs_are_left_out_unless_they_are_asked_for() -> None:
    jobs: list[tuple[str, Schedule]] = [("a", Cron("0 2 * * *")), ("b", Cron("* * * * *")), ("c", Every("30s"))]
    few, all_of_them = ScheduleLoad(PLAIN), ScheduleLoad(PLAIN, frequent=True)
    for name, schedule in jobs:
        few.add(name, schedule)
        all_of_them.add(name, schedule)
    assert (few.jobs, few.left_out, sum(few.minutes())) == (1, 2, 7)
    assert (all_of_them.jobs, all_of_them.left_out, sum(all_of_them.minutes())) == (3, 0, 7 + 10_080 + 20_160)
    assert (few.jobs_at(14 * 60), all_of_them.jobs_at(14 * 60)) == ((1, ["a"]), (3, ["a", "b", "c"]))


def test_a_minute_names_its_first_jobs_and_counts_the_others() -> None:
    load = ScheduleLoad(PLAIN)
    for n in range(30):
        # Of two kinds, which are grouped apart.
        load.add(f"job-{n:02}", Cron("0 2 * * *") if n % 2 else Cron("0 2 * * SUN"))
    jobs, names = load.jobs_at(14 * 60)
    assert (jobs, list(names)) == (30, [f"job-{n:02}" for n in range(NAMED)])
    assert load.busiest(3) == [14 * 60, 38 * 60, 62 * 60]
    assert load.jobs_at(38 * 60)[0] == 15
    assert load.jobs_at(0) == (0, ())


def test_many_different_weeks_are_counted_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(groups: int) -> ScheduleLoad:
        monkeypatch.setattr(load_module, "_MOST_GROUPS", groups)
        found = ScheduleLoad(PLAIN)
        for n in range(200):
            found.add(f"job-{n:03}", Cron(f"{n % 3} {n % 24} * * {n % 7}"))
        return found

    few, many = load(2), load(1000)
    assert list(few.minutes()) == list(many.minutes())
    assert [few.jobs_at(minute) for minute in range(10_080)] == [many.jobs_at(minute) for minute in range(10_080)]


def test_schedules_beyond_the_steps_are_uncounted_but_plain_crons_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "MOST_STEPS", 300)
    load = ScheduleLoad(PLAIN)
    for n in range(5):
        load.add(f"every-{n}", Every("1h", start=PLAIN + timedelta(seconds=n + 1)))
    load.add("cron", Cron("0 2 * * *"))
    assert (load.jobs, load.uncounted) == (3, 3)


def test_a_schedule_that_many_jobs_share_costs_its_steps_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "MOST_STEPS", 300)
    load = ScheduleLoad(PLAIN)
    slow = [load.add(f"every-{n}", Every("1h", start=PLAIN + HOUR)) for n in range(50)]
    assert (load.jobs, load.uncounted, slow.count(True)) == (50, 0, 1)
    load.add("too-much", Every("1h", start=PLAIN + 2 * HOUR))
    assert not load.add("another", Every("1h", start=PLAIN + 3 * HOUR))
    load.add("known", Every("1h", start=PLAIN + HOUR))
    assert (load.jobs, load.uncounted) == (52, 1)


def test_levels_are_quantiles_of_the_hours_in_which_something_starts() -> None:
    peaks = [0] * 60 + [1] * 40 + [2] * 30 + [5] * 25 + [100] * 5
    limits = levels(peaks)
    assert limits == [1, 2, 5, 5]
    assert [level_of(value, limits) for value in (0, 1, 2, 5, 100)] == [0, 1, 2, 3, 5]
    assert (levels([0, 0]), level_of(0, [])) == ([], 0)
    assert [level_of(value, levels([3] * 168)) for value in (0, 3)] == [0, 1]


def the_load(target: Schedule, *others: Schedule) -> ScheduleLoad:
    """Of a target and other jobs."""
    found = ScheduleLoad(PLAIN, frequent=True)
    for n, schedule in enumerate((target, *others)):
        found.add(f"job-{n:03}", schedule)
    return found


def test_a_quieter_minute_is_one_that_fewer_share_in_the_same_hours() -> None:
    target = Cron("0 2 * * *")
    crowded = [Cron("0 2 * * *")] * 5 + [Cron(f"{minute} 2 * * *") for minute in range(1, 60) if minute != 37]
    elsewhere = [Cron("37 3 * * *")] * 50
    load = the_load(target, *crowded, *elsewhere)
    slot = load.slot("report", target, counted=True)
    assert slot is not None
    assert (slot.minute, slot.beside, slot.quieter, slot.there, slot.cron) == (0, 35, 37, 0, "37 2 * * *")
    new = load.slot("report", target, counted=False)
    assert new is not None
    assert new.beside == 42
    assert (load.jobs, sum(load.minutes())) == (114, 7 * 114)


def test_a_cron_that_is_alone_is_not_sent_away() -> None:
    target = Cron("0 2 * * *")
    slot = the_load(target, Cron("30 2 * * *"), Every("1m")).slot("report", target, counted=True)
    assert slot is not None
    assert (slot.beside, slot.quieter, slot.cron) == (7, None, "0 2 * * *")


def test_not_all_jobs_are_moved_to_the_same_minute() -> None:
    target = Cron("@hourly")
    load = the_load(target, *[Cron("0 * * * *")] * 9)
    found = [load.slot(f"job-{n}", target, counted=True) for n in range(20)]
    slots = {slot.quieter for slot in found if slot is not None}
    assert 0 not in slots
    assert len(slots) > 10


@pytest.mark.parametrize(
    ("expr", "minute", "moved"),
    [
        ("@daily", 0, "7 0 * * *"),
        ("5 0 2 * * *", 0, "5 7 2 * * *"),
        ("30 */2 * * MON-FRI", 30, "7 */2 * * MON-FRI"),
        ("*/5 * * * *", None, None),
        ("0,30 2 * * *", None, None),
    ],
)
def test_only_a_cron_with_one_minute_has_one_to_change(expr: str, minute: int | None, moved: str | None) -> None:
    assert minute_of(Cron(expr)) == minute
    if moved is not None:
        assert at_minute(expr, 7) == moved
    else:
        assert the_load(Cron(expr)).slot("job", Cron(expr), counted=True) is None
