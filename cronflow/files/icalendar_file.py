"""Reads an iCalendar file (.ics) into a calendar.

All-day events become days, others become windows. Repeating events are expanded within a range of days, because
a calendar has no rules of its own; what lies outside of it, cancelled events, and events without a length are left out.
The parser and the expansion of rules are `icalendar` and `python-dateutil`, which are imported when they are used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.calendar import LONGEST_DESCRIPTION, MOST_ENTRIES, Calendar, DaySpan
from cronflow.domain.schedule.windows import LONGEST_NAME, Period

YEARS_AHEAD = 10
MOST_BYTES = 20 * 1024 * 1024
MOST_PROBLEMS = 20
TOO_OFTEN = ("SECONDLY", "MINUTELY")
RULE_REMEDY = "remove the event from the file, or write its hours as a window of a calendar file"

_DAY = timedelta(days=1)

Start = date | datetime


@dataclass(frozen=True, slots=True)
class Imported:
    """A calendar, and how many events were left out, by reason."""

    calendar: Calendar
    left_out: Counter[str]


@dataclass(slots=True)
class _Event:
    """One event, or a repeating one with all its rules. A start that is a date is a whole day."""

    start: Start
    length: timedelta
    name: str
    uid: str
    cancelled: bool
    replaces: Start | None
    rules: Sequence[Any] = ()
    more: Sequence[tuple[Start, timedelta | None]] = ()
    without: frozenset[Start] = field(default_factory=frozenset)


def default_range(today: date) -> tuple[date, date]:
    """This year and the next ten."""
    return date(today.year, 1, 1), date(today.year + YEARS_AHEAD, 12, 31)


def read_icalendar(path: Path, name: str, first: date, last: date) -> Imported:
    """The days and windows of a file from `first` to `last`, both included. Raises InvalidInput with the component of
    each problem.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(Problem(str(path), error.strerror or str(error), "check the path")) from None
    return parse_icalendar(content, str(path), name, first, last, ends="--to")


def parse_icalendar(content: bytes, source: str, name: str, first: date, last: date, *, ends: str) -> Imported:
    """The days and windows of the content of a file. `source` is where it comes from, and `ends` the place of `last`,
    for problems.
    """
    if last < first:
        raise InvalidInput(Problem(ends, f"{last} is before {first}", "swap the two"))
    calendars = _parse(content, source)
    events, problems = list[_Event](), list[Problem]()
    for calendar in calendars:
        for component in calendar.walk("VEVENT"):
            try:
                events.append(_event(component))
            except InvalidInput as error:
                problems += [Problem(f"{source}: {_label(component)}", one.what, one.remedy) for one in error.problems]
    if problems:
        raise InvalidInput(problems[:MOST_PROBLEMS])
    left_out: Counter[str] = Counter()
    days, windows = _expand(events, first, last, left_out, source)
    ordered = sorted(set(days), key=lambda one: (one.first, one.last, one.name))
    texts = [str(text) for calendar in calendars if (text := calendar.get("X-WR-CALNAME"))]
    made = Calendar(
        name=name,
        description=_one_line(", ".join(texts) or f"Imported from {Path(source).name}")[:LONGEST_DESCRIPTION],
        tz=_zone_of(calendars),
        days=tuple(ordered),
        windows=tuple(sorted(set(windows), key=lambda one: (one.start.isoformat(), one.end.isoformat(), one.name))),
    )
    return Imported(made, left_out)


def _parse(content: bytes, source: str) -> Sequence[Any]:
    from icalendar import Calendar as Component

    if len(content) > MOST_BYTES:
        raise InvalidInput(Problem(source, "the file is larger than 20 MiB", "export fewer events"))
    try:
        calendars: Sequence[Any] = Component.from_ical(content.decode("utf-8-sig"), multiple=True)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        what = f"this is not an iCalendar file: {_one_line(str(error))[:LONGEST_NAME]}"
        raise InvalidInput(Problem(source, what, "export the calendar as .ics again")) from None
    if not calendars or any(one.name != "VCALENDAR" for one in calendars):
        what = "this is not an iCalendar file: it does not begin with BEGIN:VCALENDAR"
        raise InvalidInput(Problem(source, what, "export the calendar as .ics again"))
    return calendars


# ------------------------------------------------------------------------------------------------------------- events


def _event(component: Any) -> _Event:
    if component.errors:
        key, what = component.errors[0]
        raise InvalidInput(Problem("", f"{key or 'a line'} is invalid: {_one_line(str(what))}", "correct the file"))
    start = _value(component, "DTSTART")
    if start is None:
        raise InvalidInput(Problem("", "has no DTSTART", "correct the file"))
    length = _length(component, start)
    if isinstance(start, datetime) and _is_outlook_day(component, start, length):
        start = start.date()
    rules = _listed(component, "RRULE")
    for rule in rules:
        if frequency := [one for one in rule.get("FREQ", []) if one in TOO_OFTEN]:
            raise InvalidInput(Problem("", f"RRULE repeats {frequency[0]}, which is too often", RULE_REMEDY))
    return _Event(
        start=start,
        length=length,
        name=_one_line(str(component.get("SUMMARY", "")))[:LONGEST_NAME],
        uid=str(component.get("UID", "")),
        cancelled=str(component.get("STATUS", "")).upper() == "CANCELLED",
        replaces=_value(component, "RECURRENCE-ID"),
        rules=rules,
        more=[_moment(one.dt) for dates in _listed(component, "RDATE") for one in dates.dts],
        without=frozenset(_key(one.dt, start) for dates in _listed(component, "EXDATE") for one in dates.dts),
    )


def _value(component: Any, name: str) -> Start | None:
    found = component.get(name)
    if isinstance(found, list):
        raise InvalidInput(Problem("", f"has {name} more than once", "correct the file"))
    if found is None:
        return None
    if not isinstance(found.dt, date):
        raise InvalidInput(Problem("", f"{name} is not a date", "correct the file"))
    return found.dt


def _length(component: Any, start: Start) -> timedelta:
    whole_day = not isinstance(start, datetime)
    end = _value(component, "DTEND")
    if end is None:
        duration = component.get("DURATION")
        length = (_DAY if whole_day else timedelta(0)) if duration is None else duration.dt
    elif isinstance(end, datetime) is whole_day or (_zone(end) is None) is not (_zone(start) is None):
        raise InvalidInput(Problem("", "DTEND is of another kind than DTSTART", "correct the file"))
    else:
        length = end - start if whole_day else _instant(end, None) - _instant(start, None)
    if length < timedelta(0):
        raise InvalidInput(Problem("", "ends before it begins", "correct the file"))
    # Some programs write the same day as the end of a day.
    return max(length, _DAY) if whole_day else length


def _is_outlook_day(component: Any, start: datetime, length: timedelta) -> bool:
    """Outlook writes a day as a window from midnight to midnight."""
    marked = str(component.get("X-MICROSOFT-CDO-ALLDAYEVENT", "")).upper() == "TRUE"
    return marked and start.time() == time() and length >= _DAY and not length % _DAY


def _listed(component: Any, name: str) -> Sequence[Any]:
    found = component.get(name, [])
    return found if isinstance(found, list) else [found]


def _moment(value: Any) -> tuple[Start, timedelta | None]:
    """A start and its own length: RDATE can have periods."""
    if isinstance(value, tuple):
        start, end = value
        return start, end if isinstance(end, timedelta) else end - start
    return value, None


# --------------------------------------------------------------------------------------------------------- expansion


def _expand(
    events: Sequence[_Event], first: date, last: date, left_out: Counter[str], source: str
) -> tuple[list[DaySpan], list[Period]]:
    days, windows = list[DaySpan](), list[Period]()
    originals = {one.uid: one.start for one in events if one.replaces is None and one.uid}
    replaced: dict[str, set[Start]] = {}
    for one in events:
        if one.replaces is not None:
            replaced.setdefault(one.uid, set()).add(_key(one.replaces, originals.get(one.uid, one.start)))
    for event in events:
        if event.cancelled:
            left_out["cancelled"] += 1
            continue
        found = 0
        gone = replaced.get(event.uid, set()) if event.replaces is None else set[Start]()
        for start, length in _occurrences(event, gone, first, last):
            if length == timedelta(0):
                left_out["without a length"] += 1
                found += 1
                continue
            if isinstance(start, datetime):
                windows.append(_window(start, length, event.name))
            else:
                days.append(DaySpan(start, start + length - _DAY, event.name))
            found += 1
            if len(days) + len(windows) > MOST_ENTRIES:
                what = f"more than {MOST_ENTRIES:,} days and windows from {first} to {last}"
                raise InvalidInput(Problem(source, what, "choose a shorter range"))
        left_out["outside of the range"] += not found
    return days, windows


def _occurrences(event: _Event, gone: set[Start], first: date, last: date) -> Iterator[tuple[Start, timedelta]]:
    """The starts and lengths of an event that overlap the range, in order for each rule and without duplicates."""
    seen: set[Start] = set()
    everything = [(event.start, None), *event.more]
    for rule in event.rules:
        everything += [(start, None) for start in _of_rule(rule, event, first, last)]
    for start, own in everything:
        length = event.length if own is None else own
        key = _key(start, event.start)
        if key in seen or key in event.without or key in gone:
            continue
        seen.add(key)
        begin = _day_of(start)
        end = begin + length - _DAY if not isinstance(start, datetime) else _day_of(start + length)
        if begin <= last and end >= first:
            yield start, length


def _of_rule(rule: Any, event: _Event, first: date, last: date) -> Iterator[Start]:
    """The starts of a rule. The clocks of the event's own zone count, so the rule works on local times; UNTIL is an
    instant, and is compared by itself.
    """
    from dateutil.rrule import rrulestr

    start, zone = event.start, _zone(event.start)
    local = start.replace(tzinfo=None) if isinstance(start, datetime) else datetime.combine(start, time())
    until = next(iter(rule.get("UNTIL", [])), None)
    text = ";".join(part for part in rule.to_ical().decode().split(";") if not part.upper().startswith("UNTIL="))
    try:
        made = rrulestr(text, dtstart=local)
    except (ValueError, TypeError) as error:
        what = f"RRULE {text} is invalid: {_one_line(str(error))}"
        raise InvalidInput(Problem(event.name or event.uid, what, "correct the file")) from None
    begin = datetime.combine(max(first - event.length - _DAY, date.min + _DAY), time())
    for found in made.xafter(begin, inc=True):
        if found.date() > last + _DAY:
            return
        occurrence: Start = found.replace(tzinfo=zone) if isinstance(start, datetime) else found.date()
        if until is not None and _is_after(occurrence, until):
            return
        yield occurrence


def _is_after(start: Start, until: Start) -> bool:
    if not isinstance(start, datetime) or not isinstance(until, datetime):
        return _day_of(start) > _day_of(until)
    return _instant(start, None) > _instant(until, _zone(start))


def _window(start: datetime, length: timedelta, name: str) -> Period:
    if start.tzinfo is None:
        return Period(start, start + length, name)
    begin = start.astimezone(UTC)
    return Period(begin, begin + length, name)


def _key(start: Start, model: Start) -> Start:
    """The same moment is the same key, whether it is written in UTC or in the zone of the event."""
    if not isinstance(model, datetime):
        return _day_of(start)
    if not isinstance(start, datetime):
        return datetime.combine(start, model.time(), model.tzinfo).astimezone(UTC) if model.tzinfo else start
    return start.astimezone(UTC) if start.tzinfo is not None else start


def _day_of(start: Start) -> date:
    return start.date() if isinstance(start, datetime) else start


def _instant(at: Start, zone: tzinfo | None) -> datetime:
    """For comparisons: a time without a zone is read in `zone`, or else as if it were UTC."""
    moment = at if isinstance(at, datetime) else datetime.combine(at, time())
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone or UTC)).astimezone(UTC)


def _zone(at: Start) -> tzinfo | None:
    return at.tzinfo if isinstance(at, datetime) else None


def _zone_of(calendars: Sequence[Any]) -> str | None:
    """The zone that the file has for all its days, if this is an IANA name."""
    for calendar in calendars:
        name = str(calendar.get("X-WR-TIMEZONE", "")).strip()
        if not name:
            continue
        try:
            found: ZoneInfo = zones.find_zone(name)
        except InvalidInput:
            continue
        return found.key
    return None


def _label(component: Any) -> str:
    summary, uid = str(component.get("SUMMARY", "")), str(component.get("UID", ""))
    what = f"event {_one_line(summary)[:60]!r}" if summary else "an event without a summary"
    return f"{what} (UID {_one_line(uid)[:80]})" if uid else what


def _one_line(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
