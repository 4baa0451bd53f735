"""Generates `docs/reference/metrics.md` from the declarations: `python -m tools.docs.metrics`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from cronflow.domain.metrics import METRICS, Metric

HEAD = """# Metrics

Generated from `cronflow/domain/metrics.py` by `make docs`; do not edit it.

Each process exposes its own metrics for Prometheus; a scrape sends no request to Redis or MongoDB.

An API serves its metrics at `/metrics`, without a login, like `/livez` and `/readyz`. With `METRICS_PORT` they are on
that port instead, and nodes, which otherwise expose none, serve theirs on it too. The port listens on `METRICS_HOST`,
by default `127.0.0.1`; set `0.0.0.0` if Prometheus runs on another machine, and restrict access to the port: it has no
login and no TLS. Processes on one machine need a port each; `cronflow dev` counts up from `METRICS_PORT`: the API gets
that one, `node-1` the next. An API that is reachable from outside should have a `METRICS_PORT`, or a proxy that does
not forward `/metrics`.

Metrics contain the names of nodes and of hosts that HTTP jobs call, but no job, run, user or secret. No label has a
value chosen by users, except these hosts, of which about fifty are exposed at a time. So the number of series does not
grow with jobs or runs.

Both the leader and every API report the metrics of the cluster: aggregate them with `max`, not with `sum`. Those of an
API are as old as `cronflow_stream_tick_age_seconds`. Scrape each cluster as one `job`: the rules of
`deploy/prometheus/cronflow.rules.yml` compare series of the same job. The client library adds `process_*`: CPU time,
memory, open files and start time of the process.

With `cronflow dev --memory` nodes and API are one process, which exposes what an API exposes.
"""


def reference() -> str:
    return "\n".join([HEAD, *_table(), *_labels(), *_buckets()])


def _table() -> Iterator[str]:
    yield from ("## All metrics", "", "| metric | kind | labels | exposed by | |", "|---|---|---|---|---|")
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
