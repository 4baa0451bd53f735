"""Limits of jobs: rates, keys, and the permits that a run needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.concurrency import (
    KeyedConcurrency,
    KeyedRate,
    LimitUse,
    Rate,
    label_of,
    parse_rate,
    uses_of,
)
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, Job, PythonTarget
from cronflow.domain.permits import (
    LimitState,
    NamedLimit,
    Permit,
    PermitRequest,
    Standing,
    after_start,
    in_time,
    is_stale,
    obstacle,
    with_permit,
)
from cronflow.domain.run import RunState

T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_job(**fields: object) -> Job:
    return Job(name="report", target=PythonTarget("jobs:report", {"region": "eu", "n": 3}), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "interval_ms"), [("100/m", 600), ("7/s", 143), ("1/d", 86_400_000), ("1000/s", 1), (" 3 / h ", 1_200_000)]
)
def test_a_rate_spaces_starts_evenly_and_rounds_up(text: str, interval_ms: int) -> None:
    rate = parse_rate(text)
    assert rate.interval_ms == interval_ms
    assert rate.tolerance_ms == 0
    assert parse_rate(str(rate)) == rate


@pytest.mark.parametrize("text", ["", "100", "100/w", "0/s", "1001/s", "-1/s", "1.5/s", "100/mm"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="rate"):
        parse_rate(text)


@pytest.mark.parametrize("key", ["", "  ", "{args.region", "region}", "{region}", "{args}", "{args.}", "x" * 201])
def test_a_key_that_no_run_can_have_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput):
        KeyedConcurrency(key)


def test_keys_are_resolved_with_the_arguments_of_the_run_and_never_equal_a_name() -> None:
    job = a_job(
        concurrency=("database", KeyedConcurrency("{job}:{args.region}", 2), KeyedConcurrency("{labels.team}", 4)),
        rate=KeyedRate(Rate(100, timedelta(minutes=1))),
        labels={"team": "database"},
    )
    assert [(use.id, use.limit) for use in uses_of(job, {"region": "us"})] == [
        ("key:database", 4),
        ("key:report:us", 2),
        ("name:database", None),
        ("rate:100/m:job:report", None),
    ]
    assert [use.id for use in uses_of(job)][1] == "key:report:eu"
    assert uses_of(a_job()) == ()


def test_two_keys_with_the_same_value_are_one_limit_with_the_lower_bound() -> None:
    job = a_job(concurrency=(KeyedConcurrency("{args.region}", 4), KeyedConcurrency("eu", 2)))
    assert uses_of(job) == (LimitUse("key:eu", 2),)


def test_a_part_that_is_missing_or_no_text_is_an_error() -> None:
    job = a_job(concurrency=(KeyedConcurrency("{args.tenant}"),))
    with pytest.raises(InvalidInput, match="needs the argument 'tenant'"):
        uses_of(job)
    with pytest.raises(InvalidInput, match=r"args\.tenant is list"):
        uses_of(job, {"tenant": []})
    with pytest.raises(InvalidInput, match="control characters"):
        uses_of(job, {"tenant": "a\nb"})
    assert [use.id for use in uses_of(job, {"tenant": True})] == ["key:true"]


def test_a_job_without_arguments_may_use_its_labels() -> None:
    job = Job(
        name="x", target=CommandTarget("true"), labels={"team": "a"}, concurrency=(KeyedConcurrency("{labels.team}"),)
    )
    assert [use.id for use in uses_of(job)] == ["key:a"]


def test_labels_of_limits_are_words() -> None:
    ids = ["name:db", "key:eu", "rate:100/m:job:report", "rate:100/m+5:key:a:b"]
    assert [label_of(limit) for limit in ids] == [
        "limit db",
        "key eu",
        "rate 100/m of job report",
        "rate 100/m+5 of key a:b",
    ]


def test_a_limit_has_at_least_one_bound() -> None:
    with pytest.raises(InvalidInput, match="neither limit nor rate"):
        NamedLimit(name="db")


def test_no_period_has_more_starts_than_the_rate_allows_however_often_it_is_tried() -> None:
    rate, next_at, starts = Rate(10, SECOND, burst=3), None, []
    for ms in range(0, 3000, 7):
        now = T0 + timedelta(milliseconds=ms)
        if in_time(next_at, rate, now):
            next_at = after_start(next_at, rate, now)
            starts.append(now)
    most = max(sum(begin <= at < begin + SECOND for at in starts) for begin in starts)
    assert most == 10 + rate.burst - 1
    assert starts[:3] == [T0 + timedelta(milliseconds=ms) for ms in (0, 7, 14)]


@pytest.mark.parametrize(
    ("run", "stale"),
    [
        (Standing(RunState.DISPATCHED, 5), False),
        (Standing(RunState.RUNNING, 5), False),
        (Standing(RunState.RETRYING, 5), True),
        (Standing(RunState.SUCCEEDED, 5), True),
        (Standing(RunState.DISPATCHED, 6), True),
        (Standing(RunState.RUNNING, 6), True),
        (Standing(RunState.RETRYING, 4), False),
        (Standing(RunState.SUCCEEDED, 4), False),
    ],
)
def test_a_permit_is_stale_when_its_attempt_has_ended_or_can_never_start(run: Standing, stale: bool) -> None:
    """The last two were read late: the attempt with this fence is newer than what was read."""
    assert is_stale(Permit("r", 5, "n", T0), run, T0 + SECOND) is stale


def test_a_permit_without_a_run_is_stale_after_a_minute() -> None:
    permit = Permit("r", 5, "n", T0)
    assert not is_stale(permit, None, T0 + timedelta(seconds=60))
    assert is_stale(permit, None, T0 + timedelta(seconds=61))


def test_the_leader_counts_dispatched_runs_that_hold_no_permit_yet() -> None:
    use, state = LimitUse("key:eu", 3), LimitState(id="key:eu")
    state = with_permit(state, PermitRequest(use, "a", 1, "n"), T0)
    assert obstacle(use, state, "x", T0, {"a": 1, "b": 2}) is None
    found = obstacle(use, state, "x", T0, {"b": 2, "c": 3})
    assert found is not None
    assert (found.reason, found.held_by, found.replaceable) == ("key eu is full", "a", "a")
    # Its own dispatch, and its own earlier permit, do not count.
    assert obstacle(use, state, "c", T0, {"b": 2, "c": 3}) is None
    assert obstacle(replace(use, limit=1), state, "a", T0, {}) is None
    both = with_permit(state, PermitRequest(use, "b", 1, "n"), T0)
    assert obstacle(replace(use, limit=2), both, "a", T0, {"c": 0, "d": 0}) is None
    assert obstacle(replace(use, limit=1), both, "a", T0, {}) is not None
    only = obstacle(replace(use, limit=1), None, "x", T0, {"b": 2})
    assert only is not None
    assert (only.held_by, only.replaceable) == ("b", None)


def test_the_leader_counts_the_starts_that_dispatched_runs_will_take() -> None:
    rate = Rate(1, SECOND)
    use = LimitUse("rate:1/s:job:report", rate=rate)
    assert obstacle(use, None, "x", T0, {}) is None
    found = obstacle(use, None, "x", T0, {"a": 1, "b": 2})
    assert found is not None
    assert found.until == T0 + 2 * SECOND
    missing = obstacle(LimitUse("name:db"), None, "x", T0, {})
    assert missing is not None
    assert "limit db does not exist" in missing.reason
