"""Durations: valid ones are parsed, invalid ones are rejected with a remedy, and formatting is reversible."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronflow.domain.durations import Duration, format_duration, parse_duration
from cronflow.domain.errors import InvalidInput, RetryLater

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("2w", timedelta(weeks=2)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (" 30s ", timedelta(seconds=30)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        (0, timedelta(0)),
        (timedelta(minutes=3), timedelta(minutes=3)),
    ],
)
def test_a_duration_is_read(written: Duration, meant: timedelta) -> None:
    assert parse_duration(written) == meant


@pytest.mark.parametrize("written", ["", "s", "30", "5 m", "1y", "1m30", "1h 30m", "30S", "1e3s", ".5h", "½h", True])
def test_an_invalid_duration_is_rejected_with_examples(written: Duration) -> None:
    with pytest.raises(InvalidInput, match=r"is not a duration; write 500ms, 30s, 5m, 2h or 1d"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["-5m", -1, -0.5, timedelta(seconds=-1)])
def test_a_negative_duration_is_refused(written: Duration) -> None:
    with pytest.raises(InvalidInput, match=r"is a negative duration; it must be zero or more"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["36501d", "9999999999999d", float("inf"), float("nan"), timedelta.max])
def test_a_duration_beyond_a_hundred_years_is_refused(written: Duration) -> None:
    with pytest.raises(InvalidInput, match=r"is too long; the limit is a hundred years"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(seconds=90), "90s"),
        (timedelta(minutes=90), "90m"),
        (timedelta(hours=2), "2h"),
        (timedelta(weeks=1), "7d"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_divides_it(value: timedelta, written: str) -> None:
    assert format_duration(value) == written


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=100 * 365 * 86_400_000))
def test_a_formatted_duration_parses_to_the_same_value(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize(
    ("delay", "meant"),
    [("10m", timedelta(minutes=10)), (90, timedelta(seconds=90)), (0.5, timedelta(seconds=0.5)), (HOUR, HOUR)],
)
def test_retry_later_takes_text_seconds_and_timedeltas(delay: Duration, meant: timedelta) -> None:
    asked = RetryLater(delay)
    assert (asked.delay, str(asked)) == (meant, f"try again in {meant.total_seconds():g} s")


@pytest.mark.parametrize("delay", ["soon", "", "-5m", -1, True, float("nan")])
def test_retry_later_refuses_other_delays_with_a_clear_value_error(delay: Duration) -> None:
    with pytest.raises(ValueError, match=r"^RetryLater: .*(duration|too long)"):
        RetryLater(delay)
