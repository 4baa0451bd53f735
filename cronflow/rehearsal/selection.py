"""Which jobs are rehearsed, and what is left out: every job that is not rehearsed is named with the reason.

A rehearsal is bounded by its number of fires. If the jobs have more in the period, the most frequent ones are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronflow.domain.amqp_target import AmqpTarget
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import SYSTEM_PREFIX, CommandTarget, HttpTarget, Job
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.fires import count_between, is_dynamic
from cronflow.domain.schedule.kinds import AnyOf, Every, Schedule, bound
from cronflow.rehearsal.scenario import MOST_FIRES, RehearsedJob, RehearsedNode

SECOND = timedelta(seconds=1)
MOST_NODES = 12
MOST_COUNTED = 10_000_000
NOWHERE = "http://rehearsal.invalid/"
NO_BROKER = "amqp://rehearsal.invalid"


@dataclass(frozen=True, slots=True)
class NotRehearsed:
    """A job that is not rehearsed. `fires` is how many it has in the period, None if they were not counted."""

    job: str
    reason: str
    fires: int | None = None


def select(
    jobs: Iterable[RehearsedJob],
    first: datetime,
    until: datetime,
    most: int = MOST_FIRES,
    calendars: Sequence[Calendar] = (),
) -> tuple[list[RehearsedJob], list[NotRehearsed]]:
    """The jobs to rehearse in the period, and those to leave out."""
    kept: dict[str, RehearsedJob] = {}
    left_out: list[NotRehearsed] = []
    fires: dict[str, int] = {}
    for one in jobs:
        if reason := _reason(one):
            left_out.append(NotRehearsed(one.job.name, reason))
            continue
        try:
            fires[one.job.name] = _fires(bound(one.job.schedule, calendars), first, until)
        except InvalidInput as error:
            left_out.append(NotRehearsed(one.job.name, f"cannot be computed: {error}"))
        else:
            kept[one.job.name] = one
    total = sum(fires.values())
    for name in sorted(fires, key=lambda name: (-fires[name], name)):
        if total <= most:
            break
        total -= fires[name]
        del kept[name]
        left_out.append(NotRehearsed(name, "fires too often", fires[name]))
    _drop_followers(kept, left_out)
    return [replace(one, job=without_target(one.job)) for one in kept.values()], left_out


def _reason(one: RehearsedJob) -> str | None:
    if one.job.name.startswith(SYSTEM_PREFIX):
        return "is a system job"
    if not one.job.enabled:
        return "is disabled"
    if one.done:
        return "will not fire again"
    if one.paused and one.paused_until is None:
        return "is paused"
    return None


def _fires(schedule: Schedule | None, first: datetime, until: datetime) -> int:
    """About how many fires a schedule has in the period."""
    if schedule is None:
        return 0
    if isinstance(schedule, Every) and is_dynamic(schedule):
        return (until - first) // schedule.interval
    counted = count_between(schedule, first, until - SECOND, MOST_COUNTED)
    if counted is None and isinstance(schedule, AnyOf):
        # Instants that several of them share count twice.
        return sum(_fires(part, first, until) for part in schedule.schedules)
    return MOST_COUNTED if counted is None else counted


def _drop_followers(kept: dict[str, RehearsedJob], left_out: list[NotRehearsed]) -> None:
    """A job that follows others never runs without them."""
    while True:
        lost = [name for name, one in kept.items() if any(up.job not in kept for up in one.job.after)]
        for name in lost:
            del kept[name]
            left_out.append(NotRehearsed(name, "follows a job that is not rehearsed"))
        if not lost:
            return


def without_target(job: Job) -> Job:
    """The job without its command or request, so that the rehearsal does not even have them. The arguments of a Python
    function stay, because limits may depend on them.
    """
    match job.target:
        case CommandTarget():
            return replace(job, target=CommandTarget("true"))
        case HttpTarget():
            return replace(job, target=HttpTarget(NOWHERE))
        case AmqpTarget():
            return replace(job, target=AmqpTarget(NO_BROKER))
    return job


def nodes_for(jobs: Sequence[Job], count: int, slots: int) -> list[RehearsedNode]:
    """Nodes that are assumed, with labels so that every job has a node; at least one for each set of labels."""
    sets = list({tuple(sorted(job.require.items())): dict(job.require) for job in jobs if job.require}.values()) or [{}]
    return [
        RehearsedNode(f"node-{number + 1}", slots, sets[number % len(sets)]) for number in range(max(count, len(sets)))
    ]


def merged(nodes: Sequence[RehearsedNode], most: int = MOST_NODES) -> list[RehearsedNode]:
    """At most so many nodes with the same slots in total: nodes with the same labels are merged. More remain only if
    there are more sets of labels.
    """
    if len(nodes) <= most:
        return list(nodes)
    groups: dict[tuple[tuple[str, str], ...], list[RehearsedNode]] = {}
    for node in nodes:
        groups.setdefault(tuple(sorted(node.labels.items())), []).append(node)
    share = max(1, most // len(groups))
    found: list[RehearsedNode] = []
    for group in groups.values():
        for number in range(min(share, len(group))):
            some = group[number::share]
            found.append(replace(some[0], slots=sum(node.slots for node in some)))
    return found
