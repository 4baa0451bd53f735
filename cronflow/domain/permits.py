"""Permits: the right of an attempt to run under a limit, and the rules by which it is acquired and lost.

A permit is an entry (run, fence) in the limit's document. It is acquired by one conditional update of that document,
after a node has taken the run and before its start is recorded. It is released after the run has left its state
`running` under this fence; `is_stale` finds permits that nobody released. A rate follows the virtual scheduling form of
the generic cell rate algorithm (ITU-T Recommendation I.371, annex A): the document has the theoretical time of the next
start. The stores implement `is_free` and `with_permit` as one atomic step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from cronflow.domain.concurrency import LimitUse, OnFull, Rate, check_concurrency, label_of, name_of, named_id
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import check_name
from cronflow.domain.placement import Waiting
from cronflow.domain.run import RunState

UNUSED_FOR = timedelta(days=1)
"""The document of a key is deleted when it was not used for so long."""
ABSENT_FOR = timedelta(minutes=1)
"""A permit of a run without a document is stale when it is older. The run is inserted before its item is pushed."""
MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLimit:
    """A limit that jobs share by its name: how many runs execute at the same time, how many start per period, or
    both.
    """

    name: str
    limit: int | None = None
    rate: Rate | None = None
    description: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "limit")
        if self.limit is not None:
            check_concurrency(self.limit)
        if self.limit is None and self.rate is None:
            raise InvalidInput(Problem("", "has neither limit nor rate", "add one of them, such as limit: 4"))

    @property
    def id(self) -> str:
        return named_id(self.name)


@dataclass(frozen=True, slots=True)
class Permit:
    """The entry of an attempt in a limit's document."""

    run: str
    fence: int
    node: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """A limit's document. `limit` and `rate` are those of a named limit; for a key, `limit` is the one of the last
    attempt that acquired a permit. `permits` begin with the oldest. `next_at` is the theoretical time of the next start
    by the store's clock, `used_at` the time of the last release.
    """

    id: str
    limit: int | None = None
    rate: Rate | None = None
    permits: tuple[Permit, ...] = ()
    next_at: datetime | None = None
    used_at: datetime | None = None
    description: str = ""
    updated_at: datetime | None = None
    updated_by: str = ""

    @property
    def name(self) -> str:
        """The name of a named limit; for a key, its id."""
        return name_of(self.id) or self.id

    @property
    def definition(self) -> NamedLimit:
        return NamedLimit(name=self.name, limit=self.limit, rate=self.rate, description=self.description)


class PermitRequest(NamedTuple):
    """An attempt that needs a permit."""

    use: LimitUse
    run: str
    fence: int
    node: str


class PermitRefusal(NamedTuple):
    """A request that got no permit. `state` is the document as it was read then; None: there is none."""

    state: LimitState | None


def bounds(use: LimitUse, state: LimitState | None) -> tuple[int | None, Rate | None]:
    """The limit and the rate that apply: those of the job for a key, those of the document for a name."""
    if use.name is None:
        return use.limit, use.rate
    return (None, None) if state is None else (state.limit, state.rate)


def in_time(next_at: datetime | None, rate: Rate, now: datetime) -> bool:
    """Whether the rate allows a start now. A time that no start under this rate can have left behind is ignored: the
    store's clock was set back.
    """
    if next_at is None:
        return True
    early = next_at - now
    return early <= rate.tolerance_ms * MS or early > (rate.tolerance_ms + rate.interval_ms) * MS


def after_start(next_at: datetime | None, rate: Rate, now: datetime) -> datetime:
    """The theoretical time of the next start, when one happens now."""
    begin = now if next_at is None or next_at - now > (rate.tolerance_ms + rate.interval_ms) * MS else next_at
    return max(now, begin) + rate.interval_ms * MS


def has_permit(state: LimitState, run: str, fence: int) -> bool:
    return any(one.run == run and one.fence == fence for one in state.permits)


def is_free(state: LimitState, use: LimitUse, run: str, fence: int, now: datetime) -> bool:
    """Whether the attempt gets a permit. The permits of its run's earlier attempts do not count: they end with this
    one. An attempt that has a permit, or whose run has a later one, does not get another.
    """
    limit, rate = bounds(use, state)
    if any(one.run == run and one.fence >= fence for one in state.permits):
        return False
    others = sum(one.run != run for one in state.permits)
    return (limit is None or others < limit) and (rate is None or in_time(state.next_at, rate, now))


def with_permit(state: LimitState, request: PermitRequest, now: datetime) -> LimitState:
    """The document after the request got its permit."""
    limit, rate = bounds(request.use, state)
    others = tuple(one for one in state.permits if one.run != request.run)
    return replace(
        state,
        limit=limit,
        permits=(*others, Permit(request.run, request.fence, request.node, now)),
        next_at=state.next_at if rate is None else after_start(state.next_at, rate, now),
    )


class Standing(NamedTuple):
    """The state and the fence of a run."""

    state: RunState
    fence: int


def is_stale(permit: Permit, run: Standing | None, now: datetime) -> bool:
    """Whether the attempt of this permit has ended or can never start. A run that is read late shows an older state,
    and never makes a permit stale: fences only grow, and under one fence a run does not become `dispatched` again.
    """
    if run is None:
        return now - permit.since > ABSENT_FOR
    if run.fence != permit.fence:
        return run.fence > permit.fence
    return run.state not in (RunState.DISPATCHED, RunState.RUNNING)


# ---------------------------------------------------------------------------------------------------------- the leader


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a run may not start now: the limit, a run that is in its way, the one that it may replace, and for a rate the
    time of the next start.
    """

    use: LimitUse
    reason: str
    held_by: str | None = None
    replaceable: str | None = None
    until: datetime | None = None

    def waiting(self, fire: datetime, since: datetime) -> Waiting:
        return Waiting(fire=fire, since=since, reason=self.reason, blocked_by=self.held_by)

    @property
    def on_full(self) -> OnFull:
        return self.use.on_full


def full_reason(limit: str) -> str:
    """The reason of a run that waits for a permit, by the id of its limit."""
    return f"{label_of(limit)} is full"


def rate_reason(limit: str) -> str:
    """The reason of a run that waits for its turn, by the id of its limit."""
    label = label_of(limit)
    return f"{label} is used up" if label.startswith("rate ") else f"the rate of {label} is used up"


def reasons_of(limit: str) -> tuple[str, ...]:
    """Every reason of a run that waits for this limit."""
    return full_reason(limit), rate_reason(limit), absent_reason(limit)


def absent_reason(limit: str) -> str:
    return f"{label_of(limit)} does not exist; define it with `cronflow limits apply -f FILE`"


def obstacle(
    use: LimitUse, state: LimitState | None, run: str, now: datetime, coming: Mapping[str, int], replaced: int = 0
) -> Obstacle | None:
    """Why the run may not start under the limit now, or None. `coming` are the runs, with their fences, that were
    dispatched and do not hold their permit yet. `replaced` permits are about to be released.
    """
    if state is None and use.name is not None:
        return Obstacle(use, absent_reason(use.id))
    limit, rate = bounds(use, state)
    permits: Sequence[Permit] = () if state is None else state.permits
    others = [one for one in permits if one.run != run]
    ahead = sum(other != run and not _holds(permits, other, fence) for other, fence in coming.items())
    # The permit of its lost attempt is its own, so nobody is before it. Otherwise it would wait for those that wait for
    # this very permit.
    before = ahead if len(others) == len(permits) else 0
    if limit is not None and len(others) + before >= limit:
        oldest = [one.run for one in sorted(others, key=lambda one: one.since)]
        held_by = next(iter([*oldest, *(other for other in coming if other != run)]), None)
        return Obstacle(use, full_reason(use.id), held_by, next(iter(oldest[replaced:]), None))
    if rate is not None:
        next_at = None if state is None else state.next_at
        # The time of its start, if those ahead start now.
        until = after_start(next_at, rate, now) + ((ahead - 1) * rate.interval_ms - rate.tolerance_ms) * MS
        if until > now:
            return Obstacle(use, rate_reason(use.id), until=until)
    return None


def _holds(permits: Collection[Permit], run: str, fence: int) -> bool:
    return any(one.run == run and one.fence >= fence for one in permits)
