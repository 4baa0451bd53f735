"""All ports together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cronflow.ports.access import (
    AuditStore,
    KeyStore,
    RateLimiter,
    SecretStore,
    SessionStore,
    TicketStore,
    UserStore,
)
from cronflow.ports.alerting import AlertStore, Outbox, Signs
from cronflow.ports.clocks import Timepiece
from cronflow.ports.history import (
    Archive,
    Control,
    DeadLetters,
    JobStore,
    LateStore,
    LogStore,
    PlanStore,
    ResultStore,
    RunStore,
    Upkeep,
    VersionStore,
)
from cronflow.ports.motion import Bus, Election, Housekeeping, Membership, Queue
from cronflow.ports.telling import EventStore, Feed, RollupStore, Tails, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """All ports, as the composition root hands them out."""

    jobs: JobStore
    plans: PlanStore
    runs: RunStore
    versions: VersionStore
    late: LateStore
    results: ResultStore
    letters: DeadLetters
    logs: LogStore
    control: Control
    archive: Archive
    upkeep: Upkeep
    events: EventStore
    rollups: RollupStore
    totals: Totals
    election: Election
    membership: Membership
    queue: Queue
    bus: Bus
    housekeeping: Housekeeping
    users: UserStore
    sessions: SessionStore
    keys: KeyStore
    secrets: SecretStore
    audit: AuditStore
    alerts: AlertStore
    outbox: Outbox
    signs: Signs
    limiter: RateLimiter
    tickets: TicketStore
    feed: Feed
    tails: Tails
    timepieces: Mapping[str, Timepiece] = field(default_factory=dict)
