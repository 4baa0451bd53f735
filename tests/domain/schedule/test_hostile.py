"""Schedules that were made to take long: each is refused with one short error, or answers within a number of steps.

Steps are calls of functions, so nothing depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from cronflow.documents.schedules import parse_schedule
from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.calendar import Calendar, DaySpan, Period, WeeklyHours
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.dst import Dst, GapPolicy
from cronflow.domain.schedule.exclusions import next_allowed
from cronflow.domain.schedule.fires import count_between, last_before, latest, next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from tests.schedule_steps import forget, steps

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DECADE = timedelta(days=3653)
BERLIN = "Europe/Berlin"
MOST_STEPS = 2_500_000
"""About a second. Most of the schedules here take a few thousand."""

ALWAYS = WeeklyHours((1, 2, 3, 4, 5, 6, 7), time(0), time(0))
NEVER = Period(datetime(1999, 1, 1), datetime(1999, 1, 2))  # noqa: DTZ001 - local times
CLOSED = Calendar(name="closed", days=(DaySpan(date(2020, 1, 1), date(2074, 1, 1)),))
OPEN = tuple(Calendar(name=f"open-{number}") for number in range(19))
RARE = tuple(Cron(f"{minute} 0 29 2 */7", BERLIN) for minute in range(19))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cron("0 0 29 2 */7"),
        lambda: Cron("0 0 29 2 MON#5"),
        lambda: Cron("59 59 23 31 12 SUN#5"),
        lambda: Cron("* * * * * *", jitter=timedelta(days=1), seed="job"),
        lambda: Cron("0" + " " * 1_000_000 + "* * * *"),
        lambda: Cron("* 2 31 3 SUN#5", BERLIN),
        lambda: Cron("30 2 24-31 3 */7", BERLIN, dst=Dst(gap=GapPolicy.SKIP)),
        lambda: Cron("*/5 2 */28 3 SUN", BERLIN),
        lambda: Cron(f"{','.join(['H/1'] * 240)} * * * *", seed="job"),
        lambda: Cron("0 0 * 2 *", business_day=(23,)),
        lambda: Cron("0 0 * * *", business_day=(1,), calendars=("closed",), book=(CLOSED,)),
        lambda: Cron(
            "0 0 * * *",
            business_day=(-23, 23),
            calendars=("closed", *(one.name for one in OPEN)),
            book=(CLOSED, *OPEN),
        ),
        lambda: AnyOf((*RARE, Cron("19 0 29 2 */7", BERLIN))),
        lambda: AnyOf((*RARE, Every(1)), blackout=(ALWAYS,)),
        lambda: AnyOf((*RARE, Every(1)), only_in=(NEVER,)),
        lambda: AnyOf((*RARE, Every(1)), tz=BERLIN, calendars=("closed",), book=(CLOSED,), jitter=timedelta(days=1)),
        lambda: Every(1, blackout=(ALWAYS,) * 20),
        lambda: Every(1, datetime.min.replace(tzinfo=UTC)),
        lambda: Every("36500d"),
        lambda: Every("36500d", time="02:30", tz=BERLIN),
    ],
)
def test_a_rare_or_excluded_schedule_answers_within_a_number_of_steps(make: Callable[[], Schedule]) -> None:
    forget()
    assert steps(make) < MOST_STEPS
    schedule = make()
    long_ago = NOW - 10 * DECADE
    for compute in (
        lambda: next_after(schedule, NOW),
        lambda: last_before(schedule, NOW, not_before=long_ago),
        lambda: count_between(schedule, NOW - DECADE, NOW),
        lambda: latest(schedule, NOW, 10, not_before=long_ago),
        lambda: next_allowed(schedule, NOW),
        lambda: describe(schedule),
    ):
        forget()
        assert steps(compute) < MOST_STEPS


@pytest.mark.parametrize(
    "document",
    [
        {"cron": "0 0 30 2 *"},
        {"cron": "0 0 */30 2 MON#5"},
        {"cron": "*/5 2 25-31 3 */7", "tz": BERLIN},
        {"cron": "30 2 25-31 3 */7", "tz": BERLIN, "dst": {"gap": "skip"}},
        {"cron": ",".join(map(str, range(60))) * 200 + " * * * *"},
        {"cron": ",".join(["H/1"] * 10_000) + " * * * *"},
        {"cron": "0," * 500_000 + "0 * * * *"},
        {"cron": "x" * 1_000_000},
        {"cron": "*/99999999999999999999 * * * *"},
        {"cron": "٣ * * * *"},
        {"cron": "² * * * *"},
        {"cron": "H(0-9999) * * * *"},
        {"cron": "H(30-10) * * * *"},
        {"cron": "H(((((0-1) * * * *"},
        {"cron": "H(0-1)/0 * * * *"},
        {"cron": "H(1-31)/99999999 0 * * *"},
        {"cron": "0 0 H(30-31) 2 *"},
        {"cron": "* * * * *", "jitter": "365d"},
        {"cron": "0 0 * * *", "business_day": 24},
        {"cron": "0 0 * * *", "business_day": 10**30},
        {"any": [{"every": "1s"}] * 21},
        {"any": []},
        {"any": [{"any": [{"every": "1s"}]}]},
        {"every": "999999999999d"},
        {"every": 10**30},
        {"every": "0s"},
        {"every": "1s", "blackout": [{"start": "00:00", "end": "00:00"}] * 21},
        {"every": "1s", "max_runs": 10**30},
        {"at": "9999-12-31T23:59:59-23:59"},
    ],
    ids=lambda document: str(document)[:40],
)
def test_a_hostile_document_is_refused_with_one_short_error(document: dict[str, Any]) -> None:
    forget()
    error: list[InvalidInput] = []

    def parse() -> None:
        try:
            parse_schedule(document)
        except InvalidInput as found:
            error.append(found)

    assert steps(parse) < MOST_STEPS
    assert len(error) == 1, "it was accepted"
    assert len(error[0].problems) == 1
    assert len(str(error[0])) < 1_500


@pytest.mark.parametrize(
    "schedule",
    [
        Cron("* * * * *"),
        Cron("* * * * *", BERLIN),
        Cron("0-59 0-23 * * *", BERLIN),
        Cron("* * * * *", jitter=timedelta(seconds=30), seed="job"),
        Every("1m"),
        AnyOf((Cron("* * * * *"), Cron("*/2 * * * *", BERLIN))),
    ],
)
def test_a_year_of_missed_minutes_costs_the_same_as_one(schedule: Schedule) -> None:
    def catch_up(missed: timedelta) -> int:
        forget()
        cursor = NOW - missed
        # What the planner needs: the fire after the cursor, the last one until now, and how many there are.
        return sum(
            steps(compute)
            for compute in (
                lambda: next_after(schedule, cursor),
                lambda: last_before(schedule, NOW, not_before=cursor),
                lambda: latest(schedule, NOW, 5, not_before=cursor),
                lambda: count_between(schedule, cursor, NOW),
            )
        )

    catch_up(timedelta(days=365))
    minutes, year = catch_up(timedelta(minutes=5)), catch_up(timedelta(days=365))
    # A few hundred steps for the clock changes of the year, which are looked for once in each process.
    assert year - minutes < 12_000, (minutes, year)
