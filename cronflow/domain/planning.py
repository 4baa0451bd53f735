"""Planning: decides whether a job's next fire runs, is skipped or waits.

The decision depends on the cursor and `now`. It contains the next cursor, and the caller applies both in one
compare-and-set. Rule: the cursor passes an instant only together with a run that covers it, and a run is named after
the cursor that it consumed. Fires that calendars exclude are skipped for that reason, before anything else counts; no
range mixes them with others. The cost does not depend on the number of missed fires.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronflow.domain.chain import ChainLink
from cronflow.domain.job import Job, JobRecord, MisfirePolicy, Overlap, PendingRun
from cronflow.domain.run import CLOCK_MARGIN, OPEN, Covers, Kind, Run, RunState, run_id
from cronflow.domain.schedule.exclusions import Exclusion, allowed_from, exclusion
from cronflow.domain.schedule.fires import count_between, is_dynamic, last_before, next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.domain.schedule.stretches import allowed_stretch, excluded_stretch, latest_allowed, next_allowed_until
from cronflow.domain.schedule.zones import SECOND
from cronflow.domain.shadow import SHADOWED

ACK_WITHIN = timedelta(seconds=10)
WAIT_FIRST = timedelta(milliseconds=250)
WAIT_MOST = timedelta(seconds=5)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Fire:
    fire: datetime
    next_fire: datetime | None
    covers: Covers | None = None


@dataclass(frozen=True, slots=True)
class SkipFire:
    """Record a skipped run with the reason."""

    fire: datetime
    next_fire: datetime | None
    reason: str
    covers: Covers | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Leave the cursor and decide again later. `blocked`: until a run of this job ends. `replaces`: its open runs are
    to be cancelled.
    """

    reason: str
    blocked: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Reposition:
    """Move the cursor without a run, because no fire is due before its new place. Only a schedule whose fires depend on
    when runs end has this decision.
    """

    next_fire: datetime | None


Decision = Fire | SkipFire | Wait | Reposition


def kind_of(schedule: Schedule | None) -> Kind:
    """The kind of the runs of a schedule."""
    match schedule:
        case Cron() | AnyOf():
            return Kind.CRON
        case Every():
            return Kind.INTERVAL
        case None:
            return Kind.MANUAL
        case _:
            return Kind.ONCE


def first_fire(job: Job, now: datetime, consumed: datetime | None = None) -> datetime | None:
    """The cursor of a new or edited job: its first fire that is neither past nor consumed.

    A job that is applied within the second in which it is due still runs, and a one-time fire runs however late the job
    is applied. `consumed` is the last instant that a run of this job covers. With `after_completion` the first fire is
    an interval from now.
    """
    if job.schedule is None:
        return None
    if is_dynamic(job.schedule):
        return next_after(job.schedule, _round_up(now) if consumed is None else max(_round_up(now), consumed))
    after = datetime.min.replace(tzinfo=now.tzinfo)
    if kind_of(job.schedule) is not Kind.ONCE:
        after = now.replace(microsecond=0) - timedelta(seconds=1)
    return next_after(job.schedule, after if consumed is None else max(after, consumed))


def next_run(record: JobRecord) -> datetime | None:
    """When the job is due next: the cursor, or the next fire after it that is not excluded."""
    return allowed_from(record.job.schedule, record.next_fire)


def cursor_after(record: JobRecord, decision: Fire | SkipFire) -> datetime | None:
    """The cursor after a decision: none after the run that reaches `max_runs`."""
    is_last = isinstance(decision, Fire) and record.runs_left is not None and record.runs_left <= 1
    return None if is_last else decision.next_fire


def decide(
    record: JobRecord,
    now: datetime,
    open_since: Collection[datetime],
    *,
    backfilling: bool = False,
    ended_at: datetime | None = None,
) -> Decision:
    """Decide the fire at the cursor. `open_since` has the creation times of the job's open runs; those of backfills are
    not among them. `backfilling`: a run of a backfill is at a node. A fire waits for it, and does not overlap it.
    `ended_at` is when the run of the last move ended, for a schedule with `after_completion`.

    A run that was open when the instant fell due overlaps it. A run that was created later only blocks it because the
    leader is late, for example after a failover: the fire then waits, since it would have run after that run's fire.
    In shadow mode a fire that would run is skipped instead.
    """
    decision = _decide(record, now, open_since, backfilling, ended_at)
    return skipped(decision, SHADOWED) if record.job.is_shadow and isinstance(decision, Fire) else decision


def _decide(
    record: JobRecord, now: datetime, open_since: Collection[datetime], backfilling: bool, ended_at: datetime | None
) -> Decision:
    job, fire = record.job, record.next_fire
    if fire is None or job.schedule is None or fire > now:
        return Wait("not due")
    if is_dynamic(job.schedule):
        if open_since or backfilling:
            return Wait("the next run is due after the open one has ended", blocked=True)
        if ended_at is not None and (moved := _after_end(job.schedule, fire, ended_at)) is not None:
            return moved
    if (excluded := exclusion(job.schedule, fire)) is not None:
        return _skip_excluded(job.schedule, fire, now, excluded)
    if job.overlap is Overlap.REPLACE and (newest := _older_than_newest(job, fire, now)):
        return newest
    if job.overlap is not Overlap.ALLOW and (open_since or backfilling):
        return _overlapping(job, fire, now, open_since)
    late_after = job.misfire.late_after
    if now - fire <= late_after:
        return Fire(fire, next_after(job.schedule, fire))
    match job.misfire.policy:
        case MisfirePolicy.FIRE_ONCE:
            return _fire_once(job, fire, now)
        case MisfirePolicy.SKIP:
            # A fire after the missed ones that is not late runs in the next round.
            return _skip_until(job.schedule, fire, now - late_after - _TICK, "misfire")
        case MisfirePolicy.CATCH_UP:
            return _catch_up(job, fire, now)


def skip_missed(record: JobRecord, now: datetime, reason: str) -> SkipFire | None:
    """The decision to skip the missed fires at the cursor of a job, which is late; None if it is not, or is skipped for
    another reason.
    """
    job, fire = record.job, record.next_fire
    if fire is None or job.schedule is None or now - fire <= job.misfire.late_after:
        return None
    if exclusion(job.schedule, fire) is not None:
        return None
    return _skip_until(job.schedule, fire, now - job.misfire.late_after - _TICK, reason)


def skipped(fire: Fire, reason: str) -> SkipFire:
    """The decision to skip this fire instead, with the same cursor."""
    return SkipFire(fire.fire, fire.next_fire, reason, fire.covers)


def _overlapping(job: Job, fire: datetime, now: datetime, open_since: Collection[datetime]) -> SkipFire | Wait:
    """Decide a fire while runs are open that it may not overlap. Without `open_since` they belong to a backfill."""
    assert job.schedule is not None
    if job.overlap is Overlap.REPLACE:
        return Wait("the run it replaces has not ended yet", blocked=True, replaces=True)
    if not open_since:
        return Wait("a backfill run of this job is open", blocked=True)
    if job.overlap is Overlap.QUEUE:
        return Wait("another run of this job is open", blocked=True)
    if all(since > fire for since in open_since):
        return Wait("a run for an earlier fire, which was planned late, is open", blocked=True)
    if now - fire <= job.misfire.late_after:
        return SkipFire(fire, next_after(job.schedule, fire), "overlap")
    return _skip_until(job.schedule, fire, now, "overlap")


def decide_early(record: JobRecord, now: datetime, until: datetime, has_open_run: bool) -> Fire | None:
    """Decide the fire at the cursor before its instant. None: it is too early, or it has to be decided at the instant,
    because a run of the job is open, it has limits, is split or in shadow mode, its fires depend on when runs end, or
    this one is excluded.
    """
    job, fire = record.job, record.next_fire
    if fire is None or job.schedule is None or not now < fire <= until:
        return None
    if job.has_limits or job.split is not None or job.is_shadow:
        return None
    if has_open_run and job.overlap is not Overlap.ALLOW:
        return None
    if is_dynamic(job.schedule) or exclusion(job.schedule, fire) is not None:
        return None
    return Fire(fire, next_after(job.schedule, fire))


def _older_than_newest(job: Job, fire: datetime, now: datetime) -> SkipFire | None:
    """Of several due fires only the newest replaces the running one; the others would be replaced at once.

    Missed fires that become a single run, or none, are left to their policy.
    """
    assert job.schedule is not None
    missed = now - fire > job.misfire.late_after
    if missed and job.misfire.policy is not MisfirePolicy.CATCH_UP:
        return None
    stretch = allowed_stretch(job.schedule, fire, now)
    if next_allowed_until(job.schedule, stretch.following, now) is not None:
        return _skip_to(job.schedule, fire, stretch.last, "replaced")
    return None if stretch.last <= fire else _skip_until(job.schedule, fire, stretch.last - SECOND, "replaced")


def _fire_once(job: Job, fire: datetime, now: datetime) -> Decision:
    assert job.schedule is not None
    stretch = allowed_stretch(job.schedule, fire, now)
    last = stretch.last
    # The run belongs to the newest fire that is not excluded, and covers no excluded one.
    is_newest = next_allowed_until(job.schedule, stretch.following, now) is None
    if not is_newest or (job.misfire.grace is not None and now - last > job.misfire.grace):
        return _skip_to(job.schedule, fire, last, "misfire")
    return Fire(fire, next_after(job.schedule, last), _covers(job.schedule, fire, last))


def _catch_up(job: Job, fire: datetime, now: datetime) -> Decision:
    assert job.schedule is not None
    stretch = allowed_stretch(job.schedule, fire, now)
    newest = latest_allowed(job.schedule, stretch, fire, now, job.misfire.max_catch_up)
    if not newest:
        return _skip_to(job.schedule, fire, stretch.last, "misfire")
    if newest[0] > fire:
        return _skip_until(job.schedule, fire, newest[0] - SECOND, "misfire")
    return Fire(fire, next_after(job.schedule, fire))


def _after_end(schedule: Schedule, fire: datetime, ended_at: datetime) -> Reposition | None:
    """Where the cursor belongs after the end of the last run, if that is later than where it is."""
    following = next_after(schedule, _round_up(ended_at))
    return None if following is not None and following <= fire else Reposition(following)


def _round_up(instant: datetime) -> datetime:
    return instant.replace(microsecond=0) + SECOND if instant.microsecond else instant


def _skip_excluded(schedule: Schedule, fire: datetime, now: datetime, excluded: Exclusion) -> SkipFire:
    if is_dynamic(schedule):
        return _skip_to(schedule, fire, fire, excluded.reason)
    stretch = excluded_stretch(schedule, fire, now, excluded)
    return _skip_to(schedule, fire, stretch.last, stretch.reason)


def covers_until(schedule: Schedule, fire: datetime, until: datetime) -> Covers | None:
    """The fires from `fire` to `until`, both included, as one range; None when it is `fire` alone."""
    return _covers(schedule, fire, last_before(schedule, until, not_before=fire) or fire)


def fires_text(first: datetime, covers: Covers | None) -> str:
    """The fires that a skipped run stands for, for a message."""
    if covers is None:
        return f"1 fire due at {first:%Y-%m-%dT%H:%M:%SZ}"
    count = "many" if covers.count is None else f"{covers.count:,}"
    return f"{count} fires due from {covers.first:%Y-%m-%dT%H:%M:%SZ} to {covers.last:%Y-%m-%dT%H:%M:%SZ}"


def _skip_until(schedule: Schedule, fire: datetime, until: datetime, reason: str) -> SkipFire:
    """Skip the fires up to this instant, or up to the first one that is excluded."""
    return _skip_to(schedule, fire, allowed_stretch(schedule, fire, until).last, reason)


def _skip_to(schedule: Schedule, fire: datetime, last: datetime, reason: str) -> SkipFire:
    return SkipFire(fire, next_after(schedule, last), reason, _covers(schedule, fire, last))


def _covers(schedule: Schedule, first: datetime, last: datetime) -> Covers | None:
    return None if first == last else Covers(first, last, count_between(schedule, first, last))


def run_of_pending(job: Job, pending_run: PendingRun, term: int) -> Run:
    """The run of a `pending_run`: the same, but for the term, whichever process inserts it, and whenever. Its
    acknowledgement is due ACK_WITHIN after the move of the cursor, because its item may already be in a list, or after
    its instant if it was planned before. A run that is split is planned as its parent, which waits for the splitter.
    """
    is_open = pending_run.state in OPEN
    dispatched = pending_run.state is RunState.DISPATCHED
    return Run(
        id=run_id(job.name, pending_run.fire),
        job=job.name,
        fire_at=pending_run.fire,
        kind=pending_run.kind or kind_of(job.schedule),
        state=pending_run.state,
        fence=pending_run.fence,
        term=term,
        job_ver=pending_run.job_ver,
        node=pending_run.node,
        attempt=1 if dispatched else 0,
        max_attempts=job.retry.max + 1,
        priority=job.priority,
        check_at=max(pending_run.at, pending_run.fire) + ACK_WITHIN if is_open else None,
        created_at=pending_run.at,
        dispatched_at=pending_run.at if dispatched else None,
        ended_at=None if is_open else pending_run.at,
        covers=pending_run.covers,
        reason=pending_run.reason,
        outcome=None,
        placement=pending_run.placement,
        blocked_by=pending_run.blocked_by,
        followed=pending_run.followed,
        waited=pending_run.waited,
        reserved=(job.resources or None) if dispatched else None,
        split=job.split if pending_run.state is RunState.RETRYING else None,
    )


def run_on_request(
    record: JobRecord,
    run: str,
    kind: Kind,
    fire_at: datetime,
    args: Mapping[str, object] | None,
    now: datetime,
    *,
    followed: bool = False,
    chain: ChainLink | None = None,
) -> Run:
    """A run outside of the schedule, to be dispatched at once under the present version of the job."""
    return Run(
        id=run,
        job=record.name,
        fire_at=fire_at,
        kind=kind,
        state=RunState.RETRYING,
        fence=0,
        term=0,
        job_ver=record.ver,
        node=None,
        attempt=0,
        max_attempts=record.job.retry.max + 1,
        priority=record.job.priority_of(kind),
        check_at=now - CLOCK_MARGIN,
        created_at=now,
        args=args,
        followed=followed,
        chain=chain,
        split=record.job.split,
    )


def wait_for(rounds: int) -> timedelta:
    """How long a job that cannot be planned is deferred, so that it never starves the others: from 250 ms, doubling, to
    5 s.
    """
    return min(WAIT_FIRST * (1 << min(rounds, 10)), WAIT_MOST)
