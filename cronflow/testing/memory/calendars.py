"""Calendars. The records of jobs hold the revisions that they are bound to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from cronflow.domain.job import JobRecord
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.pins import name_of_pin, pin_of, pins_of
from cronflow.ports import CalendarRecord
from cronflow.testing.memory.documents import DocumentPort


class MemoryCalendarStore(DocumentPort, port="calendars"):
    async def get(self, names: Collection[str]) -> list[CalendarRecord]:
        return self.documents.calendars.pick(names)

    async def find(self, *, after: str = "", limit: int = 500) -> list[CalendarRecord]:
        return self.documents.calendars.page(attrgetter("name"), after=after, limit=limit)

    async def put(self, calendar: Calendar, rev: int, by: str, now: datetime) -> Calendar | None:
        if not self._is_at(calendar.name, rev):
            return None
        made = replace(calendar, rev=self._next_rev(calendar.name))
        self.documents.calendars[calendar.name] = CalendarRecord(calendar=made, updated_at=now, updated_by=by)
        return made

    async def delete(self, name: str, rev: int) -> bool:
        if not rev or not self._is_at(name, rev):
            return False
        self._next_rev(name)
        self.documents.calendars.delete([name])
        return True

    async def users(self, name: str, *, after: str = "", limit: int = 500) -> list[str]:
        found = self.documents.jobs.page(attrgetter("name"), lambda one: name in _names(one), after=after, limit=limit)
        return [record.name for record in found]

    async def user_counts(self, names: Collection[str]) -> Mapping[str, int]:
        counts = Counter(name for record in self.documents.jobs.values() for name in _names(record))
        return {name: counts[name] for name in names}

    async def outdated(self, limit: int) -> list[str]:
        current = {name: pin_of(record.calendar) for name, record in self.documents.calendars.items()}
        found = [
            record.name
            for record in self.documents.jobs.values()
            if any(current.get(name_of_pin(pin), pin) != pin for pin in _pins(record))
        ]
        return sorted(found)[:limit]

    def _is_at(self, name: str, rev: int) -> bool:
        present = self.documents.calendars.get(name)
        return rev == (0 if present is None else present.calendar.rev)

    def _next_rev(self, name: str) -> int:
        revs = self.documents.calendar_revs
        revs[name] = revs.get(name, 0) + 1
        return revs[name]


def _pins(record: JobRecord) -> tuple[str, ...]:
    return () if record.deleted_at is not None else pins_of(record.job.schedule)


def _names(record: JobRecord) -> set[str]:
    return {name_of_pin(pin) for pin in _pins(record)}
