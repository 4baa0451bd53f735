"""A chain out of its shape; the counterpart of `cronflow.schemas.why`."""

from __future__ import annotations

from collections.abc import Sequence

from cronflow.domain import why as chain
from cronflow.domain.job import MisfirePolicy, Overlap
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Outcome, RunState
from cronflow.remote.plain import instant, length, optional_instant
from cronflow.remote.runs import attempt_of, covers_of, placement_of, resolution_of
from cronflow.schemas.why import LinkSchema, RefusedSchema, WaitingSchema, WhySchema


def why_of(shape: WhySchema) -> chain.Why:
    """The whole chain."""
    links = tuple(link_of(link) for link in shape["chain"])
    return chain.Why(shape["job"], instant(shape["at"]), links, shape["run"])


def link_of(shape: LinkSchema) -> chain.Link:
    """One link. Raises ValueError for a step that this version does not know."""
    found = _schedule_link(shape) or _planning_link(shape) or _running_link(shape)
    if found is None:
        raise ValueError(f"a chain has no step {shape['step']!r}")
    return found


def _schedule_link(shape: LinkSchema) -> chain.Link | None:
    match shape["step"]:
        case "due":
            return chain.Due(
                instant(shape["instant"]), shape["ver"], instant(shape["since"]), shape["by"], shape["schedule"]
            )
        case "not_due":
            return chain.NotDue(
                instant=instant(shape["instant"]),
                reason=shape["reason"],
                ver=shape["ver"],
                schedule=shape["schedule"],
                before=optional_instant(shape["before"]),
                after=optional_instant(shape["after"]),
            )
        case "upcoming":
            return chain.Upcoming(instant(shape["instant"]), length(shape["remaining_ms"]))
        case "held":
            return chain.KeptByEdit(
                shape["reason"], shape["ver"], instant(shape["since"]), shape["by"], recorded=shape["recorded"]
            )
        case "unrecorded":
            return chain.Unrecorded(shape["reason"])
    return None


def _planning_link(shape: LinkSchema) -> chain.Link | None:
    match shape["step"]:
        case "lateness":
            return chain.Lateness(
                late=length(shape["late_ms"]),
                late_after=length(shape["late_after_ms"]),
                missed=shape["missed"],
                policy=MisfirePolicy(shape["policy"]),
                covers=covers_of(shape["covers"]),
                skipped=shape["skipped"],
            )
        case "overlapping":
            return chain.Overlapping(Overlap(shape["policy"]), shape["blocked_by"], skipped=shape["skipped"])
        case "unplanned":
            return chain.Unplanned(
                since=instant(shape["since"]),
                reason=shape["reason"],
                blocked_by=shape["blocked_by"],
                nodes=_refused(shape["nodes"]),
                more=shape["more"],
            )
        case "placed":
            return chain.Placed(shape["node"], placement_of(shape["placement"]))
        case "dispatched":
            return chain.Dispatched(
                at=instant(shape["at"]),
                term=shape["term"],
                fence=shape["fence"],
                node=shape["node"],
                again=shape["again"],
                taken=shape["taken"],
                check_at=optional_instant(shape["check_at"]),
            )
    return None


def _running_link(shape: LinkSchema) -> chain.Link | None:
    match shape["step"]:
        case "started":
            return chain.Started(instant(shape["at"]), length(shape["lateness_ms"]))
        case "tried":
            return chain.Tried(attempt_of(shape["attempt"]))
        case "runs":
            return chain.RunsNow(instant(shape["since"]), shape["attempt"], shape["node"])
        case "tries_again":
            waiting = shape["waiting"]
            at = optional_instant(shape["at"])
            return chain.TriesAgain(at, shape["attempt"], None if waiting is None else _waiting(waiting))
        case "ended":
            return chain.Ended(
                state=RunState(shape["state"]),
                at=optional_instant(shape["at"]),
                outcome=None if shape["outcome"] is None else Outcome(shape["outcome"]),
                reason=shape["reason"],
                error=shape["error"],
                dead=shape["dead"],
                resolution=resolution_of(shape["resolution"]),
            )
    return None


def _waiting(shape: WaitingSchema) -> Waiting:
    return Waiting(
        fire=instant(shape["fire"]),
        since=instant(shape["since"]),
        reason=shape["reason"],
        blocked_by=shape["blocked_by"],
        nodes=_refused(shape["nodes"]),
        more=shape["more"],
    )


def _refused(nodes: Sequence[RefusedSchema]) -> tuple[tuple[str, str], ...]:
    return tuple((one["node"], one["reason"]) for one in nodes)
