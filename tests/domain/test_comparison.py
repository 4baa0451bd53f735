"""What a change does to the fires to come, compared with sets that are listed one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronflow.domain.schedule.comparison import MOST_COMPARED, FireChanges, UpcomingFires, compare, why_over
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
WEEK = NOON + timedelta(days=7)
SCHEDULES: list[Schedule] = [
    Cron("0 2 * * *", tz="Europe/Berlin"),
    Cron("0 3 * * *", tz="Europe/Berlin"),
    Cron("0 */3 * * *"),
    Cron("0 */2 * * *", end=NOON + timedelta(days=2)),
    Cron("30 4 * * SUN"),
    Every("1h"),
    Every("90m", start=NOON + timedelta(days=3)),
    Every("1d", time="02:00", tz="Europe/Berlin"),
    Once(NOON + timedelta(hours=9)),
    Once(NOON + timedelta(days=9)),
]


def upcoming(schedule: Schedule | None, since: datetime = NOON) -> UpcomingFires | None:
    first = None if schedule is None else next_after(schedule, since)
    return None if schedule is None or first is None else UpcomingFires(schedule, first)


def listed(schedule: Schedule | None, last: datetime) -> set[datetime]:
    found, fire = set(), NOON
    while schedule is not None and (after := next_after(schedule, fire)) is not None and after <= last:
        found.add(after)
        fire = after
    return found


@given(
    old=st.none() | st.sampled_from(SCHEDULES),
    new=st.none() | st.sampled_from(SCHEDULES),
    hours=st.integers(1, 24 * 10),
)
def test_the_numbers_and_the_first_fires_are_those_of_the_sets(
    old: Schedule | None, new: Schedule | None, hours: int
) -> None:
    last = NOON + timedelta(hours=hours)
    gone, come = listed(old, last), listed(new, last)
    found = compare(upcoming(old), upcoming(new), last)
    assert (found.before, found.after, found.compared) == (len(gone), len(come), True)
    assert (found.added, found.removed) == (len(come - gone), len(gone - come))
    if gone and come:
        assert list(found.first_added) == sorted(come - gone)[:5]
        assert list(found.first_removed) == sorted(gone - come)[:5]


def test_the_last_instant_counts() -> None:
    last = NOON + timedelta(hours=1)
    assert compare(None, upcoming(Every("1h")), last) == FireChanges(0, 1, added=1, removed=0)


def test_too_many_fires_are_only_counted() -> None:
    often, seldom = upcoming(Every("5m")), upcoming(Cron("0 2 * * *"))
    assert often is not None
    assert MOST_COMPARED < 7 * 24 * 12
    found = compare(often, seldom, WEEK)
    assert found == FireChanges(7 * 24 * 12, 7, compared=False, added=None, removed=None)
    assert found.cost == 0
    assert compare(often, seldom, WEEK, most=2016).compared
    # Without another side there is nothing to compare.
    assert compare(often, None, WEEK) == FireChanges(2016, 0, added=0, removed=2016)
    assert compare(often, often, WEEK) == FireChanges(2016, 2016)


def test_more_than_ten_thousand_fires_are_no_number() -> None:
    second = upcoming(Every("1s"))
    assert compare(None, second, WEEK) == FireChanges(0, None, added=None, removed=0)
    assert compare(second, upcoming(Every("2s")), WEEK) == FireChanges(None, None, False, None, None)
    assert compare(second, second, WEEK) == FireChanges(None, None)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (Once(NOON), "its `at` has passed"),
        (Once(WEEK), "a run already covers its `at`"),
        (Every("1h", end=NOON), "its `end` has passed"),
        (Cron("0 0 1 1 *", end=WEEK), "its schedule has no times left before its `end`"),
        (Cron("0 0 1 1 *"), "its schedule has no times left"),
    ],
)
def test_a_schedule_that_is_over_has_a_reason(schedule: Schedule, why: str) -> None:
    assert why_over(schedule, NOON) == why
