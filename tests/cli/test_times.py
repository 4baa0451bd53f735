"""Times as text, and parsing of instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronflow.cli.terminal import times
from cronflow.domain.errors import InvalidInput
from cronflow.schemas import iso
from tests.cli.scene import NOON


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "now"),
        (1, "in 1s"),
        (59, "in 59s"),
        (90, "in 1m 30s"),
        (600, "in 10m"),
        (659, "in 10m"),
        (3600, "in 1h"),
        (13 * 3600 + 240, "in 13h 4m"),
        (86_400 + 3600, "in 1d 1h"),
        (45 * 86_400 + 3600, "in 45d"),
        (-61, "1m 1s ago"),
        (3600.3, "in 1h"),
    ],
)
def test_relative_times_have_up_to_two_units(seconds: float, words: str) -> None:
    assert times.relative(NOON + timedelta(seconds=seconds), NOON) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.048, "48ms"), (0.9996, "1.0s"), (3.24, "3.2s"), (9.96, "10s"), (75, "1m 15s"), (-2, "-2.0s"), (0, "0ms")],
)
def test_short_durations_are_exact(seconds: float, words: str) -> None:
    assert times.span(timedelta(seconds=seconds)) == words


def test_an_absolute_time_is_marked_as_utc() -> None:
    berlin = datetime.fromisoformat("2026-11-21T13:00:00+01:00")
    assert times.absolute(berlin) == "2026-11-21 12:00:00Z"
    assert iso(berlin) == "2026-11-21T12:00:00Z"


def test_since_takes_a_duration_or_an_instant() -> None:
    assert times.instant_or_ago("1h30m", "--since") == NOON - timedelta(minutes=90)
    assert times.instant_or_ago("2026-11-20T10:00:00+01:00", "--since") == datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert times.instant_or_ago("2026-11-20", "--since") == datetime(2026, 11, 20, tzinfo=UTC)


def test_since_refuses_other_values() -> None:
    with pytest.raises(InvalidInput, match="--since: 'yesterday' is neither"):
        times.instant_or_ago("yesterday", "--since")
