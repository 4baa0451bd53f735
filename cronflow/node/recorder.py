"""The recorder: what a worker writes, in group commits.

Starts and ends of runs go to MongoDB, then the locks are released in Redis, then the run is off the node. The rule
it protects: an outcome is never written blindly. What does not match and was not written by this very finish is kept
as a late result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from cronflow.domain.run import Change
from cronflow.node.groupcommit import GroupCommit
from cronflow.node.loop import Outages
from cronflow.node.timings import Timings
from cronflow.ports import Backends, Clock, Hold, LateResult, LogLine

LINES_LINGER_S = 0.1
MOST_LINES_WAITING = 20_000

log = structlog.get_logger("cronflow.node")


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an attempt, to be written."""

    change: Change
    late: LateResult


class Recorder:
    """Four group commits of one node: starts, finishes, releases, log lines."""

    def __init__(self, backends: Backends, node: str, clock: Clock, timings: Timings, outages: Outages) -> None:
        self._backends = backends
        self._node = node
        linger = timings.group_commit
        self._starts = GroupCommit("starts", self._write_starts, clock, outages, linger)
        self._finishes = GroupCommit("finishes", self._write_finishes, clock, outages, linger)
        self._releases = GroupCommit("releases", self._write_releases, clock, outages, linger)
        self._lines = GroupCommit("log lines", self._write_lines, clock, outages, LINES_LINGER_S)

    def start_roles(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run the four loops in the group."""
        loops = (self._starts.run(), self._finishes.run(), self._releases.run(), self._lines.run())
        return [group.create_task(loop, name=f"group commit {k}") for k, loop in enumerate(loops)]

    async def start(self, change: Change) -> bool:
        """Record a start; False means that somebody else has the run."""
        return await self._starts.add(change)

    async def finish(self, finish: Finish) -> bool:
        """Record an end; False means that it came too late and was kept aside."""
        return await self._finishes.add(finish)

    async def release(self, hold: Hold) -> None:
        """Give the job lock back."""
        await self._releases.add(hold)

    def line(self, line: LogLine) -> asyncio.Future[None] | None:
        """Store a line of a run's log soon. None: too many are waiting already, this one is dropped."""
        return self._lines.put(line) if len(self._lines) < MOST_LINES_WAITING else None

    def hurry_lines(self) -> None:
        """Store the waiting lines at once."""
        self._lines.hurry()

    async def _write_starts(self, starts: Sequence[Change]) -> list[bool]:
        won = await self._backends.runs.apply(starts)
        return [change.run in won for change in starts]

    async def _write_finishes(self, finishes: Sequence[Finish]) -> list[bool]:
        # One change a run and batch: a doubled item may end twice on one node within the same milliseconds.
        results = [False] * len(finishes)
        rounds: list[dict[str, int]] = [{}]
        for k, finish in enumerate(finishes):
            free = next((chosen for chosen in rounds if finish.change.run not in chosen), None)
            if free is None:
                free = {}
                rounds.append(free)
            free[finish.change.run] = k
        for chosen in rounds:
            won = await self._backends.runs.apply([finishes[k].change for k in chosen.values()])
            for run, k in chosen.items():
                results[k] = run in won
        late = [finish.late for finish, won in zip(finishes, results, strict=True) if not won]
        if late:
            await self._backends.runs.keep_late(late)
            for result in late:
                log.warning("late result kept aside", run=result.run, fence=result.fence, outcome=result.ending.outcome)
        return results

    async def _write_releases(self, holds: Sequence[Hold]) -> list[None]:
        await self._backends.queue.release(self._node, holds)
        return [None] * len(holds)

    async def _write_lines(self, lines: Sequence[LogLine]) -> list[None]:
        await self._backends.logs.append(lines)
        return [None] * len(lines)
