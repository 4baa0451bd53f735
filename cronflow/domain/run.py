"""A run: one fire of a job, its states, and the table of all changes that it may ever undergo.

`TRANSITIONS` is the single source: the stores refuse what it does not list, the tests check histories against it and
the documents draw it. Each change of a run is a `Change`, a compare-and-set that names its row. Ended states absorb:
no row leads out of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from cronflow.domain.placement import Placement, Waiting

MAX_ATTEMPTS_KEPT = 25
POISON_LIMIT = 3


class RunState(StrEnum):
    """Where a run is. The first three are open: somebody will look at the run again at `check_at`."""

    DISPATCHED = "dispatched"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LOST = "lost"


OPEN = frozenset({RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING})
ENDED = frozenset(RunState) - OPEN
DEAD = frozenset({RunState.FAILED, RunState.LOST})
"""What ends in one of these is a dead letter until somebody replays or acknowledges it."""


class Kind(StrEnum):
    """Where a run came from."""

    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    MANUAL = "manual"
    REPLAY = "replay"


SCHEDULED = frozenset({Kind.CRON, Kind.INTERVAL, Kind.ONCE})
"""The kinds that consume an instant of a schedule; the others stand beside it."""


class Outcome(StrEnum):
    """How an attempt ended."""

    OK = "ok"
    ERROR = "error"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    POISON = "poison"
    DEFERRED = "deferred"
    DECLINED = "declined"
    DRAINED = "drained"


class Actor(StrEnum):
    """Who may make a change."""

    LEADER = "leader"
    WORKER = "worker"
    EDITOR = "editor"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table. No `sources` means: the run is inserted. `fenced`: the fence must be the one that the actor
    holds.
    """

    row: int
    sources: frozenset[RunState]
    targets: frozenset[RunState]
    actors: frozenset[Actor]
    meaning: str
    fenced: bool = True
    only_when_due: bool = False


def _row(
    row: int, sources: str, targets: str, actors: str, meaning: str, *, fenced: bool = True, only_when_due: bool = False
) -> Transition:
    def states(text: str) -> frozenset[RunState]:
        return frozenset(RunState(word) for word in text.split())

    return Transition(
        row,
        states(sources),
        states(targets),
        frozenset(Actor(word) for word in actors.split()),
        meaning,
        fenced,
        only_when_due,
    )


TRANSITIONS: Mapping[int, Transition] = {
    transition.row: transition
    for transition in (
        _row(1, "", "dispatched", "leader", "a fire was planned and placed", fenced=False),
        _row(2, "", "skipped", "leader editor", "a fire was not run, for a reason that is recorded", fenced=False),
        _row(3, "", "retrying", "editor leader", "a run without a cursor was asked for", fenced=False),
        _row(4, "dispatched", "running", "worker", "the start was recorded"),
        _row(5, "running", "running", "worker", "the lease was renewed"),
        _row(6, "dispatched running", "succeeded failed cancelled skipped", "worker", "the last attempt ended"),
        _row(7, "dispatched running", "retrying", "worker", "an attempt ended and another one follows"),
        _row(8, "dispatched running", "retrying", "worker", "given back before its handler started"),
        _row(9, "dispatched", "dispatched", "leader", "not taken in time: placed again", only_when_due=True),
        _row(10, "running", "dispatched", "leader", "its worker was lost: placed again", only_when_due=True),
        _row(11, "running", "lost", "leader worker", "its worker was lost and it must not start twice"),
        _row(12, "retrying", "dispatched", "leader", "its time to try again had come", only_when_due=True),
        _row(13, "dispatched retrying", "skipped", "leader", "it may no longer run, for a reason that is recorded"),
        _row(14, "dispatched retrying running", "failed", "leader", "poison, or far beyond its timeout"),
        _row(15, "dispatched retrying", "cancelled", "editor leader", "cancelled before it started", fenced=False),
        _row(
            16,
            "running retrying",
            "running retrying",
            "editor leader",
            "cancellation asked for, or kept under an edited job",
            fenced=False,
        ),
        _row(18, "dispatched", "retrying", "editor", "given back under an edited job", fenced=False),
        _row(
            17,
            "dispatched running retrying",
            "dispatched running retrying",
            "leader",
            "looked at, and left as it is for a while",
            only_when_due=True,
        ),
        _row(
            19,
            "dispatched running retrying",
            "cancelled",
            "leader",
            "its cancellation was asked for, and nobody runs it any more",
            only_when_due=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Covers:
    """The missed fires that one run stands for, both ends included. `count` None: more than were worth counting."""

    first: datetime
    last: datetime
    count: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a run that has ended."""

    n: int
    fence: int
    node: str
    started_at: datetime | None
    ended_at: datetime
    outcome: Outcome
    error: str | None = None


class Settled(StrEnum):
    """What somebody did with a run that had ended."""

    ACKNOWLEDGED = "acknowledged"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Who settled a run, when and how. `run` is the newest replay."""

    how: Settled
    at: datetime
    by: str = ""
    note: str = ""
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run's document. `lateness` and `duration` are derived; open runs have `check_at`, ended ones `ended_at` and
    `outcome`. With a `result_size` (bytes of JSON) the result is too large for the document: it is kept apart, under
    the `finish_id`.
    """

    id: str
    job: str
    fire_at: datetime
    kind: Kind
    state: RunState
    fence: int
    term: int
    job_ver: int
    node: str | None
    attempt: int
    max_attempts: int
    check_at: datetime | None
    created_at: datetime
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    start_id: str | None = None
    finish_id: str | None = None
    covers: Covers | None = None
    args: Mapping[str, object] | None = None
    reason: str | None = None
    outcome: Outcome | None = None
    result: object = None
    result_size: int | None = None
    error: str | None = None
    redispatches: int = 0
    vetoes: int = 0
    cancel_requested: bool = False
    cancel_reason: str | None = None
    cancel_by: str | None = None
    attempts: Sequence[Attempt] = ()
    placement: Placement | None = None
    waiting: Waiting | None = None
    blocked_by: str | None = None
    replay_of: str | None = None
    resolution: Resolution | None = None

    @property
    def is_dead(self) -> bool:
        """Whether it failed or was lost, and nobody has settled it yet."""
        return self.state in DEAD and self.resolution is None

    @property
    def is_open(self) -> bool:
        """Whether somebody will still act on it."""
        return self.state in OPEN

    @property
    def lateness(self) -> timedelta | None:
        """From the instant it was due to the start of its first attempt (of those that are kept); of a manual run from
        when it was asked for, which its instant names in whole seconds. A replay is not late: nobody had asked for it
        before.
        """
        if self.kind is Kind.REPLAY:
            return None
        first = next((a.started_at for a in self.attempts if a.started_at is not None), self.started_at)
        due = self.created_at if self.kind is Kind.MANUAL else self.fire_at
        return None if first is None else first - due

    @property
    def duration(self) -> timedelta | None:
        """Of the latest attempt, once the run has ended."""
        return None if self.started_at is None or self.ended_at is None else self.ended_at - self.started_at


def run_id(job: str, fire: datetime) -> str:
    """The deterministic id of a scheduled run: creating it twice is harmless, because the store refuses the second."""
    return f"{job}@{fire:%Y%m%dT%H%M%SZ}"


def job_of(run: str) -> str:
    """The job in a run's id; no name of a job has an @."""
    return run.partition("@")[0]


def fire_of(run: str) -> datetime | None:
    """The instant in the id of a scheduled run; None for every other one."""
    try:
        return datetime.strptime(run.partition("@")[2], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def replay_id(run: str, number: int) -> str:
    """The id of the n-th replay. Replays of a replay count on with those of the run that all of them repeat."""
    return f"{original_id(run)}~r{number}"


def original_id(run: str) -> str:
    """The run that a replay repeats; every other id is its own."""
    head, mark, number = run.rpartition("~r")
    return head if mark and number.isdecimal() else run


def attempt_id(run: str, fence: int) -> str:
    """The id of one attempt, for logs: the fence is unique per dispatch."""
    return f"{run}#{fence}"


def cancelled_text(reason: str | None, by: str | None) -> str:
    """Who cancelled a run and why, in a line."""
    if not by:
        return reason or "cancelled"
    return f"cancelled by {by}: {reason}" if reason else f"cancelled by {by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A compare-and-set of one run.

    It applies when the run's state is one of `sources` and, where given, its fence equals `fence`, its job version
    `job_ver` (or is below `below_ver`), its `check_at` has passed, and nobody has asked for its cancellation. It then
    sets `target` and `sets`, appends `attempt`, and moves `check_at` to `check_in` from the store's own clock (an ended
    target removes it). `proof` is the field and value that only this change writes: reading it back tells who won when
    a batch matched fewer than it had, or when its answer was lost.
    """

    run: str
    row: int
    sources: frozenset[RunState]
    target: RunState
    fence: int | None = None
    job_ver: int | None = None
    below_ver: int | None = None
    only_when_due: bool = False
    unless_cancelled: bool = False
    check_in: timedelta | None = None
    sets: Mapping[str, object] = field(default_factory=dict)
    attempt: Attempt | None = None
    proof: tuple[str, object] | None

    def __post_init__(self) -> None:
        rule = TRANSITIONS[self.row]
        if not self.sources <= rule.sources or self.target not in rule.targets:
            raise ValueError(f"row {self.row} does not lead from {sorted(self.sources)} to {self.target}")
        if rule.fenced and self.fence is None:
            raise ValueError(f"row {self.row} must compare the fence")


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt ended, as its executor saw it. `result` is JSON, `result_size` its bytes where it is kept apart;
    `delay` is the job's own wish for the next attempt.
    """

    outcome: Outcome
    result: object = None
    error: str | None = None
    delay: timedelta | None = None
    result_size: int | None = None
