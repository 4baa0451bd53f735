"""Translates systemd's calendar events (OnCalendar=) into cron schedules.

The rules: weekday and date must both match, unlike in cron; a time that the clocks skip does not fire; and the result
has the same instants or the event is refused. One event can need several schedules, for example for several years.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zones import find_zone

SHORT = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
}
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FULL = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
_NIGHT = frozenset((23, 0, 1, 2, 3))
"""The hours in which the clocks of some zone go forward."""
_YEARS = range(1970, 2200)
_WEEKS = {1: range(1, 8), 2: range(8, 15), 3: range(15, 22), 4: range(22, 29), 5: range(29, 32)}


def cron_schedules(event: str, tz: str | None) -> list[dict[str, Any]]:
    """The documents of cron schedules that fire together when the event elapses. `tz` is the zone of an event without
    one, for its years alone. Raises InvalidInput.
    """
    text, zone = _without_zone(event.strip())
    text = SHORT.get(text.lower(), text)
    if text.startswith("@"):
        raise _refusal(event, "an instant since 1970 is not translated", "write schedule: {at: …}")
    words = text.split()
    weekdays = _weekdays(words.pop(0), event) if words and words[0][0].isalpha() else []
    clock = words.pop() if words and ":" in words[-1] else "00:00:00"
    date = words.pop(0) if words else "*-*-*"
    if words:
        raise _refusal(event, "it is not a calendar event", "check it with systemd-analyze calendar")
    years, month, day = _date(date, event)
    hour, minute, second = _clock(clock, event)
    day, weekday = _day_fields(day, weekdays, event)
    fields = [minute, hour, day, month, weekday]
    expression = " ".join(fields if second == "0" else [second, *fields])
    plain: dict[str, Any] = {"cron": expression, **({} if zone is None else {"tz": zone})}
    if (
        not hour.startswith("*")
        and not minute.startswith("*")
        and not _NIGHT.isdisjoint(_values(_dots(hour), 0, 23, event))
    ):
        plain["dst"] = {"gap": "skip"}
    return [plain] if years is None else [plain | _bounds(first, last, zone or tz or "UTC") for first, last in years]


def _without_zone(event: str) -> tuple[str, str | None]:
    begin, _, last = event.rpartition(" ")
    if not begin and event.lower() in SHORT:
        return event, None
    if not begin or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*", last) or last.upper() in _DAYS:
        return event, None
    return begin.strip(), str(find_zone(last).key) if last != "UTC" else "UTC"


def _weekdays(text: str, event: str) -> list[int]:
    found: set[int] = set()
    for part in text.strip(",").split(","):
        first, sign, last = part.partition("..") if ".." in part else part.partition("-")
        begin = _weekday(first, event)
        end = _weekday(last, event) if sign else begin
        # From Monday on, so that Sunday is the last day.
        days = range(begin or 7, (end or 7) + 1)
        if not days:
            raise _refusal(event, f"the weekdays {part!r} run backwards", "write two ranges, such as Sat..Sun,Mon")
        found.update(day % 7 for day in days)
    return sorted(found)


def _weekday(text: str, event: str) -> int:
    for names in (_DAYS, _FULL):
        if text.upper() in names:
            return names.index(text.upper())
    raise _refusal(event, f"{text!r} is not a weekday", "check it with systemd-analyze calendar")


def _date(text: str, event: str) -> tuple[list[tuple[int, int]] | None, str, str]:
    """The years from and to, the month field and the day; a day from the end of the month begins with `~`."""
    found = re.fullmatch(r"(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)", text)
    if found is None:
        raise _refusal(event, f"{text!r} is not a date", "check it with systemd-analyze calendar")
    year, month, sign, day = found.groups()
    month_field = _field(month, 1, 12, event)
    years = None
    if year not in (None, "*"):
        numbers = sorted(_values(year, _YEARS[0], _YEARS[-1], event))
        years = _spans([2000 + one if one < 70 else 1900 + one if one < 100 else one for one in numbers])
    return years, month_field, f"~{day}" if sign == "~" else _field(day, 1, 31, event)


def _spans(numbers: Sequence[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


def _bounds(first: int, last: int, zone: str) -> dict[str, str]:
    found = {}
    for key, year in (("start", first), ("end", last + 1)):
        instant = datetime(year, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
        found[key] = f"{instant:%Y-%m-%dT%H:%M:%SZ}"
    if last >= _YEARS[-1]:
        del found["end"]
    return found


def _clock(text: str, event: str) -> tuple[str, str, str]:
    parts = text.split(":")
    if len(parts) == 2:
        parts.append("0")
    if len(parts) != 3:
        raise _refusal(event, f"{text!r} is not a time", "check it with systemd-analyze calendar")
    hour, minute, second = parts
    return _field(hour, 0, 23, event), _field(minute, 0, 59, event), _field(second, 0, 59, event)


def _day_fields(day: str, weekdays: list[int], event: str) -> tuple[str, str]:
    """The day-of-month and day-of-week fields, so that both must match."""
    every_day = set(weekdays) == set(range(7)) or not weekdays
    spans = _spans(weekdays)
    names = ",".join(
        f"{_DAYS[a]}-{_DAYS[b]}" if b > a + 1 else ",".join(_DAYS[one] for one in range(a, b + 1)) for a, b in spans
    )
    if day.startswith("~"):
        return _from_the_end(day[1:], [] if every_day else weekdays, event)
    if day == "*" or every_day:
        return day, "*" if every_day else names
    dates = _values(_dots(day), 1, 31, event)
    weeks = [week for week, days in _WEEKS.items() if set(days) <= dates]
    if dates == {date for week in weeks for date in _WEEKS[week]}:
        return "*", ",".join(f"{_DAYS[one]}#{week}" for one in weekdays for week in weeks)
    # In cron both must match when one of the fields begins with a star: */31 is the 1st, and */7 is Sunday.
    if 1 in dates:
        return ",".join(["*/31", *map(str, sorted(dates - {1}))]), names
    if 0 in weekdays:
        return ",".join(map(str, sorted(dates))), ",".join(["*/7", *(_DAYS[one] for one in weekdays if one)])
    what = "cron has no day that must be one of these dates and one of these weekdays"
    raise _refusal(event, what, 'name the dates alone, and begin the command with a test such as [ "$(date +%u)" = 5 ]')


def _from_the_end(day: str, weekdays: list[int], event: str) -> tuple[str, str]:
    if re.fullmatch(r"0?1", day) and not weekdays:
        return "L", "*"
    if re.fullmatch(r"0?7/1|0?7\.\.0?1|0?1\.\.0?7", day) and weekdays:
        return "*", ",".join(f"{one}L" for one in weekdays)
    what = (
        f"the day ~{day} counts from the end of the month, which cron has for the last day and the last weekday alone"
    )
    raise _refusal(event, what, "use ~01, or Mon *-*~07/1 for the last Monday")


def _field(text: str, low: int, high: int, event: str) -> str:
    """The field of a cron expression with these values."""
    if text == "*":
        return "*"
    numbers = _values(text, low, high, event)
    if numbers == set(range(low, high + 1)):
        return "*"
    step = re.fullmatch(rf"(?:\*|0*{low})/(\d+)", text)
    if step and numbers == set(range(low, high + 1, int(step[1]))):
        return f"*/{int(step[1])}"
    return ",".join(str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a},{b}" for a, b in _spans(sorted(numbers)))


def _dots(field: str) -> str:
    """A field of a cron expression without steps, as systemd writes it."""
    return field.replace("-", "..")


def _values(text: str, low: int, high: int, event: str) -> set[int]:
    found: set[int] = set()
    for term in text.split(","):
        parts = re.fullmatch(r"(?:(\*)|(\d{1,4})(?:\.\.(\d{1,4}))?)(?:/(\d{1,4}))?", term)
        if parts is None:
            what = f"{term!r} is not a value that cron supports"
            raise _refusal(event, what, "use whole numbers, lists, ranges and steps")
        star, first, last, step = parts.groups()
        begin = low if star else int(first)
        end = int(last) if last else high if star or step else begin
        if not (low <= begin <= high and begin <= end <= high) or step == "0":
            raise _refusal(event, f"{term!r} is out of range", f"use {low} to {high}")
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def _refusal(event: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem("", f"OnCalendar={event}: {what}", remedy))
