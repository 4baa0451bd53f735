"""The links of `cronflow jobs why` for jobs that follow others."""

from __future__ import annotations

from typing import Literal

from cronflow.domain.chain import On
from cronflow.domain.run import RunState
from cronflow.domain.why_chain import Awaits, FollowerHeldBack, Follows, LastEnd
from cronflow.schemas import Schema, iso, milliseconds, optional_iso
from cronflow.schemas.runs import FollowedRunSchema, followed_schemas


class FollowsSchema(Schema):
    """The run exists because these runs have ended."""

    step: Literal["follows"]
    at: str
    chain: str
    """The run in which the chain began."""
    depth: int
    """Links between that run and this one."""
    of: list[FollowedRunSchema]


class UpstreamSchema(Schema):
    """A job that this one follows, and the end of its last run. Null: none has ended."""

    step: Literal["upstream"]
    job: str
    on: On
    within_ms: int | None
    run: str | None
    state: RunState | None
    at: str | None


class AwaitsSchema(Schema):
    """Runs have ended, and the job waits for those of other jobs."""

    step: Literal["awaits"]
    chain: str | None
    """The chain; null: the next end of each job counts."""
    arrived: list[FollowedRunSchema]
    missing: list[str]
    """The other jobs."""
    until: str | None
    """When the first end has waited for too long."""


class HeldBackSchema(Schema):
    """A run that would have followed this one was skipped."""

    step: Literal["held_back"]
    run: str
    reason: str


ChainLinkSchema = FollowsSchema | UpstreamSchema | AwaitsSchema | HeldBackSchema


def chain_link_schema(link: Follows | LastEnd | Awaits | FollowerHeldBack) -> ChainLinkSchema:
    match link:
        case Follows(at, first, depth, of):
            return {"step": "follows", "at": iso(at), "chain": first, "depth": depth, "of": followed_schemas(of)}
        case LastEnd():
            return {
                "step": "upstream",
                "job": link.job,
                "on": link.on,
                "within_ms": None if link.within is None else milliseconds(link.within),
                "run": link.run,
                "state": link.state,
                "at": optional_iso(link.at),
            }
        case Awaits():
            return {
                "step": "awaits",
                "chain": link.chain,
                "arrived": followed_schemas(link.arrived),
                "missing": [*link.missing],
                "until": optional_iso(link.until),
            }
        case FollowerHeldBack(run, reason):
            return {"step": "held_back", "run": run, "reason": reason}
