"""Looks for the runs of the instants that are due: by their ids, and for those without one, by everything else that
accounts for an instant.

An instant is accounted for by its run, by a run that covers it, or by the pending run of its job. One that the planner
has not reached is late but not missing while the planner looks at its job again and again, or while a live leader has
no free slot. All reads are bounded, whatever the number of jobs; those that were examined longest ago come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from cronflow.domain.job import JobRecord
from cronflow.domain.run import SCHEDULED, run_id
from cronflow.domain.schedule.zones import SECOND
from cronflow.ports import JobStore, RunQuery, RunStore
from cronflow.watcher.schedules import LOOK_BACK, ScheduleBook, WatchedJob, watched

IDS_AT_ONCE = 5000
MOST_EXAMINED = 2000
RECORDS_AT_ONCE = 500
MOST_NAMED = 3
SAMPLE = 100


class Verdict(Enum):
    """What became of an instant that has no run of its own."""

    ACCOUNTED = "accounted for"
    LATE = "late, and looked after"
    UNPLANNED = "not planned"
    LOST = "passed by the cursor without a run"
    UNKNOWN = "its job is not there"


@dataclass(slots=True)
class InstantReport:
    """What a round found. `missing` has the jobs with an instant without a run: the first instant, and how many there
    are, as far as they were counted. `late` jobs wait, and the planner knows. Of `moving` jobs more instants are to be
    examined. `unexamined` jobs have an instant without a run of its own. `given_up` were never accounted for. `found`
    is a sample of the latest runs.
    """

    judged: int = 0
    missing: dict[str, tuple[datetime, int]] = field(default_factory=dict)
    late: int = 0
    moving: int = 0
    unexamined: int = 0
    given_up: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    @property
    def since(self) -> datetime | None:
        """The earliest instant that is missing."""
        return min((first for first, _ in self.missing.values()), default=None)

    def text(self, *, led: bool) -> str:
        """A sentence for people. Without a leader, jobs that were not examined count too."""
        jobs = len(self.missing)
        instants = sum(count for _, count in self.missing.values())
        more = self.unexamined if not led else 0
        least = "at least " if more or self.unexamined else ""
        counted = f"{instants + more:,} {'instant' if instants + more == 1 else 'instants'}"
        first = sorted(self.missing.items(), key=lambda one: (one[1][0], one[0]))[:MOST_NAMED]
        named = ", ".join(run_id(job, instant) for job, (instant, _) in first)
        of = f"{jobs + more:,} {'job has' if jobs + more == 1 else 'jobs have'}"
        return f"{least}{counted} of {of} no run; the first: {named}"


class InstantJudge:
    """Judges the instants of a book. `grace` is how long a run may take to appear."""

    def __init__(self, book: ScheduleBook, jobs: JobStore, runs: RunStore, grace: timedelta) -> None:
        self._book, self._jobs, self._runs, self._grace = book, jobs, runs, grace
        self._round = 0

    async def judge(self, now: datetime, *, full: bool) -> InstantReport:
        """Judge the instants that are older than the grace time. `full`: a live leader has no free slot."""
        self._round += 1
        report = InstantReport()
        until = now - self._grace
        suspects: dict[str, Sequence[datetime]] = {}
        # A second look at what the first one moved, so that the end of an outage is not taken for more of it.
        chosen: Iterable[WatchedJob] = self._book.due(until)
        for _ in range(2):
            suspects = await self._without_run(chosen, until, report)
            moved = await self._examine(suspects, now, report, full=full)
            chosen = [job for job in moved if job.next is not None and job.next <= until]
            if not chosen:
                break
        else:
            report.moving = len(list(chosen))
        return report

    async def _without_run(
        self, jobs: Iterable[WatchedJob], until: datetime, report: InstantReport
    ) -> dict[str, Sequence[datetime]]:
        """By job: its due instants from the first one that has no run of its own. All jobs before these move on."""
        suspects: dict[str, Sequence[datetime]] = {}
        for part in _parts(jobs, until):
            ids = {run_id(name, instant) for name, instants in part.items() for instant in instants}
            existing = await self._runs.existing(ids)
            report.judged += len(ids)
            report.found = [*report.found, *existing][-SAMPLE:]
            for name, instants in part.items():
                missing = next((n for n, at in enumerate(instants) if run_id(name, at) not in existing), None)
                job = self._book.jobs[name]
                if missing is None:
                    job.pass_over(instants[-1])
                else:
                    job.next = instants[missing]
                    suspects[name] = instants[missing:]
        return suspects

    async def _examine(
        self, suspects: Mapping[str, Sequence[datetime]], now: datetime, report: InstantReport, *, full: bool
    ) -> list[WatchedJob]:
        """Returns the jobs that moved on."""
        order = sorted(suspects, key=lambda name: (self._book.jobs[name].examined, suspects[name][0]))
        chosen = order[:MOST_EXAMINED]
        report.unexamined += len(order) - len(chosen)
        moved = []
        for at in range(0, len(chosen), RECORDS_AT_ONCE):
            names = chosen[at : at + RECORDS_AT_ONCE]
            records = {record.name: record for record in await self._jobs.get(names)}
            for name in names:
                job = self._book.jobs[name]
                job.examined = self._round
                verdict = await self._verdict(job, records.get(name), now, full=full)
                match verdict:
                    case Verdict.ACCOUNTED:
                        moved.append(self._book.jobs[name])
                    case Verdict.LATE:
                        report.late += 1
                    case Verdict.LOST if now - suspects[name][0] > LOOK_BACK:
                        report.given_up.append(run_id(name, suspects[name][0]))
                        job.pass_over(suspects[name][0])
                    case Verdict.LOST | Verdict.UNPLANNED:
                        report.missing[name] = suspects[name][0], len(suspects[name])
        return moved

    async def _verdict(self, job: WatchedJob, record: JobRecord | None, now: datetime, *, full: bool) -> Verdict:
        """Judge the instant at `job.next`. What is accounted for is passed over."""
        instant = job.next
        if record is None or instant is None:
            return Verdict.UNKNOWN
        if record.ver != job.ver or not record.active:
            # It was edited since it was read: its instants follow from the present version.
            self._book.jobs[job.name] = watched(record, now)
            return Verdict.ACCOUNTED
        pending = record.pending_run
        if pending is not None:
            last = pending.fire if pending.covers is None else pending.covers.last
            if pending.fire <= instant <= last:
                job.pass_over(last)
                return Verdict.ACCOUNTED
        assert record.next_fire is not None
        if record.next_fire <= instant:
            looked_after = record.due_at is not None and record.due_at > now - self._grace
            return Verdict.LATE if looked_after or full else Verdict.UNPLANNED
        if (last_covered := await self._covered(job.name, instant)) is not None:
            job.pass_over(last_covered)
            return Verdict.ACCOUNTED
        if record.since != job.since:
            # The cursor was corrected, for other time zone data.
            job.since = record.since
        if not job.expects(instant):
            job.pass_over(instant)
            return Verdict.ACCOUNTED
        return Verdict.LOST

    async def _covered(self, job: str, instant: datetime) -> datetime | None:
        """The last instant of the run that covers this one."""
        query = RunQuery(job=job, kinds=SCHEDULED, until=instant + SECOND, limit=1)
        for run in await self._runs.find(query):
            last = run.fire_at if run.covers is None else run.covers.last
            if instant <= last:
                return last
        return None


def _parts(jobs: Iterable[WatchedJob], until: datetime) -> Iterator[dict[str, Sequence[datetime]]]:
    """The due instants by job, in parts of about IDS_AT_ONCE."""
    found: dict[str, Sequence[datetime]] = {}
    count = 0
    for job in list(jobs):
        if instants := job.due(until):
            found[job.name] = instants
            count += len(instants)
        if count >= IDS_AT_ONCE:
            yield found
            found, count = {}, 0
    if found:
        yield found
