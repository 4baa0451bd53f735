"""The watch: whoever leads tells of nodes whose heartbeat has ended without a goodbye.

It tells, and does nothing else: what such a node had is found by `check_at`. Followers remember for a while who is
gone, for the case that it is the leader. A node is not called lost before two heartbeats would have come, because a
Redis that was wiped knows nobody at first. If its name is taken by its next start it is gone for certain: then one
heartbeat is enough, for a goodbye that is on its way.
"""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.cluster import Member
from cronflow.domain.events import NodeLeft, NodeLost, kind_of
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, EventSink, EventStore, Membership

ENDS = 100


class NodeMonitor:
    """The watch role."""

    def __init__(
        self,
        membership: Membership,
        events: EventStore,
        elector: Elector,
        clock: Clock,
        timings: Timings,
        emit: EventSink,
    ) -> None:
        self._membership, self._events = membership, events
        self._elector = elector
        self._clock = clock
        self._timings = timings
        self._emit = emit
        self._known: dict[str, Member] = {}
        self._gone: dict[str, tuple[Member, float]] = {}
        self.wake = Wake()

    @property
    def members(self) -> list[Member]:
        """Who was up when it last looked. May be read from any thread."""
        return list(self._known.values())

    async def step(self) -> float:
        """Compare who is up with who was."""
        present = {member.id: member for member in await self._membership.members()}
        now = self._clock.monotonic()
        for node in self._known.keys() - present.keys():
            self._gone[node] = (self._known[node], now)
        self._known = present
        forget = self._timings.leader_ttl + self._timings.failover_check
        self._gone = {
            node: (member, since)
            for node, (member, since) in self._gone.items()
            if node not in present and now - since < forget
        }
        names = {member.report.name for member in present.values()}
        sure = [
            node
            for node, (member, since) in self._gone.items()
            if now - since >= (self._timings.heartbeat if member.report.name in names else self._timings.stale_after)
        ]
        if sure and self._elector.tenure is not None:
            await self._emit_events(sure)
        return self._timings.heartbeat

    async def _emit_events(self, nodes: list[str]) -> None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        since = now - timedelta(seconds=2 * self._timings.failover_check)
        ends = await self._events.find(kinds={kind_of(NodeLeft), kind_of(NodeLost)}, since=since, limit=ENDS)
        for node in nodes:
            member, noticed = self._gone.pop(node)
            # Another leader may have noticed it a look before this one; what was told earlier is of an earlier start.
            earliest = now - timedelta(seconds=monotonic - noticed + 2 * self._timings.heartbeat)
            known = {
                end.event.node for end in ends if isinstance(end.event, NodeLeft | NodeLost) and end.at >= earliest
            }
            if member.report.name not in known:
                self._emit(NodeLost(member.report.name, max(member.held, member.report.in_flight)))
