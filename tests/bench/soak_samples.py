"""Memory and CPU use of the processes of a soak over time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from tests.bench.cpu import CpuMeter


@dataclass(frozen=True, slots=True)
class Sample:
    """At a monotonic time: MiB of memory and seconds of CPU time so far, by process."""

    at: float
    memory: Mapping[str, float]
    cpu: Mapping[str, float]

    def line(self, before: Sample | None) -> str:
        """With the CPU use since an earlier sample, in percent of a core."""
        parts = []
        for name, memory in self.memory.items():
            used = ""
            if before is not None:
                used = f", {100 * (self.cpu[name] - before.cpu[name]) / (self.at - before.at):.0f} %"
            parts.append(f"{name} {memory:,.0f} MiB{used}")
        return "   ".join(parts)


class Sampler:
    """Samples processes by name."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self._meter = CpuMeter(processes)
        self.samples: list[Sample] = []

    def sample(self) -> str:
        """Take a sample. Returns it as a line, with the CPU use since the previous one."""
        memory = {name: process.memory_info().rss / 2**20 for name, process in self._processes.items()}
        before = self.samples[-1] if self.samples else None
        self.samples.append(Sample(time.monotonic(), memory, self._meter.seconds()))
        return self.samples[-1].line(before)

    def dead(self) -> list[str]:
        """The names of the processes that have ended."""
        return [
            name
            for name, process in self._processes.items()
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        ]

    def cpu_ms(self, runs: int) -> dict[str, float]:
        """Milliseconds of CPU time for each of so many runs, from the first sample to the last, by process."""
        first, last = self.samples[0], self.samples[-1]
        return {name: 1000 * (last.cpu[name] - first.cpu[name]) / runs for name in last.cpu}
