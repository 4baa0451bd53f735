"""Metrics: every figure that a process tells of itself to whoever monitors it, in one table.

The rules it protects: a metric is declared here and nowhere else, so the reference, the alert rules and the dashboards
can be compared with what there is. No label has values that people or jobs choose, but for the hosts of HTTP jobs,
which are cut to the first `MOST_SERVICES`: so the number of series does not grow with jobs or runs. Names follow
Prometheus: base units, `_seconds`, `_bytes`, and `_total` for what only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cronflow.domain.events import KINDS
from cronflow.domain.run import ENDED, Outcome

MOST_SERVICES = 50
"""So many breakers are told by name; MongoDB's always is."""


class MetricKind(StrEnum):
    """How a metric is to be read."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSource(StrEnum):
    """Which processes tell a metric."""

    NODE = "every node"
    LEADER = "the node that leads"
    API = "every API"


@dataclass(frozen=True, slots=True)
class Label:
    """A label, and in words which values it has. `known`: all of them, where they can be listed; a metric with this
    label alone then has every series from the start.
    """

    name: str
    values: str
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric. `buckets` are the upper bounds of a histogram, in the unit of its name."""

    name: str
    kind: MetricKind
    help: str
    tellers: tuple[MetricSource, ...]
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: dict[str, Metric] = {}
"""All of them by name, in the order of the reference."""

_LATENESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_DURATION = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_ROUND_TRIP = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_REQUEST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LAG = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)

_SERVICE = Label("service", "`redis` or `mongodb`", ("redis", "mongodb"))
_METHOD = Label("method", "those of HTTP that the API has; `other`")
_ROUTE = Label("route", "the template, such as `/api/v1/jobs/{name}`; `other` for the page and for what is not there")

_NODE, _API = (MetricSource.NODE,), (MetricSource.API,)
_ALL, _CLUSTER = (MetricSource.NODE, MetricSource.API), (MetricSource.LEADER, MetricSource.API)


def _declared(metric: Metric) -> Metric:
    METRICS[metric.name] = metric
    return metric


def _counter(name: str, text: str, tellers: tuple[MetricSource, ...], *labels: Label) -> Metric:
    return _declared(Metric(name, MetricKind.COUNTER, text, tellers, labels))


def _gauge(name: str, text: str, tellers: tuple[MetricSource, ...], *labels: Label) -> Metric:
    return _declared(Metric(name, MetricKind.GAUGE, text, tellers, labels))


def _histogram(
    name: str, text: str, buckets: tuple[float, ...], tellers: tuple[MetricSource, ...], *labels: Label
) -> Metric:
    return _declared(Metric(name, MetricKind.HISTOGRAM, text, tellers, labels, buckets))


# ------------------------------------------------------------------------------------------------------- the process

BUILD_INFO = _gauge(
    "cronflow_build_info",
    "Always 1; its labels say what this process is.",
    _ALL,
    Label("version", "that of CronFlow"),
    Label("python", "that of Python"),
    Label("namespace", "the cluster"),
    Label("role", "`node` or `api`"),
    Label("name", "the node's name; `api` for an API"),
)
LOOP_LAG = _histogram(
    "cronflow_loop_lag_seconds", "How late the event loop was with what it had to do each half second.", _LAG, _ALL
)
LOOP_STALLED = _gauge(
    "cronflow_loop_stalled_seconds", "For how long the event loop has not turned; 0 while it turns.", _NODE
)
EVENTS = _counter(
    "cronflow_events_total",
    "Events that this process told, as `cronflow cluster events` shows them.",
    _ALL,
    Label("kind", "the kinds of events, some thirty", tuple(KINDS)),
)

# ---------------------------------------------------------------------------------------------------------- the lead

LEADER = _gauge("cronflow_leader", "1 on the node that leads, else 0.", _NODE)
LEADER_KNOWN = _gauge("cronflow_leader_known", "1 while Redis knows a leader, else 0.", _API)
TERM = _gauge(
    "cronflow_term", "The newest term: on a node the one it leads or last led, 0 if it never did.", (*_NODE, *_API)
)
LEASE_LEFT = _gauge("cronflow_lease_left_seconds", "For how long the leader may still believe that it leads.", _CLUSTER)
LEADER_CHANGES = _counter("cronflow_leader_changes_total", "Changes of the leader this node saw: failovers.", _NODE)
CLOCK_TRUSTED = _gauge(
    "cronflow_clock_trusted", "1 while the clocks agree, 0 while this node must not lead because they do not.", _NODE
)

# ------------------------------------------------------------------------------------------------------- the cluster

CLUSTER_NODES = _gauge(
    "cronflow_cluster_nodes",
    "Nodes with a heartbeat, by state.",
    (MetricSource.LEADER,),
    Label("state", "`up`, `draining` or `stale`"),
)
CLUSTER_SLOTS = _gauge("cronflow_cluster_slots", "Slots of all nodes.", _CLUSTER)
CLUSTER_IN_FLIGHT = _gauge("cronflow_cluster_runs_in_flight", "Runs that lie on all nodes.", _CLUSTER)
QUEUE_DEPTH = _gauge("cronflow_queue_depth", "Runs that wait in the lists of nodes to be taken.", _CLUSTER)
RUNS_OPEN = _gauge("cronflow_runs_open", "Open runs, counted each ten seconds and up to 100000.", _API)
DEAD_LETTERS = _gauge(
    "cronflow_dead_letters", "Dead letters that nobody has acknowledged, counted each ten seconds.", _API
)
JOBS = _gauge("cronflow_jobs", "Jobs, counted each ten seconds.", _API, Label("state", "`active`, `paused` or `idle`"))

# ------------------------------------------------------------------------------------------------------------ a node

HEARTBEAT_AGE = _gauge("cronflow_heartbeat_age_seconds", "Since when Redis has had no heartbeat of this node.", _NODE)
SLOTS = _gauge("cronflow_slots", "How many runs this node takes at the same time.", _NODE)
IN_FLIGHT = _gauge("cronflow_runs_in_flight", "Runs that lie on this node.", _NODE)
SPOOL_OUTCOMES = _gauge("cronflow_spool_outcomes", "Outcomes on this node's disk that MongoDB does not have.", _NODE)
SPOOL_BYTES = _gauge("cronflow_spool_bytes", "Their size.", _NODE)
SPOOL_AGE = _gauge("cronflow_spool_oldest_seconds", "The age of the oldest of them; 0 when there is none.", _NODE)

# -------------------------------------------------------------------------------------------------------------- runs

DISPATCHED = _counter("cronflow_runs_dispatched_total", "Fires that this node, leading, handed to nodes.", _NODE)
DISPATCH_LATENESS = _histogram(
    "cronflow_dispatch_lateness_seconds",
    "From the instant of a fire to its hand-over to a node.",
    _LATENESS,
    _NODE,
)
START_LATENESS = _histogram(
    "cronflow_start_lateness_seconds", "From the instant of a fire to the start of its first attempt.", _LATENESS, _NODE
)
RUN_DURATION = _histogram(
    "cronflow_run_duration_seconds", "How long the last attempt of a run that has ended took.", _DURATION, _NODE
)
RUNS_ENDED = _counter(
    "cronflow_runs_ended_total",
    "Runs that ended on this node, or were ended by it because it leads.",
    _NODE,
    Label("state", "the five states of an ended run", tuple(sorted(ENDED))),
)
ATTEMPTS_ENDED = _counter(
    "cronflow_attempts_ended_total",
    "Attempts that ended likewise.",
    _NODE,
    Label("outcome", "the outcomes, some dozen", tuple(Outcome)),
)
REJECTIONS = _counter(
    "cronflow_rejections_total",
    "What a node was refused because somebody else had the right to it.",
    _NODE,
    Label(
        "of",
        "`lock` a job lock that was to be renewed, `lease` a lease that was, `start` of an attempt, `outcome` that came"
        " with an old fence, `take` of a run whose job's lock another run has",
        ("lock", "lease", "start", "outcome", "take"),
    ),
)

# ----------------------------------------------------------------------------------------------------------- servers

BACKEND_SECONDS = _histogram(
    "cronflow_backend_seconds",
    "How long what a server was asked took, as it was felt here.",
    _ROUND_TRIP,
    _ALL,
    _SERVICE,
)
BACKEND_FAILURES = _counter(
    "cronflow_backend_failures_total",
    "What a server was asked in vain because it was away.",
    _ALL,
    _SERVICE,
)
BACKEND_UP = _gauge(
    "cronflow_backend_up",
    "1 while every role of this node reaches the server, else 0.",
    _NODE,
    _SERVICE,
)
BREAKER_STATE = _gauge(
    "cronflow_breaker_state",
    "0 closed, 1 half-open, 2 open. MongoDB's is always told, those of hosts while they are not closed.",
    _ALL,
    Label("service", f"`MongoDB`, and at most {MOST_SERVICES} hosts that HTTP jobs ask"),
)

# ------------------------------------------------------------------------------------------------------------ alerts

NOTICES = _counter(
    "cronflow_notices_total",
    "What came of sending notices of alerts.",
    _NODE,
    Label("outcome", "`delivered`, `failed` (to be tried again) or `gave_up`", ("delivered", "failed", "gave_up")),
)

# ----------------------------------------------------------------------------------------------------------- the API

API_REQUESTS = _counter(
    "cronflow_api_requests_total",
    "Requests that were answered.",
    _API,
    _METHOD,
    _ROUTE,
    Label("status", "the status of the answer"),
)
API_SECONDS = _histogram(
    "cronflow_api_request_seconds",
    "How long an answer took, to its last byte.",
    _REQUEST,
    _API,
    _METHOD,
    _ROUTE,
)
STREAM_SOCKETS = _gauge("cronflow_stream_sockets", "Websockets that are connected.", _API)
STREAM_TICKS = _counter("cronflow_stream_ticks_total", "Ticks that this API read from the live stream.", _API)
STREAM_DROPPED = _counter(
    "cronflow_stream_ticks_dropped_total", "Ticks that sockets were not sent because they are slow.", _API
)
STREAM_AGE = _gauge(
    "cronflow_stream_tick_age_seconds", "How old the newest tick is; what an API tells of the cluster is as old.", _API
)
