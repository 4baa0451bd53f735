"""Figures as Prometheus reads them: the text of a process, by metric and labels."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Figures = dict[tuple[str, ...], float]


def figures(text: bytes) -> dict[str, Figures]:
    """By the name of the sample, then by the values of its labels in the order of their names."""
    found: dict[str, Figures] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[key] = sample.value
    return found
