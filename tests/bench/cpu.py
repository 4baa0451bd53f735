"""The CPU time of processes: user and system time since their start."""

from __future__ import annotations

from collections.abc import Mapping

import psutil


class CpuMeter:
    """Measures the CPU time that processes use from its creation on, by name."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self._before = self._now()

    def seconds(self) -> dict[str, float]:
        """The seconds of CPU time of each process so far."""
        now = self._now()
        return {name: now[name] - self._before[name] for name in now}

    def _now(self) -> dict[str, float]:
        return {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}
