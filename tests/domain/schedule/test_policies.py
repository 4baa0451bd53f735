"""Gap and overlap policies in zones with unusual clock changes: instants that were worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.fires import count_between, last_before, next_after
from cronflow.domain.schedule.kinds import Cron, Every, Schedule

SECOND = timedelta(seconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(schedule: Schedule, first: datetime, last: datetime) -> list[str]:
    """The fires in [first, last), found forwards, backwards and by counting."""
    found, fire = [], next_after(schedule, first - SECOND)
    while fire is not None and fire < last:
        found.append(fire)
        fire = next_after(schedule, fire)
    backwards, fire = [], last_before(schedule, last - SECOND, not_before=first)
    while fire is not None:
        backwards.append(fire)
        fire = last_before(schedule, fire - SECOND, not_before=first)
    assert backwards[::-1] == found
    assert count_between(schedule, first, last - SECOND) == len(found)
    return [f"{fire:%d %H:%M}" for fire in found]


@pytest.mark.parametrize(
    ("zone", "clock", "first", "policies"),
    [
        # 02:00 to 02:30 are skipped, at 15:30 UTC.
        (
            "Australia/Lord_Howe",
            "02:15",
            "2026-10-03 12:00",
            {"next_valid": ["03 15:30"], "shift": ["03 15:45"], "skip": []},
        ),
        # The whole of the 30th is skipped, at 10:00 UTC. Shifted by 24 hours, its noon is that of the 31st.
        (
            "Pacific/Apia",
            "12:00",
            "2011-12-30 00:00",
            {"next_valid": ["30 10:00", "30 22:00"], "shift": ["30 22:00"], "skip": ["30 22:00"]},
        ),
        # Midnight to 01:00 are skipped, at 22:00 UTC.
        ("Africa/Cairo", "00:00", "2026-04-23 12:00", {"next_valid": ["23 22:00"], "shift": ["23 22:00"], "skip": []}),
        ("Africa/Cairo", "00:30", "2026-04-23 12:00", {"next_valid": ["23 22:00"], "shift": ["23 22:30"], "skip": []}),
        # 01:00 to 03:00 are skipped, at 01:00 UTC.
        (
            "Antarctica/Troll",
            "01:30",
            "2026-03-28 12:00",
            {"next_valid": ["29 01:00"], "shift": ["29 01:30"], "skip": []},
        ),
        (
            "Antarctica/Troll",
            "02:59",
            "2026-03-28 12:00",
            {"next_valid": ["29 01:00"], "shift": ["29 02:59"], "skip": []},
        ),
        # Midnight to 01:00 are skipped, at 05:00 UTC.
        (
            "America/Havana",
            "00:30",
            "2026-03-08 00:00",
            {"next_valid": ["08 05:00"], "shift": ["08 05:30"], "skip": []},
        ),
        # Midnight to 01:00 are skipped, at 04:00 UTC.
        (
            "America/Santiago",
            "00:00",
            "2026-09-06 00:00",
            {"next_valid": ["06 04:00"], "shift": ["06 04:00"], "skip": []},
        ),
        # 02:00 to 03:00 are skipped, at 02:00 UTC, when Ramadan has ended.
        (
            "Africa/Casablanca",
            "02:30",
            "2026-03-21 12:00",
            {"next_valid": ["22 02:00"], "shift": ["22 02:30"], "skip": []},
        ),
        # Midnight to 01:00 are skipped, at 01:00 UTC.
        (
            "Atlantic/Azores",
            "00:30",
            "2026-03-28 12:00",
            {"next_valid": ["29 01:00"], "shift": ["29 01:30"], "skip": []},
        ),
        # 02:00 to 03:00 are skipped, at 01:00 UTC.
        ("Europe/Berlin", "02:30", "2026-03-28 12:00", {"next_valid": ["29 01:00"], "shift": ["29 01:30"], "skip": []}),
    ],
)
def test_a_skipped_time_fires_by_its_policy(zone: str, clock: str, first: str, policies: dict[str, list[str]]) -> None:
    hour, minute = clock.split(":")
    begin, end = at(first), at(first) + timedelta(hours=23)
    for policy, expected in policies.items():
        dst = Dst(gap=GapPolicy(policy))
        for schedule in (Cron(f"{minute} {hour} * * *", zone, dst=dst), Every("1d", time=clock, tz=zone, dst=dst)):
            assert fires(schedule, begin, end) == expected, policy


@pytest.mark.parametrize(
    ("zone", "clock", "first", "early", "late"),
    [
        # From 02:00 back to 01:30, at 15:00 UTC.
        ("Australia/Lord_Howe", "01:45", "2026-04-04 12:00", "04 14:45", "04 15:15"),
        # From 03:00 back to 01:00, at 01:00 UTC.
        ("Antarctica/Troll", "01:00", "2026-10-24 12:00", "24 23:00", "25 01:00"),
        ("Antarctica/Troll", "02:30", "2026-10-24 12:00", "25 00:30", "25 02:30"),
        # From 01:00 back to midnight, at 05:00 UTC.
        ("America/Havana", "00:00", "2026-10-31 12:00", "01 04:00", "01 05:00"),
        # From midnight back to 23:00 of the day before, at 03:00 UTC.
        ("America/Santiago", "23:30", "2026-04-04 12:00", "05 02:30", "05 03:30"),
        # From midnight back to 23:00, at 21:00 UTC.
        ("Africa/Cairo", "23:00", "2026-10-29 12:00", "29 20:00", "29 21:00"),
        # From 03:00 back to 02:00, at 02:00 UTC, when Ramadan begins.
        ("Africa/Casablanca", "02:30", "2026-02-14 12:00", "15 01:30", "15 02:30"),
        # From 01:00 back to midnight, at 01:00 UTC.
        ("Atlantic/Azores", "00:30", "2026-10-24 12:00", "25 00:30", "25 01:30"),
        # From 03:00 back to 02:00, at 01:00 UTC.
        ("Europe/Berlin", "02:59", "2026-10-24 12:00", "25 00:59", "25 01:59"),
    ],
)
def test_a_repeated_time_fires_by_its_policy(zone: str, clock: str, first: str, early: str, late: str) -> None:
    hour, minute = clock.split(":")
    begin, end = at(first), at(first) + timedelta(hours=23)
    for policy, expected in (("first", [early]), ("last", [late]), ("both", [early, late])):
        dst = Dst(overlap=RepeatPolicy(policy))
        for schedule in (Cron(f"{minute} {hour} * * *", zone, dst=dst), Every("1d", time=clock, tz=zone, dst=dst)):
            assert fires(schedule, begin, end) == expected, policy


@pytest.mark.parametrize(
    ("expr", "policy", "expected"),
    [
        ("0,20,40 2 * * *", "next_valid", ["29 01:00"]),
        ("0,20,40 2 * * *", "shift", ["29 01:00", "29 01:20", "29 01:40"]),
        ("0,20,40 2 * * *", "skip", []),
        # A shifted time that is a time of its own too fires once.
        ("0,20 2,3 * * *", "next_valid", ["29 01:00", "29 01:20"]),
        ("0,20 2,3 * * *", "shift", ["29 01:00", "29 01:20"]),
        ("10,20 2,3 * * *", "next_valid", ["29 01:00", "29 01:10", "29 01:20"]),
    ],
)
def test_several_skipped_times_fire_once_together_or_each_shifted(expr: str, policy: str, expected: list[str]) -> None:
    schedule = Cron(expr, "Europe/Berlin", dst=Dst(gap=GapPolicy(policy)))
    assert fires(schedule, at("2026-03-28 12:00"), at("2026-03-29 12:00")) == expected
