"""The stores in MongoDB, which are the source of truth: jobs, plan intents, runs, logs, and the control document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple, Protocol

from cronflow.domain.backfill import FireOutline
from cronflow.domain.cluster import LeaderRecord, Term
from cronflow.domain.job import DEFAULT_PRIORITY, JobRecord, PendingRun, PlanIntent
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.permits import Standing
from cronflow.domain.placement import Waiting
from cronflow.domain.placement_rules import PlacedRun
from cronflow.domain.run import AttemptResult, Kind, Resolution, Run, RunState
from cronflow.domain.sweep import JobRow, RunRow, SweepReport
from cronflow.domain.transitions import Change
from cronflow.domain.version import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A compare-and-set of one job: it applies if `rev` is as read and the job has no newer term. It writes the cursor,
    `pending_run` and the mover's term; and the job's `priority`, because 0.6 did not store it. `counts`: it adds one to
    `fired`.
    """

    job: str
    rev: int
    next_fire: datetime | None
    pending_run: PendingRun
    priority: int = DEFAULT_PRIORITY
    counts: bool = False


class CursorMove(NamedTuple):
    """Move the cursor to `next_fire` without a run, if the job still has this `rev` and no newer term. No instant may
    be due before the new cursor; the present run is not touched.
    """

    rev: int
    next_fire: datetime | None


class Deferral(NamedTuple):
    """Postpone a job to `due_at` if it still has this `rev`. `waiting` is the reason; `priority` as in a move."""

    rev: int
    due_at: datetime
    waiting: Waiting | None = None
    priority: int = DEFAULT_PRIORITY


class JobEdit(NamedTuple):
    """The number of a job's present version, and whether it is a tombstone."""

    name: str
    ver: int
    deleted: bool


class JobStore(Protocol):
    """Job documents. Every write but `create` is a compare-and-set, and all but `defer` add one to `rev`."""

    async def get(self, names: Collection[str]) -> list[JobRecord]:
        """Those that exist, tombstones included, in no particular order."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        """A page ordered by name, starting after `after`, without tombstones."""

    async def names(self, *, prefix: str = "", after: str = "", limit: int = 500, deleted: bool = False) -> list[str]:
        """A page of the names that begin with `prefix`, in order, starting after `after`; with `deleted` also those of
        tombstones.
        """

    async def edits(self, *, after: str = "", limit: int = 5000) -> list[JobEdit]:
        """A page of all jobs ordered by name, starting after `after`, tombstones included: who compares it with what it
        has read before finds which jobs were edited.
        """

    async def pauses(self, limit: int) -> list[JobRecord]:
        """Paused jobs whose pause ends by itself, the earliest end first."""

    async def due(self, until: datetime, limit: int) -> list[JobRecord]:
        """Active jobs with `due_at <= until`, earliest first."""

    async def due_in_turn(
        self, now: datetime, until: datetime, limit: int, coming: int = 1, since: datetime | None = None
    ) -> list[JobRecord]:
        """Active jobs with `due_at <= now`, in no particular order: the first `limit` by priority, then `due_at`; and
        the earliest eighth of that number, at least one, of any priority. And the next `coming` that are due by
        `until`. With `since`, only those that fell due after it.
        """

    async def move(self, moves: Sequence[Move], term: int) -> set[str]:
        """Apply the moves whose `rev` and term match. Returns the names of the jobs moved. Repeating it with the same
        moves returns the same names.
        """

    async def reposition(self, jobs: Mapping[str, CursorMove], term: int) -> set[str]:
        """Apply the cursor moves whose `rev` and term match. Returns the names of the jobs moved; repeating it with the
        same moves returns the same names. An earlier cursor becomes `since` too, if the version has had no run.
        """

    async def defer(self, jobs: Mapping[str, Deferral]) -> None:
        """Set `due_at` and `waiting` of each job that has the given `rev`. The cursor and `rev` do not change. A move
        removes `waiting`.
        """

    async def fence(self, names: Collection[str], term: int) -> list[JobRecord]:
        """Write the term into each job that has no newer one, which makes every move computed before fail. Then read
        them: returns those that have the term, in no particular order.

        A job may move between the write and the read, but only by a writer who read it after the write. That writer has
        ensured the run of the pending run that it replaced, and its own intent announces the new one. So the pending
        runs returned here are the only ones of an intent that can lack a run.
        """

    async def create(self, record: JobRecord) -> bool:
        """Insert. False if the name exists, tombstones included."""

    async def create_all(self, records: Sequence[JobRecord]) -> set[str]:
        """`create` for several jobs at once. Returns the names that were inserted."""

    async def replace(self, record: JobRecord, rev: int) -> bool:
        """Replace the job if it has this `rev`. False if it differs or the job does not exist."""


class PlanStore(Protocol):
    """Plan intents: the write-ahead log of cursor moves."""

    async def write(self, note: PlanIntent) -> None:
        """Insert. Ids are unique. Safe to repeat."""

    async def remove(self, ids: Collection[str]) -> None:
        """Delete those that exist."""

    async def left_behind(self, term: int, older_than: timedelta) -> list[PlanIntent]:
        """Intents of a lower term, except those of editors, which have term 0; and intents older than this by the
        store's clock.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A filter for runs, newest fire first; with `oldest_first` in the opposite order. `before` is the (fire_at, id) of
    the last run of the previous page. `dead` selects unresolved dead letters. `node` is a node's name or id. `until` is
    exclusive. `ids` selects these runs and `jobs` the runs of these jobs; None does not restrict them. `backfill`
    selects the runs of one, `chain` those of a chain, with the one in which it began, and `parent` the parts of one.
    """

    ids: Collection[str] | None = None
    job: str | None = None
    jobs: Collection[str] | None = None
    states: Collection[RunState] = ()
    kinds: Collection[Kind] = ()
    dead: bool = False
    node: str | None = None
    backfill: str | None = None
    chain: str | None = None
    parent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    oldest_first: bool = False
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LateResult:
    """The outcome of an attempt that was fenced out: stored and shown, never accepted."""

    run: str
    fence: int
    node: str
    at: datetime
    attempt_result: AttemptResult
    finish_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeResult:
    """A result too large for its run's document, as JSON. `id` is the `finish_id` of the attempt."""

    id: str
    run: str
    text: str


class OpenRun(NamedTuple):
    """A summary of an open run. `node` is None while it waits to be dispatched, for the first time or again."""

    id: str
    state: RunState
    created_at: datetime
    node: str | None = None


class RunningRun(NamedTuple):
    """A summary of a running run. `started_at` is the start of its present attempt."""

    id: str
    job: str
    node: str
    started_at: datetime


class RunStore(Protocol):
    """Run documents. `insert` and `insert_changed` create them, and `apply` changes them, along TRANSITIONS."""

    async def insert(self, runs: Sequence[Run]) -> set[str]:
        """Insert those with a new id. Returns the ids that this call inserted. Existing runs do not change."""

    async def insert_changed(self, runs: Sequence[tuple[Run, Change]], now: datetime) -> set[str]:
        """Insert those with a new id, each as its change leaves it: an insert and a change in one write. The change
        must apply to the run, and each run may occur once. `check_at` is `check_in` from `now`, the cluster's time,
        because an insert cannot read the store's clock. Returns the ids that this call inserted.
        """

    async def apply(self, changes: Sequence[Change]) -> set[str]:
        """Apply each change whose conditions match; at most one per run. Returns the ids of the runs whose change was
        applied, now or by an earlier call.
        """

    async def overdue(
        self, limit: int, waiting: int | None = None, without: Collection[str] = (), reasons: Collection[str] = ()
    ) -> list[Run]:
        """Open runs whose `check_at` has passed by the store's clock, in no particular order. Of those that a node has,
        the `limit` most overdue. Of those that wait for a node (`retrying`), the first `waiting`, by default `limit`,
        by priority, then `check_at`, and the earliest eighth of that number, at least one, of any priority; none of
        the jobs `without`, and none whose `waiting` has one of these `reasons`.
        """

    async def get(self, ids: Collection[str]) -> list[Run]:
        """Those that exist, in no particular order."""

    async def existing(self, ids: Collection[str]) -> set[str]:
        """The ids that exist."""

    async def open_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        """The open runs by job."""

    async def taken_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        """The runs that are dispatched or running, by job. Any number of waiting runs costs nothing."""

    async def standings(self, ids: Collection[str]) -> dict[str, Standing]:
        """The state and the fence of those that exist."""

    async def reserving(self) -> list[PlacedRun]:
        """The dispatched and running runs that reserve CPU or memory, in no particular order. The cost is proportional
        to their number.
        """

    async def parents(self, limit: int) -> list[Run]:
        """The open runs that are split, by the time of their creation. The cost is proportional to their number."""

    async def part_counts(self, parents: Collection[str]) -> dict[str, dict[RunState, int]]:
        """The number of parts of each of these runs, by state."""

    async def running(self, started_until: datetime, limit: int) -> list[RunningRun]:
        """Runs whose present attempt started at this instant or before, in no particular order. The cost is
        proportional to the number of open runs.
        """

    async def find(self, query: RunQuery) -> list[Run]: ...

    async def count(self, query: RunQuery, most: int) -> int:
        """The number of runs that `find` would return without a limit, counted up to `most`."""

    async def outlines(
        self, job: str, first: datetime, last: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[FireOutline]:
        """Outlines of the runs of a job with `fire_at` from `first` to `last`, both included, ordered by (fire_at, id),
        starting after `after`.
        """

    async def days(self, job: str, since: datetime, most: int) -> dict[date, dict[RunState, int]]:
        """Counts by UTC day and state of the newest `most` runs of a job with `fire_at >= since`."""

    async def keep_late(self, late: Sequence[LateResult]) -> None:
        """Store fenced-out outcomes. Safe to repeat."""


class VersionStore(Protocol):
    """Earlier versions of jobs. An edit stores the current version here before it replaces the job document."""

    async def keep(self, versions: Sequence[Version]) -> None:
        """Insert those that are new. Safe to repeat, because versions never change."""

    async def of(self, job: str, limit: int = 1000) -> list[Version]:
        """The newest `limit` versions of a job, oldest first."""


class LateStore(Protocol):
    """Fenced-out outcomes. `RunStore.keep_late` writes them."""

    async def of(self, run: str) -> list[LateResult]:
        """Those of a run, ordered by time."""


class ResultStore(Protocol):
    """Results too large for their runs. A result is written before the end of its attempt and under that attempt's
    `finish_id`, so a run never refers to a missing result. `Archive.delete_runs` deletes them with their runs.
    """

    async def keep(self, results: Sequence[LargeResult]) -> None:
        """Insert those that are new. Safe to repeat, because results never change."""

    async def get(self, ids: Collection[str]) -> dict[str, object]:
        """The parsed results that exist, by id."""


class DeadLetters(Protocol):
    """Resolutions of ended runs. Only `resolution` changes: never a state, a fence or an outcome."""

    async def settle(self, runs: Collection[str], resolution: Resolution) -> set[str]:
        """Write the resolution. An acknowledgement applies to unresolved dead letters, a replay to every ended run.
        Returns the ids that this call wrote.
        """

    async def count(self, job: str | None = None) -> int:
        """The number of unresolved dead letters. The cost is proportional to that number."""

    async def newest(self, limit: int) -> list[str]:
        """The ids of the unresolved dead letters with the latest fires, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A log line of a run. (fence, n) orders the lines of a run: a later attempt has a higher fence."""

    run: str
    job: str
    fence: int
    attempt: int
    n: int
    at: datetime
    level: str
    text: str
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineQuery:
    """A search over the lines of all runs, newest first. `text` ignores case. `before` is `Found.following` of the
    previous page. At most `look_at` lines are scanned.
    """

    text: str = ""
    levels: Collection[str] = ()
    job: str | None = None
    node: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 100
    look_at: int = 20_000


class Found(NamedTuple):
    """A page of lines. `following` is where the next page starts, even if this one is short or empty; None if there are
    no more lines.
    """

    lines: Sequence[LogLine]
    following: tuple[datetime, str] | None


class LogStore(Protocol):
    """Log lines of runs."""

    async def append(self, lines: Sequence[LogLine]) -> None:
        """Insert. Safe to repeat: no line is stored twice."""

    async def remove(self, run: str, fence: int, first: int, end: int) -> None:
        """Delete the lines of an attempt with `first` <= n < `end`. Safe to repeat."""

    async def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """A page of a run's lines, in order, starting after (fence, n)."""

    async def tail(self, run: str, limit: int) -> list[LogLine]:
        """The last `limit` lines of a run, in order."""

    async def find(self, query: LineQuery) -> Found:
        """Search the lines of all runs. The scan is bounded, so a page may be short although there are more lines."""


class Control(Protocol):
    """The control documents: one linearizable counter of terms and of fencing tokens, and the maintenance mode."""

    async def begin_term(self, holder: str) -> Term:
        """Start a new term for the winner of an election. If the answer is lost, the term stays unused: harmless.

        Raises Deposed if a newer protocol has led the cluster.
        """

    async def extend(self, term: int, holder: str) -> int | None:
        """Reserve more tokens. Returns the new upper bound, or None if the term is not the newest."""

    async def leader(self) -> LeaderRecord | None:
        """The newest term and its holder."""

    async def maintenance(self) -> MaintenanceMode | None:
        """The maintenance mode as it was turned on, also if it has ended by itself since."""

    async def begin_maintenance(self, mode: MaintenanceMode) -> None:
        """Turn it on, or replace it. Safe to repeat."""

    async def end_maintenance(self, since: datetime | None = None) -> bool:
        """Turn it off; with `since` only the one that began then. False if it is off, or another one."""

    async def claim_zone_data(self, identity: str, term: int) -> bool | None:
        """In one step: write the term, and return whether the cursors are right by these time zone data. If not, they
        are right by none from now on. None: a newer term has claimed them.
        """

    async def keep_zone_data(self, identity: str, term: int) -> None:
        """The cursors are right by these time zone data. Without effect if a newer term has claimed them."""

    async def ping(self) -> float:
        """Round trip in seconds. Raises BackendUnavailable if no majority can be written."""


@dataclass(frozen=True, slots=True)
class JobReach:
    """Which scheduled runs of a job a process may still insert again: those from `passed` or from `cursor` on, and that
    of `pending_fire`; none of an `abandoned` job.

    `cursor` is its `next_fire`, and `pending_fire` the fire of its `pending_run`. `passed` is the newest fire of a
    scheduled run that was created before a certain instant, and None if there is no such run. A job is abandoned if it
    is a tombstone without `pending_run` that has not changed since that instant.
    """

    cursor: datetime | None
    pending_fire: datetime | None
    passed: datetime | None
    abandoned: bool


class Archive(Protocol):
    """Bulk reads and deletions for the sweep and the clean-up, in ordered pages, so that no caller loads a whole
    collection.
    """

    async def runs(self, *, after: str = "", limit: int = 1000) -> list[RunRow]:
        """A page ordered by id, starting after `after`."""

    async def rows(self, ids: Collection[str]) -> list[RunRow]:
        """Those that exist, in no particular order."""

    async def jobs(self, *, after: str = "", limit: int = 500, deleted_before: datetime | None = None) -> list[JobRow]:
        """A page ordered by name, starting after `after`, tombstones included. With `deleted_before`: only tombstones
        older than that.
        """

    async def due_before(
        self, before: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[RunRow]:
        """Runs that were due before this instant, open and ended, ordered by (fire_at, id), starting after `after`."""

    async def reach(self, jobs: Collection[str], before: datetime) -> dict[str, JobReach]:
        """By job that exists: which of its scheduled runs may still be inserted again."""

    async def delete_runs(self, ids: Collection[str], ended_before: datetime) -> int:
        """Delete the runs that ended before this instant, with their late and large results. Returns the number of runs
        deleted. Safe to repeat.
        """

    async def delete_job(self, name: str, rev: int) -> bool:
        """Delete a job if it is a tombstone with this `rev` and has no runs. False otherwise."""

    async def repair_marks(self, ids: Collection[str]) -> None:
        """Make the runs' marks agree with their states. An open run is in the indexes of open runs and has a
        `check_at`, now if it was missing. An ended run has neither.
        """


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """The replica set: the version of MongoDB, the name of the set, the number of members with data, and the unhealthy
    members as `host:port`, or None if MongoDB does not reveal them.
    """

    version: str
    name: str
    members: int
    away: tuple[str, ...] | None


class StoreAdmin(Protocol):
    """Administration: the replica set, indexes, retention, and the sweep's report."""

    async def replica_set(self) -> ReplicaSet: ...

    async def time(self) -> datetime:
        """The store's clock, by which `check_at` is written."""

    async def missing_indexes(self) -> list[str]:
        """The missing indexes, as `collection.name`."""

    async def make_indexes(self) -> None:
        """Create the missing indexes."""

    async def drop_unused_indexes(self) -> None:
        """Drop the indexes that only earlier versions use. Safe to repeat: a node of such a version creates them again
        when it starts.
        """

    async def keep_lines(self, retention: timedelta) -> None:
        """From now on, delete log lines and events older than this. Safe to repeat."""

    async def write_report(self, report: SweepReport) -> None:
        """Replace the last report."""

    async def report(self) -> SweepReport | None:
        """The report of the last sweep, if there was one."""
