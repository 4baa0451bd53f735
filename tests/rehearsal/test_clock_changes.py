"""What clock changes do to fires: the nights of 2027 in Berlin, other policies and zones, and other zone data."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.rehearsal.clock_changes import clock_changes, zones_of
from cronflow.rehearsal.period import first_difference, next_clock_change
from cronflow.rehearsal.zone_data import check_zone_data, lacking, zone_data
from tests.rehearsal.scenes import BERLIN, HOUR, a_job, fires_of, rehearsed

SPRING = datetime(2027, 3, 28, 1, tzinfo=UTC)
AUTUMN = datetime(2027, 10, 31, 1, tzinfo=UTC)
DAILY = Cron("30 2 * * *", BERLIN)


def effects(schedule: Schedule, change: datetime) -> list[tuple[str, list[str]]]:
    """What the change does, and the instants that stand for the local times, in UTC."""
    found = clock_changes("job", schedule, change - 6 * HOUR, change + 6 * HOUR)
    return [(one.what, [f"{fire:%H:%M}" for fire in one.fires]) for one in found]


@pytest.mark.parametrize(
    ("schedule", "change", "expected"),
    [
        (DAILY, SPRING, [("moved", ["01:00"])]),
        (Cron("30 2 * * *", BERLIN, dst=Dst(gap=GapPolicy.SHIFT)), SPRING, [("moved", ["01:30"])]),
        (Cron("30 2 * * *", BERLIN, dst=Dst(gap=GapPolicy.SKIP)), SPRING, [("none", [])]),
        (Cron("*/15 * * * *", BERLIN), SPRING, [("none", [])]),
        (Cron("30 4 * * *", BERLIN), SPRING, []),
        (DAILY, AUTUMN, [("once", ["00:30"])]),
        (Cron("30 2 * * *", BERLIN, dst=Dst(overlap=RepeatPolicy.LAST)), AUTUMN, [("once", ["01:30"])]),
        (Cron("30 2 * * *", BERLIN, dst=Dst(overlap=RepeatPolicy.BOTH)), AUTUMN, [("twice", ["00:30", "01:30"])]),
        (Cron("30 * * * *", BERLIN), AUTUMN, [("once", ["00:30"])]),
        (Cron("*/30 * * * *", BERLIN), AUTUMN, [("twice", ["00:00", "00:30", "01:00", "01:30"])]),
        (Every("1d", tz=BERLIN, time="02:30"), SPRING, [("moved", ["01:00"])]),
        (AnyOf((DAILY, Cron("0 12 * * *"))), SPRING, [("moved", ["01:00"])]),
        (Every("1h"), SPRING, []),
    ],
)
def test_a_clock_change_moves_repeats_or_drops_local_times(
    schedule: Schedule, change: datetime, expected: list[tuple[str, list[str]]]
) -> None:
    if isinstance(schedule, Cron) and schedule.expr == "30 * * * *":
        # An hour that begins with * is an interval: both occurrences fire.
        expected = [("twice", ["00:30", "01:30"])]
    assert effects(schedule, change) == expected


def test_the_planner_fires_once_at_the_end_of_the_gap() -> None:
    found = rehearsed(a_job("report", DAILY), first=SPRING - 12 * HOUR, length=48 * HOUR)
    # 02:30 is 01:30 UTC in winter and 00:30 UTC in summer.
    assert fires_of(found, "report") == ["28T01:00", "29T00:30"]
    assert [change.what for change in found.clock_changes] == ["moved"]
    assert not any(run.is_late for run in found.runs)


def test_the_next_clock_change_of_several_zones_is_the_first() -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert zones_of(AnyOf((DAILY, Cron("0 1 * * *", "America/New_York"), Cron("0 1 * * *")))) == [
        BERLIN,
        "America/New_York",
    ]
    found = next_clock_change([BERLIN, "America/New_York"], now)
    assert found is not None
    # New York changes two weeks before, on 14 March at 02:00 EST.
    assert (found[0], found[1].at) == ("America/New_York", datetime(2027, 3, 14, 7, tzinfo=UTC))
    assert next_clock_change(["UTC", "Asia/Kolkata"], now) is None


@pytest.fixture
def without_summer(tmp_path: Path) -> Path:
    """Zone data in which Berlin has no summer time any more: it is Lagos, which is an hour ahead of UTC all year."""
    folder = tmp_path / "zones"
    (folder / "Europe").mkdir(parents=True)
    lagos = resources.files("tzdata") / "zoneinfo" / "Africa" / "Lagos"
    (folder / BERLIN).write_bytes(lagos.read_bytes())
    return folder


def test_other_zone_data_holds_for_a_while(without_summer: Path) -> None:
    before = datetime(2027, 7, 1, tzinfo=UTC)
    path = zoneinfo.TZPATH
    assert next_after(DAILY, before) == datetime(2027, 7, 1, 0, 30, tzinfo=UTC)
    with zone_data(without_summer):
        assert next_after(DAILY, before) == datetime(2027, 7, 1, 1, 30, tzinfo=UTC)
        # A zone that the folder lacks is that of the package.
        assert next_clock_change(["America/New_York"], before) is not None
    assert next_after(DAILY, before) == datetime(2027, 7, 1, 0, 30, tzinfo=UTC)
    assert path == zoneinfo.TZPATH


def test_the_first_difference_of_zone_data_is_the_change_that_is_gone(without_summer: Path) -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert first_difference([BERLIN], without_summer, now) == SPRING
    assert first_difference(["America/New_York"], without_summer, now) is None
    assert lacking(without_summer, [BERLIN, "Asia/Tokyo"]) == ["Asia/Tokyo"]


def test_zone_data_without_compiled_zones_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a folder"):
        check_zone_data(tmp_path / "absent")
    (tmp_path / "europe").write_text("Zone Europe/Berlin …")
    with pytest.raises(InvalidInput, match="no compiled time zones"):
        check_zone_data(tmp_path)


def test_clock_changes_beyond_the_period_are_not_reported() -> None:
    assert not list(clock_changes("job", DAILY, SPRING, SPRING + timedelta(days=100)))
