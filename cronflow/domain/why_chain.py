"""Links of `domain.why` for jobs that follow others: what a run follows, what its job waits for, what it holds back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.chain import On, Upstream, UpstreamRun
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import Job
from cronflow.domain.run import Run, RunState


@dataclass(frozen=True, slots=True)
class Follows:
    """The run exists because these runs have ended. `depth` links lead to it from the run in which its chain began."""

    at: datetime
    chain: str
    depth: int
    of: tuple[UpstreamRun, ...]


@dataclass(frozen=True, slots=True)
class LastEnd:
    """A job that is followed, and the end of its last run. `run` None: none has ended, or it was deleted."""

    job: str
    on: On
    within: timedelta | None
    run: str | None
    state: RunState | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Awaits:
    """Ends have arrived, and the job waits for those of the other jobs: in one chain, or of any run (`chain` None).
    At `until` the first of them has waited for too long.
    """

    chain: str | None
    arrived: tuple[UpstreamRun, ...]
    missing: tuple[str, ...]
    until: datetime | None


@dataclass(frozen=True, slots=True)
class FollowerHeldBack:
    """A run that would have followed this one was skipped."""

    run: str
    reason: str


def last_end(upstream: Upstream, run: Run | None) -> LastEnd:
    if run is None:
        return LastEnd(upstream.job, upstream.on, upstream.within, None, None, None)
    return LastEnd(upstream.job, upstream.on, upstream.within, run.id, run.state, run.ended_at)


def awaits(job: Job, joins: Sequence[JoinRecord]) -> list[Awaits]:
    """What the joins of a job lack, those without an arrived end left out."""
    return [
        Awaits(
            join.chain,
            tuple(UpstreamRun(end.job, end.run, end.state) for end in join.arrived),
            tuple(join.missing(job)),
            join.expires_at,
        )
        for join in joins
        if join.arrived and join.missing(job)
    ]


def held_back(run: Run, others: Sequence[Run]) -> list[FollowerHeldBack]:
    """Those of the other runs of its chain that follow this run and were skipped."""
    return [
        FollowerHeldBack(one.id, one.reason or "")
        for one in others
        if one.state is RunState.SKIPPED
        and not one.attempts
        and one.chain is not None
        and any(of.run == run.id for of in one.chain.of)
    ]
