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
from cronflow.shapes.plain import Shape, iso, milliseconds, optional_iso
from cronflow.shapes.runs import (
    AttemptShape,
    CoversShape,
    PlacementShape,
    ResolutionShape,
    attempt_shape,
    covers_shape,
    placement_shape,
    resolution_shape,
)


class DueShape(Shape):
    """The instant belongs to this version of the schedule."""

    step: Literal["due"]
    instant: str
    ver: int
    since: str
    by: str
    schedule: str


class NotDueShape(Shape):
    """The instant is none of the schedule's; `before` and `after` are the nearest that are."""

    step: Literal["not_due"]
    instant: str
    reason: str
    ver: int | None
    schedule: str | None
    before: str | None
    after: str | None


class UpcomingShape(Shape):
    """It will fall due."""

    step: Literal["upcoming"]
    instant: str
    remaining_ms: int


class HeldShape(Shape):
    """An edit kept it from running: paused, disabled, edited or deleted."""

    step: Literal["held"]
    reason: str
    ver: int
    since: str
    by: str
    recorded: bool


class LatenessShape(Shape):
    """How late it was decided, and whether that made it a missed one."""

    step: Literal["lateness"]
    late_ms: int
    late_after_ms: int
    missed: bool
    policy: MisfirePolicy
    covers: CoversShape | None
    skipped: bool


class OverlappingShape(Shape):
    """Whether another run of the job was in the way, and which."""

    step: Literal["overlapping"]
    policy: Overlap
    blocked_by: str | None
    skipped: bool


class RefusedShape(Shape):
    """What stands against a node."""

    node: str
    """The node."""
    reason: str
    """Why it could not take the run."""


class UnplannedShape(Shape):
    """It is due and no leader has decided it yet."""

    step: Literal["unplanned"]
    since: str
    reason: str
    blocked_by: str | None
    nodes: list[RefusedShape]
    more: int


class PlacedShape(Shape):
    """The node that was chosen, and why not another one."""

    step: Literal["placed"]
    node: str
    placement: PlacementShape | None


class DispatchedShape(Shape):
    """Given to its node by a leader. `taken` false: the node has not recorded a start yet."""

    step: Literal["dispatched"]
    at: str
    term: int
    fence: int
    node: str
    again: int
    taken: bool
    check_at: str | None


class StartedShape(Shape):
    """Its first start."""

    step: Literal["started"]
    at: str
    lateness_ms: int


class TriedShape(Shape):
    """An attempt that has ended."""

    step: Literal["tried"]
    attempt: AttemptShape


class RunsShape(Shape):
    """The present attempt runs."""

    step: Literal["runs"]
    since: str
    attempt: int
    node: str | None


class WaitingShape(Shape):
    """Why it waits, and since when."""

    fire: str
    """The instant."""
    since: str
    """Since when."""
    reason: str
    """For what."""
    blocked_by: str | None
    """The run that is in its way."""
    nodes: list[RefusedShape]
    """What stands against some of the nodes."""
    more: int
    """How many nodes more there were."""


class TriesAgainShape(Shape):
    """It waits for its next attempt: for its time, or for a node."""

    step: Literal["tries_again"]
    at: str | None
    attempt: int
    waiting: WaitingShape | None


class EndedShape(Shape):
    """How the run ended, and what somebody did about it."""

    step: Literal["ended"]
    state: RunState
    at: str | None
    outcome: Outcome | None
    reason: str | None
    error: str | None
    dead: bool
    resolution: ResolutionShape | None


class UnrecordedShape(Shape):
    """It fell due and there is no run of it (any more)."""

    step: Literal["unrecorded"]
    reason: str


LinkShape = (
    DueShape | NotDueShape | UpcomingShape | HeldShape | LatenessShape | OverlappingShape | UnplannedShape
    | PlacedShape | DispatchedShape | StartedShape | TriedShape | RunsShape | TriesAgainShape | EndedShape
    | UnrecordedShape
)  # fmt: skip


class WhyShape(Shape):
    """Why an instant ran, did not run or waits: what was decided, in that order."""

    job: str
    """The job."""
    at: str
    """The instant."""
    run: str | None
    """The run that covers it."""
    chain: list[LinkShape]
    """The last link says how it stands."""


def why_shape(why: chain.Why) -> WhyShape:
    """The whole chain."""
    return {"job": why.job, "at": iso(why.instant), "run": why.run, "chain": [link_shape(link) for link in why.links]}


def link_shape(link: chain.Link) -> LinkShape:
    """One link."""
    match link:
        case chain.Due() | chain.NotDue() | chain.Upcoming() | chain.Held() | chain.Unrecorded():
            return _schedule_shape(link)
        case chain.Lateness() | chain.Overlapping() | chain.Unplanned() | chain.Placed() | chain.Dispatched():
            return _planning_shape(link)
    return _running_shape(link)


def _schedule_shape(
    link: chain.Due | chain.NotDue | chain.Upcoming | chain.Held | chain.Unrecorded,
) -> LinkShape:
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
        case chain.Held(reason, ver, since, by, recorded):
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


def _planning_shape(
    link: chain.Lateness | chain.Overlapping | chain.Unplanned | chain.Placed | chain.Dispatched,
) -> LinkShape:
    match link:
        case chain.Lateness():
            return {
                "step": "lateness",
                "late_ms": milliseconds(link.late),
                "late_after_ms": milliseconds(link.late_after),
                "missed": link.missed,
                "policy": link.policy,
                "covers": covers_shape(link.covers),
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
                "placement": None if placement is None else placement_shape(placement),
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


def _running_shape(
    link: chain.Started | chain.Tried | chain.Runs | chain.TriesAgain | chain.Ended,
) -> LinkShape:
    match link:
        case chain.Started(at, lateness):
            return {"step": "started", "at": iso(at), "lateness_ms": milliseconds(lateness)}
        case chain.Tried(attempt):
            return {"step": "tried", "attempt": attempt_shape(attempt)}
        case chain.Runs(since, number, node):
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
                "resolution": None if link.resolution is None else resolution_shape(link.resolution),
            }


def _waiting(waiting: Waiting) -> WaitingShape:
    return {
        "fire": iso(waiting.fire),
        "since": iso(waiting.since),
        "reason": waiting.reason,
        "blocked_by": waiting.blocked_by,
        "nodes": _refused(waiting.nodes),
        "more": waiting.more,
    }


def _refused(nodes: Sequence[tuple[str, str]]) -> list[RefusedShape]:
    return [{"node": node, "reason": reason} for node, reason in nodes]
