"""A run: one execution of a job at one instant, and its states.

`domain.transitions` lists every change a run may undergo. Ended states absorb: no transition leads out of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

from cronflow.domain.chain import ChainLink, follows
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import DEFAULT_PRIORITY
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.split import Shard, Split, parent_of

MAX_ATTEMPTS_KEPT = 25
POISON_LIMIT = 3
CLOCK_MARGIN = timedelta(seconds=1)
"""How far back the `check_at` of a run lies that is to be dispatched at once. MongoDB decides by its own clock whether
it has passed, and that clock may be behind the one of the process that inserts the run.
"""


class RunState(StrEnum):
    """The state of a run. The first three are open: the reconciler handles the run at `check_at`."""

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
"""A run in one of these states is a dead letter until it is replayed or acknowledged."""


class Kind(StrEnum):
    """Where a run came from."""

    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    MANUAL = "manual"
    REPLAY = "replay"
    BACKFILL = "backfill"
    AFTER = "after"
    PART = "part"


SCHEDULED = frozenset({Kind.CRON, Kind.INTERVAL, Kind.ONCE})
"""The kinds that consume an instant of a schedule."""


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
    """The missed fires that one run stands for, both ends included. `count` None: too many to count."""

    first: datetime
    last: datetime
    count: int | None


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """When a node took a run from its list, when a slot was free for it, and when its attempt began. Recorded only if
    the attempt started late.
    """

    taken_at: datetime
    slot_at: datetime
    began_at: datetime


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What an attempt has used: CPU time in seconds, and the peak memory of its process in bytes, None if it had no
    process of its own.
    """

    cpu_s: float
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a run that has ended. `times` and `used` are None if they were not recorded."""

    n: int
    fence: int
    node: str
    started_at: datetime | None
    ended_at: datetime
    outcome: Outcome
    error: str | None = None
    times: NodeTimes | None = None
    used: ResourceUse | None = None


class Settled(StrEnum):
    """How a dead letter was resolved."""

    ACKNOWLEDGED = "acknowledged"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Who resolved a dead letter, when and how. `run` is the newest replay."""

    how: Settled
    at: datetime
    by: str = ""
    note: str = ""
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run's document. Open runs have `check_at`, ended ones `ended_at` and `outcome`. With a `result_size` (bytes of
    JSON) the result is too large for the document and is stored separately, under the `finish_id`. `reserved` is what
    the run reserves on its node while it is dispatched or running. The end of a `followed` run is yet to be answered by
    the jobs that follow its job. `chain` is its place in a chain; the first run of a chain has none. A parent has
    `split`. A part has `shard`, and `only_node` if it is a part of a broadcast: the name of the node that runs it.
    `waited` is why it had to wait before it was dispatched.
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
    priority: int = DEFAULT_PRIORITY
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
    reserved: ResourceAmount | None = None
    followed: bool = False
    chain: ChainLink | None = None
    split: Split | None = None
    shard: Shard | None = None
    only_node: str | None = None
    waited: Waiting | None = None

    @property
    def next_check(self) -> datetime | None:
        """When the leader looks at it next, for people and for the turn of runs: `check_at`, or later its insertion."""
        return None if self.check_at is None else max(self.check_at, self.created_at)

    @property
    def is_dead(self) -> bool:
        """Whether it is an unresolved dead letter. A part is none: its parent is."""
        return self.state in DEAD and self.resolution is None and self.parent is None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def first_due(self) -> datetime:
        """The instant that it consumes, or when it was requested."""
        return self.fire_at if self.kind in SCHEDULED else self.created_at

    @property
    def backfill(self) -> str | None:
        """The backfill that it belongs to."""
        return backfill_of(self.id) if self.kind is Kind.BACKFILL else None

    @property
    def chain_id(self) -> str:
        """The id of its chain: that of the run in which the chain began."""
        return self.id if self.chain is None else self.chain.id

    @property
    def parent(self) -> str | None:
        """The run that it is a part of."""
        return parent_of(self.id) if self.kind is Kind.PART else None

    @property
    def is_requested(self) -> bool:
        """Whether somebody requested it, or the run that it is a part of. All others were opened by a schedule or by
        the end of another run.
        """
        parent = self.parent
        if parent is None:
            return self.kind is not Kind.AFTER and self.kind not in SCHEDULED
        return fire_of(parent) is None and not follows(parent)

    @property
    def ranked_as(self) -> Kind:
        """The kind that its priority follows from: a part of a run of a backfill gives way like its parent."""
        parent = self.parent
        return self.kind if parent is None or backfill_of(parent) is None else Kind.BACKFILL

    @property
    def lateness(self) -> timedelta | None:
        """From the due instant to the start of the first recorded attempt. For a manual run it counts from the request,
        since its instant has only whole seconds. A replay, a run of a backfill, one that follows others and a part have
        none.
        """
        if self.kind in (Kind.REPLAY, Kind.BACKFILL, Kind.AFTER, Kind.PART):
            return None
        first = next((a.started_at for a in self.attempts if a.started_at is not None), self.started_at)
        due = self.created_at if self.kind is Kind.MANUAL else self.fire_at
        return None if first is None else first - due

    @property
    def duration(self) -> timedelta | None:
        """The duration of the last attempt, once the run has ended."""
        return None if self.started_at is None or self.ended_at is None else self.ended_at - self.started_at


MANUAL = "@manual-"
"""In the id of every manual run."""
LENGTH_OF_INSTANT = len("20260102T030405Z")


def run_id(job: str, fire: datetime) -> str:
    """The deterministic id of a scheduled run. A second insert is harmless, because the store rejects it."""
    return f"{job}@{_instant(fire)}"


@lru_cache(maxsize=4096)
def _instant(fire: datetime) -> str:
    return f"{fire:%Y%m%dT%H%M%SZ}"


def job_of(run: str) -> str:
    """The job in a run's id. Job names contain no @."""
    return run.partition("@")[0]


def fire_of(run: str) -> datetime | None:
    """The instant in the id of a scheduled run, or None."""
    text = run.partition("@")[2]
    if len(text) != LENGTH_OF_INSTANT or text[-1] != "Z":
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def replay_id(run: str, number: int) -> str:
    """The id of the n-th replay. A replay of a replay counts as a replay of the original run."""
    return f"{original_id(run)}~r{number}"


def original_id(run: str) -> str:
    """The id of the run that a replay repeats; any other id is returned unchanged."""
    head, mark, number = run.rpartition("~r")
    return head if mark and number.isdecimal() else run


def replay_number(run: str) -> int:
    """The number in the id of a replay; 0 for any other run."""
    original = original_id(run)
    return 0 if original == run else int(run[len(original) + 2 :])


def backfill_run_id(backfill: str, fire: datetime) -> str:
    """The id of the run of a backfill for an instant: `<job>@<instant>~b<k>`, where the backfill is `<job>~b<k>`."""
    job, _, number = backfill.rpartition("~b")
    return f"{run_id(job, fire)}~b{number}"


def backfill_of(run: str) -> str | None:
    """The backfill in the id of one of its runs; None for any other id, also for that of a replay."""
    head, mark, number = run.rpartition("~b")
    return f"{job_of(head)}~b{number}" if mark and number.isdecimal() else None


def scheduled_instant(run: str) -> datetime | None:
    """The instant of the schedule that a run is for: of a scheduled run, its replays and its backfills. None for a
    manual run.
    """
    first, _, _ = original_id(run).partition("~b")
    return fire_of(first)


def attempt_id(run: str, fence: int) -> str:
    """The id of an attempt in logs. The fence is unique per dispatch."""
    return f"{run}#{fence}"


def cancelled_text(reason: str | None, by: str | None) -> str:
    """One line: who cancelled a run, and why."""
    if not by:
        return reason or "cancelled"
    return f"cancelled by {by}: {reason}" if reason else f"cancelled by {by}"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What an executor returns. `result` is JSON, `result_size` its bytes when it is stored separately; `delay` is the
    delay that the job requested for the next attempt.

    `used` is what its process has used, if that is known.

    `error_classes` are what retry rules match: the classes of an exception with their modules, `exit:75` or `http:503`.
    A failure without any is decided by its outcome alone. They are used once and never stored, so they do not count in
    comparisons.
    """

    outcome: Outcome
    result: object = None
    error: str | None = None
    delay: timedelta | None = None
    result_size: int | None = None
    error_classes: tuple[str, ...] = field(default=(), compare=False)
    used: ResourceUse | None = field(default=None, compare=False)


PROGRESS = "progress"
"""The level of a progress line: `12/40`, or `12` without a total. No level is below or above it."""
LEVELS = ("debug", "info", "success", "warn", "error")
GRAVE = frozenset({"warn", "error"})
"""Levels with an index of their own: they are rare and searched for most."""


def at_least(level: str) -> Collection[str]:
    """This level and all above it, in any case; progress stands alone. Raises InvalidInput."""
    name = level.lower()
    if name == PROGRESS:
        return frozenset({PROGRESS})
    if name not in LEVELS:
        raise InvalidInput(
            Problem("level", f"there is no level {level!r}", f"it is one of {', '.join((*LEVELS, PROGRESS))}")
        )
    return frozenset(LEVELS[LEVELS.index(name) :])


def contains(text: str, wanted: str) -> bool:
    """Whether a text contains another one, ignoring case."""
    return wanted.casefold() in text.casefold()
