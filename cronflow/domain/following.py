"""What follows when a run has ended: the run that follows, a skipped run that states what held it back, or nothing.

A job with several upstream jobs and `join: all` collects their ends in a `JoinRecord`: one for each chain if all of
them descend from the job in which the chain began, otherwise one for the job. `arrive`, `expire` and `finish` are its
only changes. An end counts once, for two rules: it is added only if its run still has its mark, and the join forgets it
only when that mark is gone. What a completed join leads to is in `completed`, until its run is inserted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cronflow.domain.chain import MOST_LINKS, ChainLink, Join, RunEnd, Upstream, UpstreamRun, following_id
from cronflow.domain.durations import format_duration
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import Kind, Run, RunState, original_id, replay_number
from cronflow.domain.shadow import SHADOWED
from cronflow.domain.version import version_of

_ENDED_AS = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "was cancelled",
    RunState.SKIPPED: "was skipped",
    RunState.LOST: "was lost",
}
AT_ONCE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRecord:
    """The ends that a job with `join: all` has and waits to follow, as a document.

    `arrived` has at most one end per upstream job, the last one. `recent` are the runs of ends that left `arrived`,
    until their marks are gone. `completed` are the ends of a run that follows, or with `expired` of a skipped one,
    until that run is inserted. `expires_at` is when the first arrived end has waited for its `within`; `waits` is
    whether the ends of other jobs are missing.
    """

    id: str
    job: str
    chain: str | None
    rev: int = 0
    arrived: tuple[RunEnd, ...] = ()
    recent: tuple[str, ...] = ()
    completed: tuple[RunEnd, ...] = ()
    expired: bool = False
    expires_at: datetime | None = None
    waits: bool = False

    @property
    def due_at(self) -> datetime | None:
        """When the leader must look at it although no end arrives."""
        return AT_ONCE if self.completed else self.expires_at

    def missing(self, job: Job) -> list[str]:
        """The upstream jobs whose ends it lacks."""
        arrived = {end.job for end in self.arrived}
        return [one.job for one in job.after if one.job not in arrived]

    def knows(self, run: str) -> bool:
        """Whether the end of this run was added."""
        return run in self.recent or any(end.run == run for end in self.arrived)


def join_id(job: str, chain: str | None) -> str:
    """The id of a join: of a job, or of a job in one chain."""
    return job if chain is None else f"{job}#{chain}"


def needs_join(job: Job) -> bool:
    """Whether its runs follow several ends at a time."""
    return job.join is Join.ALL and len(job.after) > 1


def arrive(join: JoinRecord, job: Job, end: RunEnd) -> JoinRecord:
    """The join with one more end; the same object if it was added before. `completed` must be empty. An end replaces an
    earlier one of its job, and does not count if there is a later one. In the join of a chain the ends stay, so that
    the end of a replay completes it again.
    """
    assert not join.completed
    if join.knows(end.run):
        return join
    if any(one.job == end.job and _is_later(one, end) for one in join.arrived):
        return replace(join, recent=(*join.recent, end.run))
    names = {one.job for one in job.after}
    arrived = (*(one for one in join.arrived if one.job in names - {end.job}), end)
    complete = names <= {one.job for one in arrived}
    kept = () if complete and join.chain is None else arrived
    return replace(
        join,
        arrived=kept,
        recent=_left(join, (*join.arrived, end), kept),
        completed=arrived if complete else (),
        expires_at=None if complete else _expires_at(job, kept),
        waits=not complete,
    )


def expire(join: JoinRecord, job: Job, now: datetime) -> JoinRecord:
    """The join without the ends that have waited for their `within`; the same object if there are none. `completed`
    must be empty.
    """
    assert not join.completed
    over = tuple(end for end in join.arrived if any(_has_passed(one, end, now) for one in job.after))
    if not over or not join.waits:
        return join
    kept = tuple(end for end in join.arrived if end not in over)
    return replace(
        join,
        arrived=kept,
        recent=_left(join, over, kept),
        completed=over,
        expired=True,
        expires_at=_expires_at(job, kept),
        waits=bool(kept),
    )


def finish(join: JoinRecord) -> JoinRecord:
    """The join after the run of its completed ends was inserted."""
    return replace(join, completed=(), expired=False)


def forget(join: JoinRecord, marked: Collection[str]) -> JoinRecord:
    """The join without recent ends whose marks are gone. `marked` was read after the join."""
    return replace(join, recent=tuple(run for run in join.recent if run in marked))


def _is_later(end: RunEnd, other: RunEnd) -> bool:
    """Whether an end of the same job came after the other one. The clocks of their nodes may differ, so the number of a
    replay counts first.
    """
    if original_id(end.run) == original_id(other.run):
        return replay_number(end.run) > replay_number(other.run)
    return (end.ended_at, end.run) > (other.ended_at, other.run)


def _left(join: JoinRecord, ends: Sequence[RunEnd], kept: Sequence[RunEnd]) -> tuple[str, ...]:
    return (*join.recent, *(end.run for end in ends if end not in kept))


def run_of_join(record: JobRecord, join: JoinRecord, now: datetime) -> Run | None:
    """The run that the completed join leads to; None if it leads to none."""
    if not join.completed:
        return None
    missing = ""
    if join.expired:
        known = {one.job for one in join.completed}
        missing = ", ".join(one.job for one in record.job.after if one.job not in known)
    return run_that_follows(record, join.completed, now, missing=missing)


def run_that_follows(record: JobRecord, ends: Sequence[RunEnd], now: datetime, *, missing: str = "") -> Run | None:
    """The run of the job that follows these ends: to be dispatched, or skipped with a reason. None if the job waits
    for another end and nothing follows it. `missing` are upstream jobs that did not end in time.
    """
    newest = max(ends, key=lambda end: (end.ended_at, end.run))
    link = ChainLink(
        newest.chain_id,
        max(end.depth for end in ends) + 1,
        tuple(UpstreamRun(end.job, end.run, end.state) for end in ends),
    )
    run = run_on_request(
        record,
        following_id(record.name, [end.run for end in ends]),
        Kind.AFTER,
        max(end.fire_at for end in ends),
        None,
        now,
        followed=record.followed,
        chain=link,
    )
    upstream = {one.job: one for one in record.job.after}
    unmet = [end for end in ends if end.job in upstream and not upstream[end.job].wants(end.state)]
    if unmet and not record.followed and all(upstream[end.job].on == "failed" for end in unmet):
        return None
    reason = _held_back(record, link, ends, unmet, now, missing)
    if reason is None:
        return run
    return replace(run, state=RunState.SKIPPED, check_at=None, ended_at=now, reason=reason)


def _held_back(
    record: JobRecord,
    link: ChainLink,
    ends: Sequence[RunEnd],
    unmet: Sequence[RunEnd],
    now: datetime,
    missing: str,
) -> str | None:
    """Why the run must not start; None if it may."""
    if record.job.is_shadow:
        return SHADOWED
    upstream = {one.job: one for one in record.job.after}
    for end in unmet:
        wanted = "fails" if upstream[end.job].on == "failed" else "succeeds"
        return f"{end.run} {_ENDED_AS[end.state]}, but {record.name} only follows {end.job} when it {wanted}"
    if missing:
        end = ends[0]
        within = upstream[end.job].within if end.job in upstream else None
        limit = "in time" if within is None else f"within {format_duration(within)}"
        return f"{end.run} ended, but {missing} did not end {limit}"
    # The other ends of a chain are as old as the run that a replay repeats.
    replayed = any(original_id(end.run) != end.run for end in ends)
    for end in ends:
        within = None if replayed or end.job not in upstream else upstream[end.job].within
        if within is not None and now - end.ended_at >= within:
            return f"{end.run} ended more than {format_duration(within)} ago"
    if (held := version_of(record).held) is not None:
        return held
    if link.depth > MOST_LINKS:
        return f"the chain has more than {MOST_LINKS:,} links; look for a cycle with cronflow jobs graph"
    return None


def _expires_at(job: Job, arrived: Sequence[RunEnd]) -> datetime | None:
    within = {one.job: one.within for one in job.after}
    limits = [end.ended_at + limit for end in arrived if (limit := within.get(end.job)) is not None]
    return min(limits, default=None)


def _has_passed(upstream: Upstream, end: RunEnd, now: datetime) -> bool:
    return upstream.job == end.job and upstream.within is not None and now - end.ended_at >= upstream.within
