"""The alert sender and the check for a missing leader, which nodes and API processes both run."""

from __future__ import annotations

from cronflow.node.alert_sender import AlertSender
from cronflow.node.missing_leader import MissingLeader
from cronflow.ports import Backends, Clock, EventSink, Meter, NotificationSender


def alert_sender(
    backends: Backends, notifier: NotificationSender, clock: Clock, emit: EventSink, meter: Meter
) -> AlertSender:
    return AlertSender(backends.outbox, backends.alerts, backends.store_admin, notifier, clock, emit, meter)


def missing_leader(backends: Backends, sender: AlertSender, *, leader_renew_s: float, namespace: str) -> MissingLeader:
    """Its notifications are sent at once by the sender. `leader_renew_s` in seconds."""
    return MissingLeader(
        backends.alerts,
        backends.outbox,
        backends.control,
        backends.store_admin,
        leader_renew_s=leader_renew_s,
        namespace=namespace,
        posted=sender.ask,
    )
