"""The file of a watcher: private, replaced as a whole, and refused with a remedy when it is not its own."""

from __future__ import annotations

import os
import stat
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule.calendar import Calendar, DaySpan
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule, bound, named
from cronflow.domain.watch import WatchFinding, WatchKind
from cronflow.watcher.schedules import LOOK_BACK, WatchedJob
from cronflow.watcher.snapshot import SnapshotFile, WatchSnapshot

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLOSED = Calendar(name="closed", days=(DaySpan(date(2026, 12, 24), date(2026, 12, 26), "holidays"),), rev=3)


def schedules() -> list[Schedule]:
    given: list[Schedule] = [
        Cron("H 2 * * MON-FRI", tz="Europe/Berlin"),
        Every("10m", jitter=timedelta(seconds=30)),
        Once(NOW + timedelta(days=1)),
        AnyOf((Cron("0 9 * * *"), Cron("0 17 * * *")), tz="Europe/Berlin", calendars=("closed",)),
        Every("1d", time="03:00", tz="Europe/Berlin", calendars=("closed",)),
    ]
    return [one for n, job in enumerate(given) if (one := named(bound(job, [CLOSED]), f"job-{n}")) is not None]


def a_snapshot() -> WatchSnapshot:
    jobs = [WatchedJob(f"job-{n}", n + 1, one, NOW, NOW + timedelta(hours=1)) for n, one in enumerate(schedules())]
    finding = WatchFinding(kind=WatchKind.NO_LEADER, since=NOW, text="no leader", opened_at=NOW, told_at=NOW)
    return WatchSnapshot(NOW, [*jobs, WatchedJob("manual", 1, None, None, None)], [finding])


def test_what_was_written_is_read_again_with_its_calendars(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path / "snapshot", "prod")
    assert file.read(NOW) is None
    file.write(a_snapshot())
    assert file.read(NOW) == a_snapshot()


def test_it_is_private_and_leaves_no_other_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = SnapshotFile(tmp_path / "snapshot", "prod")
        for _ in range(2):
            file.write(a_snapshot())
    finally:
        os.umask(before)
    assert [one.name for one in tmp_path.iterdir()] == ["snapshot"]
    assert stat.S_IMODE((tmp_path / "snapshot").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SnapshotFile(tmp_path / "snapshot", "prod")
    file.write(a_snapshot())

    def full(_: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        file.write(WatchSnapshot(NOW))
    assert file.read(NOW) == a_snapshot()


def test_instants_of_long_ago_are_left_to_the_cluster(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path / "snapshot", "prod")
    file.write(WatchSnapshot(NOW, [WatchedJob("often", 1, Every("1s"), NOW, NOW)]))
    later = NOW + timedelta(days=3)
    found = file.read(later)
    assert found is not None
    assert found.jobs[0].next == later - LOOK_BACK


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not a snapshot of this version (delete it, and start again)"),
        (b"[]", "is not a snapshot of this version"),
        (b'{"format": 1, "namespace": "prod"}', "is not a snapshot of this version"),
        (b'{"format": 2, "namespace": "prod"}', "is a snapshot of another version"),
        (b'{"format": 1, "namespace": "test"}', "is a snapshot of the cluster 'test' (give each cluster its own file)"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "snapshot").write_bytes(content)
    with pytest.raises(InvalidInput) as raised:
        SnapshotFile(tmp_path / "snapshot", "prod").read(NOW)
    assert message in str(raised.value)
    assert str(tmp_path / "snapshot") in str(raised.value)


def test_a_folder_that_does_not_exist_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be written \(create"):
        SnapshotFile(tmp_path / "no" / "snapshot", "prod").check()


def test_a_day_with_calendars_survives(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path / "snapshot", "prod")
    file.write(a_snapshot())
    found = file.read(NOW)
    assert found is not None
    daily = found.jobs[4]
    daily.pass_over(datetime.combine(date(2026, 12, 23), time(12), UTC))
    assert daily.next == datetime(2026, 12, 27, 2, tzinfo=UTC)
