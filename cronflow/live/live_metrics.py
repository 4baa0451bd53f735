"""The gauges of an API process: values of the newest tick, read at each scrape.

A scrape causes no queries: every replica reports what the replica that builds the ticks has counted.
"""

from __future__ import annotations

from cronflow.domain import metrics
from cronflow.live.hub import Hub
from cronflow.ports import Meter, Reading


def register_cluster_metrics(meter: Meter, hub: Hub) -> None:

    def queue(field: str) -> Reading:
        found: float | None = hub.doc.get("queue", {}).get(field)
        return found

    def plain(field: str) -> Reading:
        found: float | None = hub.doc.get(field)
        return found

    def jobs() -> Reading:
        counts = hub.doc.get("jobs")
        return None if counts is None else {state: counts[state] for state in ("active", "paused", "idle")}

    def leader_known() -> Reading:
        doc = hub.doc
        return float(doc["leader"] is not None) if doc else None

    meter.read(metrics.LEADER_KNOWN, leader_known)
    meter.read(metrics.TERM, lambda: plain("term"))
    meter.read(metrics.LEASE_LEFT, lambda: plain("lease_left_s"))
    meter.read(metrics.CLUSTER_SLOTS, lambda: queue("slots"))
    meter.read(metrics.CLUSTER_IN_FLIGHT, lambda: queue("in_flight"))
    meter.read(metrics.QUEUE_DEPTH, lambda: queue("queued"))
    meter.read(metrics.RUNS_OPEN, lambda: queue("open"))
    meter.read(metrics.DEAD_LETTERS, lambda: plain("dead_letters"))
    meter.read(metrics.JOBS, jobs)
    meter.read(metrics.STREAM_AGE, lambda: hub.age_s)
