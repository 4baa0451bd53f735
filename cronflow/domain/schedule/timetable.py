"""A cron expression in a time zone: the instants at which it fires.

The rule is the same for five and six fields. Times of day (neither the hour nor the minute field begins with `*`): a
local time in the gap of a spring change fires once, at the first instant after the gap, however many times are in the
gap and even if that instant matches itself; a local time that occurs twice in autumn fires only the first time.
Intervals (the hour or the minute field begins with `*`): an instant fires exactly when the clocks show a matching time,
so both occurrences of a repeated hour fire, a skipped hour does not fire, and `*/15 * * * *` keeps its fifteen real
minutes.

All instants are UTC-aware whole seconds. `kinds` applies the start and end of a schedule.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import REFERENCE, Expression, parse_expression
from cronflow.domain.schedule.zones import SECOND

_HORIZON = timedelta(days=50 * 366)


class Timetable:
    """The instants of one expression in one zone. The cost of a method does not depend on how many fires it skips."""

    __slots__ = ("expression", "zone")

    def __init__(self, expression: Expression, zone: ZoneInfo) -> None:
        self.expression, self.zone = expression, zone

    def after(self, instant: datetime) -> datetime | None:
        """The first fire strictly after the instant; None when there is none within 50 years."""
        if self.expression.keeps_interval:
            return self._interval_after(instant)
        local = self.expression.at_or_after(zones.earliest_local(self.zone, instant + SECOND))
        return None if local is None else zones.instant_of(self.zone, local)

    def before(self, instant: datetime, not_before: datetime) -> datetime | None:
        """The last fire in [not_before, instant]."""
        if self.expression.keeps_interval:
            fire = self._interval_before(instant, not_before)
        else:
            local = self.expression.at_or_before(zones.latest_local(self.zone, instant))
            fire = None if local is None else zones.instant_of(self.zone, local)
        return fire if fire is not None and fire >= not_before else None

    def count(self, first: datetime, last: datetime, limit: int) -> int | None:
        """The number of fires in [first, last], None when they are more than `limit`."""
        count_piece = self._count_readings if self.expression.keeps_interval else self._count_times
        total = 0
        while first <= last and total <= limit:
            change = zones.first_change(self.zone, first, last)
            end = last if change is None else change.at - SECOND
            total += count_piece(first, end, limit)
            first = end + SECOND
        return total if total <= limit else None

    def _interval_after(self, instant: datetime) -> datetime | None:
        # Walk the stretches of constant offset. `local` is the first match after the reading `seen`, so the next
        # stretch may keep it as long as its own first reading lies between the two.
        offset = zones.offset_at(self.zone, instant)
        seen = instant.replace(tzinfo=None) + offset
        horizon = seen + _HORIZON
        local = self.expression.at_or_after(seen + SECOND)
        while local is not None and local <= horizon:
            fire = _instant(local, offset)
            change = zones.first_change(self.zone, instant, fire)
            if change is None:
                return fire
            instant, offset = change.at, change.after
            opening = instant.replace(tzinfo=None) + offset
            if not seen < opening <= local:
                seen = opening - SECOND
                local = self.expression.at_or_after(opening)
        return None

    def _interval_before(self, instant: datetime, not_before: datetime) -> datetime | None:
        offset = zones.offset_at(self.zone, instant)
        seen = instant.replace(tzinfo=None) + offset
        local = self.expression.at_or_before(seen)
        while local is not None:
            fire = _instant(local, offset)
            change = zones.last_change(self.zone, fire, instant)
            if change is None:
                return fire
            if change.at <= not_before:
                return None
            instant, offset = change.at - SECOND, change.before
            closing = instant.replace(tzinfo=None) + offset
            if not local <= closing <= seen:
                seen = closing
                local = self.expression.at_or_before(closing)
        return None

    def _count_readings(self, first: datetime, last: datetime, limit: int) -> int:
        return self.expression.count(zones.reading(self.zone, first), zones.reading(self.zone, last), limit)

    def _count_times(self, first: datetime, last: datetime, limit: int) -> int:
        earliest, latest = zones.earliest_local(self.zone, first), zones.reading(self.zone, last)
        after_gap = zones.reading(self.zone, first)
        if earliest >= after_gap:
            return self.expression.count(earliest, latest, limit)
        at_first = 1 if self.expression.count(earliest, after_gap, 1) else 0
        return at_first + self.expression.count(after_gap + SECOND, latest, limit)


@lru_cache(maxsize=4096)
def find_timetable(expr: str, tz: str) -> Timetable:
    """The timetable of an expression in the zone of that name.

    Raises InvalidInput when either is wrong, or when the expression never fires there.
    """
    timetable = Timetable(parse_expression(expr), zones.find_zone(tz))
    # No zone skips the same hour every day.
    if not timetable.expression.every_day and timetable.after(REFERENCE.replace(tzinfo=UTC)) is None:
        what = f"cron {expr!r} never fires in {tz}: all its times fall into the hour that the clocks skip there"
        raise InvalidInput(Problem("", what, "choose another hour, or a minute without *"))
    return timetable


@lru_cache(maxsize=16_384)
def next_fire(expr: str, tz: str, after: datetime) -> datetime | None:
    """`Timetable.after`, remembered: many jobs share an expression and a cursor."""
    return find_timetable(expr, tz).after(after)


def _instant(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=UTC)
