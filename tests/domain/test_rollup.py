"""Roll-ups: histograms that add up, and quantiles that are close."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronflow.domain.rollup import (
    LAST_STEP,
    Bucket,
    BucketSize,
    Span,
    Tally,
    over,
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
    total = summed([Bucket(BucketSize.MINUTE, at, one), Bucket(BucketSize.MINUTE, at, one)])
    assert (total.ended, total.outcomes, total.lateness, total.duration) == (4, {"ok": 4}, {3: 2}, {4: 4})
    assert one.ended == 2


def test_buckets_begin_in_utc() -> None:
    at = datetime.fromisoformat("2026-11-22T00:34:56.5+02:00")
    assert [resolution.begin(at).isoformat() for resolution in BucketSize] == [
        "2026-11-21T22:34:00+00:00",
        "2026-11-21T22:00:00+00:00",
        "2026-11-21T00:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("span", "count", "first", "last"),
    [
        (Span.QUARTER, 15, "2026-11-21T12:21:00+00:00", "2026-11-21T12:35:00+00:00"),
        (Span.HOUR, 60, "2026-11-21T11:36:00+00:00", "2026-11-21T12:35:00+00:00"),
        (Span.DAY, 144, "2026-11-20T12:40:00+00:00", "2026-11-21T12:30:00+00:00"),
        (Span.WEEK, 168, "2026-11-14T13:00:00+00:00", "2026-11-21T12:00:00+00:00"),
    ],
)
def test_the_points_of_a_span_are_its_last_steps_and_the_newest_is_not_over(
    span: Span, count: int, first: str, last: str
) -> None:
    points = span.points(datetime(2026, 11, 21, 12, 35, 59, tzinfo=UTC))
    assert (len(points), points[0].isoformat(), points[-1].isoformat()) == (count, first, last)
    assert {after - before for before, after in itertools.pairwise(points)} == {span.step}
    assert span.step % span.resolution.length == timedelta(0), "a point is made of whole buckets"


def test_counts_go_to_the_point_that_they_began_in() -> None:
    points = Span.DAY.points(datetime(2026, 11, 21, 12, 35, tzinfo=UTC))
    tallies = [Tally(Counter(succeeded=n)) for n in (1, 2, 4, 8)]
    at = [
        points[5],
        points[5] + timedelta(minutes=9),
        points[-1] + timedelta(minutes=3),
        points[0] - timedelta(minutes=1),
    ]
    found = over(points, [Bucket(BucketSize.MINUTE, *pair) for pair in zip(at, tallies, strict=True)])
    assert len(found) == len(points)
    assert {n: tally.ended for n, tally in enumerate(found) if tally.ended} == {5: 3, 143: 4}
