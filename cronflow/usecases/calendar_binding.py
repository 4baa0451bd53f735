"""Binds jobs to the current revisions of the calendars that they name, and refuses names that do not exist.

Every edit of a job does this, so a job that is edited always has the current calendars. After a change of a calendar,
`CalendarUpdates` edits the jobs that pin an earlier revision: the process that made the change does so at once, and the
leader does what such a process has left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cronflow.documents import nearest
from cronflow.documents.values import under
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.kinds import Rules, Schedule, bound
from cronflow.ports import CalendarStore, JobStore
from cronflow.usecases.edit import Edited, Editor

BATCH = 250
REMEDY = "define it first: cronflow calendars apply -f FILE"


def named_in(schedule: Schedule | None) -> tuple[str, ...]:
    """The calendars that a schedule names."""
    return schedule.calendar_names if isinstance(schedule, Rules) else ()


async def bind_jobs(calendars: CalendarStore, jobs: Mapping[str, Job]) -> dict[str, Job]:
    """The jobs, bound. Their keys are their places in messages. Raises InvalidInput for calendars that do not exist."""
    names = {name for job in jobs.values() for name in named_in(job.schedule)}
    if not names:
        return dict(jobs)
    found = await current(calendars, names)
    if names - {calendar.name for calendar in found}:
        known = [record.name for record in await calendars.find()]
        raise InvalidInput([one for place, job in jobs.items() for one in _problems(place, job, found, known)])
    return {place: bound_job(job, found) for place, job in jobs.items()}


async def bind_schedule(calendars: CalendarStore, schedule: Schedule) -> Schedule:
    """The schedule, bound. Raises InvalidInput for calendars that do not exist."""
    names = named_in(schedule)
    if not names:
        return schedule
    found = await current(calendars, names)
    missing = set(names) - {calendar.name for calendar in found}
    if missing:
        known = [record.name for record in await calendars.find()]
        raise InvalidInput(list(_absent("schedule", schedule, found, known)))
    made = bound(schedule, found)
    assert made is not None
    return made


async def current(calendars: CalendarStore, names: Collection[str]) -> list[Calendar]:
    """The current revisions of those that exist."""
    return [record.calendar for record in await calendars.get(names)] if names else []


def bound_job(job: Job, calendars: Sequence[Calendar]) -> Job:
    """The job with these calendars."""
    return replace(job, schedule=bound(job.schedule, calendars)) if named_in(job.schedule) else job


def rebound_job(job: Job, calendars: Sequence[Calendar]) -> Job:
    """The job with these calendars in place of those of the same names. A calendar that was deleted stays as it is."""
    schedule = job.schedule
    if not isinstance(schedule, Rules) or not schedule.book:
        return job
    newer = {calendar.name: calendar for calendar in calendars}
    return bound_job(job, [newer.get(calendar.name, calendar) for calendar in schedule.book])


class CalendarUpdates:
    """Edits the jobs that pin earlier revisions of calendars."""

    def __init__(self, calendars: CalendarStore, jobs: JobStore, editor: Editor) -> None:
        self._calendars, self._jobs, self._editor = calendars, jobs, editor

    async def apply(self, names: Sequence[str], *, by: str = "") -> int:
        """Bind these jobs to the current revisions. Returns how many have changed. Raises Conflict when a job keeps
        changing concurrently; to repeat it is safe.
        """
        changed = 0
        for first in range(0, len(names), BATCH):
            batch = names[first : first + BATCH]
            records = await self._jobs.get(batch)
            named = {name for record in records for name in named_in(record.job.schedule)}
            calendars = await current(self._calendars, named)
            done: dict[str, Edited] = {}
            await self._editor.amend_all(batch, lambda job: rebound_job(job, calendars), done, by=by)  # noqa: B023
            changed += sum(edited.result == "changed" for edited in done.values())
        return changed

    async def finish(self) -> int:
        """Bind the jobs that somebody has left behind. Returns how many have changed."""
        changed = 0
        while names := await self._calendars.outdated(BATCH):
            edited = await self.apply(names)
            changed += edited
            if not edited:
                # Somebody else edits them.
                break
        return changed


def _problems(place: str, job: Job, found: Sequence[Calendar], known: Sequence[str]) -> Iterable[Problem]:
    return _absent(f"{place}.schedule" if place else "schedule", job.schedule, found, known)


def _absent(
    place: str, schedule: Schedule | None, found: Sequence[Calendar], known: Sequence[str]
) -> Iterable[Problem]:
    if not isinstance(schedule, Rules):
        return
    present = {calendar.name for calendar in found}
    for key in ("calendars", "blackout", "only_in"):
        for number, name in enumerate(getattr(schedule, key)):
            if isinstance(name, str) and name not in present:
                near = nearest(name, known)
                remedy = f"did you mean {near}? Otherwise {REMEDY}" if near else REMEDY
                yield from under(place, [Problem(f"{key}[{number}]", f"there is no calendar {name!r}", remedy)])
