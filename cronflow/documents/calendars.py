"""A calendar's document, and the windows of time that schedules have too: one form for files, JSON and REST."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from cronflow.documents.keys import OPTIONAL_TEXT, TEXT
from cronflow.documents.tables import DocumentTable, Key, read_variant
from cronflow.documents.values import got, instant_text, list_of, text, under
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.calendar import WEEKDAYS, Calendar, DaySpan, YearlyDay
from cronflow.domain.schedule.windows import Period, WeeklyHours, Window

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")
_YEARLY = re.compile(r"[0-9]{2}-[0-9]{2}")
_EVERY_DAY = tuple(range(1, 8))
_TEN = datetime(2000, 1, 1, 10)  # noqa: DTZ001 - local times are naive
_ELEVEN = datetime(2000, 1, 1, 11)  # noqa: DTZ001

# --------------------------------------------------------------------------------------------------------------- days


def date_of(value: object) -> date:
    """Reads a day such as 2026-12-25. Raises InvalidInput."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(text(value).strip())
    except ValueError:
        raise InvalidInput(Problem("", f"{value!r} is not a day", "write it like 2026-12-25")) from None


def _read_day(value: object) -> date | YearlyDay:
    """A date, or `MM-DD` for a day of every year."""
    if isinstance(value, str) and _YEARLY.fullmatch(value.strip()):
        month, day = value.strip().split("-")
        return YearlyDay(int(month), int(day))
    try:
        return date_of(value)
    except InvalidInput:
        what = f"expected a day, got {got(value)}"
        raise InvalidInput(Problem("", what, 'write it like 2026-12-25, or "12-25" for every year')) from None


class DayForm(TypedDict):
    """A day."""

    day: Annotated[str, Key(_read_day, sample=date(2000, 1, 1))]
    """`2026-12-25`, or `12-25` for every year."""
    name: Annotated[str, TEXT]
    """Name."""


class DaySpanForm(TypedDict):
    """Several days in a row."""

    first: Annotated[str, Key(date_of, date.isoformat, sample=date(2000, 1, 1))]
    """The first day, such as `2026-12-24`."""
    last: Annotated[str, Key(date_of, date.isoformat, sample=date(2999, 1, 1), missing="add the last day")]
    """The last day, included."""
    name: Annotated[str, TEXT]
    """Name."""


def _make_day(day: date | YearlyDay, name: str = "") -> DaySpan | YearlyDay:
    return YearlyDay(day.month, day.day, name) if isinstance(day, YearlyDay) else DaySpan(day, day, name)


def _make_span(first: date | None, last: date | None, name: str = "") -> DaySpan:
    begin, end = first or last, last or first
    assert begin is not None
    assert end is not None
    return DaySpan(begin, end, name)


DAY = DocumentTable(DayForm, _make_day)
# An end alone is checked as a single day.
DAY_SPAN = DocumentTable(DaySpanForm, _make_span, companions={"first": {"last": None}, "last": {"first": None}})


def _read_entry(value: object) -> DaySpan | YearlyDay:
    if not isinstance(value, Mapping):
        return _make_day(_read_day(value))
    made: DaySpan | YearlyDay = read_variant(
        value, {"day": DAY, "first": DAY_SPAN}, {}, "write a day, or the first and last of several"
    )
    return made


def _write_entry(entry: DaySpan | YearlyDay) -> dict[str, Any] | str:
    if isinstance(entry, DaySpan) and entry.first != entry.last:
        return DAY_SPAN.write(entry)
    day = f"{entry.month:02}-{entry.day:02}" if isinstance(entry, YearlyDay) else entry.first.isoformat()
    return {"day": day, "name": entry.name} if entry.name else day


def _shorten_entry(entry: DaySpan | YearlyDay) -> dict[str, Any] | str:
    written = _write_entry(entry)
    return written if isinstance(written, str) else _without_nothing(written)


def _without_nothing(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value not in (None, "")}


# ------------------------------------------------------------------------------------------------------------ windows


def read_weekdays(value: object) -> tuple[int, ...]:
    """Weekdays from 1 for Monday to 7: `mon-fri`, `sat,sun`, or a list of such. Raises InvalidInput."""
    parts = list_of(text, "weekdays")(value) if isinstance(value, list | tuple) else (text(value),)
    found: list[int] = []
    for part in ",".join(parts).split(","):
        first, dash, last = part.strip().lower().partition("-")
        if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
            what = f"{part.strip()!r} is not a weekday"
            raise InvalidInput(Problem("", what, f"write {', '.join(WEEKDAYS)}, or a range such as mon-fri"))
        begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last if dash else first)
        if end < begin:
            raise InvalidInput(Problem("", f"the range {part.strip()!r} runs backwards", "write sat,sun,mon"))
        found += range(begin + 1, end + 2)
    return tuple(sorted(set(found)))


def _write_weekdays(days: tuple[int, ...]) -> str | None:
    if days == _EVERY_DAY:
        return None
    if len(days) > 2 and days == tuple(range(days[0], days[-1] + 1)):
        return f"{WEEKDAYS[days[0] - 1]}-{WEEKDAYS[days[-1] - 1]}"
    return ",".join(WEEKDAYS[day - 1] for day in days)


def _read_end(value: object) -> datetime | time:
    """One end of a window: a time of day, a local time, an instant, or a day for its beginning."""
    if isinstance(value, str) and _CLOCK.fullmatch(value.strip()):
        return time.fromisoformat(value.strip())
    try:
        found = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
    except ValueError:
        found = None
    if isinstance(found, date) and not isinstance(found, datetime):
        found = datetime.combine(found, time())
    if not isinstance(found, datetime):
        # YAML reads an unquoted 09:30 as the number 570.
        remedy = 'write "09:00" in quotes, or 2026-12-20T18:00:00'
        raise InvalidInput(Problem("", f"expected a time or a date with a time, got {got(value)}", remedy))
    return found.replace(microsecond=0) if found.tzinfo is None else found.astimezone(UTC).replace(microsecond=0)


def _write_end(end: datetime | time) -> str:
    if isinstance(end, time):
        return end.isoformat() if end.second else f"{end:%H:%M}"
    return end.isoformat() if end.tzinfo is None else instant_text(end)


class WindowForm(TypedDict):
    """A window of time: between two dates with times, or the same hours of several days."""

    start: Annotated[str, Key(_read_end, _write_end, sample=_TEN, missing="add the start")]
    """Local time such as `2026-12-20T18:00:00`, an instant with an offset, or a time of day such as `09:00`."""
    end: Annotated[str, Key(_read_end, _write_end, sample=_ELEVEN, missing="add the end")]
    """Like `start`; not included."""
    days: Annotated[str | None, Key(lambda value: None if value is None else read_weekdays(value), _write_weekdays)]
    """The weekdays on which times of day apply, such as `mon-fri`; null: every day."""
    name: Annotated[str, TEXT]
    """Name."""


class _Ends:
    """What a WindowForm is written from."""

    def __init__(self, window: Window) -> None:
        self.start, self.end, self.name = window.start, window.end, window.name
        self.days = _EVERY_DAY if isinstance(window, Period) else window.weekdays


def _make_window(
    start: datetime | time | None, end: datetime | time | None, days: tuple[int, ...] | None = None, name: str = ""
) -> Window:
    if start is None or end is None:
        # An end alone: what is wrong with it needs the other one.
        return Period(_TEN, _ELEVEN, name)
    if isinstance(start, datetime) and isinstance(end, datetime):
        if days is not None:
            raise InvalidInput(Problem("", "days have no effect between two dates", "write times such as 09:00"))
        return Period(start, end, name)
    if isinstance(start, time) and isinstance(end, time):
        return WeeklyHours(days or _EVERY_DAY, start, end, name)
    raise InvalidInput(Problem("", "one end is a time of day, the other a date", "write both in the same way"))


WINDOW = DocumentTable(
    WindowForm,
    _make_window,
    companions={
        "start": {"end": None},
        "end": {"start": None},
        "days": {"start": time(10), "end": time(11)},
    },
)


def read_window(value: object) -> Window:
    """Raises InvalidInput."""
    return WINDOW.read(value)


def write_window(window: Window) -> dict[str, Any]:
    """With every default."""
    return WINDOW.write(_Ends(window))


def shorten_window(window: Window) -> dict[str, Any]:
    """Without `days` for every day, and without an empty name."""
    return _without_nothing(write_window(window))


# ----------------------------------------------------------------------------------------------------------- calendar


class CalendarForm(TypedDict):
    """Days and windows of time under a name, which schedules can use."""

    name: Annotated[str, Key(text, sample="calendar", missing="give the calendar a name")]
    """1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."""
    description: Annotated[str, TEXT]
    """Free text."""
    tz: Annotated[str | None, OPTIONAL_TEXT]
    """The IANA zone of its days and times; null: that of the schedule that uses it."""
    days: Annotated[
        list[str | DayForm | DaySpanForm],
        Key(
            list_of(_read_entry, "days"),
            lambda days: [_write_entry(entry) for entry in days],
            shorten=lambda days: [_shorten_entry(entry) for entry in days],
        ),
    ]
    """Whole days: `2026-12-25`, `12-25` for every year, or mappings with names and ranges."""
    windows: Annotated[
        list[WindowForm],
        Key(
            list_of(read_window, "windows"),
            lambda windows: [write_window(window) for window in windows],
            shorten=lambda windows: [shorten_window(window) for window in windows],
        ),
    ]
    """Windows of time."""


CALENDAR = DocumentTable(CalendarForm, Calendar)
TABLES: tuple[DocumentTable[Any], ...] = (CALENDAR, DAY, DAY_SPAN, WINDOW)


def parse_calendar(document: object, place: str = "calendar") -> Calendar:
    """The calendar that a document describes. Raises InvalidInput; each place begins with `place`."""
    try:
        return CALENDAR.read(document)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def parse_calendars(document: object, place: str = "calendars") -> list[Calendar]:
    """The calendars of a file, by name: mappings, or lists of days. Raises InvalidInput."""
    if not isinstance(document, Mapping):
        raise InvalidInput(under(place, InvalidInput(f"expected a mapping of names, got {got(document)}").problems))
    calendars, problems = list[Calendar](), list[Problem]()
    for name, value in document.items():
        own: object = {"days": value} if isinstance(value, list | tuple) else value
        try:
            named = {"name": name, **own} if isinstance(own, Mapping) else own
            calendars.append(parse_calendar(named, f"{place}.{name}"))
        except InvalidInput as error:
            problems += error.problems if own is value else _in_list(f"{place}.{name}", error.problems)
    if problems:
        raise InvalidInput(problems)
    return calendars


def _in_list(place: str, problems: Iterable[Problem]) -> list[Problem]:
    """The problems of a list of days, at their places in the list."""
    days = f"{place}.days["
    return [
        Problem(f"{place}[{one.place.removeprefix(days)}", one.what, one.remedy) if one.place.startswith(days) else one
        for one in problems
    ]


def calendar_document(calendar: Calendar) -> CalendarForm:
    """The calendar as plain values, with every default."""
    return cast("CalendarForm", CALENDAR.write(calendar))


def calendars_document(calendars: Iterable[Calendar]) -> dict[str, Any]:
    """A file with these calendars, in its short form."""
    short = {calendar.name: CALENDAR.shorten(calendar) for calendar in calendars}
    return {"calendars": {name: {key: one[key] for key in one if key != "name"} for name, one in short.items()}}
