"""A chain as plain values: an object for each link, `step` says which.

Instants are ISO 8601 in UTC, lengths are milliseconds and say so in their name; nothing is put into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cronflow.domain import why as chain
from cronflow.domain.job import MisfirePolicy, Overlap
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Outcome, RunState
from cronflow.schemas.base import Schema, iso, milliseconds, optional_iso
from cronflow.schemas.runs import (
    AttemptSchema,
    CoversSchema,
    PlacementSchema,
    ResolutionSchema,
    attempt_schema,
    covers_schema,
    placement_schema,
    resolution_schema,
)


class DueSchema(Schema):
    """The instant belongs to this version of the schedule."""

    step: Literal["due"]
    instant: str
    ver: int
    since: str
    by: str
    schedule: str


class NotDueSchema(Schema):
    """The instant is none of the schedule's; `before` and `after` are the nearest that are."""

    step: Literal["not_due"]
    instant: str
    reason: str
    ver: int | None
    schedule: str | None
    before: str | None
    after: str | None


class UpcomingSchema(Schema):
    """It will fall due."""

    step: Literal["upcoming"]
    instant: str
    remaining_ms: int


class KeptByEditSchema(Schema):
    """An edit kept it from running: paused, disabled, edited or deleted."""

    step: Literal["held"]
    reason: str
    ver: int
    since: str
    by: str
    recorded: bool


class LatenessSchema(Schema):
    """How late it was decided, and whether that made it a missed one."""

    step: Literal["lateness"]
    late_ms: int
    late_after_ms: int
    missed: bool
    policy: MisfirePolicy
    covers: CoversSchema | None
    skipped: bool


class OverlappingSchema(Schema):
    """Whether another run of the job was in the way, and which."""

    step: Literal["overlapping"]
    policy: Overlap
    blocked_by: str | None
    skipped: bool


class RefusedSchema(Schema):
    """What stands against a node."""

    node: str
    """The node."""
    reason: str
    """Why it could not take the run."""


class UnplannedSchema(Schema):
    """It is due and no leader has decided it yet."""

    step: Literal["unplanned"]
    since: str
    reason: str
    blocked_by: str | None
    nodes: list[RefusedSchema]
    more: int


class PlacedSchema(Schema):
    """The node that was chosen, and why not another one."""

    step: Literal["placed"]
    node: str
    placement: PlacementSchema | None


class DispatchedSchema(Schema):
    """Given to its node by a leader. `taken` false: the node has not recorded a start yet."""

    step: Literal["dispatched"]
    at: str
    term: int
    fence: int
    node: str
    again: int
    taken: bool
    check_at: str | None


class StartedSchema(Schema):
    """Its first start."""

    step: Literal["started"]
    at: str
    lateness_ms: int


class TriedSchema(Schema):
    """An attempt that has ended."""

    step: Literal["tried"]
    attempt: AttemptSchema


class RunsNowSchema(Schema):
    """The present attempt runs."""

    step: Literal["runs"]
    since: str
    attempt: int
    node: str | None


class WaitingSchema(Schema):
    """Why it waits, and since when."""

    fire: str
    """The instant."""
    since: str
    """Since when."""
    reason: str
    """For what."""
    blocked_by: str | None
    """The run that is in its way."""
    nodes: list[RefusedSchema]
    """What stands against some of the nodes."""
    more: int
    """How many nodes more there were."""


class TriesAgainSchema(Schema):
    """It waits for its next attempt: for its time, or for a node."""

    step: Literal["tries_again"]
    at: str | None
    attempt: int
    waiting: WaitingSchema | None


class EndedSchema(Schema):
    """How the run ended, and what somebody did about it."""

    step: Literal["ended"]
    state: RunState
    at: str | None
    outcome: Outcome | None
    reason: str | None
    error: str | None
    dead: bool
    resolution: ResolutionSchema | None


class UnrecordedSchema(Schema):
    """It fell due and there is no run of it (any more)."""

    step: Literal["unrecorded"]
    reason: str


LinkSchema = (
    DueSchema | NotDueSchema | UpcomingSchema | KeptByEditSchema | LatenessSchema | OverlappingSchema | UnplannedSchema
    | PlacedSchema | DispatchedSchema | StartedSchema | TriedSchema | RunsNowSchema | TriesAgainSchema | EndedSchema
    | UnrecordedSchema
)  # fmt: skip


class WhySchema(Schema):
    """Why an instant ran, did not run or waits: what was decided, in that order."""

    job: str
    """The job."""
    at: str
    """The instant."""
    run: str | None
    """The run that covers it."""
    chain: list[LinkSchema]
    """The last link says how it stands."""


def why_schema(why: chain.Why) -> WhySchema:
    """The whole chain."""
    return {"job": why.job, "at": iso(why.instant), "run": why.run, "chain": [link_schema(link) for link in why.links]}


def link_schema(link: chain.Link) -> LinkSchema:
    """One link."""
    match link:
        case chain.Due() | chain.NotDue() | chain.Upcoming() | chain.KeptByEdit() | chain.Unrecorded():
            return _schedule_schema(link)
        case chain.Lateness() | chain.Overlapping() | chain.Unplanned() | chain.Placed() | chain.Dispatched():
            return _planning_schema(link)
    return _running_schema(link)


def _schedule_schema(
    link: chain.Due | chain.NotDue | chain.Upcoming | chain.KeptByEdit | chain.Unrecorded,
) -> LinkSchema:
    match link:
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
        case chain.KeptByEdit(reason, ver, since, by, recorded):
            return {
                "step": "held",
                "reason": reason,
                "ver": ver,
                "since": iso(since),
                "by": by,
                "recorded": recorded,
            }
        case chain.Unrecorded(reason):
            return {"step": "unrecorded", "reason": reason}


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
    link: chain.Started | chain.Tried | chain.RunsNow | chain.TriesAgain | chain.Ended,
) -> LinkSchema:
    match link:
        case chain.Started(at, lateness):
            return {"step": "started", "at": iso(at), "lateness_ms": milliseconds(lateness)}
        case chain.Tried(attempt):
            return {"step": "tried", "attempt": attempt_schema(attempt)}
        case chain.RunsNow(since, number, node):
            return {"step": "runs", "since": iso(since), "attempt": number, "node": node}
        case chain.TriesAgain(due, number, waiting):
            return {
                "step": "tries_again",
                "at": optional_iso(due),
                "attempt": number,
                "waiting": None if waiting is None else _waiting(waiting),
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
