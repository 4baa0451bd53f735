"""The sweep's checks: the states of a record that no correct history leads to.

Each check gets one record from one read, so work in progress cannot look like a flaw: a run's state and its `check_at`
are written together, and so are a job's cursor and its `pending_run`. Flaws of two records, such as a `pending_run`
and its run, need a reading order that proves them, which is up to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cronflow.domain.job import JobRecord
from cronflow.domain.planning import first_fire
from cronflow.domain.run import OPEN, RunState, run_id
from cronflow.domain.schedule.kinds import Every

TOO_LONG = timedelta(hours=1)
FINDINGS_KEPT = 100


class Flaw(StrEnum):
    """The kinds of findings."""

    RUN_UNWATCHED = "run_unwatched"
    RUN_OVERDUE = "run_overdue"
    RUN_NOT_CLOSED = "run_not_closed"
    RUN_WITHOUT_JOB = "run_without_job"
    RUN_NOT_FOLLOWED = "run_not_followed"
    JOB_WITHOUT_CURSOR = "job_without_cursor"
    JOB_HIDDEN = "job_hidden"
    JOB_BEHIND = "job_behind"
    PENDING_RUN_MISSING = "pend_without_run"  # values are stored in reports, so they keep their old names
    PLAN_LEFT = "plan_left"
    LIST_LEFT = "list_left"
    KEY_FOR_EVER = "key_for_ever"
    INDEX_MISSING = "index_missing"
    SPOOL_OLD = "spool_old"
    NOT_CHECKED = "not_checked"


MEANING: Mapping[Flaw, str] = {
    Flaw.RUN_UNWATCHED: "open, but the reconciler would never find it",
    Flaw.RUN_OVERDUE: "open, and not reconciled for more than an hour",
    Flaw.RUN_NOT_CLOSED: "ended, but still marked as open",
    Flaw.RUN_WITHOUT_JOB: "runs of a job that does not exist",
    Flaw.RUN_NOT_FOLLOWED: "ended more than an hour ago, but the jobs that follow it have not noticed",
    Flaw.JOB_WITHOUT_CURSOR: "its schedule continues, but it has neither a next fire nor an open run",
    Flaw.JOB_HIDDEN: "wrong in the planner's index",
    Flaw.JOB_BEHIND: "due for more than an hour, but not planned",
    Flaw.PENDING_RUN_MISSING: "the run of its last move does not exist, and no plan intent announces it",
    Flaw.PLAN_LEFT: "a plan intent that was not recovered for more than an hour",
    Flaw.LIST_LEFT: "the queue of a dead node, which would never be deleted",
    Flaw.KEY_FOR_EVER: "a key without the TTL that it should have",
    Flaw.INDEX_MISSING: "a missing index",
    Flaw.SPOOL_OLD: "results on the node's disk for more than an hour, although MongoDB is available",
    Flaw.NOT_CHECKED: "more suspects than one sweep can check; the next sweep continues",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The fields of a run that the sweep and the clean-up read. `marked_open`: it is in the indexes of open runs."""

    id: str
    job: str
    state: RunState
    fire_at: datetime
    marked_open: bool
    check_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def scheduled(self) -> bool:
        """Whether a `pending_run` may name it."""
        return self.id == run_id(self.job, self.fire_at)


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job's record, and whether its document is in the planner's index."""

    record: JobRecord
    marked_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violated invariant. `where` names the record; `repaired`: the sweep has repaired it."""

    kind: Flaw
    where: str
    what: str
    repaired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """The result of a sweep. `found` counts all findings, `findings` has the first hundred of them."""

    at: datetime
    run: str
    took_ms: int
    checked: Mapping[str, int]
    found: int
    findings: Sequence[Finding]


def flaw_of_run(row: RunRow, now: datetime, led_since: datetime | None) -> Flaw | None:
    """The flaw of a single run document, or None."""
    if row.state not in OPEN:
        return Flaw.RUN_NOT_CLOSED if row.marked_open or row.check_at is not None else None
    if row.check_at is None or not row.marked_open:
        return Flaw.RUN_UNWATCHED
    if row.state is RunState.RETRYING:
        # It is due until its turn comes. Higher priorities go first, which may take any time.
        return None
    return Flaw.RUN_OVERDUE if waited_too_long(row.check_at, now, led_since) else None


def flaw_of_job(row: JobRow, now: datetime, led_since: datetime | None) -> Flaw | None:
    """The flaw of a single job document, or None. JOB_WITHOUT_CURSOR is a flaw only if no run of the job is open.

    A job whose schedule has no instant left is no flaw. Neither is a past cursor that the planner leaves, because a run
    of the job is open or no node can take it: `due_at` then moves on.
    """
    record = row.record
    if row.marked_active != record.active or (record.active and record.due_at is None):
        return Flaw.JOB_HIDDEN
    if record.deleted_at is not None or record.paused or not record.job.enabled:
        return None
    if record.next_fire is None:
        return Flaw.JOB_WITHOUT_CURSOR if cursor_of(record) is not None else None
    late = record.due_at is not None and waited_too_long(record.due_at, now, led_since)
    return Flaw.JOB_BEHIND if late else None


def cursor_of(record: JobRecord) -> datetime | None:
    """The cursor after the instants that `pending_run` covers; None: the schedule has no instant left, or the end of a
    run may have brought it beyond its end.
    """
    schedule = record.job.schedule
    may_have_ended = isinstance(schedule, Every) and schedule.after_completion and schedule.end is not None
    if record.runs_left == 0 or may_have_ended:
        return None
    last = None
    if record.pending_run is not None:
        last = record.pending_run.fire if record.pending_run.covers is None else record.pending_run.covers.last
    return first_fire(record.job, record.updated_at, last)


def waited_too_long(since: datetime, now: datetime, led_since: datetime | None) -> bool:
    """Whether something has been due for an hour under the present leader, which needs time after an outage."""
    return now - (since if led_since is None else max(since, led_since)) > TOO_LONG
