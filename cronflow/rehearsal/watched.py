"""The collections of jobs and runs of a rehearsal: they remember what was written, and know what comes next.

The director needs to know in each moment whether anything is under way and when something falls due. So both tables
keep that up to date with each write. Runs that have ended are removed, because the memory backend has no indexes;
`seen` keeps their last version.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto

from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run, RunState, run_id
from cronflow.testing.memory.documents import Documents, Table

LONGEST_BACK_OFF = timedelta(seconds=6)
"""The planner looks again after at most five seconds at a job that waits for no certain instant."""


MOST_ENDED = 200
KEPT_S = 15.0
LEAST_LEASE, LONG_LEASE = timedelta(seconds=20), timedelta(minutes=10)


class _Group(Enum):
    """What a run waits for. `PARENT`: for its parts. `UNANSWERED`: it has ended, and other jobs may follow it."""

    TAKEN = auto()
    RUNNING = auto()
    QUEUED = auto()
    PARENT = auto()
    UNANSWERED = auto()
    ENDED = auto()


class WatchedJobs(Table[str, JobRecord]):
    """`waits` has the last reason for which the fire of a job waited."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed
        self._due: list[tuple[datetime, str]] = []
        self.waits: dict[tuple[str, datetime], str] = {}

    def __setitem__(self, name: str, record: JobRecord) -> None:
        present = self.get(name)
        super().__setitem__(name, record)
        # A job that waits is deferred again and again, which is no activity.
        if present is None or present.rev != record.rev:
            self._changed()
        if record.active and record.due_at is not None:
            heapq.heappush(self._due, (record.due_at, name))
        if record.waiting is not None:
            self.waits[name, record.waiting.fire] = record.waiting.reason

    def next_due(self, now: datetime) -> tuple[datetime | None, bool]:
        """The next instant at which the planner must act, and whether a job waits for something without an instant."""
        stuck = False
        waiting: list[tuple[datetime, str]] = []
        found = None
        while self._due:
            due_at, name = self._due[0]
            record = self.get(name)
            if record is None or not record.active or record.due_at != due_at:
                heapq.heappop(self._due)
            elif due_at <= now or _backs_off(record, due_at, now):
                stuck = True
                waiting.append(heapq.heappop(self._due))
            else:
                found = due_at
                break
        for entry in waiting:
            heapq.heappush(self._due, entry)
        return found, stuck


def _backs_off(record: JobRecord, due_at: datetime, now: datetime) -> bool:
    """Whether the job is deferred by a back-off, and not to an instant that a rate limit sets."""
    deferred = record.next_fire is not None and due_at > record.next_fire
    return deferred and not record.job.has_limits and due_at - now < LONGEST_BACK_OFF


class WatchedRuns(Table[str, Run]):
    """`seen` has the last version of every run. `alive` are the nodes that are up, by id."""

    def __init__(self, changed: Callable[[], None], monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._changed, self._monotonic = changed, monotonic
        self._ended_s: dict[str, float] = {}
        self._groups: dict[_Group, dict[str, None]] = {group: {} for group in _Group}
        self._group_of: dict[str, _Group] = {}
        self.seen: dict[str, Run] = {}
        self.alive: set[str] = set()

    def __setitem__(self, name: str, run: Run) -> None:
        present = self.get(name)
        super().__setitem__(name, run)
        # A renewed lease, or a wait that goes on, is no activity.
        if present is None or (present.state, present.fence) != (run.state, run.fence):
            self._changed()
        self.seen[name] = run
        group, before = _group(run), self._group_of.get(name)
        if group is not before:
            if before is not None:
                del self._groups[before][name]
            self._groups[group][name] = None
            if group is _Group.ENDED:
                self._ended_s[name] = self._monotonic()
            self._group_of[name] = group

    @property
    def unsettled(self) -> bool:
        """Whether a run is on its way to a node, or its end is yet to be answered."""
        return bool(self._groups[_Group.TAKEN] or self._groups[_Group.UNANSWERED])

    def next_check(self, now: datetime) -> tuple[datetime | None, bool]:
        """The next instant at which the leader looks at a run that waits, and whether one waits without an instant."""
        waiting = [self[name] for name in self._groups[_Group.QUEUED]]
        # Their leases expire.
        waiting += (run for name in self._groups[_Group.RUNNING] if (run := self[name]).node not in self.alive)
        later = [
            run.check_at
            for run in waiting
            if run.check_at is not None
            and run.check_at > now
            and not (run.waiting is not None and run.check_at - now < LONGEST_BACK_OFF)
        ]
        return min(later, default=None), len(later) < len(waiting)

    def extend_leases(self, now: datetime) -> None:
        """Time was skipped, in which the nodes would have renewed the leases of their runs. They are renewed for longer
        than by a node, so that this is rare; see `shorten_leases`.
        """
        self._renew(LONG_LEASE, now, lambda left: left < LEAST_LEASE)

    def shorten_leases(self, now: datetime, lease: timedelta) -> None:
        """A node is about to die: no lease may be longer than one that it has just renewed."""
        self._renew(lease, now, lambda left: left > lease)

    def _renew(self, lease: timedelta, now: datetime, applies: Callable[[timedelta], bool]) -> None:
        for name in self._groups[_Group.RUNNING]:
            run = self[name]
            if run.check_at is not None and run.node in self.alive and applies(run.check_at - now):
                super().__setitem__(name, replace(run, check_at=now + lease))

    def forget_ended(self, jobs: WatchedJobs, now_s: float) -> None:
        """Remove the runs that have ended, except those that somebody would insert again: that of a pending run, and
        the latest, whose intents may be left. Parts stay until their parent has ended.
        """
        ended, parents = self._groups[_Group.ENDED], self._groups[_Group.PARENT]
        if len(ended) < 2 * len(jobs) + MOST_ENDED:
            return
        for name in list(ended):
            run = self[name]
            record = jobs.get(run.job)
            pending = record.pending_run if record is not None else None
            if (pending is not None and run_id(run.job, pending.fire) == name) or run.parent in parents:
                continue
            if now_s - self._ended_s[name] < KEPT_S:
                continue
            del self[name], ended[name], self._group_of[name], self._ended_s[name]


def _group(run: Run) -> _Group:
    if not run.is_open:
        return _Group.UNANSWERED if run.followed else _Group.ENDED
    if run.state is RunState.DISPATCHED:
        return _Group.TAKEN
    if run.state is RunState.RUNNING:
        return _Group.RUNNING
    return _Group.QUEUED if run.split is None else _Group.PARENT


def watch(documents: Documents, changed: Callable[[], None]) -> tuple[WatchedJobs, WatchedRuns]:
    """Replace the empty collections by watched ones."""
    jobs, runs = WatchedJobs(changed), WatchedRuns(changed, documents.clock.monotonic)
    documents.jobs, documents.runs = jobs, runs
    return jobs, runs
