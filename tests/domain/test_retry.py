"""The retry policy: the delays of every profile, what overrides a profile, and which errors a rule matches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.retry import MOST_RULES, Profile, Retry, RetryRule

REFUSED = ("builtins.ConnectionRefusedError", "builtins.ConnectionError", "builtins.OSError", "builtins.Exception")


def delays(retry: Retry) -> list[float]:
    """The delays in seconds."""
    return [retry.delay(n).total_seconds() for n in range(1, retry.max + 1)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [30, 60, 120]),
        ({"profile": "default"}, [30, 60, 120]),
        ({"profile": "fast"}, [10, 20, 40]),
        ({"profile": "slow"}, [60, 90, 135, 202.5, 303.75]),
        ({"profile": "linear"}, [30, 30, 30]),
        ({"profile": "fibonacci"}, [30, 30, 60, 90, 150]),
        ({"profile": "fast", "max": 5, "multiplier": 1.5}, [10, 15, 22.5, 33.75, 50.625]),
        ({"profile": "linear", "max": 2, "initial": "5m"}, [300, 300]),
        ({"profile": "slow", "cap": "2m"}, [60, 90, 120, 120, 120]),
        ({"profile": "fibonacci", "max": 7, "initial": "1m"}, [60, 60, 120, 180, 300, 480, 780]),
        ({"profile": "fibonacci", "cap": "1m"}, [30, 30, 60, 60, 60]),
        ({"profile": "fibonacci", "max": 0}, []),
        ({"max": 5, "initial": "10s", "multiplier": 1.5}, [10, 15, 22.5, 33.75, 50.625]),
        ({"max": 2, "initial": "60s", "multiplier": 3.0}, [60, 180]),
    ],
)
def test_a_profile_is_a_name_for_values_which_other_keys_override(given: dict[str, Any], expected: list[float]) -> None:
    assert delays(Retry(**given)) == expected


def test_a_profile_leaves_nothing_but_its_values() -> None:
    assert Retry(profile=Profile.FAST) == Retry(max=3, initial="10s", multiplier=2.0)
    assert Retry(profile="fibonacci") == Retry(delays=["30s", "30s", "60s", "90s", "150s"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"profile": "quick"}, "retry.profile is 'quick'; it must be one of default, fast, slow, linear, fibonacci"),
        ({"profile": "fast", "delays": ["1s"]}, "retry.profile has no effect with retry.delays"),
        ({"profile": "fibonacci", "multiplier": 2.0}, "retry.multiplier has no effect with the profile fibonacci"),
        ({"deadline": 0}, "retry.deadline is 0s; for no retries write retry.max: 0"),
        ({"rules": [RetryRule("OSError", True)] * (MOST_RULES + 1)}, "retry.rules has 51 rules; at most 50"),
    ],
)
def test_what_has_no_effect_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told.replace("(", r"\(").replace(".", r"\.")):
        Retry(**given)


@pytest.mark.parametrize(
    ("match", "errors", "expected"),
    [
        ("ConnectionRefusedError", REFUSED, True),
        ("ConnectionError", REFUSED, True),
        ("builtins.ConnectionError", REFUSED, True),
        ("TimeoutError", REFUSED, False),
        # The whole name counts, not its end.
        ("RefusedError", REFUSED, False),
        ("other.ConnectionError", REFUSED, False),
        ("AuthInvalid", ("shop.errors.AuthInvalid", "builtins.Exception"), True),
        ("errors.AuthInvalid", ("shop.errors.AuthInvalid",), True),
        ("exit:75", ("exit:75",), True),
        ("exit:75", ("exit:7",), False),
        ("exit:7", ("exit:75",), False),
        ("exit:64-78", ("exit:64",), True),
        ("exit:64-78", ("exit:78",), True),
        ("exit:64-78", ("exit:63",), False),
        ("exit:64-78", ("exit:79",), False),
        ("exit:64-78", ("http:70",), False),
        ("exit:64-78", REFUSED, False),
        ("http:503", ("http:503",), True),
        ("http:503", ("http:504",), False),
        ("http:5xx", ("http:503",), True),
        ("http:5xx", ("http:429",), False),
        ("http:5xx", REFUSED, False),
        ("OSError", (), False),
    ],
)
def test_a_rule_matches_a_class_by_name_and_codes_by_number(
    match: str, errors: tuple[str, ...], expected: bool
) -> None:
    assert RetryRule(match, True).matches(errors) is expected


def test_the_first_rule_that_matches_counts() -> None:
    rules = (RetryRule("ConnectionRefusedError", False), RetryRule("OSError", True), RetryRule("Exception", False))
    assert Retry(rules=rules).rule_for(REFUSED) == rules[0]
    assert Retry(rules=rules[1:]).rule_for(REFUSED) == rules[1]
    assert Retry(rules=rules).rule_for(("exit:1",)) is None


@pytest.mark.parametrize(
    ("match", "told"),
    [
        ("exit:", "is not an exit code from 0 to 255"),
        ("exit:256", "is not an exit code from 0 to 255"),
        ("exit:1-256", "is not an exit code from 0 to 255"),
        ("exit:78-64", "is an empty range"),
        ("http:600", "is not an HTTP status"),
        ("http:5x", "is not an HTTP status"),
        ("", "is not the name of an exception"),
        ("Connection Error", "is not the name of an exception"),
        ("503", "is not the name of an exception"),
        ("shop:Error", "is not the name of an exception"),
    ],
)
def test_a_rule_that_could_never_match_is_refused_with_examples(match: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        RetryRule(match, True)
    [problem] = caught.value.problems
    assert told in problem.what
    assert problem.remedy == "write ConnectionError, exit:75, exit:64-78, http:503 or http:5xx"


def test_the_deadline_counts_from_when_the_run_was_due() -> None:
    due = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    assert Retry(deadline="2h").until(due) == due + timedelta(hours=2)
    assert Retry().until(due) is None
