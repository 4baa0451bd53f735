"""Roll-ups: histograms that add up, and quantiles that are close."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronflow.domain.rollup import (
    LAST_STEP,
    Bucket,
    Resolution,
    Tally,
    quantile_ms,
    step_of,
    summed,
    upper_bound_ms,
)


@given(st.floats(min_value=0, max_value=10**9))
def test_a_length_lies_between_the_bounds_of_its_bucket(ms: float) -> None:
    step = step_of(timedelta(milliseconds=ms))
    assert ms <= upper_bound_ms(step) * 1.001
    assert step == 0 or ms >= upper_bound_ms(step - 1) * 0.999


@pytest.mark.parametrize(("ms", "step"), [(-5, 0), (0, 0), (1, 0), (2, 2), (4, 4), (1024, 20), (10**12, LAST_STEP)])
def test_bounds_are_powers_of_the_root_of_two(ms: int, step: int) -> None:
    assert step_of(timedelta(milliseconds=ms)) == step


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_a_quantile_is_known_to_within_a_fifth(share: float) -> None:
    rng = random.Random(7)
    samples = sorted(rng.lognormvariate(5, 1.5) for _ in range(20_000))
    counts = Counter(step_of(timedelta(milliseconds=ms)) for ms in samples)
    exact = samples[int(share * len(samples))]
    found = quantile_ms(counts, share)
    assert found is not None
    assert abs(found - exact) <= 0.2 * exact


def test_nothing_has_no_quantile() -> None:
    assert quantile_ms({}, 0.5) is None


def test_buckets_add_up() -> None:
    at = datetime(2026, 11, 21, 12, 34, 56, tzinfo=UTC)
    one = Tally(Counter(succeeded=2), Counter(ok=2), Counter({3: 1}), Counter({4: 2}))
    total = summed([Bucket(Resolution.MINUTE, at, one), Bucket(Resolution.MINUTE, at, one)])
    assert (total.ended, total.outcomes, total.lateness, total.duration) == (4, {"ok": 4}, {3: 2}, {4: 4})
    assert one.ended == 2


def test_buckets_begin_in_utc() -> None:
    at = datetime.fromisoformat("2026-11-22T00:34:56.5+02:00")
    assert [resolution.begin(at).isoformat() for resolution in Resolution] == [
        "2026-11-21T22:34:00+00:00",
        "2026-11-21T22:00:00+00:00",
        "2026-11-21T00:00:00+00:00",
    ]
