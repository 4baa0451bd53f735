"""What is said on the live stream, and what its followers are told; `docs/concepts/stream.md` has the whole of it."""

from __future__ import annotations

from typing import Literal, NotRequired

from cronflow.schemas.base import Schema
from cronflow.schemas.cluster import NodeState
from cronflow.schemas.events import EventSchema
from cronflow.schemas.runs import LogSchema, RunDetailSchema


class LiveNodeSchema(Schema):
    """A node, as a tick tells it."""

    name: str
    """Its name."""
    id: str
    """`<name>#<incarnation>`."""
    leads: bool
    """Whether it leads."""
    state: NodeState
    """`draining`: it gets no more work; `stale`: two heartbeats are missing."""
    cpu: float
    """The part of its CPUs that is in use."""
    memory: float
    """The part of its memory that is in use."""
    lag_s: float
    """How late its event loop is."""
    slots: int
    """How many runs it takes at the same time."""
    in_flight: int
    """How many it runs."""
    queued: int
    """How many wait in its list."""
    rate: float
    """Runs that it ends a second."""
    age_s: float
    """How old its last report is."""


class LiveQueueSchema(Schema):
    """The nodes' lists together."""

    queued: int
    """Runs that wait in them."""
    in_flight: int
    """Runs that are running."""
    slots: int
    """How many can run at the same time."""
    capacity: int
    """How many more could be given out now."""
    open: int | None
    """Runs that are not over; null: not counted yet."""


class StreamQuantilesSchema(Schema):
    """Of a distribution; null: there is nothing in it."""

    p50: float | None
    """Half of them are below."""
    p95: float | None
    """Of twenty, one is above."""
    p99: float | None
    """Of a hundred, one is above."""


class LatencySchema(Schema):
    """Of the last five minutes; empty before MongoDB has answered for the first time."""

    lateness_ms: NotRequired[StreamQuantilesSchema]
    """From the instant a run was due to its first start."""
    duration_ms: NotRequired[StreamQuantilesSchema]
    """Of the last attempts."""


class JobCountsSchema(Schema):
    """How many jobs there are."""

    total: int
    """All of them."""
    active: int
    """Those that will run by themselves."""
    paused: int
    """Those that somebody has paused."""
    idle: int
    """Disabled, without a schedule, or done."""


class NextJobSchema(Schema):
    """A job that is due soon."""

    job: str
    """Its name."""
    at: str | None
    """When."""


class OpenBreakerSchema(Schema):
    """A service that is left alone for now."""

    service: str
    """Its name or host."""
    nodes: list[str]
    """By which nodes."""


class ServerSchema(Schema):
    """A server, as the builder of ticks reaches it."""

    ms: NotRequired[float]
    """Its round trip."""
    error: NotRequired[str]
    """Why it does not answer."""


class LiveSchema(Schema):
    """The cluster at an instant: absolute values."""

    at: str
    """When this was read."""
    namespace: str
    """The name of the cluster."""
    leader: str | None
    """The node that leads."""
    lease_s: float
    """How long a lead lasts unless it is renewed."""
    term: int
    """The number of the tenure."""
    elected_at: str | None
    """Since when it leads."""
    lease_left_s: float | None
    """How long its lead still lasts unless it renews it."""
    nodes: list[LiveNodeSchema]
    """Up to 200 nodes, the leader first."""
    nodes_more: int
    """How many more there are."""
    queue: LiveQueueSchema
    """Their lists together."""
    rates: dict[str, float]
    """Runs that ended a second: `ended`, and by their states."""
    latency: LatencySchema
    """How late and how long."""
    jobs: JobCountsSchema | None
    """How many jobs; null: not counted yet."""
    dead_letters: int | None
    """Failed or lost runs that nobody has settled; null: not counted yet."""
    next: list[NextJobSchema]
    """The ten jobs that are due next."""
    breakers: list[OpenBreakerSchema]
    """Services that are left alone."""
    servers: dict[str, ServerSchema]
    """`redis` and `mongodb`."""


class NodeSeriesSchema(Schema):
    """Of each node, every five seconds."""

    at: list[str]
    """The instants."""
    by_name: dict[str, dict[str, list[float | None]]]
    """`cpu`, `memory`, `lag_s` and `in_flight` of each node, at these instants."""


class LastMinutesSchema(Schema):
    """The last ten minutes, column by column."""

    cluster: dict[str, list[str | float | None]]
    """Each second: `at`, `ended`, `failed`, `queued`, `in_flight`, and `p50`, `p95`, `p99` of lateness and duration."""
    nodes: NodeSeriesSchema
    """Each node."""


class LiveSeriesSchema(LiveSchema):
    """The cluster at an instant, and how it came there."""

    series: LastMinutesSchema
    """The last ten minutes."""


class SnapSchema(Schema):
    """The beginning, or a new one: it replaces everything."""

    t: Literal["snap"]
    """What this message is."""
    seq: str
    """Its place in the stream, to go on from."""
    doc: LiveSeriesSchema
    """The cluster."""


class LinesSchema(Schema):
    """Lines of a topic."""

    topic: str
    """As it was asked for."""
    gap: int | None
    """How many lines are missing before these; null: nobody knows how many."""
    lines: list[LogSchema]
    """The lines."""


class TickSchema(Schema):
    """A second of the cluster's life."""

    t: Literal["tick"]
    """What this message is."""
    seq: str
    """Its place in the stream, to go on from."""
    ts: str
    """When."""
    patch: LiveSchema
    """What replaces the same fields of `doc`."""
    events: list[EventSchema]
    """What happened since the tick before."""
    logs: list[LinesSchema]
    """Lines of the topics that are followed."""
    dropped: int
    """How many ticks were passed over before this one."""


class StreamErrorSchema(Schema):
    """Something that was asked for and cannot be obeyed."""

    t: Literal["error"]
    """What this message is."""
    op: str | None
    """What was asked for."""
    detail: str
    """Why not."""
    again: bool
    """Whether it may be obeyed later: a server is away."""


class GapSchema(Schema):
    """A place where something is missing: lines, or before a snapshot the events since the last tick."""

    t: Literal["gap"]
    """What this message is."""
    missed: int | None
    """How many lines; null: nobody knows how many, or it is events."""


class LineSchema(Schema):
    """A line that was written."""

    t: Literal["line"]
    """What this message is."""
    line: LogSchema
    """The line."""


class RunStateSchema(Schema):
    """A run in another state or attempt than before."""

    t: Literal["state"]
    """What this message is."""
    run: RunDetailSchema
    """The run as it is now."""


StreamMessage = SnapSchema | TickSchema | GapSchema
"""What a follower of the cluster is told."""
RunMessage = RunStateSchema | LineSchema
"""What a follower of a run is told."""
LineMessage = LineSchema | GapSchema
"""What a follower of lines is told."""
