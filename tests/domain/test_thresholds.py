"""Thresholds: levels, and which changes of a level are reported."""

from __future__ import annotations

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.thresholds import (
    LEAST_ATTEMPTS,
    AlertLevel,
    Crossing,
    DeadLetterLimits,
    crossing,
    retry_rate_level,
)
from tests.contracts.builders import T0

OK, WARN, CRITICAL = AlertLevel


def test_dead_letters_are_many_from_a_number_on() -> None:
    limits = DeadLetterLimits(warn=5, critical=10)
    assert [limits.level(count) for count in (0, 4, 5, 9, 10, 99)] == [OK, OK, WARN, WARN, CRITICAL, CRITICAL]


def test_without_a_level_in_between_the_first_one_is_critical() -> None:
    assert DeadLetterLimits(warn=3, critical=3).level(3) is CRITICAL


@pytest.mark.parametrize(("warn", "critical"), [(0, 5), (5, 4), (1, 10**7)])
def test_limits_that_contradict_each_other_are_refused(warn: int, critical: int) -> None:
    with pytest.raises(InvalidInput, match="critical not below warn"):
        DeadLetterLimits(warn, critical)


def test_a_share_of_retries_is_too_high_above_its_threshold_and_until_it_has_eased() -> None:
    assert retry_rate_level(OK, 100, 20, 0.2) is OK
    assert retry_rate_level(OK, 100, 21, 0.2) is WARN
    assert retry_rate_level(WARN, 100, 17, 0.2) is WARN
    assert retry_rate_level(WARN, 100, 16, 0.2) is OK


def test_of_few_attempts_no_share_is_reported() -> None:
    assert retry_rate_level(OK, LEAST_ATTEMPTS - 1, LEAST_ATTEMPTS - 1, 0.2) is OK
    assert retry_rate_level(OK, LEAST_ATTEMPTS, LEAST_ATTEMPTS, 0.2) is WARN


def cross(last: Crossing | None, before: AlertLevel, level: AlertLevel) -> Crossing | None:
    return crossing(last, "all", "dead_letters", before, level, 7, T0)


def test_crossings_are_numbered_and_a_level_that_stays_is_none() -> None:
    first = cross(None, OK, WARN)
    assert first is not None
    assert (first.number, first.place, first.subject) == (1, "all/dead_letters", "warn 1")
    second = cross(first, WARN, OK)
    assert second is not None
    assert (second.number, second.before, second.subject) == (2, WARN, "ok 2")
    assert cross(second, OK, OK) is None


@pytest.mark.parametrize(
    ("before", "level", "reported"),
    [(OK, WARN, True), (OK, CRITICAL, True), (WARN, CRITICAL, True), (CRITICAL, WARN, False), (CRITICAL, OK, True)],
)
def test_a_level_that_rises_or_ends_is_reported_and_one_that_eases_is_not(
    before: AlertLevel, level: AlertLevel, reported: bool
) -> None:
    found = cross(None, before, level)
    assert found is not None
    assert found.is_reported is reported
