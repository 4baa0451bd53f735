"""The smallest number of nodes, MIN_NODES: a new cluster gets its first leader only when so many nodes are up.

Rule: it holds back only the first leader of a cluster. A cluster that has had one keeps running with whatever is left,
down to one node, because stopping the rest would make an outage worse. The leader then reports that nodes are missing,
and when they are back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cronflow.domain.cluster import Member
from cronflow.domain.events import ClusterComplete, ClusterDegraded, ClusterIncomplete
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, Control, EventSink, Membership

NOT_READ = "it is not known yet whether the cluster has had a leader"


class MinimumNodes:
    """`elector` is a function, because the elector asks this for its reason. `minimum` 1: nothing is held back."""

    def __init__(
        self,
        membership: Membership,
        control: Control,
        elector: Callable[[], Elector],
        clock: Clock,
        timings: Timings,
        emit: EventSink,
        minimum: int,
    ) -> None:
        self._membership, self._control = membership, control
        self._elector = elector
        self._clock = clock
        self._timings = timings
        self._emit = emit
        self._minimum = minimum
        self._held: str | None = NOT_READ if minimum > 1 else None
        self._begun = minimum <= 1
        self._reported: int | None = None
        self._lacking_since: float | None = None
        self._degraded = False
        self.wake = Wake()

    def held(self) -> str | None:
        """Why this node may not lead yet, or None. May be called from any thread."""
        return self._held

    async def step(self) -> float:
        """Count the nodes."""
        if self._minimum <= 1:
            return self._timings.failover_check
        members = await self._membership.members()
        present = len({member.report.name for member in members})
        if not self._begun:
            await self._look_for_the_beginning(present)
        if self._elector().tenure is not None:
            self._report(present, members)
        else:
            self._degraded, self._lacking_since = False, None
        return self._timings.heartbeat

    async def _look_for_the_beginning(self, present: int) -> None:
        self._begun = present >= self._minimum or await self._control.leader() is not None
        self._held = None if self._begun else f"{present} of {self._minimum} nodes are up (MIN_NODES)"
        if self._begun:
            self._elector().wake.set()
        elif self._reported != present:
            self._reported = present
            self._emit(ClusterIncomplete(present, self._minimum))

    def _report(self, present: int, members: Sequence[Member]) -> None:
        """A node that restarts is not missing: as for a lost node, only two missed heartbeats count."""
        now = self._clock.monotonic()
        if present >= self._minimum:
            self._lacking_since = None
            if self._degraded:
                self._degraded = False
                self._emit(ClusterComplete(present))
            return
        if self._lacking_since is None:
            self._lacking_since = now
        if not self._degraded and now - self._lacking_since >= self._timings.stale_after:
            self._degraded = True
            names = sorted(member.report.name for member in members)
            self._emit(ClusterDegraded(present, self._minimum, ", ".join(names)))
