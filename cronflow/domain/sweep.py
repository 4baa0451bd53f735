"""The sweep's rules: which states of a record no correct history leads to.

Each check looks at one record as one read returned it, so work under way cannot look like a flaw: a run's state and its
`check_at` are written together, and so are a job's cursor and its `pending_run`. What concerns two records, such as a
`pending_run` and its run, is for the caller to read in an order that proves it. Nothing here repairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cronflow.domain.job import JobRecord
from cronflow.domain.planning import first_fire
from cronflow.domain.run import OPEN, RunState, run_id

TOO_LONG = timedelta(hours=1)
FINDINGS_KEPT = 100


class Flaw(StrEnum):
    """What may be wrong. The values stand in the report."""

    RUN_UNWATCHED = "run_unwatched"
    RUN_OVERDUE = "run_overdue"
    RUN_NOT_CLOSED = "run_not_closed"
    RUN_WITHOUT_JOB = "run_without_job"
    JOB_WITHOUT_CURSOR = "job_without_cursor"
    JOB_HIDDEN = "job_hidden"
    JOB_BEHIND = "job_behind"
    PEND_WITHOUT_RUN = "pend_without_run"
    PLAN_LEFT = "plan_left"
    LIST_LEFT = "list_left"
    KEY_FOR_EVER = "key_for_ever"
    INDEX_MISSING = "index_missing"
    SPOOL_OLD = "spool_old"
    NOT_CHECKED = "not_checked"


MEANING: Mapping[Flaw, str] = {
    Flaw.RUN_UNWATCHED: "open, and nobody would ever look at it",
    Flaw.RUN_OVERDUE: "open, and for more than an hour nobody has looked at it",
    Flaw.RUN_NOT_CLOSED: "ended, and still marked as open",
    Flaw.RUN_WITHOUT_JOB: "runs of a job that does not exist",
    Flaw.JOB_WITHOUT_CURSOR: "its schedule goes on, but it has neither a next fire nor an open run",
    Flaw.JOB_HIDDEN: "the planner's index has it wrong",
    Flaw.JOB_BEHIND: "due for more than an hour, and no planner has looked at it",
    Flaw.PEND_WITHOUT_RUN: "the run of its last move does not exist, and no plan note announces it",
    Flaw.PLAN_LEFT: "a plan note that nobody settled for more than an hour",
    Flaw.LIST_LEFT: "the list of a dead node, which would stay for ever",
    Flaw.KEY_FOR_EVER: "a key that should expire and never would",
    Flaw.INDEX_MISSING: "an index does not exist",
    Flaw.SPOOL_OLD: "outcomes have waited on the node's disk for more than an hour, and MongoDB is here",
    Flaw.NOT_CHECKED: "more suspects than one sweep looks into; the next one goes on",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What the sweep and the clean-up read of a run. `marked_open`: it stands in the indexes of open runs."""

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
    """A job's record, and whether its document stands in the planner's index."""

    record: JobRecord
    marked_active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must not be. `where` names the record; `repaired`: the sweep has put it right."""

    kind: Flaw
    where: str
    what: str
    repaired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """What a sweep looked at and found. `found` counts all findings, `findings` has the first hundred of them."""

    at: datetime
    run: str
    took_ms: int
    checked: Mapping[str, int]
    found: int
    findings: Sequence[Finding]


def flaw_of_run(row: RunRow, now: datetime, led_since: datetime | None) -> Flaw | None:
    """What is wrong with a run's document by itself."""
    if row.state not in OPEN:
        return Flaw.RUN_NOT_CLOSED if row.marked_open or row.check_at is not None else None
    if row.check_at is None or not row.marked_open:
        return Flaw.RUN_UNWATCHED
    return Flaw.RUN_OVERDUE if waited_too_long(row.check_at, now, led_since) else None


def flaw_of_job(row: JobRow, now: datetime, led_since: datetime | None) -> Flaw | None:
    """What is wrong with a job's document by itself; JOB_WITHOUT_CURSOR is one only if no run of it is open.

    A job that is done is none: its schedule has no instant left. Neither is a cursor in the past that the planner looks
    at and leaves, because a run of the job is open or no node may run it: then `due_at` moves on.
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
    """Where the cursor must stand if nothing covers more than `pending_run` does; None: the schedule has no instant
    left.
    """
    last = None
    if record.pending_run is not None:
        last = record.pending_run.fire if record.pending_run.covers is None else record.pending_run.covers.last
    return first_fire(record.job, record.updated_at, last)


def waited_too_long(since: datetime, now: datetime, led_since: datetime | None) -> bool:
    """Whether something has been due for an hour in which somebody led: after an outage the leader needs its time."""
    return now - (since if led_since is None else max(since, led_since)) > TOO_LONG
