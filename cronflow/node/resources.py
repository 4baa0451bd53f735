"""What a node measures on its machine: CPU and memory, their use, and the version of its time zone data.

CPU and memory use are fractions of the limits of the cgroup, of version 2 or 1, or of the host where there are none.
The limits are also the capacity that jobs may reserve. Two
nodes with different time zone data can disagree about when a job is due, so `cronflow doctor` compares the versions;
the leader's counts.
"""

from __future__ import annotations

import time
import zoneinfo
from importlib import metadata
from pathlib import Path

import psutil

from cronflow.domain.resources import ResourceAmount

CGROUP = Path("/sys/fs/cgroup")


class Resources:
    """Measures CPU use between one call and the next."""

    def __init__(self, cgroup: Path = CGROUP) -> None:
        self._cgroup = _V1(cgroup) if (cgroup / "memory").is_dir() else _V2(cgroup)
        self._cpus = self._cgroup.cpu_limit()
        self._used = self._cgroup.cpu_s()
        self._at = time.monotonic()
        psutil.cpu_percent(None)

    def cpu(self) -> float:
        """The fraction of the CPU used since the last call, 0 to 1."""
        host = psutil.cpu_percent(None) / 100
        used, at = self._cgroup.cpu_s(), time.monotonic()
        if self._cpus is None or used is None or self._used is None:
            return min(1.0, host)
        spent, passed = used - self._used, max(at - self._at, 1e-3)
        self._used, self._at = used, at
        return min(1.0, max(0.0, spent / (passed * self._cpus)))

    def memory(self) -> float:
        """The fraction of the memory in use, 0 to 1; the page cache does not count."""
        host = psutil.virtual_memory()
        limit, used = self._cgroup.memory_limit(), self._cgroup.memory_used()
        # Version 1 writes a huge number for no limit.
        if limit is None or used is None or limit > host.total:
            return float(host.percent) / 100
        return min(1.0, max(0.0, used / limit))

    def capacity(self) -> ResourceAmount:
        """The CPUs and the memory that this process may use: the limits of the cgroup, at most those of the host."""
        cpus, memory = float(psutil.cpu_count() or 1), int(psutil.virtual_memory().total)
        return ResourceAmount(
            cpu=round(min(cpus, self._cpus or cpus), 3), memory=min(memory, self._cgroup.memory_limit() or memory)
        )


class _V2:
    """The files of a cgroup of version 2. Each value is None where there is no limit, or no such file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def memory_limit(self) -> int | None:
        return _number(self._folder / "memory.max")

    def memory_used(self) -> int | None:
        used = _number(self._folder / "memory.current")
        return None if used is None else used - (_field(self._folder / "memory.stat", "inactive_file") or 0)

    def cpu_limit(self) -> float | None:
        """The number of CPUs."""
        words = _text(self._folder / "cpu.max").split()
        return _ratio(*words) if len(words) == 2 else None

    def cpu_s(self) -> float | None:
        spent_us = _field(self._folder / "cpu.stat", "usage_usec")
        return None if spent_us is None else spent_us / 1_000_000


class _V1(_V2):
    """The same of version 1, which has a folder per controller."""

    def memory_limit(self) -> int | None:
        # It counts the limits of the groups around this one too.
        return _field(self._folder / "memory" / "memory.stat", "hierarchical_memory_limit")

    def memory_used(self) -> int | None:
        memory = self._folder / "memory"
        used = _number(memory / "memory.usage_in_bytes")
        return None if used is None else used - (_field(memory / "memory.stat", "total_inactive_file") or 0)

    def cpu_limit(self) -> float | None:
        cpu = self._folder / "cpu"
        return _ratio(_text(cpu / "cpu.cfs_quota_us").strip(), _text(cpu / "cpu.cfs_period_us").strip())

    def cpu_s(self) -> float | None:
        spent_ns = _number(self._folder / "cpuacct" / "cpuacct.usage")
        return None if spent_ns is None else spent_ns / 1_000_000_000


def _ratio(quota: str, period: str) -> float | None:
    # Without a limit the quota is `max` or -1.
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


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
