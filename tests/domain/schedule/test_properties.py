"""What holds for every schedule at every instant: strict order, agreement of all directions, and round trips."""

from __future__ import annotations

import pickle
import shutil
import zoneinfo
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronflow.documents.schedules import parse_schedule, write_schedule
from cronflow.documents.tables import DocumentTable
from cronflow.domain.schedule.calendar import Period, WeeklyHours
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule, named
from tests.drawing import examples
from tests.schedule_steps import forget

SECOND = timedelta(seconds=1)
FIRST, LAST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, 23, 59, 59, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago", "Asia/Kolkata")

instants = st.one_of(
    st.datetimes(datetime(1905, 1, 1), datetime(2990, 1, 1)),  # noqa: DTZ001 - the zone follows
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001
).map(lambda local: local.replace(microsecond=0, tzinfo=UTC))
policies = st.just(Dst()) | st.builds(Dst, st.sampled_from(GapPolicy), st.sampled_from(RepeatPolicy))
zone_names = st.sampled_from(ZONES)
jitters = st.sampled_from([0, 0, 1, 59, 3_600, 86_400]).map(lambda seconds: seconds * SECOND)
windows = st.sampled_from(
    [
        WeeklyHours((1, 2, 5), time(22), time(6), "night"),
        Period(datetime(2026, 12, 24), datetime(2027, 1, 2)),  # noqa: DTZ001 - local times
        Period(datetime(2026, 12, 24, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC), "freeze"),
    ]
)


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, Any]:
    start, end = draw(st.none() | instants), draw(st.none() | instants)
    if start is not None and end is not None and end <= start:
        end = None
    return {"start": start, "end": end}


@st.composite
def schedules(draw: st.DrawFn, *, parts: bool = True) -> Schedule:
    """Schedules of every kind with the rules that they can have; members of `any` without rules."""
    rules: dict[str, Any] = {}
    if parts:
        rules = {
            "jitter": draw(jitters),
            "max_runs": draw(st.none() | st.integers(1, 99)),
            "calendars": draw(st.sampled_from([(), ("de-holidays",)])),
            "blackout": draw(st.sampled_from([(), ("freeze",)])) + draw(st.lists(windows, max_size=2).map(tuple)),
            "only_in": draw(st.lists(windows, max_size=1).map(tuple)),
        }
    tz, span = draw(zone_names), draw(bounds())
    kinds = ["times", "interval", "business", "exact", "daily", "once"]
    match draw(st.sampled_from([*kinds, "any", "completion"] if parts else kinds)):
        case "times":
            minute, hour = draw(st.sampled_from(["0", "30", "5/20", "H", "H(10-40)/7"])), draw(st.integers(0, 23))
            days = draw(st.sampled_from(["* * *", "L * *", "*/2 * MON", "13 * FRI", "29 2 *", "H * *", "* JAN MON#2"]))
            made: Schedule = Cron(f"{minute} {hour} {days}", tz, **span, dst=draw(policies), **rules)
        case "interval":
            expr = draw(st.sampled_from(["* * * * *", "*/7 * * * *", "30 */5 * * *", "*/20 59 * * * *", "@hourly"]))
            made = Cron(expr, tz, **span, **rules)
        case "business":
            places = draw(st.lists(st.integers(-5, 5).filter(bool), min_size=1, max_size=3).map(tuple))
            rules = {key: value for key, value in rules.items() if key != "calendars"}
            made = Cron("0 18 * * *", tz, **span, business_day=places, **rules)
        case "exact":
            made = Every(
                draw(st.integers(1, 3) | st.integers(1, 10_000_000)), draw(st.none() | instants), **span, **rules
            )
        case "daily":
            clock = draw(st.sampled_from(["02:30", "00:00", "23:59:59"]))
            made = Every(
                draw(st.sampled_from(["1d", "3d", "2w"])), None, tz, clock, **span, dst=draw(policies), **rules
            )
        case "completion":
            rules = {key: value for key, value in rules.items() if key != "jitter"}
            made = Every(draw(st.integers(1, 100_000)), after_completion=True, **span, **rules)
        case "any":
            members = draw(st.lists(schedules(parts=False), min_size=1, max_size=4).map(tuple))
            made = AnyOf(tuple(one for one in members if not isinstance(one, AnyOf)), tz, **span, **rules)
        case _:
            made = Once(draw(instants))
    return made


@settings(max_examples=examples(150), deadline=None)
@given(schedules(), instants, st.sampled_from(["billing", "report"]))
def test_fires_are_in_strict_order_and_every_direction_agrees(unnamed: Schedule, instant: datetime, name: str) -> None:
    schedule = named(unnamed, name)
    assert schedule is not None
    assume(not (isinstance(schedule, Every) and schedule.after_completion))
    found: list[datetime] = []
    fire = next_after(schedule, instant)
    while fire is not None and len(found) < 4:
        found.append(fire)
        fire = next_after(schedule, fire)
    assert all(early < late for early, late in pairwise([instant, *found]))
    for early, late in pairwise([instant, *found]):
        # Nothing fires between the two.
        assert next_after(schedule, late - SECOND) == late
        assert last_before(schedule, late, not_before=early) == late
        assert last_before(schedule, late - SECOND, not_before=early + SECOND) is None
        assert count_between(schedule, early + SECOND, late) == 1
    if found:
        assert count_between(schedule, instant + SECOND, found[-1]) == len(found)
        assert latest(schedule, found[-1], len(found), not_before=FIRST) == found
    else:
        assert count_between(schedule, instant + SECOND, LAST) == 0
        assert last_before(schedule, LAST, not_before=instant + SECOND) is None


@settings(max_examples=examples(100), deadline=None)
@given(schedules(), instants, st.integers(1, 86_400))
def test_jitter_delays_each_fire_by_a_stable_time_and_stays_before_the_next(
    schedule: Schedule, instant: datetime, seconds: int
) -> None:
    assume(not isinstance(schedule, Once) and not (isinstance(schedule, Every) and schedule.after_completion))
    assert not isinstance(schedule, Once)
    base = named(replace(schedule, jitter=timedelta(0)), "job")
    late = named(replace(schedule, jitter=seconds * SECOND), "job")
    assert base is not None
    assert late is not None
    at = next_after(base, instant)
    for _ in range(3):
        if at is None:
            break
        following = next_after(base, at)
        end = following or schedule.end or LAST + SECOND
        fire = next_after(late, at - SECOND)
        assert fire is not None
        while fire < at:  # the fire before, which was delayed
            fire = next_after(late, fire)
            assert fire is not None
        if fire >= end:
            pytest.fail(f"nothing fires in {at} to {end}")
        assert at <= fire <= at + seconds * SECOND
        forget()
        assert next_after(late, fire - SECOND) == fire
        assert count_between(late, at, end - SECOND) == 1
        at = following


@settings(max_examples=examples(150), deadline=None)
@given(schedules())
def test_documents_and_pickles_round_trip(schedule: Schedule) -> None:
    document = write_schedule(schedule)
    assert document is not None
    assert parse_schedule(document) == schedule
    assert write_schedule(parse_schedule(document)) == document
    short = write_schedule(schedule, DocumentTable.shorten)
    assert short is not None
    assert parse_schedule(short) == schedule
    assert short.items() <= document.items() or len(str(short)) < len(str(document))
    assert pickle.loads(pickle.dumps(schedule)) == schedule


@settings(max_examples=examples(60), deadline=None)
@given(st.text(min_size=1, max_size=20), st.sampled_from(["H H * * *", "H/7 H(9-17)/2 H H H", "H H(0-3) H/5 * *"]))
def test_h_is_a_choice_of_the_name_alone(name: str, expr: str) -> None:
    def fires() -> list[datetime]:
        forget()
        schedule = named(Cron(expr, "Europe/Berlin"), name)
        assert schedule is not None
        return latest(schedule, datetime(2030, 1, 1, tzinfo=UTC), 3, not_before=FIRST)

    assert fires() == fires()


@pytest.fixture
def zone_files(tmp_path: Path) -> Iterator[Path]:
    """A folder of zone files that is asked before all others."""
    before = zoneinfo.TZPATH
    folder = tmp_path / "zoneinfo"
    (folder / "Europe").mkdir(parents=True)
    zoneinfo.reset_tzpath([folder])
    forget()
    yield folder
    zoneinfo.reset_tzpath(before)
    forget()


def test_a_changed_zone_file_gives_the_new_instants_when_caches_are_cleared(zone_files: Path) -> None:
    """A country abolishes daylight saving: Berlin keeps the clocks that Algiers has, an hour ahead of UTC."""
    daily = Cron("30 2 * * *", "Europe/Berlin")
    summer = datetime(2027, 6, 30, 12, tzinfo=UTC)
    cursor = datetime(2027, 7, 1, 0, 30, tzinfo=UTC)
    assert next_after(daily, summer) == cursor
    shutil.copy(str(files("tzdata") / "zoneinfo" / "Africa" / "Algiers"), zone_files / "Europe" / "Berlin")
    assert next_after(daily, summer) == cursor, "the rules of a process do not change by themselves"
    forget()
    assert next_after(daily, summer) == datetime(2027, 7, 1, 1, 30, tzinfo=UTC)
    # A cursor that the old rules gave is no fire of the new ones, and what follows it is later.
    assert last_before(daily, cursor, not_before=summer) is None
    assert next_after(daily, cursor) == datetime(2027, 7, 1, 1, 30, tzinfo=UTC)
    assert next_after(Every("1d", time="02:30", tz="Europe/Berlin"), cursor) == datetime(2027, 7, 1, 1, 30, tzinfo=UTC)
    # The gap of March 2027 is gone.
    march = datetime(2027, 3, 27, 12, tzinfo=UTC)
    assert next_after(daily, march) == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    assert count_between(daily, march, march + timedelta(days=7)) == 7
