"""Schedules in words: `every 15 minutes from 09:00 to 17:59, Monday to Friday`.

The order is always the same: the time, then the day, then the month, then the zone and the bounds. Words come from the
values that a field matches and not from its text, so `*/15` and `0,15,30,45` read the same, and a step that does not
divide its field evenly (`*/7`) shows where it ends. The text only decides whether both day fields must match. Decision
record 0040 has the reasons for not using a library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise, product

from cronflow.domain.durations import format_duration, to_the_minute
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.calendar import Period, Window
from cronflow.domain.schedule.cron_expression import LAST, LAST_WEEKDAY, Expression, parse_expression
from cronflow.domain.schedule.dst import DEFAULT_DST, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Repeating, Schedule

_DAY = timedelta(days=1)
_UNITS = ((timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute"), (timedelta(seconds=1), "second"))
_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
_LAST_DAYS = {LAST: "last day", LAST_WEEKDAY: "last weekday"}
_MOST_TIMES = 6
"""Several minutes of several hours are listed as times up to this number."""


def describe(schedule: Schedule, *, zone: bool = True) -> str:
    """The schedule in words. `zone` adds the time zone that its times of day are in."""
    match schedule:
        case Once(at):
            return f"once at {to_the_minute(at)}"
        case Cron():
            words = _on_business_days(schedule) if schedule.business_day else describe_cron(schedule.plain)
        case Every():
            words = _interval(schedule)
            zone = zone and not schedule.interval % _DAY and not schedule.after_completion
        case AnyOf():
            words = "; ".join(describe(one, zone=zone) for one in schedule.schedules)
            zone = False
    if zone:
        words += f" ({schedule.tz})"
    return words + "".join(f", {rule}" for rule in _rules(schedule))


def _rules(schedule: Repeating) -> Iterator[str]:
    """The rules that most schedules do not have, each in a few words."""
    if isinstance(schedule, Cron | Every) and schedule.dst != DEFAULT_DST:
        gap, overlap = schedule.dst.gap, schedule.dst.overlap
        if gap is not DEFAULT_DST.gap:
            yield f"{'shifted' if gap is GapPolicy.SHIFT else 'skipped'} when the clocks go forward"
        if overlap is not DEFAULT_DST.overlap:
            which = "both times" if overlap is RepeatPolicy.BOTH else "the second time"
            yield f"{which} when the clocks go back"
    if schedule.jitter:
        yield f"up to {format_duration(schedule.jitter)} later"
    if schedule.calendars:
        yield f"except on days of {_join(schedule.calendars)}"
    if schedule.blackout:
        yield f"except in {_join([_entry(one) for one in schedule.blackout])}"
    if schedule.only_in:
        yield f"only in {_join([_entry(one) for one in schedule.only_in], 'or')}"
    if schedule.max_runs is not None:
        yield "1 run in total" if schedule.max_runs == 1 else f"{schedule.max_runs:,} runs in total"
    start, end = schedule.start, schedule.end
    if start is not None:
        yield f"from {to_the_minute(start)}" + ("" if end is None else f" until {to_the_minute(end)}")
    elif end is not None:
        yield f"until {to_the_minute(end)}"


def _entry(entry: str | Window) -> str:
    if isinstance(entry, str):
        return entry
    if entry.name:
        return entry.name
    if isinstance(entry, Period):
        return f"{entry.start:%Y-%m-%d %H:%M} to {entry.end:%Y-%m-%d %H:%M}"
    days = [] if len(entry.weekdays) == 7 else list(entry.weekdays)
    run = _run(days, range(1, 8))
    on = f"{_WEEKDAYS[run[0]]} to {_WEEKDAYS[run[1]]} " if run else f"{_names(days, _WEEKDAYS)} " if days else ""
    return f"{on}{_clock(entry.start.hour, entry.start.minute)} to {_clock(entry.end.hour, entry.end.minute)}"


def _on_business_days(cron: Cron) -> str:
    """`at 18:00 on the first and last business day of the month`."""
    expression = parse_expression(cron.plain)
    of, _ = _months(sorted(expression.months))
    return (
        f"{_time(expression)} on the {_join([_business_day(place) for place in cron.business_day])} business day {of}"
    )


def _business_day(place: int) -> str:
    number = abs(place)
    words = _NTH.get(number) or _ordinal(number)
    if place > 0:
        return words
    return "last" if number == 1 else f"{words}-last" if number > 2 else "second-last"


@lru_cache(maxsize=4096)
def describe_cron(text: str) -> str:
    """A cron expression in words. Raises InvalidInput when it is wrong."""
    expression = parse_expression(text)
    time, day = _time(expression), _day(expression)
    is_clock = time[3:4].isdigit()
    if is_clock and not day.startswith(("on ", "every ", *_WEEKDAYS[1:])):
        return f"{time} every day {day}".rstrip()
    link = " " if is_clock and day.startswith(("on ", "every ")) else ", "
    return f"{time}{link}{day}" if day else time


def _interval(every: Every) -> str:
    if every.after_completion:
        return f"{format_duration(every.interval)} after each run ends"
    days, rest = divmod(every.interval, _DAY)
    if rest:
        size, unit = next(one for one in _UNITS if not every.interval % one[0])
        words = _every(every.interval // size, unit)
        return words if every.anchor is None else f"{words}, aligned to {to_the_minute(every.anchor)}"
    origin = zones.reading(zones.find_zone(every.tz), every.origin) if every.anchor else every.origin
    clock = every.time or _clock(origin.hour, origin.minute, origin.second)
    weeks, weekday = days // 7, _WEEKDAYS[origin.isoweekday()]
    if days % 7:
        words = f"at {clock} {_every(days, 'day')}"
    else:
        words = f"at {clock} every {weekday}" if weeks == 1 else f"at {clock} every {weeks} weeks on {weekday}"
    return words if every.anchor is None or days in (1, 7) else f"{words}, aligned to {origin:%Y-%m-%d}"


# ---------------------------------------------------------------------------------------------------------------- times


def _time(cron: Expression) -> str:
    seconds, minutes, hours = cron.seconds, cron.minutes, cron.hours
    if len(seconds) > 1:
        return _many_seconds(seconds, minutes, hours)
    second = seconds[0]
    if len(minutes) == 1:
        return _one_minute(hours, minutes[0], second, wraps=not _day(cron))
    if not _step(minutes) and not _step(hours) and len(minutes) * len(hours) <= _MOST_TIMES:
        return f"at {_join([_clock(hour, minute, second) for hour, minute in product(hours, minutes)])}"
    if len(minutes) == 60 and second:
        return f"at second {second} of every minute{_within(hours)}"
    words = _many_minutes(minutes, hours)
    return f"{words}, at second {second}" if second else words


def _one_minute(hours: Sequence[int], minute: int, second: int, *, wraps: bool) -> str:
    """One minute of some hours. A night such as 22:00 to 02:00 is one range only where all days match."""
    if len(hours) == 24:
        if not minute and not second:
            return "every hour"
        return f"at minute {minute}{f' and second {second}' if second else ''} of every hour"
    if len(hours) > 2 and not minute and not second and (even := _even(hours, 24)):
        return _every(even, "hour")
    if step := _step(hours):
        span = hours[0], hours[-1]
    elif wraps and (found := _run(hours, range(24))):
        step, span = 1, found
    else:
        return f"at {_join([_clock(hour, minute, second) for hour in hours])}"
    return f"{_every(step, 'hour')} from {_clock(span[0], minute, second)} to {_clock(span[1], minute, second)}"


def _many_minutes(minutes: Sequence[int], hours: Sequence[int]) -> str:
    if even := _even(minutes, 60):
        return _every(even, "minute") + _within(hours)
    if not (step := _step(minutes)):
        return f"at minutes {_join(minutes)}{_past(hours)}"
    first, last = minutes[0], minutes[-1]
    if len(hours) == 1:
        return f"{_every(step, 'minute')} from {_clock(hours[0], first)} to {_clock(hours[0], last)}"
    return f"{_every(step, 'minute')} from minute {first} to minute {last}{_past(hours)}"


def _many_seconds(seconds: Sequence[int], minutes: Sequence[int], hours: Sequence[int]) -> str:
    if even := _even(seconds, 60):
        words, link = _every(even, "second"), "in"
    elif step := _step(seconds):
        words, link = f"{_every(step, 'second')} from second {seconds[0]} to second {seconds[-1]}", "of"
    else:
        words, link = f"at seconds {_join(seconds)}", "of"
    if len(minutes) == 60:
        return words + (" of every minute" if link == "of" else "") + _within(hours)
    if len(minutes) == len(hours) == 1 and even:
        return f"{words} from {_clock(hours[0], minutes[0])}:00 to {_clock(hours[0], minutes[0])}:59"
    if len(minutes) == 1:
        return f"{words} {link} minute {minutes[0]}{_past(hours)}"
    step = _step(minutes)
    if step == 1:
        return f"{words} {link} minutes {minutes[0]} to {minutes[-1]}{_past(hours)}"
    if step and len(minutes) > _MOST_TIMES:
        nth = _ordinal(step)
        return f"{words} {link} every {nth} minute from minute {minutes[0]} to minute {minutes[-1]}{_past(hours)}"
    return f"{words} {link} minutes {_join(minutes)}{_past(hours)}"


def _within(hours: Sequence[int]) -> str:
    """The hours of a frequency, for example ` from 09:00 to 17:59`; empty for the whole day."""
    if len(hours) == 24:
        return ""
    if (step := _step(hours)) and step > 1:
        return f" in every {_ordinal(step)} hour from {_clock(hours[0])} to {_clock(hours[-1], 59)}"
    return f" {_join([f'from {_clock(first)} to {_clock(last, 59)}' for first, last in _spans(hours)])}"


def _past(hours: Sequence[int]) -> str:
    """The hours that listed minutes belong to, for example ` past 09:00 and 17:00`."""
    if len(hours) == 24:
        return " of every hour"
    if step := _step(hours):
        nth = "" if step == 1 else f"{_ordinal(step)} "
        return f" of every {nth}hour from {_clock(hours[0])} to {_clock(hours[-1], 59)}"
    return f" past {_join([_clock(hour) for hour in hours])}"


# ----------------------------------------------------------------------------------------------------------------- days


def _day(cron: Expression) -> str:
    """The days and months; empty when every day matches."""
    days = sorted(cron.month_days, key=lambda day: (day < 0, day))
    if days[:31] == list(range(1, 32)):
        days = []
    weekdays = _weekdays(cron)
    of, during = _months(sorted(cron.months))
    if not cron.needs_both_days and not (days and weekdays):
        days, weekdays = [], {}
    if days and weekdays and not cron.needs_both_days:
        words = f"on {_month_days(days, 'or')}{' of the month' if min(days) < 0 else ''}, or on {_any_of(weekdays)}"
        return f"{words}, {during}" if during else words
    if days:
        words = f"on {_month_days(days, 'and')} {of}"
        return f"{words}, only if that day falls on {_any_of(weekdays)}" if weekdays else words
    if weekdays:
        return _each(weekdays, of, during)
    return during


def _weekdays(cron: Expression) -> dict[int, list[int]]:
    """The weekdays from Monday (1) to Sunday (7), each with its places in the month: none for all of them.

    Empty when every day matches.
    """
    found: dict[int, list[int]] = {}
    for one in cron.weekdays:
        day, place = one if isinstance(one, tuple) else (one, 0)
        found.setdefault(day or 7, []).append(place)
    places = {day: [] if 0 in found[day] else sorted(found[day], key=list(_NTH).index) for day in sorted(found)}
    return {} if len(places) == 7 and not any(places.values()) else places


def _month_days(days: Sequence[int], word: str) -> str:
    """`the 1st and 15th`, `the 1st to 7th and last day`, `every 2nd day from the 1st to the 31st`."""
    step = _step(days) if min(days) > 0 and len(days) > 4 else None
    if step and step > 1:
        return f"every {_ordinal(step)} day from the {_ordinal(days[0])} to the {_ordinal(days[-1])}"
    parts = []
    for first, last in _spans([day for day in days if day > 0]):
        if last - first > 1:
            parts.append(f"{_ordinal(first)} to {_ordinal(last)}")
        else:
            parts += [_ordinal(day) for day in range(first, last + 1)]
    return f"the {_join(parts + [_LAST_DAYS[day] for day in days if day < 0], word)}"


def _each(weekdays: dict[int, list[int]], of: str, during: str) -> str:
    """`Monday to Friday`, `every Monday and Friday in May`, `on the second Monday of the month`."""
    every = [day for day, places in weekdays.items() if not places]
    parts = []
    if every:
        run = _run(every, range(1, 8))
        words = f"{_WEEKDAYS[run[0]]} to {_WEEKDAYS[run[1]]}" if run else f"every {_names(every, _WEEKDAYS)}"
        parts.append(f"{words}{',' if run and during else ''} {during}".rstrip())
    nth = [_nth(places, day, "and") for day, places in weekdays.items() if places]
    if nth:
        parts.append(f"on {_join(nth)} {of}")
    return ", and ".join(parts)


def _any_of(weekdays: dict[int, list[int]]) -> str:
    """`a Monday or Friday`, `a day from Monday to Friday`, `the second Monday of the month`."""
    every = [day for day, places in weekdays.items() if not places]
    nth = [_nth(places, day, "or") for day, places in weekdays.items() if places]
    run = _run(every, range(1, 8))
    parts = [f"a day from {_WEEKDAYS[run[0]]} to {_WEEKDAYS[run[1]]}"] if run else []
    if every and not run:
        parts.append(f"a {_names(every, _WEEKDAYS, 'or')}")
    if nth:
        parts.append(f"{_join(nth, 'or')} of the month")
    return " or ".join(parts)


def _nth(places: Sequence[int], day: int, word: str) -> str:
    return f"the {_join([_NTH[place] for place in places], word)} {_WEEKDAYS[day]}"


def _months(months: Sequence[int]) -> tuple[str, str]:
    """What follows a day of the month, and what stands alone; the latter is empty for all months."""
    if len(months) == 12:
        return "of the month", ""
    if run := _run(months, range(1, 13)):
        during = f"from {_MONTHS[run[0]]} to {_MONTHS[run[1]]}"
        return f"of every month {during}", during
    return f"of {_names(months, _MONTHS)}", f"in {_names(months, _MONTHS)}"


# ------------------------------------------------------------------------------------------------------- sets and words


def _even(values: Sequence[int], size: int) -> int | None:
    """The interval of values that divide their whole field evenly from 0 on."""
    step = size // len(values)
    return step if len(values) > 1 and list(values) == list(range(0, size, step)) else None


def _step(values: Sequence[int]) -> int | None:
    """The step of three or more values in a row, or of four or more at the same distance."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(steps) == 1 and len(values) > (2 if steps == {1} else 3):
        return steps.pop()
    return None


def _run(values: Sequence[int], ring: range) -> tuple[int, int] | None:
    """The ends of three or more values in a row, also beyond the end of the ring: Friday to Sunday to Tuesday."""
    firsts = [one for one in values if (one - 1 if one > ring[0] else ring[-1]) not in values]
    lasts = [one for one in values if (one + 1 if one < ring[-1] else ring[0]) not in values]
    return (firsts[0], lasts[0]) if len(firsts) == 1 and len(values) > 2 else None


def _spans(values: Sequence[int]) -> list[tuple[int, int]]:
    """The stretches without a gap."""
    firsts = [one for one in values if one - 1 not in values]
    return list(zip(firsts, [one for one in values if one + 1 not in values], strict=True))


def _every(count: int, unit: str) -> str:
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _clock(hour: int, minute: int = 0, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _names(values: Sequence[int], names: Sequence[str], word: str = "and") -> str:
    return _join([names[value] for value in values], word)


def _join(parts: Sequence[object], word: str = "and") -> str:
    *most, last = map(str, parts)
    return f"{', '.join(most)} {word} {last}" if most else last
