"""Schedules: known instants, computed by hand."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest

from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule

BERLIN = "Europe/Berlin"
LORD_HOWE = "Australia/Lord_Howe"
SAO_PAULO = "America/Sao_Paulo"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(schedule: Schedule, after: str, n: int) -> list[str]:
    """The next n fires as `2026-11-21 12:00`, with the seconds where there are some."""
    found: list[str] = []
    instant: datetime | None = at(after)
    while instant is not None and len(found) < n:
        instant = next_after(schedule, instant)
        if instant is not None:
            found.append(f"{instant:%Y-%m-%d %H:%M:%S}".removesuffix(":00"))
    return found


@pytest.mark.parametrize(
    ("expr", "after", "expected"),
    [
        ("0 2 * * *", "2026-11-21 02:00", ["2026-11-22 02:00", "2026-11-23 02:00"]),
        ("*/20 9-10 * * *", "2026-11-21 09:30", ["2026-11-21 09:40", "2026-11-21 10:00", "2026-11-21 10:20"]),
        ("*/25 * * * * *", "2026-11-21 09:59:30", ["2026-11-21 09:59:50", "2026-11-21 10:00", "2026-11-21 10:00:25"]),
        ("5 4 3 2 1 *", "2026-11-21", ["2027-01-02 03:04:05"]),
        ("0 0 1 jan,Jul *", "2026-11-21", ["2027-01-01 00:00", "2027-07-01 00:00"]),
        ("0 0 * * MON-FRI", "2026-11-20", ["2026-11-23 00:00", "2026-11-24 00:00"]),
        ("0 0 * * 7", "2026-11-21", ["2026-11-22 00:00"]),
        ("50/5 0 * * *", "2026-11-21", ["2026-11-21 00:50", "2026-11-21 00:55", "2026-11-22 00:50"]),
        ("5-5/2 0 * * *", "2026-11-21", ["2026-11-21 00:05", "2026-11-22 00:05"]),
        ("0 */24 * * *", "2026-11-21", ["2026-11-22 00:00", "2026-11-23 00:00"]),
        ("0 0 L * *", "2028-01-31", ["2028-02-29 00:00", "2028-03-31 00:00"]),
        ("0 0 LW * *", "2026-01-01", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00"]),
        ("0 0 * * MON#2", "2026-11-01", ["2026-11-09 00:00", "2026-12-14 00:00"]),
        ("0 0 * * 5L", "2026-11-01", ["2026-11-27 00:00", "2026-12-25 00:00"]),
        ("0 0 29 2 *", "2096-02-29", ["2104-02-29 00:00"]),
        ("0 0 * 2 MON#5", "2026-11-21", ["2044-02-29 00:00", "2072-02-29 00:00"]),
        ("@yearly", "2026-11-21", ["2027-01-01 00:00"]),
        ("@annually", "2026-11-21", ["2027-01-01 00:00"]),
        ("@monthly", "2026-11-21", ["2026-12-01 00:00"]),
        ("@weekly", "2026-11-21", ["2026-11-22 00:00"]),
        ("@Daily", "2026-11-21", ["2026-11-22 00:00"]),
        ("@midnight", "2026-11-21", ["2026-11-22 00:00"]),
        (" @hourly ", "2026-11-21", ["2026-11-21 01:00", "2026-11-21 02:00"]),
    ],
)
def test_a_cron_fires_at_its_times(expr: str, after: str, expected: list[str]) -> None:
    assert fires(Cron(expr), after, len(expected)) == expected


def test_a_day_and_a_weekday_without_a_star_are_alternatives() -> None:
    expected = ["2026-11-13 00:00", "2026-11-15 00:00", "2026-11-20 00:00"]
    assert fires(Cron("0 0 15 * FRI"), "2026-11-07", 3) == expected


@pytest.mark.parametrize("expr", ["0 0 */2 * MON", "0 0 */2 * 1"])
def test_a_day_and_a_weekday_must_both_match_when_one_begins_with_a_star(expr: str) -> None:
    assert fires(Cron(expr), "2026-11-01", 3) == ["2026-11-09 00:00", "2026-11-23 00:00", "2026-12-07 00:00"]


# Europe/Berlin: 2026-03-29 01:00 UTC the clocks jump from 02:00 to 03:00; 2026-10-25 01:00 UTC from 03:00 to 02:00.
# Australia/Lord_Howe: 2026-10-03 15:30 UTC from 02:00 to 02:30; 2026-04-04 15:00 UTC from 02:00 to 01:30.
# America/Sao_Paulo: 2018-11-04 03:00 UTC from 00:00 to 01:00; 2018-02-18 02:00 UTC from 00:00 to 23:00 the day before.
# Pacific/Apia: 2011-12-30 10:00 UTC from the end of the 29th to the beginning of the 31st.
@pytest.mark.parametrize("seconds", ["", "0 "])
@pytest.mark.parametrize(
    ("expr", "tz", "after", "expected"),
    [
        ("30 2 * * *", BERLIN, "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        ("0,15,30 2,3 * * *", BERLIN, "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-29 01:15", "2026-03-29 01:30"]),
        ("0 1-4 * * *", BERLIN, "2026-03-28 12:00", ["2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 02:00"]),
        ("59 1 * * *", BERLIN, "2026-03-28 12:00", ["2026-03-29 00:59", "2026-03-29 23:59"]),
        ("30 2 * * *", BERLIN, "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        ("0 2,3 * * *", BERLIN, "2026-10-24 12:00", ["2026-10-25 00:00", "2026-10-25 02:00", "2026-10-26 01:00"]),
        ("30 2 * * *", BERLIN, "2026-03-29 00:59:59", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        ("30 2 * * *", BERLIN, "2026-10-25 00:45", ["2026-10-26 01:30"]),
        ("30 2 * * *", BERLIN, "2026-10-25 01:15", ["2026-10-26 01:30"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-03 12:00", ["2026-10-03 15:30", "2026-10-04 15:15"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-04 12:00", ["2026-04-04 14:45", "2026-04-05 15:15"]),
        ("0 0 * * *", SAO_PAULO, "2018-11-03 12:00", ["2018-11-04 03:00", "2018-11-05 02:00"]),
        ("0,30 0,1 * * *", SAO_PAULO, "2018-11-03 12:00", ["2018-11-04 03:00", "2018-11-04 03:30", "2018-11-05 02:00"]),
        ("30 23 * * *", SAO_PAULO, "2018-02-17 12:00", ["2018-02-18 01:30", "2018-02-19 02:30"]),
        ("0 0 * * *", "Asia/Beirut", "2022-03-26 12:00", ["2022-03-26 22:00", "2022-03-27 21:00"]),
        ("0 0 * * *", "Africa/Cairo", "2023-04-27 12:00", ["2023-04-27 22:00", "2023-04-28 21:00"]),
        ("30 23 * * *", "Africa/Cairo", "2023-10-26 12:00", ["2023-10-26 20:30", "2023-10-27 21:30"]),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29 12:00",
            ["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"],
        ),
        ("0 0 * * *", "Pacific/Apia", "2011-12-29 12:00", ["2011-12-30 10:00", "2011-12-31 10:00"]),
    ],
)
def test_a_time_in_the_gap_fires_after_it_and_a_time_that_comes_twice_fires_the_first_time(
    seconds: str, expr: str, tz: str, after: str, expected: list[str]
) -> None:
    assert fires(Cron(seconds + expr, tz), after, len(expected)) == expected


@pytest.mark.parametrize("seconds", ["", "0 "])
@pytest.mark.parametrize(
    ("expr", "tz", "instant", "expected"),
    [
        ("30 2 * * *", BERLIN, "2026-03-29 00:59:59", "2026-03-28 01:30"),
        ("30 2 * * *", BERLIN, "2026-03-29 01:00", "2026-03-29 01:00"),
        ("30 2 * * *", BERLIN, "2026-03-29 12:00", "2026-03-29 01:00"),
        ("45 2 * * *", BERLIN, "2026-10-25 00:44", "2026-10-24 00:45"),
        ("45 2 * * *", BERLIN, "2026-10-25 01:15", "2026-10-25 00:45"),
        ("45 2 * * *", BERLIN, "2026-10-25 12:00", "2026-10-25 00:45"),
        ("45 * * * *", BERLIN, "2026-10-25 01:15", "2026-10-25 00:45"),
        ("45 * * * *", BERLIN, "2026-10-25 01:50", "2026-10-25 01:45"),
        ("45 * * * *", BERLIN, "2026-03-29 01:15", "2026-03-29 00:45"),
        ("*/15 2 * * *", BERLIN, "2026-03-29 12:00", "2026-03-28 01:45"),
        ("15 2 * * *", LORD_HOWE, "2026-10-03 16:00", "2026-10-03 15:30"),
        ("50 1 * * *", LORD_HOWE, "2026-04-04 15:10", "2026-04-04 14:50"),
        ("0 12 * * *", "Pacific/Apia", "2011-12-30 12:00", "2011-12-30 10:00"),
        # The clocks went back from 00:01 to 23:01 at 02:31 UTC: midnight had been, and the 6th was there again.
        ("0 0 * * *", "America/St_Johns", "2010-11-07 02:45", "2010-11-07 02:30"),
    ],
)
def test_looking_back_across_a_change_finds_the_same_fires(
    seconds: str, expr: str, tz: str, instant: str, expected: str
) -> None:
    found = last_before(Cron(seconds + expr, tz), at(instant), not_before=at("2000-01-01"))
    assert found == at(expected)


def test_a_daily_time_is_found_behind_clocks_that_went_back_across_midnight() -> None:
    midnight = Every("1d", time="00:00", tz="America/St_Johns")
    found = last_before(midnight, at("2010-11-07 02:45"), not_before=at("2010-01-01"))
    assert found == at("2010-11-07 02:30")
    assert next_after(midnight, at("2010-11-07 02:45")) == at("2010-11-08 03:30")


@pytest.mark.parametrize(
    ("expr", "first", "last", "expected"),
    [
        ("0,15,30 2,3 * * *", "2026-03-29 01:00", "2026-03-29 01:00", 1),
        ("0,15,30 2,3 * * *", "2026-03-28 12:00", "2026-03-29 12:00", 3),
        ("0,15,30 2,3 * * *", "2026-10-24 12:00", "2026-10-25 12:00", 6),
        ("0,15,30 2,3 * * *", "2026-10-25 01:00", "2026-10-25 02:00", 1),
        ("0 * * * *", "2026-03-28 12:00", "2026-03-29 12:00", 25),
        ("0 * * * *", "2026-10-24 12:00", "2026-10-25 12:00", 25),
        ("*/15 2 * * *", "2026-10-24 12:00", "2026-10-25 12:00", 8),
        ("*/15 2 * * *", "2026-03-28 12:00", "2026-03-29 12:00", 0),
    ],
)
def test_counting_across_a_change_counts_each_fire_once(expr: str, first: str, last: str, expected: int) -> None:
    assert count_between(Cron(expr, BERLIN), at(first), at(last)) == expected


def test_many_seconds_in_the_gap_are_one_fire() -> None:
    expected = ["2026-03-29 01:00", "2026-03-30 00:30", "2026-03-30 00:30:20", "2026-03-30 00:30:40"]
    assert fires(Cron("*/20 30 2 * * *", BERLIN), "2026-03-28 12:00", 4) == expected


@pytest.mark.parametrize("seconds", ["", "0 "])
@pytest.mark.parametrize(
    ("expr", "tz", "after", "expected"),
    [
        ("*/30 * * * *", BERLIN, "2026-03-29 00:29", ["00:30", "01:00", "01:30", "02:00"]),
        ("*/30 * * * *", BERLIN, "2026-10-24 23:59", ["00:00", "00:30", "01:00", "01:30", "02:00"]),
        ("0 * * * *", BERLIN, "2026-03-28 23:59", ["00:00", "01:00", "02:00"]),
        ("0 * * * *", BERLIN, "2026-10-24 23:59", ["00:00", "01:00", "02:00"]),
        ("*/30 2 * * *", BERLIN, "2026-10-24 12:00", ["00:00", "00:30", "01:00", "01:30", "01:00"]),
        ("*/30 2 * * *", BERLIN, "2026-03-28 12:00", ["00:00", "00:30"]),
        ("*/15 * * * *", LORD_HOWE, "2026-10-03 15:14", ["15:15", "15:30", "15:45", "16:00"]),
        ("*/15 * * * *", LORD_HOWE, "2026-04-04 14:44", ["14:45", "15:00", "15:15", "15:30"]),
        ("0 * * * *", SAO_PAULO, "2018-02-18 00:30", ["01:00", "02:00", "03:00"]),
        ("0 * * * *", "Pacific/Apia", "2011-12-30 08:30", ["09:00", "10:00", "11:00"]),
    ],
)
def test_an_interval_keeps_its_real_length_through_both_changes(
    seconds: str, expr: str, tz: str, after: str, expected: list[str]
) -> None:
    assert [fire[11:] for fire in fires(Cron(seconds + expr, tz), after, len(expected))] == expected


def test_a_schedule_of_every_ten_seconds_does_not_notice_a_change() -> None:
    schedule = Cron("*/10 * * * * *", BERLIN)
    for change in (at("2026-03-29 01:00"), at("2026-10-25 01:00")):
        found = latest(schedule, change + timedelta(hours=2), 1_440, not_before=change - timedelta(days=1))
        assert {late - early for early, late in pairwise(found)} == {timedelta(seconds=10)}


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        (Every("30s"), "2026-11-21 12:00:01", ["2026-11-21 12:00:30", "2026-11-21 12:01"]),
        (Every(90), "2026-11-21 12:00", ["2026-11-21 12:01:30", "2026-11-21 12:03"]),
        (Every("1d"), "2026-11-21 12:00", ["2026-11-22 00:00"]),
        (Every("1w"), "2026-11-21 12:00", ["2026-11-23 00:00", "2026-11-30 00:00"]),
        (Every("7m", at("2026-11-21 12:03:20")), "2026-11-21 12:00", ["2026-11-21 12:03:20", "2026-11-21 12:10:20"]),
        (Every("1h", at("2030-01-01 00:20")), "2026-11-21 12:00", ["2026-11-21 12:20", "2026-11-21 13:20"]),
        (Every("2w", at("2026-11-18 09:00")), "2026-11-21", ["2026-12-02 09:00", "2026-12-16 09:00"]),
        (Every("1d", time="02:00", tz=BERLIN), "2026-10-24", ["2026-10-25 00:00", "2026-10-26 01:00"]),
        (Every("1d", time="02:30", tz=BERLIN), "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        (Every("1d", time="02:30:15", tz=BERLIN), "2026-10-24 12:00", ["2026-10-25 00:30:15", "2026-10-26 01:30:15"]),
        (Every("1w", time="02:00", tz=BERLIN), "2026-11-21", ["2026-11-23 01:00", "2026-11-30 01:00"]),
        (Every("1d", time="00:00", tz="Pacific/Apia"), "2011-12-29 12:00", ["2011-12-30 10:00", "2011-12-31 10:00"]),
        (
            # 23:30 UTC is already the 22nd in Berlin: the days count from there.
            Every("3d", at("2026-11-21 23:30"), BERLIN, "06:00"),
            "2026-11-21",
            ["2026-11-22 05:00", "2026-11-25 05:00"],
        ),
    ],
)
def test_every_counts_from_its_origin(schedule: Every, after: str, expected: list[str]) -> None:
    assert fires(schedule, after, len(expected)) == expected


def test_once_fires_once() -> None:
    christmas = Once(datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=1))))
    assert christmas.at.tzinfo is UTC
    assert fires(christmas, "2026-11-21", 2) == ["2026-12-24 17:00"]
    assert last_before(christmas, at("2026-12-24 17:00"), not_before=at("2026-12-24 17:00")) == at("2026-12-24 17:00")
    assert last_before(christmas, at("2026-12-24 16:59"), not_before=at("2026-01-01")) is None
    assert count_between(christmas, at("2026-12-24 17:00"), at("2026-12-24 17:00")) == 1
    assert count_between(christmas, at("2026-12-24 17:01"), at("2026-12-25")) == 0
    assert latest(christmas, at("2027-01-01"), 5, not_before=at("2026-01-01")) == [at("2026-12-24 17:00")]


@pytest.mark.parametrize("make", [lambda **window: Cron("0 * * * *", **window), lambda **window: Every("1h", **window)])
def test_a_schedule_fires_from_its_start_until_before_its_end(make: Callable[..., Cron | Every]) -> None:
    schedule = make(start=at("2026-11-21 10:00"), end=at("2026-11-21 12:00"))
    assert fires(schedule, "1999-01-01", 5) == ["2026-11-21 10:00", "2026-11-21 11:00"]
    everything = {"not_before": at("1999-01-01")}
    assert last_before(schedule, at("2030-01-01"), **everything) == at("2026-11-21 11:00")
    assert last_before(schedule, at("2026-11-21 09:59"), **everything) is None
    assert latest(schedule, at("2030-01-01"), 5, **everything) == [at("2026-11-21 10:00"), at("2026-11-21 11:00")]
    assert count_between(schedule, at("1999-01-01"), at("2030-01-01")) == 2
    assert count_between(schedule, at("1999-01-01"), at("2026-11-21 09:00")) == 0


def test_fractions_of_a_second_neither_add_nor_hide_a_fire() -> None:
    schedule, noon = Cron("0 12 * * *"), at("2026-11-21 12:00")
    little = timedelta(microseconds=1)
    assert next_after(schedule, noon - little) == noon
    assert next_after(schedule, noon + little) == noon + timedelta(days=1)
    assert last_before(schedule, noon + little, not_before=noon) == noon
    assert last_before(schedule, noon + little, not_before=noon + little) is None
    assert count_between(schedule, noon, noon + little) == 1
    assert count_between(schedule, noon + little, noon + 2 * little) == 0


def test_counting_stops_at_the_limit() -> None:
    first, last = at("2026-11-21 00:00"), at("2026-11-21 00:09")
    for schedule in (Cron("* * * * *"), Every("1m"), Cron("0-59 0 * * *"), Cron("* * * * *", BERLIN)):
        assert count_between(schedule, first, last, limit=10) == 10
        assert count_between(schedule, first, last, limit=9) is None
    assert count_between(Every("1d", time="01:00"), at("2026-11-01"), at("2026-11-10"), limit=8) is None
    assert count_between(Cron("* * * * * *"), at("2020-01-01"), at("2026-01-01")) is None


def test_latest_is_ascending_and_stops_at_not_before() -> None:
    expected = [at("2026-11-21 10:00"), at("2026-11-21 11:00"), at("2026-11-21 12:00")]
    assert latest(Cron("@hourly"), at("2026-11-21 12:59"), 3, not_before=at("2026-01-01")) == expected
    assert latest(Cron("@hourly"), at("2026-11-21 12:59"), 9, not_before=at("2026-11-21 10:00")) == expected
    assert latest(Cron("@hourly"), at("2026-11-21 12:59"), 0, not_before=at("2026-01-01")) == []


@pytest.mark.parametrize(
    "schedule", [Cron("* * * * *", BERLIN), Cron("0 0 29 2 *"), Every("1d", time="01:00"), Every("1s")]
)
def test_the_ends_of_time_are_quiet(schedule: Schedule) -> None:
    beginning, end = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    first, last = next_after(schedule, beginning), last_before(schedule, end, not_before=beginning)
    assert first is not None
    assert first >= at("1900-01-01")
    assert last is not None
    assert last < at("3000-01-01")
    assert next_after(schedule, last) is None
    assert last_before(schedule, first - timedelta(seconds=1), not_before=beginning) is None


def test_a_sparse_schedule_is_found_across_a_skipped_leap_year_in_both_directions() -> None:
    leap_day = Cron("* 0 29 2 *", "America/New_York")
    assert next_after(leap_day, at("2096-03-01 12:00")) == at("2104-02-29 05:00")
    assert last_before(leap_day, at("2104-02-29 04:59"), not_before=at("1900-01-01")) == at("2096-02-29 05:59")


@pytest.mark.parametrize(
    "schedule",
    [
        Cron("0 2 * * *", BERLIN, at("2026-01-01"), at("2027-01-01")),
        Every("2d", at("2026-01-01"), BERLIN, "02:00", at("2026-01-01"), at("2027-01-01")),
        Once(at("2026-01-01")),
    ],
)
def test_a_schedule_is_a_value(schedule: Schedule) -> None:
    for twin in (copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule)), replace(schedule)):
        assert twin == schedule
        assert hash(twin) == hash(schedule)
    with pytest.raises(AttributeError):
        setattr(schedule, fields(schedule)[0].name, "other")


def test_user_input_is_held_in_one_form() -> None:
    plus_one = timezone(timedelta(hours=1))
    assert Cron("  0  2 * *   * ").expr == "0 2 * * *"
    assert Every("1m") == Every(60) == Every(timedelta(minutes=1))
    assert Every("1m").interval == timedelta(minutes=1)
    assert Cron("@daily", start=datetime(2026, 1, 1, 1, tzinfo=plus_one)) == Cron("@daily", start=at("2026-01-01"))
    assert Every("1m", datetime(2026, 1, 1, 1, tzinfo=plus_one)).anchor == at("2026-01-01")
