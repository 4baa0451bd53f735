"""Fires around every clock change of every zone from 2026 to 2036, compared second by second with the clocks.

`make test` compares the zones with unusual changes and a few others; `make prove` compares all of them. Every schedule
is asked in all directions: forwards, backwards, from each second near the change, and for counts on both sides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.fires import count_between, last_before, next_after
from cronflow.domain.schedule.kinds import Cron, Every, Schedule
from cronflow.testing.clock_oracle import Clocks
from cronflow.testing.cron_matcher import CronMatcher

SECOND = timedelta(seconds=1)
AROUND = timedelta(hours=3)
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)

ZONE_NAMES = sorted(name for name in available_timezones() if not name.startswith(("posix", "right", "localtime")))
NAMED = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Troll",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
)
# Ones with unusual changes in the past.
HISTORIC = (
    ("Pacific/Apia", "2011-12-30 10:00"),
    ("Pacific/Kwajalein", "1993-08-21 12:00"),
    ("America/St_Johns", "2010-03-14 03:31"),
    ("America/St_Johns", "2010-11-07 02:31"),
    ("Asia/Beirut", "2022-03-26 22:00"),
    ("Africa/Cairo", "2023-10-26 21:00"),
    ("America/Sao_Paulo", "2018-02-18 02:00"),
    ("Africa/Monrovia", "1972-01-07 00:44:30"),
)


@dataclass(frozen=True, slots=True)
class Change:
    """An instant from which the clocks of a zone show another offset."""

    zone: str
    at: datetime

    @property
    def before(self) -> datetime:
        """What the clocks would have shown at this instant without the change."""
        return _reading(self.zone, self.at - SECOND) + SECOND

    @property
    def after(self) -> datetime:
        return _reading(self.zone, self.at)


def changes_of(zone: str, first: datetime = FIRST, last: datetime = LAST) -> list[Change]:
    """Found by looking at the offset every six hours, and then at halves."""
    found = []
    step = timedelta(hours=6)
    while first < last:
        early, late = first, first + step
        if _offset(zone, early) != _offset(zone, late):
            while late - early > SECOND:
                middle = early + (late - early) // 2
                middle = middle.replace(microsecond=0)
                if _offset(zone, middle) == _offset(zone, late):
                    late = middle
                else:
                    early = middle
            found.append(Change(zone, late))
        first += step
    return found


def expressions(change: Change) -> Iterator[str]:
    """Times in, before, after and at the edges of what the clocks skip or show twice; intervals; seconds; dates."""
    low, high = min(change.before, change.after), max(change.before, change.after)
    middle = low + (high - low) / 2
    for local in (low - SECOND * 60, low, middle, high - SECOND * 60, high):
        yield f"{local.minute} {local.hour} * * *"
    yield f"0,30 {low.hour},{high.hour} * * *"
    yield f"5/10 {(low - AROUND / 3).hour}-23 * * *"
    yield "17 0-23 * * *"
    yield f"{middle.minute} {middle.hour} {middle.day} {middle.month} *"
    yield f"{low.minute} {low.hour} * * {low:%a}"
    yield f"0 0 {high.day} {high.month} {middle:%a}#{(middle.day - 1) // 7 + 1}"
    yield f"59 {(low - SECOND).minute} {(low - SECOND).hour} * * *"
    yield f"*/20 {middle.minute} {middle.hour} * * *"
    yield f"{middle.second} {middle.minute} {middle.hour} L,{middle.day} * *"
    yield "0 * * * *"
    yield "*/7 * * * *"
    yield f"*/20 {low.hour} * * *"
    yield "5 */2 * * *"
    yield "30 20 */3 * * *"
    yield f"{low.minute} * {middle.day} * *"


# Every third one differs from the last in both policies.
_GAPS, _OVERLAPS = list(GapPolicy), list(RepeatPolicy)
POLICIES = [Dst(_GAPS[n % 3], _OVERLAPS[(n + n // 3) % 3]) for n in (0, 1, 2, 4, 5, 3, 8, 6, 7)]


def schedules(change: Change, clocks: Clocks) -> Iterator[tuple[Schedule, list[datetime]]]:
    """Each expression, and some times of every day, with three policies each; and when it fires by the clocks.

    The policies take turns, so that expressions meet others at the next change.
    """
    turn = (change.at - FIRST).days
    for place, expr in enumerate(expressions(change)):
        matcher = CronMatcher(expr)
        if matcher.asks_the_clocks:
            yield Cron(expr, change.zone), clocks.intervals(matcher)
            continue
        for dst in POLICIES[(turn + place) % 3 :: 3]:
            expected = clocks.times(matcher, dst.gap.value, dst.overlap.value)
            yield Cron(expr, change.zone, dst=dst), expected
    low, high = min(change.before, change.after), max(change.before, change.after)
    for place, local in enumerate((low, low + (high - low) / 3, high - SECOND, high)):
        daily = CronMatcher(f"{local.second} {local.minute} {local.hour} * * *")
        for dst in POLICIES[(turn + place) % 3 :: 3]:
            schedule = Every("1d", time=f"{local:%H:%M:%S}", tz=change.zone, dst=dst)
            yield schedule, clocks.times(daily, dst.gap.value, dst.overlap.value)


def check(change: Change, around: timedelta = AROUND, beyond: timedelta = timedelta(0)) -> int:
    """Compare every schedule with the clocks around a change. Returns the number of comparisons.

    The clocks are looked at `beyond` the compared time too: another change near its ends repeats what they showed.
    """
    around = max(around, abs(change.after - change.before) + SECOND)
    first, last = change.at - around, change.at + around
    clocks = Clocks(ZoneInfo(change.zone), first - beyond, last + beyond)
    checked = 0
    for schedule, fires in schedules(change, clocks):
        compare(schedule, [fire for fire in fires if first <= fire < last], first, last, change.at)
        checked += 1
    return checked


def compare(schedule: Schedule, expected: list[datetime], first: datetime, last: datetime, at: datetime) -> None:
    """The schedule must fire in [first, last) as expected, wherever and in whichever direction it is asked."""
    message = f"{schedule}, in {first} to {last}"
    forwards: list[datetime] = []
    fire = next_after(schedule, first - SECOND)
    while fire is not None and fire < last and len(forwards) <= len(expected):
        forwards.append(fire)
        fire = next_after(schedule, fire)
    assert forwards == expected, message
    backwards: list[datetime] = []
    fire = last_before(schedule, last - SECOND, not_before=first)
    while fire is not None and len(backwards) <= len(expected):
        backwards.append(fire)
        fire = last_before(schedule, fire - SECOND, not_before=first)
    assert backwards == expected[::-1], message
    for instant in (at - SECOND, at, at + SECOND):
        past, future = [t for t in expected if t <= instant], [t for t in expected if t > instant]
        following = next_after(schedule, instant)
        assert last_before(schedule, instant, not_before=first) == (past[-1] if past else None), message
        assert following == future[0] if future else following is None or following >= last, message
        assert count_between(schedule, first, instant) == len(past), message
        assert count_between(schedule, instant + SECOND, last - SECOND) == len(future), message


def _reading(zone: str, instant: datetime) -> datetime:
    return instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def _offset(zone: str, instant: datetime) -> timedelta | None:
    return instant.astimezone(ZoneInfo(zone)).utcoffset()


@pytest.mark.parametrize("zone", NAMED)
def test_fires_around_the_next_changes_of_unusual_zones_are_what_the_clocks_show(zone: str) -> None:
    for change in changes_of(zone, last=FIRST + timedelta(days=366)):
        assert check(change) >= 60


@pytest.mark.parametrize(("zone", "at"), HISTORIC)
def test_fires_around_unusual_changes_of_the_past_are_what_the_clocks_showed(zone: str, at: str) -> None:
    assert check(Change(zone, datetime.fromisoformat(at).replace(tzinfo=UTC))) >= 60


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(2, 60))])
def test_fires_on_random_days_are_what_the_clocks_show(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(5):
        instant = FIRST + chosen.randrange(-30 * 365 * 86_400, 60 * 365 * 86_400) * SECOND
        # A change of nothing: the schedules are those of times near the instant.
        assert check(Change(chosen.choice(ZONE_NAMES), instant), AROUND * 3, beyond=AROUND) >= 60


@pytest.mark.prove
def test_fires_around_every_change_of_every_zone_in_ten_years_are_what_the_clocks_show() -> None:
    """Zones that share a change, such as those of central Europe, are compared once and then by their fires alone."""
    known: dict[tuple[datetime, datetime, datetime], str] = {}
    for zone in ZONE_NAMES:
        for change in changes_of(zone):
            key = (change.at, change.before, change.after)
            if key not in known:
                check(change)
                known[key] = zone
                continue
            for expr in expressions(change):
                begin = change.at - AROUND
                mine, same = Cron(expr, zone), Cron(expr, known[key])
                assert next_after(mine, begin) == next_after(same, begin), (expr, zone)
                assert next_after(mine, change.at) == next_after(same, change.at), (expr, zone)
    assert len(known) > 500
