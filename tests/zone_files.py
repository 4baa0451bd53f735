"""Time zone files that a test writes: a zone whose clocks change at the instants that the test chooses."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path


def write_zone(folder: Path, name: str, first: timedelta, changes: Sequence[tuple[datetime, timedelta]] = ()) -> None:
    """A zone that is `first` ahead of UTC, and from the instant of each change so much as it says."""
    offsets = sorted({first, *(offset for _, offset in changes)}, key=lambda offset: (offset != first, offset))
    times = [int(at.timestamp()) for at, _ in changes]
    types = [offsets.index(offset) for _, offset in changes]
    names = b"".join(_name(offset).encode() + b"\0" for offset in offsets)
    kinds, place = b"", 0
    for offset in offsets:
        kinds += struct.pack(">lbB", int(offset.total_seconds()), 0, place)
        place += len(_name(offset)) + 1
    counts = struct.pack(">6L", 0, 0, 0, len(times), len(offsets), len(names))
    header = b"TZif2" + b"\0" * 15
    old = struct.pack(f">{len(times)}l", *times) + bytes(types) + kinds + names
    new = struct.pack(f">{len(times)}q", *times) + bytes(types) + kinds + names
    last = changes[-1][1] if changes else first
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + counts + old + header + counts + new + b"\n" + _rule(last).encode() + b"\n")


def _name(offset: timedelta) -> str:
    return f"Z{int(offset.total_seconds()) + 50000:05d}".translate(str.maketrans("0123456789", "ABCDEFGHIJ"))


def _rule(offset: timedelta) -> str:
    """The offset after the last change, as POSIX writes it: west is positive."""
    seconds = -int(offset.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    return f"<{_name(offset)}>{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
