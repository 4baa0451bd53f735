"""Why a run started late: the time from its due instant to its start, divided at the recorded facts.

Rule: the parts follow each other without gap or overlap, so their lengths add up to the lateness. What no record
explains is a part that is not `recorded`; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from cronflow.domain.cluster import node_name
from cronflow.domain.events import LeaderElected, LeaderSteppedDown, MaintenanceEnded, MaintenanceStarted, RecordedEvent
from cronflow.domain.run import SCHEDULED, Attempt, Kind, Run

ONE_ROUND = timedelta(seconds=1)
"""A leader that plans within this time has not waited for anything."""
EXPLAINED = frozenset({*SCHEDULED, Kind.MANUAL})


class Delay(StrEnum):
    """What the run waited for."""

    NO_LEADER = "no_leader"
    MAINTENANCE = "maintenance"
    WAITING = "waiting"
    PLANNING = "planning"
    PLACEMENT = "placement"
    EARLIER_NODE = "earlier_node"
    LOCK = "lock"
    SENT = "sent"
    SLOT = "slot"
    LOOP = "loop"
    START = "start"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class LatePart:
    """A part of the lateness. `run` is the run that it waited for."""

    delay: Delay
    since: datetime
    until: datetime
    words: str
    recorded: bool = True
    run: str | None = None


@dataclass(frozen=True, slots=True)
class LateStart:
    """The lateness of a run: from `due` to `until`, which is its start, or now if it has not `started`."""

    due: datetime
    until: datetime
    started: bool
    parts: tuple[LatePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFacts:
    """What was recorded around the run. `events` are those of leaders and of maintenance, oldest first, from the last
    election before the instant on. `lock` is the run that held the job's lock, and until when. `limited`: whether the
    run needs permits.
    """

    events: Sequence[RecordedEvent] = ()
    lock: tuple[str, datetime] | None = None
    limited: bool = False


def first_start(run: Run) -> Attempt | datetime | None:
    """The first attempt that started; the time of its start while it runs."""
    for attempt in run.attempts:
        if attempt.started_at is not None:
            return attempt
    return run.started_at


def late_start(run: Run, facts: LateFacts, now: datetime) -> LateStart | None:
    """None for a kind without lateness, for a run that ended without a start, and for one that is not late."""
    first = first_start(run)
    start = first.started_at if isinstance(first, Attempt) else first
    if run.kind not in EXPLAINED or run.split is not None or (start is None and not run.is_open):
        return None
    due, until = (run.created_at if run.kind is Kind.MANUAL else run.fire_at), start or now
    if until <= due:
        return None
    parts: list[LatePart] = []
    at = due
    for part in _parts(run, facts, due, first, until):
        end = min(part.until, until)
        if end > at:
            parts.append(replace(part, since=at, until=end))
            at = end
    if at < until:
        parts.append(LatePart(Delay.NODE, at, until, "Not recorded", recorded=False))
    return LateStart(due, until, start is not None, tuple(parts))


def _parts(
    run: Run, facts: LateFacts, due: datetime, first: Attempt | datetime | None, until: datetime
) -> Iterator[LatePart]:
    """In order; each begins where the one before it ends."""
    if run.created_at > due:
        yield from _before_plan(run, facts, due)
    yield from _before_node(run, first, until)
    if first is not None:
        yield from _on_node(run, facts, first, until)


# ------------------------------------------------------------------------------------------- until the leader decides


def _before_plan(run: Run, facts: LateFacts, due: datetime) -> Iterator[LatePart]:
    """Between the instant and the plan: no leader, maintenance, a wait that was recorded, or none of these."""
    planned = run.created_at
    spans = [*_without_leader(facts.events, due, planned), *_maintenance(facts.events, due, planned)]
    if run.waited is not None:
        spans.append(LatePart(Delay.WAITING, run.waited.since, planned, _reason(run), run=run.waited.blocked_by))
    cuts = {due, planned}
    for span in spans:
        cuts |= {at for at in (span.since, span.until) if due < at < planned}
    elections = [one for one in facts.events if isinstance(one.event, LeaderElected)]
    ordered = sorted(cuts)
    for since, until in pairwise(ordered):
        covering = next((span for span in spans if span.since <= since and span.until >= until), None)
        yield replace(covering or _unplanned(elections, since, until, planned), since=since, until=until)


def _unplanned(elections: Sequence[RecordedEvent], since: datetime, until: datetime, planned: datetime) -> LatePart:
    leader = next((one.event for one in reversed(elections) if one.at <= since), None)
    if not isinstance(leader, LeaderElected):
        return LatePart(Delay.PLANNING, since, until, "Not planned; the leader at that time is not recorded", False)
    led = f"{leader.node} was the leader (term {leader.term})"
    if until == planned and until - since <= ONE_ROUND:
        return LatePart(Delay.PLANNING, since, until, f"{led} and planned the run")
    return LatePart(
        Delay.PLANNING, since, until, f"{led} but had not planned the run; the reason is not recorded", False
    )


def _without_leader(events: Sequence[RecordedEvent], due: datetime, planned: datetime) -> Iterator[LatePart]:
    """The time before each election in which nobody was known to lead."""
    stepped: RecordedEvent | None = None
    before: LeaderElected | None = None
    for one in events:
        match one.event:
            case LeaderSteppedDown():
                stepped = one
            case LeaderElected() as elected:
                if due < one.at:
                    yield _gap(elected, one.at, stepped, before, due)
                stepped, before = None, elected
    if stepped is not None and stepped.at < planned:
        yield LatePart(Delay.NO_LEADER, max(due, stepped.at), planned, f"No leader: {stepped.event.text}")


def _gap(
    elected: LeaderElected, at: datetime, stepped: RecordedEvent | None, before: LeaderElected | None, due: datetime
) -> LatePart:
    now = f"{elected.node} became leader (term {elected.term})"
    if stepped is not None:
        assert isinstance(stepped.event, LeaderSteppedDown)
        words = f"No leader: {stepped.event.node} stepped down ({stepped.event.reason}); {now}"
        return LatePart(Delay.NO_LEADER, stepped.at, at, words)
    if elected.renewed:
        renewed = datetime.fromisoformat(elected.renewed)
        words = f"No leader: {elected.after} had last renewed its lease at {renewed:%H:%M:%S} UTC; {now}"
        return LatePart(Delay.NO_LEADER, renewed, at, words)
    if before is None:
        return LatePart(Delay.NO_LEADER, due, at, f"No leader is recorded before {now}")
    words = f"No leader planned the run until {now}; when {before.node} stopped leading is not recorded"
    return LatePart(Delay.NO_LEADER, due, at, words, recorded=False)


def _maintenance(events: Sequence[RecordedEvent], due: datetime, planned: datetime) -> Iterator[LatePart]:
    began: datetime | None = None
    for one in events:
        if isinstance(one.event, MaintenanceStarted):
            began = one.at
        elif isinstance(one.event, MaintenanceEnded):
            if one.at > due:
                yield LatePart(Delay.MAINTENANCE, began or due, one.at, f"Maintenance, ended by {one.event.by}")
            began = None
    if began is not None:
        yield LatePart(Delay.MAINTENANCE, began, planned, "Maintenance")


# --------------------------------------------------------------------------------------------- until a node has the run


def _before_node(run: Run, first: Attempt | datetime | None, until: datetime) -> Iterator[LatePart]:
    """From the plan or request to the dispatch of the first attempt that started."""
    for attempt in run.attempts:
        if attempt.started_at is not None:
            break
        why = attempt.error or attempt.outcome.value
        words = f"Dispatched to {node_name(attempt.node)}, which did not start the run: {why}"
        yield LatePart(Delay.EARLIER_NODE, run.created_at, attempt.ended_at, words)
    dispatched = _dispatched(run, first)
    if first is None and (run.node is None or dispatched is None):
        # It waits for its first dispatch.
        waiting = run.waiting
        if waiting is not None:
            yield LatePart(Delay.PLACEMENT, run.created_at, waiting.since, "In the leader's queue")
            yield LatePart(Delay.WAITING, waiting.since, until, str(waiting), run=waiting.blocked_by)
        else:
            yield LatePart(Delay.PLACEMENT, run.created_at, until, "In the leader's queue")
    elif dispatched is not None:
        if run.waited is not None and run.waited.since < dispatched:
            yield LatePart(Delay.PLACEMENT, run.created_at, run.waited.since, "In the leader's queue")
            yield LatePart(Delay.WAITING, run.waited.since, dispatched, _reason(run), run=run.waited.blocked_by)
        elif run.redispatches and not any(attempt.started_at is None for attempt in run.attempts):
            words = f"Dispatched {run.redispatches + 1} times; the earlier nodes are not recorded"
            yield LatePart(Delay.EARLIER_NODE, run.created_at, dispatched, words, recorded=False)
        elif dispatched - run.created_at <= ONE_ROUND:
            yield LatePart(Delay.PLACEMENT, run.created_at, dispatched, "In the leader's queue")
        else:
            words = "In the leader's queue; the reason is not recorded"
            yield LatePart(Delay.PLACEMENT, run.created_at, dispatched, words, recorded=False)


def _dispatched(run: Run, first: Attempt | datetime | None) -> datetime | None:
    """When the first attempt that started was dispatched; None if a later dispatch has replaced the record."""
    later = isinstance(first, Attempt) and first.fence != run.fence
    return None if later else run.dispatched_at


def _reason(run: Run) -> str:
    """Only the last reason of a wait is kept."""
    return "" if run.waited is None else f"{run.waited} (the last recorded reason)"


# --------------------------------------------------------------------------------------------------------- on its node


def _on_node(run: Run, facts: LateFacts, first: Attempt | datetime, until: datetime) -> Iterator[LatePart]:
    node = node_name(first.node if isinstance(first, Attempt) else run.node or "")
    times = first.times if isinstance(first, Attempt) else None
    taken = until if times is None else times.taken_at
    if facts.lock is not None:
        holder, ended = facts.lock
        words = f"The job's lock was held by {holder}"
        yield LatePart(Delay.LOCK, run.created_at, min(ended, taken), words, run=holder)
    if times is None:
        more = (
            "details are recorded when the attempt ends" if isinstance(first, datetime) else "no details were recorded"
        )
        yield LatePart(
            Delay.NODE, run.created_at, until, f"Dispatched to {node} and started there; {more}", recorded=False
        )
        return
    if _dispatched(run, first) is None:
        words = f"Dispatched to {node} and claimed; the times of the first dispatch are not recorded"
        yield LatePart(Delay.SENT, run.created_at, taken, words, recorded=False)
    else:
        yield LatePart(Delay.SENT, run.created_at, taken, f"Dispatched; waiting for {node} to claim the run")
    yield LatePart(Delay.SLOT, taken, times.slot_at, f"All slots of {node} were in use by other runs")
    yield LatePart(Delay.LOOP, times.slot_at, times.began_at, f"The event loop of {node} was busy")
    what = "Waiting for permits of the job's limits" if facts.limited else "Final checks and recording the start"
    yield LatePart(Delay.START, times.began_at, until, what)
