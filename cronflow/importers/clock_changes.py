"""The `dst` policy of an imported schedule: what its source does when the clocks change, as closely as CronFlow can.

Only times of day that the zone really skips or repeats get a policy, so that most schedules need none. Where a source
does what no policy does, the note says what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.dst import GapPolicy, RepeatPolicy
from cronflow.domain.schedule.zones import OffsetChange
from cronflow.importers.cron_fields import HOURS, CronFields, cron_text

# Several years, because some zones change on other days every year. A fixed time, so that an import is repeatable.
_FROM, _UNTIL = datetime(2027, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
_MIDNIGHT = datetime(2000, 1, 1)  # noqa: DTZ001 - a local time


class SkippedTimes(StrEnum):
    """What a source does with times that the clocks skip."""

    LOST = "lost"
    SHIFT_FIRST = "shift_first"
    """The first of them fires as much later as the clocks jump, the others are lost."""


@dataclass(frozen=True, slots=True)
class ClockRules:
    """What a scheduler does when the clocks change. `repeats`: times that occur twice fire twice."""

    source: str
    skipped: SkippedTimes
    repeats: bool


def cron_schedule(
    fields: CronFields, tz: str | None, rules: ClockRules, original: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """The keys of a schedule, and notes about it. Without `tz` the schedule has the zone of the cluster."""
    gap, overlap, notes = GapPolicy.NEXT_VALID, RepeatPolicy.FIRST, []
    interval = True
    for change in clock_changes(tz):
        before, after = change.at + change.before, change.at + change.after
        if change.after > change.before:
            times = list(_times(fields, before.time(), change.after - change.before))
            if times:
                gap, exact = _gap(fields, change, times, rules)
                interval = interval and (gap is GapPolicy.SKIP or not exact or _hourly(fields, change))
                if not exact:
                    lost = f"When the clocks skip several of its times, {rules.source} runs the first; CronFlow all."
                    notes = [lost]
        elif next(_times(fields, after.time(), change.before - change.after), None) is not None:
            overlap = RepeatPolicy.BOTH if rules.repeats else RepeatPolicy.FIRST
            interval = interval and rules.repeats
    plain = cron_text(fields, original=original)
    # An interval of CronFlow loses skipped times and repeats repeated ones.
    text = plain if interval else cron_text(fields, original=original, clock_times=True)
    if text.expr != plain.expr:
        other = f'"{plain.expr}" would run in the repeated hour too.' if overlap is RepeatPolicy.FIRST else ""
        what = f"Written as times of day, to do what {rules.source} does when the clocks change."
        notes.append(f"{what} {other}".strip())
    policy: dict[str, str] = {}
    if not _is_interval(text.expr):
        policy |= {} if gap is GapPolicy.NEXT_VALID else {"gap": str(gap)}
        policy |= {} if overlap is RepeatPolicy.FIRST else {"overlap": str(overlap)}
    schedule: dict[str, Any] = {"cron": text.expr}
    schedule |= {} if tz is None else {"tz": tz}
    schedule |= {"dst": policy} if policy else {}
    return schedule | text.extra, [*text.notes, *notes]


def clock_changes(tz: str | None) -> Iterator[OffsetChange]:
    """The changes of some years. Raises InvalidInput for a zone that does not exist."""
    zone = zones.find_zone(tz or "UTC")
    at = _FROM
    while (change := zones.first_change(zone, at, _UNTIL)) is not None:
        yield change
        at = change.at


def _gap(fields: CronFields, change: OffsetChange, times: list[datetime], rules: ClockRules) -> tuple[GapPolicy, bool]:
    """The policy for skipped times, and whether it does what the source does."""
    if rules.skipped is SkippedTimes.LOST:
        return GapPolicy.SKIP, True
    jump, begin = change.after - change.before, (change.at + change.before).time()
    own = {one.time() for one in _times(fields, (change.at + change.after).time(), jump)}
    wanted = own | {(times[0] + jump).time()}
    if times[0].time() == begin:
        return GapPolicy.NEXT_VALID, True
    return GapPolicy.SHIFT, own | {(one + jump).time() for one in times} == wanted


def _hourly(fields: CronFields, change: OffsetChange) -> bool:
    """Whether the skipped times coincide with those after the gap."""
    return fields.hours >= HOURS and change.after - change.before == timedelta(hours=1)


def _times(fields: CronFields, begin: time, length: timedelta) -> Iterator[datetime]:
    """The times of day in a span, on some day."""
    first = datetime.combine(_MIDNIGHT, begin)
    minute, end = first.replace(second=0), first + length
    while minute < end:
        if minute.hour in fields.hours and minute.minute in fields.minutes:
            for second in sorted(fields.seconds):
                if first <= (found := minute.replace(second=second)) < end:
                    yield found
        minute += timedelta(minutes=1)


def _is_interval(expr: str) -> bool:
    minute, hour = expr.split()[-5:-3]
    return minute.startswith("*") or hour.startswith("*")
