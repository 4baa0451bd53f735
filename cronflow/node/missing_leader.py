"""Reports a missing leader to the alerts that ask for it: run by nodes that see no leader, and by every API.

Rule: it needs no leader and no node. Every process that finds the outage derives the same notification from the last
renewal, and the outbox gives each notification to one sender, so an outage is reported once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from cronflow.documents.notifications import leaderless_text, notification_of
from cronflow.documents.values import instant_text
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import SHORTEST_LEADERLESS
from cronflow.domain.cluster import node_name
from cronflow.node.role_loop import NodeRole, Wake
from cronflow.ports import AlertStore, Control, Outbox, StoreAdmin

LOOK_S = 5.0


class MissingLeader:
    """`posted` is called when there may be notifications to send. An API runs the `role`."""

    def __init__(
        self,
        alerts: AlertStore,
        outbox: Outbox,
        control: Control,
        store_admin: StoreAdmin,
        *,
        leader_renew_s: float,
        namespace: str,
        posted: Callable[[], None],
    ) -> None:
        self._alerts, self._outbox, self._control, self._store_admin = alerts, outbox, control, store_admin
        self._leader_renew = timedelta(seconds=leader_renew_s)
        self._namespace = namespace
        self._posted = posted
        self.role = NodeRole("missing leader", self._step, Wake())

    async def look(self) -> None:
        """Compare the leader's last renewal with MongoDB's clock, and put the notifications into the outbox."""
        leader = await self._control.leader()
        if leader is None:
            return
        # By MongoDB's clock: this process's own may be wrong, which would keep a node from leading.
        now = await self._store_admin.time()
        age = now - leader.renewed_at - self._leader_renew
        if age <= SHORTEST_LEADERLESS:
            return
        records = await self._alerts.find()
        # All processes see the same last renewal, so an outage is one subject.
        subject, since = f"term:{leader.term}@{instant_text(leader.renewed_at)}", leader.renewed_at
        text = leaderless_text(since, node_name(leader.holder), leader.term)
        found = [
            notification_of(record, AlertKind.NO_LEADER, subject, since, self._namespace, text, created_at=now)
            for record in records
            if record.alert.wants(AlertKind.NO_LEADER) and age > record.alert.no_leader_after
        ]
        if found:
            await self._outbox.put(found)
        if records:
            self._posted()

    async def _step(self) -> float:
        await self.look()
        return LOOK_S
