"""Days and windows of calendars, exclusions and business days: examples by hand, and an oracle that looks at every
instant by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.calendar import MOST_DAYS, MOST_ENTRIES, Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.exclusion_changes import MOST_SHOWN, exclusion_changes
from cronflow.domain.schedule.exclusions import allowed_until, exclusion, next_allowed
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Repeating, bound
from cronflow.domain.schedule.windows import LONGEST_NAME, MOST_WEEKLY, Period, WeeklyHours, Window, WindowSet
from tests.drawing import examples

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
BERLIN, NEW_YORK, KIRITIMATI = "Europe/Berlin", "America/New_York", "Pacific/Kiritimati"
STEP = 11
"""Seconds between the instants that are looked at; no divisor of an hour."""
NIGHT = WeeklyHours((5,), time(22), time(6), "night of Friday")
EVERY_DAY = tuple(range(1, 8))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --------------------------------------------------------------------------------------------------------------- days


def test_a_day_of_every_year_and_29_february_in_leap_years_alone() -> None:
    calendar = Calendar(name="c", days=(YearlyDay(2, 29, "leap day"), YearlyDay(12, 25, "Christmas")))
    assert calendar.name_of_day(date(2028, 2, 29)) == "leap day"
    assert calendar.name_of_day(date(2027, 2, 28)) is None
    assert calendar.name_of_day(date(2027, 3, 1)) is None
    assert [calendar.name_of_day(date(year, 12, 25)) for year in (1999, 2026, 2400)] == ["Christmas"] * 3
    assert calendar.next_day(date(2026, 12, 25)) == date(2027, 12, 25)
    only_leap = Calendar(name="c", days=(YearlyDay(2, 29),))
    # 2100 is no leap year.
    assert only_leap.next_day(date(2096, 2, 29)) == date(2104, 2, 29)


def test_a_range_has_its_first_and_last_day_and_the_first_entry_gives_the_name() -> None:
    calendar = Calendar(
        name="c",
        days=(
            DaySpan(date(2026, 12, 24), date(2027, 1, 2), "freeze"),
            DaySpan(date(2026, 12, 25), date(2026, 12, 25), "Christmas"),
            YearlyDay(1, 1, "New Year"),
            YearlyDay(1, 1, "again"),
        ),
    )
    assert [calendar.name_of_day(date(2026, 12, day)) for day in (23, 24, 25, 31)] == [
        None,
        "freeze",
        "freeze",
        "freeze",
    ]
    assert [calendar.name_of_day(date(2027, 1, day)) for day in (1, 2, 3)] == ["freeze", "freeze", None]
    assert calendar.name_of_day(date(2028, 1, 1)) == "New Year"


def test_the_days_from_a_date_on_are_listed_with_their_names_up_to_a_bound() -> None:
    calendar = Calendar(
        name="c", days=(YearlyDay(1, 1, "New Year"), DaySpan(date(2026, 12, 31), date(2026, 12, 31)), YearlyDay(5, 1))
    )
    assert calendar.named_days(date(2026, 12, 31), 3, date(2030, 1, 1)) == [
        (date(2026, 12, 31), ""),
        (date(2027, 1, 1), "New Year"),
        (date(2027, 5, 1), ""),
    ]
    assert calendar.named_days(date(2027, 1, 1), 9, date(2027, 4, 30)) == [(date(2027, 1, 1), "New Year")]
    assert Calendar(name="c").named_days(date(2027, 1, 1), 9, date(2030, 1, 1)) == []


def test_the_days_of_a_calendar_are_those_of_its_zone_or_else_of_the_schedule() -> None:
    christmas = Calendar(name="c", days=(DaySpan(date(2026, 12, 25), date(2026, 12, 25)),))
    fire = at("2026-12-24T12:00")
    assert christmas.span_at(fire, "UTC") is None
    assert christmas.span_at(fire, KIRITIMATI) is not None
    assert replace(christmas, tz=NEW_YORK).span_at(fire, KIRITIMATI) is None
    schedule = bound(Every("1h", calendars=("c",)), [replace(christmas, tz=KIRITIMATI)])
    found = exclusion(schedule, fire)
    assert found is not None
    assert (found.reason, found.until) == ("calendar c", at("2026-12-25T10:00"))


def test_consecutive_days_end_together() -> None:
    calendar = Calendar(name="c", days=(DaySpan(date(2026, 12, 24), date(2026, 12, 27), "a"), YearlyDay(12, 28, "b")))
    span = calendar.span_at(at("2026-12-24T05:00"), "UTC")
    assert span is not None
    assert (span.name, span.end) == ("a", at("2026-12-29T00:00"))
    apart = Calendar(name="c", days=(YearlyDay(12, 24), YearlyDay(12, 26)))
    span = apart.span_at(at("2026-12-24T05:00"), "UTC")
    assert span is not None
    assert span.end == at("2026-12-25T00:00")


def test_a_day_that_begins_at_one_in_the_morning_ends_at_the_next_midnight() -> None:
    # The clocks of Beirut go forward at midnight.
    calendar = Calendar(name="c", days=(DaySpan(date(2026, 3, 29), date(2026, 3, 29)),), tz="Asia/Beirut")
    assert calendar.span_at(at("2026-03-28T21:59:59"), "UTC") is None
    span = calendar.span_at(at("2026-03-28T22:00"), "UTC")
    assert span is not None
    assert span.end == at("2026-03-29T21:00")


def test_a_day_that_the_clocks_of_samoa_skipped_excludes_nothing() -> None:
    calendar = Calendar(name="c", days=(DaySpan(date(2011, 12, 30), date(2011, 12, 30)),), tz="Pacific/Apia")
    first = at("2011-12-29T00:00")
    assert not any(calendar.span_at(first + n * timedelta(hours=1), "UTC") for n in range(96))


# ------------------------------------------------------------------------------------------------------------ windows


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    windows = WindowSet([NIGHT])
    # 27 November 2026 is a Friday.
    inside = [hour for hour in range(96) if windows.span_at(at("2026-11-26T00:00") + timedelta(hours=hour), "UTC")]
    assert inside == list(range(24 + 22, 24 + 30))
    span = windows.span_at(at("2026-11-28T03:00"), "UTC")
    assert span is not None
    assert (span.name, span.end) == ("night of Friday", at("2026-11-28T06:00"))
    assert windows.next_begin(at("2026-11-28T06:00"), "UTC") == at("2026-12-04T22:00")


def test_equal_times_are_a_whole_day() -> None:
    windows = WindowSet([WeeklyHours((1,), time(0), time(0))])
    assert [day for day in range(7) if windows.span_at(at("2026-11-23T12:00") + day * DAY, "UTC")] == [0]


def test_the_longest_of_overlapping_windows_gives_the_name_and_the_end() -> None:
    windows = WindowSet(
        [
            Period(local("2026-12-02T00:00"), local("2026-12-03T00:00"), "short"),
            Period(local("2026-12-01T00:00"), local("2027-01-01T00:00"), "long"),
            Period(local("2026-12-20T00:00"), local("2026-12-21T00:00"), "shorter"),
        ]
    )
    for day in ("2026-12-02T10:00", "2026-12-20T10:00", "2026-12-31T23:59:59"):
        span = windows.span_at(at(day), "UTC")
        assert span is not None
        assert (span.name, span.end) == ("long", at("2027-01-01T00:00"))
    assert windows.span_at(at("2027-01-01T00:00"), "UTC") is None
    assert windows.span_at(at("2026-11-30T23:59:59"), "UTC") is None


def test_an_instant_with_an_offset_is_the_same_in_every_zone_and_a_local_time_is_not() -> None:
    fixed = WindowSet([Period(at("2026-12-01T00:00"), at("2026-12-01T01:00"))])
    relative = WindowSet([Period(local("2026-12-01T00:00"), local("2026-12-01T01:00"))])
    assert fixed.span_at(at("2026-12-01T00:30"), NEW_YORK) is not None
    assert relative.span_at(at("2026-12-01T00:30"), NEW_YORK) is None
    assert relative.span_at(at("2026-12-01T05:30"), NEW_YORK) is not None
    assert relative.span_at(at("2026-12-01T00:30"), "UTC") is not None


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: DaySpan(date(2026, 1, 2), date(2026, 1, 1)), "before they begin"),
        (lambda: DaySpan(date(1, 1, 1), date(9999, 1, 1)), "more than 20,000"),
        (lambda: YearlyDay(2, 30), "no day 30 in month 2"),
        (lambda: Period(at("2026-01-01T00:00"), local("2026-01-02T00:00")), "offset"),
        (lambda: Period(local("2026-01-01T00:00"), local("2026-01-01T00:00")), "does not end after its start"),
        (lambda: WeeklyHours((), time(1), time(2)), "no weekdays"),
        (lambda: WeeklyHours((8,), time(1), time(2)), "no weekdays"),
        (lambda: YearlyDay(1, 1, "x" * (LONGEST_NAME + 1)), "at most 200"),
        (lambda: DaySpan(date(2026, 1, 1), date(2026, 1, 1), "x" * 201), "at most 200"),
        (lambda: Period(local("2026-01-01T00:00"), local("2026-01-02T00:00"), "x" * 201), "at most 200"),
        (lambda: WeeklyHours((1,), time(1), time(2), "x" * 201), "at most 200"),
        (lambda: Calendar(name="Not a Name"), "not a calendar name"),
        (lambda: Calendar(name="c", tz="Europe/Berlinn"), "did you mean Europe/Berlin"),
        (lambda: Calendar(name="c", description="x" * 1001), "description"),
        (lambda: Calendar(name="c", days=(YearlyDay(1, 1),) * (MOST_ENTRIES + 1)), "entries"),
        (lambda: Calendar(name="c", days=_years(2000, 2060)), f"more than {MOST_DAYS:,} days"),
        (lambda: Calendar(name="c", windows=(NIGHT,) * (MOST_WEEKLY + 1)), "windows with weekdays"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        make()  # type: ignore[operator]


def _years(first: int, last: int) -> tuple[DaySpan, ...]:
    return tuple(DaySpan(date(year, 1, 1), date(year, 12, 31)) for year in range(first, last))


# --------------------------------------------------------------------------------------------------------- exclusions


def in_window(window: Window, instant: datetime, tz: str) -> bool:
    """By the definition: local times are compared, without any search."""
    zone = ZoneInfo(tz)
    shown = instant.astimezone(zone).replace(tzinfo=None)
    if isinstance(window, Period):
        ends = [
            end.astimezone(UTC) if end.tzinfo else end.replace(tzinfo=zone).astimezone(UTC)
            for end in (window.start, window.end)
        ]
        return ends[0] <= instant < ends[1]
    for day in (shown.date(), shown.date() - DAY):
        begin = datetime.combine(day, window.start)
        end = datetime.combine(day, window.end) + (DAY if window.end <= window.start else timedelta(0))
        if day.isoweekday() in window.weekdays and begin <= shown < end:
            return True
    return False


def in_calendar(calendar: Calendar, instant: datetime, tz: str) -> bool:
    zone = calendar.tz or tz
    day = instant.astimezone(ZoneInfo(zone)).date()
    for one in calendar.days:
        if isinstance(one, DaySpan) and one.first <= day <= one.last:
            return True
        if isinstance(one, YearlyDay) and (one.month, one.day) == (day.month, day.day):
            return True
    return any(in_window(window, instant, zone) for window in calendar.windows)


def is_excluded(schedule: Repeating, instant: datetime) -> bool:
    """What `exclusion` must answer."""

    def covers(entry: str | Window) -> bool:
        if not isinstance(entry, str):
            return in_window(entry, instant, schedule.tz)
        return in_calendar(next(one for one in schedule.book if one.name == entry), instant, schedule.tz)

    if any(map(covers, (*schedule.calendars, *schedule.blackout))):
        return True
    return bool(schedule.only_in) and not any(map(covers, schedule.only_in))


HOLIDAYS = Calendar(name="holidays", days=(DaySpan(date(2026, 10, 25), date(2026, 10, 25)), YearlyDay(3, 28)))
HOURS = Calendar(
    name="hours",
    tz=NEW_YORK,
    windows=(
        WeeklyHours((1, 2, 3, 4, 5), time(9, 30), time(16), "trading"),
        WeeklyHours((7,), time(1, 15), time(2, 45), "Sunday"),
    ),
)
SCHEDULES: list[Repeating] = [
    Every("1s", tz=BERLIN, calendars=("holidays",)),
    Every("1s", tz=BERLIN, blackout=(WeeklyHours(EVERY_DAY, time(2, 15), time(2, 45)),)),
    Every("1s", tz=BERLIN, only_in=(WeeklyHours(EVERY_DAY, time(2, 15), time(2, 45)),)),
    Every("1s", tz=BERLIN, blackout=(WeeklyHours((6, 7), time(22), time(2, 30)), "hours")),
    Every("1s", tz=BERLIN, only_in=("hours", WeeklyHours((6,), time(23), time(3, 10)))),
    Every("1s", tz=BERLIN, only_in=("holidays",), blackout=(WeeklyHours((7,), time(1, 30), time(2, 30)),)),
    Every("1s", tz=BERLIN, blackout=(Period(local("2026-10-25T01:50"), local("2026-10-25T02:20")),)),
    Every("1s", tz=BERLIN, only_in=(Period(local("2027-03-28T02:10"), local("2027-03-28T03:20")), "holidays")),
    Every("1s", tz=NEW_YORK, only_in=("hours",)),
    Every("1s", tz="America/St_Johns", calendars=("holidays",)),
    Every("1s", tz="Australia/Lord_Howe", only_in=(WeeklyHours((7,), time(1, 45), time(2, 20)),)),
]
CHANGES = ("2026-10-24T22:00", "2026-11-01T04:00", "2027-03-27T23:00", "2027-03-14T05:00", "2026-10-03T14:00")
"""Shortly before the clocks change in Berlin, in New York, in both again, and on Lord Howe Island."""


@pytest.mark.parametrize("schedule", SCHEDULES, ids=range(len(SCHEDULES)))
def test_every_second_around_a_change_of_the_clocks_is_excluded_as_by_definition(schedule: Repeating) -> None:
    schedule = bound(schedule, [HOLIDAYS, HOURS])  # type: ignore[assignment]
    for change in CHANGES:
        first = at(change)
        excluded = [is_excluded(schedule, first + n * SECOND) for n in range(0, 5 * 3600, STEP)]
        for place, expected in enumerate(excluded):
            found = exclusion(schedule, first + place * STEP * SECOND)
            assert (found is not None) is expected, (first + place * STEP * SECOND, found)
            if found is None:
                continue
            later = min(len(excluded), place + (found.until - first - place * STEP * SECOND) // (STEP * SECOND))
            assert all(excluded[place:later]), (first + place * STEP * SECOND, found)
            assert found.until > first + place * STEP * SECOND


@pytest.mark.parametrize("schedule", SCHEDULES, ids=range(len(SCHEDULES)))
@pytest.mark.parametrize("change", CHANGES[:4])
def test_the_next_allowed_fire_is_the_first_that_is_not_excluded(schedule: Repeating, change: str) -> None:
    schedule = bound(schedule, [HOLIDAYS, HOURS])  # type: ignore[assignment]
    step = timedelta(minutes=5)
    sparse = replace(schedule, interval=step) if isinstance(schedule, Every) else schedule
    first, last = at(change) - 12 * step, at(change) + 3 * DAY
    instants = [first + n * step for n in range((last - first) // step)]
    allowed = [instant for instant in instants if not is_excluded(schedule, instant)]
    for instant in instants[: 12 * 7 : 2]:
        expected = next((one for one in allowed if one > instant), None)
        found = next_allowed(sparse, instant)
        assert found == expected or (expected is None and (found is None or found >= last))


def test_the_midnight_that_the_clocks_of_st_johns_passed_twice() -> None:
    """Until 2011 they went back from 00:01 to 23:01, so that the end of a day came after the begin of the next."""
    for day in (date(2010, 11, 6), date(2010, 11, 7)):
        calendar = Calendar(name="c", days=(DaySpan(day, day),))
        skipped = bound(Every("1s", tz="America/St_Johns", calendars=("c",)), [calendar])
        only = bound(Every("1s", tz="America/St_Johns", only_in=("c",)), [calendar])
        first = at("2010-11-07T02:00")
        for schedule in (skipped, only):
            assert isinstance(schedule, Every)
            excluded = [is_excluded(schedule, first + n * SECOND) for n in range(0, 7200, 15)]
            for place, expected in enumerate(excluded):
                instant = first + place * 15 * SECOND
                found = exclusion(schedule, instant)
                assert (found is not None) is expected, instant
                if found is not None:
                    assert found.until > instant
                    assert all(excluded[place : place + -(-(found.until - instant) // (15 * SECOND))]), instant


def _weekly() -> st.SearchStrategy[WeeklyHours]:
    clocks = st.builds(time, st.integers(0, 23), st.sampled_from([0, 15, 30]))
    return st.builds(WeeklyHours, st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple), clocks, clocks)


def _periods() -> st.SearchStrategy[Period]:
    begins = st.integers(0, 6 * 96).map(lambda n: local("2026-10-22T00:00") + n * 15 * MINUTE)
    return st.builds(lambda begin, n: Period(begin, begin + n * 15 * MINUTE), begins, st.integers(1, 300))


def _calendars() -> st.SearchStrategy[Calendar]:
    days = st.integers(20, 31).map(lambda day: DaySpan(date(2026, 10, day), date(2026, 10, day)))
    return st.builds(
        Calendar,
        name=st.just("c"),
        tz=st.sampled_from([None, NEW_YORK, KIRITIMATI]),
        days=st.lists(days, max_size=3).map(tuple),
        windows=st.lists(st.one_of(_weekly(), _periods()), max_size=3).map(tuple),
    )


@st.composite
def _schedules(draw: st.DrawFn) -> Repeating:
    entries = st.lists(st.one_of(st.just("c"), _weekly(), _periods()), max_size=2, unique=True).map(tuple)
    schedule = Every(
        "15m",
        tz=draw(st.sampled_from(["UTC", BERLIN])),
        calendars=draw(st.sampled_from([(), ("c",)])),
        blackout=draw(entries),
        only_in=draw(entries),
    )
    return bound(schedule, [draw(_calendars())])  # type: ignore[return-value]


@settings(max_examples=examples(25), deadline=None)
@given(_schedules())
def test_any_schedule_agrees_with_the_definition(schedule: Repeating) -> None:
    first = at("2026-10-23T00:00")
    instants = [first + n * 15 * MINUTE for n in range(5 * 96)]
    excluded = {instant: is_excluded(schedule, instant) for instant in instants}
    for instant in instants[96:288]:
        found = exclusion(schedule, instant)
        assert (found is not None) is excluded[instant], instant
        if found is not None:
            assert all(excluded[one] for one in instants if instant <= one < found.until), (instant, found)
        else:
            end = allowed_until(schedule, instant)
            assert end > instant
            assert not any(excluded[one] for one in instants if instant <= one < end), (instant, end)
    allowed = [instant for instant in instants if not excluded[instant]]
    for instant in instants[:96:5]:
        expected = next((one for one in allowed if one > instant), None)
        found_next = next_allowed(schedule, instant)
        assert found_next == expected or (expected is None and (found_next is None or found_next > instants[-1]))


@settings(max_examples=examples(25), deadline=None)
@given(_schedules(), _calendars())
def test_the_changes_between_two_calendars_are_those_of_the_definition(old: Repeating, calendar: Calendar) -> None:
    new = bound(old, [calendar])
    assert isinstance(new, Every)
    first, last = at("2026-10-23T00:00"), at("2026-10-27T00:00")
    instants = [first + n * 15 * MINUTE for n in range(4 * 96)]
    differ = [(one, is_excluded(old, one), is_excluded(new, one)) for one in instants]
    changes = exclusion_changes(old, new, first, last)
    skipped = [one for one, before, after in differ if after and not before]
    assert [one.fire for one in changes.skipped] == skipped[:MOST_SHOWN]
    assert changes.allowed == [one for one, before, after in differ if before and not after][:MOST_SHOWN]
    assert changes.more or len(skipped) <= MOST_SHOWN
    for one in changes.skipped:
        found = exclusion(new, one.fire)
        assert found is not None
        assert found.reason.partition(":")[0] == one.reason.partition(":")[0]


def test_a_search_for_an_allowed_fire_passes_over_years_and_ends() -> None:
    leap = Calendar(name="c", days=(YearlyDay(2, 29),))
    every_minute = bound(Every("1m", only_in=("c",)), [leap])
    assert every_minute is not None
    assert next_allowed(every_minute, at("2096-03-01T00:00")) == at("2104-02-29T00:00")
    never = bound(
        Every("1m", only_in=("c",)), [Calendar(name="c", days=(DaySpan(date(2020, 1, 1), date(2020, 1, 1)),))]
    )
    assert never is not None
    assert next_allowed(never, at("2026-01-01T00:00")) is None
    far = Every("1s", blackout=(Period(local("2026-01-01T00:00"), local("2126-01-01T00:00")),))
    assert next_allowed(far, at("2026-01-01T00:00")) == at("2126-01-01T00:00")


def test_fires_after_completion_that_are_skipped_follow_at_the_interval() -> None:
    nightly = WeeklyHours(EVERY_DAY, time(22), time(6))
    schedule = Every("7h", after_completion=True, blackout=(nightly,))
    # 19:00 + 7h is 02:00, which is skipped; the next one is 09:00.
    assert next_allowed(schedule, at("2026-11-24T19:00")) == at("2026-11-25T09:00")


# ------------------------------------------------------------------------------------------------------ business days


def business_days(year: int, month: int, calendar: Calendar) -> list[date]:
    days = [date(year, month, 1) + n * DAY for n in range(31)]
    return [day for day in days if day.month == month and day.isoweekday() < 6 and calendar.name_of_day(day) is None]


def _closed() -> Iterator[Calendar]:
    yield Calendar(name="c", days=(YearlyDay(1, 1), YearlyDay(12, 31), YearlyDay(12, 30), YearlyDay(5, 1)))
    yield Calendar(name="c", days=(DaySpan(date(2026, 12, 21), date(2027, 1, 6), "closed"),))
    # A month without any business day.
    yield Calendar(name="c", days=(DaySpan(date(2027, 2, 1), date(2027, 2, 28)),))


@pytest.mark.parametrize("place", [1, 2, -1, -2, 15, 21])
def test_the_nth_business_days_are_those_of_the_definition(place: int) -> None:
    for calendar in _closed():
        schedule = bound(Cron("0 18 * * *", BERLIN, business_day=(place,), calendars=("c",)), [calendar])
        assert schedule is not None
        expected = []
        for month in range(2026 * 12, 2029 * 12):
            days = business_days(month // 12, month % 12 + 1, calendar)
            index = place - 1 if place > 0 else len(days) + place
            expected += [days[index]] if 0 <= index < len(days) else []
        fire, found = at("2025-12-31T23:00"), []
        while (fire := next_after(schedule, fire)) is not None and fire < at("2028-12-31T23:00"):  # type: ignore[assignment]
            found.append(fire.astimezone(ZoneInfo(BERLIN)))
        assert [one.date() for one in found] == expected
        assert {one.time() for one in found} == {time(18)}


def test_business_days_leave_out_the_days_of_calendars_alone() -> None:
    closed = Calendar(name="closed", days=(DaySpan(date(2026, 11, 30), date(2026, 11, 30)),))
    last = Cron("0 18 * * *", business_day=(-1,))
    start = at("2026-11-25T00:00")
    assert next_after(bound(replace(last, calendars=("closed",)), [closed]), start) == at("2026-11-27T18:00")  # type: ignore[arg-type]
    for other in (replace(last, blackout=("closed",)), replace(last, only_in=("closed",))):
        assert next_after(bound(other, [closed]), start) == at("2026-11-30T18:00")  # type: ignore[arg-type]
    whole = bound(AnyOf(schedules=(last, Cron("0 6 1 * *")), calendars=("closed",)), [closed])
    assert next_after(whole, start) == at("2026-11-27T18:00")  # type: ignore[arg-type]
    several = bound(AnyOf(schedules=(last,), blackout=("closed",)), [closed])
    assert next_after(several, start) == at("2026-11-30T18:00")  # type: ignore[arg-type]


def test_a_schedule_without_its_calendars_is_refused_when_it_needs_them() -> None:
    with pytest.raises(InvalidInput, match=r"calendars\[1\]: there is no calendar 'b'"):
        bound(Cron("@daily", calendars=("a", "b")), [Calendar(name="a")])
    with pytest.raises(InvalidInput, match=r"only_in\[0\]: there is no calendar 'b'"):
        bound(Cron("@daily", only_in=("b",)), [Calendar(name="a")])
    with pytest.raises(InvalidInput, match="there is no calendar 'a'"):
        exclusion(Cron("@daily", calendars=("a",)), at("2026-11-25T00:00"))
    with pytest.raises(InvalidInput, match="there is no calendar 'a'"):
        next_after(Cron("@daily", business_day=(1,), calendars=("a",)), at("2026-11-25T00:00"))
