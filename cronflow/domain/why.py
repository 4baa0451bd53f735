"""Why a fire ran, did not run, or has not run yet: the chain from the schedule to the outcome, link by link.

Each link contains what was recorded when it was decided. Only for an undecided instant is the present state used. Rule:
the chain ends where the fire ended or waits, with the reason. Presentation is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cronflow.domain.backfill import FireOutline
from cronflow.domain.catch_up import HELD as HELD_BACK
from cronflow.domain.job import JobRecord, MisfirePolicy, Overlap
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.late_start import LateStart
from cronflow.domain.long_runs import UsualDuration
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.placement import NoNode, Placement, Waiting
from cronflow.domain.run import SCHEDULED, Attempt, Covers, Kind, Outcome, Resolution, Run, RunState
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.split import Shard
from cronflow.domain.version import Version, nearest, version_at, version_due
from cronflow.domain.why_chain import Awaits, FollowerHeldBack, Follows, LastEnd

PLANNED_SKIPS = frozenset({"misfire", "overlap", "limit", "replaced"})
"""The reasons of skipped runs that stand for allowed instants."""
HELD = frozenset({"paused", "disabled", "edited", "deleted"})
"""The reasons of runs that an edit skipped."""


@dataclass(frozen=True, slots=True)
class Due:
    """The instant belongs to this version of the schedule, which took effect at `since`."""

    instant: datetime
    ver: int
    since: datetime
    by: str
    schedule: str


@dataclass(frozen=True, slots=True)
class NotDue:
    """The schedule does not have this instant; `before` and `after` are the nearest that it has."""

    instant: datetime
    reason: str
    ver: int | None
    schedule: str | None
    before: datetime | None
    after: datetime | None


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The instant is yet to come. Its run may be planned already, and wait on its node."""

    instant: datetime
    remaining: timedelta


@dataclass(frozen=True, slots=True)
class KeptByEdit:
    """An edit kept it from running: this version is paused, disabled, edited or deleted. Not `recorded`: its skipped
    run is written when the job resumes. `note` and `until` are those of the present pause.
    """

    reason: str
    ver: int
    since: datetime
    by: str
    recorded: bool
    note: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Requested:
    """The run was requested outside the schedule, replays another run, belongs to a backfill, or is a part of a run."""

    at: datetime
    kind: Kind
    replay_of: str | None
    backfill: str | None = None
    parent: str | None = None
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late it was decided, and whether it therefore counts as missed, to which the policy applies."""

    late: timedelta
    late_after: timedelta
    missed: bool
    policy: MisfirePolicy
    covers: Covers | None
    skipped: bool


@dataclass(frozen=True, slots=True)
class Overlapping:
    """Whether another run of the job blocked it, and which."""

    policy: Overlap
    blocked_by: str | None
    skipped: bool


@dataclass(frozen=True, slots=True)
class Excluded:
    """Calendars or windows of the schedule exclude the instant. `until`: as far as that is certain, for an instant that
    is yet to come.
    """

    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Unplanned:
    """It is due, but no leader has decided it yet. `nodes` has each node's reason."""

    since: datetime
    reason: str
    blocked_by: str | None = None
    nodes: tuple[tuple[str, str], ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """The chosen node, and why it was chosen; None: an older release did not record it."""

    node: str
    placement: Placement | None


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Pushed to its node by a leader. `taken` False: the node has not recorded a start yet."""

    at: datetime
    term: int
    fence: int
    node: str
    again: int
    taken: bool
    check_at: datetime | None


@dataclass(frozen=True, slots=True)
class Parts:
    """The run is split: its parts execute. `at` is when it began, None if it waits, and `waiting` for what. `counts`
    are its parts by state.
    """

    at: datetime | None
    count: int | None
    counts: Mapping[RunState, int]
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class Started:
    at: datetime
    lateness: timedelta


@dataclass(frozen=True, slots=True)
class Tried:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RunsNow:
    """It is running; `usual` is how long the job usually runs, `long` whether this run takes longer than that."""

    since: datetime
    attempt: int
    node: str | None
    usual: UsualDuration | None = None
    long: bool = False


@dataclass(frozen=True, slots=True)
class TriesAgain:
    """It waits for its next attempt: for the delay, or for a node."""

    at: datetime | None
    attempt: int
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class NoRetries:
    """The circuit breaker of the job is open: if the run fails, it is not retried. A run that starts from `probe_at` on
    and succeeds closes it.
    """

    since: datetime
    failed: int
    attempts: int
    probe_at: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """How the run ended, and how it was resolved."""

    state: RunState
    at: datetime | None
    outcome: Outcome | None
    reason: str | None
    error: str | None
    dead: bool
    resolution: Resolution | None


@dataclass(frozen=True, slots=True)
class Backfilled:
    """A backfill has a run for the instant too."""

    run: str
    state: RunState


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """It fell due, but has no run, or its run was deleted."""

    reason: str


Link = (
    Due | NotDue | Upcoming | KeptByEdit | Requested | Lateness | Overlapping | Excluded | Unplanned | Placed
    | Dispatched
    | Started | Tried | RunsNow | TriesAgain | NoRetries | Ended | Unrecorded | Backfilled | Parts
    | Follows | LastEnd | Awaits | FollowerHeldBack
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Why:
    """The chain of one instant of a job. `run` is the run that covers it, and `late` why that started late."""

    job: str
    instant: datetime
    links: tuple[Link, ...]
    run: str | None = None
    late: LateStart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The input of `explain`. `versions` ends with the present one; `no_node` has each live node's reason not to take
    the run now, None if a node could take it; `led`: whether there is a leader; `breaker` is the job's circuit breaker
    if it is open. `backfilled`: the runs of backfills for the instant. `maintenance`: the maintenance mode, if on.
    `usual` is how long the job usually runs, if the run is running; `part_counts` its parts by state, if it is split.
    `upstream`: the last ends of the jobs that it follows, and `waiting` its joins that lack some, both only if the job
    is explained and not a run. `held_back`: the runs that would have followed the run.
    """

    record: JobRecord
    versions: Sequence[Version]
    run: Run | None
    now: datetime
    led: bool
    no_node: NoNode | None
    breaker: BreakerState | None = None
    backfilled: Sequence[FireOutline] = ()
    maintenance: MaintenanceMode | None = None
    usual: UsualDuration | None = None
    part_counts: Mapping[RunState, int] = field(default_factory=dict)
    upstream: Sequence[LastEnd] = ()
    waiting: Sequence[Awaits] = ()
    held_back: Sequence[FollowerHeldBack] = ()


def explain(known: Known, instant: datetime) -> Why:
    """The chain of an instant."""
    run = known.run
    version = version_due(known.versions, instant)
    if version is not None and run is None and is_dynamic(version.job.schedule) and instant != known.record.next_fire:
        # Its runs are the only instants that it has.
        version = None
    if version is None and run is not None:
        # Recorded by a release that stored no versions.
        version = next((v for v in known.versions if v.ver == run.job_ver), known.versions[-1])
    backfilled = [Backfilled(one.id, one.state) for one in known.backfilled]
    if version is None:
        follows_only = known.upstream and known.record.job.schedule is None
        not_due = [] if follows_only else [_not_due(known, instant)]
        return Why(known.record.name, instant, (*known.upstream, *known.waiting, *not_due, *backfilled))
    schedule = version.job.schedule
    due = Due(instant, version.ver, version.at, version.by, "" if schedule is None else describe(schedule))
    links = _undecided(known, version, instant) if run is None else _decided(known, version, run, instant)
    why: tuple[Link, ...] = (
        *known.upstream,
        *known.waiting,
        due,
        *_no_retries(known, run),
        *links,
        *known.held_back,
        *backfilled,
    )
    return Why(known.record.name, instant, why, None if run is None else run.id)


def explain_run(known: Known, run: Run) -> Why:
    """The chain of a run, which is also that of its instant if it is scheduled."""
    if run.kind in SCHEDULED:
        return explain(known, run.fire_at)
    began: Link = Requested(run.created_at, run.kind, run.replay_of, run.backfill, run.parent, run.shard)
    if run.kind is Kind.AFTER and run.chain is not None:
        began = Follows(run.created_at, run.chain.id, run.chain.depth, run.chain.of)
    progress = _progress(known, run, run.created_at)
    links = (*known.upstream, *known.waiting, began, *_no_retries(known, run), *progress, *known.held_back)
    return Why(known.record.name, run.fire_at, links, run.id)


def _no_retries(known: Known, run: Run | None) -> Iterator[Link]:
    """For what has not ended: a run that has ended recorded why it was not retried."""
    state = known.breaker
    if state is None or state.opened_at is None or state.probe_at is None or (run is not None and not run.is_open):
        return
    yield NoRetries(state.opened_at, state.failed, state.attempts, state.probe_at)


def _not_due(known: Known, instant: datetime) -> NotDue:
    before, after = nearest(known.versions, instant)
    version = version_at(known.versions, instant)
    if version is None and before is None:
        return NotDue(instant, "before the job was defined", None, None, before, after)
    version = version or known.versions[0]
    schedule = version.job.schedule
    start, end = getattr(schedule, "start", None), getattr(schedule, "end", None)
    if version.deleted:
        reason = "the job was deleted"
    elif schedule is None:
        reason = "the job has no schedule"
    elif start is not None and instant < start:
        reason = "before the schedule's start"
    elif end is not None and instant >= end:
        reason = "after the schedule's end"
    elif version.until is not None and instant >= version.until:
        reason = "after the last run that max_runs allows"
    elif is_dynamic(schedule):
        reason = "the next run is due after the last one has ended"
    else:
        reason = "the schedule has no fire at this time"
    return NotDue(instant, reason, version.ver, None if schedule is None else describe(schedule), before, after)


def _undecided(known: Known, version: Version, instant: datetime) -> Iterator[Link]:
    record = known.record
    if record.next_fire is None or instant < record.next_fire:
        if instant <= known.now:
            yield Unrecorded("the run was deleted after the retention period, or was lost")
        return
    if version.held is not None:
        pause = record.pause if version.held == "paused" else None
        note, until = ("", None) if pause is None else (pause.note, pause.until)
        yield KeptByEdit(version.held, version.ver, version.at, version.by, recorded=False, note=note, until=until)
    excluded = exclusion(version.job.schedule, instant)
    if instant > known.now:
        yield Upcoming(instant, instant - known.now)
        if excluded is not None and version.held is None:
            yield Excluded(excluded.reason, excluded.until)
    elif version.held is None:
        yield _unplanned(known, record.next_fire)


def _unplanned(known: Known, cursor: datetime) -> Unplanned:
    waiting = known.record.waiting
    if waiting is not None and waiting.fire != cursor:
        waiting = None
    found = _present(known, cursor, cursor, waiting) or waiting
    if found is None:
        return Unplanned(cursor, "the leader has not planned the run yet")
    return Unplanned(found.since, found.reason, found.blocked_by, found.nodes, found.more)


def _present(known: Known, fire: datetime, due: datetime, before: Waiting | None) -> Waiting | None:
    """Why something that is due waits now, with the reason of every live node. `before` is the recorded wait."""
    if not known.led:
        return Waiting(fire=fire, since=due, reason="the cluster has no leader")
    if known.maintenance is not None:
        return Waiting(fire=fire, since=max(due, known.maintenance.since), reason=str(known.maintenance))
    if before is not None and (before.blocked_by is not None or before.reason == HELD_BACK):
        return before
    if known.no_node is None:
        return None
    return known.no_node.waiting(fire, due, most=None).still(before)


def _decided(known: Known, version: Version, run: Run, instant: datetime) -> Iterator[Link]:
    if run.state is RunState.SKIPPED and run.reason in HELD:
        # The edit that skipped it began this version, or the version that was paused, disabled or deleted.
        cause = version if version.held == run.reason else _version(known, run.job_ver) or version
        yield KeptByEdit(run.reason, cause.ver, cause.at, cause.by, recorded=True)
        yield _ended(run)
        return
    if run.state is RunState.SKIPPED and not run.attempts:
        excluded = exclusion(version.job.schedule, instant)
        if excluded is not None and run.reason not in PLANNED_SKIPS:
            yield Excluded(excluded.reason)
            yield _ended(run)
            return
    yield _lateness(version, run, instant)
    if run.reason != "misfire":
        # A limit may have blocked it instead.
        blocked_by = None if run.reason == "limit" else run.blocked_by
        yield Overlapping(version.job.overlap, blocked_by, skipped=run.reason == "overlap")
    yield from _progress(known, run, instant)


def _progress(known: Known, run: Run, due: datetime) -> Iterator[Link]:
    """The links from the placement on."""
    if run.split is not None:
        waiting = run.waiting if run.is_open else None
        if run.split.begun or run.is_open:
            yield Parts(run.started_at, run.split.count, known.part_counts, waiting)
        if not run.is_open:
            yield _ended(run)
        return
    if run.node is not None:
        yield Placed(run.node, run.placement)
    if run.dispatched_at is not None and run.node is not None:
        taken = run.state is not RunState.DISPATCHED
        check_at = None if taken else run.check_at
        yield Dispatched(run.dispatched_at, run.term, run.fence, run.node, run.redispatches, taken, check_at)
    first = next((attempt.started_at for attempt in run.attempts if attempt.started_at is not None), run.started_at)
    if first is not None:
        yield Started(first, first - due)
    for attempt in run.attempts:
        yield Tried(attempt)
    match run.state:
        case RunState.RUNNING:
            since = run.started_at or known.now
            long = known.usual is not None and known.now - since > known.usual.limit
            yield RunsNow(since, run.attempt, run.node, known.usual, long)
        case RunState.RETRYING:
            yield TriesAgain(run.next_check, run.attempt + 1, _waits(known, run))
        case RunState.DISPATCHED:
            if run.kind in SCHEDULED and run.fire_at > known.now:
                # Its node holds it until then.
                yield Upcoming(run.fire_at, run.fire_at - known.now)
        case _:
            yield _ended(run)


def _waits(known: Known, run: Run) -> Waiting | None:
    """Why a run waits for its attempt, other than for its delay."""
    due = run.next_check or run.created_at
    if run.waiting is None and due > known.now:
        return None
    return _present(known, run.fire_at, due, run.waiting) or run.waiting


def _version(known: Known, ver: int) -> Version | None:
    return next((version for version in known.versions if version.ver == ver), None)


def _lateness(version: Version, run: Run, instant: datetime) -> Lateness:
    misfire = version.job.misfire
    skipped_at = run.ended_at if run.state is RunState.SKIPPED and not run.attempts else None
    late = max(timedelta(0), (skipped_at or run.created_at) - instant)
    missed = late > misfire.late_after
    return Lateness(late, misfire.late_after, missed, misfire.policy, run.covers, skipped=run.reason == "misfire")


def _ended(run: Run) -> Ended:
    return Ended(run.state, run.ended_at, run.outcome, run.reason, run.error, run.is_dead, run.resolution)
