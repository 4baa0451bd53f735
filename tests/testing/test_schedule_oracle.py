"""The oracle against instants worked out by hand, and the schedules against it around every kind of clock change."""

from __future__ import annotations

import ast
import inspect
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from cronflow.testing import schedule_oracle
from cronflow.testing.schedule_oracle import fires_between

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
        for node in ast.walk(ast.parse(inspect.getsource(schedule_oracle)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not any((module or "").startswith("cronsim") for module, _ in imports)
    ours = {name for module, name in imports if (module or "").startswith("cronflow")}
    assert ours == {"Cron", "Every", "Once", "Schedule"}


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
    listed = st.lists(term, min_size=1, max_size=3).map(",".join)
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
    cron = st.builds(Cron, crons(tz, change), st.just(tz), st.just(start), st.just(end))
    days = st.sampled_from(["1d", "2d", "1w"])
    local = change.astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    clock = st.integers(-7_200, 7_200).map(lambda seconds: f"{local + seconds * SECOND:%H:%M:%S}")
    daily = st.builds(Every, days, st.just(anchor), st.just(tz), clock, st.just(start), st.just(end))
    exact = st.builds(Every, st.integers(1, 200_000), st.just(anchor), start=st.just(start), end=st.just(end))
    try:
        schedule: Schedule = draw(st.one_of(cron, cron, cron, daily, exact))
    except InvalidInput as error:
        assume("never fires" not in str(error))
        raise
    lead, trail = st.integers(0, 7_200) | st.integers(0, 100_000), st.integers(1, 10_000) | st.integers(1, 100_000)
    first, last = change - draw(lead) * SECOND, change + draw(trail) * SECOND
    instant = change + draw(st.sampled_from([-1, 0, 1]) | st.integers(-7_200, 7_200)) * SECOND
    return schedule, first, last, min(max(instant, first), last - SECOND)


Question = tuple[Schedule, datetime, datetime, datetime]


@settings(max_examples=250, deadline=None)
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


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=300, deadline=None)
@given(questions())
def test_counting_agrees_with_the_oracle(question: Question) -> None:
    schedule, first, last, instant = question
    for begin, end in ((first, instant), (instant, last - SECOND), (first, last - SECOND)):
        expected = len(fires_between(schedule, begin, end + SECOND))
        assert count_between(schedule, begin, end, limit=expected) == expected
        assert count_between(schedule, begin, end, limit=expected - 1) is None
