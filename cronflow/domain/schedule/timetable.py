"""A set of local times in a time zone: the instants at which it fires.

Time is cut into stretches of constant offset. Within one, an instant fires when its local time is in the set. Two rules
of the `Dst` policy apply at its beginning: where the clocks went forward, the times of the gap fire as `gap` says, and
where they went back, `overlap` says which occurrence of the repeated times counts. An interval always has the policy
`KEEP_INTERVAL`, so an instant fires exactly when the clocks show a matching time, and `*/15 * * * *` keeps its fifteen
real minutes.

All instants are UTC-aware whole seconds. The cost of a method does not depend on how many fires it skips. `fires`
applies the start and end of a schedule.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import REFERENCE, Expression, parse_expression
from cronflow.domain.schedule.dst import DEFAULT_DST, KEEP_INTERVAL, Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.local_times import LocalTimes
from cronflow.domain.schedule.zone_cache import depends_on_zone_data
from cronflow.domain.schedule.zones import SECOND, OffsetChange

_HORIZON = timedelta(days=50 * 366)
# No clock has ever jumped by more than a day, so a change can affect instants this far away.
_REACH = timedelta(days=1, hours=1)


class Timetable:
    __slots__ = ("_found_after", "_found_before", "_zone_changes", "dst", "times", "zone")

    def __init__(self, times: LocalTimes, zone: ZoneInfo, dst: Dst = DEFAULT_DST) -> None:
        self.times, self.zone = times, zone
        self.dst = KEEP_INTERVAL if times.keeps_interval else dst
        self._zone_changes = not zones.is_utc(zone)
        # The last search in each direction: a rare schedule in `any` is asked again for each fire of the others.
        # Nothing fires between an instant and the fire after it, nor from the first to the second instant but the fire.
        self._found_after: tuple[datetime, datetime] | None = None
        self._found_before: tuple[datetime, datetime, datetime | None] | None = None

    @property
    def expression(self) -> Expression:
        """The cron expression of a timetable that `find_timetable` found."""
        assert isinstance(self.times, Expression)
        return self.times

    def after(self, instant: datetime) -> datetime | None:
        """The first fire strictly after the instant; None when there is none within 50 years."""
        known = self._found_after
        if known is not None and known[0] <= instant < known[1]:
            return known[1]
        fire = self._search_after(instant)
        if fire is not None:
            self._found_after = instant, fire
        return fire

    def _search_after(self, instant: datetime) -> datetime | None:
        first = instant + SECOND
        if not self._zone_changes:
            local = self.times.at_or_after(first.replace(tzinfo=None))
            return None if local is None else local.replace(tzinfo=UTC)
        until, search = first + _HORIZON, _Forwards(self.times)
        while first <= until:
            opening = zones.last_change(self.zone, first - _REACH, first)
            offset = zones.offset_at(self.zone, first)
            begin = _wall(first, offset)
            if opening is not None and self._counts_once(opening, RepeatPolicy.FIRST):
                begin = max(begin, _wall(opening.at, opening.before))
            local = search.at_or_after(begin)
            if local is None:
                fire = None
            else:
                fire = _instant(local, offset)
                # Of two occurrences the second counts, and this could be the first one.
                ahead = _REACH if self.dst.overlap is RepeatPolicy.LAST else timedelta(0)
                closing = zones.first_change(self.zone, first, fire + ahead)
                if closing is not None and fire >= self._end_of_stretch(closing):
                    fire = None
            moved = None if opening is None else self._moved_at_or_after(opening, first)
            if moved is not None:
                return moved if fire is None else min(moved, fire)
            if fire is not None or local is None:
                return fire
            assert closing is not None
            first = closing.at
        return None

    def before(self, instant: datetime, not_before: datetime) -> datetime | None:
        """The last fire in [not_before, instant]."""
        if not self._has_passed_over(instant, not_before):
            fire = self._search_before(instant, not_before)
            self._found_before = not_before if fire is None else fire, instant, fire
        assert self._found_before is not None
        fire = self._found_before[2]
        return fire if fire is not None and fire >= not_before else None

    def _has_passed_over(self, instant: datetime, not_before: datetime) -> bool:
        """Whether the last searches have found what fires last in [not_before, instant]."""
        before, after = self._found_before, self._found_after
        if before is None:
            return False
        quiet_from, quiet_until, fire = before
        if after is not None and after[0] <= quiet_until:
            quiet_until = max(quiet_until, after[1] - SECOND)
        return quiet_from <= (instant if fire is not None else not_before) and instant <= quiet_until

    def _search_before(self, instant: datetime, not_before: datetime) -> datetime | None:
        """The last fire at or before the instant. It may be before `not_before`; None when it is and was not found."""
        last, search = instant, _Backwards(self.times)
        while last >= not_before:
            offset = zones.offset_at(self.zone, last)
            end = _wall(last, offset)
            if self.dst.overlap is RepeatPolicy.LAST:
                closing = zones.first_change(self.zone, last, last + _REACH)
                if closing is not None:
                    end = min(end, _wall(self._end_of_stretch(closing), offset) - SECOND)
            local = search.at_or_before(end)
            fire = None if local is None else _instant(local, offset)
            earliest = not_before if fire is None else fire
            opening = zones.last_change(self.zone, earliest - _REACH, last)
            if opening is not None:
                if local is not None and local < self._begin_of_stretch(opening):
                    fire = None
                moved = self._moved_at_or_before(opening, last)
                if moved is not None:
                    fire = moved if fire is None else max(moved, fire)
            if fire is not None or opening is None:
                return fire
            last = opening.at - SECOND
        return None

    def count(self, first: datetime, last: datetime, limit: int) -> int | None:
        """The number of fires in [first, last], None when they are more than `limit`."""
        total = 0
        while first <= last and total <= limit:
            opening = zones.last_change(self.zone, first - _REACH, first)
            closing = zones.first_change(self.zone, first, last + _REACH)
            offset = zones.offset_at(self.zone, first)
            end = last if closing is None else min(last, closing.at - SECOND)
            begin_wall, end_wall = _wall(first, offset), _wall(end, offset)
            if opening is not None:
                begin_wall = max(begin_wall, self._begin_of_stretch(opening))
                total += self._count_moved(opening, first, end, limit)
            if closing is not None:
                end_wall = min(end_wall, _wall(self._end_of_stretch(closing), offset) - SECOND)
            total += self.times.count(begin_wall, end_wall, limit)
            first = end + SECOND
        return total if total <= limit else None

    def _counts_once(self, change: OffsetChange, occurrence: RepeatPolicy) -> bool:
        """Whether only this occurrence counts of the times that the clocks show twice at a change."""
        return change.after < change.before and self.dst.overlap is occurrence

    def _begin_of_stretch(self, opening: OffsetChange) -> datetime:
        """The first local time that fires in the stretch after a change."""
        return _wall(opening.at, opening.before if self._counts_once(opening, RepeatPolicy.FIRST) else opening.after)

    def _end_of_stretch(self, closing: OffsetChange) -> datetime:
        """The first instant that no longer fires in the stretch before a change."""
        return closing.at - (closing.before - closing.after if self._counts_once(closing, RepeatPolicy.LAST) else _NONE)

    # --------------------------------------------------------------------------------- times that the clocks skip

    def _moved_at_or_after(self, change: OffsetChange, first: datetime) -> datetime | None:
        """The first instant, at or after `first`, at which times of the gap fire."""
        if change.after < change.before or self.dst.gap is GapPolicy.SKIP:
            return None
        begin, end = _wall(change.at, change.before), _wall(change.at, change.after)
        if self.dst.gap is GapPolicy.SHIFT:
            begin = max(begin, _wall(first, change.before))
        elif first > change.at:
            return None
        local = self.times.at_or_after(begin)
        if local is None or local >= end:
            return None
        return _instant(local, change.before) if self.dst.gap is GapPolicy.SHIFT else change.at

    def _moved_at_or_before(self, change: OffsetChange, last: datetime) -> datetime | None:
        """The last instant, at or before `last`, at which times of the gap fire. `last` is not before the change."""
        if change.after < change.before or self.dst.gap is GapPolicy.SKIP:
            return None
        begin, end = _wall(change.at, change.before), _wall(change.at, change.after) - SECOND
        if self.dst.gap is GapPolicy.SHIFT:
            end = min(end, _wall(last, change.before))
        local = self.times.at_or_before(end)
        if local is None or local < begin:
            return None
        return _instant(local, change.before) if self.dst.gap is GapPolicy.SHIFT else change.at

    def _count_moved(self, change: OffsetChange, first: datetime, last: datetime, limit: int) -> int:
        """How many instants in [first, last] fire for times of the gap alone."""
        total, jump = 0, change.after - change.before
        moved = self._moved_at_or_after(change, first)
        while moved is not None and moved <= last and total <= limit:
            own = _wall(moved, change.after)
            total += self.times.at_or_after(own) != own
            moved = self._moved_at_or_after(change, moved + SECOND) if moved - change.at < jump else None
        return total


class _Forwards:
    """Searches that go forwards, and repeat none whose result is known."""

    __slots__ = ("_found", "_seen", "_times")

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._seen: datetime | None = None
        self._found: datetime | None = None

    def at_or_after(self, local: datetime) -> datetime | None:
        known = self._seen is not None and local >= self._seen and (self._found is None or local <= self._found)
        if not known:
            self._seen, self._found = local, self._times.at_or_after(local)
        return self._found


class _Backwards:
    """Searches that go backwards, and repeat none whose result is known."""

    __slots__ = ("_found", "_seen", "_times")

    def __init__(self, times: LocalTimes) -> None:
        self._times = times
        self._seen: datetime | None = None
        self._found: datetime | None = None

    def at_or_before(self, local: datetime) -> datetime | None:
        known = self._seen is not None and local <= self._seen and (self._found is None or local >= self._found)
        if not known:
            self._seen, self._found = local, self._times.at_or_before(local)
        return self._found


@depends_on_zone_data
@lru_cache(maxsize=4096)
def find_timetable(expr: str, tz: str, dst: Dst = DEFAULT_DST) -> Timetable:
    """The timetable of an expression, without `H`, in the zone of that name.

    Raises InvalidInput when either is wrong, or when the expression never fires there.
    """
    expression = parse_expression(expr)
    timetable = Timetable(expression, zones.find_zone(tz), dst)
    # No zone skips the same hour every day.
    if not expression.every_day and timetable.after(REFERENCE.replace(tzinfo=UTC)) is None:
        what = f"cron {expr!r} never fires in {tz}: all its times fall into the hour that the clocks skip there"
        other = "a minute without *" if expression.keeps_interval else "dst: {gap: next_valid}"
        raise InvalidInput(Problem("", what, f"choose another hour, or {other}"))
    return timetable


@depends_on_zone_data
@lru_cache(maxsize=16_384)
def next_fire(timetable: Timetable, after: datetime) -> datetime | None:
    """`Timetable.after`, remembered: many jobs share an expression and a cursor."""
    return timetable.after(after)


_NONE = timedelta(0)


def _wall(instant: datetime, offset: timedelta) -> datetime:
    """The local time at this instant, with this offset."""
    return instant.replace(tzinfo=None) + offset


def _instant(local: datetime, offset: timedelta) -> datetime:
    return (local - offset).replace(tzinfo=UTC)
