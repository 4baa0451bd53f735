"""The ports: what the roles of a node need from the outside, as short protocols whose docstrings are the contracts.

MongoDB stands behind JobStore, PlanStore, RunStore, LogStore, Control, Archive and Upkeep; Redis behind Election,
Membership, Queue, Bus and Housekeeping. The memory backend implements all of them, and one contract suite per port
runs on every backend. Every verb may raise BackendUnavailable; then it is unknown whether it took effect, and each
says what repeating it means.
Cancelling a verb never leaves a connection half used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from cronflow.domain.cluster import LeaderRecord, Member, NodeReport, Renewal, Term
from cronflow.domain.job import Job, JobRecord, Pend, PlanNote
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Change, Ending, Kind, Resolution, Run, RunState
from cronflow.domain.sweep import JobRow, RunRow, SweepReport
from cronflow.domain.version import Version


class Clock(Protocol):
    """Time. `now` decides when; `monotonic` measures leases; nothing else in the code reads a clock."""

    def now(self) -> datetime:
        """UTC; may step."""

    def monotonic(self) -> float:
        """Seconds; never steps back."""

    async def sleep(self, seconds: float) -> None:
        """At least that long."""

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Until the event is set, at most that long. Returns whether it was set."""


class Timepiece(Protocol):
    """A server's clock."""

    async def now(self) -> datetime:
        """What it shows, in UTC."""


# ---------------------------------------------------------------------------------------------------- MongoDB: history


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A compare-and-set of one job: `rev` as read, and no newer term. It writes the cursor, `pend` and the mover's
    term.
    """

    job: str
    rev: int
    next_fire: datetime | None
    pend: Pend


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

    async def write(self, note: PlanNote) -> None:
        """Insert; an id is never used twice, and repeating it is harmless."""

    async def remove(self, ids: Collection[str]) -> None:
        """Delete; those already gone are fine."""

    async def left_behind(self, term: int, older_than: timedelta) -> list[PlanNote]:
        """Notes of a lower term (an editor's have none), and all older than the age by the store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list, the newest fire first. `before` is the (fire_at, id) of the last row of the page before;
    `dead` leaves only dead letters that nobody has settled.
    """

    job: str | None = None
    states: Collection[RunState] = ()
    kinds: Collection[Kind] = ()
    dead: bool = False
    since: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LateResult:
    """The outcome of an attempt that had been fenced out: kept and shown, never accepted."""

    run: str
    fence: int
    node: str
    at: datetime
    ending: Ending
    finish_id: str


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


class LogStore(Protocol):
    """Lines that runs wrote."""

    async def append(self, lines: Sequence[LogLine]) -> None:
        """Store them; repeating it may store none twice."""

    async def read(self, run: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """The lines of a run behind (fence, n), in order."""


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
        """Delete those that ended before, and their late results. Returns how many runs; repeating it is harmless."""

    async def delete_job(self, name: str, rev: int) -> bool:
        """Delete a tombstone that has this `rev` and no run. False when it is not so."""

    async def mark(self, ids: Collection[str]) -> None:
        """Make their marks agree with their states: an open run stands in the indexes of the open ones and has a
        `check_at`, now if it had none; an ended one has neither.
        """


class Upkeep(Protocol):
    """What the store needs to stay sound: its time, its indexes, the age of log lines, and the report of the sweep."""

    async def time(self) -> datetime:
        """The store's own clock, by which every `check_at` is written."""

    async def missing_indexes(self) -> list[str]:
        """The indexes that should be there and are not, as `collection.name`."""

    async def make_indexes(self) -> None:
        """Make those that are missing."""

    async def keep_lines(self, retention: timedelta) -> None:
        """Delete log lines when they are older than this, from now on; repeating it is harmless."""

    async def write_report(self, report: SweepReport) -> None:
        """Keep the report in place of the one before."""

    async def report(self) -> SweepReport | None:
        """The report of the last sweep."""


# ------------------------------------------------------------------------------------------------------- Redis: motion


class Election(Protocol):
    """The leader's key. It elects; it does not protect."""

    async def acquire(self, holder: str, ttl_s: float) -> bool:
        """Take the key if nobody has it. After an error: not the leader."""

    async def install(self, holder: str, term: int, boot: str) -> bool:
        """Announce the term and the id of this memory of Redis. False when another one holds the key or a higher term
        is known.
        """

    async def renew(self, holder: str, ttl_s: float, term: int, boot: str) -> Renewal:
        """Compare, then renew; what Redis has forgotten is set anew."""

    async def resign(self, holder: str) -> bool:
        """Give the key back if it is mine, and ring the followers."""

    async def ask_to_resign(self, term: int) -> None:
        """Ask the leader of this term to step down; its next renewal, which a ring brings about at once, is told so."""

    async def holder(self) -> tuple[str, float] | None:
        """Who has the key and for how many seconds still, or None."""


class Membership(Protocol):
    """Who is up."""

    async def report(self, report: NodeReport, ttl_s: float) -> None:
        """Heartbeat. Raises Conflict when another live incarnation has the same name."""

    async def members(self) -> list[Member]:
        """The nodes with a heartbeat that has not expired."""

    async def leave(self, report: NodeReport) -> None:
        """Be gone at once."""

    async def holdings(self, nodes: Collection[str]) -> dict[str, tuple[bool, dict[str, int]]]:
        """Per node id: whether it is alive, and run -> fence of what it has taken (known an hour beyond its death)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """All that a worker needs to run an attempt; it travels in the node's list, so no other read is needed."""

    run: str
    fence: int
    term: int
    attempt: int
    fire_at: datetime
    job: Job
    args: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hold:
    """A taken run by what its lock is made of. `slot` is the run id where a job's runs may overlap, else empty."""

    job: str
    slot: str
    run: str
    fence: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to `take`: what is mine now, how many were put back because another run has the job's lock, how many
    dropped.
    """

    assignments: Sequence[Assignment]
    put_back: int
    dropped: int


class Queue(Protocol):
    """The nodes' lists and the job locks. It may lose, double or delay anything: `check_at` finds what was lost."""

    async def dispatch(self, term: int, boot: str, lists: Mapping[str, Sequence[Assignment]]) -> bool:
        """Push to each node's list and ring it. Raises Deposed when a newer term is known. False: Redis has forgotten
        this leader, nothing was pushed; renew, then push again.
        """

    async def take(self, node: str, most: int) -> Taken:
        """Take up to that many under their job locks. A newer fence of the same run wins the lock; another run of the
        job is put back.
        """

    async def renew_locks(self, node: str, holds: Sequence[Hold]) -> set[str]:
        """Renew, or set anew what was forgotten. Returns the runs whose lock is somebody else's."""

    async def release(self, node: str, holds: Sequence[Hold]) -> None:
        """Compare, then delete; and ring the leader, because there is room."""

    async def ping(self) -> float:
        """Round trip in seconds."""


class Bell(StrEnum):
    """The doorbells. Each says only: look. LEADER: at the leader's key; ROOM: slots are free; JOBS: jobs or runs
    changed.
    """

    LEADER = "leader"
    ROOM = "room"
    JOBS = "jobs"
    NODE = "node"


class Bus(Protocol):
    """Doorbells over pub/sub. A ring may be lost; whoever listens also polls."""

    async def ring(self, bell: Bell) -> None:
        """Ring all that listen."""

    async def listen(self, node: str, bells: Mapping[Bell, Callable[[], None]]) -> None:
        """Call back on each ring, and once for all after every (re)connection; runs until it is cancelled. NODE is the
        node's own.
        """


@dataclass(frozen=True, slots=True)
class Endless:
    """A key that should expire by itself and does not. `node` is set for the list of a node without a heartbeat."""

    key: str
    node: str | None = None


class Housekeeping(Protocol):
    """What should go away by itself in Redis, and does not."""

    async def endless(self, cursor: int = 0) -> tuple[int, list[Endless]]:
        """A page: locks, heartbeats and the like without a time limit, and such lists of nodes that are gone. Begin
        with cursor 0, go on with the one that comes back, until it is 0 again; pages may be empty.
        """

    async def let_expire(self, keys: Collection[str], seconds: float) -> int:
        """Give those that still have no time limit this one. Returns how many; who needs a key renews it in time."""

    async def forget_nodes(self, silent_for: timedelta) -> int:
        """Forget what is left of nodes that have been silent for so long. Returns how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """All ports, as the composition root hands them out."""

    jobs: JobStore
    plans: PlanStore
    runs: RunStore
    versions: VersionStore
    late: LateStore
    letters: DeadLetters
    logs: LogStore
    control: Control
    archive: Archive
    upkeep: Upkeep
    election: Election
    membership: Membership
    queue: Queue
    bus: Bus
    housekeeping: Housekeeping
    timepieces: Mapping[str, Timepiece] = field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------------- executors


class LineSink(Protocol):
    """Where an attempt's output goes, line by line."""

    def __call__(self, level: str, text: str) -> None:
        """Take one line; never blocks."""


class Executor(Protocol):
    """Runs one attempt of one kind of target."""

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> Ending:
        """Run it to its end. The timeout of the job is the executor's to keep: afterwards nothing that it started still
        runs.

        Cancelling this coroutine stops what runs, within ten seconds by force, before the cancellation goes on.
        """
