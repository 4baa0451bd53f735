"""A clock whose offset another process changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow.testing.offset_clock import OffsetClock, write_offset

HOUR = timedelta(hours=1)


def test_a_step_takes_effect_at_the_next_reading_and_can_be_undone(tmp_path: Path) -> None:
    file = tmp_path / "offset"
    write_offset(file, 0)
    clock = OffsetClock(file)
    for offset in (timedelta(0), HOUR, -HOUR, timedelta(0)):
        write_offset(file, offset.total_seconds())
        before = datetime.now(UTC) + offset
        assert before <= clock.now() <= datetime.now(UTC) + offset


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OffsetClock(tmp_path / "missing")
