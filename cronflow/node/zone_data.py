"""Which time zone data this machine has.

Two nodes with different data may disagree about when a job is due, for as long as they differ: the leader's counts.
`cronflow doctor` compares what the nodes report.
"""

from __future__ import annotations

import zoneinfo
from importlib import metadata
from pathlib import Path


def zone_data() -> str:
    """Its version, such as 2026a, as `zoneinfo` would find it: the system's, else the package's. Empty if unknown."""
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / "UTC").exists():
            return _system(folder)
    try:
        # 2026.1 is 2026a.
        year, number = metadata.version("tzdata").split(".")[:2]
        return f"{year}{chr(ord('a') + int(number) - 1)}"
    except (metadata.PackageNotFoundError, ValueError):
        return ""


def _system(folder: Path) -> str:
    try:
        with (folder / "tzdata.zi").open() as file:
            return file.readline(100).removeprefix("# version").strip()
    except (OSError, UnicodeDecodeError):
        return ""
