"""When a schedule fires, for tests: a list of instants, and an assertion that shows every difference in local time.

The fires are those of the cluster: calendars, windows and jitter included. A fire that depends on when a run ends has
no place here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from cronflow.documents.schedules import parse_schedule
from cronflow.documents.values import instant
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.schedule.kinds import Cron, Schedule, bound
from cronflow.domain.schedule.preview import just_before, missing_calendars, rows_after, zone_name
from cronflow.domain.schedule.zones import SECOND, find_zone, first_change, instant_of, reading
from cronflow.files.calendars import read_calendar_files

MOST_FIRES = 10_000
DAY = timedelta(days=1)

Fires = Job | Schedule | Mapping[str, object] | str
Instant = datetime | str


def fires(
    schedule: Fires,
    start: Instant,
    end: Instant,
    *,
    tz: str | None = None,
    calendars: Sequence[Path | str] = (),
) -> list[datetime]:
    """The fires from `start` on and before `end`, in the zone of the schedule.

    `schedule` is a job, such as `app["nightly-report"]`, a schedule or job as in a job file, such as
    `{"every": "30m"}`, or a cron expression. `tz` is the zone of a schedule without one, by default UTC, and of times
    without an offset, by default that of the schedule. `calendars` are the files of the calendars that the schedule
    names. Raises InvalidInput if there are more than 10,000.
    """
    read = _Question.of(schedule, tz, calendars)
    return [one.astimezone(read.zone) for one in read.fires(read.instant(start, "start"), read.instant(end, "end"))]


def assert_fires(
    schedule: Fires,
    at: Sequence[Instant],
    *,
    tz: str | None = None,
    between: tuple[Instant, Instant] | None = None,
    calendars: Sequence[Path | str] = (),
) -> None:
    """Assert that the schedule fires at these instants, and at no others between two, of which the second is excluded.

    Without `between`, those are the first and the last of `at`. The other arguments are those of `fires`. The
    AssertionError lists expected and actual fires in local time, with the changes of the clock among them.
    """
    __tracebackhide__ = True
    read = _Question.of(schedule, tz, calendars)
    expected = [read.instant(one, f"at[{place}]") for place, one in enumerate(at)]
    if between is not None:
        first, until = (read.instant(one, f"between[{place}]") for place, one in enumerate(between))
    elif expected:
        first, until = min(expected), max(expected) + SECOND
    else:
        remedy = "write between=(start, end)"
        raise InvalidInput(Problem("between", "without `at` it must say where no fire is expected", remedy))
    actual = read.fires(first, until)
    if sorted(expected) != actual:
        raise AssertionError(read.difference(expected, actual, first, until))


@dataclass(frozen=True, slots=True)
class _Question:
    """A schedule as it was asked for, and the zone in which its times are read and shown."""

    name: str
    schedule: Schedule
    zone: ZoneInfo

    @classmethod
    def of(cls, given: Fires, tz: str | None, calendars: Sequence[Path | str]) -> _Question:
        name, schedule = _read(given, tz or "UTC")
        if is_dynamic(schedule):
            what = "its fires depend on when its runs end (after_completion)"
            raise InvalidInput(Problem("schedule", what, "test it with `cronflow rehearse`"))
        if missing_calendars(schedule):
            found = bound(schedule, read_calendar_files(list(map(Path, calendars))) if calendars else ())
            assert found is not None
            schedule = found
        return cls(name, schedule, find_zone(tz or zone_name(schedule)))

    def instant(self, given: Instant, place: str) -> datetime:
        """The instant that was meant. A local time must exist once."""
        try:
            local = datetime.fromisoformat(given) if isinstance(given, str) else given
        except ValueError:
            remedy = "write 2026-03-29 02:30, or with an offset"
            raise InvalidInput(Problem(place, f"{given!r} is not a date with a time", remedy)) from None
        if not isinstance(local, datetime) or local.utcoffset() is not None:
            try:
                return instant(local)
            except InvalidInput as error:
                raise InvalidInput([Problem(place, one.what, one.remedy) for one in error.problems]) from None
        found = instant_of(self.zone, local)
        again = local.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        if reading(self.zone, found) != local:
            _, _, change = self._change(found).partition(": ")
            what = f"{local:%Y-%m-%d %H:%M} does not exist in {self.zone.key}: {change}"
            raise InvalidInput(Problem(place, what, f"the next time is {self._shown(found)}"))
        if again != found:
            what = f"{local:%Y-%m-%d %H:%M} exists twice in {self.zone.key}"
            remedy = f"write {self._shown(found)} or {self._shown(again)}"
            raise InvalidInput(Problem(place, what, remedy))
        return found

    def fires(self, first: datetime, until: datetime) -> list[datetime]:
        rows = rows_after(self.schedule, just_before(first), MOST_FIRES + 1, until)
        found = [row.fire for row in rows if not row.note]
        if len(found) > MOST_FIRES:
            what = f"{self.name} fires more than {MOST_FIRES:,} times in this time"
            raise InvalidInput(Problem("between", what, f"choose a shorter time from {self._shown(first)} on"))
        return found

    def difference(
        self, expected: Sequence[datetime], actual: Sequence[datetime], first: datetime, until: datetime
    ) -> str:
        """What differs, line by line."""
        skipped = {row.fire: row.note for row in rows_after(self.schedule, just_before(first), MOST_FIRES, until)}
        lines = [
            f"{self.name} does not fire as expected ({describe(self.schedule, zone=False)}, {self.zone.key}):",
            f"  from {self._shown(first)} until {self._shown(until)}",
        ]
        shown_change = ""
        for one in sorted({*expected, *actual}):
            change = self._change(one)
            if change and change != shown_change:
                lines.append(f"    {change}")
            shown_change = change
            mark = " " if one in expected and one in actual else "-" if one in expected else "+"
            note = {" ": "", "-": skipped.get(one) or "expected, does not fire", "+": "fires, not expected"}[mark]
            if mark == "-" and not first <= one < until:
                note = "expected, but outside of `between`"
            lines.append(f"  {mark} {self._shown(one)}  {note}".rstrip())
        if twice := sorted({one for one in expected if expected.count(one) > 1}):
            lines.append(f"  expected twice: {', '.join(map(self._shown, twice))}")
        return "\n".join(lines)

    def _shown(self, one: datetime) -> str:
        local = one.astimezone(self.zone)
        return local.isoformat(" ", "seconds" if local.second else "minutes")

    def _change(self, one: datetime) -> str:
        """The change of the clock on this local day, if there is one."""
        midnight = datetime.combine(reading(self.zone, one).date(), time(0))
        start = instant_of(self.zone, midnight)
        change = first_change(self.zone, start, start + DAY)
        if change is None:
            return ""
        before = (change.at + change.before).replace(tzinfo=None)
        after = (change.at + change.after).replace(tzinfo=None)
        return f"{before:%Y-%m-%d}: the clock goes from {before:%H:%M} to {after:%H:%M}"


def _read(given: Fires, tz: str) -> tuple[str, Schedule]:
    if isinstance(given, Job):
        if given.schedule is None:
            raise InvalidInput(Problem("schedule", f"the job {given.name} has no schedule"))
        return given.name, given.schedule
    if isinstance(given, Schedule):
        return "the schedule", given
    if isinstance(given, str):
        return repr(given), Cron(given, tz=tz)
    if "schedule" in given:
        return str(given.get("name", "the job")), parse_schedule(given["schedule"], tz=tz)
    return "the schedule", parse_schedule(dict(given), tz=tz)
