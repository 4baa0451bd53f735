"""Exclusions at clock changes: an exclusion never reaches over an instant that is allowed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest

from cronflow.domain.schedule.calendar import Calendar, DaySpan, WeeklyHours
from cronflow.domain.schedule.exclusions import exclusion, next_allowed
from cronflow.domain.schedule.kinds import Every

DAILY = (1, 2, 3, 4, 5, 6, 7)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def hours(start: str, end: str) -> WeeklyHours:
    return WeeklyHours(DAILY, time.fromisoformat(start), time.fromisoformat(end))


@pytest.mark.parametrize(
    ("window", "after", "expected"),
    [
        # 02:50 the first time; clocks go back from 03:00 to 02:00 at 01:00 UTC, and 02:30 comes again.
        (hours("02:30", "02:45"), "2026-10-25 00:50", "2026-10-25 01:30"),
        # 02:40 the first time; clocks go back into the window.
        (hours("01:30", "02:30"), "2026-10-25 00:40", "2026-10-25 01:00"),
        # 02:10 the second time.
        (hours("02:30", "02:45"), "2026-10-25 01:10", "2026-10-25 01:30"),
        # 02:00 to 03:00 are skipped on that day.
        (hours("02:30", "02:45"), "2026-03-29 00:50", "2026-03-30 00:30"),
    ],
)
def test_a_window_that_comes_twice_is_open_twice(window: WeeklyHours, after: str, expected: str) -> None:
    in_berlin = Every("5m", tz="Europe/Berlin", only_in=(window,))
    assert next_allowed(in_berlin, at(after)) == at(expected)
    book = (Calendar(name="open", windows=(window,)),)
    assert next_allowed(Every("5m", tz="Europe/Berlin", only_in=("open",), book=book), at(after)) == at(expected)


def test_a_closed_window_that_ends_early_because_clocks_go_back_does_not_exclude_what_follows() -> None:
    # 02:30 to 06:00 are closed. Clocks go back from 03:00 to 02:00, so 02:00 to 02:30 are open again.
    schedule = Every("5m", tz="Europe/Berlin", blackout=(hours("02:30", "06:00"),))
    assert next_allowed(schedule, at("2026-10-25 00:40")) == at("2026-10-25 01:00")
    found = exclusion(schedule, at("2026-10-25 00:40"))
    assert found is not None
    assert found.until == at("2026-10-25 01:00")


def test_a_day_that_comes_again_after_its_midnight_is_closed_again() -> None:
    # At 02:31 UTC the clocks of St. John's go back from 00:01 on the 7th to 23:01 on the 6th.
    tz = "America/St_Johns"
    for day, expected in ((6, "2010-11-07 03:30"), (7, "2010-11-07 02:31")):
        book = (Calendar(name="closed", days=(DaySpan(date(2010, 11, day), date(2010, 11, day)),)),)
        closed = Every("1m", tz=tz, calendars=("closed",), book=book)
        assert next_allowed(closed, at("2010-11-07 02:30")) == at(expected)
        only = Every("1m", tz=tz, only_in=("closed",), book=book)
        assert next_allowed(only, at("2010-11-07 02:40")) == at("2010-11-07 02:41" if day == 6 else "2010-11-07 03:30")


def test_a_search_passes_over_a_clock_change() -> None:
    noon = Every("1m", tz="America/St_Johns", only_in=(hours("12:00", "12:01"),))
    for after in ("2010-11-06 20:00", "2010-11-07 02:30", "2010-11-07 02:40"):
        assert next_allowed(noon, at(after)) == at("2010-11-07 15:30")
