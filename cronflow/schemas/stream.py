"""Messages of the live stream, and events. See `docs/concepts/stream.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired

from cronflow.domain.events import RecordedEvent, Severity, fields_of
from cronflow.schemas import Schema, iso
from cronflow.schemas.cluster import MaintenanceSchema, NodeState
from cronflow.schemas.job_health import HealthCountsSchema
from cronflow.schemas.runs import LogSchema, RunDetailSchema


class LiveNodeSchema(Schema):
    """A node in a tick."""

    name: str
    """Its name."""
    id: str
    """`<name>#<incarnation>`."""
    leads: bool
    """Whether it is the leader."""
    state: NodeState
    """`draining`: accepts no new runs; `stale`: missed two heartbeats."""
    cpu: float
    """CPU use, from 0 to 1."""
    memory: float
    """Memory use, from 0 to 1."""
    lag_s: float
    """Delay of its event loop, in seconds."""
    slots: int
    """How many runs it can execute concurrently."""
    in_flight: int
    """Runs that it is executing."""
    queued: int
    """Runs waiting in its queue."""
    rate: float
    """Runs finished per second."""
    age_s: float
    """Seconds since its last heartbeat."""


class LiveQueueSchema(Schema):
    """The queues of all nodes, added up."""

    queued: int
    """Runs waiting in the queues."""
    in_flight: int
    """Runs being executed."""
    slots: int
    """How many runs the cluster can execute concurrently."""
    capacity: int
    """How many more runs could be dispatched now."""
    open: int | None
    """Open runs; null: not counted yet."""


class StreamQuantilesSchema(Schema):
    """Percentiles of a distribution; null if nothing was measured."""

    p50: float | None
    """Median."""
    p95: float | None
    """95th percentile."""
    p99: float | None
    """99th percentile."""


class LatencySchema(Schema):
    """Latency over the last five minutes; empty until MongoDB has answered once."""

    lateness_ms: NotRequired[StreamQuantilesSchema]
    """From due time to first start."""
    duration_ms: NotRequired[StreamQuantilesSchema]
    """Duration of the last attempts."""


class JobCountsSchema(Schema):
    """Number of jobs."""

    total: int
    """All jobs."""
    active: int
    """Jobs that will fire."""
    paused: int
    """Paused jobs."""
    idle: int
    """Jobs that are disabled, finished or have no schedule."""


class NextJobSchema(Schema):
    """A job that is due soon."""

    job: str
    """Its name."""
    at: str | None
    """When."""


class OpenBreakerSchema(Schema):
    """A service whose circuit breaker is open."""

    service: str
    """Name or host of the service."""
    nodes: list[str]
    """Nodes whose breaker is open."""


class ServerSchema(Schema):
    """Redis or MongoDB, as measured by the API replica that builds the ticks."""

    ms: NotRequired[float]
    """Round trip in milliseconds."""
    error: NotRequired[str]
    """Why it is unavailable."""


class LiveSchema(Schema):
    """The state of the cluster at an instant, as absolute values."""

    at: str
    """When the state was read."""
    namespace: str
    """Name of the cluster."""
    leader: str | None
    """The leader; null if the cluster has none."""
    lease_s: float
    """Duration of the leader's lease, in seconds."""
    term: int
    """The leader's term."""
    elected_at: str | None
    """When the leader was elected."""
    lease_left_s: float | None
    """Seconds until the leader's lease expires unless it is renewed."""
    nodes: list[LiveNodeSchema]
    """Up to 200 nodes, the leader first."""
    nodes_more: int
    """Number of nodes that are not listed."""
    queue: LiveQueueSchema
    """The queues of all nodes, added up."""
    rates: dict[str, float]
    """Runs finished per second: `ended`, and by state."""
    latency: LatencySchema
    """Delay and duration of runs."""
    jobs: JobCountsSchema | None
    """Number of jobs; null: not counted yet."""
    health: HealthCountsSchema | None
    """Number of jobs that need attention; null: not counted yet."""
    dead_letters: int | None
    """Dead letters; null: not counted yet."""
    next: list[NextJobSchema]
    """The ten jobs that are due next."""
    breakers: list[OpenBreakerSchema]
    """Open circuit breakers."""
    maintenance: MaintenanceSchema | None
    """Whether the cluster is in maintenance; null: not read yet."""
    servers: dict[str, ServerSchema]
    """`redis` and `mongodb`."""


class NodeSeriesSchema(Schema):
    """Series per node, one point every five seconds."""

    at: list[str]
    """The instants."""
    by_name: dict[str, dict[str, list[float | None]]]
    """`cpu`, `memory`, `lag_s` and `in_flight` of each node at these instants."""


class LastMinutesSchema(Schema):
    """The last ten minutes, as columns."""

    cluster: dict[str, list[str | float | None]]
    """One point per second: `at`, `ended`, `failed`, `queued`, `in_flight`, and percentiles of delay and duration."""
    nodes: NodeSeriesSchema
    """Series per node."""


class LiveSeriesSchema(LiveSchema):
    """The state of the cluster with its recent history."""

    series: LastMinutesSchema
    """The last ten minutes."""


class SnapSchema(Schema):
    """A snapshot: it replaces everything received before."""

    t: Literal["snap"]
    """Type of the message."""
    seq: str
    """Position in the stream; reconnect with `since` to continue here."""
    doc: LiveSeriesSchema
    """The state of the cluster."""


class LinesSchema(Schema):
    """Log lines of a topic."""

    topic: str
    """The topic as it was requested."""
    gap: int | None
    """Number of lines missing before these; null: unknown."""
    lines: list[LogSchema]
    """The lines."""


class TickSchema(Schema):
    """An update, sent every second."""

    t: Literal["tick"]
    """Type of the message."""
    seq: str
    """Position in the stream; reconnect with `since` to continue here."""
    ts: str
    """When."""
    patch: LiveSchema
    """New values for the same fields of `doc`."""
    events: list[EventSchema]
    """Events since the previous tick."""
    logs: list[LinesSchema]
    """Lines of the followed topics."""
    dropped: int
    """Number of ticks skipped before this one."""


class StreamErrorSchema(Schema):
    """A request that was refused."""

    t: Literal["error"]
    """Type of the message."""
    op: str | None
    """The requested operation."""
    detail: str
    """The reason."""
    again: bool
    """Whether a retry may succeed: a server is unavailable."""


class GapSchema(Schema):
    """A gap: lines are missing, or events between the last tick and the next snapshot."""

    t: Literal["gap"]
    """Type of the message."""
    missed: int | None
    """Number of missing lines; null: unknown, or events are missing."""


class LineSchema(Schema):
    """A log line."""

    t: Literal["line"]
    """Type of the message."""
    line: LogSchema
    """The line."""


class RunStateSchema(Schema):
    """A run whose state or attempt changed."""

    t: Literal["state"]
    """Type of the message."""
    run: RunDetailSchema
    """The run as it is now."""


StreamMessage = SnapSchema | TickSchema | GapSchema
"""Messages for a client that follows the cluster."""
RunMessage = RunStateSchema | LineSchema
"""Messages for a client that follows a run."""
LineMessage = LineSchema | GapSchema
"""Messages for a client that follows log lines."""


class EventSchema(Schema):
    """An event in the cluster."""

    id: str
    """Ids sort by time."""
    at: str
    """When."""
    kind: str
    """Kind of event, such as `leader_elected`."""
    severity: Severity
    """Severity."""
    source: str
    """The node that emitted it, or `api`."""
    text: str
    """The message for people."""
    fields: Mapping[str, object]
    """Details, depending on the kind."""


def event_schema(recorded: RecordedEvent) -> EventSchema:
    return {
        "id": recorded.id,
        "at": iso(recorded.at),
        "kind": recorded.event.kind,
        "severity": recorded.event.severity,
        "source": recorded.source,
        "text": recorded.event.text,
        "fields": fields_of(recorded.event),
    }
