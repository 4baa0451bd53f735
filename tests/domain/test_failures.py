"""Errors that a person would call the same have one reason."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.domain.failures import LONGEST_REASON, group, reason_of
from cronflow.domain.run import Outcome, Resolution, Run, RunState, Settled
from tests.contracts.builders import T0, a_run

MINUTE = timedelta(minutes=1)


def failed(error: str | None, minute: int = 0, job: str = "report", **fields: object) -> Run:
    ended = {"state": RunState.FAILED, "check_at": None, "ended_at": T0 + minute * MINUTE, "outcome": Outcome.ERROR}
    return a_run(job, T0 + minute * MINUTE, **(ended | {"error": error} | fields))


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("no rows for 2026-11-20", "no rows for 2026-11-21", "no rows for <time>"),
        ("late since 2026-11-20T01:02:03.5Z", "late since 2026-11-20 01:02:03+01:00", "late since <time>"),
        ("order 7 has 3 items", "order 12345 has -1.5 items", "order <n> has <n> items"),
        ("10.0.0.7:5432 refused", "192.168.1.1 refused", "<address> refused"),
        ("[fe80::1]:80 refused", "[2001:db8::2:1]:8080 refused", "<address> refused"),
        ("db-1.internal:5432 refused", "db-2.internal:5433 refused", "<address> refused"),
        ("no user ann@example.com", "no user bob.b@mail.example.org", "no user <address>"),
        (
            "run 6f1c2d3e-0000-4000-8000-123456789abc gone",
            "run 00000000-0000-4000-8000-aaaaaaaaaaaa gone",
            "run <id> gone",
        ),
        ("<obj at 0x7f9c> died", "<obj at 0xdeadbeef> died", "<obj at <id>> died"),
        ("commit 9f86d081884c7d65 broke", "commit 0a1b2c3d4e broke", "commit <id> broke"),
        ("\n\nValueError: x 1\n\nTraceback (most recent call last):\n  a", "ValueError:  x 2", "ValueError: x <n>"),
        ("table shard_0012 locked", "table shard_0477 locked", "table shard_<n> locked"),
    ],
)
def test_parts_that_differ_between_runs_are_removed(one: str, other: str, reason: str) -> None:
    assert (reason_of(failed(one)), reason_of(failed(other))) == (reason, reason)


@pytest.mark.parametrize("text", ["utf8 decade", "HTTP status bad", "KeyError: 'facade'", "s3 bucket denied"])
def test_words_that_only_look_like_ids_stay(text: str) -> None:
    assert reason_of(failed(text)) == text


def test_different_errors_stay_apart() -> None:
    assert reason_of(failed("KeyError: 'a'")) != reason_of(failed("KeyError: 'b'"))


def test_without_an_error_the_outcome_is_the_reason_and_a_long_one_is_cut() -> None:
    assert reason_of(failed(None)) == "error"
    assert reason_of(failed("  \n ", outcome=None)) == "failed"
    assert len(reason_of(failed("word " * 1000))) == LONGEST_REASON


def test_a_group_counts_and_names_first_last_jobs_and_the_newest_run() -> None:
    settled = Resolution(Settled.ACKNOWLEDGED, T0)
    runs = [
        failed("order 1", 5, resolution=settled),
        failed("order 2", 9, "billing"),
        failed("order 3", 1),
        failed("other", 2),
    ]
    first, second = group(runs)
    assert (first.reason, first.count, first.open) == ("order <n>", 3, 2)
    assert (first.first, first.last) == (T0 + MINUTE, T0 + 9 * MINUTE)
    assert (dict(first.jobs), first.example, first.message) == ({"report": 2, "billing": 1}, runs[1].id, "order 2")
    [long] = group([failed("word " * 1000)])
    assert len(long.message) == LONGEST_REASON
    assert (second.reason, second.count) == ("other", 1)
    assert group([]) == []
