"""Recording and exposing metrics. `domain.metrics` declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from cronflow.domain.metrics import Metric

Reading = float | Mapping[str, float] | Mapping[tuple[str, ...], float] | None
"""A value; or values by label value, or by label values; None if there is no value now."""


class Meter(Protocol):
    """Records metrics. Never blocks, never raises for a declared metric, usable from any thread."""

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Add to a counter. `labels` are the label values in declared order."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None:
        """Register a gauge or counter that is read at each scrape, in a separate thread. `ask` must not block."""


class Exposition(Protocol):
    """All metrics as text, for a monitoring system."""

    @property
    def media_type(self) -> str: ...

    def text(self) -> bytes: ...


class Unmetered:
    """A Meter that discards everything."""

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None: ...

    def observe(self, metric: Metric, value: float, *labels: str) -> None: ...

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None: ...


UNMETERED = Unmetered()
