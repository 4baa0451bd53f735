"""The system's clock, off by what a file says, so that another process can step the clock of a node."""

from __future__ import annotations

import mmap
import struct
from datetime import datetime, timedelta
from pathlib import Path

from cronflow.backends.clock import SystemClock

SECONDS = struct.Struct("<d")


class OffsetClock(SystemClock):
    """`file` was written by `write_offset`, which takes effect at the next reading. The monotonic clock is right."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as content:
            self._offset = mmap.mmap(content.fileno(), SECONDS.size, access=mmap.ACCESS_READ)

    def now(self) -> datetime:
        (seconds,) = SECONDS.unpack(self._offset[: SECONDS.size])
        return super().now() + timedelta(seconds=seconds)


def write_offset(file: Path, seconds: float) -> None:
    """Set the offset in seconds; create the file if necessary."""
    file.touch()
    # The file must stay the same, because the other process has it in its memory.
    with file.open("r+b") as content:
        content.write(SECONDS.pack(seconds))
