"""Schedules in words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.cron_expression import parse_expression
from cronflow.domain.schedule.describe import describe, describe_cron
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from tests.drawing import examples

BERLIN = "Europe/Berlin"

WORDS = {
    # Nicknames
    "@hourly": "every hour",
    "@daily": "at 00:00 every day",
    "@midnight": "at 00:00 every day",
    "@weekly": "at 00:00 every Sunday",
    "@monthly": "at 00:00 on the 1st of the month",
    "@yearly": "at 00:00 on the 1st of January",
    # Minutes
    "* * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "0,15,30,45 * * * *": "every 15 minutes",
    "*/30 * * * *": "every 30 minutes",
    "0 * * * *": "every hour",
    "5 * * * *": "at minute 5 of every hour",
    "5,20 * * * *": "at minutes 5 and 20 of every hour",
    "*/7 * * * *": "every 7 minutes from minute 0 to minute 56 of every hour",
    "5/10 * * * *": "every 10 minutes from minute 5 to minute 55 of every hour",
    "10-20 * * * *": "every minute from minute 10 to minute 20 of every hour",
    "10-20/2 * * * *": "every 2 minutes from minute 10 to minute 20 of every hour",
    # Hours
    "0 2 * * *": "at 02:00 every day",
    "0 9,17 * * *": "at 09:00 and 17:00 every day",
    "0,30 9 * * *": "at 09:00 and 09:30 every day",
    "0 */12 * * *": "at 00:00 and 12:00 every day",
    "0 */6 * * *": "every 6 hours",
    "30 */6 * * *": "every 6 hours from 00:30 to 18:30",
    "0 */5 * * *": "every 5 hours from 00:00 to 20:00",
    "30 9-17 * * *": "every hour from 09:30 to 17:30",
    "0 9-17/2 * * *": "every 2 hours from 09:00 to 17:00",
    "0 22-23,0-2 * * *": "every hour from 22:00 to 02:00",
    "0 22-23,0-2 * * MON": "at 00:00, 01:00, 02:00, 22:00 and 23:00 every Monday",
    "* 9-17 * * *": "every minute from 09:00 to 17:59",
    "*/5 10 * * *": "every 5 minutes from 10:00 to 10:59",
    "10-20 9 * * *": "every minute from 09:10 to 09:20",
    "0,30 9-11 * * *": "every 30 minutes from 09:00 to 11:59",
    "5,20 9-17 * * *": "at minutes 5 and 20 of every hour from 09:00 to 17:59",
    "1,2,4,8 3,9,17 * * *": "at minutes 1, 2, 4 and 8 past 03:00, 09:00 and 17:00",
    "*/15 9,17 * * *": "every 15 minutes from 09:00 to 09:59 and from 17:00 to 17:59",
    "*/15 */2 * * *": "every 15 minutes in every 2nd hour from 00:00 to 22:59",
    "7,9 */2 * * *": "at minutes 7 and 9 of every 2nd hour from 00:00 to 22:59",
    # Seconds
    "* * * * * *": "every second",
    "*/30 * * * * *": "every 30 seconds",
    "30 * * * * *": "at second 30 of every minute",
    "5,20 * * * * *": "at seconds 5 and 20 of every minute",
    "*/7 * * * * *": "every 7 seconds from second 0 to second 56 of every minute",
    "15 0 * * * *": "at minute 0 and second 15 of every hour",
    "15 30 2 * * *": "at 02:30:15 every day",
    "30 */15 * * * *": "every 15 minutes, at second 30",
    "30 * 9-17 * * *": "at second 30 of every minute from 09:00 to 17:59",
    "*/10 5 * * * *": "every 10 seconds in minute 5 of every hour",
    "*/10 5 9 * * *": "every 10 seconds from 09:05:00 to 09:05:59",
    "*/10 5-7 * * * *": "every 10 seconds in minutes 5 to 7 of every hour",
    "*/10 */15 * * * *": "every 10 seconds in minutes 0, 15, 30 and 45 of every hour",
    "5,9 */2 * * * *": "at seconds 5 and 9 of every 2nd minute from minute 0 to minute 58 of every hour",
    "*/10 * 9-17 * * MON-FRI": "every 10 seconds from 09:00 to 17:59, Monday to Friday",
    # Weekdays
    "0 9 * * MON-FRI": "at 09:00, Monday to Friday",
    "0 9 * * 1-5": "at 09:00, Monday to Friday",
    "0 9 * * MON": "at 09:00 every Monday",
    "0 9 * * 7": "at 09:00 every Sunday",
    "0 9 * * SUN,SAT": "at 09:00 every Saturday and Sunday",
    "0 9 * * FRI,SAT,SUN,MON": "at 09:00, Friday to Monday",
    "0 9 * * MON,WED-FRI": "at 09:00 every Monday, Wednesday, Thursday and Friday",
    "0 9 * * 0-6": "at 09:00 every day",
    "*/15 9-17 * * MON-FRI": "every 15 minutes from 09:00 to 17:59, Monday to Friday",
    "0 9 * * MON#2": "at 09:00 on the second Monday of the month",
    "0 9 * * MON#3,MON#1": "at 09:00 on the first and third Monday of the month",
    "0 9 * * MON#1,5L": "at 09:00 on the first Monday and the last Friday of the month",
    "0 9 * * 5L": "at 09:00 on the last Friday of the month",
    "0 9 * * MON,5L": "at 09:00 every Monday, and on the last Friday of the month",
    "0 9 * * MON,MON#2": "at 09:00 every Monday",
    # Days of the month
    "0 2 1 * *": "at 02:00 on the 1st of the month",
    "0 2 2,3,11,22 * *": "at 02:00 on the 2nd, 3rd, 11th and 22nd of the month",
    "0 2 L * *": "at 02:00 on the last day of the month",
    "0 2 LW * *": "at 02:00 on the last weekday of the month",
    "0 2 L,15 * *": "at 02:00 on the 15th and last day of the month",
    "0 2 1-7 * *": "at 02:00 on the 1st to 7th of the month",
    "0 2 1-7,L * *": "at 02:00 on the 1st to 7th and last day of the month",
    "0 2 */2 * *": "at 02:00 on every 2nd day from the 1st to the 31st of the month",
    "0 2 */10 * *": "at 02:00 on the 1st, 11th, 21st and 31st of the month",
    "*/5 * 1 * *": "every 5 minutes, on the 1st of the month",
    # Months
    "0 0 * JAN *": "at 00:00 every day in January",
    "0 0 * 1-3 *": "at 00:00 every day from January to March",
    "0 0 * 11,12,1 *": "at 00:00 every day from November to January",
    "*/5 * * 1,7 *": "every 5 minutes, in January and July",
    "0 0 1 */3 *": "at 00:00 on the 1st of January, April, July and October",
    "0 0 1 1-3 *": "at 00:00 on the 1st of every month from January to March",
    "0 0 29 2 *": "at 00:00 on the 29th of February",
    "0 9 * 1 MON-FRI": "at 09:00, Monday to Friday, in January",
    "0 9 * 1 MON": "at 09:00 every Monday in January",
    "0 9 * 1,7 MON#2": "at 09:00 on the second Monday of January and July",
    # Both day fields: either one is enough
    "0 0 13 * FRI": "at 00:00 on the 13th, or on a Friday",
    "0 0 1,15 * MON": "at 00:00 on the 1st or 15th, or on a Monday",
    "0 0 1 * MON-FRI": "at 00:00 on the 1st, or on a day from Monday to Friday",
    "0 0 1 * TUE,5L": "at 00:00 on the 1st, or on a Tuesday or the last Friday of the month",
    "0 0 L * MON": "at 00:00 on the last day of the month, or on a Monday",
    "0 0 13 1,7 FRI": "at 00:00 on the 13th, or on a Friday, in January and July",
    "0 0 1-31/2 * FRI": "at 00:00 on every 2nd day from the 1st to the 31st, or on a Friday",
    "0 0 1-31 * MON": "at 00:00 every day",
    # Both day fields, one of them begins with *: both must match
    "0 0 */2 * FRI": (
        "at 00:00 on every 2nd day from the 1st to the 31st of the month, only if that day falls on a Friday"
    ),
    "0 0 1 * */3": "at 00:00 on the 1st of the month, only if that day falls on a Wednesday, Saturday or Sunday",
    "0 0 */16 5 MON#1": (
        "at 00:00 on the 1st and 17th of May, only if that day falls on the first Monday of the month"
    ),
}


@pytest.mark.parametrize(("expr", "words"), WORDS.items())
def test_a_cron_expression_reads_like_english(expr: str, words: str) -> None:
    assert describe_cron(expr) == words


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Cron("0 2 * * *", BERLIN), "at 02:00 every day (Europe/Berlin)"),
        (Cron("@hourly"), "every hour (UTC)"),
        (
            Cron("*/10 * * * *", start=at("2026-01-01"), end=at("2026-02-01 10:00:05")),
            "every 10 minutes (UTC), from 2026-01-01 00:00 UTC until 2026-02-01 10:00:05 UTC",
        ),
        (Cron("*/10 * * * *", end=at("2026-02-01")), "every 10 minutes (UTC), until 2026-02-01 00:00 UTC"),
        (Every("1s"), "every second"),
        (Every("30s"), "every 30 seconds"),
        (Every("90m"), "every 90 minutes"),
        (Every("1h"), "every hour"),
        (Every("36h"), "every 36 hours"),
        (Every("30m", at("2026-01-01 00:10")), "every 30 minutes, aligned to 2026-01-01 00:10 UTC"),
        (Every("30m", start=at("2026-01-01")), "every 30 minutes, from 2026-01-01 00:00 UTC"),
        (Every("1d"), "at 00:00 every day (UTC)"),
        (Every("1d", at("2026-01-01 06:30:15")), "at 06:30:15 every day (UTC)"),
        (Every("1d", time="02:00", tz=BERLIN), "at 02:00 every day (Europe/Berlin)"),
        (Every("2d", time="06:00", tz=BERLIN), "at 06:00 every 2 days (Europe/Berlin)"),
        (
            Every("2d", at("2026-01-01 23:30"), BERLIN, "06:00"),
            "at 06:00 every 2 days, aligned to 2026-01-02 (Europe/Berlin)",
        ),
        (Every("1w", time="06:00", tz=BERLIN), "at 06:00 every Monday (Europe/Berlin)"),
        (Every("1w", at("2026-01-01 06:30")), "at 06:30 every Thursday (UTC)"),
        (Every("2w"), "at 00:00 every 2 weeks on Monday (UTC)"),
        (Every("2w", at("2026-01-01")), "at 00:00 every 2 weeks on Thursday, aligned to 2026-01-01 (UTC)"),
        (Once(at("2026-12-24 17:00")), "once at 2026-12-24 17:00 UTC"),
    ],
)
def test_a_schedule_reads_like_english(schedule: Schedule, words: str) -> None:
    assert describe(schedule) == words


def test_the_zone_can_be_left_out() -> None:
    assert describe(Cron("0 2 * * *", BERLIN), zone=False) == "at 02:00 every day"
    assert describe(Every("1d", time="02:00", tz=BERLIN), zone=False) == "at 02:00 every day"


def terms(low: int, high: int) -> st.SearchStrategy[str]:
    """One element of a field: a value, a range, a step."""
    value = st.integers(low, high)
    span = st.tuples(value, value).map(sorted)
    step = st.integers(1, high - low + 1)
    return st.one_of(
        value.map(str),
        span.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(span, step).map(lambda one: f"{one[0][0]}-{one[0][1]}/{one[1]}"),
        step.map(lambda size: f"*/{size}"),
    )


def fields(term: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.just("*") | st.lists(term, min_size=1, max_size=4).map(",".join)


PLACES = st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda one: f"{one[0]}#{one[1]}")
DAYS = st.tuples(
    fields(terms(1, 31) | st.sampled_from(["L", "LW"])),
    fields(terms(1, 12)),
    fields(terms(0, 7) | PLACES | st.integers(0, 7).map(lambda day: f"{day}L")),
)
TIMES = st.tuples(fields(terms(0, 59)), fields(terms(0, 59)), fields(terms(0, 23)))
CLEAN = re.compile(r"(every|at) [A-Za-z0-9:, ]*[a-z0-9]")
RIDDLES = re.compile(r"None|field|second second|\b1 (second|minute|hour|day|month)s|\b00? of the month|  | ,|,,")
MONDAY = datetime(2040, 1, 2)  # noqa: DTZ001 - local times are naive


@settings(max_examples=examples(200), deadline=None)
@given(TIMES, DAYS)
def test_the_words_are_a_sentence(times: tuple[str, ...], days: tuple[str, ...]) -> None:
    expr = " ".join(times + days)
    try:
        words = describe_cron(expr)
    except InvalidInput:
        assume(False)
    assert CLEAN.fullmatch(words), words
    assert not RIDDLES.search(words), words


@settings(max_examples=examples(400), deadline=None)
@given(TIMES, TIMES)
def test_expressions_with_the_same_words_have_the_same_times(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    for changed in (other, (one[0], one[1], other[2]), (one[0], other[1], one[2]), (other[0], one[1], one[2])):
        same_words = describe_cron(" ".join((*one, "* * *"))) == describe_cron(" ".join((*changed, "* * *")))
        assert same_words == (times_of(one) == times_of(changed))


def times_of(times: tuple[str, ...]) -> tuple[list[int], ...]:
    found = parse_expression(" ".join((*times, "* * *")))
    return found.seconds, found.minutes, found.hours


@settings(max_examples=examples(150), deadline=None)
@given(DAYS, DAYS)
def test_expressions_with_the_same_words_have_the_same_days(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    for changed in (other, (*one[:2], other[2]), (one[0], other[1], one[2]), (other[0], *one[1:])):
        try:
            words = {describe_cron(" ".join(("0 0", *days))) for days in (one, changed)}
        except InvalidInput:
            continue
        if days_of(one) != days_of(changed):
            assert len(words) == 2, words


@lru_cache
def days_of(days: tuple[str, ...]) -> list[datetime]:
    """The matching days of 4 years; beyond that some expressions that differ would need a search of decades."""
    return parse_expression(" ".join(("0 0", *days))).days(MONDAY, 4 * 366)


@pytest.mark.parametrize("weeks", [0, 1, 2, 3])
def test_each_weekday_has_its_own_name(weeks: int) -> None:
    for number in range(7):
        day = MONDAY + timedelta(days=number, weeks=weeks)
        assert parse_expression(f"0 0 * * {(number + 1) % 7}").at_or_after(day) == day
        assert describe_cron(f"0 0 * * {(number + 1) % 7}") == f"at 00:00 every {day:%A}"
