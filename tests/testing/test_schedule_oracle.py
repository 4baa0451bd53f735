"""The oracle against instants worked out by hand, and the schedules against it around every kind of clock change."""

from __future__ import annotations

import ast
import inspect
from datetime import UTC, datetime, timedelta
from datetime import time as clock_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.calendar import Calendar, DaySpan, Period, WeeklyHours, Window, YearlyDay
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.exclusions import exclusion, next_allowed
from cronflow.domain.schedule.fires import MOST_COUNTED_OF_ANY, count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule
from cronflow.testing import cron_matcher, schedule_oracle
from cronflow.testing.schedule_oracle import fires_between, is_excluded
from tests.drawing import examples

SECOND = timedelta(seconds=1)

# A zone and an instant at which its offset changes: by whole hours, half hours, days and odd seconds, some at midnight.
CHANGES = [
    ("UTC", "2026-03-29 01:00"),
    ("Europe/Berlin", "2026-03-29 01:00"),
    ("Europe/Berlin", "2026-10-25 01:00"),
    ("America/New_York", "2026-03-08 07:00"),
    ("America/New_York", "2026-11-01 06:00"),
    ("Australia/Lord_Howe", "2026-04-04 15:00"),
    ("Australia/Lord_Howe", "2026-10-03 15:30"),
    ("America/St_Johns", "2010-03-14 03:31"),
    ("America/St_Johns", "2010-11-07 02:31"),
    ("America/Sao_Paulo", "2018-02-18 02:00"),
    ("America/Sao_Paulo", "2018-11-04 03:00"),
    ("Asia/Beirut", "2022-03-26 22:00"),
    ("Asia/Beirut", "2022-10-29 21:00"),
    ("Africa/Cairo", "2023-04-27 22:00"),
    ("Africa/Cairo", "2023-10-26 21:00"),
    ("Antarctica/Troll", "2026-03-29 01:00"),
    ("Pacific/Apia", "2011-12-30 10:00"),
    ("Pacific/Kwajalein", "1969-09-30 13:00"),
    ("Pacific/Kwajalein", "1993-08-21 12:00"),
    ("Africa/Monrovia", "1972-01-07 00:44:30"),
]

MAY_DAY = Calendar(name="may", days=(YearlyDay(5, 1),))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def clocks(found: list[datetime]) -> list[str]:
    return [f"{fire:%d %H:%M:%S}".removesuffix(":00") for fire in found]


@pytest.mark.parametrize(
    ("schedule", "first", "last", "expected"),
    [
        (Cron("0 12 * * *"), "2026-11-21 12:00", "2026-11-23 12:00", ["21 12:00", "22 12:00"]),
        (Cron("*/25 59 9 * * *"), "2026-11-21", "2026-11-22", ["21 09:59", "21 09:59:25", "21 09:59:50"]),
        (Cron("0 0 15 * FRI"), "2026-11-12", "2026-11-21", ["13 00:00", "15 00:00", "20 00:00"]),
        (Cron("0 0 */2 * MON"), "2026-11-01", "2026-12-01", ["09 00:00", "23 00:00"]),
        (Cron("0 0 * nov MON#2,5L,7"), "2026-11-01", "2026-11-30", ["01 00:00", "08 00:00", "09 00:00", "15 00:00"]),
        (Cron("0 0 L,LW * *"), "2026-02-01", "2026-03-01", ["27 00:00", "28 00:00"]),
        (Cron("@weekly"), "2026-11-21", "2026-11-25", ["22 00:00"]),
        (Cron("30 2 * * *", "Europe/Berlin"), "2026-03-29", "2026-03-31", ["29 01:00", "30 00:30"]),
        (Cron("0,30 2,3 * * *", "Europe/Berlin"), "2026-03-29", "2026-03-30", ["29 01:00", "29 01:30"]),
        (Cron("30 2 * * *", "Europe/Berlin"), "2026-10-25", "2026-10-27", ["25 00:30", "26 01:30"]),
        (
            Cron("0 */30 * * * *", "Europe/Berlin"),
            "2026-10-25 00:30",
            "2026-10-25 02:00",
            ["25 00:30", "25 01:00", "25 01:30"],
        ),
        (Cron("*/20 2 * * *", "Europe/Berlin"), "2026-03-29", "2026-03-30", []),
        (Cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-03", "2026-10-05", ["03 15:30", "04 15:15"]),
        (Cron("0 12 * * *", "Pacific/Apia"), "2011-12-29 12:00", "2011-12-31", ["29 22:00", "30 10:00", "30 22:00"]),
        (
            Cron("@hourly", start=at("2026-11-21 10:00"), end=at("2026-11-21 11:00")),
            "2026-11-21",
            "2026-11-22",
            ["21 10:00"],
        ),
        (Every("40s"), "2026-11-21 00:01", "2026-11-21 00:02:40", ["21 00:01:20", "21 00:02"]),
        (Every("1w"), "2026-11-16", "2026-11-30", ["16 00:00", "23 00:00"]),
        (Every("1d", time="02:30", tz="Europe/Berlin"), "2026-03-28", "2026-03-30", ["28 01:30", "29 01:00"]),
        (Every("1w", time="02:30", tz="Europe/Berlin"), "2026-11-20", "2026-12-01", ["23 01:30", "30 01:30"]),
        (
            Cron("30 2 * * *", "Europe/Berlin", dst=Dst(GapPolicy.SHIFT, RepeatPolicy.LAST)),
            "2026-03-29",
            "2026-03-31",
            ["29 01:30", "30 00:30"],
        ),
        (
            Cron("30 2 * * *", "Europe/Berlin", dst=Dst(GapPolicy.SKIP, RepeatPolicy.BOTH)),
            "2026-10-25",
            "2026-10-26",
            ["25 00:30", "25 01:30"],
        ),
        (Cron("30 2 * * *", "Europe/Berlin", dst=Dst(GapPolicy.SKIP)), "2026-03-29", "2026-03-30", []),
        (Cron("0 18 * * *", business_day=(1, -1)), "2026-05-01", "2026-06-01", ["01 18:00", "29 18:00"]),
        (
            Cron("0 18 * * *", business_day=(1, 2), calendars=("may",), book=(MAY_DAY,)),
            "2026-05-01",
            "2026-06-01",
            ["04 18:00", "05 18:00"],
        ),
        (
            AnyOf((Cron("0 12 * * *"), Every("6h"), Once(at("2026-11-21 13:00")))),
            "2026-11-21 12:00",
            "2026-11-21 18:00",
            ["21 12:00", "21 13:00"],
        ),
        (Once(at("2026-11-21 12:00")), "2026-11-21 12:00", "2026-11-21 12:01", ["21 12:00"]),
        (Once(at("2026-11-21 12:00")), "2026-11-21 11:00", "2026-11-21 12:00", []),
    ],
)
def test_the_oracle_knows_what_was_worked_out_by_hand(
    schedule: Schedule, first: str, last: str, expected: list[str]
) -> None:
    assert clocks(fires_between(schedule, at(first), at(last)))[: len(expected) or None] == expected


def test_the_oracle_shares_no_evaluation_with_the_schedules() -> None:
    imports = {
        (node.module, alias.name)
        for module in (schedule_oracle, cron_matcher)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not any((module or "").startswith("cronsim") for module, _ in imports)
    ours = {name for module, name in imports if (module or "").startswith("cronflow")}
    values = {"AnyOf", "Cron", "Every", "Once", "Schedule", "Dst", "Calendar", "DaySpan", "Period", "Window"}
    assert ours == values | {"CronMatcher"}


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    step = st.integers(1, high - low + 1)
    pair = st.tuples(number, number).map(sorted)
    term = st.one_of(
        number.map(str),
        pair.map("{0[0]}-{0[1]}".format),
        st.tuples(number, step).map("{0[0]}/{0[1]}".format),
        st.tuples(pair, step).map("{0[0][0]}-{0[0][1]}/{0[1]}".format),
    )
    hashed = st.one_of(
        st.just("H"), pair.map("H({0[0]}-{0[1]})".format), st.integers(1, high - low - 3).map("H/{}".format)
    )
    listed = st.lists(st.one_of(term, term, term, hashed), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), step.map("*/{}".format), listed)


EVERY_DAY = st.just(("*", "*", "*"))
SOME_DAYS = st.tuples(
    st.sampled_from(["*", "L", "LW", "*/2"]) | field(1, 31),
    st.sampled_from(["*", "JAN-JUN,OCT-DEC"]) | field(1, 12),
    st.sampled_from(["*", "MON-FRI", "SUN#1,SAT", "0L", "6L,SUN#4"]) | field(0, 7),
)


@st.composite
def crons(draw: st.DrawFn, tz: str, change: datetime) -> str:
    """An expression of five or six fields, most often for every day and for the hours around the change."""
    hour = change.astimezone(ZoneInfo(tz)).hour
    around = st.sampled_from([f"{(hour + shift) % 24}" for shift in (-2, -1, 0, 1)])
    hours = draw(st.one_of(around, around, st.tuples(around, around).map(",".join), field(0, 23)))
    # At most three a minute: the oracle walks through every one of them.
    seconds = draw(st.sampled_from([(), (), (), ("*/20",), ("0",), ("0,30",), ("59",), ("7-9",)]))
    days = draw(st.one_of(EVERY_DAY, EVERY_DAY, EVERY_DAY, SOME_DAYS))
    return " ".join((*seconds, draw(field(0, 59)), hours, *days))


@st.composite
def questions(draw: st.DrawFn) -> tuple[Schedule, datetime, datetime, datetime]:
    """A schedule, a window [first, last) around a clock change of its zone, and an instant in it."""
    tz, text = draw(st.sampled_from(CHANGES))
    change = at(text)
    near = st.integers(-100_000, 100_000).map(lambda seconds: change + seconds * SECOND)
    start, end = draw(st.none() | st.none() | near), draw(st.none() | st.none() | near)
    if start is not None and end is not None and end <= start:
        end = None
    anchor = draw(st.none() | near)
    dst = st.just(Dst()) | st.builds(Dst, st.sampled_from(GapPolicy), st.sampled_from(RepeatPolicy))
    jitter = draw(st.sampled_from([0, 0, 0, 1, 30, 7_200])) * SECOND
    seed = st.sampled_from(["billing", "report"])
    bounds = {"start": st.just(start), "end": st.just(end)}
    rules = {"jitter": st.just(jitter), "seed": seed}
    local = change.astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    closed = DaySpan(local.date(), local.date() + timedelta(days=draw(st.integers(0, 3))))
    monthly = {
        "business_day": st.lists(st.integers(-23, 23).filter(bool), min_size=12, max_size=20).map(tuple),
        "calendars": st.just(("closed",)),
        "book": st.just((Calendar(name="closed", days=(closed,)),)),
    }
    hours = st.sampled_from(["0", "30", "7,59", "*/20"]).map(f"{{}} {local.hour} * * *".format)
    expr = draw(crons(tz, change))
    cron = st.builds(Cron, st.just(expr), st.just(tz), dst=dst, **bounds, **rules)
    # A policy has no effect on an interval, and is refused.
    keeps = any(one.startswith("*") for one in expr.split()[-5:-3])
    cron = st.builds(Cron, st.just(expr), st.just(tz), **bounds, **rules) if keeps else cron
    business = st.builds(Cron, hours, st.just(tz), **monthly, **bounds, **rules)
    days = st.sampled_from(["1d", "2d", "1w"])
    clock = st.integers(-7_200, 7_200).map(lambda seconds: f"{local + seconds * SECOND:%H:%M:%S}")
    daily = st.builds(Every, days, st.just(anchor), st.just(tz), clock, dst=dst, **bounds, **rules)
    exact = st.builds(Every, st.integers(1, 200_000), st.just(anchor), **bounds, **rules)
    once = st.builds(Once, near)
    bare = st.builds(Every, st.integers(60, 9_000)) | st.builds(Every, days, tz=st.just(tz), time=clock, dst=dst)
    of_any = st.one_of(once, bare, st.builds(Cron, st.just(expr), st.just(tz), **bounds, seed=seed))
    several = st.builds(AnyOf, st.lists(of_any, min_size=1, max_size=4).map(tuple), **bounds, **rules)
    try:
        schedule: Schedule = draw(st.one_of(cron, cron, daily, exact, several, business))
    except InvalidInput as error:
        assume("never fires" not in str(error))
        raise
    lead, trail = st.integers(0, 7_200) | st.integers(0, 100_000), st.integers(1, 10_000) | st.integers(1, 100_000)
    first, last = change - draw(lead) * SECOND, change + draw(trail) * SECOND
    instant = change + draw(st.sampled_from([-1, 0, 1]) | st.integers(-7_200, 7_200)) * SECOND
    return schedule, first, last, min(max(instant, first), last - SECOND)


Question = tuple[Schedule, datetime, datetime, datetime]


@settings(max_examples=examples(40), deadline=None)
@given(questions())
def test_walking_from_fire_to_fire_finds_what_the_oracle_finds(question: Question) -> None:
    schedule, first, last, _ = question
    expected = fires_between(schedule, first, last)[:200]
    found: list[datetime] = []
    fire = next_after(schedule, first - SECOND)
    while fire is not None and fire < last and len(found) < 200:
        found.append(fire)
        fire = next_after(schedule, fire)
    assert found == expected


@settings(max_examples=examples(40), deadline=None)
@given(questions())
def test_asking_at_any_instant_finds_what_the_oracle_finds(question: Question) -> None:
    schedule, first, last, instant = question
    expected = fires_between(schedule, first, last)
    past = [fire for fire in expected if fire <= instant]
    future = [fire for fire in expected if fire > instant]
    assert last_before(schedule, instant, not_before=first) == (past[-1] if past else None)
    assert latest(schedule, instant, 20, not_before=first) == past[-20:]
    following = next_after(schedule, instant)
    if future:
        assert following == future[0]
    else:
        assert following is None or following >= last


@settings(max_examples=examples(40), deadline=None)
@given(questions())
def test_counting_agrees_with_the_oracle(question: Question) -> None:
    schedule, first, last, instant = question
    for begin, end in ((first, instant), (instant, last - SECOND), (first, last - SECOND)):
        expected = len(fires_between(schedule, begin, end + SECOND))
        if isinstance(schedule, AnyOf) and expected >= MOST_COUNTED_OF_ANY - 1:
            continue
        assert count_between(schedule, begin, end, limit=expected) == expected
        assert count_between(schedule, begin, end, limit=expected - 1) is None


@st.composite
def windows(draw: st.DrawFn, around: datetime) -> Window:
    hours = st.integers(-60, 60).map(lambda hour: around + timedelta(hours=hour))
    if draw(st.booleans()):
        begin, end = sorted((draw(hours), draw(hours)))
        aware = draw(st.booleans())
        zone = UTC if aware else None
        return Period(begin.replace(tzinfo=zone), end.replace(tzinfo=zone) + SECOND)
    clock = st.sampled_from(["00:00", "01:30", "02:00", "02:45", "12:00", "22:00"]).map(clock_time.fromisoformat)
    days = st.lists(st.integers(1, 7), min_size=1).map(tuple)
    return WeeklyHours(draw(days), draw(clock), draw(clock))


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_exclusions_agree_with_the_oracle(data: st.DataObject) -> None:
    """An excluded fire is excluded to the instant that the exclusion names, and what follows is allowed."""
    tz, text = data.draw(st.sampled_from(CHANGES))
    change = at(text)
    local = change.astimezone(ZoneInfo(tz))
    some = st.lists(windows(change), max_size=2).map(tuple)
    days = st.integers(-2, 2).map(lambda number: local.date() + timedelta(days=number))
    spans = st.lists(
        st.one_of(days.map(lambda day: YearlyDay(day.month, day.day)), days.map(lambda day: DaySpan(day, day)))
    )
    book = (
        Calendar(name="one", tz=data.draw(st.sampled_from([None, "Asia/Kolkata"])), days=tuple(data.draw(spans))),
        Calendar(name="two", windows=data.draw(some)),
    )
    names = st.lists(st.sampled_from(["one", "two"]), max_size=2, unique=True).map(tuple)
    only_in = data.draw(st.sampled_from([(), (), ("one",), ("two",)])) + data.draw(
        st.sampled_from([(), data.draw(some)])
    )
    schedule = AnyOf(
        (Every(data.draw(st.sampled_from([1_200, 5_400, 7_201]))),),
        tz,
        calendars=data.draw(names),
        blackout=data.draw(names) + data.draw(some),
        only_in=only_in,
        book=book,
    )
    first, last = change - timedelta(hours=30), change + timedelta(hours=30)
    fires = fires_between(schedule, first, last)
    excluded = {fire for fire in fires if is_excluded(schedule, fire)}
    for fire in fires:
        found = exclusion(schedule, fire)
        assert (found is not None) == (fire in excluded), fire
        if found is not None:
            assert found.until > fire
            assert {one for one in fires if fire <= one < found.until} <= excluded
    allowed = [fire for fire in fires if fire not in excluded]
    following = next_allowed(schedule, first - SECOND)
    if allowed:
        assert following == allowed[0]
    else:
        assert following is None or following >= last
