"""The Meter port on the Prometheus client library, with its own registry.

Counters and histograms exist from the start, because a series that begins with its first event hides that event from
`increase()`. Gauges are read at each scrape. CPU time, memory and open files of the process are exported too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from cronflow.domain.metrics import METRICS, Metric, MetricKind, MetricSource
from cronflow.ports.metrics import Reading

Series = TypeVar("Series", Counter, Histogram)


class PrometheusMeter(Collector):
    """Meter and Exposition of a process with these metric sources."""

    def __init__(self, sources: Collection[MetricSource]) -> None:
        # `_created` series would add half as many series again, and nobody uses them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._counters: dict[Metric, Counter] = {}
        self._histograms: dict[Metric, Histogram] = {}
        self._children: dict[tuple[Metric, tuple[str, ...]], Counter | Histogram] = {}
        self._asked: dict[Metric, Callable[[], Reading]] = {}
        for metric in METRICS.values():
            if any(source in sources for source in metric.tellers):
                self._begin(metric)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def _begin(self, metric: Metric) -> None:
        names = [label.name for label in metric.labels]
        made: Counter | Histogram
        if metric.kind is MetricKind.COUNTER:
            made = self._counters[metric] = Counter(metric.name, metric.help, names, registry=self._registry)
        elif metric.kind is MetricKind.HISTOGRAM:
            made = self._histograms[metric] = Histogram(
                metric.name, metric.help, names, buckets=metric.buckets, registry=self._registry
            )
        else:
            return
        if len(metric.labels) == 1:
            for value in metric.labels[0].known:
                made.labels(value)

    @property
    def media_type(self) -> str:
        return CONTENT_TYPE_LATEST

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def add(self, metric: Metric, *labels: str, by: float = 1) -> None:
        counter = self._counters[metric]
        (self._child(counter, metric, labels) if labels else counter).inc(by)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        histogram = self._histograms[metric]
        (self._child(histogram, metric, labels) if labels else histogram).observe(value)

    def _child(self, family: Series, metric: Metric, labels: tuple[str, ...]) -> Series:
        """The library takes a lock and converts the labels each time."""
        child = self._children.get((metric, labels))
        if child is None:
            child = self._children[metric, labels] = family.labels(*labels)
        return cast(Series, child)

    def read(self, metric: Metric, ask: Callable[[], Reading]) -> None:
        self._asked[metric] = ask

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Read the gauges."""
        for metric, ask in list(self._asked.items()):
            family = GaugeMetricFamily(metric.name, metric.help, labels=[label.name for label in metric.labels])
            found = ask()
            if isinstance(found, int | float):
                family.add_metric([], found)
            elif found is not None:
                for key, value in found.items():
                    family.add_metric([key] if isinstance(key, str) else list(key), value)
            yield family
