"""What ended over time, for charts: columns of equal length, the oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cronflow.domain.rollup import Span, Tally, quantile_ms
from cronflow.domain.run import RunState
from cronflow.schemas.base import Schema, iso


class QuantilesSchema(Schema):
    """Lengths of time below which half, 95 and 99 of a hundred lie; null where there was nothing."""

    p50: list[float | None]
    """Half of them."""
    p95: list[float | None]
    """95 of a hundred."""
    p99: list[float | None]
    """99 of a hundred."""


class SeriesSchema(Schema):
    """What ended over a span of time."""

    span: Span
    """How far back it looks."""
    step_s: int
    """How much time a point stands for."""
    at: list[str]
    """Where the points begin; the last one is not over yet."""
    ended: list[int]
    """How many runs ended."""
    succeeded: list[int]
    """How many of them succeeded."""
    failed: list[int]
    """How many failed."""
    lost: list[int]
    """How many were lost."""
    lateness_ms: QuantilesSchema
    """How late runs started."""
    duration_ms: QuantilesSchema
    """How long they took."""


def series_schema(span: Span, points: Sequence[tuple[datetime, Tally]]) -> SeriesSchema:
    """What ended over a span of time."""
    tallies = [tally for _, tally in points]
    return {
        "span": span,
        "step_s": int(span.step.total_seconds()),
        "at": [iso(at) for at, _ in points],
        "ended": [tally.ended for tally in tallies],
        "succeeded": [tally.states[RunState.SUCCEEDED] for tally in tallies],
        "failed": [tally.states[RunState.FAILED] for tally in tallies],
        "lost": [tally.states[RunState.LOST] for tally in tallies],
        "lateness_ms": _quantiles([tally.lateness for tally in tallies]),
        "duration_ms": _quantiles([tally.duration for tally in tallies]),
    }


def _quantiles(counts: Sequence[dict[int, int]]) -> QuantilesSchema:
    def column(share: float) -> list[float | None]:
        found = [quantile_ms(one, share) for one in counts]
        return [None if value is None else round(value, 1) for value in found]

    return {"p50": column(0.5), "p95": column(0.95), "p99": column(0.99)}
