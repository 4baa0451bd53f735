"""A run: one execution of a job at one instant, and its states.

`domain.transitions` lists every change a run may undergo. Ended states absorb: no transition leads out of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
