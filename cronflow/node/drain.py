"""Draining on request: what a node does between `nodes drain` and `nodes undrain`.

It finishes running jobs, gives back runs that have not started at once, takes none, and leaves leadership to other
nodes. At the deadline, if there is one, it stops what still runs with `at_least_once`, and other nodes run it again. A
run with `at_most_once` goes on, because stopping it would lose it.

Rule: a node that is alone, or that no other node replaces, keeps leading, because a cluster without a leader records
nothing. The process goes on, and a node that restarts is still drained.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from cronflow.domain.cluster import node_name
from cronflow.domain.events import DrainDeadlinePassed, NodeDrained, NodeDraining, NodeUndrained
from cronflow.node.heartbeat import Heartbeat
from cronflow.node.role_loop import Leadership, Wake, Workload
from cronflow.node.timings import Timings
from cronflow.ports import Clock, Election, EventSink, Membership, discard_event

IDLE_S = 5.0
LOOK_S = 1.0
AT_DEADLINE = "its node was drained, and the deadline passed"

log = structlog.get_logger("cronflow.node")


class Drain:
    """Carries out the drain request that the heartbeat has received."""

    def __init__(
        self,
        membership: Membership,
        election: Election,
        heartbeat: Heartbeat,
        elector: Leadership,
        worker: Workload,
        clock: Clock,
        timings: Timings,
        *,
        node: str,
        emit: EventSink = discard_event,
    ) -> None:
        self._membership, self._election = membership, election
        self._heartbeat = heartbeat
        self._elector = elector
        self._worker = worker
        self._clock = clock
        self._timings = timings
        self._node = node
        self._leaderless_since: float | None = None
        self._emit = emit
        self._reported_empty = False
        self._deadline: datetime | None = None
        self.wake = Wake()

    async def step(self) -> float:
        """While the node is drained, check every second whether another node can lead."""
        asked = self._heartbeat.asked
        if asked != self._worker.paused:
            log.info("drain requested" if asked else "drain ended", node=self._node)
            self._worker.pause(asked)
            self._reported_empty = False
            self._deadline = None
            self._emit((NodeDraining if asked else NodeUndrained)(node_name(self._node)))
        if asked and self._worker.in_flight:
            await self._interrupt_at_deadline()
        if asked and not self._reported_empty and not self._worker.in_flight:
            self._reported_empty = True
            self._emit(NodeDrained(node_name(self._node)))
        willing = not asked or not await self._another_node_can_lead()
        if willing != self._elector.willing:
            self._elector.willing = willing
            self._elector.wake.set()
        return LOOK_S if asked else IDLE_S

    async def _interrupt_at_deadline(self) -> None:
        name = node_name(self._node)
        self._deadline = await self._membership.drain_deadline(name, self._deadline)
        if self._deadline is None or self._clock.now() < self._deadline:
            return
        stopped = self._worker.interrupt(AT_DEADLINE)
        if stopped:
            log.warning("drain deadline", interrupted=stopped)
            self._emit(DrainDeadlinePassed(name, stopped))

    async def _another_node_can_lead(self) -> bool:
        stale_after = timedelta(seconds=self._timings.stale_after)
        members = await self._membership.members()
        if all(member.id == self._node or member.draining or member.age > stale_after for member in members):
            return False
        now = self._clock.monotonic()
        if await self._election.holder() is not None:
            self._leaderless_since = None
        elif self._leaderless_since is None:
            self._leaderless_since = now
        return self._leaderless_since is None or now - self._leaderless_since < self._timings.failover_check
