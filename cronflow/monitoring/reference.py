"""`docs/reference/metrics.md` from the declarations: `python -m cronflow.monitoring.reference`, or `make docs`.

The page has no metric of its own; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from cronflow.domain.metrics import METRICS, Metric

HEAD = """# Metrics

Made from `cronflow/domain/metrics.py` by `make docs`; do not edit it.

Each process tells what it knows, as Prometheus reads it, and asks no server for it.

An API has its metrics at `/metrics`, without a login, as `/livez` and `/readyz`. With `METRICS_PORT` they are on that
port instead, and nodes, which have none otherwise, have theirs on it too. It is opened on `METRICS_HOST`, by default
`127.0.0.1`: write `0.0.0.0` where Prometheus is on another machine, and let nobody else reach the port. It has no login
and no TLS. Processes of one machine need a port each; `cronflow dev` counts them up from `METRICS_PORT`: the API has
that one, `node-1` the next. An API that is reachable from outside should have a `METRICS_PORT`, or a proxy that keeps
`/metrics` to itself.

What is told contains names of nodes and of hosts that HTTP jobs ask, and no job, run, user or secret. No label has a
value that people choose, but for those hosts, of which some fifty are told at the same time; so the number of series
does not grow with jobs or runs.

The leader tells of the cluster, and so does every API: add with `max`, not with `sum`. What an API tells of it is as
old as `cronflow_stream_tick_age_seconds`. Scrape each cluster as one `job`: the rules of
`deploy/prometheus/cronflow.rules.yml` compare what has the same. The client library adds `process_*`: CPU time, memory,
open files and start time of the process.

With `cronflow dev --memory` nodes and API are one process, which tells what an API tells.
"""


def reference() -> str:
    """The page."""
    return "\n".join([HEAD, *_table(), *_labels(), *_buckets()])


def _table() -> Iterator[str]:
    yield from ("## All of them", "", "| metric | kind | labels | told by | |", "|---|---|---|---|---|")
    for metric in METRICS.values():
        labels = ", ".join(f"`{label.name}`" for label in metric.labels)
        tellers = ", ".join(metric.tellers)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {tellers} | {metric.help} |"
    yield ""


def _labels() -> Iterator[str]:
    yield from ("## Labels", "", "| metric | label | values |", "|---|---|---|")
    for metric in METRICS.values():
        for label in metric.labels:
            yield f"| `{metric.name}` | `{label.name}` | {label.values} |"
    yield ""


def _buckets() -> Iterator[str]:
    yield from ("## Buckets", "", "Upper bounds of the histograms, in seconds.", "", "| metric | bounds |", "|---|---|")
    for metric in METRICS.values():
        if metric.buckets:
            yield f"| `{metric.name}` | {_bounds(metric)} |"


def _bounds(metric: Metric) -> str:
    return ", ".join(f"{bound:g}" for bound in metric.buckets)


if __name__ == "__main__":
    sys.stdout.write(reference().rstrip() + "\n")
