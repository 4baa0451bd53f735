"""What the memory backend keeps for people: versions of jobs, late outcomes, large results, and what became of dead
letters.

They look into the documents of `history`; none of their writes is one that a role of a node would wait for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import orjson

from cronflow.domain.run import Resolution, Settled
from cronflow.domain.version import Version
from cronflow.ports import LargeResult, LateResult
from cronflow.testing.faults import Faults, verb
from cronflow.testing.memory.stores import MONGO, MemoryRunStore


class MemoryVersionStore:
    """The VersionStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.versions: dict[tuple[str, int], Version] = {}

    @verb(MONGO, "versions.keep")
    def keep(self, versions: Sequence[Version]) -> None:
        """Insert the new ones."""
        for version in versions:
            self.versions.setdefault((version.job.name, version.ver), version)

    @verb(MONGO, "versions.of")
    def of(self, job: str, limit: int = 1000) -> list[Version]:
        """Filter, sort and cut."""
        found = [version for (name, _), version in sorted(self.versions.items(), key=lambda row: row[0]) if name == job]
        return found[-limit:]


class MemoryLateStore:
    """The LateStore port."""

    def __init__(self, faults: Faults, runs: MemoryRunStore) -> None:
        self.faults, self._runs = faults, runs

    @verb(MONGO, "late.of")
    def of(self, run: str) -> list[LateResult]:
        """Filter and sort."""
        return sorted((late for late in self._runs.late.values() if late.run == run), key=lambda late: late.at)


class MemoryResultStore:
    """The ResultStore port."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.results: dict[str, LargeResult] = {}

    @verb(MONGO, "results.keep")
    def keep(self, results: Sequence[LargeResult]) -> None:
        """Insert the new ones."""
        for result in results:
            self.results.setdefault(result.id, result)

    @verb(MONGO, "results.get")
    def get(self, ids: Collection[str]) -> dict[str, object]:
        """Look up."""
        return {name: orjson.loads(self.results[name].text) for name in ids if name in self.results}


class MemoryDeadLetters:
    """The DeadLetters port."""

    def __init__(self, faults: Faults, runs: MemoryRunStore) -> None:
        self.faults, self._runs = faults, runs

    @verb(MONGO, "letters.settle")
    def settle(self, runs: Collection[str], resolution: Resolution) -> set[str]:
        """Compare and set, one by one."""
        written = set()
        for name in runs:
            run = self._runs.runs.get(name)
            if run is None or run.is_open or (resolution.how is Settled.ACKNOWLEDGED and not run.is_dead):
                continue
            self._runs.runs[name] = replace(run, resolution=resolution)
            written.add(name)
        return written

    @verb(MONGO, "letters.count")
    def count(self, job: str | None = None) -> int:
        """Filter."""
        return sum(run.is_dead and job in (None, run.job) for run in self._runs.runs.values())
