"""Prints the results of the benchmark."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta

from cronflow.testing.audit import percentile


def say(what: str, result: str) -> None:
    """Print one line of the report."""
    sys.stdout.write(f"{what:<46} {result}\n")
    sys.stdout.flush()


def spread(times: Iterable[timedelta]) -> str:
    """p50, p99 and max in milliseconds."""
    ordered = sorted(times)
    p50, p99, most = (percentile(ordered, fraction) or timedelta(0) for fraction in (0.5, 0.99, 1.0))
    return f"p50 {_ms(p50)}   p99 {_ms(p99)}   max {_ms(most)}"


def _ms(value: timedelta) -> str:
    return f"{value.total_seconds() * 1000:7.1f} ms"
