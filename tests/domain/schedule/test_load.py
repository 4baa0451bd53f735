"""Schedule load: the fires of a week by hour, against the oracle; and minutes that are quieter."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from cronflow.domain.schedule.load import HOUR, WEEK_HOURS, ScheduleLoad, at_minute, minute_of, week_of
from cronflow.testing.schedule_oracle import fires_between

PLAIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPRING = datetime(2027, 3, 25, 5, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 22, 20, tzinfo=UTC)


@pytest.mark.parametrize("first", [PLAIN, SPRING, AUTUMN], ids=["plain", "spring", "autumn"])
@pytest.mark.parametrize(
    "schedule",
    [
        Cron("0 2 * * *", "Europe/Berlin"),
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("*/7 * * * *", "Europe/Berlin"),
        Cron("15,45 */3 * * MON-FRI", "America/New_York"),
        Cron("*/20 9 * * *", "Asia/Kolkata"),
        Cron("30 5 L * *", "UTC"),
        Cron("5,35 10 12 * * MON#2", "UTC"),
        Cron("@daily", "Asia/Tokyo"),
        Cron("0 * * * *", start=PLAIN + timedelta(days=2), end=PLAIN + timedelta(days=3)),
        Every("45s"),
        Every("90m"),
        Every("1d", time="02:30", tz="Europe/Berlin"),
        Once(PLAIN + timedelta(hours=30, minutes=7)),
    ],
    ids=str,
)
def test_the_hours_of_a_week_have_the_fires_of_the_oracle(schedule: Schedule, first: datetime) -> None:
    expected = Counter((fire - first) // HOUR for fire in fires_between(schedule, first, first + WEEK_HOURS * HOUR))
    week = week_of(schedule, first)
    assert {busy.hour: busy.fires for busy in week} == dict(expected)
    minutes = {fire.minute for fire in fires_between(schedule, first, first + WEEK_HOURS * HOUR)}
    assert {minute for busy in week for minute in busy.minutes} == (set(range(60)) if len(minutes) > 59 else minutes)


def the_herd(target: Schedule, *others: Schedule) -> ScheduleLoad:
    """Of a target and other jobs."""
    schedule_load = ScheduleLoad(PLAIN, target)
    schedule_load.add(target, is_target=True)
    for other in others:
        schedule_load.add(other)
    return schedule_load


def test_a_quieter_minute_is_one_that_fewer_share_in_the_same_hours() -> None:
    target = Cron("0 2 * * *")
    crowded = [Cron("0 2 * * *")] * 5 + [Cron(f"{minute} 2 * * *") for minute in range(1, 60) if minute != 37]
    elsewhere = [Cron("37 3 * * *")] * 50
    schedule_load = the_herd(target, *crowded, *elsewhere)
    slot = schedule_load.slot("report")
    assert slot is not None
    assert (slot.minute, slot.beside, slot.quieter, slot.there, slot.cron) == (0, 35, 37, 0, "37 2 * * *")
    assert (schedule_load.jobs, sum(schedule_load.hours)) == (114, 7 * 114)


def test_a_cron_that_is_alone_is_not_sent_away() -> None:
    slot = the_herd(Cron("0 2 * * *"), Cron("30 2 * * *"), Every("1m")).slot("report")
    assert slot is not None
    assert (slot.beside, slot.quieter, slot.cron) == (7, None, "0 2 * * *")


def test_not_all_jobs_are_moved_to_the_same_minute() -> None:
    schedule_load = the_herd(Cron("@hourly"), *[Cron("0 * * * *")] * 9)
    slots = {slot.quieter for n in range(20) if (slot := schedule_load.slot(f"job-{n}")) is not None}
    assert 0 not in slots
    assert len(slots) > 10


@pytest.mark.parametrize(
    ("expr", "minute", "moved"),
    [
        ("@daily", 0, "7 0 * * *"),
        ("5 0 2 * * *", 0, "5 7 2 * * *"),
        ("30 */2 * * MON-FRI", 30, "7 */2 * * MON-FRI"),
        ("*/5 * * * *", None, None),
        ("0,30 2 * * *", None, None),
    ],
)
def test_only_a_cron_with_one_minute_has_one_to_change(expr: str, minute: int | None, moved: str | None) -> None:
    assert minute_of(Cron(expr)) == minute
    if moved is not None:
        assert at_minute(expr, 7) == moved
    else:
        assert the_herd(Cron(expr)).slot("job") is None
