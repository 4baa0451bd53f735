"""Reads the past: the summary of an incident, the onset of a job's failures, the jobs of an instant, and what a
timeline shows besides its runs. Every query is bounded, and an answer names what it leaves out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace

from cronflow.domain.errors import InvalidInput, NotFound, Problem
from cronflow.domain.events import RecordedEvent, cursor_of
from cronflow.domain.incident import Incident
from cronflow.domain.job import SYSTEM_PREFIX, JobRecord
from cronflow.domain.marks import MARKED, ClusterMark, marks_of
from cronflow.domain.onset import SHORTLY, Onset, onset_of
from cronflow.domain.rollup import BucketSize, Tally, quantile_ms
from cronflow.domain.run import ENDED, Run
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.version import Version, version_at, version_of
from cronflow.ports import Backends, Clock, RunQuery
from cronflow.usecases.failures import failures_between

MOST_EVENTS = 1000
MOST_STARTS = 200
MOST_RUNS = 200
MOST_COUNTED = 100_000
MOST_FIRES = 500
LONGEST = timedelta(days=31)
LOOK_AHEAD = timedelta(hours=24)
JOBS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job as it was at an instant, and its last run that was due before."""

    version: Version
    last: Run | None


@dataclass(frozen=True, slots=True)
class TimelineExtras:
    """The number of the runs in a time range, `more` if there are further ones; the marks in it; and the next fires
    until an instant, `more_fires` if there are further ones.
    """

    runs: int
    more: bool
    marks: Sequence[ClusterMark]
    fires: Sequence[tuple[str, datetime]]
    more_fires: bool


class PostMortem:
    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._backends = backends
        self._clock = clock

    async def incident(self, since: datetime, until: datetime | None = None) -> Incident:
        """The summary of a time range, until now by default. Raises InvalidInput."""
        now = self._clock.now()
        until = now if until is None else min(until, now)
        check_range(since, until)
        failures, cut = await failures_between(self._backends.runs, since, until)
        events, more = await self._events(since, until)
        size = _size(since, now)
        tallies = [] if size is None else await self._backends.rollups.read(size, size.begin(since), until)
        whole = Tally()
        for bucket in tallies:
            whole.add(bucket.tally)
        notes = []
        if cut:
            notes.append("Only the newest failed and lost runs were read; use a shorter time range.")
        if more:
            notes.append(f"Only the first {MOST_EVENTS:,} events were read; use a shorter time range.")
        if size is None:
            notes.append("Counts and lateness for this time range are no longer stored.")
        elif size is not BucketSize.MINUTE:
            notes.append(
                f"Counts and lateness are stored per {size.value}, so they include all of the first {size.value}."
            )
        if not events and await self._oldest_is_after(since):
            notes.append("Events for this time range are no longer stored.")
        marks = await self._marks(events, since)
        return Incident(since, until, whole.states, failures, marks, quantile_ms(whole.lateness, 1.0), notes)

    async def onset(self, job: str) -> Onset | None:
        """When the job began to fail, and what changed then; None if it does not fail. Raises NotFound."""
        if not await self._backends.jobs.get([job]):
            raise NotFound("job", job)
        newest = await self._backends.runs.find(RunQuery(job=job, states=ENDED, limit=MOST_RUNS))
        runs = newest[::-1]
        found = onset_of(runs, ())
        if found is None:
            return None
        began = found.first.started_at or found.first.fire_at
        events, _ = await self._events(began - SHORTLY, began + timedelta(seconds=1))
        return onset_of(runs, await self._marks(events, began - SHORTLY))

    async def jobs_at(self, at: datetime, after: str = "") -> tuple[list[PastJob], str | None]:
        """Jobs as they were at an instant, by name, and the name to continue after. Jobs that were deleted since are
        left out.
        """
        page = await self._backends.jobs.find(after=after, limit=JOBS_AT_ONCE)
        records = [record for record in page if not record.name.startswith(SYSTEM_PREFIX)]
        found = await asyncio.gather(*(self._past_job(record.name, version_of(record), at) for record in records))
        return [one for one in found if one is not None], page[-1].name if len(page) == JOBS_AT_ONCE else None

    async def _past_job(self, name: str, present: Version, at: datetime) -> PastJob | None:
        kept = [present]
        if present.at > at:
            kept = [*(v for v in await self._backends.versions.of(name) if v.ver < present.ver), present]
        version = version_at(kept, at)
        if version is None or version.deleted:
            return None
        last = await self._backends.runs.find(RunQuery(job=name, until=at, limit=1))
        return PastJob(version, last[0] if last else None)

    async def timeline(
        self,
        since: datetime,
        until: datetime,
        job: str | None = None,
        node: str | None = None,
        fires_until: datetime | None = None,
    ) -> TimelineExtras:
        """What a timeline shows besides its runs. Raises InvalidInput."""
        check_range(since, until)
        query = RunQuery(job=job, node=node, since=since, until=until)
        (events, _), runs = await asyncio.gather(
            self._events(since, until), self._backends.runs.count(query, MOST_COUNTED + 1)
        )
        fires, more = ([], False) if fires_until is None else await self._fires(fires_until, job)
        marks = await self._marks(events, since)
        return TimelineExtras(min(runs, MOST_COUNTED), runs > MOST_COUNTED, marks, fires, more)

    async def _fires(self, until: datetime, job: str | None) -> tuple[list[tuple[str, datetime]], bool]:
        """The next fires by the schedules alone, earliest first."""
        now = self._clock.now()
        until = min(until, now + LOOK_AHEAD)
        store = self._backends.jobs
        records = await store.get([job]) if job is not None else await store.due(until, MOST_FIRES + 1)
        schedules = {one.name: one.job.schedule for one in records if _fires_by_itself(one) and one.job.schedule}
        first = {one.name: one.next_fire for one in records if one.next_fire is not None and one.next_fire > now}
        # Each step takes the earliest fire of all jobs, so no more are computed than are listed. The missed fires of a
        # job that waits are passed over at once.
        ahead = [(fire, name) for name, one in schedules.items() if (fire := first.get(name) or next_after(one, now))]
        heapify(ahead)
        found: list[tuple[str, datetime]] = []
        while ahead and ahead[0][0] <= until and len(found) <= MOST_FIRES:
            fire, name = ahead[0]
            found.append((name, fire))
            following = next_after(schedules[name], fire)
            if following is None:
                heappop(ahead)
            else:
                heapreplace(ahead, (following, name))
        more = len(found) > MOST_FIRES or len(records) > MOST_FIRES
        return found[:MOST_FIRES], more

    async def _events(self, since: datetime, until: datetime) -> tuple[list[RecordedEvent], bool]:
        found = await self._backends.events.find(kinds=MARKED, after=cursor_of(since), limit=MOST_EVENTS)
        return [one for one in found if one.at <= until], len(found) == MOST_EVENTS

    async def _marks(self, events: Sequence[RecordedEvent], since: datetime) -> list[ClusterMark]:
        starts = await self._backends.events.find(kinds={"node_joined"}, before=cursor_of(since), limit=MOST_STARTS)
        return marks_of(events, starts[::-1])

    async def _oldest_is_after(self, at: datetime) -> bool:
        oldest = await self._backends.events.find(after=cursor_of(datetime.fromtimestamp(0, at.tzinfo)), limit=1)
        return not oldest or oldest[0].at > at


def _fires_by_itself(record: JobRecord) -> bool:
    held = record.paused or record.deleted_at is not None or not record.job.enabled
    return not held and record.next_fire is not None and not record.name.startswith(SYSTEM_PREFIX)


def check_range(since: datetime, until: datetime) -> None:
    """Raises InvalidInput."""
    if since >= until:
        raise InvalidInput(Problem("since", "is not before the end of the time range", "give an earlier instant"))
    if until - since > LONGEST:
        what = f"is more than {LONGEST.days} days before the end of the time range"
        raise InvalidInput(Problem("since", what, "give a later instant"))


def _size(since: datetime, now: datetime) -> BucketSize | None:
    """The finest buckets that are still kept."""
    return next((size for size in BucketSize if now - since < size.kept), None)
