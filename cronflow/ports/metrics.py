"""Where figures go: the places that know one count or time it here, or say how it is read. See `domain.metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from cronflow.domain.metrics import Metric

Reading = float | Mapping[str, float] | Mapping[tuple[str, ...], float] | None
"""A value; several by the value of their label, or values of their labels; None: nothing to tell now."""


class Meter(Protocol):
    """Takes figures. Never blocks, never raises for what is declared, may be used from any thread."""

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Count, under the values of the metric's labels in their order."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Put a value into a histogram."""

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None:
        """Ask for a gauge or counter whenever somebody looks, in a thread of its own; `ask` waits for nothing."""


class Exposition(Protocol):
    """What can be told to who monitors."""

    @property
    def media_type(self) -> str:
        """Of the text."""

    def text(self) -> bytes:
        """All figures now."""


class Unmetered:
    """A Meter that nobody looks at."""

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        """Nothing."""

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Nothing."""

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None:
        """Nothing."""


UNMETERED = Unmetered()
