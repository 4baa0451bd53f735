"""Schedules: when a job falls due.

A schedule is `Cron`, `Every`, `Once` or `AnyOf`: a frozen value that is validated when it is created, so its fires can
be computed without errors. `fires` computes them, `timetable` has the rules for daylight saving, and `exclusions` those
for calendars.

Rules that all repeating schedules share are in `Rules`. What belongs to a job is not here: misfires, and counting runs
for `max_runs`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from cronflow.domain.durations import Duration, format_duration, parse_duration, to_the_minute
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.dst import DEFAULT_DST, Dst
from cronflow.domain.schedule.hashed import resolve_hash, uses_hash
from cronflow.domain.schedule.local_times import MOST_BUSINESS_DAYS
from cronflow.domain.schedule.timetable import find_timetable
from cronflow.domain.schedule.windows import Window
from cronflow.domain.schedule.zones import SECOND

LONGEST_JITTER = timedelta(days=1)
MOST_CHARACTERS = 1000
"""Of a cron expression. Lists of every value of all six fields are shorter."""
MOST_RUNS = 1_000_000_000
MOST_CALENDARS = 20
"""Entries of `calendars`, of `blackout` and of `only_in`."""
MOST_OF_ANY = 20

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)
_NO_TIME = timedelta(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every repeating schedule can have.

    `jitter` (whole seconds, at most a day) delays each fire by a part of it, which a hash of `seed` and the instant
    chooses; a fire never reaches the next one. After `max_runs` runs nothing fires. Fires on a day of `calendars` or in
    `blackout`, and those outside of `only_in`, are skipped. `book` has the calendars that the schedule names, and
    `seed` is the name of its job: both are filled in where they are known.
    """

    jitter: timedelta = _NO_TIME
    max_runs: int | None = None
    calendars: tuple[str, ...] = ()
    blackout: tuple[str | Window, ...] = ()
    only_in: tuple[str | Window, ...] = ()
    book: tuple[Calendar, ...] = ()
    seed: str = ""

    @property
    def calendar_names(self) -> tuple[str, ...]:
        """The calendars that the schedule names, in order and without duplicates."""
        named = [one for one in (*self.blackout, *self.only_in) if isinstance(one, str)]
        return tuple(dict.fromkeys([*self.calendars, *named]))

    @property
    def has_exclusions(self) -> bool:
        """Whether some fires may be skipped."""
        return bool(self.calendars or self.blackout or self.only_in)


@dataclass(frozen=True, slots=True)
class Cron(Rules):
    """Fires when the clocks of the zone `tz` (an IANA name) match `expr`, in [start, end).

    `expr` has five fields, or six with seconds first: names, ranges, steps, lists, L, LW, #n, nL, H, and nicknames such
    as `@daily`. `dst` is for times of day; an interval keeps its real distance. With `business_day` it fires on the
    n-th business days of each month alone: 1 for the first, -1 for the last; business days are Monday to Friday without
    the days of `calendars`. Raises InvalidInput for a wrong field, an unknown zone, a rule without effect, and an
    expression that never fires.
    """

    expr: str
    tz: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    dst: Dst = DEFAULT_DST
    business_day: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "expr", " ".join(_text(self.expr, "the cron expression").split()))
        if len(self.expr) > MOST_CHARACTERS:
            what = f"the cron expression has {len(self.expr):,} characters; at most {MOST_CHARACTERS:,} are allowed"
            raise InvalidInput(Problem("", what, "use ranges and steps, or several schedules in any"))
        _set_bounds(self, self.start, self.end)
        _check_rules(self)
        timetable = find_timetable(self.plain, _text(self.tz, "the time zone"), self.dst)
        if self.dst != DEFAULT_DST and timetable.expression.keeps_interval:
            what = (
                f"dst has no effect on cron {self.expr!r}: its minute or hour field begins with *, so it is an interval"
            )
            raise InvalidInput(Problem("", what, "remove dst, or write the hours and minutes as lists or ranges"))
        if self.business_day:
            self._check_business_day(timetable.expression.every_day_of_months)

    @property
    def plain(self) -> str:
        """The expression with a value for each `H`."""
        return resolve_hash(self.expr, self.seed)

    def _check_business_day(self, every_day: bool) -> None:
        places = tuple(self.business_day)
        if any(not 1 <= abs(place) <= MOST_BUSINESS_DAYS for place in places):
            what = f"business_day is {', '.join(map(str, places))}; it must be 1 to {MOST_BUSINESS_DAYS}, or negative"
            raise InvalidInput(Problem("", what, "write 1 for the first business day of the month, -1 for the last"))
        if not every_day:
            what = f"business_day chooses the days, so the day fields of cron {self.expr!r} must be *"
            raise InvalidInput(Problem("", what, 'write for example cron: "0 18 * * *"'))
        object.__setattr__(self, "business_day", tuple(sorted(set(places), key=lambda place: (place < 0, place))))


@dataclass(frozen=True, slots=True, init=False)
class Every(Rules):
    """Fires at whole multiples of `interval` (a whole number of seconds), before and after `anchor`, in [start, end).

    Without an anchor the multiples count from 1970-01-01 00:00 UTC, so that `30s` fires at :00 and :30; whole weeks
    count from a Monday. With `time` (HH:MM or HH:MM:SS), an interval of whole days or weeks keeps that wall clock time
    in the zone `tz`, with the policy `dst`; the anchor then only sets the day to count from. Without `time`, `tz` is
    the zone of calendars alone. With `after_completion` the next fire is due one interval after the run of the last one
    has ended. Raises InvalidInput.
    """

    interval: timedelta
    anchor: datetime | None
    tz: str
    time: str | None
    start: datetime | None
    end: datetime | None
    dst: Dst
    after_completion: bool

    def __init__(
        self,
        interval: Duration,
        anchor: datetime | None = None,
        tz: str = "UTC",
        time: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        dst: Dst = DEFAULT_DST,
        after_completion: bool = False,
        jitter: timedelta = _NO_TIME,
        max_runs: int | None = None,
        calendars: tuple[str, ...] = (),
        blackout: tuple[str | Window, ...] = (),
        only_in: tuple[str | Window, ...] = (),
        book: tuple[Calendar, ...] = (),
        seed: str = "",
    ) -> None:
        exact = parse_duration(interval)
        if exact < SECOND or exact % SECOND:
            remedy = "write a whole number of seconds, at least 1s"
            raise InvalidInput(Problem("", f"an interval of {_written(interval)} is not allowed", remedy))
        zones.find_zone(_text(tz, "the time zone"))
        if time is not None:
            _check_clock(time)
            if exact % _DAY:
                remedy = "write 1d or 1w, or remove the time"
                raise InvalidInput(Problem("", f"a time needs whole days or weeks, not {_written(interval)}", remedy))
        elif tz != "UTC" and not exact % _DAY and not after_completion:
            what = f"days of exactly 24 hours do not follow the clocks of {tz}"
            raise InvalidInput(
                Problem("", what, 'add a time such as "02:00" to keep the wall clock, or remove the zone')
            )
        if dst != DEFAULT_DST and time is None:
            raise InvalidInput(Problem("", "dst has no effect without a time", "remove dst, or add a time of day"))
        if after_completion and (anchor is not None or time is not None or jitter):
            what = "after_completion counts from the end of the last run, so there is no anchor, time or jitter"
            raise InvalidInput(Problem("", what, "remove them, or after_completion"))
        values = {
            "interval": exact,
            "anchor": None if anchor is None else whole_instant(anchor, "anchor"),
            "tz": tz,
            "time": time,
            "dst": dst,
            "after_completion": after_completion,
            "jitter": jitter,
            "max_runs": max_runs,
            "calendars": calendars,
            "blackout": blackout,
            "only_in": only_in,
            "book": book,
            "seed": seed,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        _set_bounds(self, start, end)
        _check_rules(self)

    @property
    def origin(self) -> datetime:
        """The instant from which the multiples of the interval count."""
        if self.anchor is not None:
            return self.anchor
        return _EPOCH if self.interval % _WEEK else _FIRST_MONDAY


@dataclass(frozen=True, slots=True)
class Once:
    """Fires at `at` and never again. Raises InvalidInput when it has no offset from UTC or is not a whole second."""

    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", whole_instant(self.at, "at"))


@dataclass(frozen=True, slots=True)
class AnyOf(Rules):
    """Fires when one of its schedules does, in [start, end); an instant at which several fire is one fire.

    The schedules have their own zones, bounds and DST policies. All other rules belong to the whole; `tz` is the zone
    of its calendars. Raises InvalidInput.
    """

    schedules: tuple[Cron | Every | Once, ...]
    tz: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.schedules) <= MOST_OF_ANY:
            what = f"any has {len(self.schedules)} schedules; it must have 1 to {MOST_OF_ANY}"
            raise InvalidInput(Problem("", what, "divide the job"))
        zones.find_zone(_text(self.tz, "the time zone"))
        _set_bounds(self, self.start, self.end)
        _check_rules(self)
        for member in self.schedules:
            if isinstance(member, Every) and member.after_completion:
                what = "after_completion counts from the end of the last run, and cannot be a part of any"
                raise InvalidInput(Problem("", what, "make it the only schedule of a job"))
            if isinstance(member, Rules) and (member.jitter or member.max_runs or member.has_exclusions):
                what = "jitter, max_runs, calendars, blackout and only_in belong to the whole schedule"
                raise InvalidInput(Problem("", what, "move them next to any"))


Repeating = Cron | Every | AnyOf
Schedule = Cron | Every | Once | AnyOf
_Any = TypeVar("_Any", bound=Cron | Every | AnyOf)


def named(schedule: Schedule | None, name: str) -> Schedule | None:
    """The schedule of the job of this name: `H` and jitter depend on it."""
    match schedule:
        case Cron() if schedule.seed != name and (schedule.jitter or uses_hash(schedule.expr)):
            return replace(schedule, seed=name)
        case Every() if schedule.seed != name and schedule.jitter:
            return _with(schedule, seed=name)
        case AnyOf():
            # Each has choices of its own.
            named_ones = (named(one, f"{name}/{place}") for place, one in enumerate(schedule.schedules))
            members = tuple(one for one in named_ones if isinstance(one, Cron | Every | Once))
            return replace(schedule, schedules=members, seed=name if schedule.jitter else "")
    return schedule


def bound(schedule: Schedule | None, calendars: Sequence[Calendar]) -> Schedule | None:
    """The schedule with the calendars that it names. Raises InvalidInput when there is none of a name."""
    if schedule is None or isinstance(schedule, Once) or not schedule.calendar_names:
        return schedule
    known = {calendar.name: calendar for calendar in calendars}
    for key in ("calendars", "blackout", "only_in"):
        for place, name in enumerate(getattr(schedule, key)):
            if isinstance(name, str) and name not in known:
                raise InvalidInput(Problem(f"{key}[{place}]", f"there is no calendar {name!r}", _APPLY_CALENDAR))
    book = tuple(known[name] for name in schedule.calendar_names)
    if isinstance(schedule, AnyOf):
        days = tuple(known[name] for name in schedule.calendars)
        members = tuple(
            replace(one, book=days) if isinstance(one, Cron) and one.business_day else one for one in schedule.schedules
        )
        return replace(schedule, schedules=members, book=book)
    return _with(schedule, book=book)


_APPLY_CALENDAR = "define it with `cronflow calendars apply -f FILE`"


def find_calendar(schedule: Rules, name: str) -> Calendar:
    """The calendar of this name. Raises InvalidInput when the schedule was not bound to it."""
    for calendar in schedule.book:
        if calendar.name == name:
            return calendar
    raise InvalidInput(Problem("", f"there is no calendar {name!r}", _APPLY_CALENDAR))


def _with(schedule: Cron | Every, **changes: object) -> Cron | Every:
    # `replace` works for Every too, because its arguments have the names of its fields.
    return replace(schedule, **changes)  # type: ignore[arg-type]


def _check_rules(schedule: Cron | Every | AnyOf) -> None:
    jitter = schedule.jitter
    if not (jitter or schedule.has_exclusions) and schedule.max_runs is None:
        return
    if not _NO_TIME <= jitter <= LONGEST_JITTER or jitter % SECOND:
        what = f"a jitter of {format_duration(jitter)} is not allowed"
        raise InvalidInput(Problem("", what, "write a whole number of seconds, at most 1d"))
    if schedule.max_runs is not None and not 1 <= schedule.max_runs <= MOST_RUNS:
        what = f"max_runs is {schedule.max_runs}; it must be at least 1"
        raise InvalidInput(Problem("", what, "remove it for a job without a limit"))
    for name in ("calendars", "blackout", "only_in"):
        entries = tuple(getattr(schedule, name))
        if len(entries) > MOST_CALENDARS:
            what = f"{name} has {len(entries)} entries; at most {MOST_CALENDARS} are allowed"
            raise InvalidInput(Problem("", what, "put them into one calendar"))
        object.__setattr__(schedule, name, entries)


def _set_bounds(schedule: Cron | Every | AnyOf, start: datetime | None, end: datetime | None) -> None:
    start = None if start is None else whole_instant(start, "start")
    end = None if end is None else whole_instant(end, "end")
    if start is not None and end is not None and end <= start:
        what = f"the end, {to_the_minute(end)}, is not after the start, {to_the_minute(start)}"
        raise InvalidInput(Problem("", what, "the end must be later; nothing fires at the end itself"))
    object.__setattr__(schedule, "start", start)
    object.__setattr__(schedule, "end", end)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(Problem("", f"{what} must be text, not {value!r}", "put it in quotes"))
    return value


def _check_clock(value: object) -> None:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        # YAML reads an unquoted 02:00 as the number 120.
        raise InvalidInput(
            Problem("", f"{value!r} is not a time", 'write HH:MM or HH:MM:SS in quotes, such as "02:00"')
        )


def utc_instant(value: object, name: str) -> datetime:
    """Convert a datetime with an offset to UTC."""
    if not isinstance(value, datetime):
        what = f"{name} must be a date with a time, not {value!r}"
        raise InvalidInput(Problem("", what, "write it like 2026-12-24T18:00:00+01:00"))
    if value.utcoffset() is None:
        what = f"{name} has no offset from UTC, {value.isoformat()} means another instant in every zone"
        raise InvalidInput(Problem("", what, "add one, such as Z or +01:00; in Python, tzinfo=timezone.utc"))
    try:
        return value.astimezone(UTC)
    except OverflowError:
        what = f"{name} is out of range, {value.isoformat()}"
        raise InvalidInput(Problem("", what, "choose a date in the years 1 to 9999")) from None


def whole_instant(value: object, name: str) -> datetime:
    instant = utc_instant(value, name)
    if instant.microsecond:
        what = f"{name} is not a whole second, {instant.isoformat()}"
        raise InvalidInput(Problem("", what, "remove the fraction; in Python, .replace(microsecond=0)"))
    return instant


def _written(interval: Duration) -> str:
    return str(interval) if isinstance(interval, timedelta) else repr(interval)
