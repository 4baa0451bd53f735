"""Metrics: every figure that a process exports, in one table.

Rules: a metric is declared here and nowhere else, so tests can compare the reference, the alert rules and the
dashboards with the table. No label has values that users or jobs choose, except the hosts of HTTP jobs and the names of
limits, of which only the first `MOST_SERVICES` and `MOST_LIMITS` are exported, so the number of series does not grow
with jobs or runs. Names follow the conventions of Prometheus: base units, `_seconds`, `_bytes`, and `_total` for
counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cronflow.domain.events import KINDS
from cronflow.domain.run import ENDED, Outcome

MOST_SERVICES = 50
"""How many breakers are exported by name; MongoDB's always is."""
MOST_LIMITS = 50
"""How many named limits are exported."""


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricSource(StrEnum):
    """The processes that export a metric."""

    NODE = "every node"
    LEADER = "the node that leads"
    API = "every API"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and a description of its values. `known` lists all values if that is possible; a metric with this label
    alone then has every series from the start.
    """

    name: str
    values: str
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """`buckets` are the upper bounds of a histogram, in the unit of its name. Compared by identity, because processes
    look metrics up several times in each run.
    """

    name: str
    kind: MetricKind
    help: str
    tellers: tuple[MetricSource, ...]
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()


METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order of the reference."""

_LATENESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_DURATION = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_ROUND_TRIP = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_REQUEST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_LAG = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0)

_SERVICE = Label("service", "`redis` or `mongodb`", ("redis", "mongodb"))
_METHOD = Label("method", "the HTTP methods of the API; `other`")
_ROUTE = Label("route", "the template, such as `/api/v1/jobs/{name}`; `other` for the dashboard and unknown paths")

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
    "Always 1; its labels describe the process.",
    _ALL,
    Label("version", "the version of CronFlow"),
    Label("python", "the version of Python"),
    Label("namespace", "the cluster"),
    Label("role", "`node` or `api`"),
    Label("name", "the name of the node; `api` for an API"),
)
LOOP_LAG = _histogram(
    "cronflow_loop_lag_seconds", "How late the event loop ran its task of each half second.", _LAG, _ALL
)
LOOP_STALLED = _gauge(
    "cronflow_loop_stalled_seconds", "For how long the event loop has been blocked; 0 while it runs.", _NODE
)
LOOP_TASKS = _gauge("cronflow_loop_tasks", "The number of tasks of the event loop.", _NODE)
EVENTS = _counter(
    "cronflow_events_total",
    "Events that this process emitted, as `cronflow cluster events` shows them.",
    _ALL,
    Label("kind", "the kind of event, about thirty", tuple(KINDS)),
)

# ---------------------------------------------------------------------------------------------------------- the lead

LEADER = _gauge("cronflow_leader", "1 on the node that leads, else 0.", _NODE)
LEADER_KNOWN = _gauge("cronflow_leader_known", "1 while Redis has a leader, else 0.", _API)
TERM = _gauge(
    "cronflow_term", "The newest term: on a node the one it leads or last led, 0 if it never did.", (*_NODE, *_API)
)
LEASE_LEFT = _gauge("cronflow_lease_left_seconds", "For how long the leader's lease is still valid.", _CLUSTER)
LEADER_CHANGES = _counter("cronflow_leader_changes_total", "Leader changes (failovers) that this node saw.", _NODE)
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
CLUSTER_IN_FLIGHT = _gauge("cronflow_cluster_runs_in_flight", "Runs in flight on all nodes.", _CLUSTER)
_LIMIT = Label("limit", f"the names of limits, of which the first {MOST_LIMITS} are exported")
LIMIT_PERMITS = _gauge(
    "cronflow_limit_permits", "Runs that hold a permit of a named limit.", (MetricSource.LEADER,), _LIMIT
)
LIMIT_WAITING = _gauge(
    "cronflow_limit_waiting", "Fires and runs that wait for a named limit.", (MetricSource.LEADER,), _LIMIT
)
MAINTENANCE = _gauge("cronflow_maintenance", "1 while the cluster is in maintenance, else 0.", _CLUSTER)
BACKFILLS_RUNNING = _gauge("cronflow_backfills_running", "Running backfills.", (MetricSource.LEADER,))
BACKFILL_INSTANTS_LEFT = _gauge(
    "cronflow_backfill_instants_left",
    "Instants of running backfills that have no run yet.",
    (MetricSource.LEADER,),
)
RUNS_LONG = _gauge(
    "cronflow_runs_long", "Runs that take longer than usual, counted every ten seconds.", (MetricSource.LEADER,)
)
MISSED_RUNS = _gauge(
    "cronflow_recovery_missed_runs", "Runs missed in an outage that are held back.", (MetricSource.LEADER,)
)
QUEUE_DEPTH = _gauge("cronflow_queue_depth", "Runs in the queues of all nodes.", _CLUSTER)
RUNS_OPEN = _gauge("cronflow_runs_open", "Open runs, counted every ten seconds and up to 100000.", _API)
DEAD_LETTERS = _gauge("cronflow_dead_letters", "Unresolved dead letters, counted every ten seconds.", _API)
JOBS = _gauge("cronflow_jobs", "Jobs, counted every ten seconds.", _API, Label("state", "`active`, `paused` or `idle`"))

# ------------------------------------------------------------------------------------------------------------ a node

HEARTBEAT_AGE = _gauge("cronflow_heartbeat_age_seconds", "Time since the last heartbeat of this node.", _NODE)
SLOTS = _gauge("cronflow_slots", "How many runs this node executes at the same time.", _NODE)
IN_FLIGHT = _gauge("cronflow_runs_in_flight", "Runs in flight on this node.", _NODE)
HANDLER_PROCESSES = _gauge(
    "cronflow_handler_processes",
    "Handler processes of this node that respond. Only a node with `PROCESSES` above 1 has them.",
    _NODE,
)
HANDLER_PROCESS_ENDS = _counter(
    "cronflow_handler_process_ends_total",
    "Handler processes of this node that ended without being asked to, and their attempts with them.",
    _NODE,
)
SPOOL_OUTCOMES = _gauge("cronflow_spool_outcomes", "Results on this node's disk that wait for MongoDB.", _NODE)
SPOOL_BYTES = _gauge("cronflow_spool_bytes", "The size of the spooled results.", _NODE)
SPOOL_AGE = _gauge("cronflow_spool_oldest_seconds", "The age of the oldest spooled result; 0 if there is none.", _NODE)

# -------------------------------------------------------------------------------------------------------------- runs

DISPATCHED = _counter("cronflow_runs_dispatched_total", "Fires that this node dispatched as the leader.", _NODE)
DISPATCH_LATENESS = _histogram(
    "cronflow_dispatch_lateness_seconds",
    "From the instant of a fire to its dispatch to a node.",
    _LATENESS,
    _NODE,
)
START_LATENESS = _histogram(
    "cronflow_start_lateness_seconds", "From the instant of a fire to the start of its first attempt.", _LATENESS, _NODE
)
RUN_DURATION = _histogram(
    "cronflow_run_duration_seconds", "Duration of the last attempt of an ended run.", _DURATION, _NODE
)
RUNS_ENDED = _counter(
    "cronflow_runs_ended_total",
    "Runs that ended on this node, or that it ended as the leader.",
    _NODE,
    Label("state", "the five states of an ended run", tuple(sorted(ENDED))),
)
ATTEMPTS_ENDED = _counter(
    "cronflow_attempts_ended_total",
    "Attempts that ended on this node, or that it ended as the leader.",
    _NODE,
    Label("outcome", "the outcome, about a dozen", tuple(Outcome)),
)
RETRIES_STOPPED = _counter(
    "cronflow_retries_stopped_total",
    "Runs that failed with retries left: a retry rule, the deadline or the circuit breaker of their job forbade them.",
    _NODE,
)
REJECTIONS = _counter(
    "cronflow_rejections_total",
    "Requests of this node that were rejected because another attempt or run has the right.",
    _NODE,
    Label(
        "of",
        "`lock` the renewal of a job lock, `lease` the renewal of a lease, `start` the start of an attempt, "
        "`outcome` an outcome with an old fence, `take` a run whose job lock another run holds",
        ("lock", "lease", "start", "outcome", "take"),
    ),
)

# ----------------------------------------------------------------------------------------------------------- servers

BACKEND_SECONDS = _histogram(
    "cronflow_backend_seconds",
    "Duration of requests to a server, as this process measured it.",
    _ROUND_TRIP,
    _ALL,
    _SERVICE,
)
BACKEND_FAILURES = _counter(
    "cronflow_backend_failures_total",
    "Requests that failed because the server was unavailable.",
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
    "0 closed, 1 half-open, 2 open. MongoDB's is always exported, those of hosts while they are not closed.",
    _ALL,
    Label("service", f"`MongoDB`, and at most {MOST_SERVICES} hosts of HTTP jobs"),
)

# ------------------------------------------------------------------------------------------------------------ alerts

NOTICES = _counter(
    "cronflow_notices_total",
    "Attempts to send notifications of alerts.",
    _NODE + _API,
    Label("outcome", "`delivered`, `failed` (will be retried) or `gave_up`", ("delivered", "failed", "gave_up")),
)

# ----------------------------------------------------------------------------------------------------------- the API

API_REQUESTS = _counter(
    "cronflow_api_requests_total",
    "Answered requests.",
    _API,
    _METHOD,
    _ROUTE,
    Label("status", "the status of the response"),
)
API_SECONDS = _histogram(
    "cronflow_api_request_seconds",
    "Duration of a request, to the last byte of the response.",
    _REQUEST,
    _API,
    _METHOD,
    _ROUTE,
)
STREAM_SOCKETS = _gauge("cronflow_stream_sockets", "Connected websockets.", _API)
STREAM_TICKS = _counter("cronflow_stream_ticks_total", "Ticks that this API read from the live stream.", _API)
STREAM_DROPPED = _counter("cronflow_stream_ticks_dropped_total", "Ticks that were not sent to slow websockets.", _API)
STREAM_AGE = _gauge(
    "cronflow_stream_tick_age_seconds", "Age of the newest tick, and of the API's view of the cluster.", _API
)
