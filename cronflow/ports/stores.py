"""What MongoDB keeps: the truth. Every verb may raise BackendUnavailable; see the package."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple, Protocol

from cronflow.domain.cluster import LeaderRecord, Term
from cronflow.domain.job import JobRecord, PendingRun, PlanIntent
from cronflow.domain.placement import Waiting
from cronflow.domain.run import AttemptResult, Kind, Resolution, Run, RunState
from cronflow.domain.sweep import JobRow, RunRow, SweepReport
from cronflow.domain.transitions import Change
from cronflow.domain.version import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A compare-and-set of one job: `rev` as read, and no newer term. It writes the cursor, `pending_run` and the
    mover's term.
    """

    job: str
    rev: int
    next_fire: datetime | None
    pending_run: PendingRun


class Deferral(NamedTuple):
    """Look at a job again at `due_at`, if its `rev` is still this one; `waiting` says why it waits."""

    rev: int
    due_at: datetime
    waiting: Waiting | None = None


class JobStore(Protocol):
    """Job documents. Every write but `create` and `defer` adds one to `rev`, and every one compares it."""

    async def get(self, names: Collection[str]) -> list[JobRecord]:
        """Those that exist, tombstones included, in no order."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[JobRecord]:
        """By name, those behind `after`; no tombstones."""

    async def due(self, until: datetime, limit: int) -> list[JobRecord]:
        """Active ones with `due_at <= until`, the earliest first."""

    async def move(self, moves: Sequence[Move], term: int) -> set[str]:
        """Apply the moves whose `rev` and term hold. Returns the names moved; repeating it with the same moves returns
        the same names.
        """

    async def defer(self, jobs: Mapping[str, Deferral]) -> None:
        """Set `due_at` and `waiting` of each job whose `rev` is the given one; the cursor and `rev` stay. A move takes
        `waiting` away again.
        """

    async def fence(self, names: Collection[str], term: int) -> list[JobRecord]:
        """Write the term into each job that has no newer one, so that every move computed before fails. Returns them as
        they now are.
        """

    async def create(self, record: JobRecord) -> bool:
        """Insert. False when the name exists, tombstones included."""

    async def replace(self, record: JobRecord, rev: int) -> bool:
        """Replace the document whose `rev` is the given one. False when it is another, or gone."""


class PlanStore(Protocol):
    """Write-ahead notes of cursor moves."""

    async def write(self, note: PlanIntent) -> None:
        """Insert; an id is never used twice, and repeating it is harmless."""

    async def remove(self, ids: Collection[str]) -> None:
        """Delete; those already gone are fine."""

    async def left_behind(self, term: int, older_than: timedelta) -> list[PlanIntent]:
        """Notes of a lower term (an editor's have none), and all older than the age by the store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list, the newest fire first. `before` is the (fire_at, id) of the last row of the page before;
    `dead` leaves only dead letters that nobody has settled; `node` is a node's name, or the id of one start of it;
    `until` is no longer included.
    """

    job: str | None = None
    states: Collection[RunState] = ()
    kinds: Collection[Kind] = ()
    dead: bool = False
    node: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LateResult:
    """The outcome of an attempt that had been fenced out: kept and shown, never accepted."""

    run: str
    fence: int
    node: str
    at: datetime
    attempt_result: AttemptResult
    finish_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeResult:
    """A result that is too large for its run's document, as JSON text; `id` is the `finish_id` of the attempt."""

    id: str
    run: str
    text: str


class OpenRun(NamedTuple):
    """An open run in short."""

    id: str
    state: RunState
    created_at: datetime


class RunStore(Protocol):
    """Run documents. They are made by `insert` and changed by `apply` alone, along TRANSITIONS."""

    async def insert(self, runs: Sequence[Run]) -> set[str]:
        """Insert those whose id is new. Returns the ids that this call inserted; existing ones stay as they are."""

    async def apply(self, changes: Sequence[Change]) -> set[str]:
        """Apply each change whose conditions hold; at most one per run. Returns the ids of the runs where it did, now
        or before.
        """

    async def overdue(self, limit: int) -> list[Run]:
        """Open runs whose `check_at` has passed by the store's own clock, the most overdue first."""

    async def get(self, ids: Collection[str]) -> list[Run]:
        """Those that exist, in no order."""

    async def existing(self, ids: Collection[str]) -> set[str]:
        """Which of the ids exist."""

    async def open_of(self, jobs: Collection[str]) -> dict[str, list[OpenRun]]:
        """The open runs of these jobs, in short."""

    async def find(self, query: RunQuery) -> list[Run]:
        """List runs for people."""

    async def days(self, job: str, since: datetime, most: int) -> dict[date, dict[RunState, int]]:
        """How the runs of a job that fell due from then on stand, by the day in UTC: the newest `most` of them."""

    async def keep_late(self, late: Sequence[LateResult]) -> None:
        """Store fenced-out outcomes; repeating it is harmless."""


class VersionStore(Protocol):
    """The earlier versions of the jobs. The present one stands in the job's own document; an edit keeps it here before
    it replaces it.
    """

    async def keep(self, versions: Sequence[Version]) -> None:
        """Insert those that are new; repeating it is harmless, because a version never changes."""

    async def of(self, job: str, limit: int = 1000) -> list[Version]:
        """The newest of a job, the oldest of them first."""


class LateStore(Protocol):
    """Outcomes that came too late, for people. `RunStore.keep_late` writes them."""

    async def of(self, run: str) -> list[LateResult]:
        """Those of a run, by their instants."""


class ResultStore(Protocol):
    """Results that are too large for their runs. Each is written before the end of its attempt, under the id that only
    that end has, so a run never names one that is not there; `Archive.delete_runs` deletes them with their runs.
    """

    async def keep(self, results: Sequence[LargeResult]) -> None:
        """Insert those that are new; repeating it is harmless, because a result never changes."""

    async def get(self, ids: Collection[str]) -> dict[str, object]:
        """The results themselves, of those that exist, by id."""


class DeadLetters(Protocol):
    """What people did with runs that had ended. It changes `resolution` alone: never a state, a fence or an outcome."""

    async def settle(self, runs: Collection[str], resolution: Resolution) -> set[str]:
        """Write the resolution. An acknowledgement reaches only what is a dead letter still; a replay every run that
        has ended. Returns the ids where this call wrote.
        """

    async def count(self, job: str | None = None) -> int:
        """How many dead letters nobody has settled, at the cost of those alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line that a run wrote. `fence` and `n` order the lines of a run: a later attempt has a higher fence."""

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
    """Which lines of all runs to find, the newest first. `text` is looked for in whatever case; `before` is the place
    that the page before ended with.
    """

    text: str = ""
    levels: Collection[str] = ()
    job: str | None = None
    node: str | None = None
    since: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 100
    look_at: int = 20_000


class Found(NamedTuple):
    """A page of lines. `following` is where the next one begins, also when this one is short or empty; None: there are
    no more.
    """

    lines: Sequence[LogLine]
    following: tuple[datetime, str] | None


class LogStore(Protocol):
    """Lines that runs wrote."""

    async def append(self, lines: Sequence[LogLine]) -> None:
        """Store them; repeating it may store none twice."""

    async def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """The lines of a run behind (fence, n), in order."""

    async def tail(self, run: str, limit: int) -> list[LogLine]:
        """The last lines of a run, in order."""

    async def find(self, query: LineQuery) -> Found:
        """Search the lines of all runs. Looks at so many and no more: a page may be short although there are others."""


class Control(Protocol):
    """The control document: terms and ranges of fencing tokens, from one linearizable counter."""

    async def begin_term(self, holder: str) -> Term:
        """A new term for the winner of an election. A term whose answer is lost is burnt, which is harmless."""

    async def extend(self, term: int, holder: str) -> int | None:
        """Reserve more tokens. Returns the new upper end, or None when the term is no longer the newest."""

    async def leader(self) -> LeaderRecord | None:
        """The newest term, for people."""

    async def ping(self) -> float:
        """Round trip in seconds; raises BackendUnavailable when no majority can be written."""


class Archive(Protocol):
    """Reading in bulk and deleting, for the sweep and the clean-up: page by page in the order of a key, so that nobody
    ever holds a whole collection.
    """

    async def runs(self, *, after: str = "", limit: int = 1000) -> list[RunRow]:
        """By id, those behind `after`."""

    async def rows(self, ids: Collection[str]) -> list[RunRow]:
        """Those that exist, in no order."""

    async def jobs(self, *, after: str = "", limit: int = 500, deleted_before: datetime | None = None) -> list[JobRow]:
        """By name, those behind `after`, tombstones included; with `deleted_before` only tombstones from before it."""

    async def expired(
        self, before: datetime, *, after: tuple[datetime, str] | None = None, limit: int = 1000
    ) -> list[RunRow]:
        """Runs that ended before, the oldest end first, those behind the (ended_at, id) of the last one."""

    async def anchors(self, jobs: Collection[str], before: datetime) -> dict[str, datetime]:
        """For each job that has one: the newest fire of which a scheduled run was created before."""

    async def delete_runs(self, ids: Collection[str], ended_before: datetime) -> int:
        """Delete those that ended before, with their late and their large results. Returns how many runs; repeating it
        is harmless.
        """

    async def delete_job(self, name: str, rev: int) -> bool:
        """Delete a tombstone that has this `rev` and no run. False when it is not so."""

    async def mark(self, ids: Collection[str]) -> None:
        """Make their marks agree with their states: an open run stands in the indexes of the open ones and has a
        `check_at`, now if it had none; an ended one has neither.
        """


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """Who keeps the store: MongoDB of this version, in a replica set of this name with so many members that keep data,
    and those of them that are away, as `host:port`; None when it does not tell.
    """

    version: str
    name: str
    members: int
    away: tuple[str, ...] | None


class StoreAdmin(Protocol):
    """What the store needs to stay sound: its time, its indexes, the age of log lines, and the report of the sweep."""

    async def replica_set(self) -> ReplicaSet:
        """Who keeps the store."""

    async def time(self) -> datetime:
        """The store's own clock, by which every `check_at` is written."""

    async def missing_indexes(self) -> list[str]:
        """The indexes that should be there and are not, as `collection.name`."""

    async def make_indexes(self) -> None:
        """Make those that are missing."""

    async def keep_lines(self, retention: timedelta) -> None:
        """Delete log lines and events when they are older than this, from now on; repeating it is harmless."""

    async def write_report(self, report: SweepReport) -> None:
        """Keep the report in place of the one before."""

    async def report(self) -> SweepReport | None:
        """The report of the last sweep."""
