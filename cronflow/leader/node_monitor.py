"""The node monitor: the leader emits an event for each node whose heartbeat ended without a `NodeLeft`.

It only reports: the runs of such a node are found by `check_at`. Followers remember missing nodes for a while, in case
the missing node is the leader. A node counts as lost only after two missed heartbeats, because a Redis that was wiped
is empty at first. If a later incarnation has taken its name it is certainly gone; one heartbeat is then enough, in case
its `NodeLeft` is still on its way. The report of an earlier incarnation is outdated: a Redis that lost its latest
writes has brought it back. The node that replaced it may well be up, and reports again when the old report has expired.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from cronflow.domain.cluster import Member
from cronflow.domain.events import NodeLeft, NodeLost, kind_of
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.timings import Timings
from cronflow.ports import Clock, EventSink, EventStore, Membership

ENDS = 100
NEVER = datetime.min.replace(tzinfo=UTC)


class NodeMonitor:
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
        self._present: dict[str, Member] = {}
        self._gone: dict[str, tuple[Member, float]] = {}
        self._outdated: set[str] = set()
        self.wake = Wake()

    @property
    def members(self) -> list[Member]:
        """The nodes that were up in the last round. May be read from any thread."""
        return list(self._present.values())

    def missing(self, present: Collection[str]) -> set[str]:
        """The names of nodes that were up a moment ago and are not among those present. Redis may have been wiped, and
        they may be back at their next heartbeat.
        """
        limit = self._clock.monotonic() - self._timings.stale_after
        gone = {member.report.name for member, since in self._gone.values() if since > limit}
        return (gone | {member.report.name for member in self._present.values()}) - set(present)

    async def step(self) -> float:
        """Compare the present nodes with those of the last round."""
        present = {member.id: member for member in await self._membership.members()}
        now = self._clock.monotonic()
        for node in self._present.keys() - present.keys() - self._outdated:
            self._gone[node] = (self._present[node], now)
        self._present = present
        latest: dict[str, datetime] = {}
        for member in [*present.values(), *(member for member, _ in self._gone.values())]:
            latest[member.report.name] = max(latest.get(member.report.name, NEVER), _started_at(member))
        self._outdated = {node for node, member in present.items() if _started_at(member) < latest[member.report.name]}
        hidden = {present[node].report.name for node in self._outdated}
        forget = self._timings.leader_ttl + self._timings.failover_check
        self._gone = {
            node: (member, now if member.report.name in hidden else since)
            for node, (member, since) in self._gone.items()
            if node not in present and now - since < forget
        }
        names = {member.report.name for member in present.values()} - hidden
        lost = [
            node
            for node, (member, since) in self._gone.items()
            if now - since >= (self._timings.heartbeat if member.report.name in names else self._timings.stale_after)
        ]
        if lost and self._elector.tenure is not None:
            await self._emit_events(lost)
        return self._timings.heartbeat

    async def _emit_events(self, nodes: list[str]) -> None:
        now, monotonic = self._clock.now(), self._clock.monotonic()
        since = now - timedelta(seconds=2 * self._timings.failover_check)
        ends = await self._events.find(kinds={kind_of(NodeLeft), kind_of(NodeLost)}, since=since, limit=ENDS)
        for node in nodes:
            member, noticed = self._gone.pop(node)
            # Another leader may have reported it one round earlier; older events are about an earlier incarnation.
            earliest = now - timedelta(seconds=monotonic - noticed + 2 * self._timings.heartbeat)
            reported = {
                end.event.node for end in ends if isinstance(end.event, NodeLeft | NodeLost) and end.at >= earliest
            }
            if member.report.name not in reported:
                self._emit(NodeLost(member.report.name, max(member.held, member.report.in_flight)))


def _started_at(member: Member) -> datetime:
    """The reports of old versions may lack it."""
    return member.report.started_at or NEVER
