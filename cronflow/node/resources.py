"""What a node measures on its machine: CPU and memory use, and the version of its time zone data.

CPU and memory are fractions of the cgroup's limits, or of the host where there are none. Two nodes with different time
zone data can disagree about when a job is due, so `cronflow doctor` compares the versions; the leader's counts.
"""

from __future__ import annotations

import time
import zoneinfo
from importlib import metadata
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


class Resources:
    """Measures CPU use between one call and the next."""

    def __init__(self, cgroup: Path = CGROUP) -> None:
        self._cgroup = cgroup
        self._cpus = _cpu_limit(cgroup)
        self._used = self._cgroup_cpu_s()
        self._at = time.monotonic()
        psutil.cpu_percent(None)

    def cpu(self) -> float:
        """The fraction of the CPU used since the last call, 0 to 1."""
        host = psutil.cpu_percent(None) / 100
        used, at = self._cgroup_cpu_s(), time.monotonic()
        if self._cpus is None or used is None or self._used is None:
            return min(1.0, host)
        spent, passed = used - self._used, max(at - self._at, 1e-3)
        self._used, self._at = used, at
        return min(1.0, max(0.0, spent / (passed * self._cpus)))

    def memory(self) -> float:
        """The fraction of the memory in use, 0 to 1; the page cache does not count."""
        limit = _number(self._cgroup / "memory.max")
        used = _number(self._cgroup / "memory.current")
        if limit is None or used is None:
            return float(psutil.virtual_memory().percent) / 100
        cache = _field(self._cgroup / "memory.stat", "inactive_file") or 0
        return min(1.0, max(0.0, (used - cache) / limit))

    def _cgroup_cpu_s(self) -> float | None:
        spent_us = _field(self._cgroup / "cpu.stat", "usage_usec")
        return None if spent_us is None else spent_us / 1_000_000


def _cpu_limit(cgroup: Path) -> float | None:
    words = _text(cgroup / "cpu.max").split()
    if len(words) != 2 or not words[0].isdigit() or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _field(path: Path, name: str) -> int | None:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:
        return ""


def zone_data() -> str:
    """The version of the time zone data that `zoneinfo` uses, such as 2026a: the system's, else the package's. Empty if
    unknown.
    """
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
