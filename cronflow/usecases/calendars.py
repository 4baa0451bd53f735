"""Use cases for calendars: apply, predict, delete and look up. Every change is in the audit log, and has an event.

A change edits each job that uses the calendar: it gets a version that is bound to the new revision. If this process
dies in between, the leader edits the rest (see `calendar_binding`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cronflow.documents.calendars import calendar_document
from cronflow.domain.applied import Result
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.events import CalendarChanged, CalendarDeleted
from cronflow.domain.job import JobRecord
from cronflow.domain.planning import first_fire
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.exclusion_changes import ExclusionChanges, exclusion_changes
from cronflow.domain.schedule.exclusions import allowed_from
from cronflow.domain.schedule.pins import same_fires
from cronflow.ports import Backends, CalendarRecord, Clock
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.calendar_binding import BATCH, CalendarUpdates, rebound_job
from cronflow.usecases.edit import Editor, consumed
from cronflow.usecases.jobs import notify_leader

MOST_CALENDARS = 500
MOST_JOBS_SHOWN = 100
MOST_COMPARED = 50
"""Jobs whose fires are compared before a change."""
DAYS = 90
MOST_DAYS = 400
SHOWN_IN_CONFLICT = 3
MOST_AUDITED = 200
"""Days and windows in an entry of the audit log; of more, it has the number."""
TRIES = 5


class CalendarUse(NamedTuple):
    """A calendar and the jobs that use it: how many, and the first MOST_JOBS_SHOWN by name."""

    record: CalendarRecord
    job_count: int
    jobs: Sequence[str] = ()


class JobEffect(NamedTuple):
    """What a change of a calendar means for a job: when it runs next before and after it, and which fires change."""

    job: str
    before: datetime | None
    after: datetime | None
    changes: ExclusionChanges


class CalendarPlan(NamedTuple):
    """What a change would do. `jobs` is how many use the calendar; `compared` of them were looked at, and `effects` has
    those for which something changes within `days`.
    """

    result: Result
    jobs: int
    compared: int
    days: int
    effects: Sequence[JobEffect]


class CalendarUseCases:
    def __init__(self, backends: Backends, clock: Clock, audit: Auditor) -> None:
        self._calendars, self._jobs, self._bus = backends.calendars, backends.jobs, backends.bus
        self._clock = clock
        self._audit = audit
        editor = Editor(
            backends.jobs, backends.versions, backends.plans, backends.runs, backends.queue, clock, audit.emit
        )
        self._updates = CalendarUpdates(backends.calendars, backends.jobs, editor)

    def now(self) -> datetime:
        """The cluster's time, for what is coming."""
        return self._clock.now()

    async def find(self, *, after: str = "", limit: int = 500) -> list[CalendarUse]:
        """Calendars by name, after the name `after`, without the names of their jobs."""
        found = await self._calendars.find(after=after, limit=limit)
        counts = await self._calendars.user_counts([record.name for record in found])
        return [CalendarUse(record, counts[record.name]) for record in found]

    async def get(self, name: str) -> CalendarUse:
        """Raises NotFound."""
        record = await self._record(name)
        counts = await self._calendars.user_counts([name])
        return CalendarUse(record, counts[name], await self._calendars.users(name, limit=MOST_JOBS_SHOWN))

    async def plan(self, calendar: Calendar, days: int = DAYS) -> CalendarPlan:
        """Predict what `define` would do now. Raises InvalidInput as it does."""
        if not 1 <= days <= MOST_DAYS:
            raise InvalidInput(Problem("days", f"is {days}; it must be 1 to {MOST_DAYS}", f"leave it out for {DAYS}"))
        before = await self._present(calendar.name)
        await self._refuse_too_many(before)
        if before is not None and before.calendar == calendar:
            return CalendarPlan(
                "unchanged", (await self._calendars.user_counts([calendar.name]))[calendar.name], 0, days, ()
            )
        return await self._plan("created" if before is None else "changed", calendar, days)

    async def define(
        self, calendar: Calendar, *, by: str = "", days: int = DAYS
    ) -> tuple[CalendarUse, Result, CalendarPlan]:
        """Create the calendar, or change the one with this name and all jobs that use it. Returns also what changes.
        Raises InvalidInput if there are too many calendars, and Conflict if it or a job keeps changing concurrently;
        to repeat it is safe.
        """
        for _ in range(TRIES):
            before = await self._present(calendar.name)
            plan = await self.plan(calendar, days)
            if before is not None and before.calendar == calendar:
                # Of an earlier change that was interrupted, some jobs may be left.
                await self._update_jobs(calendar.name, by)
                return await self.get(calendar.name), "unchanged", plan
            rev = 0 if before is None else before.calendar.rev
            made = await self._calendars.put(calendar, rev, by, self._clock.now())
            if made is not None:
                break
        else:
            raise Conflict(f"calendar {calendar.name!r} keeps changing concurrently; try again")
        verb = "create" if before is None else "change"
        changed = Changed(f"calendar.{verb}", f"calendar:{calendar.name}", _facts(before), _facts(made))
        await self._audit.record_events(by, (changed, CalendarChanged(calendar.name, made.rev, plan.jobs, by)))
        await self._update_jobs(calendar.name, by)
        return await self.get(calendar.name), plan.result, plan

    async def delete(self, name: str, *, by: str = "") -> None:
        """Raises NotFound, and Conflict while jobs use the calendar. A job that is applied meanwhile keeps its
        revision.
        """
        before = await self._record(name)
        users = await self._calendars.users(name, limit=SHOWN_IN_CONFLICT)
        if users:
            count = (await self._calendars.user_counts([name]))[name]
            more = f" and {count - len(users)} more" if count > len(users) else ""
            raise Conflict(f"calendar {name!r} is used by {', '.join(users)}{more}; remove it from these jobs first")
        if not await self._calendars.delete(name, before.calendar.rev):
            raise Conflict(f"calendar {name!r} was changed concurrently; try again")
        changed = Changed("calendar.delete", f"calendar:{name}", _facts(before), None)
        await self._audit.record_events(by, (changed, CalendarDeleted(name, by)))

    async def _update_jobs(self, name: str, by: str) -> None:
        after, edited = "", 0
        while names := await self._calendars.users(name, after=after, limit=BATCH):
            edited += await self._updates.apply(names, by=by)
            after = names[-1]
        if edited:
            await notify_leader(self._bus)

    async def _plan(self, result: Result, calendar: Calendar, days: int) -> CalendarPlan:
        now = self._clock.now()
        counts = await self._calendars.user_counts([calendar.name])
        names = await self._calendars.users(calendar.name, limit=MOST_COMPARED)
        effects = []
        for record in sorted(await self._jobs.get(names), key=lambda one: one.name):
            effect = _effect(record, calendar, now, now + timedelta(days=days))
            if effect is not None:
                effects.append(effect)
            # Comparing takes some milliseconds for each.
            await asyncio.sleep(0)
        return CalendarPlan(result, counts[calendar.name], len(names), days, effects)

    async def _refuse_too_many(self, before: CalendarRecord | None) -> None:
        if before is None and len(await self._calendars.find(limit=MOST_CALENDARS)) >= MOST_CALENDARS:
            raise InvalidInput(Problem("", f"{MOST_CALENDARS} calendars already exist", "delete one first"))

    async def _present(self, name: str) -> CalendarRecord | None:
        found = await self._calendars.get([name])
        return found[0] if found else None

    async def _record(self, name: str) -> CalendarRecord:
        found = await self._present(name)
        if found is None:
            raise NotFound("calendar", name)
        return found


def _effect(record: JobRecord, calendar: Calendar, now: datetime, until: datetime) -> JobEffect | None:
    """None if the fires of the job stay as they are."""
    changed = rebound_job(record.job, [calendar])
    old, new, cursor = record.job.schedule, changed.schedule, record.next_fire
    if not record.active or old is None or new is None or cursor is None:
        return None
    first = now.replace(microsecond=0)
    following: datetime | None = cursor
    if same_fires(old, new):
        first = max(first, cursor)
    else:
        # Business days define the instants, so the edit moves the cursor.
        following = first_fire(changed, now, consumed(record, now))
    changes = exclusion_changes(old, new, first, until)
    if not changes.skipped and not changes.allowed:
        return None
    return JobEffect(record.name, allowed_from(old, cursor), allowed_from(new, following), changes)


def _facts(calendar: CalendarRecord | Calendar | None) -> object:
    if calendar is None:
        return None
    content = calendar.calendar if isinstance(calendar, CalendarRecord) else calendar
    facts = {**calendar_document(content), "revision": content.rev}
    if len(content.days) + len(content.windows) > MOST_AUDITED:
        facts |= {"days": f"{len(content.days)} days", "windows": f"{len(content.windows)} windows"}
    return facts
