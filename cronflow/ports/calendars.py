"""Calendars in MongoDB: the current content by name, and every revision that there ever was."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cronflow.domain.schedule.calendar import Calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarRecord:
    """A calendar with its current revision, and who changed it last."""

    calendar: Calendar
    updated_at: datetime
    updated_by: str = ""

    @property
    def name(self) -> str:
        return self.calendar.name


class CalendarStore(Protocol):
    """Calendars. Each change makes a new revision `name@rev`, which never changes and is never deleted, because stored
    jobs and their versions pin revisions. A record is bound to the revisions with which it was written, whichever store
    reads it.
    """

    async def get(self, names: Collection[str]) -> list[CalendarRecord]:
        """Those that exist, in no particular order."""

    async def find(self, *, after: str = "", limit: int = 500) -> list[CalendarRecord]:
        """A page ordered by name, starting after `after`."""

    async def put(self, calendar: Calendar, rev: int, by: str, now: datetime) -> Calendar | None:
        """Make this the content of the calendar if its revision is `rev` (0: there is no such calendar). Returns it
        with its new revision; None if the present one differs. The new revision can be read before it is current. If
        the writer dies in between, the next change completes what it began.
        """

    async def delete(self, name: str, rev: int) -> bool:
        """Delete the calendar if its revision is `rev`. False if it differs. Its revisions stay, and a new calendar of
        this name continues their numbers.
        """

    async def users(self, name: str, *, after: str = "", limit: int = 500) -> list[str]:
        """A page of the jobs that pin any revision of the calendar, by name, starting after `after`."""

    async def user_counts(self, names: Collection[str]) -> Mapping[str, int]:
        """How many jobs pin each of these calendars."""

    async def outdated(self, limit: int) -> list[str]:
        """Jobs that pin a revision of an existing calendar that is not the current one, by name. Without calendars it
        reads no jobs.
        """
