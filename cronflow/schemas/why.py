"""The chain of `cronflow jobs why`: one object per decision, distinguished by `step`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from cronflow.domain import why as chain
from cronflow.domain.job import MisfirePolicy, Overlap
from cronflow.domain.late_start import Delay, LateStart
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Kind, Outcome, RunState
from cronflow.domain.why_chain import Awaits, FollowerHeldBack, Follows, LastEnd
from cronflow.schemas import Schema, iso, milliseconds, optional_iso
from cronflow.schemas.runs import (
    AttemptSchema,
    CoversSchema,
    PlacementSchema,
    ResolutionSchema,
    ShardSchema,
    attempt_schema,
    covers_schema,
    placement_schema,
    resolution_schema,
)
from cronflow.schemas.why_chain import ChainLinkSchema, chain_link_schema


class DueSchema(Schema):
    """The instant is due under this version of the schedule."""

    step: Literal["due"]
    instant: str
    ver: int
    since: str
    by: str
    schedule: str


class NotDueSchema(Schema):
    """The schedule does not fire at this instant; `before` and `after` are the nearest fires."""

    step: Literal["not_due"]
    instant: str
    reason: str
    ver: int | None
    schedule: str | None
    before: str | None
    after: str | None


class UpcomingSchema(Schema):
    """The instant is in the future. If the run is planned already, its node holds it until then."""

    step: Literal["upcoming"]
    instant: str
    remaining_ms: int


class KeptByEditSchema(Schema):
    """An edit prevented the run: the job was paused, disabled, changed or deleted."""

    step: Literal["held"]
    reason: str
    ver: int
    since: str
    by: str
    recorded: bool
    note: str
    until: str | None


class ExcludedSchema(Schema):
    """Calendars or windows of the schedule exclude the instant: it is skipped."""

    step: Literal["excluded"]
    reason: str
    until: str | None


class RequestedSchema(Schema):
    """The run was requested outside the schedule, replays another run, belongs to a backfill, or is a part of a run."""

    step: Literal["requested"]
    at: str
    kind: Kind
    replay_of: str | None
    backfill: str | None
    parent: str | None
    shard: ShardSchema | None


class PartsSchema(Schema):
    """The run is split, and its parts execute."""

    step: Literal["parts"]
    at: str | None
    count: int | None
    counts: dict[str, int]
    waiting: str | None
    blocked_by: str | None


class LatenessSchema(Schema):
    """How late the planner decided, and whether it counts as missed."""

    step: Literal["lateness"]
    late_ms: int
    late_after_ms: int
    missed: bool
    policy: MisfirePolicy
    covers: CoversSchema | None
    skipped: bool


class OverlappingSchema(Schema):
    """Whether another run of the job blocked it."""

    step: Literal["overlapping"]
    policy: Overlap
    blocked_by: str | None
    skipped: bool


class RefusedSchema(Schema):
    """A node that cannot take the run."""

    node: str
    """The node."""
    reason: str
    """Why it could not take the run."""


class UnplannedSchema(Schema):
    """It is due, and no leader has planned it yet."""

    step: Literal["unplanned"]
    since: str
    reason: str
    blocked_by: str | None
    nodes: list[RefusedSchema]
    more: int


class PlacedSchema(Schema):
    """The chosen node, and why the others were not chosen."""

    step: Literal["placed"]
    node: str
    placement: PlacementSchema | None


class DispatchedSchema(Schema):
    """Dispatched to its node by the leader. `taken` is false until the node records a start."""

    step: Literal["dispatched"]
    at: str
    term: int
    fence: int
    node: str
    again: int
    taken: bool
    check_at: str | None


class StartedSchema(Schema):
    """The first attempt started."""

    step: Literal["started"]
    at: str
    lateness_ms: int


class TriedSchema(Schema):
    """A finished attempt."""

    step: Literal["tried"]
    attempt: AttemptSchema


class RunsNowSchema(Schema):
    """The current attempt is running."""

    step: Literal["runs"]
    since: str
    attempt: int
    node: str | None
    usual_ms: int | None
    """95 % of the job's latest successful runs took at most this long; null: too few of them."""
    usual_of: int
    """How many runs that is."""
    long: bool
    """Whether it takes longer than usual."""


class WaitingSchema(Schema):
    """Why the run is waiting, and since when."""

    fire: str
    """The instant."""
    since: str
    """When the wait began."""
    reason: str
    """What it is waiting for."""
    blocked_by: str | None
    """The run that is in its way."""
    nodes: list[RefusedSchema]
    """Nodes that cannot take it, with reasons."""
    more: int
    """Number of further nodes."""


class TriesAgainSchema(Schema):
    """The run waits for its next attempt, until its due time or for a node."""

    step: Literal["tries_again"]
    at: str | None
    attempt: int
    waiting: WaitingSchema | None


class NoRetriesSchema(Schema):
    """The circuit breaker of the job is open: if the run fails, it is not retried. A run that starts from `probe_at` on
    and succeeds closes it.
    """

    step: Literal["no_retries"]
    since: str
    failed: int
    attempts: int
    probe_at: str


class EndedSchema(Schema):
    """How the run ended and was settled."""

    step: Literal["ended"]
    state: RunState
    at: str | None
    outcome: Outcome | None
    reason: str | None
    error: str | None
    dead: bool
    resolution: ResolutionSchema | None


class BackfilledSchema(Schema):
    """A backfill has a run for the instant too."""

    step: Literal["backfilled"]
    run: str
    state: RunState


class UnrecordedSchema(Schema):
    """The instant was due, but its run does not exist or was deleted."""

    step: Literal["unrecorded"]
    reason: str


LinkSchema = (
    DueSchema | NotDueSchema | UpcomingSchema | KeptByEditSchema | RequestedSchema | LatenessSchema | OverlappingSchema
    | ExcludedSchema
    | UnplannedSchema | PlacedSchema | DispatchedSchema | StartedSchema | TriedSchema | RunsNowSchema | TriesAgainSchema
    | NoRetriesSchema | EndedSchema | UnrecordedSchema | BackfilledSchema | PartsSchema | ChainLinkSchema
)  # fmt: skip


class LatePartSchema(Schema):
    """A part of the time by which a run started late."""

    delay: Delay
    """What it waited for."""
    since: str
    """The beginning."""
    until: str
    """The end."""
    ms: int
    """The length in milliseconds."""
    words: str
    """What happened."""
    recorded: bool
    """Whether records explain this part."""
    run: str | None
    """The run that it waited for."""


class LateStartSchema(Schema):
    """Why a run started late. The parts follow each other and add up to the lateness."""

    due: str
    """When it was due, or requested."""
    until: str
    """When its first attempt started; now if it has not."""
    started: bool
    """Whether it has started."""
    lateness_ms: int
    """The whole, in milliseconds."""
    parts: list[LatePartSchema]
    """In the order of time."""


class WhySchema(Schema):
    """Why an instant ran, did not run or is waiting: every decision, in order."""

    job: str
    """The job."""
    at: str
    """The instant."""
    run: str | None
    """The run that covers the instant."""
    chain: list[LinkSchema]
    """What the job follows, the decisions up to the current state, what the run held back, then the runs of backfills
    for the instant.
    """
    late: LateStartSchema | None
    """Why the run started late; null: it did not, or has no lateness."""


def why_schema(why: chain.Why) -> WhySchema:
    return {
        "job": why.job,
        "at": iso(why.instant),
        "run": why.run,
        "chain": [link_schema(link) for link in why.links],
        "late": None if why.late is None else _late_start(why.late),
    }


def _late_start(late: LateStart) -> LateStartSchema:
    def since_due(at: datetime) -> int:
        return milliseconds(at - late.due)

    return {
        "due": iso(late.due),
        "until": iso(late.until),
        "started": late.started,
        "lateness_ms": since_due(late.until),
        "parts": [
            {
                "delay": part.delay,
                "since": iso(part.since),
                "until": iso(part.until),
                # Rounded so that the lengths add up.
                "ms": since_due(part.until) - since_due(part.since),
                "words": part.words,
                "recorded": part.recorded,
                "run": part.run,
            }
            for part in late.parts
        ],
    }


def link_schema(link: chain.Link) -> LinkSchema:
    match link:
        case (
            chain.Due()
            | chain.NotDue()
            | chain.Upcoming()
            | chain.KeptByEdit()
            | chain.Requested()
            | chain.Unrecorded()
            | chain.Backfilled()
            | chain.Excluded()
        ):
            return _schedule_schema(link)
        case chain.Lateness() | chain.Overlapping() | chain.Unplanned() | chain.Placed() | chain.Dispatched():
            return _planning_schema(link)
        case chain.Parts():
            return _parts_schema(link)
        case Follows() | LastEnd() | Awaits() | FollowerHeldBack():
            return chain_link_schema(link)
    return _running_schema(link)


def _parts_schema(parts: chain.Parts) -> PartsSchema:
    waiting = parts.waiting
    return {
        "step": "parts",
        "at": optional_iso(parts.at),
        "count": parts.count,
        "counts": {state.value: parts.counts[state] for state in RunState if state in parts.counts},
        "waiting": None if waiting is None else str(waiting),
        "blocked_by": None if waiting is None else waiting.blocked_by,
    }


def _schedule_schema(
    link: chain.Due
    | chain.NotDue
    | chain.Upcoming
    | chain.KeptByEdit
    | chain.Requested
    | chain.Unrecorded
    | chain.Backfilled
    | chain.Excluded,
) -> LinkSchema:
    match link:
        case chain.Excluded(reason, until):
            return {"step": "excluded", "reason": reason, "until": optional_iso(until)}
        case chain.Due(instant, ver, since, by, schedule):
            return {
                "step": "due",
                "instant": iso(instant),
                "ver": ver,
                "since": iso(since),
                "by": by,
                "schedule": schedule,
            }
        case chain.NotDue():
            return {
                "step": "not_due",
                "instant": iso(link.instant),
                "reason": link.reason,
                "ver": link.ver,
                "schedule": link.schedule,
                "before": optional_iso(link.before),
                "after": optional_iso(link.after),
            }
        case chain.Upcoming(instant, remaining):
            return {"step": "upcoming", "instant": iso(instant), "remaining_ms": milliseconds(remaining)}
        case chain.KeptByEdit(reason, ver, since, by, recorded, note, until):
            return {
                "step": "held",
                "reason": reason,
                "ver": ver,
                "since": iso(since),
                "by": by,
                "recorded": recorded,
                "note": note,
                "until": optional_iso(until),
            }
        case chain.Requested(at, kind, replay_of, backfill, parent, shard):
            return {
                "step": "requested",
                "at": iso(at),
                "kind": kind,
                "replay_of": replay_of,
                "backfill": backfill,
                "parent": parent,
                "shard": None if shard is None else {"index": shard.index, "total": shard.total},
            }
        case chain.Unrecorded(reason):
            return {"step": "unrecorded", "reason": reason}
        case chain.Backfilled(run, state):
            return {"step": "backfilled", "run": run, "state": state}


def _planning_schema(
    link: chain.Lateness | chain.Overlapping | chain.Unplanned | chain.Placed | chain.Dispatched,
) -> LinkSchema:
    match link:
        case chain.Lateness():
            return {
                "step": "lateness",
                "late_ms": milliseconds(link.late),
                "late_after_ms": milliseconds(link.late_after),
                "missed": link.missed,
                "policy": link.policy,
                "covers": covers_schema(link.covers),
                "skipped": link.skipped,
            }
        case chain.Overlapping(policy, blocked_by, skipped):
            return {"step": "overlapping", "policy": policy, "blocked_by": blocked_by, "skipped": skipped}
        case chain.Unplanned():
            return {
                "step": "unplanned",
                "since": iso(link.since),
                "reason": link.reason,
                "blocked_by": link.blocked_by,
                "nodes": _refused(link.nodes),
                "more": link.more,
            }
        case chain.Placed(node, placement):
            return {
                "step": "placed",
                "node": node,
                "placement": None if placement is None else placement_schema(placement),
            }
        case chain.Dispatched():
            return {
                "step": "dispatched",
                "at": iso(link.at),
                "term": link.term,
                "fence": link.fence,
                "node": link.node,
                "again": link.again,
                "taken": link.taken,
                "check_at": optional_iso(link.check_at),
            }


def _running_schema(
    link: chain.Started | chain.Tried | chain.RunsNow | chain.TriesAgain | chain.NoRetries | chain.Ended,
) -> LinkSchema:
    match link:
        case chain.Started(at, lateness):
            return {"step": "started", "at": iso(at), "lateness_ms": milliseconds(lateness)}
        case chain.Tried(attempt):
            return {"step": "tried", "attempt": attempt_schema(attempt)}
        case chain.RunsNow():
            usual = link.usual
            return {
                "step": "runs",
                "since": iso(link.since),
                "attempt": link.attempt,
                "node": link.node,
                "usual_ms": None if usual is None else milliseconds(usual.p95),
                "usual_of": 0 if usual is None else usual.runs,
                "long": link.long,
            }
        case chain.TriesAgain(due, number, waiting):
            return {
                "step": "tries_again",
                "at": optional_iso(due),
                "attempt": number,
                "waiting": None if waiting is None else _waiting(waiting),
            }
        case chain.NoRetries(since, failed, attempts, probe_at):
            return {
                "step": "no_retries",
                "since": iso(since),
                "failed": failed,
                "attempts": attempts,
                "probe_at": iso(probe_at),
            }
        case chain.Ended():
            return {
                "step": "ended",
                "state": link.state,
                "at": optional_iso(link.at),
                "outcome": link.outcome,
                "reason": link.reason,
                "error": link.error,
                "dead": link.dead,
                "resolution": None if link.resolution is None else resolution_schema(link.resolution),
            }


def _waiting(waiting: Waiting) -> WaitingSchema:
    return {
        "fire": iso(waiting.fire),
        "since": iso(waiting.since),
        "reason": waiting.reason,
        "blocked_by": waiting.blocked_by,
        "nodes": _refused(waiting.nodes),
        "more": waiting.more,
    }


def _refused(nodes: Sequence[tuple[str, str]]) -> list[RefusedSchema]:
    return [{"node": node, "reason": reason} for node, reason in nodes]
